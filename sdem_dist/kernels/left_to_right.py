"""How probable documents are under LDA, topics and proportions summed out, over CSR arrays."""

import numpy as np

from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.randomness import advanced, content_key, uniform
from sdem_dist.kernels.topics import left_to_right


@jit
def estimate_documents(documents, topics, alpha, n_particles, seed, out):
    """Estimate ln p(document) for each document, see `sdem_dist.kernels.topics.left_to_right`.

    `documents`: Counted; a fraction of an occurrence counts as one of that weight.
    `topics`: float64 of shape (n_words, n_topics), p(word | topic).
    `alpha`: shape (n_topics,), of the Dirichlet prior. `n_particles`: int.
    `seed`: uint64, of the order of a document's words and of all draws for it, with what it holds: not its place or
    its neighbours.
    `out`: float64 of shape (n_documents,), overwritten.
    """
    data, indices, indptr = documents
    for d in range(out.size):
        start, stop = indptr[d], indptr[d + 1]
        beta = np.empty((stop - start, topics.shape[1]))
        length = 0
        for j in range(start, stop):
            beta[j - start] = topics[indices[j]]
            length += int(np.ceil(data[j]))
        key = seed ^ content_key(indices[start:stop], data[start:stop])
        positions, counts, at = np.empty(length, np.int64), np.empty(length), 0
        for j in range(start, stop):
            rest = float(data[j])
            while rest > 0.0:
                key = advanced(key)
                other = int(uniform(key) * (at + 1))  # a shuffle that goes along with the filling
                positions[at], counts[at] = positions[other], counts[other]
                positions[other], counts[other] = j - start, min(rest, 1.0)
                rest -= 1.0
                at += 1
        out[d] = left_to_right(beta, positions, counts, alpha, n_particles, advanced(key))
