"""Folds of a corpus for cross-validation: masks over documents, by a keyed hash of their place, even in each class."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus.dealing import dealt, group_codes
from sdem_dist.corpus.dense_memory import DenseMemoryCorpus
from sdem_dist.corpus.layout import Header
from sdem_dist.corpus.memory import InMemory, MemoryCorpus
from sdem_dist.counted import is_count
from sdem_dist.documents import CorpusLike, DenseDocuments, Documents


class OnDisk(CorpusLike, Protocol):
    """What folds need of a corpus on disk, see `sdem_dist.corpus.reader.Corpus`."""

    @property
    def header(self) -> Header: ...  # noqa: D102
    @property
    def document_frequency(self) -> np.ndarray: ...  # noqa: D102
    @property
    def weights(self) -> np.ndarray | None: ...  # noqa: D102
    def vocabulary(self) -> list[str] | None: ...  # noqa: D102
    def labels(self) -> np.ndarray | None: ...  # noqa: D102
    def all_groups(self) -> np.ndarray | None: ...  # noqa: D102
    def part(self, folds: Masks, number: int, inside: bool) -> Part: ...  # noqa: D102


SHARES = (1 << 32) - 3  # stands where an epoch would in the keys that decide which documents are in a share
_MOST_KEPT = 8
_kept: dict[tuple[str, str], np.ndarray] = {}  # folds of the corpora of this process: hundreds of tasks ask for them

AnyCorpus = OnDisk | MemoryCorpus | DenseMemoryCorpus


class Masks(Protocol):
    """What decides which documents are in a part: folds, or a choice of documents."""

    reads: CorpusLike
    k: int

    @property
    def corpus(self) -> AnyCorpus: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def labels(self) -> np.ndarray | None: ...  # noqa: D102
    def title(self, number: int, inside: bool) -> str: ...  # noqa: D102
    def mask(self, number: int, inside: bool, start: int, stop: int) -> np.ndarray: ...  # noqa: D102


class Folds:
    """The documents of a corpus in `k` parts of almost equal size, each with its share of every class.

    The documents of a class, by the hash of their place in the corpus, are dealt to the folds in turn. So folds depend
    on the corpus and the seed alone.

    `k`: at least 2, at most the number of documents.
    `share`: the share of the documents outside a fold that are trained on, chosen by another hash of their place.
    `groups`: array-like of shape (n_documents,): documents of one group are in one fold; each fold has about its share
    of every class, as far as groups allow. In the order of the corpus as stored. None: as the corpus keeps them, if it
    does.
    Raises ValueError: there are fewer than two folds, or more than documents or groups.
    """

    def __init__(
        self, corpus: AnyCorpus, k: int = 5, seed: int = 0, share: float = 1.0, groups: ArrayLike | None = None
    ) -> None:
        if not is_count(k, 2):
            raise ValueError(f"the number of folds must be a whole number, 2 or more, not {k!r}")
        if k > corpus.n_documents:
            raise ValueError(f"{k} folds need at least {k} documents, and there are {corpus.n_documents:,}")
        self.corpus, self.k, self.seed, self.share = corpus, int(k), int(seed), float(share)
        self.reads: CorpusLike = corpus
        """The corpus that parts read; a search gives one that is decoded already."""
        self.given = None if groups is None else group_codes(groups, corpus.n_documents)
        """The number of each document's group, where groups were given."""

    def __reduce__(self) -> tuple[type[Folds], tuple[Any, ...]]:
        return Folds, (self.corpus, self.k, self.seed, self.share, self.given)

    @cached_property
    def name(self) -> str:
        """What tells these folds of a corpus from others."""
        groups = "" if self.given is None else f" {hashlib.sha256(self.given.tobytes()).hexdigest()}"
        return f"{self.k} {self.seed} {self.share}{groups}"

    def __repr__(self) -> str:
        return f"Folds({self.corpus!r}, k={self.k}, seed={self.seed})"

    def title(self, number: int, inside: bool) -> str:
        """Return what a part is, for people."""
        return f"{'fold' if inside else 'all but fold'} {number} of {self.k}"

    def __len__(self) -> int:
        return self.k

    def __iter__(self) -> Iterator[tuple[Part, Part]]:
        """Yield, for each fold, the corpus without it, and the fold."""
        for number in range(self.k):
            yield self.train(number), self.test(number)

    def train(self, number: int) -> Part:
        """Return the corpus without a fold, from 0: it trains any estimator."""
        return part_of(self, number, False)

    def test(self, number: int) -> Part:
        """Return a fold: estimators evaluate it."""
        return part_of(self, number, True)

    @cached_property
    def labels(self) -> np.ndarray | None:
        """The labels of all documents, int32 of shape (n_documents,)."""
        return labels_of(self.corpus)

    @property
    def numbers(self) -> np.ndarray:
        """The fold of each document, in stored order: int16 of shape (n_documents,)."""
        key = (self.corpus.cache_key, self.name)
        if key not in _kept:
            while len(_kept) >= _MOST_KEPT:
                _kept.pop(next(iter(_kept)), None)
            groups = groups_of(self.corpus) if self.given is None else self.given
            _kept[key] = dealt(self._apart, self.corpus.n_documents, self.k, self.seed, groups)
        return _kept[key]

    @property
    def _apart(self) -> np.ndarray | None:
        """The labels; documents that a part leaves out have others, so that those inside are dealt evenly."""
        if not isinstance(self.corpus, Part):
            return self.labels
        labels = np.zeros(self.corpus.n_documents, np.int64) if self.labels is None else self.labels
        return labels + np.where(self.corpus.mask, 0, int(labels.max(initial=0)) + 2)

    def mask(self, number: int, inside: bool, start: int, stop: int) -> np.ndarray:
        """Return which of the documents `start` up to `stop` are in a fold, or are trained on without it."""
        found = (self.numbers[start:stop] == number) == inside
        if inside or self.share >= 1.0:
            return np.asarray(found)
        from sdem_dist.kernels.randomness import document_keys  # numba comes with it

        return found & (document_keys(self.seed, SHARES, start, stop) < np.uint64(self.share * 2.0**64))


