"""Clusters as a user has them, against scikit-learn; k-means against plain versions."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from reference.random_documents import documents_of, one_round
from reference.trained_bits import kept
from scipy.special import logsumexp
from sklearn.cluster import KMeans as Peer
from sklearn.datasets import load_digits, load_iris
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as PeerMixture

from sdem_dist import GaussianMixture, KMeans, Mixture, MultinomialMixture, cluster_scores
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.documents import DenseDocuments
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.em import FORMS, Centres, EmForm, k_means, means
from sdem_dist.reports.page import model_facts
from sdem_dist.reports.top_words import word_weights
from sdem_dist.testing import check_learner

DIGITS = load_digits().data
RNG = np.random.default_rng(0)
TOPICS, Y = RNG.dirichlet(np.full(60, 0.2), 4), RNG.integers(0, 4, 600)
COUNTS = sp.csr_matrix(np.array([RNG.multinomial(30, TOPICS[y]) for y in Y]))
IRIS = load_iris().data
TEXTS = ["goal in the match", "late goal", "the bank raises rates", "rates of the bank"] * 5


def same_partition(a, b):
    return len(set(zip(a.tolist(), b.tolist(), strict=True))) == len(set(a.tolist())) == len(set(b.tolist()))


def test_digits_are_as_near_to_centres_as_scikit_learn_s():
    peer, ours = Peer(10, n_init=10, random_state=0).fit(DIGITS), KMeans(10).fit(DIGITS)
    assert ours.inertia_ <= 1.01 * peer.inertia_
    nearest = ((DIGITS[:, None] - ours.cluster_centers_[None]) ** 2).sum(axis=2).min(axis=1)
    assert ours.inertia_ == pytest.approx(nearest.sum(), rel=1e-9)
    assert ours.score(DIGITS) == pytest.approx(-ours.inertia_, rel=1e-9)


def test_counts_are_weighed_as_scikit_learn_does():
    rows = TfidfTransformer(sublinear_tf=True).fit_transform(COUNTS)
    ours, peer = KMeans(4).fit(COUNTS), Peer(4, n_init=10, random_state=0).fit(rows)
    assert ours.inertia_ == pytest.approx(peer.inertia_, rel=1e-5)
    assert same_partition(ours.labels_, peer.labels_)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_words_of_clusters_are_those_that_set_centres_apart(metric, tmp_path):
    rare = [f"{text} aa{i}" for i, text in enumerate(TEXTS)]  # words of one document, first by the alphabet
    model = KMeans(2, metric=metric).fit(rare)
    assert same_partition(model.labels_, np.array([0, 0, 1, 1] * 5))
    goals, banks = (int(c) for c in model.predict([TEXTS[0], TEXTS[2]]))
    for of in (model, kept(model, tmp_path / "model")):
        said = word_weights(of, 2)
        assert next(iter(said[goals])) == "goal" and set(said[banks]) == {"bank", "rates"}
        assert next(iter(said[banks])) in model.report(rare).words[banks].split()[:2]


def test_spherical_clusters_do_not_depend_on_lengths():
    model = KMeans(4, metric="cosine", weighting="counts").fit(COUNTS)
    assert same_partition(model.labels_, Y)
    np.testing.assert_allclose((model.cluster_centers_**2).sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(COUNTS * 7), model.labels_)
    cosines = np.cos(np.zeros(1)) - 0.5 * model.transform(COUNTS) ** 2  # |x - c|^2 = 2 - 2 cos
    rows = COUNTS.toarray() / np.sqrt((COUNTS.toarray() ** 2).sum(axis=1))[:, None]
    np.testing.assert_allclose(cosines, rows @ model.cluster_centers_.T, atol=1e-10)


@pytest.mark.parametrize(("settings", "X", "said"), [
    ({"weighting": "tfidf"}, COUNTS * 0.5, "needs integers, but"),
    ({"weighting": "tfidf"}, DIGITS, "needs integers, but"),
    ({}, np.where(np.arange(64) == 3, np.nan, DIGITS), "contains NaN"),
])  # fmt: skip
def test_what_makes_no_sense_is_named(settings, X, said):
    np.testing.assert_raises_regex(ValueError, said, KMeans(**settings).fit, X)


TRAININGS = {
    "k-means": {},
    "online": {"em": "online", "batch_size": 100},
    "stochastic": {"em": "stochastic"},
    "variational, annealed": {"em": "variational", "annealing": 3.0},
}


@pytest.fixture(scope="module")
def fitted():
    return {name: MultinomialMixture(4, n_init=5, n_epochs=20, **kind).fit(COUNTS) for name, kind in TRAININGS.items()}


@pytest.mark.parametrize("name", TRAININGS)
def test_topics_are_found_and_files_keep_them(fitted, name, tmp_path):
    model = fitted[name]
    assert adjusted_rand_score(Y, model.labels_) > 0.95 and (model.predict(COUNTS) == model.labels_).all()
    proba = model.predict_proba(COUNTS)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (proba.argmax(axis=1) == model.labels_).all()
    joint = COUNTS @ model.component_log_prob_.T + model.component_log_prior_
    np.testing.assert_allclose(model.score_samples(COUNTS), logsumexp(joint, axis=1), rtol=1e-10)
    assert model.history_[-1]["nll"] == pytest.approx(-model.score(COUNTS), rel=1e-10)
    assert kept(model, tmp_path / "m").lower_bound_ == model.lower_bound_


def test_scores_of_clusters():
    scores = cluster_scores(["a", "a", "b", "b"], [0, 0, 0, 1])
    assert scores["purity"] == 0.75 and 0 < scores["nmi"] < 1 and 0 <= scores["ari"] < 1
    assert cluster_scores([0, 0, 1], [5, 5, 2]) == {"purity": 1.0, "nmi": 1.0, "ari": 1.0}


def test_agreement_is_with_one_class_a_document_and_with_nothing_else():
    model = MultinomialMixture(4, n_epochs=2).fit(COUNTS)
    n = COUNTS.shape[0]
    alone = model.evaluate(COUNTS)
    for y in (np.eye(n, 3, dtype=int), [("a",), ("a", "b")] * (n // 2), np.linspace(0.0, 1.0, n), np.zeros((n, 2))):
        assert model.evaluate(COUNTS, y) == alone
    assert model.evaluate(COUNTS, np.arange(n)[:, None] % 2.0) == model.evaluate(COUNTS, np.arange(n) % 2) != alone


@pytest.mark.parametrize("weight_alpha", [0.0, 1.0, 40.0])
@pytest.mark.parametrize("alpha", [0.0, 0.1, 2.0])
def test_em_ends_at_expected_counts_with_the_pseudo_counts_that_are_set(alpha, weight_alpha):
    settings = {"alpha": alpha, "weight_alpha": weight_alpha}
    model = MultinomialMixture(4, n_init=1, n_epochs=300, **settings).fit(COUNTS)
    shares = model.predict_proba(COUNTS)
    weights = shares.sum(axis=0) + weight_alpha
    words = shares.T @ COUNTS + alpha
    np.testing.assert_allclose(np.exp(model.component_log_prior_), weights / weights.sum(), atol=1e-6)
    expected = words / words.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(model.component_log_prob_), expected, atol=1e-6)
    assert np.isfinite(model.lower_bound_) and np.isfinite(model.predict_proba(np.eye(COUNTS.shape[1]))).all()


def test_restarts_are_chosen_by_their_objective():
    settings = {"init_documents": 20, "n_init_epochs": 30, "n_epochs": 1}
    # Start i of several is the only start of another seed.
    starts = ({"n_init": 4}, *({"n_init": 1, "random_state": i << 20} for i in range(4)))
    several, *each = (MultinomialMixture(8, **start, **settings).fit(COUNTS).lower_bound_ for start in starts)
    assert max(each) > each[0] > min(each) and several == pytest.approx(max(each), rel=1e-12)


def test_a_step_of_online_em_goes_some_way_to_the_maximum_of_its_documents():
    model = MultinomialMixture(4, n_init=1, n_epochs=1).fit(COUNTS)
    em, state = model.learner_, model.state_._replace(t=600.0)  # after one round of these
    corpus = MemoryCorpus(COUNTS, None, (), shuffle=False)
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
    scores = {k: MultinomialMixture(k, n_init=3, n_epochs=15).fit(COUNTS).bic(COUNTS) for k in (2, 4, 8)}
    assert min(scores, key=scores.get) == 4
    model = MultinomialMixture(2, n_init=1, n_epochs=2).fit(COUNTS)
    n_parameters = 1 + 2 * (COUNTS.shape[1] - 1)
    assert model.bic(COUNTS) == pytest.approx(n_parameters * np.log(600) - 2 * model.score_samples(COUNTS).sum())


def test_a_model_says_whether_it_has_converged(tmp_path):
    long = MultinomialMixture(4, n_init=1, n_epochs=40).fit(COUNTS)
    short = MultinomialMixture(6, n_init=1, init_documents=6, n_init_epochs=1, n_epochs=2, evaluate_every=1).fit(COUNTS)
    assert short.history_[-2]["nll"] - short.history_[-1]["nll"] > 1e-3
    assert long.converged_ is True
    assert short.converged_ is False
    assert MultinomialMixture(4, n_init=1, evaluate_every=0).fit(COUNTS).converged_ is None
    assert model_facts(long)["epochs"] == "40, converged"
    assert "not converged: increase n_epochs" in model_facts(short)["epochs"]
    assert kept(short, tmp_path / "m").converged_ is False


@pytest.mark.parametrize("shape", ["diag", "full"])
def test_from_where_scikit_learn_ends_nothing_moves(shape):
    """The parameters are its parameters: score, bic, samples' probabilities."""
    settings = {"covariance_type": shape, "reg_covar": 0, "tol": 1e-12, "max_iter": 2000}
    peer = PeerMixture(3, n_init=10, random_state=0, **settings).fit(IRIS)
    ours = GaussianMixture(3, covariance_type=shape, alpha=1e-9, n_epochs=1000, n_init=20, evaluate_every=0).fit(IRIS)
    if ours.score(IRIS) > peer.score(IRIS) + 1e-6:  # a better maximum than the peer's
        precisions = 1 / ours.covariances_ if shape == "diag" else np.linalg.inv(ours.covariances_)
        start = {"weights_init": ours.weights_, "means_init": ours.means_, "precisions_init": precisions}
        peer = PeerMixture(3, **start, **settings).fit(IRIS)
    order = [int(((ours.means_ - m) ** 2).sum(axis=1).argmin()) for m in peer.means_]
    np.testing.assert_allclose(ours.weights_[order], peer.weights_, atol=1e-4)
    np.testing.assert_allclose(ours.means_[order], peer.means_, atol=1e-3)
    np.testing.assert_allclose(ours.covariances_[order], peer.covariances_, atol=1e-3)
    assert ours.score(IRIS) == pytest.approx(peer.score(IRIS), abs=1e-6)
    assert ours.bic(IRIS) == pytest.approx(peer.bic(IRIS), abs=1e-2)
    np.testing.assert_allclose(ours.predict_proba(IRIS)[:, order], peer.predict_proba(IRIS), atol=1e-3)


