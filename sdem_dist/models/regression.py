"""A joint Gaussian of features and target as a model for sdEM: loss -ln p(y, x) or -ln p(y | x)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, cast

import numpy as np

from sdem_dist.documents import DenseDocuments
from sdem_dist.families import GaussianFull
from sdem_dist.losses import Loss, Ncll
from sdem_dist.models.em_forms import EStep
from sdem_dist.models.feature_classes import DenseModel, FeatureState, FeatureStatistics, started
from sdem_dist.models.features import FeatureParameters
from sdem_dist.models.heads import Losses, Number
from sdem_dist.models.joint_gaussian import expected_sum, log_density_of_known
from sdem_dist.records import record


class Rows(NamedTuple):
    """Rows as the family takes them, the target last."""

    values: np.ndarray  # shape (n_rows, n_columns), float64; NaN where a feature is missing
    weights: np.ndarray  # shape (n_rows,)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.values.nbytes + self.weights.nbytes

    def take(self, rows: np.ndarray) -> Rows:
        """Return some of the rows."""
        return Rows(self.values[rows], self.weights[rows])


@record
@dataclass(frozen=True)
class JointGaussian(DenseModel):
    """One class, whose variables are one block of `GaussianFull` with the target last."""

    head: Number = field(default_factory=Number)

    def __post_init__(self) -> None:
        if len(self.variables.blocks) != 1 or not isinstance(self.family, GaussianFull):
            raise ValueError("a regression is of one block of a GaussianFull")

    @property
    def family(self) -> GaussianFull:
        """The family of features and target."""
        return cast(GaussianFull, self.variables.blocks[0].family)

    def init(self, n_documents: float, seed: int) -> FeatureState:
        """Return mu_0, the prior's; it counts for as many rows as there are."""
        return started(np.array([n_documents]), self.variables.centre[None])

    def prepare(self, documents: DenseDocuments, *, frequent_first: bool = False) -> Rows:
        """Return the documents, standardised.

        Raises ValueError: a row has no target.
        """
        values = self.variables.blocks[0].values(documents.values)[:, 0]
        if np.isnan(values[:, -1]).any():
            raise ValueError(f"row {int(np.isnan(values[:, -1]).argmax())} has no target")
        return Rows(values, np.ones(len(values)) if documents.weights is None else documents.weights)

    def parameters_at(self, counts: np.ndarray, mu: np.ndarray) -> FeatureParameters:
        """Return theta(mu) (M-step)."""
        return self.variables.to_natural(mu, np.zeros(1))

    def expected(
        self, counts: np.ndarray, mu: np.ndarray, rows: Rows, loss: Loss, unlabelled_weight: float = 1.0
    ) -> FeatureStatistics:
        """Return ``E[s | x, y]``, for conditional loss less ``E[s | x]``, summed over rows, and the loss (Table 2)."""
        joint = self.complete_at(mu, rows)
        if not isinstance(loss, Ncll):
            return joint._replace(loss=float((rows.weights * self.losses(mu, rows)[0]).sum()))
        sums = joint.sums - expected_sum(self.family, mu[0], _without_target(rows), rows.weights)
        value = float((rows.weights * self.losses(mu, rows)[1]).sum())
        return joint._replace(class_counts=np.zeros(1), sums=sums, loss=value)

    def posterior(self, state: FeatureState, rows: Rows, step: EStep) -> FeatureStatistics:
        """Return what is expected of missing features, summed over rows (E-step); the loss is not computed."""
        return self.complete_at(state.mu, rows)

    def complete_at(self, mu: np.ndarray, rows: Rows) -> FeatureStatistics:
        """Return ``E[s | x, y]``, summed over rows."""
        sums = expected_sum(self.family, mu[0], rows.values, rows.weights)
        weight = float(rows.weights.sum())
        return FeatureStatistics(np.array([weight]), sums[None], np.array([[weight]]), 0.0, weight)

    def complete(self, rows: Rows) -> FeatureStatistics:
        """Return what the E-step does where nothing is missing."""
        return self.complete_at(self.variables.centre[None], rows)

    def under_prior(self, mu: np.ndarray, loss: Loss) -> np.ndarray:
        """Return, for conditional loss, a joint of the target given the features at mu and the features of the prior.

        So the prior does not move the features' part: ``KL(prior || this)`` is the part of ``KL(prior || mu)`` that
        does not concern the features.
        """
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
        """Return -ln p(y, x) and -ln p(y | x) of each row, standardised, where x is what is known of it."""
        joint = -log_density_of_known(self.family, mu[0], rows.values)
        return joint, joint + log_density_of_known(self.family, mu[0], _without_target(rows))

    def products(self, mu: np.ndarray, n_documents: float) -> np.ndarray:
        """Return the rows' sums of products of deviations from the mean, without the prior's observations.

        `mu`: shape (n_statistics,): a joint fit.
        """
        nu = self.family.prior_weight
        sums = (n_documents + nu) * mu - nu * self.family.centre
        return n_documents * self.family.to_moments(sums / n_documents)[1]

    def scored(self, state: FeatureState, rows: Rows, temperature: float, seed: int) -> Losses:
        """Return what rows cost."""
        return Losses(rows.weights, *self.losses(state.best[1], rows))


def _without_target(rows: Rows) -> np.ndarray:
    features = rows.values.copy()
    features[:, -1] = np.nan
    return features
