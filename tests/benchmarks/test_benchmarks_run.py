"""The benchmarks run, on documents small enough for a test; what they measure is read by people, not asserted."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parent))

import accuracy
import choose_defaults
import corpora
import large
import lda
import speed


@pytest.fixture
def split():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(60, 0.1), size=3)
    y = rng.integers(3, size=120)
    X = sp.csr_matrix(np.array([rng.multinomial(30, topics[k]) for k in y]))
    return corpora.Split(X[:90], y[:90], X[90:], y[90:])


def test_accuracy_prints_a_row_for_every_corpus_and_a_column_for_every_classifier(split):
    rows = {"toy": accuracy.row(split, seeds=[0], n_epochs=2)}
    assert set(rows["toy"]) == set(accuracy.PEERS) | set(accuracy.OURS)
    assert all(value > 0.6 for value in rows["toy"].values())
    assert accuracy.table(rows).count("\n") == 2


def test_speed_reports_what_it_reached(split):
    from sklearn.svm import LinearSVC

    assert "reached after" in speed.against("LinearSVC", LinearSVC(), split, repeats=1)
    assert "ratio" in speed.sequential_epoch(split, repeats=1)


def test_defaults_are_chosen_on_held_out_thirds(split):
    weighted = corpora.tfidf(split, norm=3.0)
    assert np.allclose(np.sqrt(weighted.X.multiply(weighted.X).sum(axis=1)), 3.0)
    assert 0.6 < choose_defaults.cross_validated(weighted, one_fold=False, n_epochs=2) <= 1.0


def test_classes_with_topics(split):
    assert set(lda.ROWS) > {"NCLL-LDA", "NLL-LDA", "naive Bayes, NCLL", "LinearSVC"}
    found = lda.accuracies(split, lda.ROWS["NCLL-LDA"], starts=2)
    assert len(found) == 2 and min(found) > 0.6
    assert lda.spread([0.5, 0.7]) == "0.6000 (0.5000 to 0.7000)"
    for settings in lda.CANDIDATES.values():
        assert 0.4 < lda.cross_validated(split, {**settings, "n_epochs": 2}, folds=2) <= 1.0
    assert "3 classes, seconds an epoch" in lda.skipping(split, repeats=1, n_epochs=1)
    assert all(rate > 0 for rate in lda.sampler(split, 3, repeats=1, sweeps=2).values())


def test_the_supervised_peer_of_topics(split):
    pytest.importorskip("tomotopy", reason="the peer is measured where it is installed")
    assert 0.0 <= lda.slda(split, 0, n_topics=3, iterations=20) <= 1.0


def test_large_corpora_are_perturbed_copies(tmp_path, monkeypatch):
    X = sp.csr_matrix(np.random.default_rng(0).poisson(1.0, (7, 50)).astype(np.uint8))
    monkeypatch.setattr(large, "reviews", lambda where: (X, np.array(list("aabbcca"))))
    found = list(large.batches(tmp_path, 20))
    assert sum(rows.shape[0] for rows, _ in found) == 20 == sum(len(labels) for _, labels in found)
    assert (found[0][0] != X).nnz == 0
    assert 0 < found[1][0].nnz < X.nnz
    assert (found[1][0] > X).nnz == 0
    assert large.corpus_of(tmp_path, 20).n_documents == large.corpus_of(tmp_path, 20).n_documents == 20


def test_the_corpora_are_named_by_the_environment(monkeypatch):
    monkeypatch.delenv("SDEM_CORPORA", raising=False)
    with pytest.raises(FileNotFoundError, match="SDEM_CORPORA"):
        corpora.folder()
