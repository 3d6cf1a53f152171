"""Folds of a corpus for cross-validation, stratified by class."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.counted import counted, is_count

FOLDS, SHARES = (1 << 32) - 2, (1 << 32) - 3
"""Numbers in place of the epoch in the random keys that choose the fold of a document, and the documents of a share."""
PARTS = (
    20  # largest number of folds of which several are held out, such as 7 of 20 for .35; for small shares, one of more
)
CorpusT = TypeVar("CorpusT")  # a corpus, whose module imports this module


class Folds(Generic[CorpusT]):
    """The documents of a corpus in `k` stratified parts of almost equal size.

    Documents of a class are assigned to folds in turn, in the order of a hash of their position.

    `share`: share of the documents of the other folds to train on, chosen by another hash of their position.
    `groups`: group of each document, in stored order; folds keep groups together. None: the groups of the corpus.
    """

    def __init__(
        self, corpus: CorpusT, k: int = 5, seed: int = 0, share: float = 1.0, groups: ArrayLike | None = None
    ) -> None:
        if not is_count(k, 2):
            raise ValueError(f"the number of folds must be an integer of at least 2, got {k!r}")
        self.corpus: Any = corpus
        n_documents: int = cast(Any, corpus).n_documents
        if k > n_documents:
            raise ValueError(f"{k} folds need at least {k} documents, but there are {n_documents:,}")
        self.k, self.seed, self.share = int(k), int(seed), float(share)
        self.groups = None if groups is None else np.asarray(groups)
        self.name = f"{self.k} {self.seed} {self.share}"
        """Key of these folds, among all folds of a corpus."""
        if self.groups is not None:
            if self.groups.shape != (n_documents,):
                raise ValueError(f"there are {n_documents:,} documents, but groups have shape {self.groups.shape}")
            self.groups = np.unique(self.groups, return_inverse=True)[1]
            self.name += f" {hashlib.sha256(self.groups.tobytes()).hexdigest()}"

    def __repr__(self) -> str:
        return f"Folds({self.corpus!r}, k={self.k}, seed={self.seed})"

    def __len__(self) -> int:
        return self.k

    def __iter__(self) -> Iterator[tuple[CorpusT, CorpusT]]:
        """Yield, for each fold, the corpus without the fold, and the fold."""
        return ((self.train(number), self.test(number)) for number in range(self.k))

    def train(self, number: int) -> CorpusT:
        """Return the corpus without a fold, numbered from 0, for training."""
        from sdem_dist.kernels.randomness import document_keys  # imports numba

        mask = ~self._in_fold(number)
        if self.share < 1.0:
            mask &= document_keys(self.seed, SHARES, 0, len(mask)) < np.uint64(self.share * 2.0**64)
        return cast(CorpusT, self.corpus.within(mask, f"all but fold {number} of {self.k}"))

    def test(self, number: int) -> CorpusT:
        """Return a fold, for evaluation."""
        return cast(CorpusT, self.corpus.within(self._in_fold(number), f"fold {number} of {self.k}"))

    def _in_fold(self, number: int) -> np.ndarray:
        if not 0 <= number < self.k:
            raise IndexError(f"fold {number} is out of range: folds are numbered from 0 to {self.k - 1}")
        return np.asarray(self.numbers == number)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The fold of each document, in stored order: int16 of shape (n_documents,).

        The largest groups are assigned first, to the fold with the fewest documents of their classes.
        """
        from sdem_dist.kernels.csr import deal_groups  # imports numba
        from sdem_dist.kernels.randomness import document_keys

        labels, mask, n_documents = self.corpus.labels(), self.corpus.mask, self.corpus.n_documents
        classes = np.zeros(n_documents, np.int64) if labels is None else labels.astype(np.int64) + 1
        if mask is not None:  # count documents outside a subset as other classes, so that folds are even inside
            classes += np.where(mask, 0, int(classes.max()) + 1)
        keys = document_keys(self.seed, FOLDS, 0, n_documents)
        groups = self.corpus.all_groups() if self.groups is None else self.groups
        if groups is None:
            numbers = np.empty(n_documents, np.int16)
            numbers[np.lexsort((keys, classes))] = np.arange(n_documents) % self.k
            return numbers
        codes = np.unique(groups, return_inverse=True)[1]
        n, n_classes = int(codes.max()) + 1, int(classes.max()) + 1
        if n < self.k:
            raise ValueError(f"{counted(n, 'group')} cannot be split into {self.k} folds: reduce the number of folds")
        pairs, counts = np.unique(codes * n_classes + classes, return_counts=True)
        sizes, least = np.bincount(codes, minlength=n), np.full(n, np.iinfo(np.uint64).max, np.uint64)
        np.minimum.at(least, codes, keys)
        order = np.lexsort((least, -sizes))
        starts, totals = np.searchsorted(pairs // n_classes, np.arange(n + 1)), np.bincount(classes)
        return np.asarray(deal_groups(order, starts, pairs % n_classes, counts, totals, self.k)[codes])


def folds_of(corpus: Any, k: int, seed: int) -> Folds[Any]:
    """Return folds of a corpus; with fewer groups than folds, groups are not kept together."""
    names = corpus.all_groups()
    few = names is not None and len(np.unique(names)) < k
    return Folds(corpus, k, seed, groups=np.arange(len(names)) if few else None)


def held_out_of(
    corpus: Any, share: float, seed: int, least: int, most: int, class_weight: tuple[float, ...] | None = None
) -> np.ndarray | None:
    """Return the mask of documents to hold out, stratified, never all of a class; None if they would be too few."""
    labels, weights = corpus.labels(), corpus.weights
    counted = np.ones(corpus.n_documents, bool) if weights is None else weights > 0
    if labels is not None:
        counted &= (labels >= 0) & (True if class_weight is None else np.asarray(class_weight)[labels] > 0)
    n = int(counted.sum())
    if share <= 0 or min(share * n, most) < least:
        return None
    fewest, names = max(round(1 / share), -(-n // most)), corpus.all_groups()
    n_groups = n if names is None else len(np.unique(names))
    parts = min(PARTS, n_groups) if n_groups >= fewest else PARTS
    part = Fraction(share).limit_denominator(parts) if fewest < parts else Fraction(1, fewest)
    if part * n > most:
        part = Fraction(1, fewest)
    mask = counted & (folds_of(corpus, part.denominator, seed).numbers < part.numerator)
    if labels is not None:
        remains = np.bincount(labels[counted & ~mask], minlength=int(labels.max()) + 1) > 0
        mask &= remains[labels]
    return mask if mask.sum() >= least // 2 else None


def group_hashes(groups: ArrayLike) -> np.ndarray:
    """Return a 64-bit hash of each group's name as text, uint64."""
    names, codes = np.unique(np.asarray(groups).astype(str), return_inverse=True)
    hashed = [hashlib.blake2b(str(name).encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(hashed), "<u8").astype(np.uint64)[codes]
