"""Which documents are held out: a function of the seed and the document's position, and of nothing else."""

import numpy as np

from sdem_dist.corpus.shuffle import GOLDEN, mixed


def held_out_mask(first: int, n_documents: int, fraction: float, random_state: int) -> np.ndarray:
    """Return whether each of the documents `first`, `first + 1`, ... is held out: bool of shape (n_documents,).

    SplitMix64's mixing of (random_state, position) gives 64 bits; the document is held out if, as a fraction of 2**64,
    they are below `fraction`. So blocks of any size, in any process, choose the same documents.
    """
    positions = np.arange(first, first + n_documents, dtype=np.uint64)
    seed = mixed(np.array([random_state % 2**64], np.uint64))
    bits = mixed((positions + np.uint64(1)) * GOLDEN + seed)
    chosen: np.ndarray = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 < fraction
    return chosen
