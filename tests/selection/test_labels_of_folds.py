"""Documents without a label are neither right nor wrong, and no suspects; a fold may have all documents of a class."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import sdem_dist as sd
from sdem_dist import CorpusSearchCV, GaussianNB, MultinomialNB, cross_validate, label_suspects, write_corpus

RNG = np.random.default_rng(0)
N = 240
TOPICS = RNG.dirichlet(np.full(60, 0.1), 3)
Y = RNG.integers(0, 3, N)
X = sp.csr_matrix(np.array([RNG.multinomial(20, TOPICS[k]) for k in Y]))
KNOWN = RNG.random(N) < 0.4
HALF = np.where(KNOWN, Y, -1)


def model(**given):
    return MultinomialNB(unlabelled=-1, unlabelled_weight=0.003, n_epochs=2, validation_fraction=0.0, n_jobs=1, **given)


@pytest.fixture(scope="module")
def half_labelled(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("half") / "half.zarr", X, HALF, unlabelled=-1)


def test_cross_validation_leaves_them_out(half_labelled):
    of_corpus, in_memory = cross_validate(model(), half_labelled, cv=3), cross_validate(model(), X, HALF, cv=3)
    for found in (of_corpus, in_memory):
        assert found.scores["accuracy"].min() > 0.95
        assert found.scores["log-loss"].max() < 0.6
    assert in_memory.proba.shape == (N, 3)
    table = RNG.normal(Y[:, None], 0.2, (N, 2))
    assert cross_validate(GaussianNB(unlabelled=-1), table, HALF, cv=3).scores["accuracy"].min() > 0.9


def test_searches_leave_them_out(half_labelled):
    names = np.array(["a", "b", "c"])[Y]
    for labels, missing in ((HALF, -1), (np.where(KNOWN, names, ""), "")):
        search = CorpusSearchCV(model().set_params(unlabelled=missing), {"alpha": [1.0]}, cv=3).fit(X, labels)
        assert search.best_score_ > -0.6
        assert search.best_estimator_.score(X, labels) > 0.95
    held_out = cross_validate(model(), X, HALF, cv=(X[:100], HALF[:100]))
    assert held_out.scores["accuracy"].min() > 0.95


def test_no_document_without_a_label_is_suspected(half_labelled):
    of_corpus = label_suspects(half_labelled, estimator=model(), n=None)
    in_memory = label_suspects(X, HALF, estimator=model(), n=None)
    assert len(of_corpus) == len(in_memory) == in_memory.n_documents == KNOWN.sum()
    assert KNOWN[in_memory.documents].all()
    np.testing.assert_array_equal(in_memory.labels, Y[in_memory.documents])


def test_scores_are_of_labelled_documents(half_labelled):
    fitted = model().fit(X, HALF)
    wrong = np.where(np.arange(N) % 5 == 0, (HALF + 1) % 3, HALF) * KNOWN + HALF * ~KNOWN
    for labels in (HALF, wrong):
        assert fitted.score(X, labels) == pytest.approx(fitted.evaluate(X, labels)["accuracy"])
        assert fitted.score(X, labels) == pytest.approx(fitted.score(X[KNOWN], labels[KNOWN]))
    assert fitted.score(half_labelled) == pytest.approx(fitted.score(X, HALF))
    weights = RNG.integers(0, 3, N).astype(float)
    weighted = fitted.score(X[KNOWN], wrong[KNOWN], weights[KNOWN])
    assert fitted.score(X, wrong, weights) == pytest.approx(weighted)
    assert fitted.score(X, HALF[:, None]) == pytest.approx(fitted.score(X, HALF))
    with pytest.raises(ValueError, match="none of the documents to be scored has a label"):
        fitted.score(X, np.full(N, -1))


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
