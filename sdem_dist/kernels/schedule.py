"""What the sequential steps of sdEM share: the table they change, the size of steps, the prior's running correction."""

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.jit import jit_inline
from sdem_dist.kernels.losses import LossForm


class Table(NamedTuple):
    """Expectation parameters of the words at hand, changed in place."""

    words: np.ndarray
    """N, expected counts without gamma: shape (n_words, n_columns), float64."""
    totals: np.ndarray
    """M, the sum of N over the whole vocabulary: shape (n_columns,), float64."""
    class_counts: np.ndarray
    """C, shape (n_counts,), float64; changed where `learn_prior`."""
    log_prior: np.ndarray
    """ln p(y), as long as `class_counts`; overwritten where `learn_prior`."""
    learn_prior: bool
    vocabulary_size: int


class Objective(NamedTuple):
    """What a step lowers."""

    loss: LossForm
    tolerance: float
    """Documents whose largest loss weight is not above it ask for no step."""
    owners: np.ndarray
    """Where columns are components of classes: the class of each, ascending, int64; else shape (0,)."""


class Schedule(NamedTuple):
    """How far steps go."""

    start: float
    """rho before the first document."""
    class_start: float
    """The same for the class counts."""
    decay: float
    """lambda of ``rho = start / (1 + lambda t)``."""
    word_gain: float
    """What gamma gains for rho = 1 and one document: alpha / n."""
    class_gain: float
    ahead: float
    """Documents of the corpus that one document here stands for."""
    floor: float
    """Least expected count of a word."""
    class_floor: float
    mean_square: float
    """Mean of the documents' squared lengths."""


class Moment(NamedTuple):
    """Where a run stands."""

    gamma: float
    """Running prior correction of words."""
    class_gamma: float
    t: float
    """Documents of the corpus seen, by weight."""


@jit_inline
def advanced(schedule, moment, weight):
    """Return rho and the moment with one more document seen, as Algorithm 2 counts it before it takes the posterior."""
    t = moment.t + schedule.ahead * weight
    rho = schedule.start / (1.0 + schedule.decay * t)
    gamma = moment.gamma + schedule.word_gain * rho * weight
    class_gamma = moment.class_gamma + schedule.class_gain * rho * weight
    return rho, Moment(gamma, class_gamma, t)


@jit_inline
def renew_prior(table, class_gamma):
    """Take the logarithms of the class counts where the class prior is learned; a class may be impossible: ln 0."""
    if table.learn_prior:
        for k in range(table.class_counts.size):
            table.log_prior[k] = np.log(table.class_counts[k] + class_gamma)
