"""One pass over documents before a mixture is trained: sums of rows, and random examples of every class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.learners.one_pass import OnePass
from sdem_dist.learners.protocol import Lane
from sdem_dist.models.fields import Field
from sdem_dist.models.nonnegative_rows import AS_IS, RowTransform, normalised_sum, row_sums
from sdem_dist.records import record


class SurveyResult(NamedTuple):
    """What was found; parts of it add up."""

    keys: np.ndarray
    """Shape (n_classes, n_examples): the smallest random keys of documents of each class, ascending; infinite if there
    are fewer documents."""
    positions: np.ndarray  # where in the corpus those documents are, of the same shape, float64
    summed_rows: np.ndarray  # sum over documents of the row divided by its sum, shape (n_columns,)
    largest_sum: float  # largest sum of a row, transformed: eta (Saul and Lee 2001, equation 14)
    lowest: float  # smallest entry
    n_missing: float
    n_documents: float


@record
@dataclass(frozen=True)
class Survey(OnePass[SurveyResult, DenseDocuments | Documents]):
    """The learner of `SurveyResult`."""

    n_columns: int
    n_classes: int
    n_examples: int
    """`n_columns`, `n_classes`, `n_examples`: `n_examples` of each class are drawn, without replacement, in
    proportion to their weights."""
    labelled: bool = True  # False takes all documents as of one class
    transform: RowTransform = AS_IS
    seed: int = 0

    state_type = SurveyResult

    def state_fields(self) -> dict[str, Field]:
        """Return what each array of a state is."""
        shape = (self.n_classes if self.labelled else 1, self.n_examples)
        return {
            "keys": Field(shape, 0.0, finite=False),
            "positions": Field(shape, 0.0),
            "summed_rows": Field((self.n_columns,), finite=False),
            **dict.fromkeys(("largest_sum", "lowest"), Field((), finite=False)),
            **dict.fromkeys(("n_missing", "n_documents"), Field((), 0.0)),
        }

    def init(self) -> SurveyResult:
        """Return the survey of nothing."""
        shape = (self.n_classes if self.labelled else 1, self.n_examples)
        nothing = np.full(shape, np.inf)
        return SurveyResult(nothing, np.zeros(shape), np.zeros(self.n_columns), 0.0, np.inf, 0.0, 0.0)

    def map(self, state: SurveyResult, documents: DenseDocuments | Documents, lane: Lane) -> SurveyResult:
        """Return the survey of one lane."""
        n = documents.n_documents
        key = np.array(
            [self.seed, 1 << 63 | lane.lane], np.uint64
        )  # no run has this many epochs: no other keys are equal to these
        keys = np.random.Generator(np.random.Philox(key=key)).exponential(size=n)
        if documents.weights is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                keys = np.where(documents.weights > 0, keys / documents.weights, np.inf)
        found = self.init()
        for k, (row, where) in enumerate(zip(found.keys, found.positions, strict=True)):
            if self.labelled:
                assert documents.labels is not None
                mine = np.flatnonzero(documents.labels == k)
            else:
                mine = np.arange(n)
            chosen = mine[np.argsort(keys[mine], kind="stable")[: self.n_examples]]
            row[: len(chosen)], where[: len(chosen)] = keys[chosen], lane.start + chosen
        entries = documents.data if isinstance(documents, Documents) else documents.values
        missing = int(np.isnan(entries).sum()) if entries.dtype.kind == "f" else 0
        if self.transform.expand and isinstance(documents, DenseDocuments):
            sums = self.transform.dense(documents.values).sum(axis=1, dtype=np.float64)
        else:
            sums = row_sums(documents)
        largest, lowest = float(sums.max(initial=0.0)), float(entries.min()) if entries.size else np.inf
        return SurveyResult(
            found.keys, found.positions, normalised_sum(documents), largest, lowest, float(missing), float(n)
        )

    def combine(self, parts: Sequence[SurveyResult]) -> SurveyResult:
        """Join surveys: the examples with the smallest keys stay."""
        if len(parts) == 1:
            return parts[0]
        keys = np.concatenate([p.keys for p in parts], axis=1)
        positions = np.concatenate([p.positions for p in parts], axis=1)
        order = np.argsort(keys, axis=1, kind="stable")[:, : self.n_examples]
        return SurveyResult(
            np.take_along_axis(keys, order, axis=1),
            np.take_along_axis(positions, order, axis=1),
            np.sum([p.summed_rows for p in parts], axis=0),
            max(p.largest_sum for p in parts),
            min(p.lowest for p in parts),
            sum(p.n_missing for p in parts),
            sum(p.n_documents for p in parts),
        )


def examples_of(survey: SurveyResult, n: Sequence[int]) -> list[np.ndarray]:
    """Return the positions of examples of each class, as ints; where documents are fewer, some are repeated.

    A class without documents, as a fold may have one, gets examples of all the others.
    """
    known = np.isfinite(survey.keys)
    of_all = survey.positions[known][np.argsort(survey.keys[known], kind="stable")]
    return [
        np.resize((positions[there] if there.any() else of_all).astype(np.int64), wanted)
        for there, positions, wanted in zip(known, survey.positions, n, strict=True)
    ]
