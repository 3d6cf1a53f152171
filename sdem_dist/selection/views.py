"""Corpora as a search reads them: decoded once if memory allows, with the number of each document's fold."""

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from sdem_dist.byte_cache import prepared_cache
from sdem_dist.corpus.folds import Folds
from sdem_dist.documents import DenseDocuments, Documents, View


@dataclass(frozen=True)
class Decoded(View):
    """A corpus whose counts stay in memory as they were read, for other weightings of them."""

    @property
    def cache_key(self) -> str:
        """Name the content."""
        return self.corpus.cache_key

    def read(self, start: int, stop: int) -> Documents | DenseDocuments:
        """Return the documents `start` up to `stop`, read at most once by each process that has room for them."""
        key = (f"{self.corpus.cache_key} decoded", start, stop)
        return prepared_cache.get(key, lambda: self.corpus.read(start, stop))


@dataclass(frozen=True)
class Folded(View):
    """Documents whose first target is the number of their fold, before their own targets.

    `folds`: of the same documents; a number: all are in this fold.
    """

    folds: Folds | int

    @property
    def cache_key(self) -> str:
        """Name the content."""
        folds = self.folds
        return f"{self.corpus.cache_key} folds {folds.name if isinstance(folds, Folds) else folds}"

    def numbers(self, start: int, stop: int) -> np.ndarray:
        """Return the folds of the documents `start` up to `stop`."""
        if isinstance(self.folds, Folds):
            return self.folds.numbers[start:stop]
        return np.full(stop - start, self.folds, np.int16)

    def read(self, start: int, stop: int) -> Documents:
        """Return the documents `start` up to `stop` with their folds."""
        documents = cast(Documents, self.corpus.read(start, stop))
        folds, own = self.numbers(start, stop)[:, None], documents.targets
        return replace(documents, targets=folds if own is None else np.hstack([folds, own]))
