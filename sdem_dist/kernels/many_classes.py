"""sdEM with the hinge loss for many classes: each word has a list of the classes with counts that have changed."""

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline
from sdem_dist.kernels.parts import empty, larger, smaller, zeros
from sdem_dist.kernels.vectors import log, log_single

ENTRIES = 2_048  # approximate limit of list entries in the search for a rival; shortest lists first
CANDIDATES = 4  # number of candidates if the search stopped at this limit; they are scored with all words
BLOCK = 64  # classes per block; a block has one bound of the scores of classes without words of the document
EMPTY = np.uint64(2**64 - 1)  # the key of a free slot
_HASH, _HALF, _ONE = np.uint64(0x9E3779B97F4A7C15), np.uint64(32), np.uint64(1)


class Lists(NamedTuple):
    """The changed counts of each word, as lists; changed in place."""

    starts: np.ndarray  # start of each word's list, int64; there is room for the entries that a lane adds
    used: np.ndarray  # Length of each list, shape (n_features,), int64
    classes: np.ndarray  # shape (n_entries,), int32
    counts: np.ndarray  # N, float32
    rises: np.ndarray  # ln(N / alpha_w), float32
    keys: np.ndarray  # hash table of the pairs ``word * n_classes + class``, uint64; `EMPTY`: a free slot
    places: np.ndarray  # position in the lists of each key's pair, int32
    prior: np.ndarray  # alpha_w, shape (n_features,), float32


class ClassCounts(NamedTuple):
    """Expected counts of classes, shape (n_classes,), float64; changed in place."""

    totals: np.ndarray  # M
    documents: np.ndarray  # C


@jit_inline
def _slot(key, keys):
    mask = np.uint64(keys.size) - _ONE
    mixed = key * _HASH
    slot = (mixed ^ (mixed >> _HALF)) & mask
    while keys[slot] != key and keys[slot] != EMPTY:
        slot = (slot + _ONE) & mask
    return slot


@jit_inline
def _place(word, k, n_classes, lists):
    """Return the position of a pair in the lists; append a new pair to the list of its word."""
    key = np.uint64(word) * np.uint64(n_classes) + np.uint64(k)
    slot = _slot(key, lists.keys)
    if lists.keys[slot] == EMPTY:
        place = lists.starts[word] + lists.used[word]
        lists.used[word] += 1
        lists.keys[slot], lists.places[slot] = key, place
        lists.classes[place] = k
        lists.counts[place] = lists.prior[word]
        lists.rises[place] = np.float32(0.0)
    return lists.places[slot]


@jit
def fill(words, classes, changes, n_classes, lists):
    """Add pairs to the lists; `changes`: differences of their counts from the prior's."""
    for i in range(words.size):
        word = words[i]
        place = _place(word, classes[i], n_classes, lists)
        count = np.float32(lists.prior[word] + changes[i])
        lists.counts[place], lists.rises[place] = count, log_single(count / lists.prior[word])


