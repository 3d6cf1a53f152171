"""Drawing classes, components and documents from a model."""

import numpy as np
import scipy.sparse as sp

from sdem_dist.inputs.validation import seed_of


def sample_counts(
    log_words: np.ndarray, drawn: np.ndarray, length: int | np.ndarray, rng: np.random.Generator
) -> sp.csr_matrix:
    """Draw a document from each of some components, of `length` words or each of its own length."""
    p = np.exp(log_words)
    p /= p.sum(axis=1, keepdims=True)
    of_each = np.broadcast_to(length, len(drawn))
    rows = [sp.csr_matrix(rng.multinomial(n, p[j])) for n, j in zip(of_each, drawn, strict=True)]
    return sp.vstack(rows, format="csr") if rows else sp.csr_matrix((0, p.shape[1]), dtype=np.int64)


def drawn_from(log_prior: np.ndarray, n: int, random_state: object) -> tuple[np.ndarray, np.random.Generator]:
    """Return classes or components drawn by their prior, and the generator for what follows.

    Raises ValueError: `n` is not a number of rows.
    """
    if not isinstance(n, int | np.integer) or n < 0:
        raise ValueError(f"n_samples must be an integer that is not negative, got {n!r}")
    rng = np.random.default_rng(seed_of(random_state))
    prior = np.exp(log_prior)
    return rng.choice(len(prior), n, p=prior / prior.sum()), rng
