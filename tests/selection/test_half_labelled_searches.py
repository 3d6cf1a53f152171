"""Documents without a label are neither right nor wrong, and no suspects: in memory as on a corpus."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

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
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("half") / "half.zarr", X, HALF, unlabelled=-1)


def test_cross_validation_leaves_them_out(corpus):
    of_corpus, in_memory = cross_validate(model(), corpus, cv=3), cross_validate(model(), X, HALF, cv=3)
    for found in (of_corpus, in_memory):
        assert found.scores["accuracy"].min() > 0.95
        assert found.scores["log-loss"].max() < 0.6
    assert in_memory.proba.shape == (N, 3)
    table = RNG.normal(Y[:, None], 0.2, (N, 2))
    assert cross_validate(GaussianNB(unlabelled=-1), table, HALF, cv=3).scores["accuracy"].min() > 0.9


def test_searches_leave_them_out(corpus):
    names = np.array(["a", "b", "c"])[Y]
    for labels, missing in ((HALF, -1), (np.where(KNOWN, names, ""), "")):
        search = CorpusSearchCV(model().set_params(unlabelled=missing), {"alpha": [1.0]}, cv=3).fit(X, labels)
        assert search.trials_[0].predictions.counted.rows.size == KNOWN.sum()
        assert search.best_score_ > -0.6
        assert search.best_estimator_.score(X, labels) > 0.95
    held_out = cross_validate(model(), X, HALF, cv=(X[:100], HALF[:100]))
    assert held_out.scores["accuracy"].min() > 0.95


def test_no_document_without_a_label_is_suspected(corpus):
    of_corpus = label_suspects(corpus, estimator=model(), n=None)
    in_memory = label_suspects(X, HALF, estimator=model(), n=None)
    assert len(of_corpus) == len(in_memory) == in_memory.n_documents == KNOWN.sum()
    assert KNOWN[in_memory.documents].all()
    np.testing.assert_array_equal(in_memory.labels, Y[in_memory.documents])


def test_scores_are_of_labelled_documents(corpus):
    fitted = model().fit(X, HALF)
    wrong = np.where(np.arange(N) % 5 == 0, (HALF + 1) % 3, HALF) * KNOWN + HALF * ~KNOWN
    for labels in (HALF, wrong):
        assert fitted.score(X, labels) == pytest.approx(fitted.evaluate(X, labels)["accuracy"])
        assert fitted.score(X, labels) == pytest.approx(fitted.score(X[KNOWN], labels[KNOWN]))
    assert fitted.score(corpus) == pytest.approx(fitted.score(X, HALF))
    weights = RNG.integers(0, 3, N).astype(float)
    weighted = fitted.score(X[KNOWN], wrong[KNOWN], weights[KNOWN])
    assert fitted.score(X, wrong, weights) == pytest.approx(weighted)
    assert fitted.score(X, HALF[:, None]) == pytest.approx(fitted.score(X, HALF))
    with pytest.raises(ValueError, match="none of the documents to be scored has a label"):
        fitted.score(X, np.full(N, -1))
