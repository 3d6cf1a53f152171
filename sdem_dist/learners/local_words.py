"""What learners of words do with a lane before they learn: renumber its words, draw its order."""

from dataclasses import replace

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.kernels.permutation import permute
from sdem_dist.kernels.rows import OFTEN, count_words, mark_words, number_by_frequency, number_words, renumber
from sdem_dist.learners.protocol import Lane
from sdem_dist.models.word_counts import LocalDocuments

NO_TARGETS = np.zeros((1, 0))
WIDE = 32
"""Words of the vocabulary for one entry from which on entries are sorted, not counted in an array of all words."""


def localised(
    documents: Documents,
    labels: np.ndarray,
    weights: np.ndarray,
    targets: np.ndarray = NO_TARGETS,
    *,
    frequent_first: bool = False,
) -> LocalDocuments:
    """Return documents with the words that occur numbered from 0, in as few bytes as that takes.

    With `frequent_first` by falling frequency: rows often needed lie side by side in cache. Otherwise in their order.
    """
    found = documents.indices
    if frequent_first and WIDE * len(found) < documents.n_features:
        ascending, found, counts = np.unique(found, return_inverse=True, return_counts=True)
        order = np.argsort(-np.minimum(counts, OFTEN), kind="stable")
        words, number = ascending[order].astype(np.uint32), np.empty(len(order), np.uint32)
        number[order] = np.arange(len(order))
    else:
        number = np.zeros(documents.n_features, np.uint32)
        if frequent_first:
            count_words(found, number)
            words = number_by_frequency(number)
        else:
            mark_words(found, number)
            words = number_words(number)
    indices = np.empty(len(found), np.uint16 if len(words) <= 1 << 16 else np.uint32)
    renumber(found, number, indices)
    local = replace(documents, indices=indices, n_features=len(words), labels=None, weights=None, targets=None)
    return LocalDocuments(local, words, labels, weights, targets)


def entries(data: np.ndarray, log_counts: bool) -> np.ndarray:
    """Return counts, or ln(1 + x) of them, as float32: one dtype for kernels to be compiled for."""
    return np.asarray(np.log1p(data.astype(np.float64)) if log_counts else data, np.float32)


def visiting_order(seed: int, lane: Lane, n_documents: int) -> np.ndarray:
    """Return a permutation of a lane's documents, one for each seed and place in the run."""
    order = np.empty(n_documents, np.int64)
    permute(*lane_key(seed, lane), order)
    return order


def lane_key(seed: int, lane: Lane) -> np.ndarray:
    """Return a key of 128 bits as two uint64: one stream of random numbers per seed and place in the run."""
    return np.array([seed, (lane.epoch << 40) | (lane.round << 20) | lane.lane], np.uint64)
