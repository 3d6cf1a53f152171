"""Folds of a corpus for cross-validation, even in each class, and chosen documents: masks over positions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.byte_cache import ByteCache
from sdem_dist.counted import counted, is_count

FOLDS, SHARES = (1 << 32) - 2, (1 << 32) - 3
"""Stand where an epoch would in the keys that decide which fold a document is in, and which are in a share."""
_numbers = ByteCache(512 << 20, oldest_leave=True)  # folds of the corpora of this process: hundreds of tasks use them


@dataclass(frozen=True)
class Selection:
    """Chosen documents: a mask, eight of them a byte."""

    bits: bytes
    n_documents: int
    inside: bool = True

    @classmethod
    def of(cls, mask: np.ndarray) -> Selection:
        return cls(np.packbits(mask).tobytes(), len(mask))

    @property
    def others(self) -> Selection:
        return Selection(self.bits, self.n_documents, not self.inside)

    @property
    def name(self) -> str:
        """What tells these from others."""
        return f"subset {hashlib.sha256(self.bits).hexdigest()} 0 {self.inside}"

    @property
    def title(self) -> str:
        return f"a subset of {int(self.mask(0, self.n_documents).sum())} documents"

    def mask(self, start: int, stop: int) -> np.ndarray:
        first = start // 8
        bits = np.unpackbits(np.frombuffer(self.bits, np.uint8)[first : -(-stop // 8)])
        return bits[start - 8 * first : stop - 8 * first].astype(bool) == self.inside


CorpusT = TypeVar("CorpusT")  # a corpus; its module imports this one


class Folds(Generic[CorpusT]):
    """The documents of a corpus in `k` parts of almost equal size, each with its share of every class.

    The documents of a class, by the hash of their place in the corpus, are dealt to the folds in turn.

    `share`: of the documents outside a fold, that is trained on, chosen by another hash of their place.
    `groups`: of documents in stored order: each is in one fold. None: as the corpus stores them, if it does.
    """

    def __init__(
        self, corpus: CorpusT, k: int = 5, seed: int = 0, share: float = 1.0, groups: ArrayLike | None = None
    ) -> None:
        if not is_count(k, 2):
            raise ValueError(f"the number of folds must be a whole number, 2 or more, not {k!r}")
        self.corpus: Any = corpus
        n_documents: int = cast(Any, corpus).n_documents
        if k > n_documents:
            raise ValueError(f"{k} folds need at least {k} documents, and there are {n_documents:,}")
        self.k, self.seed, self.share = int(k), int(seed), float(share)
        self.groups = None if groups is None else _group_codes(groups, n_documents)
        """The number of each document's group, where groups were passed."""
        hashed = "" if self.groups is None else f" {hashlib.sha256(self.groups.tobytes()).hexdigest()}"
        self.name = f"{self.k} {self.seed} {self.share}{hashed}"
        """What tells these folds of a corpus from others."""

    def __repr__(self) -> str:
        return f"Folds({self.corpus!r}, k={self.k}, seed={self.seed})"

    def __len__(self) -> int:
        return self.k

    def __iter__(self) -> Iterator[tuple[CorpusT, CorpusT]]:
        """Yield, for each fold, the corpus without it, and the fold."""
        return ((self.train(number), self.test(number)) for number in range(self.k))

    def train(self, number: int) -> CorpusT:
        """Return the corpus without a fold, from 0: it trains any estimator."""
        return cast(CorpusT, self.corpus.within(FoldMask(self, number, False)))

    def test(self, number: int) -> CorpusT:
        """Return a fold: estimators evaluate it."""
        return cast(CorpusT, self.corpus.within(FoldMask(self, number, True)))

    @property
    def numbers(self) -> np.ndarray:
        """The fold of each document, in stored order: int16 of shape (n_documents,)."""

        def assign() -> np.ndarray:
            labels, mask, n = self.corpus.labels(), self.corpus.mask, self.corpus.n_documents
            if mask is not None:  # documents outside of a subset have other labels: those inside are dealt evenly
                labels = np.zeros(n, np.int64) if labels is None else labels
                labels = labels + np.where(mask, 0, int(labels.max(initial=0)) + 2)
            groups = self.corpus.all_groups() if self.groups is None else self.groups
            return assign_folds(labels, n, self.k, self.seed, groups)

        return _numbers.get((self.corpus.cache_key, self.name), assign)


@dataclass(frozen=True)
class FoldMask:
    """A fold of a corpus, or all but this fold; like a `Selection`, but workers find the documents for themselves."""

    folds: Folds[Any]
    number: int
    inside: bool

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.folds.k:
            raise IndexError(f"fold {self.number} is not among the {self.folds.k}, from 0")

    @property
    def name(self) -> str:
        return f"{self.folds.name} {self.number} {self.inside}"

    @property
    def title(self) -> str:
        return f"{'fold' if self.inside else 'all but fold'} {self.number} of {self.folds.k}"

    def mask(self, start: int, stop: int) -> np.ndarray:
        folds = self.folds
        inside = (folds.numbers[start:stop] == self.number) == self.inside
        if self.inside or folds.share >= 1.0:
            return np.asarray(inside)
        from sdem_dist.kernels.randomness import document_keys  # numba comes with it

        return inside & (document_keys(folds.seed, SHARES, start, stop) < np.uint64(folds.share * 2.0**64))


def _group_codes(groups: ArrayLike, n_documents: int) -> np.ndarray:
    """Return groups numbered from 0, int64 of shape (n_documents,); ValueError where there is not one per document."""
    names = np.asarray(groups)
    if names.shape != (n_documents,):
        raise ValueError(f"there are {n_documents:,} documents, and groups have shape {names.shape}")
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def assign_folds(
    labels: np.ndarray | None, n_documents: int, k: int, seed: int, groups: ArrayLike | None = None
) -> np.ndarray:
    """Return the fold of each document; groups, from the largest, go where are fewest documents of their classes."""
    from sdem_dist.kernels.csr import deal_groups  # numba comes with it
    from sdem_dist.kernels.randomness import document_keys

    keys = document_keys(seed, FOLDS, 0, n_documents)
    if groups is None:
        order = np.argsort(keys, kind="stable") if labels is None else np.lexsort((keys, labels))
        numbers = np.empty(n_documents, np.int16)
        numbers[order] = np.arange(n_documents) % k
        return numbers
    codes = _group_codes(groups, n_documents)
    n = int(codes.max(initial=-1)) + 1
    if n < k:
        raise ValueError(f"{counted(n, 'group')} cannot be cut into {k} folds: a group is in one fold")
    classes = np.zeros(len(codes), np.int64) if labels is None else labels.astype(np.int64) + 1
    n_classes = int(classes.max()) + 1
    pairs, counts = np.unique(codes * n_classes + classes, return_counts=True)
    sizes, least = np.bincount(codes, minlength=n), np.full(n, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(least, codes, keys)
    order = np.lexsort((least, -sizes))
    starts = np.searchsorted(pairs // n_classes, np.arange(n + 1))
    of_groups = deal_groups(order, starts, pairs % n_classes, counts, np.bincount(classes, minlength=n_classes), k)
    return np.asarray(of_groups[codes])


def group_hashes(groups: ArrayLike) -> np.ndarray:
    """Return 64 bits for the name of each group, uint64: equal for names that are the same text."""
    names, codes = np.unique(np.asarray(groups).astype(str), return_inverse=True)
    hashed = [hashlib.blake2b(str(name).encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(hashed), "<u8").astype(np.uint64)[codes]
