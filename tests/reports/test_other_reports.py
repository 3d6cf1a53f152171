"""Reports of regressors, mixtures and topic models."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import r2_score

from sdem_dist import GaussianRegressor, LatentDirichletAllocation, MultinomialMixture, cluster_scores, write_corpus

RNG = np.random.default_rng(1)
Y = RNG.integers(0, 2, 90)
X = sp.csr_matrix(RNG.poisson(0.3 + 3 * (np.arange(10) % 2 == Y[:, None])))
WORDS = ["<b>", "\x1b[1m", "a\tb", *"defghij"]


def test_numbers():
    table = RNG.normal(size=(60, 3))
    target = table @ [1.0, -2.0, 0.5] + 3 + 0.1 * RNG.normal(size=60)
    model = GaussianRegressor().fit(table, target)
    report = model.report(table, target)
    assert report.figures["r2"] == pytest.approx(r2_score(target, model.predict(table)))
    assert report.figures["rmse"] ** 2 == pytest.approx(report.figures["mse"])
    worst = report.errors[0]
    assert abs(model.predict(table) - target).argmax() == worst
    assert "R2" in str(report) and "<table>" in report._repr_html_()


def test_clusters_with_and_without_labels(tmp_path):
    corpus = write_corpus(tmp_path / "c", X, Y, vocabulary=WORDS)
    model = MultinomialMixture(2, random_state=0).fit(corpus)
    report = model.report(corpus)
    assert report.figures == pytest.approx(cluster_scores(Y[_order(corpus)], model.predict(corpus)))
    assert model.report(X).figures == {}
    assert report.sizes.sum() == 90
    assert "\x1b" not in str(report) and "<b>" not in report._repr_html_()


def _order(corpus):
    return np.concatenate([corpus.ids(s) for s in range(len(corpus.header.shards))])


def test_prevalence_is_the_mean_of_each_class(tmp_path):
    corpus = write_corpus(tmp_path / "c", X, Y, vocabulary=WORDS)
    model = LatentDirichletAllocation(3, n_epochs=2).fit(corpus)
    report, theta, labels = model.report(corpus), model.transform(corpus), Y[_order(corpus)]
    np.testing.assert_allclose(report.prevalence, [theta[labels == k].mean(axis=0) for k in (0, 1)])
    np.testing.assert_allclose(report.shares, theta.mean(axis=0))
    assert report.examples(1, 1) == [theta[:, 1].argmax()]
    assert model.report(X).prevalence is None
    assert "<b>" not in report._repr_html_() and "\x1b" not in str(report)
    assert report.to_frame().shape[0] == 3


def test_labels_and_targets_that_do_not_fit_their_documents():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(20, 2))
    y = table @ [1.0, 2.0]
    model = GaussianRegressor().fit(table, y)
    for odd in (y[:5], np.repeat(y, 2)):
        with pytest.raises(ValueError, match=f"X has 20 documents, and y has {len(odd)} values"):
            model.report(table, odd)
    with pytest.raises(ValueError, match=r"y holds nan for document 3"):
        model.report(table, np.where(np.arange(20) == 3, np.nan, y))
    counts = sp.csr_matrix(rng.poisson(1.0, (20, 4)))
    mixture = MultinomialMixture(2).fit(counts)
    with pytest.raises(ValueError, match="X has 20 documents, and y has 5 values"):
        mixture.report(counts, np.zeros(5))
    names = np.array(["a", "b"] * 10, object)
    some = np.where(np.arange(20) < 4, None, names)
    found = mixture.report(counts, some)
    assert found.labels[:6].tolist() == [-1, -1, -1, -1, 0, 1] and found.classes.tolist() == ["a", "b"]
    assert mixture.report(counts, np.full(20, -1)).labels is None
