"""Walks through trees of n-grams in the order of their texts; merging of walks, and spelling of n-grams."""

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.code_points import PADDING, load64, store64
from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.parts import empty, larger, zeros


class Walks(NamedTuple):
    """Walks through several trees, with common ranks of words."""

    # The node, or -1 - node if it is only a prefix of n-grams; rank of its last word among all words; number of words.
    steps: np.ndarray  # Shape (n, 3), int32
    bounds: np.ndarray  # Walk ``w`` is ``steps[bounds[w]:bounds[w + 1]]``, int64
    tallies: np.ndarray  # shape (n, 2), int64: documents and occurrences of the n-gram of each step; or no rows


class Spelled(NamedTuple):
    """Bytes of the words."""

    data: np.ndarray  # joined bytes of all words, followed by `PADDING` bytes; uint8
    offsets: np.ndarray  # the word of rank ``p`` is ``data[offsets[p]:offsets[p + 1]]``, int64
    separator: int  # byte between words; -1: none
    end: int  # byte after every n-gram; -1: none


class Merged(NamedTuple):
    """One walk through all trees, overwritten."""

    numbers: np.ndarray  # for every step of the walks: number of its n-gram among the selected, int32; -1: not selected
    path: np.ndarray  # (n, 2), int32: rank of the last word; number of words, negative if the n-gram is not selected
    ends: np.ndarray  # offsets of the texts of the selected n-grams, int64
    totals: np.ndarray  # occurrences of each selected n-gram, int64; as long as `path`, or empty if not needed


@jit
def walk(parents, lasts, tally, places, n_places, longest, least):
    """Return the steps through a tree, with n-grams sorted by their words, shorter ones first.

    `parents`, `lasts`: parent (a node with a lower number, or -1) and last word of every node. `longest`: words of the
    longest n-grams, which all occur in texts. `tally`: its first column is negative for nodes that are only prefixes.
    `places`: distinct ranks of the words of the tree, below `n_places`.
    `least`: n-grams in fewer documents are dropped, except prefixes of others; 1 if `tally` has no documents.
    """
    n_nodes = parents.size
    sizes, n = zeros(n_nodes + 1, np.int32), 0  # sizes of the subtrees, 0 if dropped; the root is last
    for node in range(n_nodes - 1, -1, -1):
        if sizes[node] or least <= 1 or tally[node, 1] >= least:
            sizes[node] += 1
            sizes[parents[node]] += sizes[node]  # -1 is the root
            n += 1
    # A few passes over all nodes. Sort keys are packed with node numbers, to avoid random access.
    starts = zeros(n_places + 1, np.int32)
    first = zeros(n_nodes + 2, np.int32)  # start of each node's children, which are adjacent
    for node in range(n_nodes):
        if sizes[node]:
            starts[places[lasts[node]] + 1] += 1
            first[parents[node] + 2] += 1
    for place in range(n_places):
        starts[place + 1] += starts[place]
    for i in range(n_nodes + 1):
        first[i + 1] += first[i]
    by_word = empty(n, np.int64)  # parent and node
    for node in range(n_nodes):
        if sizes[node]:
            place = places[lasts[node]]
            by_word[starts[place]] = (np.int64(parents[node]) << 32) | node
            starts[place] += 1
    children = empty(n, np.int64)  # place and node
    i = 0
    for place in range(n_places):
        while i < starts[place]:  # starts[place] is now the end of this word
            parent, node = by_word[i] >> 32, by_word[i] & 0xFFFFFFFF
            children[first[parent + 1]] = (np.int64(place) << 32) | node
            first[parent + 1] += 1
            i += 1
    where, steps = empty(n_nodes + 1, np.int32), empty((n, 3), np.int32)
    where[n_nodes] = -1  # the root precedes all steps
    start = 0
    for parent in range(-1, n_nodes):
        stop = first[parent + 1]
        if start == stop:
            continue
        step, depth = where[parent] + 1, 1
        if parent >= 0:
            depth = steps[step - 1, 2] + 1
        for i in range(start, stop):
            node = children[i] & 0xFFFFFFFF
            steps[step, 0], steps[step, 1], steps[step, 2] = node, children[i] >> 32, depth
            if depth == longest:
                step += 1
                continue
            if tally[node, 0] < 0:
                steps[step, 0] = -1 - node
            where[node] = step
            step += sizes[node]
        start = stop
    return steps


