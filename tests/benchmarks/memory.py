"""Peak memory of workers under an enforced limit, on corpora of 1, 4 and 16 times the size.

Run: ``SDEM_CORPORA=... python tests/benchmarks/memory.py --folder FOLDER``.  Workers above the limit are killed by
Dask's nanny.  The corpora (see large.py) are made once in FOLDER; the size of a corpus is that of its decoded arrays.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from large import corpus_of
from scale import peak_memory

from sdem_dist import MultinomialNB
from sdem_dist.cluster import configuration


def decoded_bytes(corpus: object) -> int:
    """Return the bytes of a corpus's arrays in memory."""
    header = corpus.header  # type: ignore[attr-defined]
    entry = header.shards[0].data_dtype, "uint16" if header.n_features <= 1 << 16 else "uint32"
    import numpy as np

    return header.n_nonzeros * sum(np.dtype(d).itemsize for d in entry) + 12 * header.n_documents


def main() -> None:
    """Print a line for each corpus."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--smallest", type=int, default=500_000)
    parser.add_argument("--limit", type=int, default=660, help="MiB a worker")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    o = parser.parse_args()
    import dask
    from distributed import Client, LocalCluster

    for times in (1, 4, 16):
        corpus = corpus_of(o.folder, times * o.smallest)
        with (
            dask.config.set(configuration()),
            LocalCluster(
                n_workers=o.workers,
                threads_per_worker=1,
                memory_limit=o.limit << 20,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.ERROR,
            ) as cluster,
            Client(cluster) as client,
        ):
            before = set(client.scheduler_info(n_workers=-1)["workers"])
            model = MultinomialNB(n_epochs=o.epochs, validation_fraction=0.0).fit(corpus, client=client)
            peaks = [p / 2**20 for p in client.run(peak_memory).values()]
            lost = len(before - set(client.scheduler_info(n_workers=-1)["workers"]))
        size = decoded_bytes(corpus) / 2**20
        seconds = model.history_[-1]["seconds"]
        print(
            f"{times:2d}x: {corpus.n_documents:9,} documents, {size:6,.0f} MiB decoded ({size / o.limit:.1f} times the limit of "
            f"{o.limit} MiB); peaks {', '.join(f'{p:.0f}' for p in peaks)} MiB; {lost} workers lost; "
            f"{corpus.n_documents / seconds:,.0f} documents/s in the last epoch",
            flush=True,
        )


if __name__ == "__main__":
    main()
