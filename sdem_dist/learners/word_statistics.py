"""Statistics of lanes in tables of words: how they add up, and how a round moves the expected counts."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.merge import add_changes, damped_changes, shifts
from sdem_dist.kernels.rows import column_sums, mark_words, number_words
from sdem_dist.models.word_counts import SdemState

DAMPING = 30.0
"""Damping of words: the larger, the sooner a word's change is averaged over lanes rather than added up."""
MEAN_DAMPING = 100.0
"""The same for the score of the mean document, which all lanes correct alike."""
LEAST = 1e-6
"""Stands for a count of 0 where logarithms are compared."""


class SdemStatistics(NamedTuple):
    """Sums over lanes: how far the lanes moved, or statistics at one theta."""

    words: np.ndarray
    """Words met by any lane: shape (n_words,), uint32; ascending, but of a lane that steps through its documents."""
    rows: np.ndarray  # shape (n_words, n_columns): sums over the lanes that met the word
    met: np.ndarray  # shape (n_words,): how many lanes changed the word
    entries: np.ndarray  # shape (n_words,): sums of the documents' entries
    class_counts: np.ndarray  # shape (n_counts,)
    gamma: float  # gains of the running prior corrections, as `class_gamma`
    class_gamma: float
    weight: float  # documents, by weight
    n_lanes: float


def at_one_theta(words: np.ndarray, rows: np.ndarray, class_counts: np.ndarray, weight: float) -> SdemStatistics:
    """Return statistics that are only to be added."""
    none = np.zeros(len(rows))
    return SdemStatistics(words, rows, none, none, class_counts, 0.0, 0.0, weight, 0.0)


def combined(parts: Sequence[SdemStatistics], n_features: int) -> SdemStatistics:
    """Add sets of lanes, word by word, from first to last."""
    if len(parts) == 1:
        return parts[0]
    words, number = words_of([part.words for part in parts], n_features)
    places = [number[part.words] for part in parts]
    rows, met, entries = (rows_added(c, places, len(words)) for c in zip(*(part[1:4] for part in parts), strict=True))
    gamma, class_gamma, weight, n_lanes = (float(sum(c)) for c in zip(*(part[5:] for part in parts), strict=True))
    class_counts = np.sum([part.class_counts for part in parts], axis=0)
    return SdemStatistics(words, rows, met, entries, class_counts, gamma, class_gamma, weight, n_lanes)


def words_of(parts: Sequence[np.ndarray], n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the words that any part has, ascending, and the place of each word of the vocabulary among them."""
    number = np.zeros(n_features, np.uint32)
    for words in parts:
        mark_words(words, number)
    return number_words(number), number


def rows_added(parts: Sequence[np.ndarray], places: Sequence[np.ndarray], n_rows: int) -> np.ndarray:
    """Return the sum of the parts' rows, float64, each of which belongs to a place of its own."""
    total = np.zeros((n_rows, *parts[0].shape[1:]))
    for rows, own in zip(parts, places, strict=True):
        total[own] += rows
    return total


def merged(state: SdemState, lanes: SdemStatistics, floor: float, class_floor: float) -> SdemState:
    """Return the counts moved by what lanes learned side by side.

    Each lane corrects what all have in common, such as the classes' overall scores: a sum of their changes would do
    that once for each lane. Rare words are learned by one lane alone: a mean would lose them. So each word's change is
    between sum and mean, by how far it moves (`damped_changes`). Then multiples of the mean document are subtracted
    until its scores move as far as in the mean lane.

    `floor`, `class_floor`: least counts (the check).
    """
    if not lanes.n_lanes:
        return state
    n, words = max(lanes.n_lanes, 1.0), state.words.copy()
    of_mean, changes, entries = np.zeros(lanes.rows.shape[1]), lanes.rows, np.zeros(len(lanes.words))
    classes = lanes.class_counts
    if n > 1:
        entries, least = lanes.entries / (lanes.weight or 1.0), max(floor, LEAST)
        before = np.maximum(state.words[lanes.words], least)
        in_mean, _ = shifts(before, lanes.rows, of_mean, 1.0 / n, entries, state.totals, least)
        in_sum, _ = shifts(before, lanes.rows, of_mean, 1.0, entries, state.totals, least)
        wanted = in_mean + (in_sum - in_mean) / (1.0 + MEAN_DAMPING * np.abs(in_sum))
        changes = lanes.rows.copy()
        damped_changes(changes, lanes.met, before, DAMPING)
        for _ in range(2):
            moved, slopes = shifts(before, changes, of_mean, 1.0, entries, state.totals, least)
            of_mean += np.where(slopes > 0, (wanted - moved) / np.where(slopes > 0, slopes, 1.0), 0.0)
        share = np.abs(lanes.class_counts) / np.maximum(state.class_counts, 1e-300)
        classes = lanes.class_counts * (1.0 / n + (1.0 - 1.0 / n) / (1.0 + DAMPING * share))
    add_changes(changes, entries, of_mean, floor, lanes.words, words)
    return SdemState(
        words=words,
        totals=column_sums(words),
        class_counts=np.maximum(state.class_counts + classes, class_floor),
        gamma=state.gamma + lanes.gamma / n,
        class_gamma=state.class_gamma + lanes.class_gamma / n,
        t=state.t + lanes.weight,
    )


def added(state: SdemState, s: SdemStatistics) -> SdemState:
    """Return the counts with statistics added."""
    words = state.words.copy()
    words[s.words] += s.rows
    return state._replace(
        words=words,
        totals=column_sums(words),
        class_counts=state.class_counts + s.class_counts,
        t=state.t + s.weight,
    )
