"""The folder of real corpora, which slow tests read."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def corpora() -> Path:
    if "SDEM_CORPORA" not in os.environ:
        pytest.skip("set SDEM_CORPORA to the folder of the real corpora")
    return Path(os.environ["SDEM_CORPORA"])
