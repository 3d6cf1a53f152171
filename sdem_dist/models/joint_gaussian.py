"""A Gaussian of features and a target together: the conditional distribution of the rest given the known features."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sdem_dist.families import GaussianFull


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


def target_given_features(family: GaussianFull, mu: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of the last column given the others, each of shape (n_rows,); NaN is unknown."""
    table = np.concatenate([features, np.full((len(features), 1), np.nan)], axis=1)
    means, variances = np.empty(len(table)), np.empty(len(table))
    for rows, filled, covariance in conditioned(*family.to_moments(mu), table):
        means[rows], variances[rows] = filled[:, -1], covariance[-1, -1]
    return means, variances
