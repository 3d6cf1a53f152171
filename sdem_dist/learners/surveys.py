"""Passes over documents without training: statistics of columns and words, and random examples of each class."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.learners.protocol import Lane
from sdem_dist.models.mixture import AS_IS, RowTransform, row_sums
from sdem_dist.models.word_counts import entries
from sdem_dist.records import Field, record

_ROUNDING = 1e-13  # a column or target is constant if its standard deviation is at most this share of its mean
_Summary = TypeVar("_Summary")
_Batch = TypeVar("_Batch", bound=Documents | DenseDocuments)


class OnePass(ABC, Generic[_Summary, _Batch]):
    """Base of learners whose state is a summary of documents; `combine` joins summaries of parts of the corpus."""

    cache_key = "as they are"  # prepared documents are the documents

    @abstractmethod
    def init(self) -> _Summary: ...

    def state_fields(self) -> dict[str, Field]:
        summary: Any = self.init()
        return {name: Field(np.shape(value), finite=False) for name, value in summary._asdict().items()}

    def check_state(self, state: _Summary) -> None:
        """Accept any state that passes the checks of its fields."""

    def prepare(self, documents: _Batch) -> _Batch:
        return documents

    @abstractmethod
    def combine(self, parts: Sequence[_Summary]) -> _Summary: ...

    def update(self, state: _Summary, statistics: _Summary) -> _Summary:
        return self.combine([state, statistics])

    def evaluate(self, state: _Summary, batches: Iterable[_Batch]) -> np.ndarray:
        return np.zeros(0)

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        return {}


def _joined(n: Any, mean: Any, squares: Any, other_n: Any, other_mean: Any, other_squares: Any) -> Any:
    """Join counts, means and sums of squared deviations, numerically stable (Chan, Golub and LeVeque 1983)."""
    total, shift = n + other_n, other_mean - mean
    share = other_n / np.where(total > 0, total, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # `high` and `low` refuse what cannot be squared
        return total, mean + shift * share, squares + other_squares + shift**2 * n * share


class ColumnSummary(NamedTuple):
    """Statistics of each column; arrays of shape (n_columns,), float64."""

    n: np.ndarray  # number of values that are not missing, or their weight if weighted
    mean: np.ndarray
    squares: np.ndarray  # sum of squared deviations from the mean
    low: np.ndarray
    high: np.ndarray
    n_unlabelled: float  # number of documents without a label

    @property
    def variance(self) -> np.ndarray:
        return np.asarray(self.squares / np.where(self.n > 0, self.n, 1.0))

    @property
    def scale(self) -> np.ndarray:
        """Standard deviation of each column; 1 where it is 0, up to the rounding of the mean."""
        deviation = np.sqrt(self.variance)
        return np.where(deviation > _ROUNDING * np.abs(self.mean), deviation, 1.0)


@record
class Columns(OnePass[ColumnSummary, DenseDocuments]):
    n_columns: int
    weighted: bool = False  # count a document by its weight
    state_type = ColumnSummary

    def init(self) -> ColumnSummary:
        zeros, infinite = np.zeros(self.n_columns), np.full(self.n_columns, np.inf)
        return ColumnSummary(zeros, zeros, zeros, infinite, -infinite, 0.0)

    def map(self, state: ColumnSummary, documents: DenseDocuments, lane: Lane) -> ColumnSummary:
        table = np.asarray(documents.values, np.float64)
        is_present, weights = ~np.isnan(table), np.ones((len(table), 1))
        if self.weighted and documents.weights is not None:
            weights = documents.weights[:, None]
        n = (is_present * weights).sum(axis=0)
        mean = (np.where(is_present, table, 0.0) * weights).sum(axis=0) / np.where(n > 0, n, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):  # `high` and `low` refuse what cannot be squared
            squares = (np.where(is_present, table - mean, 0.0) ** 2 * weights).sum(axis=0)
        low = np.where(is_present, table, np.inf).min(axis=0, initial=np.inf)
        high = np.where(is_present, table, -np.inf).max(axis=0, initial=-np.inf)
        unlabelled = 0.0 if documents.labels is None else float((documents.labels < 0).sum())
        return ColumnSummary(n, mean, squares, low, high, unlabelled)

    def combine(self, parts: Sequence[ColumnSummary]) -> ColumnSummary:
        """Merge numbers of rows, means, sums of squared deviations, minima and maxima (Chan et al. 1983)."""
        total = parts[0]
        for part in parts[1:]:
            low, high = np.minimum(total.low, part.low), np.maximum(total.high, part.high)
            n, mean, squares = _joined(*total[:3], *part[:3])
            total = ColumnSummary(n, mean, squares, low, high, total.n_unlabelled + part.n_unlabelled)
        return total


class WordSummary(NamedTuple):
    """Statistics of words and targets, weighted by documents."""

    frequencies: np.ndarray  # sum of each word's counts, shape (n_features,), float64
    weight: float  # sum of weights of documents
    mean: np.ndarray  # mean of each target, shape (n_targets,), float64
    squares: np.ndarray  # sum of squared deviations of each target from its mean

    @property
    def scale(self) -> np.ndarray:
        """Standard deviation of each target; of a constant, a number so small that the constant is predicted."""
        deviation, size = np.sqrt(self.squares / (self.weight or 1.0)), np.abs(self.mean)
        return np.where(deviation > _ROUNDING * size, deviation, _ROUNDING * np.maximum(size, 1.0))


@record
class Words(OnePass[WordSummary, Documents]):
    n_features: int
    n_targets: int = 0
    log_counts: bool = False  # sum ln(1 + x) instead of counts x
    state_type = WordSummary

    def init(self) -> WordSummary:
        return WordSummary(np.zeros(self.n_features), 0.0, np.zeros(self.n_targets), np.zeros(self.n_targets))

    def map(self, state: WordSummary, documents: Documents, lane: Lane) -> WordSummary:
        weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
        counts = entries(documents.data, self.log_counts) * np.repeat(weights, np.diff(documents.indptr))
        frequencies, weight = np.bincount(documents.indices, counts, self.n_features), float(weights.sum())
        targets = (np.empty((len(weights), 0)) if documents.targets is None else documents.targets)[:, : self.n_targets]
        mean = (weights[:, None] * targets).sum(axis=0) / (weight or 1.0)
        return WordSummary(frequencies, weight, mean, (weights[:, None] * (targets - mean) ** 2).sum(axis=0))

    def combine(self, parts: Sequence[WordSummary]) -> WordSummary:
        total = parts[0]
        for part in parts[1:]:
            total = WordSummary(total.frequencies + part.frequencies, *_joined(*total[1:], *part[1:]))
        return total


class SurveyResult(NamedTuple):
    # The smallest random keys among the documents of each class, ascending; infinite beyond the number of documents.
    keys: np.ndarray  # shape (n_classes, n_examples)
    positions: np.ndarray  # positions of these documents in the corpus, same shape, float64
    summed_rows: np.ndarray  # sum over documents of each row divided by its sum, shape (n_columns,)
    largest_sum: float  # largest sum of a transformed row: eta (Saul and Lee 2001, equation 14)
    lowest: float  # smallest entry
    n_missing: float
    n_documents: float


@record
class Survey(OnePass[SurveyResult, DenseDocuments | Documents]):
    n_columns: int
    n_classes: int
    n_examples: int  # examples per class, drawn without replacement, in proportion to weights
    labelled: bool = True  # False: treat all documents as one class
    transform: RowTransform = AS_IS
    seed: int = 0
    state_type = SurveyResult

    def init(self) -> SurveyResult:
        shape = (self.n_classes if self.labelled else 1, self.n_examples)
        infinite = np.full(shape, np.inf)
        return SurveyResult(infinite, np.zeros(shape), np.zeros(self.n_columns), 0.0, np.inf, 0.0, 0.0)

    def map(self, state: SurveyResult, documents: DenseDocuments | Documents, lane: Lane) -> SurveyResult:
        n = documents.n_documents
        # The top bit would be an epoch that no run reaches, so these keys differ from all others.
        key = np.array([self.seed, 1 << 63 | lane.lane], np.uint64)
        keys = np.random.Generator(np.random.Philox(key=key)).exponential(size=n)
        if documents.weights is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                keys = np.where(documents.weights > 0, keys / documents.weights, np.inf)
        summary, labels = self.init(), documents.labels if self.labelled else np.zeros(n)
        assert labels is not None
        for k, (row, where) in enumerate(zip(summary.keys, summary.positions, strict=True)):
            members = np.flatnonzero(labels == k)
            chosen = members[np.argsort(keys[members], kind="stable")[: self.n_examples]]
            row[: len(chosen)], where[: len(chosen)] = keys[chosen], lane.start + chosen
        sums = row_sums(documents)
        factor = 1.0 / np.where(sums > 0, sums, 1.0)
        if isinstance(documents, Documents):
            entries = documents.data
            weighted = entries * np.repeat(factor, np.diff(documents.indptr))
            shares = np.bincount(documents.indices, weighted, self.n_columns)
        else:
            entries = documents.values
            shares = (entries * factor[:, None]).sum(axis=0)
            if self.transform.expand:
                sums = self.transform.dense(entries).sum(axis=1, dtype=np.float64)
        missing = float(np.isnan(entries).sum()) if entries.dtype.kind == "f" else 0.0
        lowest = float(entries.min()) if entries.size else np.inf
        largest = float(sums.max(initial=0.0))
        return SurveyResult(summary.keys, summary.positions, shares, largest, lowest, missing, float(n))

    def combine(self, parts: Sequence[SurveyResult]) -> SurveyResult:
        if len(parts) == 1:
            return parts[0]
        keys = np.concatenate([p.keys for p in parts], axis=1)
        positions = np.concatenate([p.positions for p in parts], axis=1)
        order = np.argsort(keys, axis=1, kind="stable")[:, : self.n_examples]
        chosen = (np.take_along_axis(array, order, axis=1) for array in (keys, positions))
        rows, largest, lowest, missing, n = list(zip(*parts, strict=True))[2:]
        return SurveyResult._make([*chosen, np.sum(rows, axis=0), max(largest), min(lowest), sum(missing), sum(n)])


def examples_of(survey: SurveyResult, n: Sequence[int]) -> list[np.ndarray]:
    """Return `n` positions of examples per class; a class with too few repeats them, an empty one uses all classes'."""
    finite = np.isfinite(survey.keys)
    of_all = survey.positions[finite][np.argsort(survey.keys[finite], kind="stable")]
    return [
        np.resize((positions[is_finite] if is_finite.any() else of_all).astype(np.int64), wanted)
        for is_finite, positions, wanted in zip(finite, survey.positions, n, strict=True)
    ]
