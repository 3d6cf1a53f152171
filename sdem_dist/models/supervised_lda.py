"""Topic models by mirror descent: the topics of a document from its words, and the outputs from its topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.kernels.documents import Counted, runs
from sdem_dist.kernels.mirror_descent import Descent, infer_documents
from sdem_dist.kernels.topics import check_number
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

    def __post_init__(self) -> None:
        if not (0.0 < self.alpha < np.inf and 0.0 < self.step < np.inf):
            raise ValueError(f"alpha and the step must be positive and finite, and are {self.alpha} and {self.step}")
        check_number("n_layers", self.n_layers, 1)

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
        costs = np.diff(documents.indptr) * (4.0 * self.n_layers * topics.shape[1])
        for a, b in runs(costs):
            counted = Counted(documents.data, documents.indices, documents.indptr[a : b + 1])
            infer_documents(counted, topics, self.how, theta[a:b], log_likelihood[a:b])
        return theta, log_likelihood


def outputs(output: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return U theta of each document, shape (n_documents, n_outputs), without BLAS, whose threads would choose the bits."""
    return np.einsum("ck,dk->dc", output, theta)