DRAWN = {
    "gaussian": lambda rng, scales: rng.normal(np.log(scales), 0.5),
    "exponential": lambda rng, scales: rng.exponential(scales),
    "poisson": lambda rng, scales: rng.poisson(scales) * 1.0,
    "bernoulli": lambda rng, scales: 1.0 * (rng.random((600, 40)) < np.tile(np.where(scales > 1.0, 0.8, 0.2), 10)),
}
OF_ALL = [(family, em) for family in DRAWN for em in FORMS if em != "variational" or family in list(DRAWN)[:2]]


@pytest.mark.parametrize(("components", "em"), OF_ALL)
def test_clusters_are_found_by_every_em_and_kept_in_files(components, em, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    scales = np.array([[1.0, 30.0, 1.0, 30], [30.0, 1.0, 30.0, 1.0], [30.0, 30.0, 900.0, 900.0]])[y]
    X = DRAWN[components](rng, scales)
    model = Mixture(3, components=components, em=em, n_init=3, n_epochs=20, alpha=0.01).fit(X)
    expected = np.stack([X[model.labels_ == k].mean(axis=0) for k in range(3)])
    np.testing.assert_allclose(model.means_, expected, rtol=0.2, atol=0.2)
    assert adjusted_rand_score(y, model.labels_) > 0.85
    loaded = kept(model, tmp_path / "m")
    assert loaded.lower_bound_ == model.lower_bound_
    rows, clusters = loaded.sample(3000, random_state=0)
    assert (loaded.predict(rows) == clusters).mean() > 0.85
    np.testing.assert_allclose(np.bincount(clusters) / 3000, model.weights_, atol=0.05)


def test_missing_values_are_summed_out():
    X = np.where(np.random.default_rng(1).random(IRIS.shape) < 0.15, np.nan, IRIS)
    model = GaussianMixture(3, n_init=5).fit(X)
    assert adjusted_rand_score(load_iris().target, model.labels_) > 0.6
    assert np.isfinite(model.score_samples(np.full((1, 4), np.nan))).all()


RNG_LAWS = np.random.default_rng(0)
N, WIDTH, K = 60, 7, 4
TABLE = RNG_LAWS.normal(size=(N, WIDTH)) + 3.0 * RNG_LAWS.integers(0, 3, N)[:, None] + 100.0
COUNTS_LAWS = sp.csr_matrix(RNG_LAWS.poisson(0.8, (N, WIDTH)))


def counted(weights=None):
    return documents_of(COUNTS_LAWS.astype(np.float64), weights=weights)


def lloyd(model):
    return SdEM(model, N, ClosedForm(EmForm("hard")))


def learner_of(kind):
    if kind == "table":
        return lloyd(Centres(K, WIDTH, location=tuple(TABLE.mean(axis=0)))), DenseDocuments(TABLE)
    return lloyd(Centres(K, WIDTH, kind == "cosine")), counted(RNG_LAWS.uniform(0.5, 1.5, N))


@pytest.mark.parametrize("kind", ["table", "counts", "cosine"])
def test_laws(kind):
    learner, documents = learner_of(kind)
    rows = learner.prepare(documents).to_csr().toarray()
    check_learner(learner, documents, state=learner.model.start(rows[:K]), additive=True)


@pytest.mark.parametrize("kind", ["table", "counts", "cosine"])
def test_no_iteration_raises_the_distances(kind):
    learner, documents = learner_of(kind)
    prepared = learner.prepare(documents)
    state, found = learner.model.start(prepared.to_csr().toarray()[:K]), []
    for _ in range(10):
        found.append(learner.metrics(learner.evaluate(state, [prepared]))["distance"])
        state = one_round(learner, state, documents)
    assert (np.diff(found) <= 1e-12).all() and found[-1] < found[0]
    if kind == "cosine":
        np.testing.assert_allclose((state.centres**2).sum(axis=1), 1.0)


def test_an_iteration_is_that_of_a_plain_loop_where_an_empty_cluster_keeps_its_centre():
    learner, documents = learner_of("counts")
    rows, weights = COUNTS_LAWS.toarray().astype(float), documents.weights
    centres = np.vstack([rows[: K - 1], np.full(WIDTH, 1e3)])
    after = one_round(learner, learner.model.start(centres), documents)
    nearest = np.array([((x - centres) ** 2).sum(axis=1).argmin() for x in rows])
    for k in range(K - 1):
        mine = nearest == k
        expected = np.average(rows[mine], axis=0, weights=weights[mine])
        np.testing.assert_allclose(after.centres[k], expected, rtol=1e-12, atol=1e-12)
        assert after.counts[k] == pytest.approx(weights[mine].sum())
    np.testing.assert_array_equal(after.centres[-1], centres[-1])


def test_every_cluster_far_from_the_others_gets_a_start():
    """k-means++ draws far rows: with clusters far apart one start suffices, and drawing at random would miss some."""
    truth = np.arange(200) % 8
    X = sp.csr_matrix(np.eye(8)[truth] * 100.0 + RNG_LAWS.random((200, 8)))
    for seed in range(5):
        found = k_means(X, np.ones(200), 8, seed, tries=1)
        assert len(set(zip(found.labels.tolist(), truth.tolist(), strict=True))) == 8
    assert k_means(X, np.ones(200), 8, 4, tries=1).centres.tobytes() == found.centres.tobytes()


def test_rows_of_zeros_have_no_direction():
    found = means(np.array([[0.0, 0.0], [3.0, 4.0]]), np.ones(2), np.ones((2, 2)), True)
    assert found.tolist() == [[0.0, 0.0], [0.6, 0.8]]


def test_missing_values_are_named():
    learner, _ = learner_of("table")
    table = TABLE.copy()
    table[5, 2] = np.nan
    with pytest.raises(ValueError, match=r"row 5 \(counting from 0\) has a missing value"):
        learner.prepare(DenseDocuments(table))
