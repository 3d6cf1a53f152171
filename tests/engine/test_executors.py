"""Executors run functions of results to come and say what went wrong; models that workers cannot hold are refused."""

import operator
import os
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from reference.random_documents import random_counts

from sdem_dist import ModelError, MultinomialNB, write_corpus
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.documents import ByteCache
from sdem_dist.engine import executor as memory
from sdem_dist.engine import trainer
from sdem_dist.engine.events import RoundEnded
from sdem_dist.engine.executor import Executor, cache_bytes, in_order, of_this_process, state_bytes
from sdem_dist.engine.plan import Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.kernels import TRAINING_OF_WORDS
from sdem_dist.learners.rules import Merge
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes

LEARNER = SdEM(NaiveBayes(30, Classes(3)), 40, Merge(), "ncll")
CORPUS = MemoryCorpus(*random_counts(40, 30, 3), (0, 1, 2))
GROUPS = "/sys/fs/cgroup"


def fail(message: str) -> None:
    raise ArithmeticError(message)


@pytest.fixture(params=[1, 5, "cluster"])
def executor(request):
    if request.param == "cluster":
        from sdem_dist.engine.dask import DaskExecutor

        yield DaskExecutor(request.getfixturevalue("client"))
        return
    with Executor(request.param) as executor:
        assert executor.n_workers == request.param
        yield executor


def test_handles_are_arguments(executor):
    level = [executor.submit(operator.mul, executor.put(i), 2, affinity=i / 10) for i in range(10)]
    while len(level) > 1:
        pairs = [executor.submit(operator.add, *pair) for pair in zip(level[::2], level[1::2], strict=False)]
        level = pairs + (level[-1:] if len(level) % 2 else [])
    executor.result(level[0])
    assert executor.result(level[0]) == sum(range(10)) * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        large = executor.put(np.arange(2_000_000.0))
    assert executor.result(executor.submit(operator.getitem, large, -1)) == 1_999_999


def test_errors_arrive_where_the_result_is_asked_for(executor):
    failed = executor.submit(fail, "what happened")
    for handle in (failed, executor.submit(operator.add, failed, 1)):
        np.testing.assert_raises_regex(ArithmeticError, "what happened", executor.result, handle)
    assert executor.result(executor.submit(operator.add, 1, 1)) == 2


def test_waiting_tasks_cannot_block_a_full_pool():
    with Executor(2) as executor:
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
        settings = {"n_lanes": 4, "n_blocks": n_blocks, "evaluate_every": 3, "validation_fraction": 0.0}
        return MultinomialNB(n_epochs=6, rounds_per_epoch=10, **settings).fit(corpus, **where)

    monkeypatch.setattr(trainer, "MANY_TASKS", 100)
    there = trained(client=client, callbacks=[count])
    assert len(known) == 60 and max(known[30:]) < 300 and max(known[30:]) <= max(known[:30]) + 100
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

    with Executor(2) as executor:
        np.testing.assert_raises_regex(ValueError, "the first", list, in_order(executor, job, [(0,), (1,)]))
        assert ended == [1]


RUN = """
import sys
from numba.core import event
from sdem_dist.cli import main
with event.install_recorder("numba:compile") as recorder:
    for line in sys.argv[1:]:
        main(line.split(), standalone_mode=False)
for _, one in recorder.buffer:
    kernel = one.data["dispatcher"]
    if one.is_start and kernel.stats.cache_path is not None:  # others are parts of these
        print("compiled", kernel.py_func.__module__, kernel.py_func.__name__, one.data["args"])
"""
AFTER_WARMUP = """ingest d.tsv c --held-out .3;train c m --quiet;predict m d.tsv;predict m c -o a.parquet;explain m goals
suspects d.tsv;evaluate m c-held-out --report;calibrate m c-held-out;tune c tuned --trials 2 --quiet
train d.tsv m2 --features words+characters --quiet;predict m2 d.tsv;train d.tsv m3 --ngrams 1,2 --min-df 2 --quiet
train d.tsv m4 --hashing 1000 --quiet;train d.tsv m5 --estimator LDAClassifier --loss nll --quiet;transform m5 d.tsv
train d.tsv m6 --merge sum --quiet;train d.tsv m7 --loss hinge --quiet;train d.tsv m8 --loss ncll --quiet
train d.tsv m9 --loss nll --quiet;train d.tsv m10 --loss perceptron --quiet;train d.tsv m11 --loss blend:.1 --quiet"""


