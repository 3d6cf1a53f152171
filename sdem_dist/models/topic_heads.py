"""Heads of topic models, which predict classes, levels, labels, numbers, counts or nothing from a document's topics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import log_expit, logit, xlogy

from sdem_dist import evaluation
from sdem_dist.kernels import topic_steps as kernel
from sdem_dist.models.lda import log_probability
from sdem_dist.models.word_counts import LocalDocuments, lengths
from sdem_dist.records import record


class TopicParameters(NamedTuple):
    topics: np.ndarray  # p(word | topic), shape (n_words, n_topics), float64; columns sum to 1 over the vocabulary
    output: np.ndarray  # U, shape (n_outputs, n_topics), float64
    alpha: np.ndarray  # shape (n_topics,), float64


class TopicScores(NamedTuple):
    outputs: np.ndarray  # U theta, shape (n_documents, n_outputs)
    log_likelihood: np.ndarray  # ln p(words | theta), shape (n_documents,)
    theta: np.ndarray  # topic proportions, shape (n_documents, n_topics)
    parameters: TopicParameters
    alpha: np.ndarray  # Dirichlet parameters for the left-to-right estimate, shape (n_topics,)
    documents: LocalDocuments


@dataclass(frozen=True)
class TopicHead:
    """Base of the heads: each computes `sums` over batches and `metrics` from these sums."""

    n_classes: int = 0  # number of outputs, the rows of U
    gamma: float = 1.0  # factor of U theta; for numbers the precision of the noise
    kind: ClassVar[int]  # code in `sdem_dist.kernels.topic_steps`
    learns: ClassVar[Literal["labels", "targets", "nothing"]]  # what documents must have
    runaway: ClassVar[float] = np.inf  # training has diverged if an entry of U exceeds this

    @property
    def cache_key(self) -> str:
        return type(self).__name__

    def start(self, rng: np.random.Generator, n_topics: int) -> np.ndarray:
        """Return the initial U: standard normal numbers, unless a subclass has others."""
        return rng.standard_normal((self.n_classes, n_topics))

    def scores(self, output: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Return ln p(c | d) up to a constant per document, or log-odds of labels; `outputs`: U theta."""
        return self.gamma * outputs

    def prepared(self, targets: np.ndarray) -> np.ndarray:
        """Return the targets for the kernel; raise ValueError for impossible ones."""
        return np.asarray(targets, np.float64)


@record
class NoOutput(TopicHead):
    """Topics of words alone, without labels (BP-LDA). U has no rows."""

    n_particles: int = 0  # for the left-to-right estimate of ``ln p(w)``, much slower than training; 0: no estimate
    kind = kernel.NONE
    learns = "nothing"

    def sums(self, batches: Iterable[TopicScores], *, held_out: bool = False, tempered: bool = True) -> np.ndarray:
        """Return weighted sums of words, ``-ln p(w | theta)``, ``-ln p(w)`` and documents."""
        total = np.zeros(4)
        for batch in batches:
            local, weights = batch.documents.documents, batch.documents.weights
            log_p = np.zeros(len(weights))
            if self.n_particles:
                # With the corpus's numbers of words: a document's draws must not depend on the rest of its batch.
                documents = replace(local, indices=batch.documents.words[local.indices])
                log_p = log_probability(batch.parameters.topics, documents, batch.alpha, self.n_particles)
            columns = lengths(local), -batch.log_likelihood, -log_p, np.ones(len(weights))
            total += [float((weights * column).sum()) for column in columns]
        return total

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        """Return ``-ln p(w)`` per word, its exponential, and ``-ln p(w | theta)`` with theta inferred from w."""
        plug_in, word_nll = (sums[1:3] / max(float(sums[0]), 1e-300)).tolist()
        of_words = {"word_nll": word_nll, "perplexity": float(np.exp(word_nll))} if self.n_particles else {}
        return of_words | {"plug_in_nll": plug_in}


