"""Lanes of sequential steps in tables of words, one after the other in one compiled call, and their sum."""

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.documents import Visited
from sdem_dist.kernels.jit import jit, jit_inline
from sdem_dist.kernels.multinomial import run_documents, write_changes, write_rows
from sdem_dist.kernels.permutation import permute
from sdem_dist.kernels.rows import copy_row
from sdem_dist.kernels.schedule import Schedule, Table
from sdem_dist.kernels.vectors import WIDTH

DEPTH = 64
"""Sums kept at once while a word's changes are added up by pairs: enough for any number of lanes."""


class Lanes(NamedTuple):
    """Documents of lanes side by side, and what each lane needs besides."""

    data: np.ndarray
    indices: np.ndarray
    """Words by their place among those of their lane."""
    indptr: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    starts: np.ndarray
    """Where each lane's documents begin, and after the last: shape (n_lanes + 1,), int64."""
    words: np.ndarray
    """The rows of the table that each lane's words are, lane by lane, unsigned integers."""
    first_words: np.ndarray
    """Where each lane's words begin, and after the last: shape (n_lanes + 1,), int64."""
    ahead: np.ndarray
    """`ahead` of each lane's `Schedule`, float64."""
    keys: np.ndarray
    """The key of each lane's order: shape (n_lanes, 2), uint64."""


class Room(NamedTuple):
    """What the current lane changes. It is kept between calls, since a call may end within a lane."""

    rows: np.ndarray
    """Flat, float32: the rows of the lane with most words, and as many as `run_documents` reads behind them."""
    totals: np.ndarray
    class_counts: np.ndarray
    log_prior: np.ndarray
    order: np.ndarray
    """Of the documents of the longest lane, int64."""
    progress: np.ndarray
    """Documents of the corpus seen, and what is `due` in `run_documents`: shape (2,), float64."""


class Found(NamedTuple):
    """What lanes learned, lane by lane; overwritten."""

    changes: np.ndarray
    """Of the rows of `Lanes.words`: shape (n_words, n_columns), float32."""
    class_counts: np.ndarray
    """Changes of the class counts: shape (n_lanes, n_columns), float64."""
    met: np.ndarray
    """1 where the lane changed the row: shape (n_words,), float64; or (0,), if this is not asked for."""
    entries: np.ndarray
    """Sum of the word's entries over documents, by their weights: of the same shape."""


def room_of(starts: np.ndarray, first_words: np.ndarray, n_columns: int) -> Room:
    """Return room for the longest of some lanes."""
    # NumPy asks for large pages, compiled code does not. Behind the last row is room to read eight columns at once.
    rows = np.empty(2 * n_columns * np.diff(first_words).max() + WIDTH, np.float32)
    columns = (np.empty(n_columns) for _ in range(3))
    return Room(rows, *columns, np.empty(np.diff(starts).max(), np.int64), np.empty(2))


def found_of(n_words: int, n_lanes: int, n_columns: int, counted: bool) -> Found:
    """Return arrays for what lanes learn, with `met` and `entries` if `counted`."""
    changes = np.empty((n_words, n_columns), np.float32)
    return Found(changes, np.zeros((n_lanes, n_columns)), *np.empty((2, n_words if counted else 0)))


@jit
def run_lanes(lanes, table, t, schedule, objective, room, found, first, last):
    """Run the documents at places ``first:last``, counted over lanes in their orders, each lane from the same table.

    `lanes`: Lanes. `table`: Table, what every lane begins with; its rows are named by ``lanes.words``.
    `t`: documents of the corpus seen when a lane begins. `schedule`: Schedule, `ahead` is each lane's own.
    `objective`: Objective. `room`: Room. `found`: Found. `first`, `last`: calls go on where the one before ended.
    """
    n_columns = table.totals.size
    for lane in range(lanes.ahead.size):
        start, stop = lanes.starts[lane], lanes.starts[lane + 1]
        a, b = max(first, start), min(last, stop)
        if a >= b:
            continue
        words = lanes.words[lanes.first_words[lane] : lanes.first_words[lane + 1]]
        rows = room.rows[: words.size * 2 * n_columns].reshape((words.size, 2 * n_columns))
        if a == start:
            write_rows(table.words, words, rows)
            copy_row(table.totals, room.totals)
            copy_row(table.class_counts, room.class_counts)
            copy_row(table.log_prior, room.log_prior)
            order = room.order[: stop - start]
            permute(lanes.keys[lane, 0], lanes.keys[lane, 1], order)
            for i in range(order.size):
                order[i] += start
            room.progress[0], room.progress[1] = t, 0.5
        own = Table(rows, room.totals, room.class_counts, room.log_prior, table.learn_prior, table.vocabulary_size)
        room.progress[0], room.progress[1] = run_documents(
            Visited(
                lanes.data, lanes.indices, lanes.indptr, lanes.labels, lanes.weights, room.order[a - start : b - start]
            ),
            own,
            _of_lane(schedule, lanes.ahead[lane]),
            room.progress[0],
            room.progress[1],
            objective,
        )
        if b == stop:
            _end_lane(lanes, lane, rows, words, table, room, found)


