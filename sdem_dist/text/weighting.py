"""Counts become weights: sublinear tf-idf and rows of one length; and raw text becomes exactly what a corpus holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.text.vectorizer import VectorizerSettings, build_vectorizer

if TYPE_CHECKING:
    import scipy.sparse as sp


def smooth_idf(document_frequency: np.ndarray, n_documents: int) -> np.ndarray:
    """Return scikit-learn's smooth idf, ``log((1 + n) / (1 + df)) + 1``, float64 of the shape of `document_frequency`."""
    return np.log((n_documents + 1.0) / (document_frequency + 1.0)) + 1.0


def weigh(counts: sp.csr_matrix, idf: np.ndarray | None, norm: float | None) -> sp.csr_matrix:
    """Return the counts weighted and scaled.

    Parameters
    ----------
    counts : csr_matrix of shape (n_documents, n_features)
    idf : ndarray of shape (n_features,), or None
        If given, counts become ``(1 + log(count)) * idf``.
    norm : float, or None
        If given, rows are scaled to this Euclidean length; rows without words stay empty.

    Returns
    -------
    csr_matrix of float32; or `counts` itself if there is nothing to do.
    """
    if idf is None and norm is None:
        return counts
    weighted = counts.astype(np.float64)
    if idf is not None:
        from sklearn.feature_extraction.text import TfidfTransformer

        transformer = TfidfTransformer(norm=None, sublinear_tf=True)
        transformer.idf_ = np.asarray(idf, np.float64)
        weighted = transformer.transform(weighted, copy=False)
    if norm is not None:
        from sklearn.preprocessing import normalize

        weighted = normalize(weighted, norm="l2", copy=False)
        weighted.data *= norm
    return weighted.astype(np.float32)


def transform_texts(
    texts: Sequence[str],
    settings: VectorizerSettings,
    vocabulary: Sequence[str] | None = None,
    idf: np.ndarray | None = None,
) -> sp.csr_matrix:
    """Return the documents `texts` as a corpus of these settings would hold them.

    Parameters
    ----------
    texts : sequence of str
    settings : VectorizerSettings
        Of the corpus or model; its kind is not "matrix".
    vocabulary : sequence of str, or None
        The words of kind "count"; other words are passed over.
    idf : ndarray of shape (n_features,), or None
        Needed for weighting "tfidf".

    Returns
    -------
    csr_matrix of shape (n_documents, n_features), int64 counts or float32 weights, indices sorted.

    Raises
    ------
    ValueError
        If the settings need a vocabulary or an idf that is not given.
    """
    if settings.kind == "count" and vocabulary is None:
        raise ValueError("text of kind 'count' needs the vocabulary of the corpus")
    if settings.weighting == "tfidf" and idf is None:
        raise ValueError("weighting 'tfidf' needs the idf of the corpus")
    words = None if settings.kind == "hashing" or vocabulary is None else list(vocabulary)
    counts = count_words(texts, settings, words)
    return weigh(counts, idf if settings.weighting == "tfidf" else None, settings.norm)


def count_words(texts: Sequence[str], settings: VectorizerSettings, vocabulary: list[str] | None) -> sp.csr_matrix:
    """Return int64 counts of the documents under a fixed vocabulary, or under hashing if it is None."""
    import scipy.sparse as sp

    if isinstance(texts, str):
        raise ValueError("one text is given, where a list of texts belongs")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"text {row} (from 0) is {text!r:.60}, not a text: leave it out, or put '' in its place")
    counts = sp.csr_matrix(build_vectorizer(settings, vocabulary).transform(texts))
    counts.data = counts.data.astype(np.int64)
    counts.sort_indices()
    return counts
