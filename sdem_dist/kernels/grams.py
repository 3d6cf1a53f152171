"""N-grams of numbered words, or code points, counted by document: a tree whose nodes are found by a hash table.

A node is an n-gram; its parent is the n-gram without the last word. A slot of the table holds a pair (number of the parent,
number of the last word) as one number plus 1, 0 if the slot is free, and the node.
"""

from __future__ import annotations

import numpy as np

from sdem_dist.kernels.code_points import prefetch
from sdem_dist.kernels.jit import jit, jit_inline

NONE = -1
"""Stands for no node."""

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
AHEAD = 12  # words


@jit_inline
def _first_slot(key, n_slots):
    h = np.uint64(key) * _FACTOR
    h = (h ^ (h >> _HALF)) * _OTHER
    return np.int64((h >> _HALF) & np.uint64(n_slots - 1))


@jit
def rehash(slots, larger):
    """Enter the nodes of a table into a larger one, which is empty."""
    for i in range(slots.shape[0]):
        if slots[i, 0]:
            j = _first_slot(slots[i, 0], larger.shape[0])
            while larger[j, 0]:
                j = (j + 1) & (larger.shape[0] - 1)
            larger[j, 0], larger[j, 1] = slots[i, 0], slots[i, 1]


@jit_inline
def _has_room(n, slots, parents):
    """Say whether the tree may have `n` nodes."""
    return n <= parents.size and 4 * n <= 3 * slots.shape[0]


@jit_inline
def _new_node(n_nodes, parent, last, parents, lasts, tally):
    parents[n_nodes], lasts[n_nodes] = parent, last
    tally[n_nodes, 0], tally[n_nodes, 1], tally[n_nodes, 2] = -1, 0, 0


@jit_inline
def _first_level(words, level, grow, node_of_word, parents, lasts, tally, n_nodes):
    """Write the node of each word to `level`; return the number of nodes."""
    for t in range(words.size):
        word, node = words[t], NONE
        if word >= 0:
            node = node_of_word[word]
            if node < 0 and grow:
                node = n_nodes
                node_of_word[word] = node
                _new_node(node, NONE, word, parents, lasts, tally)
                n_nodes += 1
        level[t] = node
    return n_nodes


@jit_inline
def _next_level(words, level, first, stop, grow, slots, parents, lasts, tally, n_nodes):
    """Lengthen the n-gram that ends before each word by that word, from the last word on; return the number of nodes."""
    for t in range(stop - 1, first - 1, -1):
        if t - AHEAD >= 1:
            ahead = ((np.int64(level[t - AHEAD - 1]) << 32) | np.int64(words[t - AHEAD])) + 1
            prefetch(slots, _first_slot(ahead, slots.shape[0]))
        parent, word, node = np.int64(level[t - 1]), np.int64(words[t]), NONE
        if parent >= 0 and word >= 0:
            key = ((parent << 32) | word) + 1
            j = _first_slot(key, slots.shape[0])
            while slots[j, 0] != key and slots[j, 0] != 0:
                j = (j + 1) & (slots.shape[0] - 1)
            if slots[j, 0] == key:
                node = slots[j, 1]
            elif grow:
                node = n_nodes
                slots[j, 0], slots[j, 1] = key, node
                _new_node(node, parent, word, parents, lasts, tally)
                n_nodes += 1
        level[t] = node
    return n_nodes


@jit_inline
def _counted(level, first, base, first_entry, n_entries, tally, indices, counts):
    """Add the nodes of a level, from `first` on, to the entries of their document; return the number of entries."""
    for t in range(first, level.size):
        if t + AHEAD < level.size and level[t + AHEAD] >= 0:
            prefetch(tally, level[t + AHEAD])
        node = level[t]
        if node >= 0:
            entry = tally[node, 0] - base
            if entry >= first_entry:
                counts[entry] += 1
            else:
                indices[n_entries], counts[n_entries] = node, 1
                tally[node, 0] = base + n_entries
                n_entries += 1
    return n_entries


