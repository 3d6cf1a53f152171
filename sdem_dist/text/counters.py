"""Counters of texts: one that learns its terms, one of a given vocabulary, and one that hashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.documents import offsets_of
from sdem_dist.kernels import spelling as gram_kernels
from sdem_dist.kernels import spelling as spelling_kernels
from sdem_dist.kernels.spelling import Segments
from sdem_dist.text.texts import Texts, pieces
from sdem_dist.text.tokens import Scratch, grow_array, tokenizer_of
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    import scipy.sparse as sp


_SLOTS = 1 << 12


@dataclass(frozen=True)
class CsrCounts:
    """Counts in CSR, with the nodes of a tree in the order in which each document has them: int64, int32, int32."""

    indptr: np.ndarray
    nodes: np.ndarray
    counts: np.ndarray


class NgramTrie:
    """N-grams; a node's parent is the n-gram without its last word.

    `lengths`: shortest and longest n-gram that counts.
    `whole_if_short`: a segment shorter than the shortest n-gram counts as one. `tallies`: documents may be tallied.
    `parents`, `lasts`: ndarray of int32, parent, -1 for none, and last word of every node; behind the last node there
    is room.
    `tally`: int64 of shape (n, 3), or (n, 1) without tallies, second and third column: in how many documents a node
    is, and how often.
    """

    def __init__(self, lengths: tuple[int, int], whole_if_short: bool = False, *, tallies: bool = True) -> None:
        self.lengths, self._whole_if_short = lengths, whole_if_short
        self.n_nodes = 0
        self.parents, self.lasts = np.empty(_SLOTS, np.int32), np.empty(_SLOTS, np.int32)
        self.tally = np.empty((_SLOTS, 3 if tallies else 1), np.int64)
        self._slots = np.zeros((_SLOTS, 2), np.int64)
        self._node_of_word = np.full(_SLOTS, -1, np.int32)
        self._n_entries = 0
        self._grows = True
        self._scratch = Scratch()

    def view(self) -> NgramTrie:
        """Return a tree of the same nodes that does not grow, and counts for itself."""
        other = NgramTrie(self.lengths, self._whole_if_short, tallies=False)
        for name in ("n_nodes", "parents", "lasts", "_slots", "_node_of_word"):
            setattr(other, name, getattr(self, name))
        other.tally = np.full((self.n_nodes, 1), -1, np.int64)
        other._grows = False
        return other

    def count(self, tokens: Segments, n_words: int, tallied: np.ndarray, first: int = 0) -> CsrCounts:
        """Count documents.

        `n_words`: words are below it.
        `tallied`: shape (n_documents,), bool: whether a document has part in `tally`, if there are tallies.
        `first`: entries of the calls before that are to stay before those of this one.
        Returns CsrCounts: views of memory that the next call overwrites: entries from the first that stays on,
        `indptr` of these documents.
        """
        n_documents = len(tokens.documents) - 1
        sizes = np.diff(tokens.bounds)
        most = int(tokens.bounds[-1]) * (self.lengths[1] - self.lengths[0] + 1) + len(sizes)
        indptr, done = np.zeros(n_documents + 1, np.int64), np.array([self.n_nodes, 0, 0, 0])
        nodes, counts = (self._scratch.array(name, first + most, np.int32, first) for name in ("nodes", "counts"))
        level = self._scratch.array("level", int(sizes.max(initial=0)), np.int32)
        self._know_words(n_words)
        entries = gram_kernels.Entries(indptr, nodes[first:], counts[first:])
        if self.tally.shape[1] == 1:
            tallied = np.zeros(n_documents, bool)
        form = gram_kernels.Form(*self.lengths, self._whole_if_short, self._grows, self._n_entries)
        while needed := gram_kernels.count(tokens, tallied, form, self._tree(), done, level, entries):
            self._make_room(needed)
        self.n_nodes, self._n_entries = int(done[0]), self._n_entries + int(done[1])
        stop = first + int(done[1])
        return CsrCounts(indptr, nodes[:stop], counts[:stop])

    def insert(self, ids: np.ndarray, offsets: np.ndarray, n_words: int) -> np.ndarray:
        """Add the n-grams ``ids[offsets[g]:offsets[g + 1]]``; return their nodes, int32, -1 for those without any."""
        nodes, done = np.empty(len(offsets) - 1, np.int32), np.array([self.n_nodes, 0, 0, 0])
        self._know_words(n_words)
        self._make_room(self.n_nodes + len(nodes))
        while needed := gram_kernels.insert(ids, offsets, self._tree(), done, nodes):
            self._make_room(needed)
        self.n_nodes = int(done[0])
        return nodes

    def close(self) -> None:
        """Forget what finds n-grams: the tree counts no more, and its nodes may be looked at."""
        self._slots, self._scratch = self._slots[:0].copy(), Scratch()

    def _tree(self) -> gram_kernels.Tree:
        return gram_kernels.Tree(self._node_of_word, self._slots, self.parents, self.lasts, self.tally)

    def _know_words(self, n_words: int) -> None:
        known = len(self._node_of_word)
        if n_words > known:
            self._node_of_word = grow_array(self._node_of_word, n_words)
            self._node_of_word[known:] = -1

    def _make_room(self, needed: int) -> None:
        while 4 * needed > 3 * len(self._slots):
            slots = np.zeros((2 * len(self._slots), 2), np.int64)
            gram_kernels.rehash(self._slots, slots)
            self._slots = slots
        self.parents, self.lasts, self.tally = (grow_array(a, needed) for a in (self.parents, self.lasts, self.tally))


PIECE = 1 << 20  # bytes of text counted at a time: what they need stays in the cache
MOST_HASHED = 1 << 21  # n-grams that a hashing counter remembers


class LearningCounter:
    """Counts whatever comes; the counts name the nodes of a tree that grows.

    `tallies`: texts may be tallied.
    """

    def __init__(self, settings: VectorizerSettings, *, tallies: bool = True) -> None:
        self.tokenizer = tokenizer_of(settings)
        self.tree = NgramTrie(self.tokenizer.lengths, self.tokenizer.whole_if_short, tallies=tallies)

    def count(self, texts: Texts, tallied: np.ndarray) -> CsrCounts:
        """Count texts; those that are `tallied` have part in the numbers of documents and occurrences of the terms.

        The next call overwrites what is returned.
        """
        found, indptr = CsrCounts(*np.zeros((3, 0), np.int32)), [np.zeros(1, np.int64)]
        for first, stop in pieces(texts.sizes, PIECE):
            n = len(found.nodes)
            found = self._counted(texts.part(first, stop), tallied[first:stop], n)
            indptr.append(found.indptr[1:] + n)
        return CsrCounts(np.concatenate(indptr), found.nodes, found.counts)

    def parts(self, texts: Texts, tallied: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Count texts as `count` does; return the arrays of consecutive parts of them."""
        parts = []
        for first, stop in pieces(texts.sizes, PIECE):
            part = self._counted(texts.part(first, stop), tallied[first:stop], 0)
            parts.append((part.indptr, part.nodes.copy(), part.counts.copy()))
        return parts

    def _counted(self, texts: Texts, tallied: np.ndarray, first: int) -> CsrCounts:
        tokens = self.tokenizer.tokens(texts)
        return self.tree.count(tokens, self.tokenizer.spelling.n_words, tallied, first)


