"""Compiling the kernels before anything is timed, and before worker processes start to do it each for itself."""

from __future__ import annotations

import time

import numpy as np


def warm_up() -> float:
    """Compile every kernel, or load it from numba's cache on disk.

    Returns
    -------
    float
        Seconds it took.
    """
    from sdem_dist.estimators.naive_bayes import MultinomialNB

    started = time.perf_counter()
    X, y = np.eye(8, dtype=np.uint8), np.arange(8) % 2
    for merge in ("mean", "sum"):
        MultinomialNB(merge=merge, n_lanes=2, rounds_per_epoch=2 if merge == "mean" else None, n_epochs=1).fit(X, y)
    return time.perf_counter() - started