@jit
def count(
    ids, segments, text_segments, tallied, lengths, whole_if_short, grow, base,
    node_of_word, slots, parents, lasts, tally, done, level, indptr, indices, counts,
):  # fmt: skip
    """Count the n-grams of documents.

    Parameters
    ----------
    ids : ndarray of int32
        Words, or code points; an n-gram over a negative one does not count.
    segments, text_segments : ndarray of int64
        Segment ``s`` is ``ids[segments[s]:segments[s + 1]]``; n-grams do not cross its borders. Document ``d`` consists of
        the segments ``text_segments[d]`` up to ``text_segments[d + 1]``.
    tallied : ndarray of shape (n_documents,), bool
        The document is counted in `tally`.
    lengths : pair of int
        Shortest and longest n-gram.
    whole_if_short : bool
        A segment shorter than the shortest n-gram counts as one n-gram.
    grow : bool
        New n-grams are added to the tree.
    base : int
        Entries counted with this `tally` before.
    node_of_word : ndarray of int32
        Node of every word, -1 for none.
    slots : ndarray of shape (n_slots, 2), int64
    parents, lasts : ndarray of int32
        Parent, -1 for none, and last word of every node.
    tally : ndarray of shape (n, 3), int64
        Of every node: its latest entry, how many documents have it, and how often it occurs in them.
    done : ndarray of shape (4,), int64, changed in place
        Nodes of the tree, entries, the document to go on with, and its segment.
    level : ndarray of int32, overwritten
        As long as the longest segment.
    indptr, indices, counts : ndarray of int64, int32, int32, overwritten
        The counts in CSR; columns are nodes in the order in which the document has them.

    Returns
    -------
    int
        Nodes for which there has to be room to go on, 0 if all is done.
    """
    n_nodes, n = done[0], done[1]
    for d in range(done[2], text_segments.size - 1):
        first_entry = indptr[d]
        for s in range(max(text_segments[d], done[3]), text_segments[d + 1]):
            words = ids[segments[s] : segments[s + 1]]
            here = level[: words.size]
            low, high = lengths[0], min(lengths[1], words.size)
            if whole_if_short and words.size < low:
                low = words.size
            if low > high:
                continue
            if grow and not _has_room(n_nodes + high * words.size, slots, parents):
                done[0], done[1], done[2], done[3] = n_nodes, n, d, s
                return n_nodes + high * words.size
            n_nodes = _first_level(words, here, grow, node_of_word, parents, lasts, tally, n_nodes)
            for length in range(1, high + 1):
                if length > 1:
                    n_nodes = _next_level(
                        words, here, length - 1, words.size, grow, slots, parents, lasts, tally, n_nodes
                    )
                if length >= low:
                    n = _counted(here, length - 1, base, first_entry, n, tally, indices, counts)
        if tallied[d]:
            for entry in range(first_entry, n):
                tally[indices[entry], 1] += 1
                tally[indices[entry], 2] += counts[entry]
        indptr[d + 1] = n
    done[0], done[1], done[2] = n_nodes, n, text_segments.size - 1
    return 0


@jit
def insert(ids, offsets, node_of_word, slots, parents, lasts, tally, done, nodes):
    """Add n-grams that are given, and those that they begin with, to a tree.

    Parameters
    ----------
    ids : ndarray of int32
    offsets : ndarray of shape (n_grams + 1,), int64
        N-gram ``g`` is ``ids[offsets[g]:offsets[g + 1]]``; one with a negative word gets no node.
    nodes : ndarray of shape (n_grams,), int32, overwritten
        Node of every n-gram, -1 for none.

    The others, and what is returned, are as for `count`.
    """
    level, pair = np.empty(2, np.int32), np.empty(2, np.int32)
    n_nodes = done[0]
    for g in range(done[2], offsets.size - 1):
        length = offsets[g + 1] - offsets[g]
        if not _has_room(n_nodes + length, slots, parents):
            done[0], done[2] = n_nodes, g
            return n_nodes + length
        node = NONE
        for t in range(offsets[g], offsets[g + 1]):
            if t == offsets[g]:
                n_nodes = _first_level(ids[t : t + 1], level, True, node_of_word, parents, lasts, tally, n_nodes)
                node = level[0]
            else:
                level[0], pair[1] = node, ids[t]
                n_nodes = _next_level(pair, level, 1, 2, True, slots, parents, lasts, tally, n_nodes)
                node = level[1]
            if node < 0:
                break
        nodes[g] = node
    done[0], done[2] = n_nodes, offsets.size - 1
    return 0