@jit
def merge(walks, limits, spelled, merged):
    """Merge walks into one; return the numbers of steps and of selected n-grams (documents within `limits`)."""
    # Among the next steps of all walks, the deepest are first, since the others have left that subtree; among these,
    # the steps whose word has the lowest rank.
    steps, bounds, tallies = walks
    deepest = 0
    for i in range(steps.shape[0]):
        deepest = larger(deepest, steps[i, 2])
    sizes, at = empty(deepest + 1, np.int64), bounds[:-1].copy()
    n = n_kept = 0
    sizes[0] = merged.ends[0] = 0
    while True:
        depth, place = 0, 0
        for w in range(at.size):
            if at[w] < bounds[w + 1]:
                its_depth, its_place = steps[at[w], 2], steps[at[w], 1]
                if its_depth > depth or (its_depth == depth and its_place < place):
                    depth, place = its_depth, its_place
        if depth == 0:
            return n, n_kept
        met, documents, total, first = False, 0, 0, n
        for w in range(at.size):
            i = at[w]
            if i < bounds[w + 1] and steps[i, 2] == depth and steps[i, 1] == place:
                met = met or steps[i, 0] >= 0
                if tallies.shape[0]:
                    documents, total = documents + tallies[i, 0], total + tallies[i, 1]
                else:
                    documents = 1
        kept = met and limits[0] <= documents and documents <= limits[1]
        for w in range(at.size):
            i = at[w]
            if i < bounds[w + 1] and steps[i, 2] == depth and steps[i, 1] == place:
                merged.numbers[i] = n_kept if kept else -1
                at[w] = i + 1
        between = 1 if depth > 1 and spelled.separator >= 0 else 0
        sizes[depth] = sizes[depth - 1] + between + spelled.offsets[place + 1] - spelled.offsets[place]
        merged.path[first, 0], merged.path[first, 1] = place, depth if kept else -depth
        if kept:
            if merged.totals.size:
                merged.totals[n_kept] = total
            end = 1 if spelled.end >= 0 else 0
            merged.ends[n_kept + 1] = merged.ends[n_kept] + sizes[depth] + end
            n_kept += 1
        n += 1


@jit
def spell(path, spelled, out):
    """Write the selected n-grams of a merged path to `out`, joined; `PADDING` bytes must follow them."""
    data, offsets, separator, end = spelled
    deepest = 0
    for i in range(path.shape[0]):
        deepest = larger(deepest, abs(path[i, 1]))
    ends, line = empty(deepest + 1, np.int64), empty(1024, np.uint8)
    ends[0] = place = 0
    for i in range(path.shape[0]):
        word, depth = path[i, 0], abs(path[i, 1])
        at, start, size = ends[depth - 1], offsets[word], offsets[word + 1] - offsets[word]
        if at + size + 2 * PADDING > line.size:
            longer = empty(2 * (at + size + 2 * PADDING), np.uint8)
            for j in range(at):  # a slice assignment takes two seconds to compile
                longer[j] = line[j]
            line = longer
        if depth > 1 and separator >= 0:
            line[at] = separator
            at += 1
        for j in range(0, size, 8):  # excess bytes are overwritten later
            store64(line, at + j, load64(data, start + j))
        at += size
        ends[depth] = at
        if path[i, 1] > 0:
            if end >= 0:
                line[at] = end
                at += 1
            for j in range(0, at, 8):
                store64(out, place + j, load64(line, j))
            place += at
