"""Multinomial naive Bayes: what a document contributes, and how it scores the classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.kernels.csr import add_scores, add_statistics


class NaturalParameters(NamedTuple):
    """Natural parameters of the words at hand and of the classes."""

    log_words: np.ndarray
    """ln(N + gamma), shape (n_words, n_classes): not normalised, see `log_totals`."""
    log_totals: np.ndarray
    """ln(M + gamma |W|), shape (n_classes,)."""
    log_prior: np.ndarray
    """ln p(y), shape (n_classes,), up to a constant."""


def lengths(documents: Documents) -> np.ndarray:
    """Return the number of words of each document, shape (n_documents,), float64."""
    sums = np.zeros(documents.n_documents + 1)
    np.cumsum(np.bincount(_rows(documents), documents.data, documents.n_documents), out=sums[1:])
    return np.diff(sums)


def _rows(documents: Documents) -> np.ndarray:
    return np.repeat(np.arange(documents.n_documents), np.diff(documents.indptr))


def joint_scores(parameters: NaturalParameters, documents: Documents) -> np.ndarray:
    """Return ln p(y, d) of every class and document, without the multinomial coefficient.

    Masegosa 2014, Algorithm 3 with ``|W|`` as the size of the vocabulary.

    Parameters
    ----------
    parameters : NaturalParameters
        Rows of `log_words` are what ``documents.indices`` point to.
    documents : Documents

    Returns
    -------
    ndarray of shape (n_documents, n_classes), float64
    """
    lengths_ = lengths(documents)
    scores = np.zeros((documents.n_documents, len(parameters.log_totals)))
    add_scores(documents.data, documents.indices, documents.indptr, parameters.log_words, scores)
    scores += parameters.log_prior
    scores -= lengths_[:, None] * parameters.log_totals
    return scores


def weighted_statistics(class_weights: np.ndarray, documents: Documents, n_words: int) -> np.ndarray:
    """Return the documents' counts weighted by class, summed: shape (n_words, n_classes), float64.

    Parameters
    ----------
    class_weights : ndarray of shape (n_documents, n_classes), float64
    documents : Documents
    n_words : int
        Rows of the result; ``documents.indices`` are below it.
    """
    rows = np.zeros((n_words, class_weights.shape[1]))
    add_statistics(documents.data, documents.indices, documents.indptr, class_weights, rows)
    return rows
