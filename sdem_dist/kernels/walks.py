"""Trees of n-grams walked in the order of their texts: walks are merged, and n-grams are spelled on the way."""

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.code_points import PADDING, load64, store64
from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.parts import empty, larger, zeros


class Walks(NamedTuple):
    """Walks through several trees whose words have common places."""

    # The node, or -1 - node where no text has the n-gram; place of its last word among all words; number of words.
    steps: np.ndarray  # Shape (n, 3), int32
    bounds: np.ndarray  # Walk ``w`` is ``steps[bounds[w]:bounds[w + 1]]``, int64
    tallies: np.ndarray  # shape (n, 2), int64: documents that have the n-gram of a step, and how often; or no rows


class Spelled(NamedTuple):
    """How words are written."""

    data: np.ndarray  # Bytes of all words, one after another, and `PADDING` more; uint8
    offsets: np.ndarray  # The word at place ``p`` is ``data[offsets[p]:offsets[p + 1]]``, int64
    separator: int  # Byte between words, -1 for none
    end: int  # Byte behind every n-gram, -1 for none


class Merged(NamedTuple):
    """One walk through all trees, overwritten."""

    numbers: np.ndarray  # Of every step of the walks: the number of its n-gram among those kept, -1 for others; int32
    path: np.ndarray  # (n, 2), int32: place of the last word; number of words, negative if the n-gram is left out
    ends: np.ndarray  # Where the text of every n-gram that is kept begins, and where the last ends, int64
    totals: np.ndarray  # How often each of them occurs, int64; as long as `path`, or empty where nobody asks


@jit
def walk(parents, lasts, tally, places, n_places, longest, least):
    """Return the steps through a tree, n-grams sorted by their words, shorter ones first.

    `parents`, `lasts`: parent, a node of a lower number or -1, and last word of every node. `longest`: words of the
    longest n-grams, all in texts. `tally`: its first column is negative for n-grams that no text has.
    `places`: the place of every word of the tree, no two the same, below `n_places`.
    `least`: n-grams in fewer documents are left out, but for those that others begin with; 1 if `tally` has no numbers.
    """
    n_nodes = parents.size
    sizes, n = zeros(n_nodes + 1, np.int32), 0  # of the tree under every node, 0 for those left out; the root last
    for node in range(n_nodes - 1, -1, -1):
        if sizes[node] or least <= 1 or tally[node, 1] >= least:
            sizes[node] += 1
            sizes[parents[node]] += sizes[node]  # -1 is the root
            n += 1
    # A few passes over all nodes: what is needed of a node travels with its number, since nodes lie anywhere.
    starts = zeros(n_places + 1, np.int32)
    first = zeros(n_nodes + 2, np.int32)  # of the children of every node, which stand together
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
        while i < starts[place]:  # now the end
            parent, node = by_word[i] >> 32, by_word[i] & 0xFFFFFFFF
            children[first[parent + 1]] = (np.int64(place) << 32) | node
            first[parent + 1] += 1
            i += 1
    where, steps = empty(n_nodes + 1, np.int32), empty((n, 3), np.int32)
    where[n_nodes] = -1  # the root comes before all
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
    """Merge walks into one; return its steps, and the n-grams kept, whose numbers of documents are in the limits."""
    # Of the next steps of all walks the deepest come first, since the others have left that part of the tree; of these
    # those whose word has the first place.
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
    """Write the n-grams of a merged path that are kept, one after another, to bytes longer than them by `PADDING`."""
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
            for j in range(at):  # an assignment of slices takes two seconds to compile
                longer[j] = line[j]
            line = longer
        if depth > 1 and separator >= 0:
            line[at] = separator
            at += 1
        for j in range(0, size, 8):  # what is written too much is overwritten
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
