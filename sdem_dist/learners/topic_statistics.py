"""States and statistics of topic models by mirror descent."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sdem_dist.models.word_counts import rows_added, words_of


class TopicState(NamedTuple):
    """Parameters after some batches, and their running means."""

    topics: np.ndarray  # phi, shape (n_features, n_topics), float64: columns on the simplex
    output: np.ndarray  # U, shape (n_outputs, n_topics)
    squares: np.ndarray
    """Sum over batches of the weighted mean square of the gradient of each column of Phi, shape (n_topics,)."""
    t: float  # batches, those of lanes side by side counted once
    seen: float  # documents, by weight
    mean_topics: np.ndarray  # running mean of Phi over batches; zeros before it begins
    mean_output: np.ndarray
    n_averaged: float  # batches averaged
    alpha: np.ndarray  # of the Dirichlet prior of a document's topics, shape (n_topics,)


class TopicStatistics(NamedTuple):
    """Sums over lanes, by weight: where the parameters ended (merge "mean"), or gradients (merge "sum")."""

    words: np.ndarray  # the words met by any lane: shape (n_words,), uint32, ascending
    rows: np.ndarray
    """Shape (n_words, n_topics). "mean": Phi less what the lane makes of words it did not meet. "sum": gradients."""
    mean_rows: np.ndarray  # the same for the sum of Phi over batches; shape (0, 0) where it is not averaged
    kept: np.ndarray  # factor of the words that a lane did not meet: shape (n_topics,)
    mean_kept: np.ndarray
    output: np.ndarray
    mean_output: np.ndarray
    squares: np.ndarray
    t: float
    n_averaged: float
    weight: float  # documents
    labelled: float  # those that have a label, or all where there are no labels
    evidence: np.ndarray  # what documents say of alpha, see `sdem_dist.kernels.topic_prior`; empty unless it is learned


def combined(parts: Sequence[TopicStatistics], n_features: int) -> TopicStatistics:
    """Add sets of lanes, word by word, from first to last."""
    if len(parts) == 1:
        return parts[0]
    words, number = words_of([part.words for part in parts], n_features)
    places = [number[part.words] for part in parts]

    def added(tables: Sequence[np.ndarray]) -> np.ndarray:  # empty where there is nothing to add up
        return rows_added(tables, places, len(words)) if tables[0].shape[1] else np.empty((0, 0))

    rest = (sum(column) for column in list(zip(*parts, strict=True))[3:])
    return TopicStatistics(words, added([p.rows for p in parts]), added([p.mean_rows for p in parts]), *rest)
