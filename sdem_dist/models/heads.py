"""Heads: how losses and evaluation read a model's scores, as classes, components of classes, labels or a number."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sdem_dist import evaluation
from sdem_dist.documents import Documents
from sdem_dist.evaluation import Scored
from sdem_dist.kernels.csr import row_sums, unsigned, weighed_squares
from sdem_dist.kernels.randomness import document_keys
from sdem_dist.losses import Arrays, Loss, marginal_log_likelihood
from sdem_dist.records import record

TEMPERATURE, THRESHOLD = "temperature of label ", "threshold of label "  # metrics; the label's index follows
HELD_OUT = (1 << 32) - 1  # takes the place of the epoch in the random keys that choose held-out documents
ALIKE = 0.5  # documents are nearly alike if the total M leaves at most this share of the margin; texts leave about .99


class Model:
    """Base of all models: the head gives scores their meaning, and statistics are NamedTuples of additive fields."""

    head: Any
    tempered = False  # whether evaluation computes the log-loss at each temperature

    @property
    def n_classes(self) -> int:
        return int(self.head.n_classes)

    def add(self, parts: Sequence[Any]) -> Any:
        """Return the statistics of several lanes, summed field by field, in the order of the lanes."""
        return parts[0]._make(sum(column[1:], start=column[0]) for column in zip(*parts, strict=True))


@record
class Classes:
    """One class per document; the score of a class with several components is the log of their summed probabilities."""

    n_classes: int
    # The class of each component, ascending; empty: one column per class. Components of a single class are clusters.
    component_class: tuple[int, ...] = ()
    shared: bool = False  # all classes share their i-th component, with a mixing weight per class

    def __post_init__(self) -> None:
        is_ascending = list(self.component_class) == sorted(self.component_class)
        classes = sorted(set(self.component_class))  # no range(n_classes): a damaged file may claim a huge n_classes
        all_there = len(classes) == self.n_classes and classes == list(range(len(classes)))
        if self.component_class and not (is_ascending and all_there):
            raise ValueError("component_class must be sorted, with at least one component per class")

    @property
    def n_columns(self) -> int:
        return len(self.component_class) or self.n_classes

    @property
    def clusters(self) -> bool:
        return self.n_classes == 1 and bool(self.component_class)

    def loss_weights(self, loss: Loss, scores: np.ndarray, labels: np.ndarray, unlabelled_weight: float = 1) -> Arrays:
        """Return minus the gradient of a loss with respect to scores, (n, n_columns), and each row's loss (Table 2).

        The gradient is the class's weight times ``p(z | y, x)``. A row without a label (-1) has the loss ``-ln p(x)``.
        """
        of_class, posteriors = by_class(scores, self.component_class)
        hidden = labels < 0
        labels = np.where(hidden, 0, labels)
        weights, values = loss.weights(of_class, labels), loss.value(of_class, labels)
        if hidden.any():
            total = marginal_log_likelihood(of_class)
            posterior = np.exp(of_class - total[:, None])
            weights = np.where(hidden[:, None], unlabelled_weight * posterior, weights)
            values = np.where(hidden, -unlabelled_weight * total, values)
        return (weights if posteriors is None else weights[:, self.component_class] * posteriors), values

    def sums(self, batches: Iterable[Scored], *, held_out: bool = False, tempered: bool = True) -> np.ndarray:
        """Return the sums for `metrics` over all batches; `tempered`: with the log-loss at each temperature."""
        if held_out:
            return np.sum([evaluation.choosing_sums(b.scores, b.labels, b.weights) for b in batches], axis=0)
        documents = evaluation.joined(batches)
        if self.clusters:
            return evaluation.evaluation_sums(documents)
        return evaluation.classifier_sums(documents, tempered=tempered)

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        """Return accuracy, mean losses, perplexity and calibration; for clusters only the metrics of p(x)."""
        if held_out:
            return evaluation.choosing_metrics(sums)
        if self.clusters:
            means = evaluation.finish(sums)
            return {name: means[name] for name in ("nll", "perplexity")}
        return evaluation.classifier_metrics(sums, self.n_classes)


def by_class(scores: np.ndarray, component_class: tuple[int, ...]) -> tuple[np.ndarray, Any]:
    """Return ln p(y, x) of classes from ln p(z, y, x), and p(z | y, x); `scores` and None without components."""
    if not component_class:
        return scores, None
    starts = first_components(component_class)
    top = np.maximum.reduceat(scores, starts, axis=1)
    top = np.where(np.isneginf(top), 0.0, top)
    posteriors = np.exp(scores - top[:, component_class])
    totals = np.add.reduceat(posteriors, starts, axis=1)
    posteriors /= np.where(totals > 0, totals, 1.0)[:, component_class]
    with np.errstate(divide="ignore"):
        return top + np.log(totals), posteriors


def pooled(head: Any, sums: np.ndarray) -> np.ndarray:
    """Return the sums of columns (first axis); shared components get the sum over all classes in each class."""
    if not getattr(head, "shared", False):
        return sums
    return np.concatenate([sums.reshape(head.n_classes, -1, *sums.shape[1:]).sum(axis=0)] * head.n_classes)


def first_components(component_class: tuple[int, ...]) -> np.ndarray:
    return np.searchsorted(np.asarray(component_class), np.arange(component_class[-1] + 1))


@record
class Labels:
    """Any number of labels per document: label l has two columns, ``2 l`` (without it) and ``2 l + 1`` (with it)."""

    n_classes: int  # number of labels
    temperatures: tuple[float, ...] = ()  # one per label, see `sdem_dist.evaluation.Decisions`; empty: 1
    thresholds: tuple[float, ...] = ()  # one per label; empty: 0.5
    exclusive: bool = False  # each document has one label: labels are classes, and the highest score is predicted
    component_class = ()
    clusters = False

    def __post_init__(self) -> None:
        for name in ("temperatures", "thresholds"):
            if (n := len(getattr(self, name))) not in (0, self.n_classes):
                raise ValueError(f"there are {n} {name} for {self.n_classes} labels")

    @property
    def n_columns(self) -> int:
        return 2 * self.n_classes

    @property
    def decisions(self) -> evaluation.Decisions:
        values = self.temperatures or 1.0, self.thresholds or 0.5
        return evaluation.Decisions(*(np.broadcast_to(v, self.n_classes) for v in values))  # read-only

    def loss_weights(self, loss: Loss, scores: np.ndarray, members: np.ndarray) -> np.ndarray:
        """Return minus the gradient of each label's loss with respect to the scores of its two columns."""
        weights = np.empty(scores.shape)
        for label in range(self.n_classes):
            pair = slice(2 * label, 2 * label + 2)
            weights[:, pair] = loss.weights(scores[:, pair], members[:, label].astype(np.intp))
        return weights

    def sums(self, batches: Iterable[Any], *, held_out: bool = False, tempered: bool = True) -> np.ndarray:
        """Return the sums for `metrics`; a batch: log-odds and members, (n_documents, n_labels), and weights."""
        if self.exclusive:
            return Classes(self.n_classes).sums(batches, held_out=held_out)
        odds, members, weights = (np.concatenate(column) for column in zip(*batches, strict=True))
        sums = evaluation.label_sums(odds, members, weights, self.decisions)
        return np.concatenate([sums, evaluation.fitting_sums(odds, members, weights)]) if held_out else sums

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        """Return the metrics of the labels; from held-out documents also their temperatures and thresholds."""
        if self.exclusive:
            return Classes(self.n_classes).metrics(sums, held_out=held_out)
        n_sums = len(evaluation.COUNTS) + 4 * self.n_classes
        means = evaluation.label_metrics(sums[:n_sums])
        if not held_out or sums[0] == 0.0:
            return means
        decisions, fit = evaluation.fitted_decisions(sums[n_sums:], self.n_classes)
        chosen = {f"{TEMPERATURE}{i}": t for i, t in enumerate(decisions.temperatures.tolist())}
        chosen |= {f"{THRESHOLD}{i}": t for i, t in enumerate(decisions.thresholds.tolist())}
        return means | fit | chosen


