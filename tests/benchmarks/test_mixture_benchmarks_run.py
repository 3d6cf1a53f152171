"""The benchmarks of mixtures run, on little data."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import corpora
import mixtures
import numpy as np
import pytest
import scipy.sparse as sp


@pytest.fixture
def split():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(60, 0.1), size=3)
    y = rng.integers(3, size=120)
    X = sp.csr_matrix(np.array([rng.multinomial(30, topics[k]) for k in y]))
    return corpora.Split(X[:90], y[:90], X[90:], y[90:])


def test_clusters(split):
    lines = mixtures.clusters(split, 3, n_init=2, seeds=1)
    assert len(lines) == 4 and all("NMI, ARI, purity" in line for line in lines)


def test_text(split):
    assert mixtures.text("toy", split, (2,), seeds=1).count("|") == 7


def test_digits():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    X = rng.gamma(1.0 + (y[:, None] == np.arange(6) % 3))
    assert mixtures.acceleration(X, y, 2, 20).count(" of 20") == 4
    assert "ratio" in mixtures.time_of_passes(X, y, 2, "float32", passes=2)
    assert mixtures.defaults(X, y, 1).count("accelerated") == 4
