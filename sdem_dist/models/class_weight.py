"""What scikit-learn calls class weights: they weigh documents in training, and nowhere else."""

from __future__ import annotations

import numpy as np


def weighted(weights: np.ndarray, labels: np.ndarray, class_weight: tuple[float, ...] | None) -> np.ndarray:
    """Return the weights of documents in training; prepared documents keep their own, which evaluation takes.

    Parameters
    ----------
    weights : ndarray of shape (n_documents,)
    labels : ndarray of shape (n_documents,), integers
        Documents of label -1 keep their weight.
    class_weight : tuple of float or None
        What the documents of each class are multiplied by.
    """
    if class_weight is None:
        return weights
    return weights * np.where(labels < 0, 1.0, np.asarray(class_weight)[labels])
