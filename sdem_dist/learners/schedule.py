"""The paper's steps over counts of words, and how the results of lanes count."""

from __future__ import annotations

from dataclasses import dataclass

from sdem_dist.kernels.schedule import Schedule
from sdem_dist.records import record


@record
@dataclass(frozen=True)
class PaperSchedule:
    """``rho = 1 / (1 + lambda t)`` (Masegosa 2014, section 4.1).

    Attributes
    ----------
    step_decay : float
        lambda.
    prior_scale : float
        Multiplies what gamma gains.
    tolerance : float
        Documents whose largest loss weight is not above it ask for no step.
    absence : float
        Weight, between 0 and 1, with which a lane that did not meet a word pulls its row to the broadcast value.
    exact : bool
        Take logarithms at the gamma of the moment instead of freezing gamma in them for a lane's run (naive Bayes only).
    """

    step_decay: float = 1e-5
    prior_scale: float = 1.0
    tolerance: float = 1e-6
    absence: float = 0.0
    exact: bool = False

    def rho(self, t: float) -> float:
        """Return the size of a step after so many documents."""
        return 1.0 / (1.0 + self.step_decay * t)

    def of_lane(self, alpha: float, class_alpha: float, n_documents: float, ahead: float) -> Schedule:
        """Return what kernels take; `ahead` documents of the corpus are seen for one of the lane."""
        word_step, class_step = (self.prior_scale * a / n_documents for a in (alpha, class_alpha))
        return Schedule(word_step, class_step, float(self.step_decay), float(ahead))