def _joined(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> CsrCounts:
    if not parts:
        return CsrCounts(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))
    ends = offsets_of([len(nodes) for _, nodes, _ in parts])
    indptr = [part[0][1:] + end for part, end in zip(parts, ends, strict=False)]
    nodes, counts = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    return CsrCounts(np.concatenate([np.zeros(1, np.int64), *indptr]), nodes, counts)


class Vocabulary:
    """Terms that are given, ready to be found; threads share it, and each counts with a `FixedCounter` of its own.

    `terms`: in the order of columns.
    """

    def __init__(self, settings: VectorizerSettings, terms: Sequence[str]) -> None:
        tokenizer = tokenizer_of(settings)
        tree = NgramTrie(tokenizer.lengths, tokenizer.whole_if_short, tallies=False)
        nodes = tree.insert(*tokenizer.parts_of(list(terms)), tokenizer.spelling.n_words)
        columns = np.full(tree.n_nodes, -1, np.int32)
        columns[nodes[nodes >= 0]] = np.flatnonzero(nodes >= 0)
        self.tokenizer, self.tree, self.columns, self.n_features = tokenizer, tree, columns, len(terms)

    @classmethod
    def learned(cls, counter: LearningCounter, columns: np.ndarray, n_features: int) -> Vocabulary:
        """Return the terms that a counter has learned, which learns no more; `columns` are those of its nodes."""
        known = cls.__new__(cls)
        known.tokenizer, known.tree = counter.tokenizer, counter.tree
        known.columns, known.n_features = columns, n_features
        known.tree.tally = known.tree.tally[:0].copy()  # each thread that counts has its own
        return known


