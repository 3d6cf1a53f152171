"""Topic models by mirror descent: topics of a document, outputs from them, and the probability of its words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.kernels.csr import Counted, runs
from sdem_dist.kernels.left_to_right import estimate_documents
from sdem_dist.kernels.mirror_descent import (
    ACCELERATED,
    LINE_SEARCH,
    LINE_SEARCH_L1,
    MIRROR_DESCENT,
    Descent,
    infer_documents,
)
from sdem_dist.kernels.randomness import mixed
from sdem_dist.kernels.topics import MOVES, check_number
from sdem_dist.models.word_counts import lengths
from sdem_dist.records import record

METHODS = {
    "mirror-descent": MIRROR_DESCENT,
    "accelerated": ACCELERATED,
    "line-search": LINE_SEARCH,
    "line-search-l1": LINE_SEARCH_L1,
}
START = 0.1
"""Mean of the topics' pseudo-counts where a prior is learned."""
LEAST = 1e-4
"""Pseudo-counts that a topic keeps where a prior is learned."""


class TopicParameters(NamedTuple):
    """Phi, U and alpha."""

    topics: np.ndarray
    """p(word | topic), shape (n_words, n_topics), float64; columns sum to 1 over the whole vocabulary."""
    output: np.ndarray  # shape (n_outputs, n_topics), float64
    alpha: np.ndarray  # shape (n_topics,), float64


@record
@dataclass(frozen=True)
class MirrorDescent:
    """How topic proportions are found (Chen et al. 2015, Algorithm 1)."""

    alpha: float | tuple[float, ...] | Literal["learned"] = 1.001
    """Of the Dirichlet prior, the same for all topics or one for each; the problem is convex from 1 on. "learned": see
    `renewed`."""
    n_layers: int = 10  # L, steps of mirror descent
    step: float = 1.0
    """T of a document times its words and pseudo-counts; with a line search half of what it tries first."""
    method: str = "mirror-descent"
    """"mirror-descent" or "accelerated" or "line-search" or "line-search-l1": steps of that length, the same with
    momentum (Tseng 2008), or a line search whose bound has the divergence (Algorithm 1) or the 1-norm (equation 29)."""

    def __post_init__(self) -> None:
        alpha = np.array(START if self.alpha == "learned" else self.alpha)
        if not (np.all((alpha > 0.0) & (alpha < np.inf)) and 0.0 < self.step < np.inf):
            raise ValueError(f"alpha and the step must be positive and finite, and are {self.alpha} and {self.step}")
        if self.method not in METHODS:
            raise ValueError(f"topics are inferred by {self.method!r}, which is unknown")
        check_number("n_layers", self.n_layers, 1)

    @property
    def learned(self) -> bool:
        return self.alpha == "learned"

    def prior(self, n_topics: int) -> np.ndarray:
        """Return alpha before the first document, shape (n_topics,)."""
        alpha = 1.0 + START if self.alpha == "learned" else np.asarray(self.alpha, np.float64)
        return np.array(np.broadcast_to(alpha, (n_topics,)))

    def how(self, alpha: np.ndarray) -> Descent:
        return Descent(alpha, self.n_layers, float(self.step), METHODS[self.method])

    def proportions(self, parameters: TopicParameters, documents: Documents) -> tuple[np.ndarray, np.ndarray]:
        """Return the topic proportions of documents, and how well they explain the words.

        `parameters`: rows of its topics are what ``documents.indices`` point to.
        Returns `theta`, float64 of shape (n_documents, n_topics).
        Returns `log_likelihood`, float64 of shape (n_documents,): ln p(words | theta), without the multinomial
        coefficient (equation 9).
        """
        topics, how = parameters.topics, self.how(parameters.alpha)
        theta = np.empty((documents.n_documents, topics.shape[1]))
        log_likelihood = np.empty(documents.n_documents)
        costs = np.diff(documents.indptr) * (4.0 * self.n_layers * topics.shape[1])
        for a, b in runs(costs):
            counted = Counted(documents.data, documents.indices, documents.indptr[a : b + 1])
            infer_documents(counted, topics, how, theta[a:b], log_likelihood[a:b])
        return theta, log_likelihood


def renewed(alpha: np.ndarray, evidence: np.ndarray, share: float) -> np.ndarray:
    """Return alpha after a step towards the documents' estimate of it.

    The step learns which topics are common, as in Wallach, Mimno and McCallum 2009, by the fixed point of Minka 2000
    (equation 55). The sum of the pseudo-counts ``alpha - 1`` stays. It is not learned, since counts expected at the
    mode show too little of how documents differ: pseudo-counts would grow and topics would become even.

    `alpha`: shape (n_topics,).
    `evidence`: shape (n_topics + 1,): sums over documents, see ``sdem_dist.kernels.topic_steps``.
    `share`: of the step in logarithms, at most 1.
    """
    if not evidence[-1] > 0.0:
        return alpha
    pseudo = (alpha - 1.0) * np.maximum(evidence[:-1] / evidence[-1], LEAST) ** share
    return np.asarray(1.0 + np.maximum(pseudo * ((alpha - 1.0).sum() / pseudo.sum()), LEAST))


def outputs(output: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return U theta of each document, shape (n_documents, n_outputs), without BLAS, whose threads choose the bits."""
    return np.einsum("ck,dk->dc", output, theta)


def log_probability(
    topics: np.ndarray, documents: Documents, alpha: float | np.ndarray, n_particles: int = 10, seed: int = 0
) -> np.ndarray:
    """Return ln p(words of each document), topics and proportions summed out: the "left-to-right" estimator.

    Wallach, Murray, Salakhutdinov and Mimno 2009, Algorithm 3, with particles drawn again after each word, without
    which it is biased: of any LDA, however it was trained. Its time grows with a document's length.

    `topics`: shape (n_features, n_topics), float64: p(word | topic).
    `documents`: counts; of 2.5, the half is an occurrence of that weight.
    `alpha`: float or ndarray of shape (n_topics,): of the Dirichlet prior of a document's topics.
    `n_particles`: more make the estimate less noisy.
    Returns ndarray of shape (n_documents,), float64: of the sequence of words: without the multinomial coefficient.
    Raises ValueError: there are no particles, or more than 10,000.
    """
    check_number("n_particles", n_particles, 1)
    out = np.empty(documents.n_documents)
    key, topics = np.uint64(mixed(np.uint64(seed))), np.ascontiguousarray(topics, np.float64)
    prior = np.full(topics.shape[1], alpha, np.float64)
    n_words = lengths(documents)
    for a, b in runs(n_words * np.minimum(n_words, MOVES) * (10.0 * n_particles * topics.shape[1])):
        counted = Counted(documents.data, documents.indices, documents.indptr[a : b + 1])
        estimate_documents(counted, topics, prior, int(n_particles), key, out[a:b])
    return out
