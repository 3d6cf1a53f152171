"""A corpus, its undisturbed training, and a folder for sabotage."""

from pathlib import Path

import pytest
from faults.clusters import model
from reference.random_documents import random_counts
from reference.trained_bits import bits

from sdem_dist import write_corpus
from sdem_dist.engine import rounds


@pytest.fixture(autouse=True)
def dealt_out(monkeypatch):
    """Rounds go to all workers, however short they are: lanes of a test take no time."""
    monkeypatch.setattr(rounds, "SHORT_TASK", 0.0)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    X, y = random_counts(600, 50, 3, seed=7)
    return write_corpus(tmp_path_factory.mktemp("faults") / "corpus.zarr", X, y, shard_documents=64)


@pytest.fixture(scope="session")
def undisturbed(corpus) -> str:
    """The bits of a run that nobody disturbs, in one thread of this process."""
    return bits(model(n_jobs=1).fit(corpus))


@pytest.fixture
def folder(tmp_path) -> Path:
    """Where a saboteur finds its plan and leaves its records."""
    return tmp_path / "sabotage"
