"""Batches of `merge="sum"` on two Dask workers beside the default merge: what they reach, and what a round costs.

Run: ``SDEM_CORPORA=... python tests/benchmarks/batches.py [--names r52,20ng] [--batches 128,512]``.  Each corpus of
`corpora.py` is written to disk, and the workers read it; test documents, defaults but for the merge.  A round's
milliseconds are medians, with and without what workers read, compute and merge (each its share: where one of two works
alone, half of that is left).  The aim: at most .003 below the mean's
accuracy.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from corpora import Split, splits_of
from scale import Overheads, prepared

from sdem_dist import MultinomialNB, write_corpus
from sdem_dist.cluster import connected
from sdem_dist.engine.events import Event, RoundEnded


class Rounds:
    """Collects the wall seconds of every round after the first epoch."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, RoundEnded) and event.epoch:
            self.seconds.append(event.seconds)


def line(split: Split, corpus: Any, client: Any, n_workers: int, **settings: Any) -> str:
    """Return accuracy, log-loss and the cost of rounds of one training by workers."""
    rounds, overheads = Rounds(), Overheads(n_workers)
    model = MultinomialNB(**settings).fit(corpus, client=client, callbacks=[rounds, overheads])
    found = model.evaluate(split.X_test, split.y_test)
    whole, beyond = (1e3 * statistics.median(of) for of in (rounds.seconds, overheads.seconds))
    name = f"sum, {settings['batch_size']:,} documents" if settings else "mean"
    return (
        f"  {name:24} accuracy {found['accuracy']:.4f}  log-loss {found['ncll']:.4f}  "
        f"{len(rounds.seconds):,} rounds after the first epoch, {whole:.0f} ms each, {beyond:.0f} beyond the work"
    )


def main() -> None:
    """Print a line for each merge and batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", default="r52,20ng")
    parser.add_argument("--batches", default="128,512,2048")
    parser.add_argument("--workers", type=int, default=2)
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, connected(n_workers=o.workers) as client:
        client.run(prepared)
        for name in o.names.split(","):
            split = splits_of(name)[0]
            corpus = write_corpus(Path(folder, f"{name}.zarr"), split.X, split.y)
            print(f"{name}: {split.X.shape[0]:,} documents", flush=True)
            print(line(split, corpus, client, o.workers), flush=True)
            for batch in map(int, o.batches.split(",")):
                print(line(split, corpus, client, o.workers, merge="sum", batch_size=batch), flush=True)


if __name__ == "__main__":
    main()
