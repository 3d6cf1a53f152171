"""Counting n-grams by document, as nodes of a tree; their texts and hashes; sorting counts by columns."""

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.code_points import load64, low_zeros, store64
from sdem_dist.kernels.jit import jit, jit_once
from sdem_dist.kernels.parts import empty, larger, smaller, zeros
from sdem_dist.kernels.vectors import prefetch
from sdem_dist.kernels.words import first_slot

MANY, AHEAD = 1 << 12, 48  # number of nodes whose columns exceed the L1 cache; distance of prefetches in entries
NONE = -1  # no node
WORDS_AHEAD = 12  # distance of prefetches in words
WORDS_FAR, WORDS_NEAR = 8, 4  # distances of prefetches in words: offsets of n-grams, and then the n-grams


@jit
def text_sizes(parents, lasts, offsets, separator, sizes):
    """Write the number of bytes of every n-gram; `separator`: 1 if spaces separate words, else 0."""
    for node in range(sizes.size):
        size = offsets[lasts[node] + 1] - offsets[lasts[node]]
        sizes[node] = size if parents[node] < 0 else sizes[parents[node]] + separator + size


@jit
def spell(nodes, tree, words, separator, bounds, out):
    """Write the bytes of the n-gram of ``nodes[i]`` to ``out[bounds[i]:bounds[i + 1]]``; `PADDING` bytes must follow.

    `tree`: parent (-1: none) and last word of every node. `words`: bytes and offsets. `separator`: byte, -1: none.
    """
    parents, lasts = tree
    spelled, offsets = words
    chain = empty(64, np.int32)
    for i in range(nodes.size):
        node, depth, place = nodes[i], 0, bounds[i]
        while node >= 0:
            if depth == chain.size:
                longer = empty(2 * depth, np.int32)
                for k in range(depth):
                    longer[k] = chain[k]
                chain = longer
            chain[depth] = lasts[node]
            depth += 1
            node = parents[node]
        for k in range(depth - 1, -1, -1):
            source, size = offsets[chain[k]], offsets[chain[k] + 1] - offsets[chain[k]]
            for j in range(0, size, 8):  # excess bytes are overwritten later
                store64(out, place + j, load64(spelled, source + j))
            place += size
            if k and separator >= 0:
                out[place] = separator
                place += 1


