"""Kernels are compiled once a machine, not by every worker process."""

from __future__ import annotations

import pytest
from reference.random_documents import random_counts

from sdem_dist import MultinomialNB, write_corpus
from sdem_dist.cluster import connected
from sdem_dist.engine.events import Compiled, LanesEnded


def compilations() -> tuple[int, int]:
    """Return how often this process has compiled the main kernel, and how often it has loaded it."""
    from sdem_dist.kernels.multinomial import run_documents

    stats = run_documents.stats
    return sum(stats.cache_misses.values()), sum(stats.cache_hits.values())


@pytest.mark.slow
def test_one_worker_of_a_machine_compiles_and_the_others_load(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    X, y = random_counts(300, 30, 3)
    corpus = write_corpus(tmp_path / "c.zarr", X, y)
    events: list = []
    with connected(n_workers=3) as client:
        MultinomialNB(n_epochs=1).fit(corpus, client=client, callbacks=[events.append])
        found = client.run(compilations)
    assert sorted(found.values()) == [(0, 1), (0, 1), (1, 0)]
    kinds = [type(event) for event in events]
    assert kinds.index(Compiled) < kinds.index(LanesEnded)
    assert events[kinds.index(Compiled)].seconds > 0
