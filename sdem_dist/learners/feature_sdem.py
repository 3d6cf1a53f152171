"""Stochastic discriminative EM over dense features of any families (Masegosa 2014, Algorithm 1)."""

from dataclasses import dataclass, field

import numpy as np

from sdem_dist.learners.dense_steps import paper_step, safe_step
from sdem_dist.learners.features import FeatureLearner, FeatureState, Prepared
from sdem_dist.learners.local_words import visiting_order
from sdem_dist.learners.protocol import Lane
from sdem_dist.losses import Loss, Ncll, Nll, share_of_nll
from sdem_dist.models.feature_classes import FeatureStatistics
from sdem_dist.records import record

RADIUS = 1.0
"""Largest KL divergence, of any variable in any class, that one safe step may go."""
LANE_RADIUS = 0.1
"""The same for steps inside a lane, whose batches are small and noisy."""
GROWTH, SHRINKAGE = 2.0, 0.25
"""Factors of the step after an accepted and after a rejected round."""
_ROUNDING = 1e-12
_STALLED = 1e-3
"""Size of steps after five rejected rounds."""


@record
@dataclass(frozen=True)
class FeatureSdem(FeatureLearner[Prepared]):
    """The learner of sdEM for any model of dense features."""

    loss: Loss = field(default_factory=Ncll)
    merge: str = "sum"  # "sum" or "mean"
    batch_size: int = 32  # documents of a step inside a lane ("mean" only)
    step: str = "safe"
    """"safe": steps are halved until they stay inside S and within `RADIUS`, and their size follows
    the rounds' success. "paper": ``rho = 1 / (1 + step_decay * t)`` and the check, in the paper's unnormalised sums."""
    judged: bool = True  # a round is a whole epoch: keep what it leads to only if the objective falls
    step_decay: float = 1e-5  # lambda of the paper's steps, and of safe ones that are not judged
    prior_scale: float = 1.0  # multiplies the prior
    seed: int = 0

    def map(self, state: FeatureState, documents: Prepared, lane: Lane) -> FeatureStatistics:
        """Return what one lane adds to a round: sums at the broadcast theta, or its N and S times its weight."""
        documents = self.model.reweighted(documents, self.class_weight)
        counts, mu, t = state.class_counts, state.mu, state.t
        if self.merge == "sum":
            return self.expected(counts, mu, documents)
        weight = float(documents.weights.sum())
        loss = self.expected(counts, mu, documents).loss if self.judged else 0.0
        order = visiting_order(self.seed, lane, len(documents.weights))
        ahead = lane.round_documents / max(len(order), 1)  # documents of all lanes for one of this lane's
        for first in range(0, len(order), self.batch_size):
            found = self.expected(counts, mu, documents.take(order[first : first + self.batch_size]))
            t += found.weight * ahead
            if self.step == "paper":
                rho = 1.0 / (1.0 + self.step_decay * t)
                share = self.prior_scale * rho * found.weight / self.n_documents
                counts, mu = paper_step(self.model.variables, (counts, mu), found, rho, share, self.class_alpha)
            elif found.weight > 0:
                # A lane alone goes as far as a round of all documents.
                counts, mu, _ = self.safe_step(counts, mu, found, state.rho * self.n_documents / weight, LANE_RADIUS)
        none = np.zeros((self.model.n_components, 0))
        return FeatureStatistics(weight * counts, weight * counts[:, None] * mu, none, loss, weight)

    def expected(self, counts: np.ndarray, mu: np.ndarray, documents: Prepared) -> FeatureStatistics:
        """Return the sum of loss weights times expected statistics at one theta, and the loss there (Table 2)."""
        return self.model.expected(counts, mu, documents, self.loss, self.unlabelled_weight)

    def update(self, state: FeatureState, statistics: FeatureStatistics) -> FeatureState:
        """Merge the lanes of a round into the next mu."""
        if statistics.weight == 0.0:
            return state
        if self.judged:
            return self._judge(state, statistics)
        rho = 1.0 / (1.0 + self.step_decay * (state.t + statistics.weight))
        counts, mu, _ = self._moved(state.class_counts, state.mu, statistics, rho)
        return state._replace(class_counts=counts, mu=mu, rho=rho, t=state.t + statistics.weight)

    def _judge(self, state: FeatureState, s: FeatureStatistics) -> FeatureState:
        """Keep the broadcast mu if its objective is the lowest yet, else go back; step on from the best.

        Nor may the loss end above the start's, except for a loss with a share of p(x). The start, a fit without a
        prior, is nearly the best for such a loss, so this bound would leave no room for the prior and for p(y | x).
        """
        loss = s.loss / s.weight
        first = state.first_loss if np.isfinite(state.first_loss) else loss
        objective = loss + self.penalty(state.class_counts, state.mu)
        blended = _ROUNDING < share_of_nll(self.loss, self.model.n_classes) < 1.0 - _ROUNDING
        better = objective <= state.best_objective and (loss <= first or blended)
        # Without counts to go back to, the start itself is not finite.
        if better or not len(state.best_counts):
            rho = state.rho * GROWTH if len(state.best_counts) else state.rho
            best = (state.class_counts, state.mu)
            counts, mu, rho = self._moved(*best, s, rho)
            return FeatureState(counts, mu, rho, *best, objective, first, state.t + s.weight)
        best = state.best_counts, state.best_mu
        # The rejected point lies on the way that was tried: S is convex, so a part of that way stays inside.
        counts = (1 - SHRINKAGE) * best[0] + SHRINKAGE * state.class_counts
        sums = (1 - SHRINKAGE) * best[0][:, None] * best[1] + SHRINKAGE * state.class_counts[:, None] * state.mu
        return state._replace(
            class_counts=counts, mu=sums / counts[:, None], rho=state.rho * SHRINKAGE, t=state.t + s.weight
        )

    def _moved(
        self, counts: np.ndarray, mu: np.ndarray, s: FeatureStatistics, rho: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return where a round leads: to the mean of its lanes, or one step with their sum."""
        if self.merge == "sum":
            return self.safe_step(counts, mu, s, rho)
        return s.class_sums / s.weight, s.sums / s.class_sums[:, None], rho

    def penalty(self, counts: np.ndarray, mu: np.ndarray) -> float:
        """Return -ln prior, up to a constant, a document."""
        variables = self.model.variables
        nu = variables.weight_of_variables
        penalty = -self.class_alpha * float(np.log(np.maximum(counts / counts.sum(), 1e-300)).sum())
        if nu.any():
            centre = np.broadcast_to(variables.centre, mu.shape)
            penalty += float((nu * variables.divergence(centre, self.model.under_prior(mu, self.loss))).sum())
        return self.prior_scale * penalty / self.n_documents

    def held_back(self, state: FeatureState) -> bool:
        """Say whether a judged run gained nothing in many rounds, under a prior that weighs more than the loss."""
        ran = len(state.best_counts) and 0.05 < state.first_loss < np.inf
        if isinstance(self.loss, Nll) or state.rho > _STALLED or not ran:
            return False
        penalty = self.penalty(state.best_counts, state.best_mu)
        ended = state.best_objective - penalty
        return penalty > state.first_loss and ended > (1.0 - 1e-3) * state.first_loss

    def safe_step(
        self, counts: np.ndarray, mu: np.ndarray, s: FeatureStatistics, rho: float, radius: float = RADIUS
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Step along the natural gradient, see `sdem_dist.learners.dense_steps.safe_step`."""
        return safe_step(self.model.variables, (counts, mu), self.natural_gradient(counts, mu, s), rho, radius)

    def natural_gradient(
        self, counts: np.ndarray, mu: np.ndarray, s: FeatureStatistics
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return minus the gradient of the summed loss and the prior's share by theta: how N and S move (Theorem 2).

        The coordinates of theta that belong to N are ``ln p(y) - A(theta_y)``, up to a constant.
        """
        variables, mass = self.model.variables, counts.sum()
        share = self.prior_scale * s.weight / self.n_documents
        # NLL's weights sum to the documents, and pull mu back by as much (equation 11); others' sum to 0.
        pull = s.class_sums.sum() / mass
        class_step = s.class_sums - pull * counts
        away = variables.centre - self.model.under_prior(mu, self.loss)
        step = s.sums - pull * counts[:, None] * mu + share * variables.prior_weight * away
        prior = share * self.class_alpha * (1.0 - len(counts) * counts / mass)
        return class_step + prior, step + prior[:, None] * mu
