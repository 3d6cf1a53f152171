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
import scale
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


def test_scale_makes_a_source_of_perturbed_copies(tmp_path, monkeypatch):
    originals = [("positive", "a b c d e f g h i j"), ("negative", "k l m n o p q r s t")]
    monkeypatch.setattr(scale, "reviews", lambda: iter(originals))
    path = tmp_path / "source.tsv"
    assert scale.write_source(path, 10) == 2
    lines = path.read_text("utf-8").splitlines()
    assert lines[:2] == ["\t".join(pair) for pair in originals]
    assert len(lines) == 10
    assert len(set(lines)) > 2
    for label, text in (line.split("\t") for line in lines):
        assert set(text.split()) <= set(dict(originals)[label].split())


def test_the_corpora_are_named_by_the_environment(monkeypatch):
    monkeypatch.delenv("SDEM_CORPORA", raising=False)
    with pytest.raises(FileNotFoundError, match="SDEM_CORPORA"):
        corpora.folder()
