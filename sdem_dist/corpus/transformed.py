"""A dense corpus whose documents are transformed as they are read."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from sdem_dist.corpus.dense_memory import DenseMemoryCorpus
from sdem_dist.corpus.layout import Header
from sdem_dist.corpus.memory import MemoryCorpus
from sdem_dist.corpus.reader import Corpus
from sdem_dist.corpus.view import View
from sdem_dist.documents import DenseDocuments


@dataclass(frozen=True)
class TransformedCorpus(View):
    """Another corpus behind the same reading interface."""

    corpus: Corpus | MemoryCorpus | DenseMemoryCorpus
    transform: Callable[[np.ndarray], np.ndarray]  # from rows to as many rows; its ``repr`` names it

    @property
    def cache_key(self) -> str:
        """Name the content."""
        return f"{self.corpus.cache_key} {self.transform!r}"

    @property
    def header(self) -> Header:
        """The manifest of the documents as they were."""
        return self.corpus.header

    def read(self, start: int, stop: int) -> DenseDocuments:
        """Return the documents `start` up to `stop`, transformed."""
        documents = cast(DenseDocuments, self.corpus.read(start, stop))
        return replace(documents, values=self.transform(np.asarray(documents.values, np.float64)))
