"""Mixtures over dense features: EM, and sdEM with the component as hidden variable (Masegosa 2014, Table 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from sdem_dist.documents import DenseDocuments
from sdem_dist.errors import TrainingError
from sdem_dist.evaluation import evaluation_sums
from sdem_dist.learners.features import FeatureSdem, FeatureState, FeatureStatistics
from sdem_dist.learners.protocol import Lane
from sdem_dist.losses import marginal_log_likelihood
from sdem_dist.models.components import by_class, starts_of
from sdem_dist.models.features import FeatureParameters, Features

ROUNDING = 1e-9
"""By how much of itself the objective may rise in EM."""


@dataclass(frozen=True)
class MixtureFeatures(FeatureSdem):
    """The learner of `FeatureSdem` whose classes are components; without a loss it is EM for ``ln p(y, x)``.

    Documents without a label have class and component hidden.

    Attributes
    ----------
    owners : tuple of int
        The class of each component, ascending; ``n_classes`` counts components.
    n_labels : int
        Classes.
    hard : bool
        EM assigns a document wholly to its most probable component.
    em_step : float
        How far EM goes towards the maximum of each iteration's bound: 1 to it, less is generalised EM.
    """

    owners: tuple[int, ...] = ()
    n_labels: int = 0
    hard: bool = False
    em_step: float = 1.0

    @cached_property
    def cache_key(self) -> str:
        """Prepared documents are sorted."""
        return f"sorted {super().cache_key}"

    def map(self, state: FeatureState, documents: Features, lane: Lane) -> FeatureStatistics:
        """Return what one lane adds to a round."""
        if self.loss is None:
            return self._expected_counts(state, documents)
        return super().map(state, documents, lane)

    def prepare(self, documents: DenseDocuments) -> Features:
        """Return the documents as statistics, sorted by class, those without a label first."""
        features = super().prepare(documents)
        return features.take(np.argsort(features.labels, kind="stable"))

    def _expected_counts(self, state: FeatureState, features: Features) -> FeatureStatistics:
        """Return the statistics of documents by the posterior of their component (E-step)."""
        parameters = self._natural(state.class_counts, state.mu)
        counts, sums = np.zeros(self.n_classes), np.zeros(state.mu.shape)
        observed, loss = np.zeros(parameters.partitions.shape), 0.0
        bounds = np.searchsorted(features.labels, np.arange(-1, self.n_labels + 1))
        owned = [slice(0, self.n_classes), *_slices(self.owners)]
        for own, first, stop in zip(owned, bounds[:-1], bounds[1:], strict=True):
            if first == stop:
                continue
            part = Features(*(array[first:stop] for array in features))
            share = part.weights * (self.unlabelled_weight if part.labels[0] < 0 else 1.0)
            scores = self.model.scores(FeatureParameters(*(array[own] for array in parameters)), part)
            total = scores.max(axis=1) if self.hard else marginal_log_likelihood(scores)
            weights = np.eye(scores.shape[1])[scores.argmax(axis=1)] if self.hard else np.exp(scores - total[:, None])
            weights *= share[:, None]
            counts[own] += weights.sum(axis=0)
            sums[own] += np.einsum("nk,ns->ks", weights, part.statistics)
            if part.missing.shape[1]:
                observed[own] -= np.einsum("nk,nv->kv", weights, part.missing)
            loss -= float((np.where(share > 0, total, 0.0) * share).sum())
        return FeatureStatistics(counts, sums, observed + counts[:, None], loss, float(features.weights.sum()))

    def update(self, state: FeatureState, statistics: FeatureStatistics) -> FeatureState:
        """Merge the lanes of a round into the next mu."""
        if self.loss is None and statistics.weight > 0:
            return self._maximised(state, statistics)
        return super().update(state, statistics)

    def _maximised(self, state: FeatureState, s: FeatureStatistics) -> FeatureState:
        """Return the next mu of EM (M-step), and keep the one that was broadcast as the best.

        Raises
        ------
        TrainingError
            The objective rose.
        """
        objective = (s.loss + self._prior_cost(state.mu)) / s.weight
        rise = objective - state.best_objective
        if not np.isfinite(objective) or rise > ROUNDING * max(1.0, abs(objective)):
            raise TrainingError(
                f"the objective of EM went from {state.best_objective:.17g} to {objective:.17g} a document after "
                f"{state.t:g} documents, which it cannot do: are there values that no component can have?"
            )
        parts = zip(self.model.blocks, self.model.split(s.sums), self._by_block(s.known), strict=True)
        mu = self.model.join([b.family.posterior_mean(sums, known) for b, sums, known in parts])
        counts = s.class_sums * (self.n_documents / s.class_sums.sum())
        # The bound is concave on the way to its maximum, in the expectation parameters.
        mu = self.model.check(state.mu + self.em_step * (mu - state.mu))[0] if self.em_step < 1 else mu
        counts = state.class_counts + self.em_step * (counts - state.class_counts)
        return FeatureState(
            counts, mu, state.rho, state.class_counts, state.mu, objective, state.first_loss, state.t + s.weight
        )

    def _prior_cost(self, mu: np.ndarray) -> float:
        """Return -ln of the conjugate prior of all components, up to a constant."""
        nu = self.model.prior_weight[np.unique(self.model.variable_of, return_index=True)[1]]
        centre = np.broadcast_to(self.model.centre, mu.shape)
        return float((nu * self.model.divergence(centre, mu)).sum())

    def class_weights(self, scores: np.ndarray, features: Features) -> tuple[np.ndarray, np.ndarray]:
        """Return each row's weights of components, ``weight of y * p(z | y, x)``, and what it costs (Table 2)."""
        of_class, posterior = by_class(scores, self.owners)
        weights, loss = super().class_weights(of_class, features)
        return weights[:, self.owners] * posterior, loss

    def evaluate(self, state: FeatureState, batches: Iterable[Features]) -> np.ndarray:
        """Return the sums of `sdem_dist.evaluation` over all labelled documents of the batches."""
        parameters = self.parameters(state)
        columns = []
        for features in batches:
            labelled = features.take(np.flatnonzero(features.labels >= 0))
            known = self.model.n_variables - labelled.missing.sum(axis=1)
            scores = by_class(self.model.scores(parameters, labelled), self.owners)[0]
            columns.append((scores, labelled.labels, labelled.weights, known))
        return evaluation_sums(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))


def _slices(owners: tuple[int, ...]) -> list[slice]:
    """Return the components of each class."""
    starts = [*starts_of(owners).tolist(), len(owners)]
    return [slice(a, b) for a, b in pairwise(starts)]
