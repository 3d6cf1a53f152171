"""Topic models have the same bits on any number of threads, processes and workers."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from reference import trained_topics

from sdem_dist import write_corpus
from sdem_dist.estimators.fitting import SMALL

TESTS = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def bits_of(tmp_path_factory):
    """A function from a place to what a process of its own trained there."""
    rng = np.random.default_rng(0)
    n, n_words, n_classes = 2_500, 300, 3
    y = rng.integers(0, n_classes, n)
    topics = rng.dirichlet(np.full(n_words, 0.3), n_classes)
    X = sp.csr_matrix(np.array([rng.multinomial(60, 0.5 * topics[k] + 0.5 / n_words) for k in y]))
    assert X.nnz > SMALL  # else training in this process would take one thread
    path = tmp_path_factory.mktemp("bits") / "corpus.zarr"
    write_corpus(path, X, y, targets=np.column_stack([y, rng.normal(size=n)]), shard_documents=350)

    @cache
    def run(where: str) -> dict:
        result = subprocess.run(
            [sys.executable, "-m", "reference.trained_topics", str(path), where],
            cwd=TESTS, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


def test_settings_differ_so_that_equality_means_something(bits_of):
    assert len(set(bits_of("threads-1").values())) == len(trained_topics.SETTINGS)


@pytest.mark.parametrize("where", ["threads-2", "cluster-2", pytest.param("cluster-4", marks=pytest.mark.slow)])
def test_same_bits_wherever_it_runs(bits_of, where):
    assert bits_of(where) == bits_of("threads-1")