def compiled_by(folder, kernels: str, *groups: str) -> list[str]:  # processes that start together, each with a group
    where = os.environ | {"NUMBA_CACHE_DIR": str(folder / kernels), "PYTHONPATH": os.pathsep.join(sys.path)}
    commands = [[sys.executable, "-c", RUN, *group.replace("\n", ";").split(";")] for group in groups]
    how = {"cwd": folder, "env": where, "text": True, "stdout": subprocess.PIPE}
    processes = [subprocess.Popen(command, **how) for command in commands]
    printed = [process.communicate()[0] for process in processes]
    assert not any(process.returncode for process in processes)
    return sorted(line for text in printed for line in text.splitlines() if line.startswith("compiled "))


@pytest.mark.slow
def test_each_kernel_is_compiled_by_one_of_the_processes_that_start_together(tmp_path):
    (tmp_path / "n.svm").write_text("0 1:1 2:2\n1 1:2 3:1\n" * 20)
    train = "train n.svm {} --loss nll --quiet"
    alone = compiled_by(tmp_path, "one", train.format("m"))
    assert len(alone) > 3 and compiled_by(tmp_path, "two", train.format("m1"), train.format("m2")) == alone


@pytest.mark.slow
def test_what_a_process_beside_compiles_is_all_that_training_needs_but_for_texts(tmp_path):
    (tmp_path / "d.tsv").write_text("".join(f"{i % 3}\tgoals {i % 7} late {i % 11}\n" for i in range(300)))
    where = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", TRAINING_OF_WORDS], check=True, env=where)
    names = {line.split()[2] for line in compiled_by(tmp_path, "kernels", "train d.tsv m --lanes 3 --quiet")}
    trains = {"number_words", "write_rows", "run_documents", "add_rows_to", "shifts", "add_changes", "add_scores"}
    assert "weigh" in names and not names & trains  # who reads texts weighs them


@pytest.mark.slow
def test_after_warmup_no_command_compiles_anything(tmp_path):
    (tmp_path / "d.tsv").write_text("".join(f"{i % 3}\tÜnder {i % 7} goals, 3.5 {i % 11} a\n" for i in range(300)))
    compiled_by(tmp_path, "kernels", "warmup")
    assert compiled_by(tmp_path, "kernels", AFTER_WARMUP) == []


def test_the_formula():
    state = state_bytes(SdEM(NaiveBayes(1000, Classes(10)), 5, Merge()).init())
    assert state == pytest.approx(8 * 1000 * 10, rel=0.01)
    cache_bytes(state, 1, 700_000)
    assert cache_bytes(state, 1, 4 << 30) == pytest.approx(0.6 * (4 << 30) - (350 << 20) - 3 * 80_000, rel=1e-4)
    assert cache_bytes(state, 1, 600_000) == 32 << 20
    np.testing.assert_raises_regex(ModelError, "n_blocks", cache_bytes, state, 1, 300_000)
    for n_classes, meant in ((10, False), (100_000, True)):
        with pytest.raises(ModelError) as refused:
            cache_bytes(state, 1, 300_000, n_classes)
        assert ("ManyClassNB" in str(refused.value)) == meant
    cache_bytes(state, 20, 300_000)


