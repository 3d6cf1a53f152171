"""Executors run functions of results to come, say what went wrong, and compile kernels once a machine."""

import operator
import threading
import time
import warnings
from concurrent.futures import Future

import numpy as np
import pytest
from reference.random_documents import random_counts

from sdem_dist import MultinomialNB, write_corpus
from sdem_dist.cluster import connected
from sdem_dist.engine import trainer
from sdem_dist.engine.events import Compiled, LanesEnded, RoundEnded
from sdem_dist.engine.executor import InProcess, in_order


def fail(message: str) -> None:
    raise ArithmeticError(message)


@pytest.fixture(params=[1, 5, "cluster"])
def executor(request):
    if request.param == "cluster":
        from sdem_dist.engine.dask import DaskExecutor

        yield DaskExecutor(request.getfixturevalue("client"))
        return
    with InProcess(request.param) as executor:
        assert executor.n_workers == request.param
        yield executor


def test_handles_are_arguments(executor):
    level = [executor.submit(operator.mul, executor.put(i), 2, affinity=i / 10) for i in range(10)]
    while len(level) > 1:
        pairs = [executor.submit(operator.add, *pair) for pair in zip(level[::2], level[1::2], strict=False)]
        level = pairs + (level[-1:] if len(level) % 2 else [])
    executor.wait(level[0])
    assert executor.result(level[0]) == sum(range(10)) * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        large = executor.put(np.arange(2_000_000.0))
    assert executor.result(executor.submit(operator.getitem, large, -1)) == 1_999_999


def test_errors_arrive_where_the_result_is_asked_for(executor):
    failed = executor.submit(fail, "what happened")
    later = executor.submit(operator.add, failed, 1)
    for handle in (failed, later):
        for ask in (executor.result, executor.wait):
            with pytest.raises(ArithmeticError, match="what happened"):
                ask(handle)
    assert executor.result(executor.submit(operator.add, 1, 1)) == 2


def test_waiting_tasks_cannot_block_a_full_pool():
    with InProcess(2) as executor:
        chain: Future = executor.submit(time.sleep, 0.05)
        waiting = [executor.submit(lambda _: 1, chain) for _ in range(20)]
        assert executor.result(executor.submit(lambda *all_: sum(all_), *waiting)) == 20


@pytest.mark.parametrize("n_blocks", [1, 3])
def test_long_runs_do_not_fill_the_scheduler(client, n_blocks, monkeypatch, tmp_path):
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


def compilations() -> tuple[int, int]:
    from sdem_dist.kernels.multinomial import run_documents

    stats = run_documents.stats
    return sum(stats.cache_misses.values()), sum(stats.cache_hits.values())


@pytest.mark.slow
def test_one_worker_of_a_machine_compiles_and_the_others_load(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    X, y = random_counts(300, 30, 3)
    corpus = write_corpus(tmp_path / "c.zarr", X, y)
    events: list = []
    with connected(n_workers=3) as client:
        MultinomialNB(n_epochs=1).fit(corpus, client=client, callbacks=[events.append])
        found = client.run(compilations)
    assert sorted(found.values()) == [(0, 1), (0, 1), (1, 0)]
    kinds = [type(event) for event in events]
    assert kinds.index(Compiled) < kinds.index(LanesEnded)
    assert events[kinds.index(Compiled)].seconds > 0
