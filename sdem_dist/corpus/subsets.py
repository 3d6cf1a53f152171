"""Chosen subsets of a corpus: masks, as folds are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus.folds import AnyCorpus, OnDisk, Part, labels_of
from sdem_dist.corpus.layout import ClassLabel
from sdem_dist.documents import CorpusLike

Which: TypeAlias = "ArrayLike | Callable[[ClassLabel | None, int | str], bool]"
"""A mask, positions, or a function of the label and the id of a document."""


class WithIds(OnDisk, Protocol):
    """What a choice needs of a corpus, see `sdem_dist.corpus.reader.Corpus`."""

    def ids(self, shard: int) -> np.ndarray | list[str]: ...  # noqa: D102


class Chosen:
    """Which documents of a corpus were chosen, as `sdem_dist.corpus.folds.Part` asks for it: inside part 0.

    `bits`: the mask, eight documents a byte.
    """

    k = 1

    def __init__(self, corpus: AnyCorpus, bits: bytes) -> None:
        self.corpus = corpus
        self.reads: CorpusLike = corpus
        self._bits = bits

    def __reduce__(self) -> tuple[type[Chosen], tuple[object, ...]]:
        return Chosen, (self.corpus, self._bits)

    @cached_property
    def name(self) -> str:
        """What tells this choice from others."""
        return f"subset {hashlib.sha256(self._bits).hexdigest()}"

    def title(self, number: int, inside: bool) -> str:
        """Return what a part is, for people."""
        mask = self._mask == inside
        return (
            f"a subset of {int((mask & self.corpus.mask if isinstance(self.corpus, Part) else mask).sum())} documents"
        )

    @cached_property
    def labels(self) -> np.ndarray | None:
        """The labels of all documents, int32 of shape (n_documents,)."""
        return labels_of(self.corpus)

    @cached_property
    def _mask(self) -> np.ndarray:
        bits = np.unpackbits(np.frombuffer(self._bits, np.uint8), count=self.corpus.n_documents)
        return bits.astype(bool)

    def mask(self, number: int, inside: bool, start: int, stop: int) -> np.ndarray:
        """Return which of the documents `start` up to `stop` were chosen; or were not."""
        return self._mask[start:stop] == inside


def chosen(corpus: WithIds, which: Which) -> Chosen:
    """Return a choice of documents; see `sdem_dist.corpus.Corpus.subset`."""
    n = corpus.n_documents
    mask = np.zeros(n, bool)
    if callable(which):
        mask[:] = _asked(corpus, which)
    else:
        found = np.asarray(which)
        if found.dtype == bool and found.shape == (n,):
            mask[:] = found
        elif found.ndim == 1 and found.dtype.kind in "iu" and (found < n).all() and (found >= 0).all():
            mask[found] = True
        else:
            raise ValueError(
                f"which must be a mask of {n:,} booleans, positions from 0 to {n - 1:,}, or a function of label and id; got "
                f"{found.dtype} of shape {found.shape}"
            )
    if not mask.any():
        raise ValueError("the subset has no document")
    return Chosen(corpus, np.packbits(mask).tobytes())


def _asked(corpus: WithIds, which: Callable[[ClassLabel | None, int | str], bool]) -> list[bool]:
    header, labels = corpus.header, corpus.labels()
    positions = [-1] * header.n_documents if labels is None else labels.tolist()
    ids = (id_ for shard in range(len(header.shards)) for id_ in list(corpus.ids(shard)))
    named = (
        (None if position < 0 else header.classes[position], id_) for position, id_ in zip(positions, ids, strict=True)
    )
    return [bool(which(label, id_ if isinstance(id_, str) else int(id_))) for label, id_ in named]
