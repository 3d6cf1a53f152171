"""EM of mixtures against slow and plain versions, and what its forms promise: of counts and of columns of a table."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.special import digamma, gammaln, logsumexp
from scipy.stats import norm

import sdem_dist as sd
from sdem_dist import ModelError, TrainingError
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.families import Bernoulli, Categorical, Exponential, Gaussian, GaussianFull, Poisson
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.losses import NAMED
from sdem_dist.models.em import EXACT, EmForm
from sdem_dist.models.feature_classes import FeatureClasses, started
from sdem_dist.models.features import Block, FeatureModel
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.word_counts import state_at

N, OWNERS = 90, (0, 0, 1, 1, 1)
RNG = np.random.default_rng(0)
LABELS = np.arange(N) % 2
RISING = [EmForm(), EmForm("hard"), EmForm("generalised", 0.3), EmForm("variational")]
FAMILIES = {"gaussian": Gaussian(alpha=0.5), "exponential": Exponential(0.5)}
OTHERS = {"poisson": Poisson(0.5), "bernoulli": Bernoulli(0.5, 1.5), "full": GaussianFull(2, 0.5)}
OF_ALL = [(family, form, gaps) for family in FAMILIES for form in RISING for gaps in (False, form is not RISING[-1])]
OF_ALL += [(family, form, gaps) for family in OTHERS for form in RISING[:3] for gaps in (False, family != "full")]


@pytest.fixture(autouse=True)
def same_numbers():
    """Draw the same documents in a test, whatever runs before it."""
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


def lane(epoch=0, first=0, n=N):
    return Lane(epoch, 0, 0, first, first + n, N)


def table(gaps=False, hidden=True):
    X = RNG.gamma(1.0 + 2.0 * RNG.integers(0, 2, N)[:, None] + LABELS[:, None], 1.0, (N, 2))
    if gaps:
        X[RNG.random(X.shape) < 0.2] = np.nan
    labels = np.where(RNG.random(N) < 0.3, -1, LABELS) if hidden else LABELS
    return DenseDocuments(X, labels.astype(np.int32), RNG.uniform(0.5, 1.5, N))


def of_table(family, documents, form=EXACT, n_classes=2, owners=OWNERS):
    model = FeatureModel((Block(family, (0, 1)),))
    weight = float(documents.weights.sum())
    learner = SdEM(FeatureClasses(model, Classes(n_classes, owners)), weight, ClosedForm(form, monitored=True))
    rows = model.features(np.where(np.isnan(documents.values), 1.0, documents.values)).statistics
    mu = np.stack([rows[RNG.integers(0, N, 20)].mean(axis=0) for _ in owners])
    return learner, started(RNG.dirichlet(np.ones(len(owners))) * weight, mu)


def words(owners=OWNERS, n_classes=2, form=EXACT):
    X = RNG.poisson(RNG.gamma(0.5, 2.0, (6, 12))[2 * LABELS + RNG.integers(0, 2, N)] + 0.1)
    labels = np.where(RNG.random(N) < 0.2, -1, LABELS) if n_classes > 1 else None
    classes = ("a", "b") if n_classes > 1 else ()
    corpus = MemoryCorpus(X, labels, classes, weights=RNG.uniform(0.5, 1.5, N), shuffle=False)
    learner = SdEM(NaiveBayes(12, Classes(n_classes, owners), 0.3), N, ClosedForm(form), seed=3)
    state = state_at(RNG.gamma(2.0, 1.0, (12, len(owners))) + 0.3, RNG.gamma(5.0, 1.0, len(owners)))
    return learner, state, corpus.read(0, N)


def objective_of_words(learner, state, documents: Documents) -> float:
    """What no iteration may lower, written out."""
    model, form, K = learner.model, learner.rule.form, learner.model.n_columns
    rows, totals, counts = state.words, state.words.sum(axis=0), state.class_counts
    prior = 0.0
    if form.kind == "variational":
        log_words, log_shares = digamma(rows) - digamma(totals), digamma(counts) - digamma(counts.sum())
        volume = lambda a: gammaln(a).sum(axis=0) - gammaln(a.sum(axis=0))  # noqa: E731
        for q, p, log in ((rows, np.full_like(rows, model.alpha), log_words), (counts, np.ones(K), log_shares)):
            prior -= float((((q - p) * log).sum(axis=0) - volume(q) + volume(p)).sum())
    else:
        log_words, log_shares = np.log(rows / totals), np.log(counts / counts.sum())
        prior = model.alpha * log_words.sum() + log_shares.sum()
    scores = documents.to_csr() @ log_words + log_shares
    labels = np.zeros(N, int) if documents.labels is None else documents.labels
    scores[(labels[:, None] != np.array(model.head.component_class)) & (labels[:, None] >= 0)] = -np.inf
    values = scores.max(axis=1) if form.kind == "hard" else logsumexp(scores, axis=1)
    return float((documents.weights * values).sum() + prior)


@pytest.mark.parametrize("form", RISING, ids=lambda f: f.kind)
@pytest.mark.parametrize("classes", [1, 2])
def test_the_objective_of_counts_never_falls(form, classes):
    owners = OWNERS if classes == 2 else (0,) * 4
    learner, state, documents = words(owners, classes, form)
    prepared, found = learner.prepare(documents), []
    for epoch in range(25):
        found.append(objective_of_words(learner, state, documents))
        state = learner.update(state, learner.map(state, prepared, lane(epoch)))
    assert (np.diff(found) >= -1e-9).all() and found[-1] > found[0] + 1


@pytest.mark.parametrize(("family", "form", "gaps"), OF_ALL, ids=lambda value: getattr(value, "kind", value))
def test_the_objective_of_tables_never_rises(family, form, gaps):
    documents = table(gaps)
    learner, state = of_table((FAMILIES | OTHERS)[family], documents, form)
    prepared = learner.prepare(documents)
    found = []
    for epoch in range(25):
        state = learner.update(state, learner.map(state, prepared, lane(epoch)))
        found.append(state.best_objective)
    assert (np.diff(found) <= 1e-12).all() and found[-1] < found[0] - 1e-3


def test_components_that_classes_share_are_one():
    """Saul and Lee 2001, equation 1: p(x | y) = sum_z p(z | y) p(x | z)."""
    documents, owners, found = table(gaps=True), (0, 0, 1, 1), []
    (learner, state), (of_words, counts, texts) = of_table(Gaussian(alpha=0.5), documents, owners=owners), words(owners)
    shared = Classes(2, owners, shared=True)
    learner, of_words = (replace(one, model=replace(one.model, head=shared)) for one in (learner, of_words))
    state = state._replace(mu=np.tile(state.mu[:2], (2, 1)))
    rows, prepared = learner.prepare(documents), of_words.prepare(texts)
    for epoch in range(25):
        state = learner.update(state, learner.map(state, rows, lane(epoch)))
        counts = of_words.update(counts, of_words.map(counts, prepared, lane(epoch)))
        found.append(state.best_objective)
        np.testing.assert_array_equal(state.mu[:2], state.mu[2:])
        np.testing.assert_array_equal(counts.words[:, :2], counts.words[:, 2:])
    assert (np.diff(found) <= 1e-12).all() and found[-1] < found[0] - 1e-3
    assert (np.abs(state.class_counts[:2] - state.class_counts[2:]) > 1.0).all()


def test_what_has_no_posterior_of_theta_is_named():
    without = (Poisson(), False, "which Poisson does not have"), (Gaussian(), True, "missing values")
    for family, gaps, problem in without:
        learner, state = of_table(family, table(gaps), EmForm("variational"))
        with pytest.raises((ModelError, ValueError), match=f"em='variational' .*{problem}"):
            learner.map(state, learner.prepare(table(gaps)), lane())


def test_the_posterior_of_theta_is_what_integrals_say():
    """E[theta], E[A] and the volume of the conjugate posterior, against sums over a grid."""
    mu, weight = np.array([1.3]), 7.0
    theta, partition, log_volume = Exponential().posterior_of_theta(mu[None], np.array([weight]))

    def density(t):
        return np.exp(weight * (mu[0] * t + np.log(-t)))

    volume = quad(density, -20, 0)[0]
    assert log_volume[0] == pytest.approx(np.log(volume), rel=1e-8)
    assert theta[0, 0] == pytest.approx(quad(lambda t: t * density(t), -20, 0)[0] / volume, rel=1e-8)
    assert partition[0] == pytest.approx(quad(lambda t: -np.log(-t) * density(t), -20, 0)[0] / volume, rel=1e-8)

    mu, weight = np.array([0.4, 1.5]), 9.0
    family = Gaussian(alpha=1.0)
    theta, partition, log_volume = family.posterior_of_theta(mu[None], np.array([weight]))

    def integral(f):
        def at(first, second):
            t = np.array([first, second])
            a = float(family.log_partition(t))
            return f(t, a) * np.exp(weight * (mu @ t - a))

        return dblquad(at, -6, -1e-3, -12, 12, epsabs=1e-9)[0]

    volume = integral(lambda t, a: 1.0)
    assert log_volume[0] == pytest.approx(np.log(volume), abs=1e-5)
    np.testing.assert_allclose(theta[0], [integral(lambda t, a, i=i: t[i]) / volume for i in (0, 1)], rtol=1e-4)
    assert partition[0] == pytest.approx(integral(lambda t, a: a) / volume, rel=1e-4)


def test_a_draw_is_the_document_s_own_whatever_the_lanes():
    learner, state, documents = words((0,) * 4, 1, EmForm("stochastic"))
    whole = learner.map(state, learner.prepare(documents), lane())
    parts = []
    for first, stop in ((0, 31), (31, 64), (64, N)):
        parts.append(learner.map(state, learner.prepare(documents[first:stop]), lane(0, first, stop - first)))
    together = learner.combine(parts)
    np.testing.assert_array_equal(together.words, whole.words)
    np.testing.assert_allclose(together.rows, whole.rows, rtol=1e-12)
    assert (learner.map(state, learner.prepare(documents), lane(1)).class_counts != whole.class_counts).any()


def test_draws_have_the_posterior_for_their_mean():
    scores = np.log(np.array([[0.6, 0.3, 0.1]]))
    keys = RNG.integers(0, 1 << 63, 20_000, np.uint64) * np.uint64(2)
    shares, values = EmForm("stochastic").responsibilities(np.repeat(scores, len(keys), axis=0), 1.0, keys)
    assert ((shares == 0) | (shares == 1)).all() and (shares.sum(axis=1) == 1).all()
    np.testing.assert_allclose(shares.mean(axis=0), np.exp(scores[0]), atol=0.015)
    np.testing.assert_allclose(values, 0.0, atol=1e-12)
    # A component that cannot be is never drawn, not even by the largest number.
    last = np.array([np.iinfo(np.uint64).max])
    assert EmForm("stochastic").responsibilities(np.array([[0.0, -np.inf]]), 1.0, last)[0].tolist() == [[1.0, 0.0]]


def test_annealing_flattens_posteriors_and_ends_at_em():
    hot = EmForm(annealing=8.0)
    temperatures = [hot.temperature(epoch) for epoch in range(12)]
    assert temperatures[0] == 8.0 and (np.diff(temperatures) <= 0).all() and temperatures[-1] == 1.0
    scores = RNG.normal(size=(5, 3)) * 4
    keys = np.zeros(5, np.uint64)
    shares, values = hot.responsibilities(scores, 8.0, keys)
    np.testing.assert_allclose(shares, np.exp(scores / 8 - logsumexp(scores / 8, axis=1, keepdims=True)), rtol=1e-12)
    # The free energy: what is expected of the scores and t times the entropy.
    entropy = -(shares * np.log(shares)).sum(axis=1)
    np.testing.assert_allclose(values, (shares * scores).sum(axis=1) + 8 * entropy, rtol=1e-12)
    plain = EXACT.responsibilities(scores, 1.0, keys)
    cold = hot.responsibilities(scores, temperatures[-1], keys)
    assert all((a == b).all() for a, b in zip(plain, cold, strict=True))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_online_em_of_tables_stays_where_em_ends(family):
    """Batches that hold everything end at a fixed point of EM, whatever the size of the steps."""
    documents = table()
    learner, state = of_table(family, documents)
    prepared = learner.prepare(documents)
    for epoch in range(1500):
        state = learner.update(state, learner.map(state, prepared, lane(epoch)))
    online = replace(learner, rule=ClosedForm(EmForm("online"), monitored=True))
    after = online.update(state, online.map(state, prepared, lane()))
    np.testing.assert_allclose(after.mu, state.mu, rtol=1e-6)
    np.testing.assert_allclose(after.class_counts, state.class_counts, rtol=1e-5, atol=1e-9)
    assert not len(after.best_counts)


def test_one_iteration_is_that_of_a_plain_loop():
    documents = table(hidden=False)
    learner, state = of_table(Gaussian(), documents)
    after = learner.update(state, learner.map(state, learner.prepare(documents), lane()))
    prior = state.class_counts / state.class_counts.sum()
    mean = learner.model.variables.split(state.mu)[0][..., 0]
    var = learner.model.variables.split(state.mu)[0][..., 1] - mean**2
    counts, first, second, likelihood = np.zeros(5), np.zeros((5, 2)), np.zeros((5, 2)), 0.0
    for x, label, w in zip(documents.values, documents.labels, documents.weights, strict=True):
        joint = prior * norm.pdf(x, mean, np.sqrt(var)).prod(axis=1) * (np.array(OWNERS) == label)
        likelihood += w * np.log(joint.sum())
        posterior = w * joint / joint.sum()
        counts += posterior
        first += posterior[:, None] * x
        second += posterior[:, None] * x**2
    np.testing.assert_allclose(after.class_counts / documents.weights.sum(), counts / counts.sum(), rtol=1e-10)
    found = learner.model.variables.split(after.mu)[0]
    np.testing.assert_allclose(found[..., 0], first / counts[:, None], rtol=1e-10)
    np.testing.assert_allclose(found[..., 1], second / counts[:, None], rtol=1e-10)
    assert after.best_objective == pytest.approx(-likelihood / documents.weights.sum(), rel=1e-10)


def test_a_rise_is_an_error():
    documents = table(hidden=False)
    learner, state = of_table(Gaussian(alpha=1.0), documents)
    statistics = learner.map(state, learner.prepare(documents), lane())
    state = learner.update(state, statistics)
    with pytest.raises(TrainingError, match="EM objective got worse, from"):
        learner.update(state, statistics._replace(loss=statistics.loss + 1e3))


@pytest.mark.parametrize("loss", ["ncll", "hinge", "nll"])
def test_steps_with_hidden_components_follow_the_natural_gradient(loss):
    """Table 2: minus the gradient by theta of a component is the sum of its weights times (statistics - mu)."""
    documents = table(gaps=True, hidden=False)
    learner, state = of_table(Gaussian(), documents)
    model, prepared = learner.model, learner.prepare(documents)
    parameters = model.parameters_at(state.class_counts, state.mu)
    weights, _ = model.loss_weights(model.variables.scores(parameters, prepared), prepared, NAMED[loss])
    sums = model.expected(state.class_counts, state.mu, prepared, NAMED[loss]).sums
    expected = sums - weights.sum(axis=0)[:, None] * state.mu
    theta, step = parameters.theta, 1e-6

    def loss_at(moved):
        partitions = model.variables.blocks[0].family.log_partition(model.variables.split(moved)[0])
        scores = model.variables.scores(parameters._replace(theta=moved, partitions=partitions), prepared)
        return model.loss_weights(scores, prepared, NAMED[loss])[1].sum()

    for at in ((0, 0), (1, 3), (4, 2)):
        unit = np.zeros(theta.shape)
        unit[at] = step
        slope = (loss_at(theta + unit) - loss_at(theta - unit)) / (2 * step)
        assert -slope == pytest.approx(expected[at], rel=1e-4, abs=1e-4)


KINDS = {0: "poisson", 1: Categorical(2), (2, 3): GaussianFull(2, 1.0)}
ONE = [  # settings, naive Bayes, and whether values may be missing
    ({"alpha": 1e-12}, sd.GaussianNB(loss="nll", var_smoothing=0.0), True),
    ({"alpha": 1e-9, "covariance_type": "full"}, sd.MixedNB(loss="nll", kinds={(0, 1, 2, 3): GaussianFull(4)}), False),
    ({"components": "poisson", "alpha": 0.5}, sd.PoissonNB(loss="nll", alpha=0.5), True),
    ({"components": "bernoulli"}, sd.BernoulliNB(loss="nll"), True),
    ({"components": "mixed", "kinds": KINDS}, sd.MixedNB(loss="nll", kinds=KINDS), True),
    ({"components": "multinomial"}, sd.MultinomialNB(loss="nll"), False),
]


@pytest.mark.parametrize(("settings", "naive", "gaps"), ONE, ids=str)
def test_one_component_is_naive_bayes(settings, naive, gaps):
    y = np.arange(200) % 2
    X = np.minimum(np.random.default_rng(0).poisson(1.0 + (y[:, None] == [0, 1, 0, 1])), 1.0)
    X[:: 7 if gaps else 200, 0] = np.nan if gaps else 1.0
    joint = naive.fit(X, y).predict_joint_log_proba(X)
    mixture = sd.EMMixtureClassifier(1, n_epochs=3, **settings).fit(X, y)
    np.testing.assert_allclose(mixture.predict_joint_log_proba(X), joint, rtol=1e-6)
