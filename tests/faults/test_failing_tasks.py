"""Tasks that fail: tried again where that may help, reported with their documents where it does not; no half table."""

import errno
import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import scipy.sparse as sp
from cli.commands import ok, run
from faults import saboteur
from faults.clusters import all_gone, local_cluster, model, pids
from faults.saboteur import killed, plan_faults, sabotaged

from sdem_dist import ClusterError, CorpusError, MultinomialNB, write_corpus
from sdem_dist.cli import streaming
from sdem_dist.engine.dask import TRIES, DaskExecutor
from sdem_dist.engine.events import TaskRetried
from sdem_dist.engine.rounds import TaskInput, naming_bad_document
from sdem_dist.errors import DocumentError, UnreadableError
from sdem_dist.learners.protocol import Lane
from sdem_dist.text import splits


@pytest.fixture(scope="module")
def client():
    with local_cluster(2) as (_, client):
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("error", [OSError(errno.EIO, "hiccup"), UnreadableError("hiccup"), MemoryError("hiccup")])
@pytest.mark.parametrize("times", range(TRIES + 1))
def test_what_may_pass_is_tried_again(times, error, client, tmp_path):
    executor = DaskExecutor(client)
    first = executor.submit(saboteur.fail_at_first, tmp_path, times, error)
    second = executor.submit(saboteur.repeat, first)
    ahead = executor.submit(saboteur.repeat, executor.submit(saboteur.repeat, second))
    del first  # as the trainer does
    if times < TRIES:
        assert executor.result(second) == executor.result(ahead) == "done"
    else:
        np.testing.assert_raises_regex(type(error), "hiccup", executor.result, second)
    assert saboteur.calls(tmp_path) == min(times + 1, TRIES)
    retries = [e for e in executor.drain_events() if isinstance(e, TaskRetried)]
    assert retries == [TaskRetried(i, f"{type(error).__name__}: {error}") for i in range(1, min(times, TRIES - 1) + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("error", [kind("wrong") for kind in (CorpusError, ValueError, DocumentError, KeyError)])
def test_what_would_fail_everywhere_is_tried_once(error, client, tmp_path):
    executor = DaskExecutor(client)
    last = executor.submit(saboteur.repeat, executor.submit(saboteur.fail_at_first, tmp_path, 1, error))
    np.testing.assert_raises_regex(type(error), "wrong", executor.result, last)
    assert saboteur.calls(tmp_path) == 1


@pytest.mark.slow
def test_a_task_that_kills_its_worker_stops_after_a_few(client, tmp_path):
    executor = DaskExecutor(client)
    with pytest.raises(ClusterError, match="4 workers died one after another while running the task 'die-"):
        executor.result(executor.submit(saboteur.repeat, executor.submit(saboteur.die, tmp_path)))
    assert saboteur.calls(tmp_path) == 4
    assert executor.result(executor.submit(saboteur.repeat, 7)) == 7, "the cluster goes on"


@pytest.mark.slow
def test_lanes_that_kill_their_worker_are_named(corpus, folder):
    plan_faults(folder, "map 1 2 3", times=99)
    with local_cluster(2) as (_, client):
        with pytest.raises(ClusterError) as caught, sabotaged(folder):
            model().fit(corpus, client=client)
        assert all_gone(killed(folder)) and len(killed(folder)) == 4
        assert set(killed(folder)).isdisjoint(pids(client))
    message = str(caught.value)
    place = re.search(r"lanes \d+ to \d+ of rounds (\d+) to (\d+) of epoch 1, .* 0; documents \d+ to \d+", message)
    assert int(place[1]) <= 2 <= int(place[2])


COUNTS = {"steps": "paper", "weighting": "counts"}


X, Y = np.ones((400, 6), np.int64), np.arange(400) % 2
X[257, 2] = 100


@pytest.fixture
def picky(tmp_path, monkeypatch):
    """Make every estimator's learner refuse words that occur 100 times; return a corpus with one."""
    make = MultinomialNB._candidate

    def candidate(*args, **more):
        made = make(*args, **more)
        return replace(made, learner=saboteur.Picky(made.learner, 99, str(tmp_path)))

    monkeypatch.setattr(MultinomialNB, "_candidate", candidate)
    return write_corpus(tmp_path / "corpus", sp.csr_matrix(X), Y, shuffle=False, shard_documents=100)


def test_a_document_that_always_fails_is_named(picky):
    with pytest.raises(DocumentError, match="shard 2, document 57 of the shard cannot .* a word too often"):
        model(n_jobs=1, **COUNTS).fit(picky)
    with pytest.raises(DocumentError, match=r"^row 257 \(counting from 0\) cannot .* a word too often"):
        model(n_jobs=1, **COUNTS).fit(sp.csr_matrix(X), Y)


@pytest.mark.slow
def test_a_document_that_always_fails_is_named_on_a_cluster(client, picky, tmp_path):
    before = pids(client)
    with pytest.raises(DocumentError, match="shard 2, document 57 of the shard cannot"):
        model(**COUNTS).fit(picky, client=client)
    assert pids(client) == before
    assert (tmp_path / "calls.log").read_text().split().count("257:258") == 1, "found by halving, once"


@pytest.mark.parametrize(("read", "error", "said"), [
    (lambda start, stop: os.stat("/absent"), OSError, "absent"),  # while a document is looked for
    (range, ValueError, "^cannot take this$"),  # no lane fails alone: it was of their sum
])  # fmt: skip
def test_what_is_not_a_documents_fault_is_told_as_it_is(read, error, said):
    inputs = TaskInput(SimpleNamespace(prepare=len, map=lambda *_: 0), SimpleNamespace(read=read), 0)
    with pytest.raises(error, match=said), naming_bad_document(inputs, None, [Lane(0, 0, 0, 0, 4, 4)]):
        raise ValueError("cannot take this")


@pytest.fixture
def made(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(splits, "PREDICT_BYTES", 700)
    texts, labels = ["goal team match", "bank share loan", "salt oven bread"] * 20, ["sport", "money", "food"] * 20
    MultinomialNB(n_epochs=2).fit(texts, labels).save(tmp_path / "m")
    lines = [f'{{"text": "{texts[i % 7]} {texts[i % 3]}", "number": {i}}}\n' for i in range(300)]
    (tmp_path / "s.jsonl").write_text("".join(lines))
    return tmp_path


def disturbed(monkeypatch, disturb):
    """Call `disturb` after the third task of a prediction."""
    in_order = streaming.in_order

    def and_disturb(executor, function, jobs):
        for number, result in enumerate(in_order(executor, function, jobs)):
            if number == 3:
                disturb()
            yield result

    monkeypatch.setattr(streaming, "in_order", and_disturb)


@pytest.mark.parametrize("name", ["o.parquet", pytest.param("o.csv", marks=pytest.mark.slow)])
def test_a_lost_worker_changes_no_byte(name, made, monkeypatch):
    command = ["predict", str(made / "m"), str(made / "s.jsonl"), "-o"]
    ok(*command, str(made / f"here-{name}"))

    def kill_a_worker():
        workers = [p for p in psutil.Process().children(recursive=True) if "spawn_main" in " ".join(p.cmdline())]
        os.kill(workers[0].pid, signal.SIGKILL)

    disturbed(monkeypatch, kill_a_worker)
    ok(*command, str(made / name), "--workers", "2")
    assert (made / name).read_bytes() == (made / f"here-{name}").read_bytes()


def test_an_interrupted_prediction_leaves_no_table(made, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    disturbed(monkeypatch, interrupt)
    found = run("predict", str(made / "m"), str(made / "s.jsonl"), "-o", str(made / "o.csv"), "--workers", "1")
    assert found.exit_code == 130 and sorted(p.name for p in made.iterdir()) == ["m", "s.jsonl"]
