"""One pass over dense documents that learns what a model has to know of each column before it is trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import DenseDocuments
from sdem_dist.learners.one_pass import OnePass
from sdem_dist.learners.protocol import Lane
from sdem_dist.models.fields import Field
from sdem_dist.records import record

_ROUNDING = 1e-13
"""Standard deviation, next to the mean, up to which a column counts as constant."""


class ColumnSummary(NamedTuple):
    """What values each column holds; arrays of shape (n_columns,), float64."""

    n: np.ndarray  # values that are not missing, by weight where documents count by theirs
    mean: np.ndarray
    squares: np.ndarray  # sum of squared deviations from the mean
    low: np.ndarray
    high: np.ndarray
    n_unlabelled: float  # documents without a label

    @property
    def variance(self) -> np.ndarray:
        """Variance of each column, 0 where there are no values."""
        return np.asarray(self.squares / np.where(self.n > 0, self.n, 1.0))

    @property
    def scale(self) -> np.ndarray:
        """Standard deviation of each column; 1 where it is 0, up to the rounding of the mean."""
        deviation = np.sqrt(self.variance)
        return np.where(deviation > _ROUNDING * np.abs(self.mean), deviation, 1.0)


@record
@dataclass(frozen=True)
class Columns(OnePass[ColumnSummary, DenseDocuments]):
    """The learner of `ColumnSummary`."""

    n_columns: int
    weighted: bool = False  # count a document by its weight

    state_type = ColumnSummary

    def state_fields(self) -> dict[str, Field]:
        """Return what each array of a state is."""
        n = self.n_columns
        return {
            "n": Field((n,), 0.0),
            "mean": Field((n,)),
            "squares": Field((n,), finite=False),
            **dict.fromkeys(("low", "high"), Field((n,), finite=False)),
            "n_unlabelled": Field((), 0.0),
        }

    def init(self) -> ColumnSummary:
        """Return the summary of nothing."""
        zeros, infinite = np.zeros(self.n_columns), np.full(self.n_columns, np.inf)
        return ColumnSummary(zeros, zeros, zeros, infinite, -infinite, 0.0)

    def map(self, state: ColumnSummary, documents: DenseDocuments, lane: Lane) -> ColumnSummary:
        """Return the summary of one lane."""
        table = np.asarray(documents.values, np.float64)
        known = ~np.isnan(table)
        weights = np.ones((len(table), 1))
        if self.weighted and documents.weights is not None:
            weights = documents.weights[:, None]
        n = (known * weights).sum(axis=0)
        mean = (np.where(known, table, 0.0) * weights).sum(axis=0) / np.where(n > 0, n, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):  # `high` and `low` refuse what cannot be squared
            squares = (np.where(known, table - mean, 0.0) ** 2 * weights).sum(axis=0)
        low = np.where(known, table, np.inf).min(axis=0, initial=np.inf)
        high = np.where(known, table, -np.inf).max(axis=0, initial=-np.inf)
        unlabelled = 0.0 if documents.labels is None else float((documents.labels < 0).sum())
        return ColumnSummary(n, mean, squares, low, high, unlabelled)

    def combine(self, parts: Sequence[ColumnSummary]) -> ColumnSummary:
        """Join summaries, without the cancellation of sums of squares (Chan, Golub and LeVeque 1983)."""
        whole = parts[0]
        for part in parts[1:]:
            n = whole.n + part.n
            shift, share = part.mean - whole.mean, part.n / np.where(n > 0, n, 1.0)
            with np.errstate(over="ignore", invalid="ignore"):
                squares = whole.squares + part.squares + shift**2 * whole.n * share
            low, high = np.minimum(whole.low, part.low), np.maximum(whole.high, part.high)
            unlabelled = whole.n_unlabelled + part.n_unlabelled
            whole = ColumnSummary(n, whole.mean + shift * share, squares, low, high, unlabelled)
        return whole