class FixedCounter:
    """Counts the terms of a vocabulary, and passes over others.

    `n_words`, `n_unknown`: words, or characters, met so far, and those of them that no term has; stop words are not
    counted.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.n_words = self.n_unknown = 0
        self._vocabulary = vocabulary
        self._tokenizer, self._tree = vocabulary.tokenizer.fixed(), vocabulary.tree.view()

    def count(self, texts: Texts, dtype: type = np.int64) -> sp.csr_matrix:
        """Return counts, indices sorted."""
        parts = []
        for first, stop in pieces(texts.sizes, PIECE):
            tokens = self._tokenizer.tokens(texts.part(first, stop))
            self.n_words += len(tokens.ids)
            self.n_unknown += int(np.count_nonzero(tokens.ids < 0))
            found = self._tree.count(tokens, 0, np.zeros(stop - first, bool))
            parts.append(arranged(found, self._vocabulary.columns, self._vocabulary.n_features))
        return as_matrix(_joined(parts), self._vocabulary.n_features, dtype)


class HashingCounter:
    """Counts terms by the columns of scikit-learn's ``FeatureHasher``, without signs.

    `settings`: of kind "hashing".
    """

    def __init__(self, settings: VectorizerSettings) -> None:
        self._settings, self._n_features = settings, settings.n_features or 1
        self._forget()

    def count(self, texts: Texts, dtype: type = np.int64) -> sp.csr_matrix:
        """Return counts, indices sorted."""
        parts = []
        for first, stop in pieces(texts.sizes, PIECE):
            found = self._counter.count(texts.part(first, stop), np.zeros(stop - first, bool))
            parts.append(arranged(found, self._hashed(), self._n_features))
            if self._counter.tree.n_nodes > MOST_HASHED:
                self._forget()
        return as_matrix(_joined(parts), self._n_features, dtype)

    def _forget(self) -> None:
        self._counter = LearningCounter(self._settings, tallies=False)
        self._columns = np.zeros(0, np.int32)

    def _hashed(self) -> np.ndarray:
        """Return the column of every node."""
        tree, spelling = self._counter.tree, self._counter.tokenizer.spelling
        data, bounds = spelling.texts(tree.parents[: tree.n_nodes], tree.lasts[: tree.n_nodes], len(self._columns))
        hashes = np.empty(len(bounds) - 1, np.int32)
        spelling_kernels.murmur(data, bounds, hashes)
        columns = np.abs(hashes.astype(np.int64))
        # the one number without a positive counterpart, as FeatureHasher takes it
        columns[hashes == np.iinfo(np.int32).min] = 2**31 - 1 - (self._n_features - 1)
        self._columns = np.concatenate([self._columns, (columns % self._n_features).astype(np.int32)])
        return self._columns


def all_arranged(
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], columns: np.ndarray, n_columns: int, dtype: np.dtype
) -> CsrCounts:
    """Return consecutive parts as `arranged` does, together; every node has a column of its own."""
    n, n_documents = sum(len(nodes) for _, nodes, _ in parts), sum(len(indptr) - 1 for indptr, _, _ in parts)
    indptr, indices, counts = np.zeros(n_documents + 1, np.int64), np.empty(n, np.int32), np.empty(n, dtype)
    row = entry = 0
    for part in parts:
        rows, entries = slice(row, row + len(part[0])), slice(entry, entry + len(part[1]))
        spelling_kernels.arrange(*part, columns, n_columns, (indptr[rows], indices[entries], counts[entries]))
        indptr[rows] += entry
        row, entry = rows.stop - 1, entries.stop
    return CsrCounts(indptr, indices, counts)


def arranged(found: CsrCounts, columns: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return indptr, indices and counts with nodes in their columns, ascending; nodes of a negative column drop out."""
    indptr, indices = np.empty_like(found.indptr), np.empty_like(found.nodes)
    counts = np.empty_like(found.counts)
    n = spelling_kernels.arrange(found.indptr, found.nodes, found.counts, columns, n_columns, (indptr, indices, counts))
    return indptr, indices[:n], counts[:n]


def as_matrix(counts: CsrCounts, n_features: int, dtype: type | np.dtype | None = np.int64) -> sp.csr_matrix:
    """Return arranged counts as a matrix; without `dtype` of that which they have."""
    import scipy.sparse as sp

    values = counts.counts if dtype is None else counts.counts.astype(dtype, copy=False)
    matrix = sp.csr_matrix((values, counts.nodes, counts.indptr), shape=(len(counts.indptr) - 1, n_features))
    matrix.has_canonical_format = True
    return matrix
