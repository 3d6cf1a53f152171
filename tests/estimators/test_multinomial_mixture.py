"""`MultinomialMixture`, as a user has it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from reference.trained_bits import bits
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score

from sdem_dist import MultinomialMixture, cluster_scores, load_model, open_corpus, write_corpus
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.learners.protocol import Lane
from sdem_dist.models.em import EmForm
from sdem_dist.reports.model_card import model_facts


def documents(n=600, n_words=60, n_topics=4, seed=0):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.2), n_topics)
    y = rng.integers(0, n_topics, n)
    return sp.csr_matrix(np.array([rng.multinomial(30, topics[k]) for k in y])), y


X, Y = documents()
KINDS = {
    "k-means": {},
    "examples": {"init": "examples"},
    "online": {"em": "online", "batch_size": 100},
    "stochastic": {"em": "stochastic"},
    "variational, annealed": {"em": "variational", "annealing": 3.0},
}


@pytest.fixture(scope="module")
def fitted():
    return {name: MultinomialMixture(4, n_init=5, n_epochs=20, **kind).fit(X) for name, kind in KINDS.items()}


@pytest.mark.parametrize("name", KINDS)
def test_topics_are_found_and_files_keep_them(fitted, name, tmp_path):
    model = fitted[name]
    assert adjusted_rand_score(Y, model.labels_) > 0.95
    assert (model.predict(X) == model.labels_).all()
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (proba.argmax(axis=1) == model.labels_).all()
    joint = X @ model.component_log_prob_.T + model.component_log_prior_
    np.testing.assert_allclose(model.score_samples(X), logsumexp(joint, axis=1), rtol=1e-10)
    assert model.history_[-1]["nll"] == pytest.approx(-model.score(X), rel=1e-10)
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert bits(loaded) == bits(model) and loaded.lower_bound_ == model.lower_bound_
    np.testing.assert_array_equal(loaded.predict_proba(X), proba)


def test_scores_of_clusters():
    scores = cluster_scores(["a", "a", "b", "b"], [0, 0, 0, 1])
    assert scores["purity"] == 0.75
    assert 0 < scores["nmi"] < 1 and 0 <= scores["ari"] < 1
    assert cluster_scores([0, 0, 1], [5, 5, 2]) == {"purity": 1.0, "nmi": 1.0, "ari": 1.0}


def test_agreement_is_with_one_class_a_document_and_with_nothing_else():
    model = MultinomialMixture(4, n_epochs=2).fit(X)
    n = X.shape[0]
    alone = model.evaluate(X)
    for y in (np.eye(n, 3, dtype=int), [("a",), ("a", "b")] * (n // 2), np.linspace(0.0, 1.0, n), np.zeros((n, 2))):
        assert model.evaluate(X, y) == alone
    assert model.evaluate(X, np.arange(n)[:, None] % 2.0) == model.evaluate(X, np.arange(n) % 2) != alone


def test_em_never_lowers_its_objective():
    bounds = [
        MultinomialMixture(4, n_init=1, n_epochs=n, init="examples", random_state=3).fit(X).lower_bound_
        for n in range(1, 15)
    ]
    assert (np.diff(bounds) >= -1e-9).all()
    assert bounds[-1] > bounds[0]


@pytest.mark.parametrize("init", ["k-means", "examples"])
@pytest.mark.parametrize("weight_alpha", [0.0, 1.0, 40.0])
@pytest.mark.parametrize("alpha", [0.0, 0.1, 2.0])
def test_em_ends_at_expected_counts_with_the_pseudo_counts_that_are_set(alpha, weight_alpha, init):
    settings = {"alpha": alpha, "weight_alpha": weight_alpha, "init": init}
    model = MultinomialMixture(4, n_init=1, n_epochs=300, **settings).fit(X)
    shares = model.predict_proba(X)
    weights = shares.sum(axis=0) + weight_alpha
    words = shares.T @ X + alpha
    np.testing.assert_allclose(np.exp(model.component_log_prior_), weights / weights.sum(), atol=1e-6)
    expected = words / words.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(model.component_log_prob_), expected, atol=1e-6)
    assert np.isfinite(model.lower_bound_)
    assert np.isfinite(model.predict_proba(np.eye(X.shape[1]))).all()


def test_restarts_are_chosen_by_their_objective():
    settings = {"init": "examples", "n_init_epochs": 30, "n_epochs": 1}
    several = MultinomialMixture(8, n_init=4, **settings).fit(X).lower_bound_
    # Start i of several is the only start of another seed.
    each = [MultinomialMixture(8, n_init=1, random_state=i << 20, **settings).fit(X).lower_bound_ for i in range(4)]
    assert max(each) > each[0] > min(each)
    assert several == pytest.approx(max(each), rel=1e-12)


def test_a_step_of_online_em_goes_some_way_to_the_maximum_of_its_documents():
    model = MultinomialMixture(4, n_init=1, n_epochs=1).fit(X)
    em, state = model.learner_, model.state_._replace(t=600.0)  # after one round of these
    corpus = MemoryCorpus(X, None, (), shuffle=False)
    for stop in (600, 300):
        part = em.map(state, em.prepare(corpus.read(0, stop)), Lane(0, 0, 0, 0, stop, stop))
        rho = (600 / stop + 2) ** -0.7
        best = np.full(state.words.shape, em.model.alpha)
        best[part.words] += 600 / stop * part.rows
        after = replace(em, rule=replace(em.rule, form=EmForm("online"))).update(state, part)
        np.testing.assert_allclose(after.words, (1 - rho) * state.words + rho * best, rtol=1e-12)
        np.testing.assert_allclose(after.totals, after.words.sum(axis=0), rtol=1e-12)
        assert after.t == 600 + stop


def test_the_right_number_of_clusters_has_the_best_bic():
    scores = {k: MultinomialMixture(k, n_init=3, n_epochs=15).fit(X).bic(X) for k in (2, 4, 8)}
    assert min(scores, key=scores.get) == 4
    model = MultinomialMixture(2, n_init=1, n_epochs=2).fit(X)
    n_parameters = 1 + 2 * (X.shape[1] - 1)
    assert model.bic(X) == pytest.approx(n_parameters * np.log(600) - 2 * model.score_samples(X).sum())


def test_weights_are_copies():
    weights = np.where(np.arange(600) < 100, 2.0, 1.0)
    whole = MultinomialMixture(4, n_init=3).fit(sp.vstack([X, X[:100]]))
    weighted = MultinomialMixture(4, n_init=3).fit(X, sample_weight=weights)
    assert adjusted_rand_score(whole.labels_[:600], weighted.labels_) > 0.99
    order = [np.flatnonzero(whole.labels_[:600] == k)[0] for k in range(4)]
    np.testing.assert_allclose(
        whole.component_log_prob_, weighted.component_log_prob_[weighted.labels_[order]], atol=0.05
    )


def test_labels_of_a_corpus_play_no_part(tmp_path):
    plain = write_corpus(tmp_path / "plain", X)
    labelled = write_corpus(tmp_path / "labelled", X, Y)
    assert open_corpus(tmp_path / "plain").header.classes == ()
    a, b = (MultinomialMixture(4, n_init=1, n_epochs=3).fit(c) for c in (plain, labelled))
    np.testing.assert_array_equal(a.component_log_prob_, b.component_log_prob_)
    assert a.predict(plain).shape == (600,) and not hasattr(a, "labels_")
    assert a.score(labelled) == pytest.approx(a.score(X), rel=1e-12)
    assert a.bic(labelled) == pytest.approx(a.bic(X), rel=1e-12)


def test_a_model_says_whether_it_has_converged(tmp_path):
    long = MultinomialMixture(4, n_init=1, n_epochs=40).fit(X)
    short = MultinomialMixture(6, n_init=1, init="examples", n_init_epochs=1, n_epochs=2, evaluate_every=1).fit(X)
    gain = short.history_[-2]["nll"] - short.history_[-1]["nll"]
    assert gain > 1e-3
    assert long.converged_ is True
    assert short.converged_ is False
    assert MultinomialMixture(4, n_init=1, evaluate_every=0).fit(X).converged_ is None
    assert model_facts(long)["epochs"] == "40, converged"
    assert "not converged: more n_epochs" in model_facts(short)["epochs"]
    short.save(tmp_path / "m")
    assert load_model(tmp_path / "m").converged_ is False
