"""How far steps over counts of words go: in units of the margin, or as the paper has them."""

from dataclasses import dataclass

from sdem_dist.kernels.schedule import Schedule
from sdem_dist.models.unit import Unit
from sdem_dist.records import record

STEPS = {"hinge": 0.2, "ncll": 1.0}
"""c by loss; chosen by tests/benchmarks/choose_defaults.py."""
STEP_OF_COUNTS = 3.0
"""c where documents keep their lengths: the longest hold the mean step back."""
LEAST = 1e-3
"""Least expected count of a word or a class, as a share of its prior."""
DECAY = 1e-5
"""lambda of Masegosa 2014, section 4.1: after 100,000 documents steps are half as long."""


@record
@dataclass(frozen=True)
class StepSizes:
    """``rho = start / (1 + decay t)``, t counting documents."""

    start: float = 1.0
    class_start: float = 1.0  # `start` and `class_start`: rho_0, of words and of classes
    decay: float = 0.0  # lambda
    correction: bool = False
    """The prior adds ``alpha rho / n`` to every count with each document (the paper's running correction). Otherwise
    the prior is where mu starts, and no more."""
    correct_from: float = 0.0
    """Documents before the first that the correction counts: the start holds the prior of those before."""
    floor: float = LEAST
    class_floor: float = LEAST  # `floor` and `class_floor`: least expected counts (the check)
    mean_square: float = 0.0
    """Mean squared length of the documents; the step of a longer document is no longer than that of a mean one. 0: each
    document's length counts."""

    @property
    def literal(self) -> bool:
        """Whether steps are the paper's."""
        return self.correction

    def rho(self, t: float) -> float:
        """Return the size of a step after `t` documents."""
        return self.start / (1.0 + self.decay * t)

    def corrected(self, t: float, weight: float) -> float:
        """Return how many of the next documents add the prior once more: `weight` documents follow `t`."""
        return max(min(weight, t + weight - self.correct_from), 0.0)

    def of_lane(self, alpha: float, class_alpha: float, n_documents: float, ahead: float) -> Schedule:
        """Return what kernels take; `ahead` documents of the corpus are seen for one of the lane."""
        gain = 1.0 / n_documents if self.correction else 0.0
        return Schedule(
            start=self.start,
            class_start=self.class_start,
            decay=self.decay,
            word_gain=gain * alpha,
            class_gain=gain * class_alpha,
            ahead=float(ahead),
            floor=self.floor,
            class_floor=self.class_floor,
            mean_square=self.mean_square,
        )


def paper_steps() -> StepSizes:
    """Return the step sizes of Masegosa 2014, section 4.1."""
    return StepSizes(decay=DECAY, correction=True, floor=0.0, class_floor=0.0)


def counting_steps(n_documents: float) -> StepSizes:
    """Return steps with which NLL counts: every pass adds the documents and the prior once; the start adds it, too."""
    return StepSizes(correction=True, correct_from=n_documents, floor=0.0, class_floor=0.0)


def margin_steps(step: float, unit: Unit, alpha: float, class_alpha: float) -> StepSizes:
    """Return steps; the first moves a document's label against a rival by `step`, with the hinge loss by twice that.

    A step rho moves the natural parameters of a document's words by ``rho x / mu``, and so its own score by ``rho sum_j
    x_j^2 / mu_j``, less what the words' shares of the total lose. Its mean over documents is `unit`; rho_0 is the step
    divided by it. From there on rho falls as in the paper, with the documents seen, whatever the length of the run.

    `step`: c.
    `unit`: of the training documents.
    `alpha`, `class_alpha`: pseudo-counts.
    """
    class_start = step * class_alpha / (unit.mean_square or 1.0)
    return StepSizes(
        start=step / (unit.margin or 1.0),
        decay=DECAY,
        class_start=class_start,
        floor=LEAST * alpha,
        class_floor=LEAST * class_alpha,
        mean_square=unit.mean_square,
    )
