"""Counters of texts: one that learns its terms, one of a given vocabulary, and one that hashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.documents import offsets_of
from sdem_dist.kernels import spelling as kernels
from sdem_dist.kernels.spelling import Segments
from sdem_dist.text.texts import Texts, pieces
from sdem_dist.text.tokens import Analyzed, Characters, Scratch, Words, grow_array, tokenizer_of
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    import scipy.sparse as sp

PIECE = 1 << 20  # bytes of text counted at a time: what they need stays in the cache
MOST_HASHED = 1 << 21  # n-grams that a hashing counter remembers
_SLOTS = 1 << 12


@dataclass(frozen=True)
class CsrCounts:
    """Counts in CSR: int64, int32, int32; of columns, or of nodes of a tree as documents have them."""

    indptr: np.ndarray
    nodes: np.ndarray
    counts: np.ndarray

    def matrix(self, n_features: int) -> sp.csr_matrix:
        import scipy.sparse as sp

        matrix = sp.csr_matrix((self.counts, self.nodes, self.indptr), shape=(len(self.indptr) - 1, n_features))
        matrix.has_canonical_format = True
        return matrix


def joined(parts: Sequence[CsrCounts]) -> CsrCounts:
    if len(parts) == 1:
        return parts[0]
    ends = offsets_of([len(part.nodes) for part in parts])
    indptr = [part.indptr[1:] + end for part, end in zip(parts, ends, strict=False)]
    nodes, counts = (
        np.concatenate([np.zeros(0, np.int32), *(getattr(part, name) for part in parts)])
        for name in ("nodes", "counts")
    )
    return CsrCounts(np.concatenate([np.zeros(1, np.int64), *indptr]), nodes, counts)


def arranged(parts: Sequence[CsrCounts], columns: np.ndarray, dtype: type | np.dtype) -> CsrCounts:
    """Return consecutive documents with nodes in their columns, ascending; nodes of a negative one drop out."""
    n, n_documents = sum(len(part.nodes) for part in parts), sum(len(part.indptr) - 1 for part in parts)
    indptr, indices, counts = np.zeros(n_documents + 1, np.int64), np.empty(n, np.int32), np.empty(n, dtype)
    row = entry = 0
    for part in parts:
        rows = slice(row, row + len(part.indptr))
        out = indptr[rows], indices[entry:], counts[entry:]
        n_entries = kernels.arrange(part.indptr, part.nodes, part.counts, columns, out)
        indptr[rows] += entry
        row, entry = rows.stop - 1, entry + n_entries
    return CsrCounts(indptr, indices[:entry], counts[:entry])


class NgramTrie:
    """N-grams; a node's parent is the n-gram without its last word.

    `tally`: int64 of shape (n, 3), second and third column: in how many documents a node is, and how often; without
    tallies (n, 1).
    """

    def __init__(self, lengths: tuple[int, int], whole_if_short: bool = False, *, tallies: bool = True) -> None:
        self.lengths, self._whole_if_short = lengths, whole_if_short
        self.n_nodes = 0
        self.parents, self.lasts = np.empty(_SLOTS, np.int32), np.empty(_SLOTS, np.int32)
        self.tally = np.empty((_SLOTS, 3 if tallies else 1), np.int64)
        self._slots = np.zeros((_SLOTS, 2), np.int64)
        self._node_of_word = np.full(_SLOTS, -1, np.int32)
        self._n_entries, self._grows, self._scratch = 0, True, Scratch()

    def view(self) -> NgramTrie:
        """Return a tree of the same nodes that does not grow, and counts for itself."""
        other = NgramTrie(self.lengths, self._whole_if_short, tallies=False)
        for name in ("n_nodes", "parents", "lasts", "_slots", "_node_of_word"):
            setattr(other, name, getattr(self, name))
        other.tally, other._grows = np.full((self.n_nodes, 1), -1, np.int64), False
        return other

    def count(self, tokens: Segments, n_words: int, tallied: np.ndarray | None = None) -> CsrCounts:
        """Count documents, in memory that the next call overwrites.

        `n_words`: words are below it.
        `tallied`: shape (n_documents,), bool: whether a document has part in `tally`, if there are tallies.
        """
        n_documents, sizes = len(tokens.documents) - 1, np.diff(tokens.bounds)
        most = int(tokens.bounds[-1]) * (self.lengths[1] - self.lengths[0] + 1) + len(sizes)
        indptr, done = np.zeros(n_documents + 1, np.int64), np.array([self.n_nodes, 0, 0, 0])
        nodes, counts = (self._scratch.array(name, most, np.int32) for name in ("nodes", "counts"))
        level = self._scratch.array("level", int(sizes.max(initial=0)), np.int32)
        if tallied is None or self.tally.shape[1] == 1:
            tallied = np.zeros(n_documents, bool)
        entries = kernels.Entries(indptr, nodes, counts)
        form = kernels.Form(*self.lengths, self._whole_if_short, self._grows, self._n_entries)
        self._make_room(0, n_words)
        while needed := kernels.count(tokens, tallied, form, self._tree(), done, level, entries):
            self._make_room(needed)
        self.n_nodes, self._n_entries = int(done[0]), self._n_entries + int(done[1])
        return CsrCounts(indptr, nodes[: done[1]], counts[: done[1]])

    def insert(self, ids: np.ndarray, offsets: np.ndarray, n_words: int) -> np.ndarray:
        """Add the n-grams ``ids[offsets[g]:offsets[g + 1]]``; return their nodes, int32, -1 for those without any."""
        nodes, done = np.empty(len(offsets) - 1, np.int32), np.array([self.n_nodes, 0, 0, 0])
        self._make_room(self.n_nodes + len(nodes), n_words)
        while needed := kernels.insert(ids, offsets, self._tree(), done, nodes):
            self._make_room(needed)
        self.n_nodes = int(done[0])
        return nodes

    def close(self) -> None:
        """Forget what finds n-grams: the tree counts no more, and its nodes may be looked at."""
        self._slots, self._scratch = self._slots[:0].copy(), Scratch()

    def _tree(self) -> kernels.Tree:
        return kernels.Tree(self._node_of_word, self._slots, self.parents, self.lasts, self.tally)

    def _make_room(self, n_nodes: int, n_words: int = 0) -> None:
        if n_words > (n_before := len(self._node_of_word)):
            self._node_of_word = grow_array(self._node_of_word, n_words)
            self._node_of_word[n_before:] = -1
        while 4 * n_nodes > 3 * len(self._slots):
            slots = np.zeros((2 * len(self._slots), 2), np.int64)
            kernels.rehash(self._slots, slots)
            self._slots = slots
        self.parents, self.lasts, self.tally = (grow_array(a, n_nodes) for a in (self.parents, self.lasts, self.tally))


class LearningCounter:
    """Counts whatever comes; the counts name the nodes of a tree that grows."""

    def __init__(self, settings: VectorizerSettings, *, tallies: bool = True) -> None:
        self.tokenizer = tokenizer_of(settings)
        self.tree = NgramTrie(self.tokenizer.lengths, self.tokenizer.whole_if_short, tallies=tallies)

    def parts(self, texts: Texts, tallied: np.ndarray | None = None) -> list[CsrCounts]:
        """Count texts, some at a time; those `tallied` have part in the terms' documents and occurrences."""
        parts = []
        for first, stop in pieces(texts.sizes, PIECE):
            tokens = self.tokenizer.tokens(texts.take(slice(first, stop)))
            mask = None if tallied is None else tallied[first:stop]
            part = self.tree.count(tokens, self.tokenizer.spelling.n_words, mask)
            parts.append(CsrCounts(part.indptr, part.nodes.copy(), part.counts.copy()))
        return parts


