"""What documents weigh in training, and nowhere else: class weights, and documents that are held out."""

import numpy as np

from sdem_dist.kernels.randomness import document_keys


def weighted(weights: np.ndarray, labels: np.ndarray, class_weight: tuple[float, ...] | None) -> np.ndarray:
    """Return the weights of documents in training; prepared documents keep their own, which evaluation takes.

    `weights`: shape (n_documents,).
    `labels`: shape (n_documents,), integers: documents of label -1 keep their weight.
    `class_weight`: what the documents of each class are multiplied by.
    """
    if class_weight is None:
        return weights
    return weights * np.where(labels < 0, 1.0, np.asarray(class_weight)[labels])


HELD_OUT = (1 << 32) - 1
"""Stands where an epoch would in the keys that decide what is held out."""


def trained_part(seed: int, start: int, stop: int, held_out: float) -> np.ndarray:
    """Return which documents at the stored positions ``start:stop`` are trained on, bool, where a share is held out."""
    keys = document_keys(seed, HELD_OUT, start, stop)
    return np.asarray(keys >= np.uint64(held_out * 2.0**64))
