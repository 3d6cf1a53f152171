"""Every wait ends: a scheduler that hangs or dies is noticed, and long honest work, also of others, is not taken for that."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import pytest
from faults import saboteur
from faults.clusters import is_end_of, local_cluster, model, wait_until
from reference import trained_bits
from reference.trained_bits import bits

from sdem_dist import ClusterError
from sdem_dist.cluster import connected
from sdem_dist.engine import dask
from sdem_dist.engine import dask as cluster_monitor
from sdem_dist.engine.events import WorkerJoined, WorkerLost

SILENCE = 3.0


@contextmanager
def cluster_of_processes(tmp_path, n_workers: int = 1) -> Iterator[tuple[str, int, list[int]]]:
    """Yield the address of a scheduler, its process, and those of its workers, which have no nannies."""
    file = tmp_path / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    scheduler += ["--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(file)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--no-nanny"]
    worker += ["--nthreads", "1", "--host", "127.0.0.1", "--no-dashboard", "--death-timeout", "30"]
    worker += ["--local-directory", str(tmp_path)]
    here = os.path.dirname(os.path.dirname(__file__))
    started = [subprocess.Popen(scheduler, cwd=here, **quiet)]
    try:
        wait_until(lambda: file.exists() and file.stat().st_size > 0, "the scheduler has written its file")
        started += [subprocess.Popen(worker, cwd=here, **quiet) for _ in range(n_workers)]
        yield str(file), started[0].pid, [p.pid for p in started[1:]]
    finally:
        for process in started:
            process.kill()
            process.wait(timeout=30)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "message"), [(signal.SIGSTOP, "has not answered for 3 s"), (signal.SIGKILL, "lost|has not answered")]
)
def test_a_scheduler_that_hangs_or_dies_ends_the_run(fault, message, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_monitor, "SILENCE", SILENCE)
    with cluster_of_processes(tmp_path) as (address, scheduler, _), connected(address) as client:

        def disturb(event) -> None:
            if is_end_of(event, 0, 1):
                os.kill(scheduler, fault)

        began = time.monotonic()
        with pytest.raises(ClusterError, match=message):
            model().fit(corpus, client=client, checkpoint=tmp_path / "kept", callbacks=[disturb])
        assert time.monotonic() - began < 60


def test_a_scheduler_that_cannot_be_reached_again_is_lost(monkeypatch):
    """Dask raises a plain OSError once its own attempts have ended, which is no error of a disk."""

    def unreachable(client):
        raise OSError("Timed out trying to connect")

    with local_cluster(1) as (_, client):
        executor = dask.DaskExecutor(client)
        monkeypatch.setattr(cluster_monitor.compat, "scheduler_of", unreachable)
        monkeypatch.setattr(cluster_monitor, "PULSE", 0.0)
        with pytest.raises(ClusterError, match="lost the connection .*: Timed out"):
            executor.result(executor.submit(saboteur.rest, 1.0))


@pytest.mark.slow
def test_long_honest_work_is_waited_for_and_a_scheduler_that_hangs_before_the_run_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_monitor, "PULSE", 0.1)
    with cluster_of_processes(tmp_path) as (address, scheduler, workers), connected(address) as client:
        executor = dask.DaskExecutor(client, wait_for_workers=30.0)
        executor.wait_for_workers = executor.silence = 1.5
        assert executor.result(executor.submit(saboteur.rest, 4.0)) in workers
        os.kill(scheduler, signal.SIGSTOP)
        with pytest.raises(ClusterError, match="has not answered for 0.5 s: it hangs"):
            dask.DaskExecutor(client, silence=0.5)


@pytest.mark.slow
def test_a_worker_that_hangs_is_replaced_by_another(tmp_path, monkeypatch):
    """Dask takes a worker without a heartbeat for lost (``distributed.scheduler.worker-ttl``)."""
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL", "5s")
    with cluster_of_processes(tmp_path, 2) as (address, _, workers), connected(address) as client:
        client.wait_for_workers(2, timeout=30)
        executor = dask.DaskExecutor(client)
        handles = [executor.submit(saboteur.rest, 1.0 + i / 100) for i in range(2)]
        os.kill(workers[0], signal.SIGSTOP)
        assert {executor.result(h) for h in handles} == {workers[1]}


def set_paused(paused: bool, dask_worker) -> None:
    """Pause a worker, or let it go on, as its memory would; after that its memory decides nothing."""
    from distributed.core import Status

    dask_worker.memory_manager.memory_pause_fraction = False
    dask_worker.status = Status.paused if paused else Status.running


def test_workers_that_are_all_paused_end_the_run(corpus, monkeypatch):
    monkeypatch.setattr(cluster_monitor, "WAIT_FOR_WORKERS", 1.0)
    with trained_bits.local_cluster(1, processes=False, memory_limit=0) as (_, client):
        client.run(set_paused, True)
        with pytest.raises(ClusterError, match="paused"):
            model().fit(corpus, client=client)


def waits_for_another(cluster, client, lost: bool) -> None:
    """Ask a worker that is paused, and perhaps lost then, for something that the other does."""
    executor, scheduler = dask.DaskExecutor(client), cluster.scheduler
    state = executor.put(1)
    for place in (0.0, 0.5):  # both have it
        assert executor.result(executor.submit(saboteur.repeat, state, affinity=place)) == 1
    asked, other = executor.workers
    client.run(set_paused, True)
    wait_until(lambda: not scheduler.running, "both are paused")
    waiting = executor.submit(saboteur.repeat, state, affinity=0.0)
    wait_until(lambda: waiting.key in {task.key for task in scheduler.unrunnable}, "the task waits")
    if lost:
        os.kill(client.run(os.getpid, workers=[asked])[asked], signal.SIGKILL)
        wait_until(lambda: asked not in scheduler.workers, "it is lost")
    client.run(set_paused, False, workers=[other])
    assert executor.result(waiting) == 1
    assert asked not in {worker.address for worker in scheduler.tasks[waiting.key].who_has}


def test_what_asked_for_a_worker_that_is_paused_or_lost_runs_elsewhere(monkeypatch):
    monkeypatch.setattr(cluster_monitor, "PULSE", 0.1)
    with local_cluster(2) as (cluster, client):
        waits_for_another(cluster, client, lost=False)
        client.run(set_paused, False)
        wait_until(lambda: len(cluster.scheduler.running) == 2, "both run")
        waits_for_another(cluster, client, lost=True)


def test_what_every_worker_is_asked_does_not_wait_for_one_that_is_lost(monkeypatch):
    monkeypatch.setattr(cluster_monitor, "PULSE", 1.0)
    monkeypatch.setattr(cluster_monitor, "ALL_WORKERS_SECONDS", 15.0)  # Dask itself calls a lost worker for 30 s
    with local_cluster(2) as (_, client):
        executor = dask.DaskExecutor(client)
        other = client.run(os.getpid)[executor.workers[1]]
        assert executor.run_on_all_workers(saboteur.kill, other) == ["killed"], "the first kills the second"


@pytest.mark.parametrize("what", ["client", "cluster"])
def test_a_client_or_cluster_closed_midway_is_named(what, corpus):
    from distributed import Client

    # Not the default client, which would leave its mark in Dask's configuration.
    with local_cluster(1) as (cluster, _), Client(cluster, set_as_default=False) as client:

        def close(event) -> None:
            if is_end_of(event, 0, 1):
                {"client": client, "cluster": cluster}[what].close()

        with pytest.raises(ClusterError, match="closed|lost"):
            model().fit(corpus, client=client, callbacks=[close])


@pytest.mark.slow
@pytest.mark.parametrize("clients", [1, 2])
def test_two_trainings_at_once(clients, corpus):
    with local_cluster(2) as (cluster, client), ThreadPoolExecutor(2) as threads:
        started = threading.Barrier(2)  # both are connected

        def train(settings) -> str:
            with connected(cluster.scheduler_address) if clients == 2 else nullcontext(client) as own:
                started.wait(timeout=60)
                return bits(model(**settings).fit(corpus, client=own))

        losses = [{"loss": "ncll"}, {"loss": "hinge", "n_epochs": 6}]
        for settings, found in zip(losses, [threads.submit(train, settings) for settings in losses], strict=True):
            assert found.result(timeout=120) == bits(model(**settings, n_jobs=1).fit(corpus))


@pytest.mark.slow
def test_a_cluster_that_is_busy(corpus, undisturbed):
    with local_cluster(2) as (cluster, other), connected(cluster.scheduler_address) as client:
        foreign = other.map(saboteur.rest, [0.2 + i / 1000 for i in range(40)])
        executor = dask.DaskExecutor(client, wait_for_workers=2.0, silence=5.0)
        own = executor.submit(saboteur.repeat, 1)
        began = time.monotonic()
        assert executor.result(own) == 1, "waiting for one's turn is not a failure"
        waited = time.monotonic() - began
        assert bits(model().fit(corpus, client=client)) == undisturbed
        assert len(set(other.gather(foreign))) == 2
    assert waited < 60


@pytest.mark.slow
def test_workers_that_come_later_are_waited_for(corpus, undisturbed, caplog):
    with local_cluster(0) as (cluster, client):
        caplog.set_level(logging.WARNING)  # the cluster has silenced all handlers

        def come() -> None:
            while "waiting up to" not in caplog.text:
                time.sleep(0.05)
            cluster.scale(2)

        threading.Thread(target=come, daemon=True).start()
        assert bits(model().fit(corpus, client=client)) == undisturbed
    assert "no workers at tcp://" in caplog.text and "waiting up to 60 s" in caplog.text


@pytest.mark.slow
def test_workers_that_never_come_back_end_the_run(corpus):
    """All workers leave in the middle, and no nanny replaces them."""
    with local_cluster(2) as (cluster, client):
        executor = dask.DaskExecutor(client, wait_for_workers=2.0)
        running = executor.submit(saboteur.rest, 30)
        cluster.scale(0)
        with pytest.raises(ClusterError, match="has had no workers for 2 s"):
            executor.result(running)
    events = executor.drain_events()
    joined, lost = ([e.worker for e in events if isinstance(e, kind)] for kind in (WorkerJoined, WorkerLost))
    assert len(joined) == 2 and sorted(lost) == sorted(joined)
