"""Stochastic discriminative EM for naive Bayes over dense features of any families (Masegosa 2014, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import DenseDocuments
from sdem_dist.evaluation import evaluation_sums, finish
from sdem_dist.learners.protocol import Lane
from sdem_dist.losses import Loss, Ncll, Nll, marginal_log_likelihood
from sdem_dist.models.features import FeatureModel, FeatureParameters, Features

RADIUS = 1.0
"""Largest KL divergence, of any variable in any class, that one safe step may go."""
LANE_RADIUS = 0.1
"""The same for steps inside a lane, whose batches are small and noisy."""
GROWTH, SHRINKAGE, HALVINGS = 2.0, 0.25, 40
"""What the step is multiplied by after an accepted and after a rejected round; how often it is halved at most."""
_STALLED = 1e-3
"""Size of steps after five rejected rounds."""
LEAST_SHARE = 0.5
"""What a safe step leaves of each class's count, at least."""


class FeatureState(NamedTuple):
    """Expectation parameters, and where the run stands."""

    class_counts: np.ndarray
    """N, expected counts of the classes: shape (n_classes,)."""
    mu: np.ndarray
    """Mean statistics given the class, S / N: shape (n_classes, n_statistics)."""
    rho: float
    """Size of the next safe step."""
    best_counts: np.ndarray
    """N of the lowest objective so far; shape (0,) where rounds are not judged."""
    best_mu: np.ndarray
    best_objective: float
    """Mean loss and prior of the best, or infinity."""
    first_loss: float
    """Mean loss at the start of the run, or infinity: a best with a higher one is none."""
    t: float
    """Documents seen, a document of weight w counting w."""


class FeatureStatistics(NamedTuple):
    """Sums over lanes."""

    class_sums: np.ndarray
    """Shape (n_classes,)."""
    sums: np.ndarray
    """Shape (n_classes, n_statistics)."""
    known: np.ndarray
    """Observations of each class and variable, shape (n_classes, n_variables); of the generative fit only."""
    loss: float
    """At the state that was broadcast."""
    weight: float
    """Documents, by weight."""


