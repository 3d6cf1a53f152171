"""An ingest by workers, of which workers, schedulers and drivers are killed 102 times: one corpus, and no file left.

A kill is placed by a count of events, not by a clock: an event is a task's result that reaches the driver. They come from
all phases: counting, merging of terms, placing and writing of shards.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from faults.clusters import local_cluster, wait_until

from sdem_dist import ClusterError, ingest, open_corpus
from sdem_dist.corpus import shuffle
from sdem_dist.engine.executor import in_order
from sdem_dist.text import pipeline, splits, terms

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
POINTS = range(1, 103, 3)
"""The events at which somebody dies, 34 of each kind of process."""
TESTS = Path(__file__).parent.parent
SCHEDULER = """
import time
from distributed import LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(1, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=None)
    print(cluster.scheduler_address, flush=True)
    time.sleep(3600)
"""
DRIVER = """
import os, signal, sys
from distributed import Client
from faults import test_hundred_kills as kills
def event(name, number):
    if number == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__":
    with kills.watched(event), Client(sys.argv[4]) as client:
        kills.run(sys.argv[1], sys.argv[2], client)
"""


class watched:
    """Cut the work into many small tasks, and call ``event(name of the task, number of the result)`` for each result."""

    def __init__(self, event):
        self.patch, self.event, self.seen = pytest.MonkeyPatch(), event, Counter()

    def __enter__(self):
        def seen(executor, function, jobs):
            for result in in_order(executor, function, jobs):
                self.seen[function.__name__] += 1
                self.event(function.__name__, self.seen.total())
                yield result

        self.patch.setattr(pipeline, "in_order", seen)
        self.patch.setattr("sdem_dist.engine.executor.in_order", seen)
        self.patch.setattr(splits, "INGEST_BYTES", 700)
        self.patch.setattr(terms, "MERGED_NODES", 300)
        self.patch.setattr(shuffle, "TASK_ENTRIES", 700)
        return self

    def __exit__(self, *error):
        self.patch.undo()


def run(source, target, client):
    ingest(source, target, held_out=0.2, shard_documents=40, client=client)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("source") / "s.tsv"
    rows = (f"{'ab'[i % 2]}\t" + " ".join(f"w{n}" for n in rng.integers(0, 300, 10)) for i in range(500))
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def uids(source, tmp_path_factory):
    """Of the corpora that nobody disturbs, of the same small splits: they decide the order of documents."""
    target = tmp_path_factory.mktemp("undisturbed") / "c"
    with watched(lambda name, number: None):
        run(source, target, None)
    return uids_at(target)


def uids_at(target):
    return [open_corpus(f"{target}{end}").header.uid for end in ("", "-held-out")]


def check(target, uids):
    assert uids_at(target) == uids
    assert sorted(path.name for path in target.parent.iterdir()) == ["c", "c-held-out"]


def worker(address):
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    path = f"{TESTS}:{os.environ.get('PYTHONPATH', '')}"
    return subprocess.Popen([*command, "--no-dashboard"], env={**os.environ, "PYTHONPATH": path}, **quiet)


def test_workers(source, uids, tmp_path):
    """Another worker comes for each that dies."""
    import dask

    n_killed = 0
    with dask.config.set({"distributed.scheduler.allowed-failures": 1000}), local_cluster(0) as (cluster, client):
        workers = [worker(cluster.scheduler_address) for _ in range(2)]

        def event(name, number):
            nonlocal n_killed
            if number in POINTS:
                wait_until(lambda: len(client.scheduler_info()["workers"]) == 2, "there are two workers", 60)
                victim = workers.pop(0)
                victim.kill()
                victim.wait()
                workers.append(worker(cluster.scheduler_address))
                n_killed += 1

        try:
            with watched(event) as seen:
                run(source, tmp_path / "c", client)
        finally:
            for process in workers:
                process.kill()
                process.wait()
    assert n_killed == len(POINTS)
    assert len(seen.seen) == 4, "every phase has results"
    check(tmp_path / "c", uids)


def test_schedulers(source, uids, tmp_path):
    from distributed import Client

    lost = 0
    for point in [*POINTS, None]:
        process = subprocess.Popen([sys.executable, "-c", SCHEDULER], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None

        def event(name, number, process=process, point=point):
            if number == point:
                process.kill()
                process.wait()

        try:
            with Client(process.stdout.readline().strip(), timeout=60) as client, watched(event):
                run(source, tmp_path / "c", client)
        except ClusterError:
            lost += 1
        finally:
            process.kill()
            process.wait()
    assert lost == len(POINTS)
    check(tmp_path / "c", uids)


def test_drivers(source, uids, tmp_path):
    with local_cluster(2) as (cluster, _):
        for point in [*POINTS, 0]:
            command = [sys.executable, "-c", DRIVER, source, tmp_path / "c", str(point), cluster.scheduler_address]
            path = f"{TESTS}:{os.environ.get('PYTHONPATH', '')}"
            ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, timeout=300, check=False)
            assert ended.returncode == (-signal.SIGKILL if point else 0)
            assert (tmp_path / "c").exists() == (not point)
    check(tmp_path / "c", uids)
