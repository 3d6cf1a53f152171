"""sdEM for regression with a joint Gaussian of features and target: loss -ln p(y, x) or -ln p(y | x)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from sdem_dist.documents import DenseDocuments
from sdem_dist.families import GaussianFull
from sdem_dist.learners.features import FeatureSdem, FeatureState, FeatureStatistics
from sdem_dist.losses import Ncll
from sdem_dist.models.joint_gaussian import expected_sum, log_density_of_known


class Rows(NamedTuple):
    """Rows as the family takes them, the target last."""

    values: np.ndarray
    """Shape (n_rows, n_columns), float64; NaN where a feature is missing."""
    weights: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.values.nbytes + self.weights.nbytes


@dataclass(frozen=True)
class GaussianRegression(FeatureSdem):
    """The learner of dense features with one class, whose model is one block of `GaussianFull` with the target last."""

    @property
    def family(self) -> GaussianFull:
        """The family of features and target."""
        return cast(GaussianFull, self.model.blocks[0].family)

    def init(self) -> FeatureState:
        """Return the centre, with N as many as there are documents: the start of EM."""
        return super().init()._replace(class_counts=np.array([self.n_documents]))

    def best(self, state: FeatureState) -> np.ndarray:
        """Return the mu of the lowest objective so far, shape (n_statistics,)."""
        return (state.best_mu if len(state.best_counts) else state.mu)[0]

    def restarted(self, state: FeatureState) -> FeatureState:
        """Return the start of this learner's run from where another one ended."""
        return self.init()._replace(mu=self.best(state)[None], t=state.t)

    def products(self, state: FeatureState) -> np.ndarray:
        """Return the rows' sums of products of deviations from the mean, without the prior's observations."""
        nu = self.family.prior_weight
        sums = (self.n_documents + nu) * self.best(state) - nu * self.family.centre
        return self.n_documents * self.family.to_moments(sums / self.n_documents)[1]

    def prepare(self, documents: DenseDocuments) -> Rows:  # type: ignore[override]
        """Return the documents, standardised."""
        values = self.model.blocks[0].values(documents.values)[:, 0]
        if np.isnan(values[:, -1]).any():
            raise ValueError(f"row {int(np.isnan(values[:, -1]).argmax())} has no target")
        weights = np.ones(len(values)) if documents.weights is None else documents.weights
        return Rows(values, weights)

    def _expected(self, counts: np.ndarray, mu: np.ndarray, rows: Rows) -> FeatureStatistics:  # type: ignore[override]
        """Return ``E[s | x, y]``, for the conditional loss less ``E[s | x]``, summed over rows (Table 2)."""
        sums = expected_sum(self.family, mu[0], rows.values, rows.weights)
        mass = weight = float(rows.weights.sum())
        loss = 0.0  # EM's rounds are not judged
        if isinstance(self.loss, Ncll):
            features = rows.values.copy()
            features[:, -1] = np.nan
            sums = sums - expected_sum(self.family, mu[0], features, rows.weights)
            mass, loss = 0.0, float((rows.weights * self._losses(mu, rows)[1]).sum())
        return FeatureStatistics(np.array([mass]), sums[None], np.zeros((1, 0)), loss, weight)

    def under_prior(self, mu: np.ndarray) -> np.ndarray:
        """Return for the conditional loss the target given the features at mu, the features themselves the prior's.

        Then the prior, too, is about the target alone, and what is known of the features stays: ``KL(prior || this)`` is the part
        of ``KL(prior || mu)`` that is not about them.
        """
        if not isinstance(self.loss, Ncll):
            return mu
        mean, covariance = self.family.to_moments(mu[0])
        slopes = np.linalg.solve(covariance[:-1, :-1], covariance[:-1, -1])
        located, spread = self.family.to_moments(self.family.centre)
        located[-1] = mean[-1] + slopes @ (located[:-1] - mean[:-1])
        along = spread[:-1, :-1] @ slopes
        spread[-1, -1] = covariance[-1, -1] - slopes @ covariance[:-1, -1] + slopes @ along
        spread[-1, :-1] = spread[:-1, -1] = along
        return self.family.from_moments(located, spread)[None]

    def _losses(self, mu: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return -ln p(y, x) and -ln p(y | x) of each row, standardised, where x is what is known of it."""
        features = rows.values.copy()
        features[:, -1] = np.nan
        joint = -log_density_of_known(self.family, mu[0], rows.values)
        return joint, joint + log_density_of_known(self.family, mu[0], features)

    def update(self, state: FeatureState, statistics: FeatureStatistics) -> FeatureState:
        """Step of EM for the joint loss, in closed form; a safe step for the conditional one."""
        if isinstance(self.loss, Ncll) or statistics.weight == 0.0:
            return super().update(state, statistics)
        mu = self.family.posterior_mean(statistics.sums, np.array([statistics.weight]))
        return state._replace(mu=mu, t=state.t + statistics.weight)

    def evaluate(self, state: FeatureState, batches: Iterable[Rows]) -> np.ndarray:  # type: ignore[override]
        """Return sums of both losses over all batches, after that of the weights."""
        mu = self.best(state)[None]
        sums = np.zeros(3)
        for rows in batches:
            sums += [
                float((rows.weights * column).sum()) for column in (np.ones(len(rows.weights)), *self._losses(mu, rows))
            ]
        return sums

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return the mean of each loss a row."""
        weight, nll, ncll = sums.tolist()
        return {"nll": nll / weight, "ncll": ncll / weight}
