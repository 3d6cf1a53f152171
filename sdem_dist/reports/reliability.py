"""How far probabilities can be trusted: accuracy beside confidence, in bins of confidence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sdem_dist.calibration import N_BINS


class Reliability(NamedTuple):
    """Documents in bins of the probability of their prediction, equally wide from 0 to 1.

    Attributes
    ----------
    confidence : ndarray of shape (n_bins,), float64
        Mean probability of the predictions; NaN in an empty bin.
    accuracy : ndarray of shape (n_bins,), float64
        Share of right predictions; NaN in an empty bin.
    documents : ndarray of shape (n_bins,), int64
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    documents: np.ndarray

    @property
    def ece(self) -> float:
        """Expected calibration error: the mean over documents of how far accuracy is from confidence (Guo et al. 2017)."""
        filled = self.documents > 0
        gaps = np.abs(self.accuracy - self.confidence)[filled] * self.documents[filled]
        return float(gaps.sum() / self.documents.sum()) if filled.any() else float("nan")


def reliability(confidence: np.ndarray, right: np.ndarray, n_bins: int = N_BINS) -> Reliability:
    """Return bins of documents by the probability of their prediction.

    Parameters
    ----------
    confidence : ndarray of shape (n_documents,), float64
        Probability of the predicted class.
    right : ndarray of shape (n_documents,), bool
    n_bins : int, default=15
    """
    places = np.minimum((confidence * n_bins).astype(np.intp), n_bins - 1)
    n = np.bincount(places, minlength=n_bins)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Reliability(
            np.bincount(places, confidence, n_bins) / n, np.bincount(places, right.astype(float), n_bins) / n, n
        )