@jit
def run_documents(documents, lists, counts, schedule, t, margin):
    """Run sdEM with the hinge loss over documents in order, with one step per document; counts change in place.

    Steps are as in `sdem_dist.kernels.multinomial.run_documents`. The rival is the strongest class; if the lists of the
    document's words have more than `ENTRIES` entries, it is the strongest of `CANDIDATES`, which are chosen by the
    words with the shortest lists. `t`: documents of the corpus seen. Returns `t` after the last document.
    """
    n_classes, start = counts.totals.size, 0.0
    for w in range(lists.prior.size):
        start += lists.prior[w]
    # Logarithms of C, and of M relative to the start, since single precision is finest near ln 1 = 0.
    logs = empty((n_classes, 2), np.float32)
    bounds = empty(((n_classes + BLOCK - 1) // BLOCK, 2), np.float32)
    for k in range(n_classes):
        logs[k, 0], logs[k, 1] = log(counts.documents[k]), log(counts.totals[k] / start)
    for block in range(bounds.shape[0]):
        _bound(block, logs, bounds)
    sums, touched = zeros(n_classes, np.float32), empty(ENTRIES + n_classes, np.int64)
    best, candidates = empty(CANDIDATES, np.float32), empty(CANDIDATES, np.int64)
    for i in range(documents.order.size):
        d = documents.order[i]
        weight, label = documents.weights[d], documents.labels[d]
        if weight <= 0.0:
            continue
        t += schedule.corpus_scale * weight
        first, last = documents.indptr[d], documents.indptr[d + 1]
        values, words = documents.data[first:last], documents.indices[first:last]
        length, square, entries = 0.0, 0.0, 0
        for j in range(values.size):
            x = np.float64(values[j])
            length += x
            square += x * x
            entries += lists.used[words[j]]
        # Words with the shortest lists come first.
        order = np.arange(words.size) if entries <= ENTRIES else np.argsort(lists.used[words])
        n_words_used, n_touched = _add_lists(values, words, order, lists, sums, touched)
        n_candidates = 1 if n_words_used == words.size else CANDIDATES
        own, rivals = sums[label] + logs[label, 0] - np.float32(length) * logs[label, 1], candidates[:n_candidates]
        _find_best(np.float32(length), label, logs, bounds, sums, touched[:n_touched], best[:n_candidates], rivals)
        if n_words_used < words.size:
            own += _rest(values, words, order[n_words_used:], label, n_classes, lists)
            for c in range(n_candidates):
                best[c] += _rest(values, words, order[n_words_used:], candidates[c], n_classes, lists)
        strongest = np.argmax(best[:n_candidates])
        if own - best[strongest] > margin:
            continue
        # A step is at most that of a mean document, for any weight and length.
        scale = smaller(weight, schedule.mean_square / square) if square > 0.0 else smaller(weight, 1.0)
        scale /= 1.0 + schedule.decay * t
        for side in range(2):
            k, signed = (label, scale) if side == 0 else (candidates[strongest], -scale)
            gain, rho, floor = 0.0, np.float32(signed * schedule.start), np.float32(schedule.floor)
            for j in range(values.size):
                if values[j] > 0:
                    place = _place(words[j], k, n_classes, lists)
                    old = lists.counts[place]
                    new = larger(old + rho * np.float32(values[j]), floor)
                    gain += new - old
                    lists.counts[place], lists.rises[place] = new, log_single(new / lists.prior[words[j]])
            counts.totals[k] += gain
            counts.documents[k] = larger(counts.documents[k] + signed * schedule.class_start, schedule.class_floor)
            logs[k, 0], logs[k, 1] = log(counts.documents[k]), log(counts.totals[k] / start)
            _bound(k // BLOCK, logs, bounds)
    return t


@jit_inline
def _add_lists(values, words, order, lists, sums, touched):
    """Add lists of words, up to `ENTRIES`, to the sums of classes; return the numbers of words and touched classes."""
    n_words, n_entries, n_touched = 0, 0, 0
    for j in order:
        n_entries += lists.used[words[j]]
        if n_words > 0 and n_entries > ENTRIES:
            break
        start = lists.starts[words[j]]
        for place in range(start, start + lists.used[words[j]]):
            k = lists.classes[place]
            if sums[k] == 0.0:
                touched[n_touched] = k
                n_touched += 1
            sums[k] += np.float32(values[j]) * lists.rises[place]
        n_words += 1
    return n_words, n_touched


@jit_inline
def _bound(block, logs, bounds):
    """Set the largest ln C and the smallest ln M among the classes of a block."""
    bounds[block, 0], bounds[block, 1] = -np.inf, np.inf
    for k in range(block * BLOCK, smaller((block + 1) * BLOCK, logs.shape[0])):
        bounds[block, 0], bounds[block, 1] = larger(bounds[block, 0], logs[k, 0]), smaller(bounds[block, 1], logs[k, 1])


@jit_inline
def _find_best(length, label, logs, bounds, sums, touched, best, candidates):
    """Set `best` and `candidates` to the largest scores and their classes, without the label; reset `sums` to 0."""
    # Exact for these sums: a class without list entries has a score from its totals only, and a block is skipped only
    # if the bound of all its classes is below the last candidate.
    for c in range(best.size):
        best[c], candidates[c] = -np.inf, 0
    for i in range(touched.size):
        k = touched[i]
        score = sums[k] + logs[k, 0] - length * logs[k, 1]
        if score > best[best.size - 1] and k != label and sums[k] != 0.0:
            _insert(score, k, best, candidates)
    for block in range(bounds.shape[0]):
        if bounds[block, 0] - length * bounds[block, 1] > best[best.size - 1]:
            for k in range(block * BLOCK, smaller((block + 1) * BLOCK, logs.shape[0])):
                score = logs[k, 0] - length * logs[k, 1]
                if score > best[best.size - 1] and k != label and sums[k] == 0.0:
                    _insert(score, k, best, candidates)
    for i in range(touched.size):
        sums[touched[i]] = 0.0


@jit_inline
def _insert(score, k, best, candidates):
    """Insert a class into the sorted best classes; the last one drops out."""
    at = best.size - 1
    while at > 0 and score > best[at - 1]:
        best[at], candidates[at] = best[at - 1], candidates[at - 1]
        at -= 1
    best[at], candidates[at] = score, k


@jit_inline
def _rest(values, words, order, k, n_classes, lists):
    """Return the part of a class's score from the words of a document in `order`."""
    total = np.float32(0.0)
    for i in range(order.size):
        word = words[order[i]]
        slot = _slot(np.uint64(word) * np.uint64(n_classes) + np.uint64(k), lists.keys)
        if lists.keys[slot] != EMPTY:
            total += np.float32(values[order[i]]) * lists.rises[lists.places[slot]]
    return total


@jit
def moved(lists, firsts, changes, n_classes):
    """Return the pairs with new counts, ascending, and the differences; ``changes[firsts[w]:]``: of the old state."""
    size, n = lists.used.sum(), 0
    pairs, differences = empty(size), empty(size)
    for word in range(lists.used.size):
        start, before = lists.starts[word], firsts[word + 1] - firsts[word]
        for i in np.argsort(lists.classes[start : start + lists.used[word]]):
            old = lists.prior[word]
            if i < before:
                old = np.float32(old + changes[firsts[word] + i])
            difference = lists.counts[start + i] - old
            if difference != 0.0:
                pairs[n], differences[n] = word * float(n_classes) + lists.classes[start + i], difference
                n += 1
    return pairs[:n], differences[:n]


@jit
def add_rises(documents, starts, classes, rises, out):
    """Add ``sum_j x_j rises`` over the lists ``starts[w]:starts[w + 1]`` of a document's words to its row of `out`."""
    for d in range(documents.indptr.size - 1):
        row = out[d]
        for j in range(documents.indptr[d], documents.indptr[d + 1]):
            x, word = np.float64(documents.data[j]), documents.indices[j]
            for place in range(starts[word], starts[word + 1]):
                row[classes[place]] += x * rises[place]
