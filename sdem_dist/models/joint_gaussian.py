"""A Gaussian of features and a target together: what the features that are there say about the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sdem_dist.families import GaussianFull


class Group(NamedTuple):
    """Rows in which the same columns are known."""

    rows: np.ndarray
    """Positions of the rows."""
    filled: np.ndarray
    """The rows with conditional means where values are missing, shape (n_rows, n_columns)."""
    covariance: np.ndarray
    """Conditional covariance of all columns, zeros for known ones, shape (n_columns, n_columns)."""


def conditioned(mean: np.ndarray, covariance: np.ndarray, table: np.ndarray) -> Iterator[Group]:
    """Yield the rows of a table by what they miss (NaN), completed by their conditional distribution.

    Parameters
    ----------
    mean : ndarray of shape (n_columns,)
    covariance : ndarray of shape (n_columns, n_columns)
    table : ndarray of shape (n_rows, n_columns)
    """
    patterns, group_of = np.unique(np.isnan(table), axis=0, return_inverse=True)
    for g, missing in enumerate(patterns):
        rows = np.flatnonzero(group_of.ravel() == g)
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
        w = weights[rows]
        expected = family.statistics(filled)
        expected[:, family.n_columns :] += covariance[np.triu_indices(family.n_columns)]
        total += np.einsum("n,ns->s", w, expected)
    return total


def log_density_of_known(family: GaussianFull, mu: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return ln p of what is known of each row, shape (n_rows,); 0 where nothing is."""
    mean, covariance = family.to_moments(mu)
    densities = np.zeros(len(table))
    patterns, group_of = np.unique(np.isnan(table), axis=0, return_inverse=True)
    for g, missing in enumerate(patterns):
        rows, known = np.flatnonzero(group_of.ravel() == g), np.flatnonzero(~missing)
        part = covariance[np.ix_(known, known)]
        shifts = table[np.ix_(rows, known)] - mean[known]
        distance = np.einsum("nk,kl,nl->n", shifts, np.linalg.inv(part), shifts)
        densities[rows] = -0.5 * (distance + np.linalg.slogdet(part)[1] + len(known) * np.log(2 * np.pi))
    return densities


def target_given_features(family: GaussianFull, mu: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of the last column given the others, each of shape (n_rows,); NaN is unknown."""
    table = np.concatenate([features, np.full((len(features), 1), np.nan)], axis=1)
    means, variances = np.empty(len(table)), np.empty(len(table))
    for rows, filled, covariance in conditioned(*family.to_moments(mu), table):
        means[rows], variances[rows] = filled[:, -1], covariance[-1, -1]
    return means, variances
