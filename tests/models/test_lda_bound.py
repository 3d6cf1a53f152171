"""What LDAClassifier calls nll and perplexity, against sums over all topics of all words."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from reference.random_documents import topic_counts
from scipy.special import digamma, gammaln, logsumexp

from sdem_dist import LDAClassifier, MultinomialNB
from sdem_dist.kernels import lda as variational


def exact(counts, beta, alpha):
    """Return ln of the sum over z of p(words, z); beta is p(word | topic) of shape (n_words, n_topics)."""
    words = np.repeat(np.arange(len(counts)), counts)
    n_topics, n = beta.shape[1], len(words)
    prior = gammaln(n_topics * alpha) - gammaln(n + n_topics * alpha) - n_topics * gammaln(alpha)
    z = np.array(list(product(range(n_topics), repeat=n)))
    sizes = (z[:, :, None] == np.arange(n_topics)).sum(axis=1)
    return prior + logsumexp(gammaln(sizes + alpha).sum(axis=1) + np.log(beta[words, z]).sum(axis=1))


def fitted(alpha, **settings):
    """Return a fitted classifier, documents of ten words, their labels, and the exact ln p(y, d)."""
    X, y, _ = topic_counts(200)
    model = LDAClassifier(loss="nll", doc_topic_prior=alpha, n_epochs=3, random_state=0, **settings).fit(X, y)
    rows = []
    for row in X.toarray()[:12].astype(int):
        words = np.repeat(np.arange(len(row)), row)[:10]
        rows.append(np.bincount(words, minlength=len(row)))
    rows, n_topics = np.array(rows), model.n_components
    beta = model.components_.reshape(2, n_topics, -1)
    joint = [[exact(row, beta[k].T, alpha) + model.class_log_prior_[k] for k in range(2)] for row in rows]
    return model, rows, y[:12], np.array(joint)


@pytest.mark.parametrize("inference", ["map", "gibbs"])
@pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0])
def test_nll_and_perplexity_are_bounds_and_close(inference, alpha):
    model, rows, y, joint = fitted(alpha, inference=inference)
    bound = model.predict_joint_log_proba(rows)
    assert (bound <= joint + 1e-9).all()
    each = np.arange(12)
    np.testing.assert_allclose(bound[each, y], joint[each, y], atol=1.0)
    found = model.evaluate(rows, y)
    nll = -joint[each, y].mean()
    perplexity = np.exp(-logsumexp(joint, axis=1).sum() / rows.sum())
    assert nll <= found["nll"] <= nll + 0.3
    assert perplexity <= found["perplexity"] <= 1.05 * perplexity


def test_particles_estimate_it():
    model, rows, y, joint = fitted(1.0, inference="gibbs", occurrences="each", n_particles=2_000)
    np.testing.assert_allclose(model.predict_joint_log_proba(rows), joint, atol=0.1)
    assert model.evaluate(rows, y)["nll"] == pytest.approx(-joint[np.arange(12), y].mean(), abs=0.05)


def test_with_one_topic_it_is_exact():
    X, y, _ = topic_counts(200)
    same = {"loss": "ncll", "steps": "paper", "merge": "sum", "batch_size": 25, "n_epochs": 2, "n_lanes": 4}
    ours = LDAClassifier(n_components=1, doc_topic_prior=5.0, **same).fit(X, y)
    theirs = MultinomialNB(weighting="counts", validation_fraction=0.0, **same).fit(X, y)
    for name in ("nll", "perplexity"):
        assert ours.evaluate(X, y)[name] == pytest.approx(theirs.evaluate(X, y)[name], rel=1e-8)


def test_sweeps_raise_the_bound():
    rng = np.random.default_rng(0)
    beta, counts = rng.dirichlet(np.full(30, 0.3), 4).T.copy(), rng.integers(1, 5, 30).astype(float)
    gammas = [rng.uniform(0.5, 20.0, 4)] * 6
    bounds = [variational.bound_document(beta, counts, 0.5, n, gamma.copy()) for n, gamma in enumerate(gammas)]
    assert (np.diff(bounds) > 0).all()


def test_digamma():
    x = np.concatenate([np.logspace(-6, 6, 200), [1.4616321449683623]])
    np.testing.assert_allclose([variational.digamma(v) for v in x], digamma(x), rtol=1e-12, atol=3e-14)
