"""Executors run functions of results to come, and say what went wrong."""

from __future__ import annotations

import operator
import threading
import time
import warnings
from concurrent.futures import Future

import numpy as np
import pytest
from reference.random_documents import random_counts

from sdem_dist.engine.executor import InProcess, in_order


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


@pytest.mark.parametrize("n_blocks", [1, 3])
def test_long_runs_do_not_fill_the_scheduler(client, n_blocks, monkeypatch, tmp_path):
    from sdem_dist import MultinomialNB, write_corpus
    from sdem_dist.engine import trainer
    from sdem_dist.engine.events import RoundEnded

    corpus = write_corpus(tmp_path / "c", *random_counts(200, 30, 3))
    scheduler, known = client.cluster.scheduler, []

    def count(event):
        if isinstance(event, RoundEnded):
            known.append(len(scheduler.tasks))

    def trained(**where):
        settings = {"n_lanes": 4, "n_blocks": n_blocks, "evaluate_every": 6, "validation_fraction": 0.0}
        return MultinomialNB(n_epochs=12, rounds_per_epoch=10, **settings).fit(corpus, **where)

    monkeypatch.setattr(trainer, "MANY_TASKS", 100)
    there = trained(client=client, callbacks=[count])
    assert len(known) == 120
    assert max(known[60:]) < 300
    assert max(known[60:]) <= max(known[:60]) + 100
    for ours, theirs in zip(trained().state_, there.state_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_large_values_are_put_without_advice_to_users(client):
    from sdem_dist.engine.dask import DaskExecutor

    executor = DaskExecutor(client)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        handle = executor.put(np.arange(2_000_000.0))
    assert executor.result(executor.submit(operator.getitem, handle, -1)) == 1_999_999


def test_what_runs_beside_a_failure_has_ended_when_it_is_told():
    """Whoever clears up after a failure does not meet tasks that still write."""
    ended, begun = [], threading.Event()

    def job(number):
        if number == 0:
            begun.wait(10)
            raise ValueError("the first")
        begun.set()
        time.sleep(0.2)
        ended.append(number)

    with InProcess(2) as executor:
        with pytest.raises(ValueError, match="the first"):
            list(in_order(executor, job, [(0,), (1,)]))
        assert ended == [1]
