"""N-grams counted by document, as a tree of nodes; their texts and hashes; rows of counts in the order of columns."""

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.code_points import load64, low_zeros, store64
from sdem_dist.kernels.jit import jit, jit_once
from sdem_dist.kernels.parts import empty, larger, smaller, zeros
from sdem_dist.kernels.vectors import prefetch
from sdem_dist.kernels.words import first_slot

MANY, AHEAD = 1 << 12, 48  # nodes whose columns leave the first cache; entries ahead of which one is fetched
NONE = -1  # number of no node
WORDS_AHEAD = 12  # words
WORDS_FAR, WORDS_NEAR = 8, 4  # words ahead of which it is fetched where their n-grams are, and these


@jit
def text_sizes(parents, lasts, offsets, separator, sizes):
    """Write the number of bytes of every n-gram; `separator` is 1 if a space joins words."""
    for node in range(sizes.size):
        size = offsets[lasts[node] + 1] - offsets[lasts[node]]
        sizes[node] = size if parents[node] < 0 else sizes[parents[node]] + separator + size


@jit
def spell(nodes, tree, words, separator, bounds, out):
    """Write the bytes of the n-gram of ``nodes[i]`` to ``out[bounds[i]:bounds[i + 1]]``, longer by `PADDING`.

    `tree`: parent, -1 for none, and last word of every node. `words`: bytes and offsets. `separator`: -1 for none.
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
            for j in range(0, size, 8):  # what is written too much is overwritten
                store64(out, place + j, load64(spelled, source + j))
            place += size
            if k and separator >= 0:
                out[place] = separator
                place += 1


@jit
def murmur(data, bounds, hashes):
    """Write MurmurHash3 (32 bits, seed 0; as ``FeatureHasher``'s) of texts ``data[bounds[i]:bounds[i + 1]]``, int32."""
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
    """Write `rows`: node ``j`` in column ``columns[j]``, ascending, equal ones added up, negative ones left out.

    `kinds`: of each kind of columns the `CsrCounts` of the same documents, and `columns`. `width`: the first column
    beyond all.
    """
    # Columns of a document are bits, and of each 64 bits one says whether there are any: so they come out in order.
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
    """Documents as numbers."""

    ids: np.ndarray  # Words, or code points, int32; an n-gram over a negative one does not count
    bounds: np.ndarray  # Segment ``s`` is ``ids[bounds[s]:bounds[s + 1]]``, int64; n-grams do not cross its borders
    documents: np.ndarray  # Document ``d`` is the segments ``documents[d]`` up to ``documents[d + 1]``, int64


class Form(NamedTuple):
    """Which n-grams count, and how."""

    shortest: int
    longest: int
    whole_if_short: bool  # A segment shorter than the shortest n-gram counts as one n-gram
    grow: bool  # New n-grams are added to the tree
    base: int  # Entries that the tree's tally has counted before


class Tree(NamedTuple):
    """The nodes."""

    node_of_word: np.ndarray  # Node of every word, -1 for none, int32
    slots: np.ndarray  # Shape (n_slots, 2), int64
    parents: np.ndarray  # Parent of every node, -1 for none, int32
    lasts: np.ndarray  # Last word of every node, int32
    # Of every node: its latest entry, how many documents have it, how often it occurs there (both only if tallied).
    tally: np.ndarray  # Shape (n, 3), int64


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
    """Lengthen the n-gram that ends before each word by it, from the last word on; return the number of nodes."""
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
    """Count the n-grams of documents; return how many nodes need room before it can go on, 0 if all is done.

    `tallied`: whether each document is counted in the tree's tally. `level`: int32, as long as the longest segment.
    `done`: int64, changed: nodes of the tree, entries, the document to go on with, and its segment.
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
    """Count the n-grams of characters of documents by those of their words; return how many entries there are.

    `words`: numbers of words, and where each document begins. `tallied`, `tally`: as of `count`.
    `scratch`: int32, zeros, for each word and for each node. `entries`: has room for the n-grams of all words and one.
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
            word, factor = distinct[i], times[distinct[i]]  # a scalar: the loop may write to what it reads
            for j in range(known.indptr[word], known.indptr[word + 1]):
                node = known.nodes[j]
                indices[n] = node  # the next overwrites one that is there; branches would be guessed wrong
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
