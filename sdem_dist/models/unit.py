"""How far one document's step of size 1 moves its own score, at the prior: the unit of steps."""

from typing import NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.kernels.csr import row_sums, weighed_squares


class Unit(NamedTuple):
    """Means over documents."""

    margin: float  # ``s' (d theta / d mu) s`` of their statistics s, at the prior
    mean_square: float  # squared Euclidean length


def unit_of(documents: Documents, prior: np.ndarray) -> Unit:
    """Return the unit of steps over documents by their weights, those without words left out.

    `prior`: shape (n_features,), float64: pseudo-counts alpha_w, where mu starts: ``d theta_w = d mu_w / alpha_w - d M
    / M``.
    """
    lengths = row_sums(documents.data, documents.indptr)
    squares, shares = weighed_squares(documents.data, documents.indices, documents.indptr, 1.0 / prior)
    weights = np.where(squares > 0, 1.0 if documents.weights is None else documents.weights, 0.0)
    if not weights.any():
        return Unit(1.0, 1.0)
    margin = float(np.average(shares - lengths**2 / prior.sum(), weights=weights))
    mean_square = float(np.average(squares, weights=weights))
    # A document of one word, or with equal shares of all words, has a score that no step moves.
    return Unit(max(margin, 1e-6 / float(prior.max()) * mean_square), mean_square)
