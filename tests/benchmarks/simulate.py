"""An epoch on 1 to 1,024 workers and a billion documents, simulated from what is measured here.

Run: ``SDEM_CORPORA=... python tests/benchmarks/simulate.py --folder FOLDER``.

Measured on two real workers: seconds a document maps, bytes and merging seconds of a bundle's statistics, seconds that
the scheduler takes for a task, bytes per second between two workers.  Assumed: shards are cached; workers are alike; every
worker fetches the state once, from any that has it, so that holders double; statistics of a bundle have the whole
vocabulary (true from about a thousand documents a lane); a network as fast between machines as between two processes
here (``--bandwidth`` in MB a second says otherwise); one scheduler, one task after the other.  The same model at one and
two workers is printed beside real runs.
"""

import heapq
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import harness
from corpora import corpus_of
from scale import prepared, rates

from sdem_dist.cluster import connected
from sdem_dist.engine.dask import DaskExecutor
from sdem_dist.engine.events import Event, LanesEnded, RoundEnded
from sdem_dist.engine.plan import LANES_COMBINED, Plan
from sdem_dist.engine.rounds import TaskSizes, fan_ins
from sdem_dist.fitting.plans import sequential


@dataclass(frozen=True)
class Costs:
    """What the parts of an epoch cost, in seconds and bytes."""

    document: float
    merge: float
    """Seconds to merge one bundle's statistics."""
    statistics: float
    """Bytes of one bundle's statistics."""
    state: float
    task: float
    """Seconds of the scheduler a task."""
    bandwidth: float


def epoch_seconds(costs: Costs, n_documents: int, n_workers: int, n_lanes: int, n_rounds: int) -> dict[str, float]:
    """Return the simulated seconds of an epoch, by what the slowest path waits for."""
    plan = Plan(n_documents, 1, n_rounds, n_lanes, 0)
    executor: Any = SimpleNamespace(n_workers=n_workers, max_pending_rounds=0)
    bundle, _ = TaskSizes(plan, executor).lanes_and_rounds()
    lane = plan.lane_documents * costs.document
    items = bundle if bundle < LANES_COMBINED else 1
    broadcast = math.ceil(math.log2(n_workers)) * costs.state / costs.bandwidth
    free = [broadcast] * n_workers
    ends = []
    for i in range(-(-n_lanes // bundle)):
        start = max(heapq.heappop(free), (i + 1) * costs.task)
        ends.append(start + lane * bundle)
        heapq.heappush(free, ends[-1])
    mapped, level = max(ends), ends
    part = costs.merge + costs.statistics / costs.bandwidth * (1.0 - 1.0 / n_workers)
    for fan_in, _ in fan_ins(len(level), bundle):
        heads = [max(level[i : i + fan_in]) for i in range(0, len(level), fan_in)]
        level = [h + -(-len(heads) // n_workers) * fan_in * items * part + costs.task for h in heads]
        items = 1
    total = max(level) + len(level) * items * part + costs.task
    return {"seconds": n_rounds * total, "map": n_rounds * mapped, "merge": n_rounds * (total - mapped)}


def measured(corpus: Any, client: Any, n_workers: int) -> tuple[Costs, float]:
    """Return what things cost, and the median seconds of a real epoch."""
    documents, mapping, merging, parts = [0.0], [0.0], [0.0], [0]

    def listen(event: Event) -> None:
        if isinstance(event, LanesEnded) and event.epoch:
            documents[0] += event.n_documents
            mapping[0] += event.map
            parts[0] += 1
        elif isinstance(event, RoundEnded) and event.epoch:
            merging[0] += event.merge

    found = rates(corpus, 6, client, [listen])
    header = corpus.header
    n_classes, n_features = len(header.classes), header.n_features
    return (
        Costs(
            document=mapping[0] / documents[0],
            merge=merging[0] / parts[0],
            statistics=n_features * (8.0 * n_classes + 12),
            state=n_features * 8.0 * n_classes,
            task=task_seconds(client),
            bandwidth=bytes_per_second(client, n_workers),
        ),
        corpus.n_documents / median(found[1:]),
    )


def task_seconds(client: Any, n: int = 1000) -> float:
    executor = DaskExecutor(client)
    started = time.perf_counter()
    handles = [executor.submit(int, i) for i in range(n)]
    for handle in handles:
        executor.wait(handle)
    return (time.perf_counter() - started) / n


def bytes_per_second(client: Any, n_workers: int, megabytes: int = 64) -> float:
    if n_workers < 2:
        return 1e9
    first, second = list(client.scheduler_info(n_workers=-1)["workers"])[:2]
    block = client.submit(bytes, megabytes << 20, workers=[first], pure=False)
    client.submit(len, block, workers=[first], pure=False).result()
    started = time.perf_counter()
    client.submit(len, block, workers=[second], pure=False).result()
    return (megabytes << 20) / (time.perf_counter() - started)


def simulate(
    folder: Path, measured_on: int = 1_000_000, documents: int = 1_000_000_000, bandwidth: float | None = None
) -> None:
    corpus = corpus_of(folder, measured_on)
    n, lanes, rounds = corpus.n_documents, *_defaults(corpus.n_documents)
    prepared()
    for n_workers in (1, 2):
        with connected(n_workers=n_workers) as client:
            client.run(prepared)
            costs, real = measured(corpus, client, n_workers)
        simulated = epoch_seconds(costs, n, n_workers, lanes, rounds)["seconds"]
        print(f"{n_workers} worker(s), {n:,} documents: real {real:.2f} s an epoch, simulated {simulated:.2f} s")
    print(
        f"a document {costs.document * 1e6:.2f} us, a task {costs.task * 1e3:.2f} ms, {costs.bandwidth / 1e6:,.0f} MB/s, "
        f"statistics {costs.statistics / 1e6:.1f} MB a bundle, merged in {costs.merge * 1e3:.1f} ms"
    )
    if bandwidth:
        costs = replace(costs, bandwidth=bandwidth * 1e6)
    default, default_n_rounds = _defaults(documents)
    print(f"{documents:,} documents; default: {default:,} lanes, {default_n_rounds} round(s)")
    for factor, rounds in ((1, default_n_rounds), (8, default_n_rounds), (0.125, default_n_rounds), (1, 8)):
        lanes = int(default * factor)
        print(f"  {lanes:,} lanes, {rounds} round(s):")
        one = epoch_seconds(costs, documents, 1, lanes, rounds)["seconds"]
        for n_workers in (16, 64, 256, 1024):
            s = epoch_seconds(costs, documents, n_workers, lanes, rounds)
            print(
                f"    {n_workers:5d} workers: {s['seconds']:8.1f} s an epoch (until the last lane {s['map']:.1f}, merging "
                f"after it {s['merge']:.1f}), {one / s['seconds'] / n_workers:.0%} of linear"
            )


def _defaults(n_documents: int) -> tuple[int, int]:
    plan = sequential(n_documents, 1, 0)
    return plan.n_lanes, plan.n_rounds


if __name__ == "__main__":
    harness.run(__doc__, simulate)
