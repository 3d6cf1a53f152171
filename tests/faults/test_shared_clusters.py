"""Clusters with other things to do: two trainings, foreign tasks, no workers yet."""

import logging
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from faults import work
from faults.clusters import local_cluster, model
from reference.trained_bits import bits

from sdem_dist import ClusterError
from sdem_dist.cluster import connected
from sdem_dist.engine import dask
from sdem_dist.engine.events import WorkerJoined, WorkerLost


@pytest.mark.slow
def test_two_trainings_at_once(corpus):
    with local_cluster(2) as (cluster, _), ThreadPoolExecutor(2) as threads:

        def train(loss: str) -> str:
            with connected(cluster.scheduler_address) as client:
                started.wait(timeout=60)  # both are connected
                return bits(model(loss=loss, n_epochs=6 if loss == "hinge" else 2).fit(corpus, client=client))

        started = threading.Barrier(2)
        ncll, hinge = (threads.submit(train, loss) for loss in ("ncll", "hinge"))
        assert ncll.result(timeout=120) == bits(model(loss="ncll", n_epochs=2, n_jobs=1).fit(corpus))
        assert hinge.result(timeout=120) == bits(model(loss="hinge", n_epochs=6, n_jobs=1).fit(corpus))


@pytest.mark.slow
def test_two_trainings_through_one_client(corpus, undisturbed):
    with local_cluster(2) as (_, client), ThreadPoolExecutor(2) as threads:
        both = [threads.submit(lambda: bits(model().fit(corpus, client=client))) for _ in range(2)]
        assert [b.result(timeout=120) for b in both] == [undisturbed] * 2


@pytest.mark.slow
def test_a_cluster_that_is_busy(corpus, undisturbed):
    with local_cluster(2) as (cluster, other), connected(cluster.scheduler_address) as client:
        foreign = other.map(work.rest, [0.2 + i / 1000 for i in range(40)])
        executor = dask.DaskExecutor(client, wait_for_workers=2.0, silence=5.0)
        own = executor.submit(work.repeat, 1)
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
    assert "no worker at tcp://" in caplog.text and "waiting up to 60 s" in caplog.text


@pytest.mark.slow
def test_workers_that_never_come_back_end_the_run(corpus):
    """All workers leave in the middle, and no nanny replaces them."""
    with local_cluster(2) as (cluster, client):
        executor = dask.DaskExecutor(client, wait_for_workers=2.0)
        running = executor.submit(work.rest, 30)
        cluster.scale(0)
        with pytest.raises(ClusterError, match="has had no worker for 2 s"):
            executor.result(running)
    events = executor.drain_events()
    joined, lost = ([e.worker for e in events if isinstance(e, kind)] for kind in (WorkerJoined, WorkerLost))
    assert len(joined) == 2
    assert sorted(lost) == sorted(joined)


def test_the_command_says_that_there_are_no_workers(corpus, tmp_path):
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", processes=True) as cluster:
        ended = subprocess.run(
            [sys.executable, "-c", "from sdem_dist.cli import main; main()", "train", corpus.path,
             str(tmp_path / "model"), "--scheduler", cluster.scheduler_address],
            env={**os.environ, "DASK_SDEM_DIST__WAIT_FOR_WORKERS": "0.5"},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert ended.returncode == 1
    assert "no worker at tcp://127.0.0.1" in ended.stderr and "waiting up to 0.5 s" in ended.stderr
    assert "has had no worker for 0.5 s; start workers" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "model").exists()
