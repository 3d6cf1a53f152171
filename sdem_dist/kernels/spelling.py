"""Texts of the n-grams of a tree, and their hashes; rows of counts in the order of columns."""

import numpy as np

from sdem_dist.kernels.code_points import load64, prefetch, store64
from sdem_dist.kernels.jit import jit, jit_inline

FEW = 32
"""Entries of a row that are sorted by insertion."""
MANY, AHEAD = 1 << 18, 48
"""Nodes whose columns do not stay in the second cache, and how many entries before its own one of them is fetched."""


@jit
def text_sizes(parents, lasts, offsets, separator, sizes):
    """Write the number of bytes of every n-gram; `separator` is 1 if a space joins words."""
    for node in range(sizes.size):
        size = offsets[lasts[node] + 1] - offsets[lasts[node]]
        sizes[node] = size if parents[node] < 0 else sizes[parents[node]] + separator + size


@jit
def spell(nodes, tree, words, separator, bounds, out):
    """Write the bytes of the n-gram of ``nodes[i]`` to ``out[bounds[i]:bounds[i + 1]]``, one after another.

    `nodes`: ndarray of integers. `tree`: pair of ndarray, parent, -1 for none, and last word of every node.
    `words`: pair of ndarray, the bytes of all words, and where each begins and the last ends.
    `separator`: byte between words, -1 for none. `bounds`: ndarray of int64.
    `out`: ndarray of uint8, overwritten, longer than the last bound by `PADDING`.
    """
    parents, lasts = tree
    spelled, offsets = words
    chain = np.empty(64, np.int32)
    for i in range(nodes.size):
        node, depth, place = nodes[i], 0, bounds[i]
        while node >= 0:
            if depth == chain.size:
                longer = np.empty(2 * depth, np.int32)
                longer[:depth] = chain
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
    """Write MurmurHash3 (32 bits, seed 0) of every text ``data[bounds[i]:bounds[i + 1]]``, as int32.

    Austin Appleby's public algorithm, which scikit-learn's ``FeatureHasher`` takes, too.
    """
    c1, c2, ones = np.uint64(0xCC9E2D51), np.uint64(0x1B873593), np.uint64(0xFFFFFFFF)
    for i in range(hashes.size):
        start, size = bounds[i], bounds[i + 1] - bounds[i]
        h = np.uint64(0)
        for position in range(0, size, 4):
            block, held = np.uint64(0), min(4, size - position)
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


@jit_inline
def _sorted(keys, other, places, width):
    """Return keys sorted by their upper halves, digit by digit from the lowest on; both arrays change."""
    mask = np.uint64(places.shape[1] - 1)
    places[:] = 0
    for i in range(keys.size):
        for turn in range(places.shape[0]):
            places[turn, np.int64((keys[i] >> np.uint64(32 + turn * width)) & mask)] += 1
    for turn in range(places.shape[0]):
        total = 0
        for digit in range(places.shape[1]):
            here = places[turn, digit]
            places[turn, digit] = total
            total += here
        for i in range(keys.size):
            own = np.int64((keys[i] >> np.uint64(32 + turn * width)) & mask)
            other[places[turn, own]] = keys[i]
            places[turn, own] += 1
        keys, other = other, keys
    return keys


@jit
def arrange(indptr, nodes, counts, columns, n_columns, rows):
    """Write rows of counts with the node ``j`` in column ``columns[j]``, ascending; equal columns are added up.

    `indptr`, `nodes`, `counts`: ndarray of int64, int32, integers.
    `columns`: ndarray of integers, negative for nodes to leave out. `n_columns`: columns are below it.
    `rows`: tuple of ndarray, overwritten, as long as `indptr`, `nodes` and `counts`. Returns the entries written.
    """
    new_indptr, new_indices, new_counts = rows
    longest = 0
    for d in range(indptr.size - 1):
        longest = max(longest, indptr[d + 1] - indptr[d])
    keys, other = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    n_bits = 1
    while n_columns >> n_bits:
        n_bits += 1
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    n_digits = (n_bits + 7) // 8
    width = (n_bits + n_digits - 1) // n_digits
    places = np.empty((n_digits, 1 << width), np.int32)
    n, far, last = 0, columns.size > MANY, nodes.size - 1
    new_indptr[0] = 0
    for d in range(indptr.size - 1):
        size = 0
        for entry in range(indptr[d], indptr[d + 1]):
            if far:
                prefetch(columns, np.int64(nodes[min(entry + AHEAD, last)]))
            column = np.int64(columns[nodes[entry]])
            if column >= 0:
                keys[size] = (np.uint64(column) << half) | np.uint64(counts[entry])
                size += 1
        own = keys[:size]
        if size > FEW:
            own = _sorted(own, other[:size], places, width)
        else:
            for i in range(1, size):
                key, j = own[i], i
                while j > 0 and own[j - 1] > key:
                    own[j] = own[j - 1]
                    j -= 1
                own[j] = key
        for i in range(size):
            place = np.int32(own[i] >> half)
            if n > new_indptr[d] and new_indices[n - 1] == place:
                new_counts[n - 1] += np.int64(own[i] & low)
            else:
                new_indices[n] = place
                new_counts[n] = np.int64(own[i] & low)
                n += 1
        new_indptr[d + 1] = n
    return n
