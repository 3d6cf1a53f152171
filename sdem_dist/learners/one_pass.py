"""What is common to learners that look at documents once, as they are, and train nothing."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np

from sdem_dist.documents import DenseDocuments, Documents

_Found = TypeVar("_Found")
_Batch = TypeVar("_Batch", bound=Documents | DenseDocuments)


class OnePass(ABC, Generic[_Found, _Batch]):
    """Base of learners whose state is what they found; `combine` joins the findings of parts of the corpus."""

    cache_key = "as they are"  # prepared documents are the documents

    def check_state(self, state: _Found) -> None:
        """Take any state that its fields allow."""

    def prepare(self, documents: _Batch) -> _Batch:
        """Return the documents."""
        return documents

    @abstractmethod
    def combine(self, parts: Sequence[_Found]) -> _Found:
        """Join what several sets of lanes found."""

    def update(self, state: _Found, statistics: _Found) -> _Found:
        """Join what was found before and now."""
        return self.combine([state, statistics])

    def evaluate(self, state: _Found, batches: Iterable[_Batch]) -> np.ndarray:
        """Return nothing to evaluate."""
        return np.zeros(0)

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return nothing."""
        return {}
