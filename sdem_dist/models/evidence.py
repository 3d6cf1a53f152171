"""How much to shrink the slopes of a linear regression: empirical Bayes, from sums of products alone."""

from typing import NamedTuple

import numpy as np

PENALTIES = np.logspace(-6, 6, 121)
"""Penalties that are compared."""
_PERFECT = 1e-12
"""Share of the target's variance below which a fit counts as perfect, and variance below which a target is constant."""
LEVEL = 0.05
"""Smaller differences of log marginal likelihoods do not count."""


class Evidence(NamedTuple):
    """The penalty of the largest marginal likelihood."""

    penalty: float  # of ridge regression: variance of the noise over that of the slopes
    log_evidence: float  # its log marginal likelihood, up to a constant of the target


def largest_evidence(products: np.ndarray, n: float) -> Evidence:
    """Return the penalty under which the targets are most probable (MacKay 1992, Bayesian Interpolation).

    Slopes are normal with mean 0 and one variance; the noise has its most probable variance. The intercept has no prior
    and takes one row. Without that row the evidence of a fit through all points would grow as the penalty falls. With
    it the evidence is level there, and of equally good penalties the largest is taken, of a constant target the least.

    `products`: shape (n_features + 1, n_features + 1): sums of products of deviations from the means, the target last
    and of variance 1, or 0.
    `n`: rows, by weight.
    """
    total, rows = float(products[-1, -1]), max(n - 1.0, 0.0)
    if total <= _PERFECT * n:
        return Evidence(float(PENALTIES[0]), 0.0)
    values, vectors = np.linalg.eigh(products[:-1, :-1])
    values, along = np.maximum(values, 0.0), vectors.T @ products[:-1, -1]
    shrunk = values + PENALTIES[:, None]
    left = np.maximum(total - (along**2 / shrunk).sum(axis=1), _PERFECT * total)
    log_evidence = -0.5 * rows * np.log(left / total) - 0.5 * np.log1p(values / PENALTIES[:, None]).sum(axis=1)
    best = int(np.flatnonzero(log_evidence >= log_evidence.max() - LEVEL)[-1])
    return Evidence(float(PENALTIES[best]), float(log_evidence[best]))
