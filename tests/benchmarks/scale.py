"""A million documents from disk: two Dask workers against the in-process kernel on one core, cached and cold.

Run: ``SDEM_CORPORA=... python tests/benchmarks/scale.py --folder FOLDER``.  The corpus (see large.py) is made once in
FOLDER.  Rates are documents a second and core, medians over epochs and repetitions, which alternate.  The overhead of
a round is its wall time without a worker's share of the tasks' own time for reading, mapping, merging and updating.  What
a round is made of is read from Dask's task stream: medians over the rounds of the last training.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from large import corpus_of, describe, forget_pages

from sdem_dist import MultinomialNB
from sdem_dist.cluster import connected
from sdem_dist.engine.events import Event, LanesEnded, RoundEnded


class Overheads:
    """Collects, of every round after the first epoch, the wall time that is neither kernels' nor reading, and the merging."""

    def __init__(self, n_workers: int) -> None:
        self.seconds: list[float] = []
        self.shares: list[float] = []
        self.merging: list[float] = []
        self._n_workers, self._busy, self._merge = n_workers, 0.0, 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, LanesEnded):
            self._busy += event.map + event.read + event.prepare
            self._merge += event.merge
        elif isinstance(event, RoundEnded):
            if event.epoch:
                self.merging.append((self._merge + event.merge) / self._n_workers)
                self.seconds.append(event.seconds - self._busy / self._n_workers - self.merging[-1])
                self.shares.append(self.seconds[-1] / event.seconds)
            self._busy = self._merge = 0.0


def parts_of_rounds(stream: list[dict[str, Any]]) -> str:
    """Return what rounds are made of, from one update to the next; empty where all ran in single tasks."""

    def span(task: dict[str, Any], action: str) -> tuple[float, float]:
        found = [(each["start"], each["stop"]) for each in task["startstops"] if each["action"] == action]
        return found[0] if found else (0.0, 0.0)

    tasks = [(str(task["key"]).split("-")[0], *span(task, "compute"), task) for task in stream]
    updates = sorted(
        ((start, stop, task) for name, start, stop, task in tasks if name == "update"), key=lambda u: u[:2]
    )
    rows, sizes = [], []
    for (_, last, _), (start, stop, update) in pairwise(updates):
        maps = [(a, b, task) for name, a, b, task in tasks if name == "map_lanes" and last <= a and b <= start]
        if not maps:
            continue
        # Each worker's first; of several that wait for the state, the last counts.
        begun = max(min(a for a, _, task in maps if task["worker"] == w) for w in {task["worker"] for *_, task in maps})
        ended = max(b for _, b, _ in maps)
        moved = max(b - a for a, b in (span(task, "transfer") for *_, task in maps))
        a, b = span(update, "transfer")
        n_tasks = sum(last <= t_start < stop for _, t_start, _, _ in tasks)
        rows.append((begun - last, moved, ended - begun, start - ended, b - a, stop - start, n_tasks))
        sizes.append((maps[0][2]["nbytes"], update["nbytes"]))
    if not rows:
        return ""
    *seconds, n_tasks = (statistics.median(column) for column in zip(*rows, strict=True))
    state, moved, mapped, sums, fetched, updated = (f"{1e3 * each:.0f}" for each in seconds)
    part, whole = (statistics.median(column) / 1e6 for column in zip(*sizes, strict=True))
    return (
        f"a round: {n_tasks:.0f} tasks; ms until the state is everywhere {state} (moving it {moved}), mapping {mapped}, until "
        f"the sums are together {sums} (moving {fetched}), update {updated}; MB of a sum {part:.1f}, of the state {whole:.1f}"
    )


def rates(corpus: Any, n_epochs: int, client: Any = None, callbacks: Any = (), **settings: Any) -> list[float]:
    """Return documents a second of each epoch."""
    model = MultinomialNB(n_epochs=n_epochs, validation_fraction=0.0, n_jobs=1, **settings)
    model.fit(corpus, client=client, callbacks=callbacks)
    return [corpus.n_documents / h["seconds"] for h in model.history_]


def forget() -> None:
    """Empty the caches of this process."""
    from sdem_dist import byte_cache  # here: a function of a script travels with the globals it names

    byte_cache.prepared_cache.clear()
    byte_cache.shard_cache.clear()


def peak_memory() -> int:
    """Return the peak resident bytes of this process."""
    # Not ru_maxrss: a process that was forked from a large one starts with the peak of that.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def prepared() -> None:
    """Compile, and import what reading needs."""
    import sdem_dist.storage.arrays  # noqa: F401

    X, y = np.eye(8, dtype=np.uint8), np.arange(8) % 2
    MultinomialNB(n_epochs=1, validation_fraction=0.0).fit(X, y)
    MultinomialNB(n_epochs=1, merge="sum", validation_fraction=0.0).fit(X, y)


def main() -> None:
    """Print the rates, their ratios, and peak memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    o = parser.parse_args()
    corpus = corpus_of(o.folder, o.documents)
    print(describe(corpus))
    prepared()
    inside: list[float] = []
    cold: list[float] = []
    cached: list[float] = []
    overheads = Overheads(o.workers)
    with connected(n_workers=o.workers) as client:
        client.run(prepared)
        for _ in range(o.repeat):
            forget()
            inside += rates(corpus, o.epochs)[1:]
            client.run(forget)
            forget_pages(corpus.path)
            started = time.time()
            first, *others = (r / o.workers for r in rates(corpus, o.epochs, client, [overheads]))
            cold.append(first)
            cached += others
        made_of = parts_of_rounds(client.get_task_stream(start=started))
        peaks = [p / 2**20 for p in client.run(peak_memory).values()]
    one, two, first = (statistics.median(values) for values in (inside, cached, cold))
    print(f"in-process, one core, cached: {one:,.0f} documents/s")
    print(f"{o.workers} Dask workers, a core each: cold {first:,.0f}, cached {two:,.0f} documents/s and core")
    print(
        f"ratios to in-process: cold {first / one:.2f}, cached {two / one:.2f}; speed-up cached {o.workers * two / one:.2f}"
    )
    print(
        f"overhead a round: {1e3 * statistics.median(overheads.seconds):.0f} ms, {statistics.median(overheads.shares):.1%} of it; "
        f"merging and updating: {1e3 * statistics.median(overheads.merging):.0f} ms"
    )
    print(made_of or "every round ran in a single task")
    print("peak memory of the workers: " + ", ".join(f"{p:,.0f} MiB" for p in peaks))


if __name__ == "__main__":
    main()
