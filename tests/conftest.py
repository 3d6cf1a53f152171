"""Settings of all tests."""

from __future__ import annotations

import sys

import pytest
from hypothesis import settings

# The first call of a kernel compiles it, which no deadline for one example could allow for.
settings.register_profile("sdem", deadline=None)
settings.load_profile("sdem")


@pytest.fixture(autouse=True)
def _no_scheduler_left_behind():
    """Forget a Dask client that has gone without saying so: it would decide where later tests compute."""
    yield
    if "distributed" in sys.modules:
        import dask
        from distributed import Client

        try:
            Client.current()
        except ValueError:
            dask.config.config.pop("scheduler", None)
