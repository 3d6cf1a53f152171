"""A fold may have all documents of a class: the model without it knows the class, in memory as in a corpus."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import sdem_dist as sd

RNG = np.random.default_rng(0)
ESTIMATORS = [
    sd.LDAClassifier(n_components=2, n_epochs=2),
    sd.EMMixtureClassifier(components="multinomial"),
    sd.ManyClassNB(),
]


def documents(y):
    y = np.array(y)
    X = RNG.poisson(0.3, (len(y), 12)).astype(float)
    X[np.arange(len(y)), y] += 6
    return X, np.array(list("abcdefgh"))[y]


ALIKE = documents([3, 4, 5] * 30 + [0, 1, 2])
"""Of three folds each lacks one class."""
UNLIKE = documents([0, 1, 2, 3] * 20 + [4, 5])
"""Folds lack different numbers of classes."""


@pytest.mark.parametrize(("X", "y"), [ALIKE, UNLIKE], ids=["alike", "unlike"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda of: type(of).__name__)
def test_columns_are_of_the_classes_of_all_documents(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sd.CorpusSearchCV(estimator, {}, cv=3, refit=False).fit(X, y)
    names, counts = np.unique(y, return_counts=True)
    np.testing.assert_array_equal(found.classes_, names)
    assert found.oof_proba_.shape == (len(y), len(names))
    alone, own = np.isin(y, names[counts == 1]), np.searchsorted(names, y)
    assert (found.oof_proba_[np.arange(len(y)), own][alone] > 0.0).all()
    assert (found.trials_[0].scores["log-loss"] < 2.0).all()
    right = names[found.oof_proba_.argmax(axis=1)] == y
    assert right[~alone].mean() > 0.85
    of_folds = [right[found.oof_folds_ == fold].mean() for fold in range(3)]
    np.testing.assert_allclose(found.trials_[0].scores["accuracy"], of_folds)


def test_suspects_and_nested_scores_know_all_classes():
    X, y = ALIKE
    suspects = sd.label_suspects(X, y, estimator=sd.ManyClassNB(), cv=3, n=3)
    assert set(suspects.labels) == {"a", "b", "c"}
    nested = sd.CorpusSearchCV(sd.ManyClassNB(), {}, cv=3, metric="accuracy", nested=True).fit(X, y)
    np.testing.assert_allclose(nested.nested_scores_, nested.trials_[0].scores["accuracy"])
    nested = sd.CorpusSearchCV(sd.ManyClassNB(), {}, cv=3, nested=True).fit(X, y)
    assert (nested.nested_scores_ > -2.0).all()


def test_held_out_corpora_of_other_classes_are_refused(tmp_path):
    X, y = UNLIKE
    for name, rows in (("all", slice(None)), ("few", np.flatnonzero(y > "a"))):
        sd.write_corpus(tmp_path / name, X[rows], y[rows])
    whole, few = (sd.open_corpus(tmp_path / name) for name in ("all", "few"))
    with pytest.raises(ValueError, match="class"):
        sd.cross_validate(ESTIMATORS[0], whole, cv=few)
