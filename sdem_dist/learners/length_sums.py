"""One pass over documents that sums up how long those of each class are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.learners.field import Field
from sdem_dist.learners.one_pass import OnePass
from sdem_dist.learners.protocol import Lane
from sdem_dist.models.naive_bayes import lengths
from sdem_dist.records import record


class LengthSums(NamedTuple):
    """Sums over the documents of each class, by weight; shape (n_classes,)."""

    counts: np.ndarray
    sums: np.ndarray
    squares: np.ndarray


@record
@dataclass(frozen=True)
class Lengths(OnePass[LengthSums, Documents]):
    """The learner of `LengthSums`."""

    n_classes: int

    state_type = LengthSums

    def state_fields(self) -> dict[str, Field]:
        """Return what each array of a state is."""
        return dict.fromkeys(LengthSums._fields, Field((self.n_classes,), 0.0))

    def init(self) -> LengthSums:
        """Return the sums of nothing."""
        return LengthSums(*np.zeros((3, self.n_classes)))

    def map(self, state: LengthSums, documents: Documents, lane: Lane) -> LengthSums:
        """Return the sums of one lane; documents without a label are of no class."""
        assert documents.labels is not None
        known = documents.labels >= 0
        weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
        labels, weights, n_words = documents.labels[known], weights[known], lengths(documents)[known]
        return LengthSums(
            *(np.bincount(labels, w, self.n_classes) for w in (weights, weights * n_words, weights * n_words**2))
        )

    def combine(self, parts: Sequence[LengthSums]) -> LengthSums:
        """Add sums."""
        return LengthSums(*(np.sum(columns, axis=0) for columns in zip(*parts, strict=True)))
