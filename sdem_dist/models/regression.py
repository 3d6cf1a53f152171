"""Regression by a joint Gaussian of features and target, and the choice of its prior by the evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.linalg import solve

from sdem_dist.documents import DenseDocuments
from sdem_dist.families import GaussianFull
from sdem_dist.families.gaussian import LARGEST
from sdem_dist.losses import Arrays, Loss, Ncll
from sdem_dist.models.feature_classes import DenseModel, FeatureState, FeatureStatistics, started
from sdem_dist.models.features import FeatureParameters
from sdem_dist.models.heads import Number
from sdem_dist.records import record

_LEAST_NOISE = 1e-12  # least variance of the noise of a standardised target, even if the features determine it
PENALTIES = np.logspace(-6, 6, 121)  # candidate penalties
_PERFECT = 1e-12  # share of the target's variance left by a perfect fit; variance of a constant target
LEVEL = 0.05  # smaller differences of log marginal likelihoods do not count


def conditioned(mean: np.ndarray, covariance: np.ndarray, table: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield, per pattern of missing values (NaN): indices of rows; rows with conditional means; their covariance."""
    for missing, rows in _patterns(table):
        observed = ~missing
        filled, rest = table[rows], np.zeros_like(covariance)
        if missing.any():
            # Regression coefficients of the missing columns on the observed ones.
            slopes = np.linalg.solve(covariance[np.ix_(observed, observed)], covariance[np.ix_(observed, missing)])
            shifts = table[np.ix_(rows, observed)] - mean[observed]
            filled[:, missing] = mean[missing] + np.einsum("nk,km->nm", shifts, slopes)
            explained = np.einsum("km,kl->ml", slopes, covariance[np.ix_(observed, missing)])
            rest[np.ix_(missing, missing)] = covariance[np.ix_(missing, missing)] - explained
        yield rows, filled, rest


