"""The probability of held-out documents under a topic model."""

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.kernels.documents import Counted, runs
from sdem_dist.kernels.left_to_right import estimate_documents
from sdem_dist.kernels.randomness import mixed
from sdem_dist.kernels.topics import MOVES, check_number
from sdem_dist.models.word_counts import lengths


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
