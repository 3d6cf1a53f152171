"""A classifier whose classes are LDA models: how documents score the classes, and their topics under each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.kernels import lda as kernel
from sdem_dist.kernels.randomness import mixed

INFERENCE = {"map": kernel.MAP, "gibbs": kernel.GIBBS}
OCCURRENCES = {"shared": kernel.SHARED, "paper": kernel.LITERAL, "each": kernel.EACH}


@dataclass(frozen=True)
class Inference:
    """How the topics of a document under a class are inferred, and p(document | class) with them.

    Attributes
    ----------
    method : {"map", "gibbs"}
        Maximum a posteriori proportions by EM, each occurrence a topic of its own, or collapsed Gibbs sampling.
    occurrences : {"shared", "paper", "each"}
        What draws a topic when sampling: a distinct word with all its occurrences by their exact conditional, the same by
        equation 18 taken literally, or each occurrence.
    alpha : float
        Of the Dirichlet prior of a document's topic proportions.
    n_sweeps, burn_in : int
        Sweeps over a document in all, and, when sampling, those of which nothing is kept.
    n_particles : int
        Of the left-to-right estimate of ``ln p(d | class)``; 0 takes what inference gives: the maximum, or the plug-in
        estimate with the sampled proportions.
    """

    method: str = "gibbs"
    occurrences: str = "shared"
    alpha: float = 0.5
    n_sweeps: int = 10
    burn_in: int = 3
    n_particles: int = 0

    @property
    def how(self) -> tuple[int, int, float, int, int, int]:
        """What kernels take."""
        method, occurrences = INFERENCE[self.method], OCCURRENCES[self.occurrences]
        return method, occurrences, self.alpha, self.n_sweeps, self.burn_in, self.n_particles


class LdaParameters(NamedTuple):
    """Expected counts that define p(word | topic, class), of the words at hand, and the class prior."""

    words: np.ndarray
    """N, shape (n_words, n_topics * n_classes): column ``topic * n_classes + class``."""
    totals: np.ndarray
    """M, the sums of N over the whole vocabulary."""
    gamma: float
    """What is added to each entry of N."""
    n_features: int
    """Size of the vocabulary, ``|W|``."""
    log_prior: np.ndarray
    """ln p(y), shape (n_classes,)."""

    @property
    def n_topics(self) -> int:
        """Topics of a class."""
        return len(self.totals) // len(self.log_prior)


def check_occurrences(documents: Documents, inference: Inference) -> None:
    """Raise ValueError if each occurrence is to have a topic and counts are not whole."""
    if inference.occurrences == "each" and documents.data.dtype.kind == "f":
        odd = documents.data != np.rint(documents.data)
        if odd.any():
            raise ValueError(f"occurrences='each' needs whole counts, and an entry is {documents.data[odd][0]}")


def log_word_probabilities(parameters: LdaParameters) -> np.ndarray:
    """Return ln p(word | topic, class), shape (n_classes, n_topics, n_words)."""
    p = parameters
    table = np.log(p.words + p.gamma) - np.log(p.totals + p.gamma * p.n_features)
    return table.T.reshape(p.n_topics, len(p.log_prior), -1).swapaxes(0, 1)


def joint_scores(
    parameters: LdaParameters, documents: Documents, ids: np.ndarray, inference: Inference, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return ln p(y, d) of every class and document, and the documents' topic proportions.

    Parameters
    ----------
    parameters : LdaParameters
        Rows of `words` are what ``documents.indices`` point to.
    documents : Documents
    ids : ndarray of shape (n_words,), integers
        The words of the corpus that those rows belong to.
    inference : Inference
    seed : int
        Equal documents get equal scores wherever they stand.

    Returns
    -------
    scores : ndarray of shape (n_documents, n_classes), float64
    proportions : ndarray of shape (n_documents, n_topics, n_classes), float64

    Raises
    ------
    ValueError
        Each occurrence is to have a topic, and an entry is no whole number.
    """
    check_occurrences(documents, inference)
    p: Any = parameters
    scores = np.empty((documents.n_documents, len(p.log_prior)))
    thetas = np.empty((documents.n_documents, p.n_topics, len(p.log_prior)))
    key = np.uint64(mixed(np.uint64(seed)))
    d = documents
    kernel.score_documents(
        d.data, d.indices, d.indptr, ids, p.words, p.totals, p.gamma, p.n_features, key, inference.how, scores, thetas
    )
    return scores + p.log_prior, thetas
