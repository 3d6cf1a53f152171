"""A tree of n-grams that counts documents, and grows with what it meets if it may."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdem_dist.kernels import grams as kernels
from sdem_dist.kernels.grams import Segments
from sdem_dist.text.growing import Scratch, lengthened

_SLOTS = 1 << 12


@dataclass(frozen=True)
class NodeCounts:
    """Counts in CSR, with the nodes of a tree in the order in which each document has them: int64, int32, int32."""

    indptr: np.ndarray
    nodes: np.ndarray
    counts: np.ndarray


class GramTree:
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

    def view(self) -> GramTree:
        """Return a tree of the same nodes that does not grow, and counts for itself."""
        other = GramTree(self.lengths, self._whole_if_short, tallies=False)
        for name in ("n_nodes", "parents", "lasts", "_slots", "_node_of_word"):
            setattr(other, name, getattr(self, name))
        other.tally = np.full((self.n_nodes, 1), -1, np.int64)
        other._grows = False
        return other

    def count(self, tokens: Segments, n_words: int, tallied: np.ndarray, first: int = 0) -> NodeCounts:
        """Count documents.

        `n_words`: words are below it.
        `tallied`: shape (n_documents,), bool: whether a document has part in `tally`, if there are tallies.
        `first`: entries of the calls before that are to stay before those of this one.
        Returns NodeCounts: views of memory that the next call overwrites: entries from the first that stays on,
        `indptr` of these documents.
        """
        n_documents = len(tokens.documents) - 1
        sizes = np.diff(tokens.bounds)
        most = int(tokens.bounds[-1]) * (self.lengths[1] - self.lengths[0] + 1) + len(sizes)
        indptr, done = np.zeros(n_documents + 1, np.int64), np.array([self.n_nodes, 0, 0, 0])
        nodes, counts = (self._scratch.array(name, first + most, np.int32, first) for name in ("nodes", "counts"))
        level = self._scratch.array("level", int(sizes.max(initial=0)), np.int32)
        self._know_words(n_words)
        entries = kernels.Entries(indptr, nodes[first:], counts[first:])
        if self.tally.shape[1] == 1:
            tallied = np.zeros(n_documents, bool)
        form = kernels.Form(*self.lengths, self._whole_if_short, self._grows, self._n_entries)
        while needed := kernels.count(tokens, tallied, form, self._tree(), done, level, entries):
            self._make_room(needed)
        self.n_nodes, self._n_entries = int(done[0]), self._n_entries + int(done[1])
        stop = first + int(done[1])
        return NodeCounts(indptr, nodes[:stop], counts[:stop])

    def insert(self, ids: np.ndarray, offsets: np.ndarray, n_words: int) -> np.ndarray:
        """Add the n-grams ``ids[offsets[g]:offsets[g + 1]]``; return their nodes, int32, -1 for those without any."""
        nodes, done = np.empty(len(offsets) - 1, np.int32), np.array([self.n_nodes, 0, 0, 0])
        self._know_words(n_words)
        self._make_room(self.n_nodes + len(nodes))
        while needed := kernels.insert(ids, offsets, self._tree(), done, nodes):
            self._make_room(needed)
        self.n_nodes = int(done[0])
        return nodes

    def close(self) -> None:
        """Forget what finds n-grams: the tree counts no more, and its nodes may be looked at."""
        self._slots, self._scratch = self._slots[:0].copy(), Scratch()

    def _tree(self) -> kernels.Tree:
        return kernels.Tree(self._node_of_word, self._slots, self.parents, self.lasts, self.tally)

    def _know_words(self, n_words: int) -> None:
        known = len(self._node_of_word)
        if n_words > known:
            self._node_of_word = lengthened(self._node_of_word, n_words)
            self._node_of_word[known:] = -1

    def _make_room(self, needed: int) -> None:
        while 4 * needed > 3 * len(self._slots):
            slots = np.zeros((2 * len(self._slots), 2), np.int64)
            kernels.rehash(self._slots, slots)
            self._slots = slots
        self.parents, self.lasts, self.tally = (lengthened(a, needed) for a in (self.parents, self.lasts, self.tally))
