"""Regression down the conditional loss: where nothing is missing the joint fit is where its steps end, prior included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from sdem_dist.documents import DenseDocuments
from sdem_dist.families import GaussianFull
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.safe_step import SafeStep, statistics_at
from sdem_dist.learners.sdem import SdEM
from sdem_dist.losses import Ncll
from sdem_dist.models.features import Block, FeatureModel
from sdem_dist.models.regression import JointGaussian

N, WIDTH = 60, 4
RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(N, WIDTH)) @ RNG.normal(size=(WIDTH, WIDTH)) + RNG.normal(size=WIDTH)


def learner(alpha=5.0):
    block = Block(GaussianFull(WIDTH, alpha), tuple(range(WIDTH)))
    return SdEM(JointGaussian(FeatureModel((block,))), N, SafeStep(), Ncll())


def gradient(found, counts, mu, documents):
    return found.rule.natural_gradient(found, (counts, mu), statistics_at(found, (counts, mu), documents))[1]


def rows(found, gaps=0.0):
    table = TABLE.copy()
    table[:, :-1][RNG.random((N, WIDTH - 1)) < gaps] = np.nan
    return found.prepare(DenseDocuments(table, np.full(N, -1, np.int32), None))


def joint_fit(alpha=5.0):
    found = replace(learner(alpha), rule=ClosedForm())
    return found.update(found.init(), found.map(found.init(), rows(found), Lane(0, 0, 0, 0, N, N))).mu


@pytest.mark.parametrize("alpha", [0.0, 5.0, 100.0])
def test_the_joint_fit_has_no_gradient_left(alpha):
    found, mu = learner(alpha), joint_fit(alpha)
    counts = np.array([float(N)])
    step = gradient(found, counts, mu, rows(found))
    assert np.abs(step).max() < 1e-9
    away = mu + 0.1 * (found.model.family.centre - mu)
    assert np.abs(gradient(found, counts, away, rows(found))).max() > 0.1


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_steps_are_the_gradient_of_loss_and_prior(gaps):
    found, counts = learner(), np.array([float(N)])
    mu = joint_fit() + 0.1 * (found.model.family.centre - joint_fit())
    documents = rows(found, gaps)

    def objective(theta):
        here = found.model.family.to_expectation(theta)[None]
        return statistics_at(found, (counts, here), documents).loss + N * found.rule.penalty(found, (counts, here))

    step = gradient(found, counts, mu, documents)[0]
    numeric = approx_fprime(found.model.family.to_natural(mu[0]), objective, 1e-6)
    np.testing.assert_allclose(step, -numeric, rtol=1e-3, atol=1e-3 * np.abs(step).max())
    assert np.abs(step).max() > 0.1
