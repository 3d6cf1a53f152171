"""Rules for models of tables: steps that stay inside S, accepted if the objective falls; and the paper's steps."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdem_dist.learners.sdem import At, SdEM
from sdem_dist.losses import Nll, named
from sdem_dist.models.feature_classes import FeatureState, FeatureStatistics
from sdem_dist.models.features import FeatureModel
from sdem_dist.records import record

RADIUS = 1.0  # largest KL divergence, over variables and classes, of one safe step
LANE_RADIUS = 0.1  # the same for steps inside a lane, whose batches are small and noisy
GROWTH, SHRINKAGE = 2.0, 0.25  # factors of the step after an accepted and after a rejected round
HALVINGS = 40  # most halvings of a step
LEAST_SHARE = 0.5  # a safe step keeps at least this share of each class count
_ROUNDING = 1e-12
_STALLED = 1e-3  # size of steps after five rejected rounds
Point = tuple[np.ndarray, np.ndarray]  # N, shape (n_components,), and mu; or the changes of N and S


@dataclass(frozen=True)
class TableSteps:
    """Steps of mu along sums of loss weights times statistics."""

    local: bool = False  # True: lanes step after each batch of their documents, and are averaged; False: a step a round
    batch_size: int = 32  # documents per step inside a lane
    decay: float = 1e-5  # lambda of ``rho = 1 / (1 + lambda t)``
    prior_scale: float = 1.0  # multiplies the prior
    judged = False  # accept a round only if the objective falls

    def map(self, sdem: SdEM[Any], state: FeatureState, batch: Any, at: At) -> FeatureStatistics:
        """Return the sums of a lane at the broadcast theta or, if `local`, its final N and S times its weight."""
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
        empty = np.zeros((len(counts), 0))
        return FeatureStatistics(weight * counts, weight * counts[:, None] * mu, empty, loss, weight)

    @abstractmethod
    def _inner_step(self, sdem: SdEM[Any], state: FeatureState, point: Point, s: Any, t: float, weight: float) -> Point:
        """Return the point after a batch with statistics `s`, in a lane of some `weight`, after t documents."""


def statistics_at(sdem: SdEM[Any], point: Point, batch: Any) -> FeatureStatistics:
    return sdem.model.expected(*point, batch, named(sdem.loss), sdem.unlabelled_weight)  # type: ignore[no-any-return]


@record
class PaperStep(TableSteps):
    """The steps of Masegosa 2014, section 4.1, on unnormalized sums: a step, then the check."""

    local: bool = True

    def _inner_step(self, sdem: SdEM[Any], state: FeatureState, point: Point, s: Any, t: float, weight: float) -> Point:
        """Step N without shrinkage (nu = 0), and S with shrinkage."""
        variables, rho = sdem.model.variables, 1.0 / (1.0 + self.decay * t)
        share = self.prior_scale * rho * s.weight / sdem.n_documents  # share of the prior for these documents
        nu, pseudo = variables.prior_weight[variables.variable_of], share * sdem.model.class_alpha
        counts, mu = point
        new = np.maximum(counts + rho * s.class_counts + pseudo, pseudo)
        sums = (1.0 - share * nu) * counts[:, None] * mu + rho * s.sums + share * nu * variables.centre
        # In sums: V = max(V, S^2 / N + rho / n). The check of the families handles all other bounds.
        return new, variables.check(variables.lifted(sums / new[:, None], share / new))[0]

    def step(self, sdem: SdEM[Any], state: FeatureState, s: FeatureStatistics) -> FeatureState:
        counts, mu = s.class_counts / s.weight, s.sums / s.class_counts[:, None]
        rho = 1.0 / (1.0 + self.decay * (state.t + s.weight))
        return state._replace(class_counts=counts, mu=mu, rho=rho, t=state.t + s.weight)


@record
class SafeStep(TableSteps):
    """Steps that are halved until they stay inside S and within `RADIUS`."""

    # True: a round is a whole epoch, accepted only if the objective falls; accepted rounds increase the step, rejected
    # ones decrease it. False: the step falls with the number of documents.
    judged: bool = True

    def _inner_step(self, sdem: SdEM[Any], state: FeatureState, point: Point, s: Any, t: float, weight: float) -> Point:
        """Step as far as a round over all documents would: lanes are averaged, not summed."""
        if not s.weight > 0:
            return point
        rho = state.rho * sdem.n_documents / weight
        return safe_step(sdem.model.variables, point, self.natural_gradient(sdem, point, s), rho, LANE_RADIUS)[:2]

    def step(self, sdem: SdEM[Any], state: FeatureState, s: FeatureStatistics) -> FeatureState:
        """Return the state after a step; if `judged`, from the broadcast mu if its objective is the lowest so far.

        Otherwise return to the best mu, with a shorter step. The loss may not exceed that of the start, unless it
        contains p(x): the start (a fit without a prior) nearly minimises such a loss, which leaves no room for a step.
        """
        if not self.judged:
            rho = 1.0 / (1.0 + self.decay * (state.t + s.weight))
            counts, mu, _ = self._moved(sdem, (state.class_counts, state.mu), s, rho)
            return state._replace(class_counts=counts, mu=mu, rho=rho, t=state.t + s.weight)
        loss = s.loss / s.weight
        first = state.first_loss if np.isfinite(state.first_loss) else loss
        objective = loss + self.penalty(sdem, (state.class_counts, state.mu))
        # The sum of a loss's weights is its share of ``-ln p(d)``: 0 for p(y | d) alone, 1 for the NLL.
        weights = named(sdem.loss).weights(np.zeros((1, sdem.model.n_classes)), np.zeros(1, np.int32))
        blended = _ROUNDING < weights.sum() < 1.0 - _ROUNDING
        better = objective <= state.best_objective and (loss <= first or blended)
        # Without best counts, this is the first round: accept the start, even if its objective is not finite.
        if better or not len(state.best_counts):
            rho = state.rho * GROWTH if len(state.best_counts) else state.rho
            best = (state.class_counts, state.mu)
            counts, mu, rho = self._moved(sdem, best, s, rho)
            return FeatureState(counts, mu, rho, *best, objective, first, state.t + s.weight)
        best = state.best_counts, state.best_mu
        # The next point lies between the best and the rejected point, and thus inside S, which is convex.
        counts = (1 - SHRINKAGE) * best[0] + SHRINKAGE * state.class_counts
        sums = (1 - SHRINKAGE) * best[0][:, None] * best[1] + SHRINKAGE * state.class_counts[:, None] * state.mu
        rho, t = state.rho * SHRINKAGE, state.t + s.weight
        return state._replace(class_counts=counts, mu=sums / counts[:, None], rho=rho, t=t)

    def _moved(self, sdem: SdEM[Any], point: Point, s: FeatureStatistics, rho: float) -> tuple[Any, Any, float]:
        """Return the point after a round, and rho: the mean of its lanes if `local`, or one step with their sum."""
        if self.local:
            return s.class_counts / s.weight, s.sums / s.class_counts[:, None], rho
        return safe_step(sdem.model.variables, point, self.natural_gradient(sdem, point, s), rho, RADIUS)

    def penalty(self, sdem: SdEM[Any], point: Point) -> float:
        """Return -ln prior per document, up to a constant."""
        (counts, mu), model = point, sdem.model
        nu = model.variables.prior_weight
        penalty = -model.class_alpha * float(np.log(np.maximum(counts / counts.sum(), 1e-300)).sum())
        if nu.any():
            centre = np.broadcast_to(model.variables.centre, mu.shape)
            moved = model.variables.divergence(centre, model.under_prior(mu, named(sdem.loss)))
            penalty += float((nu * moved).sum())
        return self.prior_scale * penalty / sdem.n_documents

    def held_back(self, sdem: SdEM[Any], state: FeatureState) -> bool:
        """Return whether a judged run gained nothing in many rounds, with a prior that outweighs the loss."""
        ran = len(state.best_counts) and 0.05 < state.first_loss < np.inf
        if isinstance(named(sdem.loss), Nll) or state.rho > _STALLED or not ran:
            return False
        penalty = self.penalty(sdem, (state.best_counts, state.best_mu))
        return penalty > state.first_loss and state.best_objective - penalty > (1.0 - 1e-3) * state.first_loss

    def natural_gradient(self, sdem: SdEM[Any], point: Point, s: FeatureStatistics) -> Point:
        """Return the direction of N and S: minus the gradient of loss and prior with respect to theta (Theorem 2).

        The coordinates of theta that belong to N are ``ln p(y) - A(theta_y)``, up to a constant.
        """
        (counts, mu), model = point, sdem.model
        variables, mass = model.variables, counts.sum()
        share = self.prior_scale * s.weight / sdem.n_documents
        # The NLL's weights sum to the documents, and shrink mu in proportion (equation 11); other losses' sum to 0.
        pull = s.class_counts.sum() / mass
        away = variables.centre - model.under_prior(mu, named(sdem.loss))
        nu = variables.prior_weight[variables.variable_of]
        step = s.sums - pull * counts[:, None] * mu + share * nu * away
        prior = share * model.class_alpha * (1.0 - len(counts) * counts / mass)
        return s.class_counts - pull * counts + prior, step + prior[:, None] * mu


def safe_step(variables: FeatureModel, at: Point, move: Point, rho: float, radius: float) -> tuple[Any, Any, float]:
    """Step by rho times `move`, halved for each variable until it stays inside S and within `radius` (section 3.2).

    With the statistics of all documents and the NLL, rho = 1 is a step of EM. Returns N, mu, and the largest step.
    """
    (counts, mu), (class_step, step) = at, move
    for _ in range(HALVINGS):
        new = counts + rho * class_step
        if (new > 0).all() and (new >= LEAST_SHARE * counts).all():
            break
        rho *= 0.5
    else:
        return counts, mu, rho
    # A generative fit may lie outside S (a probability of 0 without a prior), where no step would be inside.
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
