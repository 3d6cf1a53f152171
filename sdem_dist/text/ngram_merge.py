"""The n-grams of one counter or several, sorted by their texts: trees are walked and merged in threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sdem_dist.documents import offsets_of, offsets_of_lengths
from sdem_dist.kernels import walks as kernels
from sdem_dist.kernels.code_points import PADDING
from sdem_dist.kernels.csr import gather
from sdem_dist.storage.threads import in_threads
from sdem_dist.text.counters import LearningCounter
from sdem_dist.text.texts import Texts
from sdem_dist.text.tokens import Spelling, TokenInterner

_ROUNDS = 8  # of eight bytes, after which words are compared one by one


def sorted_words(spelled: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the numbers of words sorted by their bytes, int64: eight bytes at a time, as long as words are alike."""
    starts, sizes = offsets[:-1], np.diff(offsets)
    groups, members = np.zeros(len(starts), np.int64), np.arange(len(starts))
    order = members.copy()
    places = members.copy()  # of the terms that are equal so far, ascending
    for depth in range(0, 8 * _ROUNDS, 8):
        keys = _eight_bytes(spelled, starts[members] + depth, sizes[members] - depth)
        ends = np.minimum(sizes[members] - depth, 9)  # a zero byte sorts after the end of a term
        by_key = np.lexsort((ends, keys, groups)) if depth else np.lexsort((ends, keys))
        members, keys, ends, groups = members[by_key], keys[by_key], ends[by_key], groups[by_key]
        order[places] = members
        starts_new = np.ones(len(members), bool)
        starts_new[1:] = (keys[1:] != keys[:-1]) | (groups[1:] != groups[:-1]) | (ends[1:] != ends[:-1])
        groups = np.cumsum(starts_new)
        alike = ~starts_new
        alike[:-1] |= ~starts_new[1:]
        alike &= ends == 9
        if not alike.any():
            return order
        members, groups, places = members[alike], groups[alike], places[alike]
    whole = spelled.tobytes()
    of_bytes = sorted(
        range(len(members)),
        key=lambda i: (groups[i], whole[starts[members[i]] : starts[members[i]] + sizes[members[i]]]),
    )
    order[places] = members[of_bytes]
    return order


