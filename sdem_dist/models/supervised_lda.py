"""Topic models by mirror descent: what a document's words say of its topics, and the topics of the outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.kernels.documents import Counted
from sdem_dist.kernels.mirror_descent import Descent, infer_documents
from sdem_dist.records import record


class TopicParameters(NamedTuple):
    """Phi and U."""

    topics: np.ndarray
    """p(word | topic), shape (n_words, n_topics), float64; columns sum to 1 over the whole vocabulary."""
    output: np.ndarray
    """Shape (n_outputs, n_topics), float64."""


@record
@dataclass(frozen=True)
class MirrorDescent:
    """How topic proportions are found (Chen et al. 2015, Algorithm 1).

    Attributes
    ----------
    alpha : float
        Of the Dirichlet prior; the problem is convex from 1 on.
    n_layers : int
        L, steps of mirror descent.
    step : float
        T of a document times its words and pseudo-counts; with `search` half of what the search tries first.
    search : bool
        Find every step by line search.
    """

    alpha: float = 1.001
    n_layers: int = 10
    step: float = 1.0
    search: bool = False

    @property
    def how(self) -> Descent:
        """What kernels take."""
        return Descent(float(self.alpha), self.n_layers, float(self.step), self.search)

    def proportions(self, topics: np.ndarray, documents: Documents) -> tuple[np.ndarray, np.ndarray]:
        """Return the topic proportions of documents, and how well they explain the words.

        Parameters
        ----------
        topics : ndarray of shape (n_words, n_topics), float64
            Rows are what ``documents.indices`` point to.
        documents : Documents

        Returns
        -------
        theta : ndarray of shape (n_documents, n_topics), float64
        log_likelihood : ndarray of shape (n_documents,), float64
            ln p(words | theta), without the multinomial coefficient (equation 9).
        """
        theta = np.empty((documents.n_documents, topics.shape[1]))
        log_likelihood = np.empty(documents.n_documents)
        counted = Counted(documents.data, documents.indices, documents.indptr)
        infer_documents(counted, topics, self.how, theta, log_likelihood)
        return theta, log_likelihood


def outputs(output: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return U theta of each document, shape (n_documents, n_outputs), without BLAS, whose threads would choose the bits."""
    return np.einsum("ck,dk->dc", output, theta)