@jit
def murmur(data, bounds, hashes):
    """Write MurmurHash3 (32 bits, seed 0, as in FeatureHasher) of texts ``data[bounds[i]:bounds[i + 1]]``, int32."""
    c1, c2, ones = np.uint64(0xCC9E2D51), np.uint64(0x1B873593), np.uint64(0xFFFFFFFF)
    for i in range(hashes.size):
        start, size = bounds[i], bounds[i + 1] - bounds[i]
        h = np.uint64(0)
        for position in range(0, size, 4):
            block, held = np.uint64(0), smaller(4, size - position)
            for j in range(held):
                block |= np.uint64(data[start + position + j]) << np.uint64(8 * j)
            block = (block * c1) & ones
            block = ((block << np.uint64(15)) | (block >> np.uint64(17))) & ones
            h ^= (block * c2) & ones
            if held == 4:
                h = ((h << np.uint64(13)) | (h >> np.uint64(19))) & ones
                h = (h * np.uint64(5) + np.uint64(0xE6546B64)) & ones
        h ^= np.uint64(size)
        h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & ones
        h = ((h ^ (h >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & ones
        hashes[i] = np.int32(np.uint32(h ^ (h >> np.uint64(16))))


@jit
def arrange(kinds, width, rows):
    """Write `rows`: nodes ``j`` become columns ``columns[j]``, sorted; equal columns are summed, negative ones dropped.

    `kinds`: for each kind of columns, the `CsrCounts` of the same documents, and `columns`. `width`: number of columns
    of all kinds.
    """
    # A document's columns are set as bits; a second level has one bit per 64 of them. Scanning the bits sorts columns.
    new_indptr, new_indices, new_counts = rows
    sums, one, low_bits = empty(width, np.int32), np.uint64(1), np.int64(63)
    bits, groups = zeros((width >> 6) + 1, np.uint64), zeros((width >> 12) + 1, np.uint64)
    n = 0
    new_indptr[0] = 0
    for d in range(new_indptr.size - 1):
        first_group, last_group = np.int64(groups.size), np.int64(-1)
        for indptr, nodes, counts, columns in kinds:
            far, last = columns.size > MANY, nodes.size - 1
            for entry in range(indptr[d], indptr[d + 1]):
                if far:
                    prefetch(columns, np.int64(nodes[smaller(entry + AHEAD, last)]), 0)
                column = np.int64(columns[nodes[entry]])
                if column < 0:
                    continue
                place, group, bit = column >> 6, column >> 12, one << np.uint64(column & low_bits)
                if bits[place] & bit:
                    sums[column] += np.int32(counts[entry])
                    continue
                sums[column] = np.int32(counts[entry])
                bits[place] |= bit
                groups[group] |= one << np.uint64(place & low_bits)
                first_group, last_group = smaller(first_group, group), larger(last_group, group)
        for some in range(first_group, last_group + 1):
            places, groups[some] = groups[some], 0
            while places:
                place = (some << 6) + low_zeros(places)
                places &= places - one
                own, bits[place] = bits[place], 0
                while own:
                    column = (place << 6) + low_zeros(own)
                    own &= own - one
                    new_indices[n], new_counts[n] = column, sums[column]
                    n += 1
        new_indptr[d + 1] = n
    return n


class Segments(NamedTuple):
    """Documents as segments of token numbers."""

    ids: np.ndarray  # words, or code points, int32; n-grams with a negative number are not counted
    bounds: np.ndarray  # Segment ``s`` is ``ids[bounds[s]:bounds[s + 1]]``, int64; n-grams lie within segments
    documents: np.ndarray  # Document ``d`` has the segments ``documents[d]:documents[d + 1]``, int64


class Form(NamedTuple):
    """Settings for counting n-grams."""

    shortest: int
    longest: int
    whole_if_short: bool  # a segment shorter than the shortest n-gram is one n-gram
    grow: bool  # add new n-grams to the tree
    base: int  # number of entries in earlier calls


class Tree(NamedTuple):
    """Nodes of n-grams."""

    node_of_word: np.ndarray  # node of every word, int32; -1: none
    slots: np.ndarray  # hash table of (parent and word, node), shape (n_slots, 2), int64
    parents: np.ndarray  # parent of every node, int32; -1: none
    lasts: np.ndarray  # last word of every node, int32
    # For every node: its latest entry; numbers of documents and of occurrences in tallied documents.
    tally: np.ndarray  # shape (n, 3), int64; shape (n, 1) without tallies


@jit_once
def _new_node(n_nodes, parent, last, tree):
    tree.parents[n_nodes], tree.lasts[n_nodes] = parent, last
    tally = tree.tally
    tally[n_nodes, 0] = -1
    for column in range(1, tally.shape[1]):
        tally[n_nodes, column] = 0


@jit_once
def _first_level(words, level, grow, tree, n_nodes):
    """Write the node of each word to `level`; return the number of nodes."""
    node_of_word = tree.node_of_word
    for t in range(words.size):
        word, node = words[t], NONE
        if word >= 0:
            node = node_of_word[word]
            if node < 0 and grow:
                node = n_nodes
                node_of_word[word] = node
                _new_node(node, NONE, word, tree)
                n_nodes += 1
        level[t] = node
    return n_nodes


@jit_once
def _next_level(words, level, first, grow, tree, n_nodes):
    """Extend the n-gram before each word by this word, from the last word backwards; return the number of nodes."""
    slots, zero, none = tree.slots, np.uint64(0), np.int64(0)
    for t in range(words.size - 1, first - 1, -1):
        if t - WORDS_AHEAD >= 1:
            ahead = ((np.int64(level[t - WORDS_AHEAD - 1]) << 32) | np.int64(words[t - WORDS_AHEAD])) + 1
            prefetch(slots, first_slot(np.uint64(ahead), zero, none, slots.shape[0]), 0)
        parent, word, node = np.int64(level[t - 1]), np.int64(words[t]), NONE
        if parent >= 0 and word >= 0:
            key = ((parent << 32) | word) + 1
            j = first_slot(np.uint64(key), zero, none, slots.shape[0])
            while slots[j, 0] != key and slots[j, 0] != 0:
                j = (j + 1) & (slots.shape[0] - 1)
            if slots[j, 0] == key:
                node = slots[j, 1]
            elif grow:
                node = n_nodes
                slots[j, 0], slots[j, 1] = key, node
                _new_node(node, parent, word, tree)
                n_nodes += 1
        level[t] = node
    return n_nodes


@jit
def count(segments, tallied, form, tree, done, level, entries):
    """Count the n-grams of documents; return 0 when done, or the number of nodes for which the tree needs room.

    `tallied`: mask of documents in the tree's tally. `level`: int32, as long as the longest segment.
    `done`: int64, changed: numbers of nodes and of entries; document and segment at which to continue.
    """
    ids, bounds, documents = segments
    indptr, indices, counts = entries
    tally, grow = tree.tally, form.grow
    n_nodes, n = done[0], done[1]
    for d in range(done[2], documents.size - 1):
        first_entry = indptr[d]
        for s in range(larger(documents[d], done[3]), documents[d + 1]):
            words = ids[bounds[s] : bounds[s + 1]]
            here = level[: words.size]
            low, high = form.shortest, smaller(form.longest, words.size)
            if form.whole_if_short and words.size < low:
                low = words.size
            if low > high:
                continue
            needed = n_nodes + high * words.size
            if grow and (needed > tree.parents.size or 4 * needed > 3 * tree.slots.shape[0]):
                done[0], done[1], done[2], done[3] = n_nodes, n, d, s
                return needed
            n_nodes = _first_level(words, here, grow, tree, n_nodes)
            for length in range(1, high + 1):
                if length > 1:
                    n_nodes = _next_level(words, here, length - 1, grow, tree, n_nodes)
                if length < low:
                    continue
                for t in range(length - 1, here.size):
                    if t + WORDS_AHEAD < here.size and here[t + WORDS_AHEAD] >= 0:
                        prefetch(tally, here[t + WORDS_AHEAD], 0)
                    node = here[t]
                    if node >= 0:
                        entry = tally[node, 0] - form.base
                        if entry >= first_entry:
                            counts[entry] += 1
                        else:
                            indices[n], counts[n] = node, 1
                            tally[node, 0] = form.base + n
                            n += 1
        if tallied[d]:
            for entry in range(first_entry, n):
                tally[indices[entry], 1] += 1
                tally[indices[entry], 2] += counts[entry]
        indptr[d + 1] = n
    done[0], done[1], done[2] = n_nodes, n, documents.size - 1
    return 0


@jit
def count_by_words(words, known, tallied, tally, scratch, entries):
    """Count the n-grams of characters of documents from those of their words; return the number of entries.

    `words`: numbers of words, offsets of documents. `known`: n-grams of each word. `tallied`, `tally`: as in `count`.
    `scratch`: int32, zeros, for each word and each node. `entries`: with room for the n-grams of all words plus one.
    """
    ids, documents = words
    times, sums = scratch
    indptr, indices, counts = entries
    n, distinct = 0, empty(ids.size, np.int32)
    for d in range(documents.size - 1):
        first_entry, n_distinct = n, 0
        for t in range(documents[d], documents[d + 1]):
            word = ids[t]
            if times[word] == 0:
                distinct[n_distinct] = word
                n_distinct += 1
            times[word] += 1
        for i in range(n_distinct):
            ahead = np.int64(distinct[smaller(i + WORDS_FAR, n_distinct - 1)])
            prefetch(known.indptr, ahead, 0)
            ahead = known.indptr[distinct[smaller(i + WORDS_NEAR, n_distinct - 1)]]
            prefetch(known.nodes, ahead, 0)
            prefetch(known.counts, ahead, 0)
            word, factor = distinct[i], times[distinct[i]]  # a scalar, since the loop's arrays may alias
            for j in range(known.indptr[word], known.indptr[word + 1]):
                node = known.nodes[j]
                indices[n] = node  # overwritten if the node is not new; a branch would often be mispredicted
                n += int(sums[node] == 0)
                sums[node] += factor * known.counts[j]
            times[word] = 0
        counted = tallied[d]
        for entry in range(first_entry, n):
            node = indices[entry]
            counts[entry] = sums[node]
            if counted:
                prefetch(tally, np.int64(indices[smaller(entry + WORDS_AHEAD, n - 1)]), 0)
                tally[node, 1] += 1
                tally[node, 2] += sums[node]
            sums[node] = 0
        indptr[d + 1] = n
    return n
