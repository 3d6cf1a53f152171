"""Losses over class scores: the loss of a document, and the weight of each class in a step."""

from numbers import Real
from typing import Protocol, TypeAlias

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from sdem_dist.kernels.losses import HINGE, NCLL, NLL, LossForm
from sdem_dist.records import record

SUM_HINT = 'use merge="sum"'
Arrays: TypeAlias = tuple[np.ndarray, ...]
PACKAGE_LOSSES_ONLY = "this estimator supports only the losses of sdem_dist.losses"


class Loss(Protocol):
    """Interface of losses: a frozen dataclass with these two methods, see `sdem_dist.testing.check_loss`.

    Scores ``ln p(y, d)`` have shape (n_documents, n_classes); labels are positions in ``classes_``, shape
    (n_documents,). Steps of sdEM follow ``sum_y weights[y] * E[s(y, d)]`` (Masegosa 2014, Tables 1 and 2).
    """

    def value(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the loss of each document, shape (n_documents,)."""

    def weights(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return minus the gradient of `value` with respect to the scores, shape (n_documents, n_classes)."""


@record
class Nll:
    """Negative log-likelihood ``-ln p(y, d)``: maximum likelihood."""

    def value(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return -_of_label(scores, labels)

    def weights(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return 1 on the label, 0 elsewhere (Table 1)."""
        return one_hot(labels, scores.shape[1])


@record
class Ncll:
    """Negative conditional log-likelihood ``-ln p(y | d)``."""

    def value(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return ``-ln p(y | d)`` of each document (Table 1)."""
        return -_of_label(log_softmax(scores, axis=1), labels)

    def weights(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return ``1[k = y] - p(k | d)`` (Table 1)."""
        weights = -softmax(scores, axis=1)
        weights[np.arange(len(labels)), labels] += 1.0
        return np.asarray(weights)


@record
class Hinge:
    """``max(0, margin - ln(p(y, d) / p(rival, d)))`` (equation 17); margin 0 is the perceptron's loss.

    Attributes
    ----------
    margin : float
        Required lead of the label over its strongest rival, in nats.
    """

    margin: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.margin, bool) or not (isinstance(self.margin, Real) and 0.0 <= self.margin < np.inf):
            raise ValueError(f"margin must be a finite, nonnegative number, got {self.margin!r}")

    def value(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the amount by which the margin to the strongest rival is missed (equation 17)."""
        return np.maximum(0.0, self.margin - self._margins(scores, labels)[0])

    def weights(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return 1 on the label and -1 on its strongest rival, unless the margin is exceeded."""
        margins, rivals = self._margins(scores, labels)
        weights = one_hot(labels, scores.shape[1])
        weights[np.arange(len(labels)), rivals] = -1.0
        weights[margins > self.margin] = 0.0
        return weights

    def _margins(self, scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lead of each label over its strongest rival, and this rival."""
        others = scores.copy()
        others[np.arange(len(labels)), labels] = -np.inf
        rivals = others.argmax(axis=1)
        with np.errstate(invalid="ignore"):  # -inf minus -inf: two impossible classes tie
            margins = _of_label(scores, labels) - _of_label(scores, rivals)
        return np.where(np.isnan(margins), 0.0, margins), rivals


@record
class CostSensitiveHinge:
    """``max_k (costs[y][k] + ln p(k, d)) - ln p(y, d)``: the required margin is the cost of the confusion.

    Attributes
    ----------
    costs : tuple of tuples of float
        ``costs[y][k]``, nonnegative: the cost of predicting k for class y; 0 for k = y.
    """

    costs: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        costs = np.array(self.costs, np.float64)
        fit = costs.ndim == 2 and costs.shape[0] == costs.shape[1] and np.isfinite(costs).all() and (costs >= 0).all()
        if not fit or np.diag(costs).any() or not costs.any():
            rule = "a square matrix of finite, nonnegative numbers, not all 0, with a zero diagonal"
            raise ValueError(f"costs must be {rule}, got {self.costs!s:.200}")

    def __str__(self) -> str:
        return f"hinge loss with costs for {len(self.costs)} classes"

    def value(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return how much the worst class, including its cost, exceeds the label."""
        return np.asarray(self._raised(scores, labels).max(axis=1) - _of_label(scores, labels))

    def weights(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        weights = one_hot(labels, scores.shape[1])
        weights[np.arange(len(labels)), self._raised(scores, labels).argmax(axis=1)] -= 1.0
        return weights

    def _raised(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        if len(self.costs) != scores.shape[1]:
            raise ValueError(f"costs are for {len(self.costs)} classes, but the data have {scores.shape[1]}")
        return np.asarray(scores + np.asarray(self.costs)[labels])


@record
class Blend:
    """A weighted sum of the NLL and another loss, between generative and discriminative training.

    Attributes
    ----------
    other : Loss
    share : float
        Weight of the NLL, from 0 to 1.
    """

    other: Loss
    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise ValueError(f"share must be between 0 and 1, got {self.share}")
        if not callable(getattr(self.other, "weights", None)):
            raise TypeError(f"other must be a loss, such as Hinge(), got {self.other!r}")

    def value(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the two losses."""
        return self.share * Nll().value(scores, labels) + (1.0 - self.share) * self.other.value(scores, labels)

    def weights(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return self.share * Nll().weights(scores, labels) + (1.0 - self.share) * self.other.weights(scores, labels)


NAMED: dict[str, Loss] = {"nll": Nll(), "ncll": Ncll(), "hinge": Hinge()}
LOSSES = tuple(NAMED)
nll, ncll, hinge = (loss.value for loss in NAMED.values())


def named(loss: str | Loss) -> Loss:
    return NAMED[loss] if isinstance(loss, str) else loss


def loss_kind(loss: str | Loss) -> str:
    """Return "hinge" for losses that compare two classes, "ncll" for other losses."""
    loss = named(loss)
    loss = loss.other if isinstance(loss, Blend) else loss
    return "hinge" if isinstance(loss, Hinge | CostSensitiveHinge) else "ncll"


def kernel_form(loss: str | Loss, n_classes: int, hint: str = SUM_HINT) -> LossForm:
    """Return a loss in the form for compiled steps; ValueError, with `hint`, for a custom loss or mismatched costs."""
    loss = named(loss)
    loss, share = (loss.other, loss.share) if isinstance(loss, Blend) else (loss, 0.0)
    costs = np.zeros((0, 0))
    if isinstance(loss, CostSensitiveHinge):
        costs = np.array(loss.costs, np.float64)
        if len(costs) != n_classes:
            raise ValueError(f"costs are for {len(costs)} classes, but the data have {n_classes}")
    kinds: dict[type, int] = {Nll: NLL, Ncll: NCLL, Hinge: HINGE, CostSensitiveHinge: HINGE}
    if type(loss) not in kinds:
        raise ValueError(f"compiled steps do not support the custom loss {loss!r}: {hint}")
    margin = loss.margin if isinstance(loss, Hinge) else 1.0
    return LossForm(kinds[type(loss)], float(margin), costs, float(share))


def one_hot(labels: np.ndarray, n_columns: int) -> np.ndarray:
    """Return 1 in the column of each label, shape (n_documents, n_columns); 0 in all columns if it is -1."""
    weights = np.zeros((len(labels), n_columns))
    labelled = np.flatnonzero(labels >= 0)
    weights[labelled, labels[labelled]] = 1.0
    return weights


def _of_label(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.asarray(scores[np.arange(len(labels)), labels])


def marginal_log_likelihood(scores: np.ndarray) -> np.ndarray:
    """Return ``ln p(d) = ln sum_y p(y, d)`` of each document."""
    return np.asarray(logsumexp(scores, axis=1))
