"""Rules for models of tables: steps that stay inside S, judged by the objective; and the paper's own."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdem_dist.learners.sdem import At, SdEM
from sdem_dist.losses import Nll, named
from sdem_dist.models.feature_classes import FeatureState, FeatureStatistics
from sdem_dist.models.features import FeatureModel
from sdem_dist.records import record

RADIUS = 1.0  # largest KL divergence, of any variable in any class, that one safe step may go
LANE_RADIUS = 0.1  # the same for steps inside a lane, whose batches are small and noisy
GROWTH, SHRINKAGE = 2.0, 0.25  # factors of the step after an accepted and after a rejected round
HALVINGS = 40  # how often a step is halved at most
LEAST_SHARE = 0.5  # what a safe step leaves of each class's count, at least
_ROUNDING = 1e-12
_STALLED = 1e-3  # size of steps after five rejected rounds
Point = tuple[np.ndarray, np.ndarray]  # N, shape (n_components,), and mu, or how N and S move


@dataclass(frozen=True)
class TableSteps:
    """Steps of mu with sums of loss weights times statistics."""

    local: bool = False  # lanes step through batches of their documents, and are averaged; otherwise one step a round
    batch_size: int = 32  # documents of a step inside a lane
    decay: float = 1e-5  # lambda of ``rho = 1 / (1 + lambda t)``
    prior_scale: float = 1.0  # multiplies the prior
    judged = False  # whether a round is kept only if the objective falls

    def map(self, sdem: SdEM[Any], state: FeatureState, batch: Any, at: At) -> FeatureStatistics:
        """Return the sums of a lane at the broadcast theta, or where it ends if `local`: its N and S, by its weight."""
        point, t, n = (state.class_counts, state.mu), state.t, len(batch.weights)
        if not self.local:
            return statistics_at(sdem, point, batch)
        weight, order, scale = float(batch.weights.sum()), at.order(n), at.scale(n)
        loss = statistics_at(sdem, point, batch).loss if self.judged else 0.0
        for first in range(0, n, self.batch_size):
            s = statistics_at(sdem, point, batch.take(order[first : first + self.batch_size]))
            t += s.weight * scale
            point = self._inner_step(sdem, state, point, s, t, weight)
        counts, mu = point
        none = np.zeros((len(counts), 0))
        return FeatureStatistics(weight * counts, weight * counts[:, None] * mu, none, loss, weight)

    @abstractmethod
    def _inner_step(self, sdem: SdEM[Any], state: FeatureState, point: Point, s: Any, t: float, weight: float) -> Point:
        """Return the point after one batch of a lane of some weight, with t documents seen."""


def statistics_at(sdem: SdEM[Any], point: Point, batch: Any) -> FeatureStatistics:
    return sdem.model.expected(*point, batch, named(sdem.loss), sdem.unlabelled_weight)  # type: ignore[no-any-return]


@record
class PaperStep(TableSteps):
    """The steps of Masegosa 2014, section 4.1, in unnormalized sums: a step, then the check."""

    local: bool = True

    def _inner_step(self, sdem: SdEM[Any], state: FeatureState, point: Point, s: Any, t: float, weight: float) -> Point:
        """Step N without shrinkage (nu = 0), S with."""
        variables, rho = sdem.model.variables, 1.0 / (1.0 + self.decay * t)
        share = self.prior_scale * rho * s.weight / sdem.n_documents  # of the prior that belongs to these documents
        nu, pseudo = variables.prior_weight[variables.variable_of], share * sdem.model.class_alpha
        counts, mu = point
        new = np.maximum(counts + rho * s.class_counts + pseudo, pseudo)
        sums = (1.0 - share * nu) * counts[:, None] * mu + rho * s.sums + share * nu * variables.centre
        # In sums: V = max(V, S^2 / N + rho / n). The families' own check is for the rest.
        return new, variables.check(variables.lifted(sums / new[:, None], share / new))[0]

    def step(self, sdem: SdEM[Any], state: FeatureState, s: FeatureStatistics) -> FeatureState:
        counts, mu = s.class_counts / s.weight, s.sums / s.class_counts[:, None]
        rho = 1.0 / (1.0 + self.decay * (state.t + s.weight))
        return state._replace(class_counts=counts, mu=mu, rho=rho, t=state.t + s.weight)


@record
class SafeStep(TableSteps):
    """Steps that are halved until they stay inside S and within `RADIUS`."""

    # A round is a whole epoch. What it leads to is kept only if the objective falls, and the size of steps follows the
    # rounds' success. Otherwise it falls with the documents seen.
    judged: bool = True

    def _inner_step(self, sdem: SdEM[Any], state: FeatureState, point: Point, s: Any, t: float, weight: float) -> Point:
        """Step as far as a round of all documents would: a lane is alone."""
        if not s.weight > 0:
            return point
        rho = state.rho * sdem.n_documents / weight
        return safe_step(sdem.model.variables, point, self.natural_gradient(sdem, point, s), rho, LANE_RADIUS)[:2]

    def step(self, sdem: SdEM[Any], state: FeatureState, s: FeatureStatistics) -> FeatureState:
        """Step. If `judged`, keep the broadcast mu if its objective is the lowest yet, else step from the best.

        Nor may the loss end above the start's, except for a loss with a share of p(x). The start, a fit without a
        prior, is nearly the best for such a loss, so this bound would leave no room for the prior and for p(y | x).
        """
        if not self.judged:
            rho = 1.0 / (1.0 + self.decay * (state.t + s.weight))
            counts, mu, _ = self._moved(sdem, (state.class_counts, state.mu), s, rho)
            return state._replace(class_counts=counts, mu=mu, rho=rho, t=state.t + s.weight)
        loss = s.loss / s.weight
        first = state.first_loss if np.isfinite(state.first_loss) else loss
        objective = loss + self.penalty(sdem, (state.class_counts, state.mu))
        # What a loss's weights sum to is its share of ``-ln p(d)``: 0 of p(y | d) alone, 1 of the NLL.
        weights = named(sdem.loss).weights(np.zeros((1, sdem.model.n_classes)), np.zeros(1, np.int32))
        blended = _ROUNDING < weights.sum() < 1.0 - _ROUNDING
        better = objective <= state.best_objective and (loss <= first or blended)
        # Without counts to go back to, the start itself is not finite.
        if better or not len(state.best_counts):
            rho = state.rho * GROWTH if len(state.best_counts) else state.rho
            best = (state.class_counts, state.mu)
            counts, mu, rho = self._moved(sdem, best, s, rho)
            return FeatureState(counts, mu, rho, *best, objective, first, state.t + s.weight)
        best = state.best_counts, state.best_mu
        # The rejected point lies on the way that was tried: S is convex, so a part of that way stays inside.
        counts = (1 - SHRINKAGE) * best[0] + SHRINKAGE * state.class_counts
        sums = (1 - SHRINKAGE) * best[0][:, None] * best[1] + SHRINKAGE * state.class_counts[:, None] * state.mu
        rho, t = state.rho * SHRINKAGE, state.t + s.weight
        return state._replace(class_counts=counts, mu=sums / counts[:, None], rho=rho, t=t)

    def _moved(self, sdem: SdEM[Any], point: Point, s: FeatureStatistics, rho: float) -> tuple[Any, Any, float]:
        """Return where a round leads: to the mean of its lanes, or one step with their sum."""
        if self.local:
            return s.class_counts / s.weight, s.sums / s.class_counts[:, None], rho
        return safe_step(sdem.model.variables, point, self.natural_gradient(sdem, point, s), rho, RADIUS)

    def penalty(self, sdem: SdEM[Any], point: Point) -> float:
        """Return -ln prior, up to a constant, a document."""
        (counts, mu), model = point, sdem.model
        nu = model.variables.prior_weight
        penalty = -model.class_alpha * float(np.log(np.maximum(counts / counts.sum(), 1e-300)).sum())
        if nu.any():
            centre = np.broadcast_to(model.variables.centre, mu.shape)
            moved = model.variables.divergence(centre, model.under_prior(mu, named(sdem.loss)))
            penalty += float((nu * moved).sum())
        return self.prior_scale * penalty / sdem.n_documents

    def held_back(self, sdem: SdEM[Any], state: FeatureState) -> bool:
        """Say whether a judged run gained nothing in many rounds, under a prior that weighs more than the loss."""
        ran = len(state.best_counts) and 0.05 < state.first_loss < np.inf
        if isinstance(named(sdem.loss), Nll) or state.rho > _STALLED or not ran:
            return False
        penalty = self.penalty(sdem, (state.best_counts, state.best_mu))
        return penalty > state.first_loss and state.best_objective - penalty > (1.0 - 1e-3) * state.first_loss

    def natural_gradient(self, sdem: SdEM[Any], point: Point, s: FeatureStatistics) -> Point:
        """Return minus the gradient of the summed loss and the prior's share by theta: how N and S move (Theorem 2).

        The coordinates of theta that belong to N are ``ln p(y) - A(theta_y)``, up to a constant.
        """
        (counts, mu), model = point, sdem.model
        variables, mass = model.variables, counts.sum()
        share = self.prior_scale * s.weight / sdem.n_documents
        # NLL's weights sum to the documents, and pull mu back by as much (equation 11); others' sum to 0.
        pull = s.class_counts.sum() / mass
        away = variables.centre - model.under_prior(mu, named(sdem.loss))
        nu = variables.prior_weight[variables.variable_of]
        step = s.sums - pull * counts[:, None] * mu + share * nu * away
        prior = share * model.class_alpha * (1.0 - len(counts) * counts / mass)
        return s.class_counts - pull * counts + prior, step + prior[:, None] * mu


def safe_step(variables: FeatureModel, at: Point, way: Point, rho: float, radius: float) -> tuple[Any, Any, float]:
    """Step along a way, halved for each variable until it stays inside S and within `radius` (section 3.2).

    With the statistics of all documents and the NLL rho = 1 is a step of EM. Returns N, mu, and the largest step.
    """
    (counts, mu), (class_step, step) = at, way
    for _ in range(HALVINGS):
        new = counts + rho * class_step
        if (new > 0).all() and (new >= LEAST_SHARE * counts).all():
            break
        rho *= 0.5
    else:
        return counts, mu, rho
    # A generative fit may lie outside (a probability of 0 without a prior): from there no step would be inside.
    start = variables.check(mu)[0]
    along = (step - class_step[:, None] * start) / new[:, None]
    rhos = np.full((len(counts), variables.n_variables), rho)
    for _ in range(HALVINGS):
        moved = start + rhos[:, variables.variable_of] * along
        finite = variables.all_of_variables(np.isfinite(moved))
        tried = np.where(finite[:, variables.variable_of], moved, start)
        checked, outside = variables.check(tried)
        inside = variables.all_of_variables(checked == tried) if outside else True
        far = ~(finite & inside & (variables.divergence(checked, start) <= radius))
        if not far.any():
            return new, moved, float(rhos.max())
        rhos[far] *= 0.5
    return new, np.where(far[:, variables.variable_of], start, moved), float(rhos.max())
