"""The evidence of a penalty is the marginal likelihood of the targets, and its largest is found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.stats import multivariate_normal

from sdem_dist.models.regression import LEVEL, PENALTIES, largest_evidence


def sums(X, y):
    table = np.column_stack([X, y])
    table = table - table.mean(axis=0)
    table[:, -1] /= table[:, -1].std()
    return table.T @ table, table


@pytest.mark.parametrize(("n", "p"), [(30, 3), (8, 20)])
def test_against_the_density_of_the_targets(n, p):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, p))
    products, table = sums(X, X[:, 0] + rng.normal(size=n))
    contrasts = null_space(np.ones((1, n)))  # an intercept of which nothing is known leaves n - 1 dimensions
    x, y = contrasts.T @ table[:, :-1], contrasts.T @ table[:, -1]

    def log_density(penalty):
        covariance = np.eye(n - 1) + x @ x.T / penalty
        noise = y @ np.linalg.solve(covariance, y) / (n - 1)
        return multivariate_normal.logpdf(y, cov=noise * covariance)

    theirs = np.array([log_density(penalty) for penalty in PENALTIES])
    found = largest_evidence(products, n)
    assert found.penalty == PENALTIES[theirs >= theirs.max() - LEVEL].max()
    assert 0.1 < found.penalty < 1e6
    constant = multivariate_normal.logpdf(y, cov=y @ y / (n - 1) * np.eye(n - 1))
    chosen = theirs[PENALTIES.tolist().index(found.penalty)]
    assert found.log_evidence == pytest.approx(chosen - constant)


def test_where_there_is_nothing_to_choose():
    rng = np.random.default_rng(0)
    two = sums(rng.normal(size=(2, 5)), np.array([0.0, 1.0]))[0]
    assert largest_evidence(two, 2).penalty == PENALTIES[-1]  # all penalties are level
    constant = sums(np.ones((9, 2)), rng.normal(size=9))[0]
    assert largest_evidence(constant, 9).penalty == PENALTIES[-1]
    table = np.column_stack([rng.normal(size=(9, 2)), np.zeros(9)])
    assert largest_evidence(table.T @ table, 9).penalty == PENALTIES[0]  # a constant target
    assert largest_evidence(np.zeros((3, 3)), 1).penalty == PENALTIES[0]