def groups_of(corpus: AnyCorpus) -> np.ndarray | None:
    """Return a hash of each document's group, uint64 of shape (n_documents,); None where a corpus keeps no groups."""
    if isinstance(corpus, Part):
        return groups_of(corpus.whole)
    if isinstance(corpus, InMemory):
        return None
    return corpus.all_groups()


def weights_of(corpus: AnyCorpus | Part) -> np.ndarray | None:
    """Return the weights of all documents, float64 of shape (n_documents,); None: all are 1."""
    if isinstance(corpus, Part):
        return corpus._weights
    return corpus.read(0, corpus.n_documents).weights if isinstance(corpus, InMemory) else corpus.weights


def labels_of(corpus: AnyCorpus) -> np.ndarray | None:
    """Read the labels of all documents and nothing else, int32 of shape (n_documents,); None where there are none."""
    return corpus.read(0, corpus.n_documents).labels if isinstance(corpus, InMemory) else corpus.labels()


class Part:
    """Some documents of a corpus, a fold or a subset: it reads all documents, and the others have weight 0.

    So ranges, lanes and random numbers are those of the whole corpus. Document frequencies are the whole corpus's, too.

    `number`: a fold; of a subset 0.
    `inside`: the fold; otherwise all but the fold.
    """

    def __init__(self, folds: Masks, number: int, inside: bool) -> None:
        if not 0 <= number < folds.k:
            raise IndexError(f"fold {number} is not among the {folds.k}, from 0")
        self.masks, self.number, self.inside, self.whole = folds, number, inside, folds.corpus

    def __reduce__(self) -> tuple[Callable[..., Part], tuple[object, ...]]:
        return part_of, (self.masks, self.number, self.inside)

    def __repr__(self) -> str:
        return f"{self.masks.title(self.number, self.inside)} of {self.whole!r}"

    @property
    def mask(self) -> np.ndarray:
        """Which documents are in it, bool of shape (n_documents,)."""
        mask = self.masks.mask(self.number, self.inside, 0, self.n_documents)
        return mask & self.whole.mask if isinstance(self.whole, Part) else mask

    @cached_property
    def _weights(self) -> np.ndarray:
        weights = weights_of(self.whole)
        return np.where(self.mask, 1.0 if weights is None else weights, 0.0)

    @property
    def weight(self) -> float:
        """Documents in it, by weight."""
        return float(self._weights.sum())

    @cached_property
    def class_weights(self) -> tuple[float, ...]:
        """Documents in it of each class, by weight."""
        labels, n = self.masks.labels, len(self.whole.header.classes)
        if labels is None:
            return ()
        known = labels >= 0
        return tuple(np.bincount(labels[known], self._weights[known], n).tolist())

    @cached_property
    def header(self) -> Header:
        """The corpus's, with the counts of these documents and an identity of its own."""
        labels, n = self.masks.labels, len(self.whole.header.classes)
        inside = () if labels is None else labels[(labels >= 0) & self.mask]
        counts = () if labels is None else tuple(np.bincount(inside, minlength=n).tolist())
        header = replace(self.whole.header, class_counts=counts)
        name = f"{self.whole.header.uid} {self.masks.name} {self.number} {self.inside}"
        header.__dict__["uid"] = hashlib.sha256(name.encode()).hexdigest()
        return header

    @cached_property
    def cache_key(self) -> str:
        """A name for the content."""
        return f"{self.whole.cache_key} part {self.masks.name} {self.number} {self.inside}"

    @property
    def n_documents(self) -> int:
        """How many positions there are to read: the corpus's."""
        return self.whole.n_documents

    def read(self, start: int, stop: int) -> Documents | DenseDocuments:
        """Return the documents `start` up to `stop` of the corpus, with weight 0 where they are not in this part."""
        documents = self.masks.reads.read(start, stop)
        weights = np.ones(stop - start) if documents.weights is None else documents.weights
        mask = self.masks.mask(self.number, self.inside, start, stop)
        return replace(documents, weights=np.where(mask, weights, 0.0))

    def part(self, folds: Masks, number: int, inside: bool) -> Part:
        """Return some documents of these."""
        return Part(folds, number, inside)

    def labels(self) -> np.ndarray | None:
        """Read the labels of all documents of the corpus."""
        return labels_of(self.whole)

    def place(self, document: int) -> str:
        """Return where a document is, for people."""
        return self.whole.place(document)

    def vocabulary(self) -> list[str] | None:
        """Return the corpus's words."""
        return self.whole.vocabulary()

    @property
    def document_frequency(self) -> np.ndarray:
        """The whole corpus's: folds share the weights that are made of counts."""
        assert not isinstance(self.whole, DenseMemoryCorpus)
        return self.whole.document_frequency


def part_of(folds: Masks, number: int, inside: bool) -> Part:
    """Return a fold, or the corpus without it; or a subset."""
    corpus = folds.corpus
    return Part(folds, number, inside) if isinstance(corpus, InMemory) else corpus.part(folds, number, inside)
