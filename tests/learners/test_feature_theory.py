"""The theory behind sdEM, checked by finite differences on every family and loss, and for regression."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from sdem_dist import MixedNB
from sdem_dist.documents import DenseDocuments
from sdem_dist.families import Bernoulli, Categorical, Exponential, Gaussian, GaussianFull, Multinomial, Poisson
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.safe_step import RADIUS, PaperStep, SafeStep, safe_step, statistics_at
from sdem_dist.learners.sdem import SdEM
from sdem_dist.losses import Blend, CostSensitiveHinge, Hinge, Ncll, Nll
from sdem_dist.models.feature_classes import FeatureClasses
from sdem_dist.models.features import Block, FeatureModel
from sdem_dist.models.heads import Classes
from sdem_dist.models.regression import JointGaussian

FAMILIES = [Bernoulli(), Categorical(3), Multinomial(3, length=4), Poisson(), Exponential(), Gaussian(alpha=0.5)]
FAMILIES += [GaussianFull(2)]
COSTS = CostSensitiveHinge(((0.0, 1.0, 2.0), (0.5, 0.0, 1.0), (1.0, 3.0, 0.0)))
LOSSES = [Nll(), Ncll(), Hinge(), Hinge(0.0), COSTS, Blend(Hinge(), 0.3), Blend(Ncll(), 0.3)]
K = 3


def problem(family, loss, seed=0, n=12, gaps=False, **settings):
    """Return a learner, its documents, and a point inside S with N that sums to n."""
    rng = np.random.default_rng(seed)
    model = FeatureModel((Block(family, tuple(range(family.width))),))
    learner = SdEM(FeatureClasses(model, Classes(K)), float(n), SafeStep(**settings), loss)
    theta = family.to_natural(np.tile(family.centre, (40, 1)))
    drawn = family.statistics(family.sample(theta, rng))
    mu = np.stack([0.4 * family.centre + 0.6 * drawn[rng.integers(0, 40, 12)].mean(axis=0) for _ in range(K)])
    table = family.sample(theta[:n], rng)
    if gaps:
        table[::4] = np.nan
    labels, counts = rng.integers(0, K, n).astype(np.int32), rng.dirichlet(np.full(K, 5.0)) * n
    return learner, model.features(table, labels, rng.uniform(0.5, 1.5, n)), counts, mu


def to_theta(model, counts, mu):
    """Return minimal natural coordinates: of N without that of class 0, then of S."""
    parameters = model.to_natural(mu, np.log(counts / counts.sum()))
    of_n = parameters.log_prior - parameters.partitions.sum(axis=1)
    return np.concatenate([(of_n - of_n[0])[1:], parameters.theta.ravel()])


def loss_at(learner, features, coordinates):
    model = learner.model.variables
    theta = coordinates[K - 1 :].reshape(K, -1)
    blocks = list(zip(model.blocks, model.split(theta), strict=True))
    partitions = np.concatenate([b.family.log_partition(t) for b, t in blocks], axis=-1)
    of_n = np.concatenate([[0.0], coordinates[: K - 1]]) + partitions.sum(axis=1)
    log_prior = of_n - logsumexp(of_n)
    parameters = model.to_natural(model.join([b.family.to_expectation(t) for b, t in blocks]), log_prior)
    total = learner.model.loss_weights(model.scores(parameters, features), features, learner.loss)[1].sum()
    nu = model.prior_weight[model.variable_of]
    pseudo = (nu * model.centre * theta).sum() - model.blocks[0].family.prior_weight * partitions.sum()
    share = learner.rule.prior_scale * features.weights.sum() / learner.n_documents
    return total - share * (pseudo + learner.model.class_alpha * log_prior.sum())


def jacobian(function, at, step=1e-6):
    columns = []
    for i in range(len(at)):
        e = np.zeros_like(at)
        e[i] = step
        columns.append((np.atleast_1d(function(at + e)) - np.atleast_1d(function(at - e))) / (2 * step))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("gaps", [False, True])
def test_theorem_2(family, loss, gaps):
    learner, features, counts, mu = problem(family, loss, gaps=gaps)
    point = counts, mu
    class_step, step = learner.rule.natural_gradient(learner, point, statistics_at(learner, point, features))
    by_theta = jacobian(lambda t: loss_at(learner, features, t), to_theta(learner.model.variables, counts, mu))[0]
    np.testing.assert_allclose(np.concatenate([class_step[1:], step.ravel()]), -by_theta, rtol=1e-4, atol=1e-5)
    # the same by the Fisher information in mu: I(mu)^-1 dL/dmu
    mass = counts.sum()

    def theta_of(m):
        pi = np.concatenate([[1.0 - m[: K - 1].sum()], m[: K - 1]])
        return to_theta(learner.model.variables, pi, m[K - 1 :].reshape(K, -1) / pi[:, None])

    at = np.concatenate([counts[1:] / mass, (counts[:, None] * mu / mass).ravel()])
    fisher = jacobian(theta_of, at)
    by_mu = jacobian(lambda m: loss_at(learner, features, theta_of(m)), at)[0]
    np.testing.assert_allclose(np.linalg.solve(fisher, by_mu), by_theta, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_nll_steps_are_satos_online_em(family, hidden):
    learner, features, counts, mu = problem(family, Nll(), gaps=True, prior_scale=0.0)
    if hidden:
        features = features._replace(labels=np.full(len(features.labels), -1, np.int32))
    found = statistics_at(learner, (counts, mu), features)
    learner = replace(learner, n_documents=found.weight)
    counts = counts * found.weight / counts.sum()
    rho = 0.125
    way = learner.rule.natural_gradient(learner, (counts, mu), found)
    new_counts, new_mu, taken = safe_step(learner.model.variables, (counts, mu), way, rho, RADIUS)
    assert taken == rho
    np.testing.assert_allclose(new_counts, (1 - rho) * counts + rho * found.class_counts, rtol=1e-12)
    old, new = counts[:, None] * mu, new_counts[:, None] * new_mu
    np.testing.assert_allclose(new, (1 - rho) * old + rho * found.sums, rtol=1e-10, atol=1e-12)


def test_without_a_prior_ncll_reaches_logistic_regression():
    rng = np.random.default_rng(3)
    words, length, n = 4, 12, 400
    p, y = rng.dirichlet(np.full(words, 4.0), 3), rng.integers(0, 3, n)
    X = np.stack([rng.multinomial(length, p[k]) for k in y]).astype(float)
    kinds = {tuple(range(words)): Multinomial(words, alpha=1e-12, length=length)}
    ours = MixedNB(kinds=kinds, n_epochs=300).fit(X, y)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(X, y)
    best = -theirs.predict_log_proba(X)[np.arange(n), y].mean()
    assert ours.evaluate(X, y)["ncll"] == pytest.approx(best, abs=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=2e-3)


def test_the_papers_own_steps_stay_inside():
    """Section 4.1: whatever the steps, the check keeps the point inside S."""
    learner, features, _, _ = problem(Gaussian(alpha=1.0), Ncll())
    learner = replace(learner, rule=PaperStep(decay=0.01))
    state = learner.init()
    for epoch in range(3):
        state = learner.update(state, learner.map(state, features, Lane(epoch, 0, 0, 0, 12, 12)))
        assert learner.model.variables.check(state.mu)[1] == 0 and (state.class_counts > 0).all()


N, COLUMNS = 60, 4
RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(N, COLUMNS)) @ RNG.normal(size=(COLUMNS, COLUMNS)) + RNG.normal(size=COLUMNS)


def regression_learner(alpha=5.0):
    block = Block(GaussianFull(COLUMNS, alpha), tuple(range(COLUMNS)))
    return SdEM(JointGaussian(FeatureModel((block,))), N, SafeStep(), Ncll())


def regression_gradient(found, counts, mu, documents):
    return found.rule.natural_gradient(found, (counts, mu), statistics_at(found, (counts, mu), documents))[1]


def regression_rows(found, gaps=0.0):
    table = TABLE.copy()
    table[:, :-1][RNG.random((N, COLUMNS - 1)) < gaps] = np.nan
    return found.prepare(DenseDocuments(table, np.full(N, -1, np.int32), None))


def joint_fit(alpha=5.0):
    found = replace(regression_learner(alpha), rule=ClosedForm())
    return found.update(found.init(), found.map(found.init(), regression_rows(found), Lane(0, 0, 0, 0, N, N))).mu


@pytest.mark.parametrize("alpha", [0.0, 5.0, 100.0])
def test_the_joint_fit_has_no_gradient_left(alpha):
    found, mu = regression_learner(alpha), joint_fit(alpha)
    counts = np.array([float(N)])
    assert np.abs(regression_gradient(found, counts, mu, regression_rows(found))).max() < 1e-9
    away = mu + 0.1 * (found.model.family.centre - mu)
    assert np.abs(regression_gradient(found, counts, away, regression_rows(found))).max() > 0.1


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_steps_are_the_gradient_of_loss_and_prior(gaps):
    found, counts = regression_learner(), np.array([float(N)])
    mu = joint_fit() + 0.1 * (found.model.family.centre - joint_fit())
    documents = regression_rows(found, gaps)

    def objective(theta):
        here = found.model.family.to_expectation(theta)[None]
        return statistics_at(found, (counts, here), documents).loss + N * found.rule.penalty(found, (counts, here))

    step = regression_gradient(found, counts, mu, documents)[0]
    numeric = approx_fprime(found.model.family.to_natural(mu[0]), objective, 1e-6)
    np.testing.assert_allclose(step, -numeric, rtol=1e-3, atol=1e-3 * np.abs(step).max())
    assert np.abs(step).max() > 0.1
