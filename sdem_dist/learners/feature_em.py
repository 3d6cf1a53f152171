"""EM over dense features: the generative fit in closed form, hidden components, missing values (Masegosa 2014, Table 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdem_dist.errors import TrainingError
from sdem_dist.learners.features import FeatureLearner, FeatureState, Prepared
from sdem_dist.learners.protocol import Lane
from sdem_dist.models.feature_classes import FeatureStatistics
from sdem_dist.records import record

ROUNDING = 1e-9
"""By how much of itself the objective may rise in EM."""


@record
@dataclass(frozen=True)
class FeatureEm(FeatureLearner[Prepared]):
    """The learner of maximum a posteriori estimates; a round of all documents is an iteration.

    Attributes
    ----------
    complete : bool
        Take labelled documents by their class: one round is the fit.
    monitored : bool
        Compute the objective, keep the state that it belongs to, and stop where it rises.
    hard : bool
        Assign a document wholly to its most probable component.
    em_step : float
        How far to go towards the maximum of each iteration's bound: 1 to it, less is generalised EM.
    """

    complete: bool = False
    monitored: bool = False
    hard: bool = False
    em_step: float = 1.0

    def map(self, state: FeatureState, documents: Prepared, lane: Lane) -> FeatureStatistics:
        """Return the expected statistics of one lane (E-step)."""
        documents = self.model.reweighted(documents, self.class_weight)
        if self.complete:
            return self.model.complete(documents)
        return self.model.posterior(state.class_counts, state.mu, documents, self.hard, self.unlabelled_weight)

    def update(self, state: FeatureState, statistics: FeatureStatistics) -> FeatureState:
        """Return the next mu (M-step), in closed form; no prior on the classes.

        Raises
        ------
        TrainingError
            The objective rose.
        """
        s = statistics
        if s.weight == 0.0 or not s.class_sums.any():  # no document has a label
            return state
        best, objective = (state.best_counts, state.best_mu), state.best_objective
        if self.monitored:
            best, objective = (state.class_counts, state.mu), self._objective(state, s)
        mu = self.model.variables.posterior_mean(s.sums, s.known)
        # As many as there are documents, so that a document's step weighs 1.
        counts = s.class_sums * (self.n_documents / s.class_sums.sum())
        if self.em_step < 1:  # the bound is concave on the way to its maximum, in the expectation parameters
            mu = self.model.variables.check(state.mu + self.em_step * (mu - state.mu))[0]
            counts = state.class_counts + self.em_step * (counts - state.class_counts)
        return FeatureState(counts, mu, state.rho, *best, objective, state.first_loss, state.t + s.weight)

    def _objective(self, state: FeatureState, s: FeatureStatistics) -> float:
        """Return the objective of the broadcast state, a document."""
        variables = self.model.variables
        nu, centre = variables.weight_of_variables, np.broadcast_to(variables.centre, state.mu.shape)
        objective = (s.loss + float((nu * variables.divergence(centre, state.mu)).sum())) / s.weight
        rise = objective - state.best_objective
        if not np.isfinite(objective) or rise > ROUNDING * max(1.0, abs(objective)):
            raise TrainingError(
                f"the objective of EM went from {state.best_objective:.17g} to {objective:.17g} a document after "
                f"{state.t:g} documents, which it cannot do: are there values that no component can have?"
            )
        return objective
