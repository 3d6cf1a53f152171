"""Statistics of lanes in tables of words: how they add up, and how a round moves the expected counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.rows import average_rows, mark_words, number_words, scatter_add_rows
from sdem_dist.models.word_counts import SdemState


class SdemStatistics(NamedTuple):
    """Sums over lanes: weighted results of the lanes (merge "mean") or statistics at one theta (merge "sum", EM)."""

    words: np.ndarray
    """The words met by any lane: shape (n_words,), uint32, ascending."""
    rows: np.ndarray
    """Shape (n_words, n_columns): sums over the lanes that met the word."""
    met: np.ndarray
    """Shape (n_words,): the weights of those lanes; zeros for statistics at one theta."""
    class_counts: np.ndarray
    """Shape (n_counts,)."""
    gamma: float
    class_gamma: float
    weight: float
    """Documents, by weight."""


def at_one_theta(words: np.ndarray, rows: np.ndarray, class_counts: np.ndarray, weight: float) -> SdemStatistics:
    """Return statistics that no lane moved along with."""
    return SdemStatistics(words, rows, np.zeros(len(rows)), class_counts, 0.0, 0.0, weight)


def combined(parts: Sequence[SdemStatistics], n_features: int) -> SdemStatistics:
    """Add sets of lanes, word by word, from first to last."""
    if len(parts) == 1:
        return parts[0]
    number = np.zeros(n_features, np.uint32)
    for part in parts:
        mark_words(part.words, number)
    words = number_words(number)
    rows, met = np.zeros((len(words), parts[0].rows.shape[1])), np.zeros(len(words))
    for part in parts:
        scatter_add_rows(part.words, part.rows, part.met, number, rows, met)
    return SdemStatistics(
        words,
        rows,
        met,
        np.sum([p.class_counts for p in parts], axis=0),
        sum(p.gamma for p in parts),
        sum(p.class_gamma for p in parts),
        sum(p.weight for p in parts),
    )


def averaged(state: SdemState, lanes: SdemStatistics, absence: float) -> SdemState:
    """Return the mean of the lanes' mu; each word's row over the lanes that met it, see `PaperSchedule`.

    The set of expectation parameters is convex: a mean needs no check.
    """
    total = lanes.weight
    words = state.words.copy()
    average_rows(lanes.words, lanes.rows, lanes.met, total, absence, words)
    return SdemState(
        words=words,
        totals=words.sum(axis=0),
        class_counts=lanes.class_counts / total,
        gamma=lanes.gamma / total,
        class_gamma=lanes.class_gamma / total,
        t=state.t + total,
    )


def added(state: SdemState, s: SdemStatistics, rho: float = 1.0, least: float = -np.inf) -> SdemState:
    """Return the counts with rho times statistics added, kept from falling below `least` (the check)."""
    words = state.words.copy()
    words[s.words] = np.maximum(words[s.words] + rho * s.rows, least)
    counts = np.maximum(state.class_counts + rho * s.class_counts, least)
    return state._replace(words=words, totals=words.sum(axis=0), class_counts=counts, t=state.t + s.weight)
