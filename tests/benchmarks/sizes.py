"""The same corpora trained in this process and on Dask, from a thousand documents to ten million: equal bits, and times.

Run: ``SDEM_CORPORA=... python tests/benchmarks/sizes.py --folder FOLDER``.  Wall seconds of a whole training from disk
(evaluation left out), with as many threads here as workers there; a cluster that runs already, kernels compiled.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from large import corpus_of
from scale import forget, prepared

from sdem_dist import MultinomialNB
from sdem_dist.cluster import connected


def trained(corpus: Any, n_epochs: int, n_jobs: int, client: Any = None) -> tuple[float, np.ndarray]:
    """Return the wall seconds of a training and its parameters."""
    started = time.perf_counter()
    model = MultinomialNB(n_epochs=n_epochs, validation_fraction=0.0, n_jobs=n_jobs).fit(corpus, client=client)
    return time.perf_counter() - started, model.feature_log_prob_


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000,10000000")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    o = parser.parse_args()
    prepared()
    print(f"documents, seconds in process ({o.workers} threads), seconds on Dask ({o.workers} workers), same bits")
    with connected(n_workers=o.workers) as client:
        client.run(prepared)
        for size in map(int, o.sizes.split(",")):
            corpus = corpus_of(o.folder, size)
            corpus.read(0, 1)  # the manifest and the first shard, for both
            forget()
            client.run(forget)
            inside, ours = trained(corpus, o.epochs, o.workers)
            forget()
            cluster, theirs = trained(corpus, o.epochs, 1, client)
            print(f"{size:10,}  {inside:8.2f}  {cluster:8.2f}  {np.array_equal(ours, theirs)}", flush=True)


if __name__ == "__main__":
    main()