def expected_sum(family: GaussianFull, mu: np.ndarray, table: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted sum of the rows' expected statistics given their observed values, ``E_z[s]`` (Table 2)."""
    total = np.zeros(family.n_statistics)
    for rows, filled, covariance in conditioned(*family.to_moments(mu), table):
        weighted = filled * weights[rows, None]
        products = np.einsum("ni,nj->ij", weighted, filled) + weights[rows].sum() * covariance
        total += np.concatenate([weighted.sum(axis=0), products[np.triu_indices(family.n_columns)]])
    return total


def log_density_of_observed(family: GaussianFull, mu: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return ln p of each row's observed values, shape (n_rows,); 0 for a row without any."""
    mean, covariance = family.to_moments(mu)
    densities = np.zeros(len(table))
    for missing, rows in _patterns(table):
        observed = np.flatnonzero(~missing)
        whitening = np.linalg.inv(np.linalg.cholesky(covariance[np.ix_(observed, observed)]))
        distance = (np.einsum("nk,lk->nl", table[np.ix_(rows, observed)] - mean[observed], whitening) ** 2).sum(axis=1)
        log_determinant = -2.0 * np.log(np.diag(whitening)).sum()
        densities[rows] = -0.5 * (distance + log_determinant + len(observed) * np.log(2 * np.pi))
    return densities


def _patterns(table: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield each mask of missing columns, and the indices of the rows with this mask."""
    gaps = np.isnan(table)
    if len(table) and not gaps.any():
        yield gaps[0], np.arange(len(table))
        return
    patterns, group_of = np.unique(gaps, axis=0, return_inverse=True)
    for g, missing in enumerate(patterns):
        yield missing, np.flatnonzero(group_of.ravel() == g)


def coefficients(covariance: np.ndarray) -> np.ndarray:
    """Return the regression coefficients of the target, the last column, on the features."""
    return np.asarray(solve(covariance[:-1, :-1], covariance[:-1, -1], assume_a="pos"))


def predicted_target(family: GaussianFull, mu: np.ndarray, features: np.ndarray, n_rows: float) -> Arrays:
    """Return mean and variance, of noise and coefficients, of new targets, the last column; NaN: missing feature."""
    mean, covariance = family.to_moments(mu)
    n, alpha = n_rows + family.alpha, family.alpha
    slopes = np.linalg.solve(covariance[:-1, :-1], covariance[:-1, -1])
    residual = float(covariance[-1, -1] - slopes @ covariance[:-1, -1])
    # Variance of the noise: squared residuals over (rows minus effective coefficients), MacKay 1992, Bayesian
    # Interpolation. The joint fit's covariance includes the prior's rows, which are subtracted. If there are as many
    # coefficients as rows, this estimate is useless, and the noise of the largest likelihood is used.
    penalised = n * residual - alpha
    squares = penalised - alpha * float(slopes @ slopes)
    determined = float((1.0 - alpha / (n * np.linalg.eigvalsh(covariance[:-1, :-1]))).sum())
    n_free = max(n_rows - 1.0, 0.5 * n_rows)  # the mean takes one row
    added = max(penalised / n_free, squares / max(n_free - determined, 1.0), _LEAST_NOISE) - residual
    table = np.concatenate([features, np.full((len(features), 1), np.nan)], axis=1)
    means, variances = np.empty(len(table)), np.empty(len(table))
    for rows, filled, rest in conditioned(mean, covariance, table):
        observed = np.flatnonzero(~np.isnan(table[rows[0]]))
        shifts = table[np.ix_(rows, observed)] - mean[observed]
        whitened = np.linalg.solve(np.linalg.cholesky(covariance[np.ix_(observed, observed)]), shifts.T)
        distances = (whitened**2).sum(axis=0)
        means[rows] = filled[:, -1]
        variances[rows] = (rest[-1, -1] + added) * (1.0 + (1.0 + distances) / n)
    return means, variances


class Rows(NamedTuple):
    values: np.ndarray  # shape (n_rows, n_columns), float64, the target last; NaN for a missing feature
    weights: np.ndarray  # shape (n_rows,)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.weights.nbytes

    @property
    def features(self) -> np.ndarray:
        """The rows with NaN as targets."""
        features = self.values.copy()
        features[:, -1] = np.nan
        return features

    def take(self, rows: np.ndarray) -> Rows:
        return Rows(self.values[rows], self.weights[rows])


@record
class JointGaussian(DenseModel):
    """A single `GaussianFull` block of the features and the target, which is the last column."""

    head: Number = field(default_factory=Number)

    def __post_init__(self) -> None:
        if len(self.variables.blocks) != 1 or not isinstance(self.family, GaussianFull):
            raise ValueError("the columns of a regression must be one block of the family GaussianFull")

    @property
    def family(self) -> GaussianFull:
        return cast(GaussianFull, self.variables.blocks[0].family)

    def check_state(self, state: FeatureState) -> None:
        for mu in (*state.mu, *state.best_mu):
            # Huge moments are rejected first: their covariance would overflow.
            if np.abs(mu).max() > LARGEST**2 or np.linalg.eigvalsh(self.family.to_moments(mu)[1]).min() <= 0.0:
                raise ValueError("array 'mu' is not inside S")
        super().check_state(state)

    def init(self, n_documents: float, seed: int) -> FeatureState:
        """Return mu_0, the centre of the prior; its count is `n_documents`."""
        return started(np.array([n_documents]), self.variables.centre[None])

    def prepare(self, documents: DenseDocuments, *, frequent_first: bool = False) -> Rows:
        values = self.variables.blocks[0].values(documents.values)[:, 0]
        if np.isnan(values[:, -1]).any():
            raise ValueError(f"row {int(np.isnan(values[:, -1]).argmax())} (counting from 0) has no target: drop it")
        return Rows(values, np.ones(len(values)) if documents.weights is None else documents.weights)

    def parameters_at(self, counts: np.ndarray, mu: np.ndarray) -> FeatureParameters:
        return self.variables.to_natural(mu, np.zeros(1))

    def expected(
        self, counts: np.ndarray, mu: np.ndarray, rows: Rows, loss: Loss, unlabelled_weight: float = 1.0
    ) -> FeatureStatistics:
        """Return the sums of ``E[s | x, y]``, for conditional loss minus ``E[s | x]``, and of the loss (Table 2)."""
        joint, conditional = self.complete(rows, mu), isinstance(loss, Ncll)
        joint = joint._replace(loss=float((rows.weights * self.losses(mu, rows)[int(conditional)]).sum()))
        if not conditional:
            return joint
        sums = joint.sums - expected_sum(self.family, mu[0], rows.features, rows.weights)
        return joint._replace(class_counts=np.zeros(1), sums=sums)

    def posterior(self, state: FeatureState, rows: Rows, form: Any, at: Any, unlabelled: float) -> FeatureStatistics:
        """Return the sums of the rows' expected statistics (E-step); the loss is not computed."""
        return self.complete(rows, state.mu)

    def complete(self, rows: Rows, mu: np.ndarray | None = None) -> FeatureStatistics:
        """Return the sum of ``E[s | x, y]`` over rows; mu matters only for missing values."""
        mu, weight = self.variables.centre[None] if mu is None else mu, float(rows.weights.sum())
        sums = expected_sum(self.family, mu[0], rows.values, rows.weights)
        return FeatureStatistics(np.array([weight]), sums[None], np.array([[weight]]), 0.0, weight)

    def under_prior(self, mu: np.ndarray, loss: Loss) -> np.ndarray:
        """Return mu; for conditional loss with the prior's moments of the features, which this loss does not train."""
        if not isinstance(loss, Ncll):
            return mu
        mean, covariance = self.family.to_moments(mu[0])
        slopes = np.linalg.solve(covariance[:-1, :-1], covariance[:-1, -1])
        located, spread = self.family.to_moments(self.family.centre)
        located[-1] = mean[-1] + slopes @ (located[:-1] - mean[:-1])
        along = spread[:-1, :-1] @ slopes
        spread[-1, -1] = covariance[-1, -1] - slopes @ covariance[:-1, -1] + slopes @ along
        spread[-1, :-1] = spread[:-1, -1] = along
        return self.family.from_moments(located, spread)[None]

    def losses(self, mu: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return -ln p(y, x) and -ln p(y | x) of each standardised row; x: its observed features."""
        joint = -log_density_of_observed(self.family, mu[0], rows.values)
        return joint, joint + log_density_of_observed(self.family, mu[0], rows.features)

    def moments(self, state: FeatureState) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance of features and target in the units of the table."""
        return self.variables.means(state.best[1])[0], self.variables.covariances(state.best[1])[0]

    def predicted(self, state: FeatureState, features: np.ndarray, n_rows: float) -> np.ndarray:
        """Return means and standard deviations of new targets in the table's unit, shape (n, 2); NaN: missing."""
        block = self.variables.blocks[0]
        location, scale = np.asarray(block.location), np.asarray(block.scale)
        standardised = (features - location[:-1]) / scale[:-1]
        mean, variance = predicted_target(self.family, state.best[1][0], standardised, n_rows)
        return np.stack([location[-1] + scale[-1] * mean, scale[-1] * np.sqrt(variance)], axis=1)

    def products(self, mu: np.ndarray, n_documents: float) -> np.ndarray:
        """Return the rows' sums of products of deviations from their mean, from a joint fit, without the prior."""
        nu = self.family.prior_weight
        sums = (n_documents + nu) * mu - nu * self.family.centre
        return n_documents * self.family.to_moments(sums / n_documents)[1]

    def scored(self, state: FeatureState, rows: Rows, temperature: float, seed: int) -> tuple[np.ndarray, ...]:
        return rows.weights, *self.losses(state.best[1], rows)


class Evidence(NamedTuple):
    penalty: float  # of ridge regression: variance of the noise over variance of the slopes
    log_evidence: float  # log marginal likelihood at this penalty, up to a constant of the target


def best_prior(products: np.ndarray, scale: np.ndarray, variance: np.ndarray, n: float) -> tuple[float, np.ndarray]:
    """Return the penalty of the largest evidence and the columns' units: one per feature, or one for all features.

    `products`: see `largest_evidence`, in units of `scale`. `variance`: of the columns.
    """
    one, evidences = scale.copy(), list[tuple[Evidence, np.ndarray]]()
    one[:-1] = np.sqrt(variance[:-1].mean()) or 1.0
    for units in (scale, one):
        factor = scale / units
        evidences.append((largest_evidence(products * factor * factor[:, None], n), units))
    best, units = max(evidences, key=lambda pair: pair[0].log_evidence)
    return best.penalty, units


def largest_evidence(products: np.ndarray, n: float) -> Evidence:
    """Return the penalty under which the targets are most probable (MacKay 1992, Bayesian Interpolation).

    Slopes are normal with mean 0 and one variance; the noise has its most probable variance. The intercept has no prior
    and takes one row; otherwise the evidence of a perfect fit would grow without bound as the penalty falls. Among
    equally good penalties the largest is returned; for a constant target the smallest.

    `products`: sums of products of deviations from means, the target last, of variance 1 or 0. `n`: weight of the rows.
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