@dataclass(frozen=True)
class Vocabulary:
    """Terms that are given, ready to be found; threads share it, and each counts with a `FixedCounter` of its own."""

    tokenizer: Words | Characters | Analyzed
    tree: NgramTrie
    columns: np.ndarray  # of the tree's nodes, -1 for those that are no term
    n_features: int

    @classmethod
    def of(cls, settings: VectorizerSettings, terms: Sequence[str]) -> Vocabulary:
        """Return the vocabulary of terms in the order of columns."""
        counter = LearningCounter(settings, tallies=False)
        tokenizer, tree = counter.tokenizer, counter.tree
        nodes = tree.insert(*tokenizer.parts_of(list(terms)), tokenizer.spelling.n_words)
        columns = np.full(tree.n_nodes, -1, np.int32)
        columns[nodes[nodes >= 0]] = np.flatnonzero(nodes >= 0)
        return cls(tokenizer, tree, columns, len(terms))


class FixedCounter:
    """Counts the terms of a vocabulary, and how many words no term has; stop words are not among them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.n_words = self.n_unknown = 0
        self._vocabulary = vocabulary
        self._tokenizer, self._tree = vocabulary.tokenizer.fixed(), vocabulary.tree.view()

    def count(self, texts: Texts, dtype: type = np.int64) -> sp.csr_matrix:
        parts, vocabulary = [], self._vocabulary
        for first, stop in pieces(texts.sizes, PIECE):
            tokens = self._tokenizer.tokens(texts.take(slice(first, stop)))
            self.n_words += len(tokens.ids)
            self.n_unknown += int(np.count_nonzero(tokens.ids < 0))
            parts.append(arranged([self._tree.count(tokens, 0)], vocabulary.columns, dtype))
        return joined(parts).matrix(vocabulary.n_features)


class HashingCounter:
    """Counts terms by the columns of scikit-learn's ``FeatureHasher``, without signs."""

    def __init__(self, settings: VectorizerSettings) -> None:
        self._settings, self._n_features = settings, settings.n_features or 1
        self._counter: LearningCounter | None = None
        self._columns = np.zeros(0, np.int32)  # of the terms met so far

    def count(self, texts: Texts, dtype: type = np.int64) -> sp.csr_matrix:
        parts = []
        for first, stop in pieces(texts.sizes, PIECE):
            if self._counter is None or self._counter.tree.n_nodes > MOST_HASHED:
                self._counter, self._columns = LearningCounter(self._settings, tallies=False), np.zeros(0, np.int32)
            counts = self._counter.parts(texts.take(slice(first, stop)))
            tree, n_nodes = self._counter.tree, self._counter.tree.n_nodes
            spelling, nodes = self._counter.tokenizer.spelling, (tree.parents[:n_nodes], tree.lasts[:n_nodes])
            data, bounds = spelling.texts(*nodes, len(self._columns))
            hashes = np.empty(len(bounds) - 1, np.int32)
            kernels.murmur(data, bounds, hashes)
            columns = np.abs(hashes.astype(np.int64))
            # the one number without a positive counterpart, as FeatureHasher takes it
            columns[hashes == np.iinfo(np.int32).min] = 2**31 - 1 - (self._n_features - 1)
            self._columns = np.concatenate([self._columns, (columns % self._n_features).astype(np.int32)])
            parts.append(arranged(counts, self._columns, dtype))
        return joined(parts).matrix(self._n_features)
