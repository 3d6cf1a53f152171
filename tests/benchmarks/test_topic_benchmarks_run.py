"""The benchmarks of topic models run, on little data."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parent))

import choose_topic_defaults
import reviews
import supervised_lda
import topic_likelihood
import topic_speed

from sdem_dist import LatentDirichletAllocation


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(40, 0.2), 2)
    y = rng.integers(0, 2, 300)
    X = sp.csr_matrix(np.array([rng.multinomial(40, topics[k]) for k in y]))
    whole = reviews.Reviews(X, y, 3.0 + 2 * y + rng.normal(size=300))
    return tuple(whole.take(rows) for rows in reviews.halves(300))


def test_both_measures_from_counts_and_logarithms(parts, capsys):
    supervised_lda.both(*parts, seeds=1)
    shown = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in shown] == [
        "polarity AUC, raw", "stars R2, raw", "polarity AUC, log1p", "stars R2, log1p",
    ]  # fmt: skip


def test_sweeps_and_sparsity(parts, capsys):
    supervised_lda.sweep(*parts, "n_layers", (1, 3), n_components=4)
    supervised_lda.sparsity(*parts, (1.001, 0.5))
    shown = capsys.readouterr().out
    assert shown.count("AUC") == 2
    assert shown.count("hold 90 % of the mass") == 2


def test_words_held_out(parts):
    model = LatentDirichletAllocation(n_components=3, n_epochs=2)
    line = topic_likelihood.row("ours", model, model.alpha, *parts, parts[1].X[:5])
    assert line.startswith("ours: -")


def test_speed(parts, capsys):
    assert topic_speed.epoch_seconds(parts[0]) > 0
    topic_speed.growth(lambda train, n_epochs, **settings: float(len(train.y)), parts[0])
    assert "240 documents: 240.000 s" in capsys.readouterr().out
    if find_spec("jax") is not None:
        assert topic_speed.automatic(parts[0], batch=50, n_batches=2) > 0


def test_lists_of_numbers():
    assert choose_topic_defaults.numbers(".1,3") == [0.1, 3.0]
