"""Executors run functions of results to come, and say what went wrong."""

from __future__ import annotations

import operator
import time
import warnings
from concurrent.futures import Future

import pytest

from sdem_dist.engine.executor import InProcess


def fail(message: str) -> None:
    raise ArithmeticError(message)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_handles_are_arguments(n_threads):
    with InProcess(n_threads) as executor:
        assert executor.n_workers == n_threads
        level = [executor.submit(operator.mul, executor.put(i), 2) for i in range(50)]
        while len(level) > 1:
            level = [executor.submit(operator.add, *pair) for pair in zip(level[::2], level[1::2], strict=False)] + (
                level[-1:] if len(level) % 2 else []
            )
        executor.wait(level[0])
        assert executor.result(level[0]) == sum(range(50)) * 2


@pytest.mark.parametrize("n_threads", [1, 3])
def test_errors_arrive_where_the_result_is_asked_for(n_threads):
    with InProcess(n_threads) as executor:
        failed = executor.submit(fail, "what happened")
        later = executor.submit(operator.add, failed, 1)
        for handle in (failed, later):
            with pytest.raises(ArithmeticError, match="what happened"):
                executor.result(handle)
            with pytest.raises(ArithmeticError, match="what happened"):
                executor.wait(handle)
        assert executor.result(executor.submit(operator.add, 1, 1)) == 2


def test_threads_by_default_are_the_cores_of_this_process():
    import os

    with InProcess() as executor:
        assert executor.n_workers == len(os.sched_getaffinity(0))


def test_waiting_tasks_cannot_block_a_full_pool():
    with InProcess(2) as executor:
        chain: Future = executor.submit(time.sleep, 0.05)
        waiting = [executor.submit(lambda _: 1, chain) for _ in range(20)]
        assert executor.result(executor.submit(lambda *all_: sum(all_), *waiting)) == 20


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_cluster_has_the_same_interface(client):
    from sdem_dist.engine.dask import DaskExecutor

    executor = DaskExecutor(client)
    assert executor.n_workers == 2  # threads
    handle = executor.submit(operator.add, executor.put(2), 3, affinity=0.9)
    executor.wait(handle)
    assert executor.result(handle) == 5
    assert executor.result(executor.submit(operator.add, executor.put(2), 3)) == 5
    failed = executor.submit(fail, "over there")
    for ask in (executor.result, executor.wait):
        with pytest.raises(ArithmeticError, match="over there"):
            ask(failed)


def test_two_runs_on_one_cluster_do_not_mix(client):
    from sdem_dist.engine.dask import DaskExecutor

    first, second = DaskExecutor(client), DaskExecutor(client)
    handles = [first.put("first"), second.put("second")]
    assert [first.result(handles[0]), second.result(handles[1])] == ["first", "second"]


def test_large_values_are_put_without_advice_to_users(client):
    import numpy as np

    from sdem_dist.engine.dask import DaskExecutor

    executor = DaskExecutor(client)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        handle = executor.put(np.arange(2_000_000.0))
    assert executor.result(executor.submit(operator.getitem, handle, -1)) == 1_999_999
