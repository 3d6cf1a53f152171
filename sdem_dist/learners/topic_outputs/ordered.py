"""A level of a scale for each document: the cumulative logit, or proportional odds, of McCullagh 1980."""

import numpy as np
from scipy.special import log_expit, logit

from sdem_dist.kernels import topic_outputs
from sdem_dist.kernels.topic_outputs import WIDEST
from sdem_dist.learners.topic_outputs.classes import Classes
from sdem_dist.models.supervised_lda import TopicParameters


class Ordered(Classes):
    """``p(level <= j | d) = sigmoid(threshold_(j + 1) - gamma u theta)``.

    U's first row is u. Of each other row all entries are one number: the first threshold, then the logarithms of the
    gaps to the next ones.
    """

    kind = topic_outputs.ORDERED

    def start(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        """Return a normal score, and thresholds at which all levels are equally probable."""
        output = np.empty(shape)
        output[0] = rng.standard_normal(shape[1])
        even = logit(np.arange(1, shape[0]) / shape[0])
        output[1] = even[0]
        output[2:] = np.log(np.diff(even))[:, None]
        return output

    def scores(self, gamma: float, parameters: TopicParameters, outputs: np.ndarray) -> np.ndarray:
        """Return ln p(level | d), from U theta."""
        score, at = gamma * outputs[:, :1], thresholds(parameters.output)
        edges = np.concatenate([[-np.inf], at, [np.inf]])
        inside = np.concatenate([[0.0], np.log(-np.expm1(-np.diff(at))), [0.0]])
        return np.asarray(log_expit(edges[1:] - score) + log_expit(score - edges[:-1]) + inside)


def thresholds(output: np.ndarray) -> np.ndarray:
    """Return the thresholds between levels, ascending, shape (n_levels - 1,)."""
    gaps = np.exp(np.clip(output[2:, 0], -WIDEST, WIDEST))
    return np.asarray(output[1, 0] + np.concatenate([[0.0], np.cumsum(gaps)]))
