"""Stochastic discriminative EM in tables of words (Masegosa 2014, Algorithms 1 to 7)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sdem_dist.kernels.losses import NUMBERS
from sdem_dist.kernels.randomness import document_keys
from sdem_dist.learners.local_words import visiting_order
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.schedule import PaperSchedule
from sdem_dist.learners.word_counts import Model, WordLearner
from sdem_dist.learners.word_statistics import SdemStatistics, added, at_one_theta, averaged
from sdem_dist.models.word_counts import LocalDocuments, SdemState, Steps
from sdem_dist.records import record


@record
@dataclass(frozen=True)
class Sdem(WordLearner[Model]):
    """The learner of sdEM for any model of words.

    Attributes
    ----------
    loss : {"nll", "ncll", "hinge"}
    merge : {"mean", "sum"}
        "mean": every lane runs Algorithm 2 over its documents from the broadcast mu, and their mu are averaged.  "sum": one
        step with the statistics of all lanes at the broadcast theta.
    schedule : PaperSchedule
    """

    loss: str = "ncll"
    merge: str = "mean"
    schedule: PaperSchedule = field(default_factory=PaperSchedule)

    def check_state(self, state: SdemState) -> None:
        """Raise ValueError unless the names in the settings are known and the settings match each other."""
        super().check_state(state)
        if self.loss not in NUMBERS or self.merge not in ("mean", "sum"):
            raise ValueError(f"it was trained with loss {self.loss!r} and merge {self.merge!r}, which are unknown")

    def map(self, state: SdemState, documents: LocalDocuments, lane: Lane) -> SdemStatistics:
        """Return what one lane adds to a round: its mu times its weight, or statistics at the broadcast theta."""
        local = self.trained_on(documents)
        weight = local.weight
        keys = document_keys(self.seed, lane.epoch, lane.start, lane.stop)
        if self.merge == "sum":
            found = self.model.expected_statistics(state, local, self.loss, keys, self.schedule.tolerance)
            return at_one_theta(local.words, *found, weight)
        n = local.documents.n_documents
        schedule = self.schedule.of_lane(
            self.model.alpha, self.model.class_alpha, self.n_documents, lane.round_documents / max(n, 1)
        )
        # The gamma frozen in the logarithms is that of the middle of the lane.
        frozen = state.gamma + 0.5 * schedule.word_step * weight / (1.0 + self.schedule.step_decay * state.t)
        steps = Steps(schedule, frozen, self.schedule.exact, NUMBERS[self.loss], self.schedule.tolerance)
        words, counts, end = self.model.run(state, local, visiting_order(self.seed, lane, n), keys, steps)
        words *= weight
        counts *= weight
        met = np.full(len(words), weight)
        return SdemStatistics(local.words, words, met, counts, weight * end.gamma, weight * end.class_gamma, weight)

    def update(self, state: SdemState, statistics: SdemStatistics) -> SdemState:
        """Merge the lanes of a round into the next mu: their mean, or a step of Algorithm 1 and the check."""
        if statistics.weight == 0.0:
            return state
        if self.merge == "mean":
            return averaged(state, statistics, self.schedule.absence)
        rho = self.schedule.rho(state.t + statistics.weight)
        prior_step = self.schedule.prior_scale * rho * statistics.weight / self.n_documents
        return added(state, statistics, rho, least=0.0)._replace(
            gamma=state.gamma + self.model.alpha * prior_step,
            class_gamma=state.class_gamma + self.model.class_alpha * prior_step,
        )
