"""k-means in memory: k-means++ and Lloyd's iterations, for starts from a sample (Arthur and Vassilvitskii 2007)."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

TRIES = 10
"""Starts of k-means on a sample; the best is kept."""
ITERATIONS = 30
"""Iterations of each, at most."""


class Clustered(NamedTuple):
    """What k-means found in some rows."""

    centres: np.ndarray  # shape (n_clusters, n_columns), float64
    labels: np.ndarray  # shape (n_rows,), int64: the nearest centre of each row
    inertia: float  # sum of weighted squared distances to it


def squared_distances(X: sp.csr_matrix, norms: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return squared distances of rows, of which `norms` are the squared lengths, from centres, (n_rows, n_centres)."""
    found = X @ np.ascontiguousarray(centres.T)  # SciPy's product, not BLAS's: its bits do not depend on threads
    found *= -2.0
    found += norms[:, None]
    found += (centres**2).sum(axis=1)
    return np.asarray(np.maximum(found, 0.0, out=found))


def squared_lengths(X: sp.csr_matrix) -> np.ndarray:
    """Return the squared length of each row."""
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.bincount(rows, np.square(X.data, dtype=np.float64), X.shape[0])


def sums_by_label(X: sp.csr_matrix, labels: np.ndarray, weights: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return weighted sums of the rows of each label, shape (n_clusters, n_columns)."""
    members = sp.csr_matrix((weights, (labels, np.arange(len(labels)))), shape=(n_clusters, len(labels)))
    return np.asarray((members @ X).toarray())


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Return rows of length 1; rows of zeros stay."""
    lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return rows / np.where(lengths > 0, lengths, 1.0)


def means(sums: np.ndarray, counts: np.ndarray, before: np.ndarray, spherical: bool) -> np.ndarray:
    """Return the centres of clusters, of length 1 if `spherical`; an empty cluster keeps the one that it had."""
    found = sums / np.where(counts > 0, counts, 1.0)[:, None]
    found = unit_rows(found) if spherical else found
    return np.where((counts > 0)[:, None], found, before)


def k_means(
    X: sp.csr_matrix,
    weights: np.ndarray,
    n_clusters: int,
    seed: int,
    *,
    tries: int = TRIES,
    spherical: bool = False,
) -> Clustered:
    """Return the best of several runs of k-means over rows in memory.

    `X`: CSR matrix of shape (n_rows, n_columns), float64: rows of length 1 if `spherical`.
    `weights`: shape (n_rows,).
    `n_clusters`: at most as many as there are rows of positive weight.
    `spherical`: centres have length 1.
    """
    norms = squared_lengths(X)
    best: Clustered | None = None
    for number in range(tries):
        rng = np.random.default_rng([seed, number])
        found = _lloyd(X, norms, weights, _spread_out(X, norms, weights, n_clusters, rng), spherical)
        if best is None or found.inertia < best.inertia:
            best = found
    assert best is not None
    return best


def _spread_out(
    X: sp.csr_matrix, norms: np.ndarray, weights: np.ndarray, n_clusters: int, rng: np.random.Generator
) -> np.ndarray:
    """Return rows as centres by greedy k-means++: each the best of a few drawn in proportion to squared distances."""
    chosen, n_tries = [_drawn(weights, rng, 1)[0]], 2 + int(np.log(n_clusters))
    nearest = squared_distances(X, norms, X[chosen].toarray())[:, 0]
    while len(chosen) < n_clusters:
        tried = _drawn(weights * nearest, rng, n_tries)
        distances = np.minimum(squared_distances(X, norms, X[tried].toarray()), nearest[:, None])
        which = int((weights[:, None] * distances).sum(axis=0).argmin())
        chosen.append(tried[which])
        nearest = distances[:, which]
    return np.asarray(X[chosen].toarray())


def _drawn(masses: np.ndarray, rng: np.random.Generator, n: int) -> np.ndarray:
    """Return rows drawn in proportion to masses; where all are 0, any."""
    total = np.cumsum(masses if masses.any() else np.ones(len(masses)))
    return np.minimum(np.searchsorted(total, rng.random(n) * total[-1], side="right"), len(masses) - 1)


def _lloyd(X: sp.csr_matrix, norms: np.ndarray, weights: np.ndarray, centres: np.ndarray, spherical: bool) -> Clustered:
    labels = np.full(X.shape[0], -1)
    for _ in range(ITERATIONS):
        distances = squared_distances(X, norms, centres)
        before, labels = labels, distances.argmin(axis=1)
        if (labels == before).all():
            break
        sums = sums_by_label(X, labels, weights, len(centres))
        centres = means(sums, np.bincount(labels, weights, len(centres)), centres, spherical)
    distances = squared_distances(X, norms, centres)
    labels = distances.argmin(axis=1)
    return Clustered(centres, labels, float((weights * distances[np.arange(len(labels)), labels]).sum()))
