"""What learners of words do with a lane before they learn: renumber its words, draw its order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.kernels.rows import mark_words, number_words
from sdem_dist.learners.protocol import Lane
from sdem_dist.models.word_counts import LocalDocuments

NO_TARGETS = np.zeros((1, 0))


def localised(
    documents: Documents, labels: np.ndarray, weights: np.ndarray, targets: np.ndarray = NO_TARGETS
) -> LocalDocuments:
    """Return documents with the words that occur numbered from 0, in their order."""
    number = np.zeros(documents.n_features, np.uint32)
    mark_words(documents.indices, number)
    words = number_words(number)
    indices = number[documents.indices]
    local = replace(documents, indices=indices, n_features=len(words), labels=None, weights=None, targets=None)
    return LocalDocuments(local, words, labels, weights, targets)


def by_frequency(local: LocalDocuments) -> LocalDocuments:
    """Return documents with words numbered by falling frequency: rows that are often needed lie side by side in cache."""
    indices = local.documents.indices
    rare = np.uint16(0xFFFF) - np.minimum(np.bincount(indices, minlength=len(local.words)), 0xFFFF).astype(np.uint16)
    order = np.argsort(rare, kind="stable")  # of 16 bits: in linear time
    number = np.empty(len(order), indices.dtype)
    number[order] = np.arange(len(order))
    return local._replace(documents=replace(local.documents, indices=number[indices]), words=local.words[order])


def entries(data: np.ndarray, log_counts: bool) -> np.ndarray:
    """Return counts, or ln(1 + x) of them, as float32: one dtype for kernels to be compiled for."""
    return np.asarray(np.log1p(data.astype(np.float64)) if log_counts else data, np.float32)


def visiting_order(seed: int, lane: Lane, n_documents: int) -> np.ndarray:
    """Return a permutation of a lane's documents, one for each seed and place in the run."""
    return np.random.Generator(np.random.Philox(key=lane_key(seed, lane))).permutation(n_documents)


def lane_key(seed: int, lane: Lane) -> np.ndarray:
    """Return a 128-bit key of the counter-based generator: one stream per seed and place in the run."""
    return np.array([seed, (lane.epoch << 40) | (lane.round << 20) | lane.lane], dtype=np.uint64)
