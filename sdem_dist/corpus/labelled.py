"""The documents of a half-labelled corpus that have a label, read like a corpus of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from sdem_dist.corpus.entries import document_frequency
from sdem_dist.corpus.folds import Masks, Part, groups_of, labels_of, weights_of
from sdem_dist.corpus.layout import Header
from sdem_dist.corpus.memory import MemoryCorpus
from sdem_dist.corpus.reader import Corpus
from sdem_dist.corpus.view import View
from sdem_dist.documents import Documents

BLOCK = 1 << 15  # positions of the whole corpus that are read at a time


@dataclass(frozen=True)
class Labelled(View):
    """Documents with a label, in the order of their corpus, numbered from 0."""

    corpus: Corpus | MemoryCorpus
    positions: np.ndarray  # shape (n_documents,), int64: where they are in it, ascending

    @classmethod
    def of(cls, corpus: Corpus | MemoryCorpus) -> Labelled:
        """Return the documents of a corpus that have a label."""
        labels = labels_of(corpus)
        return cls(corpus, np.zeros(0, np.int64) if labels is None else np.flatnonzero(labels >= 0))

    def __getstate__(self) -> dict[str, object]:
        return {"corpus": self.corpus, "positions": self.positions}  # caches are not sent

    @property
    def n_documents(self) -> int:
        """How many have a label."""
        return len(self.positions)

    @cached_property
    def cache_key(self) -> str:
        """Name the content."""
        return f"{self.corpus.cache_key} labelled"

    @cached_property
    def header(self) -> Header:
        """The corpus's, with the number of these documents and an identity of its own."""
        header = replace(self.corpus.header, n_documents=self.n_documents)
        header.__dict__["uid"] = hashlib.sha256(f"{self.corpus.header.uid} labelled".encode()).hexdigest()
        return header

    @cached_property
    def document_frequency(self) -> np.ndarray:
        """In how many of these documents each column occurs, int64 of shape (n_features,)."""
        found = np.zeros(self.header.n_features, np.int64)
        for block in self._blocks(0, self.n_documents):
            found += document_frequency(block.indices, block.data, block.n_features)
        return found

    def read(self, start: int, stop: int) -> Documents:
        """Return the documents `start` up to `stop` of these."""
        return Documents.concatenate(list(self._blocks(start, stop)))

    def _blocks(self, start: int, stop: int) -> Iterator[Documents]:
        wanted = self.positions[start:stop]
        if not len(wanted):
            yield cast(Documents, self.corpus.read(0, 0))
        for first in range(int(wanted[0]) if len(wanted) else 0, int(wanted[-1]) + 1 if len(wanted) else 0, BLOCK):
            last = min(first + BLOCK, self.corpus.n_documents)
            here = wanted[np.searchsorted(wanted, first) : np.searchsorted(wanted, last)]
            if len(here):
                yield cast(Documents, self.corpus.read(first, last)).taken(here - first)

    def place(self, document: int) -> str:
        """Return where a document is, for people."""
        return self.corpus.place(int(self.positions[document]))

    def labels(self) -> np.ndarray:
        """Return the labels, int32 of shape (n_documents,)."""
        return cast(np.ndarray, labels_of(self.corpus))[self.positions]

    @property
    def weights(self) -> np.ndarray | None:
        """The weights, float64 of shape (n_documents,); None: all are 1."""
        weights = weights_of(self.corpus)
        return None if weights is None else weights[self.positions]

    def vocabulary(self) -> list[str] | None:
        """Return the corpus's words."""
        return self.corpus.vocabulary()

    def all_groups(self) -> np.ndarray | None:
        """Read a hash of the group of each of these documents, uint64; None where the corpus keeps none."""
        groups = groups_of(self.corpus)
        return None if groups is None else groups[self.positions]

    def part(self, folds: Masks, number: int, inside: bool) -> Part:
        """Return a fold of these documents, or these without it."""
        return Part(folds, number, inside)
