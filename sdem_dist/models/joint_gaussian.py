"""A Gaussian of features and a target together: the conditional distribution of the rest given the known features."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sdem_dist.families import GaussianFull

_LEAST_NOISE = 1e-12
"""Variance of a target that the features determine, of a standardised target."""


class Group(NamedTuple):
    """Rows in which the same columns are known."""

    rows: np.ndarray  # positions of the rows
    filled: np.ndarray  # the rows with conditional means where values are missing, shape (n_rows, n_columns)
    covariance: np.ndarray  # conditional covariance of all columns, zeros for known ones, shape (n_columns, n_columns)


def conditioned(mean: np.ndarray, covariance: np.ndarray, table: np.ndarray) -> Iterator[Group]:
    """Yield the rows of a table by what they miss (NaN), completed by their conditional distribution.

    `mean`: shape (n_columns,).
    `covariance`: shape (n_columns, n_columns).
    `table`: shape (n_rows, n_columns).
    """
    for missing, rows in _patterns(table):
        known = ~missing
        filled, rest = table[rows], np.zeros_like(covariance)
        if missing.any():
            # The weights of the known columns in the means of the missing ones.
            slopes = np.linalg.solve(covariance[np.ix_(known, known)], covariance[np.ix_(known, missing)])
            shifts = table[np.ix_(rows, known)] - mean[known]
            filled[:, missing] = mean[missing] + np.einsum("nk,km->nm", shifts, slopes)
            explained = np.einsum("km,kl->ml", slopes, covariance[np.ix_(known, missing)])
            rest[np.ix_(missing, missing)] = covariance[np.ix_(missing, missing)] - explained
        yield Group(rows, filled, rest)


def expected_sum(family: GaussianFull, mu: np.ndarray, table: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the expected statistics of rows given what is known of them, weighted and summed: ``E_z[s]`` (Table 2)."""
    total = np.zeros(family.n_statistics)
    for rows, filled, covariance in conditioned(*family.to_moments(mu), table):
        weighted = filled * weights[rows, None]
        products = np.einsum("ni,nj->ij", weighted, filled) + weights[rows].sum() * covariance
        total += np.concatenate([weighted.sum(axis=0), products[np.triu_indices(family.n_columns)]])
    return total


def log_density_of_known(family: GaussianFull, mu: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return ln p of what is known of each row, shape (n_rows,); 0 where nothing is."""
    mean, covariance = family.to_moments(mu)
    densities = np.zeros(len(table))
    for missing, rows in _patterns(table):
        known = np.flatnonzero(~missing)
        whitening = np.linalg.inv(np.linalg.cholesky(covariance[np.ix_(known, known)]))
        distance = (np.einsum("nk,lk->nl", table[np.ix_(rows, known)] - mean[known], whitening) ** 2).sum(axis=1)
        log_determinant = -2.0 * np.log(np.diag(whitening)).sum()
        densities[rows] = -0.5 * (distance + log_determinant + len(known) * np.log(2 * np.pi))
    return densities


def _patterns(table: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield which columns are missing, and the rows that miss just these."""
    gaps = np.isnan(table)
    if len(table) and not gaps.any():
        yield gaps[0], np.arange(len(table))
        return
    patterns, group_of = np.unique(gaps, axis=0, return_inverse=True)
    for g, missing in enumerate(patterns):
        yield missing, np.flatnonzero(group_of.ravel() == g)


def target_given_features(
    family: GaussianFull, mu: np.ndarray, features: np.ndarray, n_rows: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of a new target, the last column, given the others; NaN is unknown.

    The variance is that of the noise and of the coefficients, which are normal given the `n_rows` (by weight) of
    training. Both returned arrays have shape (len(features),).
    """
    mean, covariance = family.to_moments(mu)
    n = n_rows + family.alpha
    added = _noise_of_regression(covariance, n_rows, family.alpha) - _residual_variance(covariance)
    table = np.concatenate([features, np.full((len(features), 1), np.nan)], axis=1)
    means, variances = np.empty(len(table)), np.empty(len(table))
    for rows, filled, rest in conditioned(mean, covariance, table):
        known = np.flatnonzero(~np.isnan(table[rows[0]]))
        shifts = table[np.ix_(rows, known)] - mean[known]
        whitened = np.linalg.solve(np.linalg.cholesky(covariance[np.ix_(known, known)]), shifts.T)
        distances = (whitened**2).sum(axis=0)
        means[rows] = filled[:, -1]
        variances[rows] = (rest[-1, -1] + added) * (1.0 + (1.0 + distances) / n)
    return means, variances


def _residual_variance(covariance: np.ndarray) -> float:
    """Return the variance of the last column around its mean given the others."""
    slopes = np.linalg.solve(covariance[:-1, :-1], covariance[:-1, -1])
    return float(covariance[-1, -1] - slopes @ covariance[:-1, -1])


def _noise_of_regression(covariance: np.ndarray, n_rows: float, alpha: float) -> float:
    """Return the variance of the noise: squared residuals over the rows less the effective number of coefficients.

    The covariance of the joint fit is that of ``n_rows + alpha`` rows, the prior's observations among them: they are
    taken out (MacKay 1992, Bayesian Interpolation). Where coefficients are as many as rows, nothing is left to divide
    by, and the noise is that under which the targets are most probable.
    """
    rows = max(n_rows - 1.0, 0.5 * n_rows)  # the mean takes one
    slopes = np.linalg.solve(covariance[:-1, :-1], covariance[:-1, -1])
    penalised = (n_rows + alpha) * _residual_variance(covariance) - alpha
    squares = penalised - alpha * float(slopes @ slopes)
    determined = float((1.0 - alpha / ((n_rows + alpha) * np.linalg.eigvalsh(covariance[:-1, :-1]))).sum())
    return max(penalised / rows, squares / max(rows - determined, 1.0), _LEAST_NOISE)
