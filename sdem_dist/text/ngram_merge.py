"""The n-grams of one counter or several, sorted by their texts: trees are walked and merged in threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sdem_dist.documents import offsets_of_lengths
from sdem_dist.kernels import walks as kernels
from sdem_dist.kernels.code_points import PADDING
from sdem_dist.storage.threads import in_threads
from sdem_dist.text.counters import LearningCounter
from sdem_dist.text.tokens import Spelling, TokenInterner


def sorted_words(spelled: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the numbers of words sorted by their bytes, int64: by sixteen of them, then those alike one by one."""
    starts, sizes = offsets[:-1], np.diff(offsets)
    keys = np.zeros((2, len(starts)), np.uint64)
    for byte in range(16):
        inside = sizes > byte
        key = keys[byte // 8]
        key <<= np.uint64(8)
        key[inside] |= spelled[starts[inside] + byte].astype(np.uint64)
    ends = np.minimum(sizes, 17)  # a word that ends sorts before one that goes on with a zero byte
    order = np.lexsort((ends, keys[1], keys[0]))
    by_key, ends = keys[:, order], ends[order]
    alike = (by_key[:, 1:] == by_key[:, :-1]).all(axis=0) & (ends[:-1] == 17) & (ends[1:] == 17)
    borders = np.flatnonzero(np.diff(alike, prepend=False, append=False)).tolist()
    whole = spelled.tobytes() if borders else b""
    for first, last in zip(borders[::2], borders[1::2], strict=True):
        words = order[first : last + 1].tolist()
        order[first : last + 1] = sorted(words, key=lambda word: whole[offsets[word] : offsets[word + 1]])
    return order


ALL = 0, 1 << 62  # limits that keep every n-gram that a document has
STEPS = 1 << 16  # steps of the longest walk that are merged together: what they need stays in the cache


@dataclass(frozen=True)
class Trie:
    """N-grams; a node's parent, of a lower number, is the n-gram without its last word."""

    spelling: Spelling
    parents: np.ndarray  # int32: -1 for none
    lasts: np.ndarray  # int32: last word of every node
    tally: np.ndarray
    """int64, second and third column: in how many documents an n-gram is, and how often; the first is negative where no
    document has it, and others only begin with it. Without limits and totals the first is enough."""
    longest: int  # words of the longest n-grams

    @classmethod
    def of(cls, counter: LearningCounter) -> Trie:
        tree = counter.tree
        parents, lasts, tally = (array[: tree.n_nodes] for array in (tree.parents, tree.lasts, tree.tally))
        return cls(counter.tokenizer.spelling, parents, lasts, tally, tree.lengths[1])


@dataclass(frozen=True)
class SortedTerms:
    data: np.ndarray  # uint8
    offsets: np.ndarray  # int64: the text of n-gram ``i`` is ``data[offsets[i]:offsets[i + 1]]``
    totals: np.ndarray | None  # int64: how often each occurs, where that was asked for
    columns: list[np.ndarray]  # of int32: for each trie the n-gram of every node, -1 for those left out


def sorted_terms(
    tries: Sequence[Trie],
    limits: tuple[int, int] = ALL,
    *,
    with_totals: bool = False,
    end: int = -1,
    n_jobs: int = 1,
) -> SortedTerms:
    """Return the n-grams that documents have and that are in as many documents as the limits say.

    `tries`: one at least, of the same settings.
    `limits`: least and largest number of documents.
    `end`: a byte that stands behind every text, -1 for none.
    `n_jobs`: threads.
    """
    places, spelled = _places(tries, end)

    def walked(number: int) -> np.ndarray:
        trie = tries[number]
        nodes = trie.parents, trie.lasts, trie.tally, places[number], len(trie.parents)
        steps: np.ndarray = kernels.walk(*nodes, len(spelled.offsets) - 1, trie.longest)
        return steps

    # longer words that go on with a byte below the space sort before n-grams, not after
    low = spelled.separator >= 0 and bool((spelled.data[: spelled.offsets[-1]] < 0x20).any())
    if low and tries[0].longest > 1:
        walks, spelled = _flat_walks(tries, end)
    else:
        walks = list(in_threads(range(len(tries)), lambda: walked, n_jobs))

    def merged(part: list[np.ndarray]) -> tuple[kernels.Merged, np.ndarray, list[np.ndarray], list[np.ndarray]]:
        steps, tallies = np.concatenate(part), np.zeros((0, 2), np.int64)
        bounds = offsets_of_lengths(part)
        nodes = [np.where(some[:, 0] < 0, -1 - some[:, 0], some[:, 0]) for some in part]
        if limits != ALL or with_totals:
            tallies = np.concatenate([trie.tally[numbers, 1:] for trie, numbers in zip(tries, nodes, strict=True)])
        n = len(steps)
        out = kernels.Merged(
            np.empty(n, np.int32), np.empty((n, 2), np.int32), np.empty(n + 1, np.int64), np.empty(n * with_totals, int)
        )
        n_steps, n_terms = kernels.merge(kernels.Walks(steps, bounds, tallies), limits, spelled, out)
        data = np.empty(int(out.ends[n_terms]) + PADDING, np.uint8)
        kernels.spell(out.path[:n_steps], spelled, data)
        ends, totals = out.ends[: n_terms + 1], out.totals[:n_terms]
        return out._replace(ends=ends, totals=totals), data[: ends[-1]], nodes, np.split(out.numbers, bounds[1:-1])

    columns = [np.full(len(trie.parents), -1, np.int32) for trie in tries]
    texts, offsets, totals, n_terms, n_bytes = [], [np.zeros(1, np.int64)], [], 0, 0
    for part, data, nodes, numbers in in_threads(_parts(walks), lambda: merged, n_jobs):
        for of_trie, nodes_of, own in zip(columns, nodes, numbers, strict=True):
            of_trie[nodes_of] = np.where(own < 0, np.int32(-1), own + np.int32(n_terms))
        texts.append(data)
        offsets.append(part.ends[1:] + n_bytes)
        totals.append(part.totals)
        n_terms, n_bytes = n_terms + len(part.ends) - 1, n_bytes + len(data)
    joined = texts[0] if len(texts) == 1 else np.concatenate(texts)
    return SortedTerms(joined, np.concatenate(offsets), np.concatenate(totals) if with_totals else None, columns)


def _places(tries: Sequence[Trie], end: int) -> tuple[list[np.ndarray], kernels.Spelled]:
    """Return the place of every word of each trie among all words, sorted by bytes, and the words in this order."""
    spelling = tries[0].spelling
    separator = 0x20 if spelling.separator else -1
    if spelling.in_order:
        places = [np.arange(spelling.n_words, dtype=np.int32)] * len(tries)
        return places, kernels.Spelled(spelling.spelled, spelling.offsets, separator, end)
    numbers = [np.arange(spelling.n_words, dtype=np.int32)]
    if len(tries) > 1:
        table = TokenInterner()
        numbers = [table.numbers(trie.spelling.words, grow=True) for trie in tries]
        spelling = Spelling(table.spelled, table.offsets, table.n_words, spelling.separator)
    order = sorted_words(spelling.spelled, spelling.offsets[: spelling.n_words + 1])
    place_of = np.empty(spelling.n_words, np.int32)
    place_of[order] = np.arange(spelling.n_words, dtype=np.int32)
    by_place = spelling.take(order)
    return [place_of[words] for words in numbers], kernels.Spelled(by_place.spelled, by_place.offsets, separator, end)


def _flat_walks(tries: Sequence[Trie], end: int) -> tuple[list[np.ndarray], kernels.Spelled]:
    """Return walks whose steps are whole n-grams, in the order of their texts, and these texts."""
    whole = []
    for trie in tries:
        data, bounds = trie.spelling.texts(trie.parents, trie.lasts)
        whole.append(replace(trie, spelling=Spelling(data, bounds, len(trie.parents), separator=False)))
    places, spelled = _places(whole, end)
    walks = []
    for trie, numbers in zip(tries, places, strict=True):
        nodes = np.argsort(numbers).astype(np.int32)
        met = trie.tally[nodes, 0] >= 0
        walks.append(np.column_stack([np.where(met, nodes, -1 - nodes), numbers[nodes], np.ones_like(nodes)]))
    return walks, spelled


def _parts(walks: list[np.ndarray]) -> list[list[np.ndarray]]:
    """Return the walks in consecutive parts; in each those of all walks begin with the same words."""
    firsts = [np.flatnonzero(steps[:, 2] == 1) for steps in walks]
    longest = max(range(len(walks)), key=lambda w: len(walks[w]))
    steps, heads = walks[longest], firsts[longest]
    at = np.searchsorted(heads, np.arange(STEPS, len(steps), STEPS))
    borders = np.unique(steps[heads[at[at < len(heads)]], 1])
    cuts = []
    for steps_of, heads_of in zip(walks, firsts, strict=True):
        ends = np.append(heads_of, len(steps_of))
        cuts.append([0, *ends[np.searchsorted(steps_of[heads_of, 1], borders)].tolist(), len(steps_of)])
    return [
        [steps_of[cut[i] : cut[i + 1]] for steps_of, cut in zip(walks, cuts, strict=True)]
        for i in range(len(borders) + 1)
    ]