@record
class SoftmaxClasses(TopicHead):
    """One class per document: ``p(c | d)`` is proportional to ``exp(gamma U theta)``."""

    kind = kernel.SOFTMAX
    learns = "labels"

    def sums(self, batches: Iterable[TopicScores], *, held_out: bool = False, tempered: bool = True) -> np.ndarray:
        parts = []
        for batch in batches:
            scores, d = self.scores(batch.parameters.output, batch.outputs), batch.documents
            parts.append(evaluation.scored(scores, d.labels, d.weights, lengths(d.documents), scores))
        return evaluation.classifier_sums(evaluation.joined(parts))

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        """Return the metrics that need no p(d); "ncll" is the mean of ``-ln p(y | d)``."""
        means = evaluation.classifier_metrics(sums, self.n_classes)
        return {name: means[name] for name in ("accuracy", "ncll", "macro_f1", "brier", "ece")}


@record
class Levels(SoftmaxClasses):
    """One level of an ordered scale per document: the cumulative logit, or proportional odds, of McCullagh 1980.

    ``p(level <= j | d) = sigmoid(threshold_(j + 1) - gamma u theta)``. The first row of U is u. Each other row repeats
    one number: the first threshold, then the logarithms of the gaps between thresholds.
    """

    kind = kernel.ORDERED

    def start(self, rng: np.random.Generator, n_topics: int) -> np.ndarray:
        even = logit(np.arange(1, self.n_classes) / self.n_classes)
        thresholds = np.append(even[0], np.log(np.diff(even)))
        return np.vstack([rng.standard_normal(n_topics), np.tile(thresholds[:, None], n_topics)])

    def scores(self, output: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Return ln p(level | d); `outputs`: U theta."""
        score, at = self.gamma * outputs[:, :1], level_thresholds(output)
        edges = np.concatenate([[-np.inf], at, [np.inf]])
        inside = np.concatenate([[0.0], np.log(-np.expm1(-np.diff(at))), [0.0]])
        return np.asarray(log_expit(edges[1:] - score) + log_expit(score - edges[:-1]) + inside)


def level_thresholds(output: np.ndarray) -> np.ndarray:
    """Return the thresholds between levels, ascending, shape (n_levels - 1,)."""
    gaps = np.exp(np.clip(output[2:, 0], -kernel.WIDEST, kernel.WIDEST))
    return np.asarray(output[1, 0] + np.concatenate([[0.0], np.cumsum(gaps)]))


@record
class SigmoidLabels(TopicHead):
    """Any number of labels per document: ``p(label | d) = sigmoid(gamma U theta)``. Targets are zeros and ones."""

    thresholds: tuple[float, ...] = ()  # least probability at which a document gets a label, one per label; empty: 0.5
    kind = kernel.LABELS
    learns = "targets"
    exclusive = False

    def __post_init__(self) -> None:
        if len(self.thresholds) not in (0, self.n_classes):
            raise ValueError(f"there are {len(self.thresholds)} thresholds for {self.n_classes} labels")

    def sums(self, batches: Iterable[TopicScores], *, held_out: bool = False, tempered: bool = True) -> np.ndarray:
        thresholds = np.array(self.thresholds or (0.5,) * self.n_classes)
        columns = [(self.gamma * b.outputs, b.documents.targets, b.documents.weights) for b in batches]
        odds, members, weights = map(np.concatenate, zip(*columns, strict=True))
        return evaluation.label_sums(odds, members, weights, evaluation.Decisions(np.ones(self.n_classes), thresholds))

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        """Return the metrics of the labels; without `thresholds` only metrics that need none."""
        means = evaluation.label_metrics(sums)
        unknown = () if self.thresholds else evaluation.OF_THRESHOLDS
        return {name: means[name] for name in means if name not in unknown}


@record
class Numbers(TopicHead):
    """Real numbers per document: ``(target - location) / scale`` is Gaussian with mean U theta."""

    location: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    single: bool = False  # a target is one number, not a row of a table
    kind = kernel.GAUSSIAN
    learns = "targets"
    runaway = 1e6  # in standard deviations of a target

    def __post_init__(self) -> None:
        if {len(self.location), len(self.scale)} != {self.n_classes} or (self.single and self.n_classes > 1):
            raise ValueError("the targets' locations and scales do not match the outputs")

    @property
    def cache_key(self) -> str:
        return f"{type(self).__name__} {self.location} {self.scale}"

    def prepared(self, targets: np.ndarray) -> np.ndarray:
        return np.asarray((targets - np.asarray(self.location)) / np.asarray(self.scale))

    def sums(self, batches: Iterable[TopicScores], *, held_out: bool = False, tempered: bool = True) -> np.ndarray:
        return np.sum([_errors(batch.outputs, batch.documents) for batch in batches], axis=0)

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        """Return mean squared error and R2, means over targets; R2 of a constant is 1 if predicted exactly, else 0."""
        weight = max(float(sums[0]), 1e-300)
        squared, totals, squares = sums[1:].reshape(3, -1)
        spread = squares - totals**2 / weight
        varies = spread > 1e-12 * squares  # smaller differences are rounding
        r2 = np.where(varies, 1.0 - squared / np.where(varies, spread, 1.0), squared == 0.0)
        mse = squared / weight * np.asarray(self.scale) ** 2
        return {"mse": float(mse.mean()), "r2": float(r2.mean())}


def _errors(means: np.ndarray, d: LocalDocuments) -> np.ndarray:
    columns = (d.targets - means) ** 2, d.targets, d.targets**2
    return np.array([d.weights.sum(), *np.concatenate([(d.weights[:, None] * c).sum(axis=0) for c in columns])])


@record
class Rates(Numbers):
    """Counts per document: Poisson with mean ``scale * exp(U theta)``; the scale is the mean over all documents."""

    kind = kernel.POISSON
    # The logarithm of a factor of the mean. Long training on rare counts reaches half of this limit.
    runaway = 50.0

    def prepared(self, targets: np.ndarray) -> np.ndarray:
        if (targets < 0.0).any():
            raise ValueError('family="poisson" needs nonnegative targets')
        return np.asarray(targets / np.asarray(self.scale))

    def sums(self, batches: Iterable[TopicScores], *, held_out: bool = False, tempered: bool = True) -> np.ndarray:
        parts = []
        for batch in batches:
            d, means = batch.documents, np.exp(np.minimum(batch.outputs, kernel.MOST))
            deviance = 2.0 * (xlogy(d.targets, d.targets) - d.targets * batch.outputs - d.targets + means)
            parts.append(np.concatenate([_errors(means, d), (d.weights[:, None] * deviance).sum(axis=0)]))
        return np.sum(parts, axis=0)

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        n = self.n_classes
        deviance = sums[-n:] / max(float(sums[0]), 1e-300) * np.asarray(self.scale)
        return {"poisson_deviance": float(deviance.mean()), **super().metrics(sums[:-n])}


@record
class TopicShares:
    """Head for scoring a trained model: each topic's share of the words; for labels the thresholds of the largest F1.

    Thresholds need no held-out documents, since a topic model has few parameters per label.
    """

    of: TopicHead
    n_topics: int

    @property
    def learns(self) -> str:
        return self.of.learns

    @property
    def cache_key(self) -> str:
        return self.of.cache_key

    def prepared(self, targets: np.ndarray) -> np.ndarray:
        return self.of.prepared(targets)

    def sums(self, batches: Iterable[TopicScores], *, held_out: bool = False, tempered: bool = True) -> np.ndarray:
        shares, columns = np.zeros(self.n_topics), []
        for batch in batches:
            d = batch.documents
            shares += np.einsum("d,dk->k", d.weights * lengths(d.documents), batch.theta)
            columns.append((self.of.gamma * batch.outputs, d.targets, d.weights))
        if not isinstance(self.of, SigmoidLabels):
            return shares
        return np.concatenate([shares, evaluation.fitting_sums(*map(np.concatenate, zip(*columns, strict=True)))])

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        """Return the shares, then the thresholds; the keys are "0", "1", ..."""
        shares, of_labels = np.split(sums, [self.n_topics])
        figures = (shares / max(shares.sum(), 1e-300)).tolist()
        if len(of_labels):
            figures += evaluation.best_thresholds(of_labels, np.ones(self.of.n_classes)).tolist()
        return {str(i): figure for i, figure in enumerate(figures)}