@jit_inline
def _of_lane(schedule, ahead):
    """Return the schedule with a lane's own `ahead`."""
    return Schedule(
        schedule.start,
        schedule.class_start,
        schedule.decay,
        schedule.word_gain,
        schedule.class_gain,
        ahead,
        schedule.floor,
        schedule.class_floor,
        schedule.mean_square,
    )


@jit
def _end_lane(lanes, lane, rows, words, table, room, found):
    """Write what a lane learned."""
    first, last = lanes.first_words[lane], lanes.first_words[lane + 1]
    changes = found.changes[first:last]
    write_changes(rows, table.words, words, changes)
    for k in range(room.class_counts.size):
        found.class_counts[lane, k] = room.class_counts[k] - table.class_counts[k]
    if not found.met.size:
        return
    met, entries = found.met[first:last], found.entries[first:last]
    for i in range(words.size):
        met[i], entries[i] = 0.0, 0.0
        for k in range(changes.shape[1]):
            if changes[i, k] != 0.0:
                met[i] = 1.0
    for d in range(lanes.starts[lane], lanes.starts[lane + 1]):
        for j in range(lanes.indptr[d], lanes.indptr[d + 1]):
            entries[lanes.indices[j]] += lanes.data[j] * lanes.weights[d]


@jit
def places_of(words, number):
    """Return the words that occur, ascending, and where each is: ``starts[i]:starts[i + 1]`` of `places`, in order.

    `words`: shape (n,), unsigned integers. `number`: int32 of shape (n_features,), zeros; overwritten.
    """
    n_words = 0
    for i in range(words.size):
        n_words += number[words[i]] == 0
        number[words[i]] += 1
    union, starts, places = (
        np.empty(n_words, np.uint32),
        np.empty(n_words + 1, np.int64),
        np.empty(words.size, np.int64),
    )
    n_words, n = 0, 0
    for w in range(number.size):
        if number[w]:
            union[n_words], starts[n_words] = w, n
            n_words += 1
            n, number[w] = n + number[w], n
    starts[n_words] = n
    for i in range(words.size):
        places[number[words[i]]] = i
        number[words[i]] += 1
    return union, starts, places


@jit
def add_lanes(parts, starts, places, first_words, leaves, out):
    """Sum the rows of each word: of `leaves` neighbouring lanes in order, then of pairs of neighbours, level by level.

    The order is that of a tree whose leaves are all lanes. Lanes without the word add nothing.

    `parts`: tuple of ndarray of shape (n, n_columns), (n,) and (n,), rows of each lane's words, lane by lane, and two
    numbers of each.
    `starts`, `places`: what `places_of` returns.
    `first_words`: int64 of shape (n_lanes + 1,), where each lane's words begin. `leaves`: int.
    `out`: tuple of ndarray of shape (n_words, n_columns), (n_words,) and (n_words,), float64, overwritten with the
    sums.
    """
    (rows, met, entries), (out_rows, out_met, out_entries) = parts, out
    n_columns = rows.shape[1]
    lane_of = np.empty(rows.shape[0], np.int32)
    for lane in range(first_words.size - 1):
        lane_of[first_words[lane] : first_words[lane + 1]] = lane // leaves
    sums, levels = np.zeros((DEPTH, n_columns + 2)), np.zeros(DEPTH, np.int64)
    for word in range(out_rows.shape[0]):
        depth, group = 0, np.int64(-1)
        if starts[word + 1] - starts[word] == 1:  # the usual case of many short lanes
            i = places[starts[word]]
            for k in range(n_columns):
                out_rows[word, k] = 0.0 + rows[i, k]
            out_met[word], out_entries[word] = met[i], entries[i]
            continue
        for p in range(starts[word], starts[word + 1]):
            i = places[p]
            if lane_of[i] != group:
                if group >= 0:
                    apart, level = group ^ lane_of[i], 0
                    while apart:
                        apart, level = apart >> 1, level + 1
                    while depth > 1 and levels[depth - 1] < level:
                        depth -= 1
                        _add(sums[depth], sums[depth - 1])
                    levels[depth] = level  # the level at which this sum joins the one before
                group = np.int64(lane_of[i])
                for k in range(n_columns + 2):
                    sums[depth, k] = 0.0
                depth += 1
            own = sums[depth - 1]
            for k in range(n_columns):
                own[k] += rows[i, k]
            own[n_columns] += met[i]
            own[n_columns + 1] += entries[i]
        while depth > 1:
            depth -= 1
            _add(sums[depth], sums[depth - 1])
        copy_row(sums[0][:n_columns], out_rows[word])
        out_met[word], out_entries[word] = sums[0, n_columns], sums[0, n_columns + 1]


@jit_inline
def _add(part, total):
    for k in range(total.size):
        total[k] += part[k]