def _eight_bytes(spelled: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the next eight bytes of words as numbers that sort as the bytes do; zeros follow the end."""
    keys = np.zeros(len(starts), np.uint64)
    for byte in range(8):
        inside = sizes > byte
        keys <<= np.uint64(8)
        keys[inside] |= spelled[starts[inside] + byte].astype(np.uint64)
    return keys


ALL = 0, 1 << 62  # limits that keep every n-gram that a document has
STEPS = 1 << 16  # steps of the longest walk that are merged together: what they need stays in the cache


@dataclass(frozen=True)
class SortedTerms:
    """N-grams sorted by their texts."""

    data: np.ndarray  # uint8
    offsets: np.ndarray  # int64: the text of n-gram ``i`` is ``data[offsets[i]:offsets[i + 1]]``
    totals: np.ndarray | None  # int64: how often each occurs, where that was asked for
    columns: list[np.ndarray]  # of int32: for each counter the n-gram of every node, -1 for those left out


@dataclass(frozen=True)
class Part:
    """Consecutive n-grams of those sorted by their texts."""

    data: np.ndarray  # uint8
    ends: np.ndarray  # int64: the text of n-gram ``i`` of the part is ``data[ends[i]:ends[i + 1]]``
    totals: np.ndarray  # int64
    nodes: list[np.ndarray]
    numbers: list[np.ndarray]
    """`nodes` and `numbers`: of int32: for each counter some of its nodes, and the n-gram of the part that each is, -1
    for those left out."""


def sorted_terms(
    counters: Sequence[LearningCounter],
    limits: tuple[int, int] = ALL,
    *,
    with_totals: bool = False,
    end: int = -1,
    n_jobs: int = 1,
) -> SortedTerms:
    """Return the n-grams that documents have and that are in as many documents as the limits say.

    Parameters are as for `sorted_parts`.
    """
    columns = [np.full(counter.tree.n_nodes, -1, np.int32) for counter in counters]
    data, offsets, totals, n, size = [], [np.zeros(1, np.int64)], [], 0, 0
    for part in sorted_parts(counters, limits, with_totals=with_totals, end=end, n_jobs=n_jobs):
        for its, nodes, numbers in zip(columns, part.nodes, part.numbers, strict=True):
            its[nodes] = np.where(numbers < 0, np.int32(-1), numbers + np.int32(n))
        data.append(part.data)
        offsets.append(part.ends[1:] + size)
        totals.append(part.totals)
        n, size = n + len(part.ends) - 1, size + len(part.data)
    joined = data[0] if len(data) == 1 else np.concatenate(data)
    return SortedTerms(joined, np.concatenate(offsets), np.concatenate(totals) if with_totals else None, columns)


def sorted_parts(
    counters: Sequence[LearningCounter],
    limits: tuple[int, int] = ALL,
    *,
    with_totals: bool = False,
    end: int = -1,
    n_jobs: int = 1,
) -> Iterator[Part]:
    """Yield the n-grams that documents have and that are in as many documents as the limits say, one part at least.

    `counters`: of the same settings; the first learns the words of the others. Without limits and totals their tallies
    play no part.
    `limits`: least and largest number of documents.
    `end`: a byte that stands behind every text, -1 for none.
    `n_jobs`: threads.
    """
    places, spelled = _places(counters, end)
    trees = [counter.tree for counter in counters]
    n_places = len(spelled.offsets) - 1

    def walked(number: int) -> np.ndarray:
        tree = trees[number]
        steps: np.ndarray = kernels.walk(
            tree.parents, tree.lasts, tree.tally, places[number], tree.n_nodes, n_places, tree.lengths[1]
        )
        return steps

    if _has_low_bytes(spelled) and trees[0].lengths[1] > 1:
        walks, spelled = _flat_walks(counters, end)
    else:
        walks = list(in_threads(range(len(trees)), lambda: walked, n_jobs))
    asked = limits != ALL or with_totals

    def merged(part: list[np.ndarray]) -> Part:
        steps, none = np.concatenate(part), np.zeros((0, 2), np.int64)
        bounds = offsets_of_lengths(part)
        nodes, tallies = [_nodes(some) for some in part], none
        if asked:
            tallies = np.concatenate([tree.tally[its, 1:] for tree, its in zip(trees, nodes, strict=True)] or [none])
        n = len(steps)
        found = kernels.Merged(
            np.empty(n, np.int32), np.empty((n, 2), np.int32), np.empty(n + 1, np.int64), np.empty(n * with_totals, int)
        )
        n_steps, n_kept = kernels.merge(kernels.Walks(steps, bounds, tallies), limits, spelled, found)
        ends = found.ends[: n_kept + 1]
        data = np.empty(int(ends[-1]) + PADDING, np.uint8)
        kernels.spell(found.path[:n_steps], spelled, data)
        numbers = np.split(found.numbers, bounds[1:-1])
        return Part(data[: ends[-1]], ends, found.totals[:n_kept], nodes, numbers)

    yield from in_threads(_parts(walks), lambda: merged, n_jobs)


def _nodes(steps: np.ndarray) -> np.ndarray:
    """Return the nodes of steps."""
    nodes = steps[:, 0]
    return np.where(nodes < 0, -1 - nodes, nodes)


def _places(counters: Sequence[LearningCounter], end: int) -> tuple[list[np.ndarray], kernels.Spelled]:
    """Return the place of every word of each counter among all words, sorted by bytes, and the words in this order."""
    first, *others = (counter.tokenizer for counter in counters)
    numbers = [first.numbers(other.spelling) for other in others]
    spelling = first.spelling
    n, separator = spelling.n_words, 0x20 if spelling.separator else -1
    if spelling.in_order:
        spelled = kernels.Spelled(spelling.spelled, spelling.offsets, separator, end)
        return [np.arange(n, dtype=np.int32), *numbers], spelled
    places, spelled = _sorted_words(spelling, separator, end)
    return [places, *(places[its] for its in numbers)], spelled


def _sorted_words(spelling: Spelling, separator: int, end: int) -> tuple[np.ndarray, kernels.Spelled]:
    n = spelling.n_words
    order = sorted_words(spelling.spelled, spelling.offsets[: n + 1])
    places = np.empty(n, np.int32)
    places[order] = np.arange(n, dtype=np.int32)
    offsets = offsets_of(np.diff(spelling.offsets[: n + 1])[order])
    data = np.zeros(int(offsets[-1]) + PADDING, np.uint8)
    gather(spelling.spelled, spelling.offsets, order, 1, offsets, data)
    return places, kernels.Spelled(data, offsets, separator, end)


def _has_low_bytes(spelled: kernels.Spelled) -> bool:
    """Say whether a word has a byte below the space; longer words that go on with it sort before n-grams, not after."""
    return spelled.separator >= 0 and bool((spelled.data[: spelled.offsets[-1]] < 0x20).any())


def _flat_walks(counters: Sequence[LearningCounter], end: int) -> tuple[list[np.ndarray], kernels.Spelled]:
    """Return walks whose steps are whole n-grams, in the order of their texts, and these texts."""
    table, numbers = TokenInterner(), []
    for counter in counters:
        spelling = counter.tokenizer.spelling
        nodes = np.arange(counter.tree.n_nodes)
        data, bounds = spelling.texts(counter.tree, nodes, spelling.sizes(counter.tree))
        numbers.append(table.numbers(Texts(data, bounds[:-1], bounds[1:]), grow=True))
    places, spelled = _sorted_words(Spelling(table.spelled, table.offsets, table.n_words, separator=False), -1, end)
    walks = []
    for counter, its in zip(counters, numbers, strict=True):
        nodes = np.argsort(places[its]).astype(np.int32)
        met = counter.tree.tally[nodes, 0] >= 0
        walks.append(np.column_stack([np.where(met, nodes, -1 - nodes), places[its][nodes], np.ones_like(nodes)]))
    return walks, spelled


def _parts(walks: list[np.ndarray]) -> list[list[np.ndarray]]:
    """Return the walks in consecutive parts; in each those of all walks begin with the same words."""
    firsts = [np.flatnonzero(steps[:, 2] == 1) for steps in walks]
    longest = max(range(len(walks)), key=lambda w: len(walks[w]))
    steps, heads = walks[longest], firsts[longest]
    at = np.searchsorted(heads, np.arange(STEPS, len(steps), STEPS))
    borders = np.unique(steps[heads[at[at < len(heads)]], 1])
    cuts = []
    for its_steps, its_heads in zip(walks, firsts, strict=True):
        ends = np.append(its_heads, len(its_steps))
        at = np.searchsorted(its_steps[its_heads, 1], borders)
        cuts.append([0, *ends[at].tolist(), len(its_steps)])
    return [
        [its_steps[cut[i] : cut[i + 1]] for its_steps, cut in zip(walks, cuts, strict=True)]
        for i in range(len(borders) + 1)
    ]
