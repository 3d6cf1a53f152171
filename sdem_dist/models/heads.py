"""What the scores of a model mean, to losses and to evaluation: classes, components of classes, labels, a number."""

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

TEMPERATURE, THRESHOLD = "temperature of label ", "threshold of label "  # before the number of a label: metrics
HELD_OUT = (1 << 32) - 1  # stands where an epoch would in the keys that decide what is held out
ALIKE = 0.5  # share of a step that the total leaves, under which documents are nearly alike; of texts it leaves .99


class Model:
    """What models have in common: their head says what scores mean, and statistics are NamedTuples that add up."""

    head: Any
    tempered = False  # whether evaluation has the log-loss at each temperature

    @property
    def n_classes(self) -> int:
        return int(self.head.n_classes)

    def add(self, parts: Sequence[Any]) -> Any:
        """Return the sums of the fields of several lanes' statistics, from first to last."""
        return parts[0]._make(sum(column[1:], start=column[0]) for column in zip(*parts, strict=True))


@record
class Classes:
    """One class for each document; a class may be a mixture of components, and scores with their sum."""

    n_classes: int
    # Of each component, ascending; empty: each column is a class. Of a single class they are clusters, without labels.
    component_class: tuple[int, ...] = ()
    shared: bool = False  # the i-th components of all classes are one, of which each class has a share of its own

    def __post_init__(self) -> None:
        is_ascending = list(self.component_class) == sorted(self.component_class)
        classes = sorted(set(self.component_class))  # a file may claim more classes than memory could count
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
        """Return minus the gradient of a loss by scores, (n, n_columns), and what each row costs (Table 2).

        It is the weight of the class times ``p(z | y, x)``. A row whose class is hidden, -1, costs ``-ln p(x)``.
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
        """Return sums over all batches; `tempered`: with the log-loss at each temperature."""
        if held_out:
            return np.sum([evaluation.choosing_sums(b.scores, b.labels, b.weights) for b in batches], axis=0)
        documents = evaluation.joined(batches)
        if self.clusters:
            return evaluation.evaluation_sums(documents)
        return evaluation.classifier_sums(documents, tempered=tempered)

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        """Return accuracy, mean losses, perplexity and how good probabilities are; of clusters only that of p(x)."""
        if held_out:
            return evaluation.choosing_metrics(sums)
        if self.clusters:
            means = evaluation.finish(sums)
            return {name: means[name] for name in ("nll", "perplexity")}
        return evaluation.classifier_metrics(sums, self.n_classes)


def by_class(scores: np.ndarray, component_class: tuple[int, ...]) -> tuple[np.ndarray, Any]:
    """Return ln p(y, x) of classes from ln p(z, y, x) of components, and p(z | y, x); without any `scores` and None."""
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
    """Return sums of columns, the first axis; where classes share them, those of all classes in place of each one's."""
    if not getattr(head, "shared", False):
        return sums
    return np.concatenate([sums.reshape(head.n_classes, -1, *sums.shape[1:]).sum(axis=0)] * head.n_classes)


def first_components(component_class: tuple[int, ...]) -> np.ndarray:
    return np.searchsorted(np.asarray(component_class), np.arange(component_class[-1] + 1))


@record
class Labels:
    """Several labels for each document, or none: for each label two columns, ``2 l`` (the rest) and ``2 l + 1``."""

    n_classes: int  # labels
    temperatures: tuple[float, ...] = ()  # of each label, see `sdem_dist.evaluation.Decisions`; empty: 1
    thresholds: tuple[float, ...] = ()  # empty: 0.5
    exclusive: bool = False  # each document has one label: labels are classes, and the strongest one is predicted
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
        """Return minus the gradient of each label's own loss by the scores of its two columns."""
        weights = np.empty(scores.shape)
        for label in range(self.n_classes):
            pair = slice(2 * label, 2 * label + 2)
            weights[:, pair] = loss.weights(scores[:, pair], members[:, label].astype(np.intp))
        return weights

    def sums(self, batches: Iterable[Any], *, held_out: bool = False, tempered: bool = True) -> np.ndarray:
        """Return sums over batches of log-odds and members, (n_documents, n_labels), and weights."""
        if self.exclusive:
            return Classes(self.n_classes).sums(batches, held_out=held_out)
        odds, members, weights = (np.concatenate(column) for column in zip(*batches, strict=True))
        sums = evaluation.label_sums(odds, members, weights, self.decisions)
        return np.concatenate([sums, evaluation.fitting_sums(odds, members, weights)]) if held_out else sums

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        """Return how well labels are predicted; with documents held out, also what these choose."""
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
        """Return sums over batches of weights, ``-ln p(y, x)`` and ``-ln p(y | x)``."""
        sums = np.zeros(3)
        for weights, nll, ncll in batches:
            sums += [float((weights * column).sum()) for column in (np.ones(len(weights)), nll, ncll)]
        return sums

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        weight, nll, ncll = sums.tolist()
        return {"nll": nll / weight, "ncll": ncll / weight}


def trained_part(seed: int, start: int, stop: int, held_out: float) -> np.ndarray:
    """Return which documents at the stored positions ``start:stop`` are trained on, bool, where a share is held out."""
    keys = document_keys(seed, HELD_OUT, start, stop)
    return np.asarray(keys >= np.uint64(held_out * 2.0**64))


class Unit(NamedTuple):
    margin: float  # ``s' (d theta / d mu) s`` of their statistics s, at the prior
    mean_square: float  # squared Euclidean length


def unit_of(documents: Documents, prior: np.ndarray) -> Unit:
    """Return the unit of steps over documents by their weights, those without words left out.

    `prior`: shape (n_features,), pseudo-counts alpha_w, where mu starts: ``d theta_w = d mu_w / alpha_w - d M / M``.
    """
    lengths = row_sums(documents.data, documents.indptr)
    squares, shares = weighed_squares(documents.data, unsigned(documents.indices), documents.indptr, 1.0 / prior)
    weights = np.where(squares > 0, 1.0 if documents.weights is None else documents.weights, 0.0)
    if not weights.any():
        return Unit(1.0, 1.0)
    columns = shares, lengths**2 / prior.sum(), squares
    share, lost, mean_square = (float(np.average(column, weights=weights)) for column in columns)
    margin = share - lost
    # Documents that are nearly alike, each with most of the words, move their scores little and their words' logarithms
    # far: such steps would leave S. Their unit is what they move without the total.
    return Unit(margin if margin > ALIKE * share else share, mean_square)
