"""EM and sdEM of mixtures against slow and plain versions, and what EM promises."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from sdem_dist import EMMixtureClassifier, GaussianNB, MultinomialNB, TrainingError
from sdem_dist.documents import DenseDocuments
from sdem_dist.families import Gaussian
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.losses import NAMED
from sdem_dist.models.feature_classes import FeatureClasses, started
from sdem_dist.models.features import Block, FeatureModel
from sdem_dist.models.heads import Classes

LANE = Lane(0, 0, 0, 0, 1, 1)
OWNERS = (0, 0, 1, 1, 1)


def learner_and_point(family, n, seed=0, **settings):
    rng = np.random.default_rng(seed)
    model = FeatureModel((Block(family, (0, 1)),))
    learner = SdEM(FeatureClasses(model, Classes(2, OWNERS)), float(n), ClosedForm(monitored=True, **settings))
    drawn = rng.gamma(2.0, 1.0, (50, 2))
    statistics = model.features(drawn).statistics
    mu = np.stack([statistics[rng.integers(0, 50, 20)].mean(axis=0) for _ in OWNERS])
    return learner, started(rng.dirichlet(np.ones(len(OWNERS))) * n, mu)


def rows(n=80, seed=1, gaps=False, hidden=False):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.gamma(1.0 + 2.0 * rng.integers(0, 2, n)[:, None] + y[:, None], 1.0, (n, 2))
    if gaps:
        X[rng.random(X.shape) < 0.2] = np.nan
    labels = np.where(rng.random(n) < 0.3, -1, y) if hidden else y
    return DenseDocuments(X, labels.astype(np.int32), rng.uniform(0.5, 1.5, n))


def test_one_iteration_is_that_of_a_plain_loop():
    documents = rows()
    learner, state = learner_and_point(Gaussian(), 80)
    after = learner.update(state, learner.map(state, learner.prepare(documents), LANE))
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
    np.testing.assert_allclose(after.class_counts / 80, counts / counts.sum(), rtol=1e-10)
    found = learner.model.variables.split(after.mu)[0]
    np.testing.assert_allclose(found[..., 0], first / counts[:, None], rtol=1e-10)
    np.testing.assert_allclose(found[..., 1], second / counts[:, None], rtol=1e-10)
    assert after.best_objective == pytest.approx(-likelihood / documents.weights.sum(), rel=1e-10)


def test_a_rise_is_an_error():
    learner, state = learner_and_point(Gaussian(alpha=1.0), 80)
    statistics = learner.map(state, learner.prepare(rows()), LANE)
    state = learner.update(state, statistics)
    with pytest.raises(TrainingError, match="objective of EM went from"):
        learner.update(state, statistics._replace(loss=statistics.loss + 1e3))


@pytest.mark.parametrize("loss", ["ncll", "hinge", "nll"])
def test_steps_with_hidden_components_follow_the_natural_gradient(loss):
    """Table 2: minus the gradient by theta of a component is the sum of its weights times (statistics - mu)."""
    learner, state = learner_and_point(Gaussian(), 80)
    model = learner.model
    prepared = learner.prepare(rows(gaps=True))
    parameters = model.parameters_at(state.class_counts, state.mu)
    weights, _ = model.loss_weights(model.variables.scores(parameters, prepared), prepared, NAMED[loss])
    sums = model.variables.weighted_statistics(weights, prepared, state.mu)
    expected = sums - weights.sum(axis=0)[:, None] * state.mu
    theta, step = parameters.theta, 1e-6

    def loss_at(moved):
        partitions = model.variables.blocks[0].family.log_partition(learner.model.variables.split(moved)[0])
        scores = model.variables.scores(parameters._replace(theta=moved, partitions=partitions), prepared)
        return model.loss_weights(scores, prepared, NAMED[loss])[1].sum()

    for at in ((0, 0), (1, 3), (4, 2)):
        unit = np.zeros(theta.shape)
        unit[at] = step
        slope = (loss_at(theta + unit) - loss_at(theta - unit)) / (2 * step)
        assert -slope == pytest.approx(expected[at], rel=1e-4, abs=1e-4)


def test_one_component_is_naive_bayes():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)) + np.arange(200)[:, None] % 2, np.arange(200) % 2
    X[::7, 0] = np.nan
    mixture = EMMixtureClassifier(1, alpha=1e-12, n_epochs=3).fit(X, y)
    naive = GaussianNB(loss="nll", var_smoothing=0.0).fit(X, y)
    np.testing.assert_allclose(mixture.predict_joint_log_proba(X), naive.predict_joint_log_proba(X), rtol=1e-8)
    counts = rng.poisson(1.0 + (y[:, None] == [0, 1, 0, 1]))
    mixture = EMMixtureClassifier(1, components="multinomial", n_epochs=2, validation_fraction=0.0).fit(counts, y)
    naive = MultinomialNB(loss="nll").fit(counts, y)
    np.testing.assert_allclose(mixture.predict_proba(counts), naive.predict_proba(counts), rtol=1e-8)


def test_em_of_counts_never_lowers_its_objective():
    rng = np.random.default_rng(2)
    y = np.arange(150) % 3
    X = rng.poisson(rng.gamma(0.5, 2.0, (6, 12))[2 * y + rng.integers(0, 2, 150)])
    objectives = []
    for n_epochs in range(1, 12):
        model = EMMixtureClassifier(2, components="multinomial", n_epochs=n_epochs).fit(X, y)
        own = -model.evaluate(X, y)["nll"] * len(y)
        objectives.append(own + model.theta_.sum() + model.log_weights_[np.isfinite(model.log_weights_)].sum())
    assert (np.diff(objectives) >= -1e-8).all()
    assert objectives[-1] > objectives[0] + 1