@dataclass(frozen=True)
class FeatureSdem:
    """Settings and pure functions of sdEM for naive Bayes over dense features.

    Attributes
    ----------
    model : FeatureModel
    n_classes : int
    n_documents : float
        n, the documents of the training corpus by weight.
    loss : Loss or None
        None: the generative fit of labelled documents, in closed form.
    class_alpha : float
        Pseudo-count of each class in the conjugate prior of a discriminative run.
    merge : {"sum", "mean"}
    batch_size : int
        Documents of a step inside a lane ("mean" only).
    step : {"safe", "paper"}
        "safe": steps are halved until they stay inside S and within `RADIUS`, and their size follows the rounds'
        success. "paper": ``rho = 1 / (1 + step_decay * t)`` and the check, in the paper's unnormalised sums.
    judged : bool
        A round is a whole epoch: keep what it leads to only if the objective falls.
    step_decay : float
        lambda of the paper's steps, and of safe ones that are not judged.
    prior_scale : float
        Multiplies the prior of a discriminative run.
    log_prior : tuple of float or None
        Fixed ln p(y); None learns it.
    class_weight : tuple of float or None
        Multiplies the weights of the documents of each class.
    unlabelled_weight : float
        Weight of a document without a label, which counts through ``-ln p(x)``.
    seed : int
    """

    model: FeatureModel
    n_classes: int
    n_documents: float
    loss: Loss | None = field(default_factory=Ncll)
    class_alpha: float = 1.0
    merge: str = "sum"
    batch_size: int = 32
    step: str = "safe"
    judged: bool = True
    step_decay: float = 1e-5
    prior_scale: float = 1.0
    log_prior: tuple[float, ...] | None = None
    class_weight: tuple[float, ...] | None = None
    unlabelled_weight: float = 1.0
    seed: int = 0

    @cached_property
    def cache_key(self) -> str:
        """Prepared documents depend on the blocks and the class weights."""
        return "features " + sha256(repr((self.model.blocks, self.class_weight)).encode()).hexdigest()

    def init(self) -> FeatureState:
        """Return mu_0, the prior's (Algorithm 1, line 1)."""
        mu = np.tile(self.model.centre, (self.n_classes, 1))
        counts = np.full(self.n_classes, self.class_alpha)
        return FeatureState(counts, mu, 1.0, np.empty(0), np.empty((0, 0)), np.inf, np.inf, 0.0)

    def prepare(self, documents: DenseDocuments) -> Features:
        """Return the documents as statistics, class weights folded into document weights."""
        features = self.model.features(documents.values, documents.labels, documents.weights)
        labels, weights = features.labels, features.weights
        factor = np.ones(len(labels))
        if self.class_weight is not None:
            factor = np.asarray(self.class_weight)[labels]
        return features._replace(weights=weights * np.where(labels < 0, 1.0, factor))

    def inside(self, state: FeatureState) -> FeatureState:
        """Return a generative fit as a start for steps: what has no theta (a variance of 0) projected into S."""
        with np.errstate(all="ignore"):
            found = self.model.to_natural(state.mu, np.zeros(self.n_classes))
        finite = self.model.all_of_variables(np.isfinite(found.theta)) & np.isfinite(found.partitions)
        usable = finite[:, self.model.variable_of]
        return state._replace(mu=np.where(usable, state.mu, self.model.check(state.mu)[0]))

    def parameters(self, state: FeatureState) -> FeatureParameters:
        """Return the natural parameters of the best mu, or of the last where rounds are not judged."""
        counts, mu = (state.best_counts, state.best_mu) if len(state.best_counts) else (state.class_counts, state.mu)
        return self._natural(counts, mu)

    def _natural(self, counts: np.ndarray, mu: np.ndarray) -> FeatureParameters:
        if self.log_prior is not None:
            return self.model.to_natural(mu, np.asarray(self.log_prior))
        with np.errstate(divide="ignore"):  # a class without documents
            return self.model.to_natural(mu, np.log(counts) - np.log(counts.sum()))

    def map(self, state: FeatureState, documents: Features, lane: Lane) -> FeatureStatistics:
        """Return what one lane adds to a round."""
        if self.loss is None:
            return self._counts(documents)
        if self.merge == "sum":
            return self._expected(state.class_counts, state.mu, documents)
        return self._run_lane(state, documents, lane)

    def _counts(self, features: Features) -> FeatureStatistics:
        """Return the statistics of labelled documents, by class."""
        weights = np.zeros((len(features.labels), self.n_classes))
        labelled = np.flatnonzero(features.labels >= 0)
        weights[labelled, features.labels[labelled]] = features.weights[labelled]
        class_sums = weights.sum(axis=0)
        sums = np.einsum("nk,ns->ks", weights, features.statistics)
        known = np.repeat(class_sums[:, None], self.model.n_variables, axis=1)
        if features.missing.shape[1]:
            known = known - np.einsum("nk,nv->kv", weights, features.missing)
        return FeatureStatistics(class_sums, sums, known, 0.0, float(features.weights.sum()))

    def _expected(self, counts: np.ndarray, mu: np.ndarray, features: Features) -> FeatureStatistics:
        """Return the sum of class weights times expected statistics at one theta, and the loss there (Table 2)."""
        weights, loss = self.class_weights(self.model.scores(self._natural(counts, mu), features), features)
        sums = self.model.weighted_statistics(weights, features, mu)
        none = np.zeros((self.n_classes, 0))
        return FeatureStatistics(weights.sum(axis=0), sums, none, float(loss.sum()), float(features.weights.sum()))

    def class_weights(self, scores: np.ndarray, features: Features) -> tuple[np.ndarray, np.ndarray]:
        """Return each row's class weights, and what it costs; rows without a label have the class as hidden variable."""
        assert self.loss is not None
        labels = features.labels
        hidden = labels < 0
        known = np.where(hidden, 0, labels)
        weights, loss = self.loss.weights(scores, known), self.loss.value(scores, known)
        if hidden.any():
            total = marginal_log_likelihood(scores)
            posterior = np.exp(scores - total[:, None])
            weights = np.where(hidden[:, None], self.unlabelled_weight * posterior, weights)
            loss = np.where(hidden, -self.unlabelled_weight * total, loss)
        used = features.weights > 0
        return weights * features.weights[:, None], np.where(used, loss, 0.0) * features.weights

    def _run_lane(self, state: FeatureState, features: Features, lane: Lane) -> FeatureStatistics:
        """Run sdEM over the lane's documents from the broadcast mu; return its N and S times its weight."""
        counts, mu, t = state.class_counts, state.mu, state.t
        weight = float(features.weights.sum())
        loss = 0.0
        if self.judged:
            loss = float(self.class_weights(self.model.scores(self._natural(counts, mu), features), features)[1].sum())
        key = np.array([self.seed, (lane.epoch << 40) | (lane.round << 20) | lane.lane], np.uint64)
        order = np.random.Generator(np.random.Philox(key=key)).permutation(len(features.labels))
        ahead = lane.round_documents / max(len(order), 1)  # documents of all lanes for one of this lane's
        for first in range(0, len(order), self.batch_size):
            batch = features.take(order[first : first + self.batch_size])
            found = self._expected(counts, mu, batch)
            t += found.weight * ahead
            if self.step == "paper":
                counts, mu = self._paper_step(counts, mu, found, 1.0 / (1.0 + self.step_decay * t))
            elif found.weight > 0:
                # A lane alone goes as far as a round of all documents.
                counts, mu, _ = self._safe_step(counts, mu, found, state.rho * self.n_documents / weight, LANE_RADIUS)
        none = np.zeros((self.n_classes, 0))
        return FeatureStatistics(weight * counts, weight * counts[:, None] * mu, none, loss, weight)

    def combine(self, parts: Sequence[FeatureStatistics]) -> FeatureStatistics:
        """Add sets of lanes, from first to last."""
        if len(parts) == 1:
            return parts[0]
        class_sums, sums, known = (np.sum(np.stack(column), axis=0) for column in list(zip(*parts, strict=True))[:3])
        return FeatureStatistics(class_sums, sums, known, sum(p.loss for p in parts), sum(p.weight for p in parts))

    def update(self, state: FeatureState, statistics: FeatureStatistics) -> FeatureState:
        """Merge the lanes of a round into the next mu."""
        if statistics.weight == 0.0:
            return state
        if self.loss is None:
            return self._generative(state, statistics)
        if self.judged:
            return self._judge(state, statistics)
        rho = 1.0 / (1.0 + self.step_decay * (state.t + statistics.weight))
        counts, mu, _ = self._moved(state.class_counts, state.mu, statistics, rho)
        return state._replace(class_counts=counts, mu=mu, rho=rho, t=state.t + statistics.weight)

    def _generative(self, state: FeatureState, s: FeatureStatistics) -> FeatureState:
        """Return maximum a posteriori estimates, in closed form; no prior on the classes."""
        parts = zip(self.model.blocks, self.model.split(s.sums), self._by_block(s.known), strict=True)
        mu = self.model.join([b.family.posterior_mean(sums, known) for b, sums, known in parts])
        if not s.class_sums.any():  # no document has a label
            return state
        # As many as there are documents, so that a document's step weighs 1.
        counts = s.class_sums * (self.n_documents / s.class_sums.sum())
        return state._replace(class_counts=counts, mu=mu, t=state.t + s.weight)

    def _by_block(self, variables: np.ndarray) -> list[np.ndarray]:
        ends = np.cumsum([b.n_variables for b in self.model.blocks])
        return np.split(variables, ends[:-1], axis=-1)

    def _judge(self, state: FeatureState, s: FeatureStatistics) -> FeatureState:
        """Keep the broadcast mu if its objective is the lowest yet, else go back; step on from the best."""
        loss = s.loss / s.weight
        first = state.first_loss if np.isfinite(state.first_loss) else loss
        objective = loss + self._penalty(state.class_counts, state.mu)
        better = objective <= state.best_objective and loss <= first
        if not better and not len(state.best_counts):  # the start itself is not finite: nothing to go back to
            better = True
        if better:
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

    def _penalty(self, counts: np.ndarray, mu: np.ndarray) -> float:
        """Return -ln prior, up to a constant, a document."""
        nu = self.model.prior_weight[np.unique(self.model.variable_of, return_index=True)[1]]
        penalty = -self.class_alpha * float(np.log(np.maximum(counts / counts.sum(), 1e-300)).sum())
        if nu.any():
            centre = np.broadcast_to(self.model.centre, mu.shape)
            penalty += float((nu * self.model.divergence(centre, self.under_prior(mu))).sum())
        return self.prior_scale * penalty / self.n_documents

    def under_prior(self, mu: np.ndarray) -> np.ndarray:
        """Return what of mu the prior is about: all of it."""
        return mu

    def held_back(self, state: FeatureState) -> bool:
        """Say whether a judged run gained nothing in many rounds, under a prior that weighs more than the loss."""
        if (
            isinstance(self.loss, Nll)
            or state.rho > _STALLED
            or not (len(state.best_counts) and 0.05 < state.first_loss < np.inf)
        ):
            return False
        penalty = self._penalty(state.best_counts, state.best_mu)
        ended = state.best_objective - penalty
        return penalty > state.first_loss and ended > (1.0 - 1e-3) * state.first_loss

    def _moved(
        self, counts: np.ndarray, mu: np.ndarray, s: FeatureStatistics, rho: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return where a round leads: to the mean of its lanes, or one step with their sum."""
        if self.merge == "sum":
            return self._safe_step(counts, mu, s, rho)
        merged = s.class_sums / s.weight
        return merged, s.sums / s.class_sums[:, None], rho

    def _safe_step(
        self, counts: np.ndarray, mu: np.ndarray, s: FeatureStatistics, rho: float, radius: float = RADIUS
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Step along the natural gradient, halved for each variable until it stays inside S and within `radius` (section 3.2).

        Counts sum to n, so that rho = 1 with the statistics of all documents and the NLL is a step of EM.
        """
        class_step, step = self.natural_gradient(counts, mu, s)
        for _ in range(HALVINGS):
            new = counts + rho * class_step
            if (new > 0).all() and (new >= LEAST_SHARE * counts).all():
                break
            rho *= 0.5
        else:
            return counts, mu, rho
        # A generative fit may lie outside (a probability of 0 without a prior): from there no step would be inside.
        start = self.model.check(mu)[0]
        way = (step - class_step[:, None] * start) / new[:, None]
        rhos = np.full((self.n_classes, self.model.n_variables), rho)
        for _ in range(HALVINGS):
            moved = start + rhos[:, self.model.variable_of] * way
            far = ~self._within(moved, start, radius)
            if not far.any():
                return new, moved, float(rhos.max())
            rhos[far] *= 0.5
        return new, np.where(far[:, self.model.variable_of], start, moved), float(rhos.max())

    def _within(self, moved: np.ndarray, start: np.ndarray, radius: float) -> np.ndarray:
        """Return which variables of which classes stay inside S and within `radius` of where they were."""
        finite = self.model.all_of_variables(np.isfinite(moved))
        moved = np.where(finite[:, self.model.variable_of], moved, start)
        checked, outside = self.model.check(moved)
        inside = self.model.all_of_variables(checked == moved) if outside else True
        return np.asarray(finite & inside & (self.model.divergence(checked, start) <= radius))

    def natural_gradient(
        self, counts: np.ndarray, mu: np.ndarray, s: FeatureStatistics
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return minus the gradient of the summed loss and the prior's share by theta: how N and S are to move (Theorem 2).

        The coordinates of theta that belong to N are ``ln p(y) - A(theta_y)``, up to a constant.
        """
        mass, share = counts.sum(), self.prior_scale * s.weight / self.n_documents
        # NLL's weights sum to the documents, and pull mu back by as much (equation 11); others' sum to 0.
        pull = s.class_sums.sum() / mass
        class_step = s.class_sums - pull * counts
        step = (
            s.sums
            - pull * counts[:, None] * mu
            + share * self.model.prior_weight * (self.model.centre - self.under_prior(mu))
        )
        prior = share * self.class_alpha * (1.0 - self.n_classes * counts / mass)
        return class_step + prior, step + prior[:, None] * mu

    def _paper_step(
        self, counts: np.ndarray, mu: np.ndarray, s: FeatureStatistics, rho: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the step of section 4.1: N without shrinkage (nu = 0), S with, then the check."""
        pseudo = self.prior_scale * rho * s.weight / self.n_documents
        nu = self.model.prior_weight
        new = np.maximum(counts + rho * s.class_sums + pseudo * self.class_alpha, pseudo * self.class_alpha)
        sums = (1.0 - pseudo * nu) * counts[:, None] * mu + rho * s.sums + pseudo * nu * self.model.centre
        return new, self.model.check(sums / new[:, None])[0]

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return accuracy, mean losses and perplexity, see `sdem_dist.evaluation.finish`."""
        return finish(sums)

    def evaluate(self, state: FeatureState, batches: Iterable[Features]) -> np.ndarray:
        """Return the sums of `sdem_dist.evaluation` over all labelled documents of the batches."""
        parameters = self.parameters(state)
        columns = []
        for features in batches:
            labelled = features.take(np.flatnonzero(features.labels >= 0))
            known = self.model.n_variables - labelled.missing.sum(axis=1)
            columns.append((self.model.scores(parameters, labelled), labelled.labels, labelled.weights, known))
        return evaluation_sums(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))
