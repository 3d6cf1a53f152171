"""Stochastic discriminative EM in tables of words (Masegosa 2014, Algorithms 1 to 7)."""

from dataclasses import dataclass, field

import numpy as np

from sdem_dist.kernels.randomness import document_keys
from sdem_dist.learners.local_words import visiting_order
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.step_sizes import StepSizes
from sdem_dist.learners.word_counts import Model, WordLearner
from sdem_dist.learners.word_statistics import SdemStatistics, at_one_theta, merged
from sdem_dist.losses import LOSSES, Loss, kernel_form
from sdem_dist.models.word_counts import LocalDocuments, SdemState, Steps
from sdem_dist.records import record


@record
@dataclass(frozen=True)
class Sdem(WordLearner[Model]):
    """The learner of sdEM for any model of words.

    `merge`: "mean": every lane runs Algorithm 2 over its documents from the broadcast mu, and what the lanes learned
    is merged. "sum": one step with the statistics of all lanes at the broadcast theta.
    `tolerance`: documents whose largest loss weight is not above it ask for no step.
    """

    loss: str | Loss = "ncll"
    merge: str = "mean"
    steps: StepSizes = field(default_factory=StepSizes)
    tolerance: float = 0.0

    def check_state(self, state: SdemState) -> None:
        """Raise ValueError unless the names in the settings are known and the settings match each other."""
        super().check_state(state)
        if (isinstance(self.loss, str) and self.loss not in LOSSES) or self.merge not in ("mean", "sum"):
            raise ValueError(f"it was trained with loss {self.loss!r} and merge {self.merge!r}, which are unknown")

    @property
    def n_rivals(self) -> int:
        """Classes that a document is scored for at a time."""
        return self.model.n_classes

    @property
    def cache_key(self) -> str:
        """Prepared documents depend on how words are numbered."""
        return f"{super().cache_key} {self.merge}"

    @property
    def frequent_first(self) -> bool:
        """Where lanes step through documents, words are numbered by their frequency."""
        return self.merge == "mean"

    def map(self, state: SdemState, documents: LocalDocuments, lane: Lane) -> SdemStatistics:
        """Return what one lane adds to a round: how far it moved, or statistics at the broadcast theta."""
        local = self._trained_on(documents, lane)
        keys = document_keys(self.seed, lane.epoch, lane.start, lane.stop)
        if self.merge == "sum":
            return self._at_one_theta(state, local, keys)
        n, weight = local.documents.n_documents, local.weight
        steps = self._steps(state, weight, lane.round_documents / max(n, 1))
        changes, counts, end = self.model.run(state, local, visiting_order(self.seed, lane, n), keys, steps)
        met, entries = np.zeros((2, len(changes)))
        if lane.round_documents > n:  # a lane that is alone needs no merging
            met, entries = np.any(changes, axis=1).astype(np.float64), local.entries()
        gammas = end.gamma - state.gamma, end.class_gamma - state.class_gamma
        return SdemStatistics(local.words, changes, met, entries, counts, *gammas, weight, float(weight > 0))

    def _trained_on(self, documents: LocalDocuments, lane: Lane) -> LocalDocuments:
        local = self.trained_on(documents, lane)
        return local._replace(weights=np.where(local.labels < 0, 0.0, local.weights))  # a hidden class has no rivals

    def _steps(self, state: SdemState, weight: float, ahead: float) -> Steps:
        schedule = self.steps.of_lane(self.model.alpha, self.model.class_alpha, self.n_documents, ahead)
        # Kernels that cannot follow gamma within a lane take that of its middle.
        frozen = state.gamma + 0.5 * schedule.word_gain * weight * self.steps.rho(state.t)
        return Steps(schedule, frozen, self.steps.literal, kernel_form(self.loss, self.n_rivals), self.tolerance)

    def _at_one_theta(self, state: SdemState, local: LocalDocuments, keys: np.ndarray) -> SdemStatistics:
        """Return statistics of documents that each step from the broadcast theta: lanes of one document, by weight."""
        reach = local.weights
        if self.steps.mean_square:
            squares = local.squares()
            longest = np.where(squares > 0, squares, self.steps.mean_square)
            reach = reach * np.minimum(1.0, self.steps.mean_square / longest)
        rows, counts = self.model.expected_statistics(
            state, local._replace(weights=reach), self.loss, keys, self.tolerance
        )
        found = at_one_theta(local.words, rows, counts, local.weight)
        return found._replace(met=local.occurrences(), entries=local.entries(), n_lanes=local.weight)

    def update(self, state: SdemState, statistics: SdemStatistics) -> SdemState:
        """Merge what the lanes of a round learned into the next mu."""
        if statistics.weight == 0.0:
            return state
        lanes, steps = statistics, self.steps
        if self.merge == "sum":
            rho = steps.rho(state.t + lanes.weight)
            share = steps.class_start / steps.start
            lanes = lanes._replace(rows=rho * lanes.rows, class_counts=share * rho * lanes.class_counts)
            if steps.literal:  # a step of Algorithm 1, without damping
                gain = rho * steps.corrected(state.t, lanes.weight) / self.n_documents
                lanes = lanes._replace(
                    gamma=self.model.alpha * gain, class_gamma=self.model.class_alpha * gain, n_lanes=1.0
                )
        return merged(state, lanes, steps.floor, steps.class_floor)