@record
class Number:
    n_classes = n_columns = 1
    component_class = ()
    clusters = False

    def sums(self, batches: Iterable[Any], *, held_out: bool = False, tempered: bool = True) -> np.ndarray:
        """Return the sums over all batches of weights, ``-ln p(y, x)`` and ``-ln p(y | x)``."""
        sums = np.zeros(3)
        for weights, nll, ncll in batches:
            sums += [float((weights * column).sum()) for column in (np.ones(len(weights)), nll, ncll)]
        return sums

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        weight, nll, ncll = sums.tolist()
        return {"nll": nll / weight, "ncll": ncll / weight}


def trained_part(seed: int, start: int, stop: int, held_out: float) -> np.ndarray:
    """Return the mask of training documents at positions ``start:stop``; `held_out`: the share of the others."""
    keys = document_keys(seed, HELD_OUT, start, stop)
    return np.asarray(keys >= np.uint64(held_out * 2.0**64))


class Unit(NamedTuple):
    margin: float  # mean of ``s' (d theta / d mu) s`` at the prior; s: the statistics of a document
    mean_square: float  # mean squared Euclidean length of s


def unit_of(documents: Documents, prior: np.ndarray) -> Unit:
    """Return the unit of steps: weighted means over the documents that have words.

    `prior`: shape (n_features,), pseudo-counts alpha_w, the start of mu: ``d theta_w = d mu_w / alpha_w - d M / M``.
    """
    lengths = row_sums(documents.data, documents.indptr)
    squares, shares = weighed_squares(documents.data, unsigned(documents.indices), documents.indptr, 1.0 / prior)
    weights = np.where(squares > 0, 1.0 if documents.weights is None else documents.weights, 0.0)
    if not weights.any():
        return Unit(1.0, 1.0)
    columns = shares, lengths**2 / prior.sum(), squares
    share, lost, mean_square = (float(np.average(column, weights=weights)) for column in columns)
    margin = share - lost
    # Nearly alike documents, which have most of the words, change their scores little but the logarithms of their words
    # much: such large steps would leave S. For them the unit leaves out the term of the total M.
    return Unit(margin if margin > ALIKE * share else share, mean_square)
