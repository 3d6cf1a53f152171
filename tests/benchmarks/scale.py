"""Dask workers beside one process: rates, memory.

Run: ``SDEM_CORPORA=... python tests/benchmarks/scale.py [PART] --folder FOLDER``.  Corpora of any size are all reviews of NSMC
(three classes, character 1- and 2-grams of five reviews or more), then copies that lack every tenth nonzero; they are written
once to FOLDER.  Kernels are compiled before, on a cluster that runs already.

speed: a million documents from disk, two workers against the in-process kernel on one core, cached and cold.  Documents a
second and core, medians over epochs and repetitions, which alternate.  The overhead of a round is its wall time without a
worker's share of the tasks' own time for reading, mapping, merging and updating;
memory: peaks of workers under an enforced limit (MiB), on corpora of 1, 4 and 16 times the size.  Workers above it are killed by
Dask's nanny; the size of a corpus is that of its decoded arrays.
"""

import logging
import os
from pathlib import Path
from statistics import median
from typing import Any

import harness
import numpy as np
from corpora import corpus_of

from sdem_dist import MultinomialNB
from sdem_dist.cluster import CONFIGURATION, connected
from sdem_dist.engine.events import Event, LanesEnded, RoundEnded


class Rounds:
    """Collects, of every round after the first epoch, wall time, time beyond kernels, reading and merging, and merging."""

    def __init__(self, n_workers: int) -> None:
        self.seconds: list[float] = []
        self.beyond: list[float] = []
        self.merging: list[float] = []
        self._n_workers, self._busy, self._merge = n_workers, 0.0, 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, LanesEnded):
            self._busy += event.map + event.read + event.prepare
            self._merge += event.merge
        elif isinstance(event, RoundEnded):
            if event.epoch:
                self.seconds.append(event.seconds)
                self.merging.append((self._merge + event.merge) / self._n_workers)
                self.beyond.append(event.seconds - self._busy / self._n_workers - self.merging[-1])
            self._busy = self._merge = 0.0


def rates(corpus: Any, n_epochs: int, client: Any = None, callbacks: Any = ()) -> list[float]:
    model = MultinomialNB(n_epochs=n_epochs, validation_fraction=0.0, n_jobs=1)
    model.fit(corpus, client=client, callbacks=callbacks)
    return [corpus.n_documents / h["seconds"] for h in model.history_]


def forget() -> None:
    from sdem_dist import documents  # here: a function of a script travels with the globals it names

    documents.prepared_cache.discard(lambda key: True)
    documents.shard_cache.discard(lambda key: True)


def forget_pages(path: str | Path) -> None:
    for file in filter(Path.is_file, Path(path).rglob("*")):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def peak_memory() -> int:
    # Not ru_maxrss: a process that was forked from a large one starts with the peak of that.
    return 1024 * int(Path("/proc/self/status").read_text(encoding="ascii").split("VmHWM:")[1].split()[0])


def peaks_of(client: Any) -> str:
    return ", ".join(f"{bytes_ / 2**20:,.0f}" for bytes_ in client.run(peak_memory).values())


def prepared() -> None:
    """Compile, and import what reading needs."""
    import sdem_dist.storage.arrays  # noqa: F401

    X, y = np.eye(8, dtype=np.uint8), np.arange(8) % 2
    for merge in ("mean", "sum"):
        MultinomialNB(n_epochs=1, merge=merge, validation_fraction=0.0).fit(X, y)


def speed(folder: Path, documents: int = 1_000_000, epochs: int = 6, repeat: int = 3, workers: int = 2) -> None:
    corpus = corpus_of(folder, documents)
    h = corpus.header
    print(f"{h.n_documents:,} documents, {h.n_features:,} words, {h.n_nonzeros:,} nonzeros, {len(h.shards)} shards")
    prepared()
    inside, cold, cached = list[float](), list[float](), list[float]()
    rounds = Rounds(workers)
    with connected(n_workers=workers) as client:
        client.run(prepared)
        for _ in range(repeat):
            forget()
            inside += rates(corpus, epochs)[1:]
            client.run(forget)
            forget_pages(corpus.path)
            first, *others = (r / workers for r in rates(corpus, epochs, client, [rounds]))
            cold.append(first)
            cached += others
        peaks = peaks_of(client)
    one, two, first = (median(values) for values in (inside, cached, cold))
    print(f"in-process, one core, cached: {one:,.0f} documents/s")
    print(f"{workers} Dask workers, a core each: cold {first:,.0f}, cached {two:,.0f} documents/s and core")
    ratios = f"cold {first / one:.2f}, cached {two / one:.2f}; speed-up cached {workers * two / one:.2f}"
    print(f"ratios to in-process: {ratios}")
    print(
        f"overhead a round: {1e3 * median(rounds.beyond):.0f} ms, {harness.median_ratio(rounds.beyond, rounds.seconds):.1%} "
        f"of it; merging and updating: {1e3 * median(rounds.merging):.0f} ms"
    )
    print(f"peak memory of the workers: {peaks} MiB")


def memory(folder: Path, smallest: int = 500_000, limit: int = 660, workers: int = 2, epochs: int = 2) -> None:
    import dask
    from distributed import Client, LocalCluster

    how: dict = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.ERROR}
    how |= {"n_workers": workers, "threads_per_worker": 1, "memory_limit": limit << 20}
    for times in (1, 4, 16):
        corpus = corpus_of(folder, times * smallest)
        with dask.config.set(CONFIGURATION), LocalCluster(**how) as cluster, Client(cluster) as client:
            before = set(client.scheduler_info(n_workers=-1)["workers"])
            model = MultinomialNB(n_epochs=epochs, validation_fraction=0.0).fit(corpus, client=client)
            peaks = peaks_of(client)
            lost = len(before - set(client.scheduler_info(n_workers=-1)["workers"]))
        h, indices = corpus.header, "uint16" if corpus.header.n_features <= 1 << 16 else "uint32"
        entry = sum(np.dtype(d).itemsize for d in (h.shards[0].data_dtype, indices))
        size = (h.n_nonzeros * entry + 12 * h.n_documents) / 2**20
        print(
            f"{times:2d}x: {corpus.n_documents:9,} documents, {size:6,.0f} MiB decoded ({size / limit:.1f} times the limit of "
            f"{limit} MiB); peaks {peaks} MiB; {lost} workers lost; "
            f"{corpus.n_documents / model.history_[-1]['seconds']:,.0f} documents/s in the last epoch",
            flush=True,
        )


if __name__ == "__main__":
    harness.run(__doc__, speed, memory)