def test_a_run_is_refused_before_its_first_task():
    with Executor(1) as small:
        small.memory_bytes = lambda: 1000
        small.submit = None  # whatever is submitted would fail otherwise
        with pytest.raises(ModelError, match="or more per worker"):
            Trainer(small, CORPUS).run(Stage("train", LEARNER, Plan(40, 1, 1, 2, 0)))


@pytest.mark.parametrize("memory", [100_000, 1 << 34])
def test_a_small_budget_changes_no_bit(memory):
    stage = Stage("train", LEARNER, Plan(40, 3, 2, 4, 0))
    with Executor(2) as executor:
        executor.memory_bytes = lambda: memory
        result = Trainer(executor, CORPUS).run(stage)
    with Executor(1) as reference:
        expected = Trainer(reference, CORPUS).run(stage)
    np.testing.assert_array_equal(result.state.words, expected.state.words)


@pytest.fixture
def not_read_yet():
    of_this_process.cache_clear()
    yield
    of_this_process.cache_clear()  # what a test made up is nobody else's


@pytest.mark.parametrize(("groups", "limits", "expected"), [
    ("0::/jobs/7", {"/jobs/7/memory.max": "max", "/jobs/memory.max": "5000"}, 5000),
    ("9:name=systemd:/\n4:cpu,memory:/a/b\n0::/", {"/memory/a/b/memory.limit_in_bytes": "7000\n"}, 7000),
    ("0::/", {"/memory.max": "6000"}, 6000),
])  # fmt: skip
def test_the_smallest_limit_of_the_control_groups_counts(groups, limits, expected, monkeypatch, not_read_yet):
    files = {"/proc/self/cgroup": groups} | {GROUPS + name: text for name, text in limits.items()}
    monkeypatch.setattr(memory.Path, "read_text", lambda path, encoding: files.get(str(path), ""))
    assert memory.of_this_process() == expected


def test_without_control_groups_the_machine_is_the_limit(monkeypatch, not_read_yet):
    monkeypatch.setattr(memory.Path, "read_text", lambda path, encoding: "")
    assert memory.of_this_process() > 1 << 28


def value(nbytes: int) -> SimpleNamespace:
    return SimpleNamespace(nbytes=nbytes)


def test_values_are_discarded_by_their_keys():
    cache = ByteCache(100)
    for key in (("a", 1), ("b", 1), ("a", 2)):
        cache.get(key, lambda: value(10))
    cache.discard(lambda key: key[0] == "a")
    assert cache.nbytes == 10 and ("b", 1) in cache


@pytest.mark.parametrize("oldest_leave", [False, True])
def test_cache_keeps_within_its_budget(oldest_leave):
    cache, made = ByteCache(100, oldest_leave=oldest_leave), []

    def get(key, nbytes=40):
        return cache.get(key, lambda: made.append(key) or value(nbytes))

    first = get(("run", 1))
    get(("run", 2))
    assert get(("run", 1)) is first and made == [("run", 1), ("run", 2)]
    get(("run", 3))  # 120 bytes
    assert cache.nbytes == 80 and (("run", 3) in cache) == oldest_leave == (("run", 1) not in cache)
    get(("run", 4), 101)
    assert ("run", 4) not in cache and cache.nbytes == 80
    get(("other", 1))  # what an earlier run left makes room
    assert ("other", 1) in cache and cache.nbytes == 80
    cache.resize(40)
    assert cache.nbytes == 40
    cache.discard(lambda key: True)
    assert cache.nbytes == 0


def test_as_many_values_are_found_again_in_turns_as_fit():
    cache, made = ByteCache(30), []
    for _ in range(5):
        for i in range(100):
            cache.get(("run", i), lambda: made.append(1) or value(1))
    assert len(made) == 30 + 5 * 70


def test_cache_counts_right_under_threads():
    cache = ByteCache(300)

    def work(_):
        for i in range(300):
            assert cache.get(("run", i % 13), lambda: value(40)).nbytes == 40

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert cache.nbytes == 40 * sum(("run", i) in cache for i in range(13)) <= 300
