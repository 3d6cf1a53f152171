"""Models in blocks: the same up to rounding, the same bits anywhere; the driver never holds two dense copies of a model."""

import copy
import errno
import subprocess
import sys
import weakref
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
from reference.random_documents import random_counts
from reference.trained_bits import bits

from sdem_dist import ModelError, MultinomialNB, write_corpus
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.engine import rounds
from sdem_dist.engine.checkpoint import Checkpoints, Progress, StageRecord
from sdem_dist.engine.events import CheckpointWritten
from sdem_dist.engine.executor import Executor
from sdem_dist.engine.plan import Plan
from sdem_dist.fitting import running
from sdem_dist.learners.rules import Merge
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.word_counts import SdemState

N_WORDS, N_BLOCKS = 64, 8
X, Y = random_counts(200, N_WORDS, 3, seed=3)
RECORD = StageRecord(0, "run", SdemState, 1)
PAPER = {"steps": "paper", "weighting": "counts", "validation_fraction": 0.0}
"""One stage, which begins on the workers."""


class Elsewhere(Executor):
    """Workers that share no memory with the driver: what it is sent is a copy, counted while it is alive."""

    def __init__(self) -> None:
        super().__init__(1)
        self.alive = self.most = 0

    def result(self, handle):
        value = copy.deepcopy(super().result(handle))
        if isinstance(getattr(value, "value", None), SdemState):
            words = value.value.words
            self.alive += len(words)
            self.most = max(self.most, self.alive)
            weakref.finalize(words, self.forget, len(words))
        return value

    def forget(self, n_words: int) -> None:
        self.alive -= n_words


@pytest.mark.parametrize("patience", [None, 1])
def test_one_block_at_a_time(patience, tmp_path, monkeypatch):
    elsewhere = Elsewhere()
    monkeypatch.setattr(running, "Executor", lambda *_: elsewhere)

    def fitted(**more):
        model = MultinomialNB(n_epochs=4, n_blocks=N_BLOCKS, n_lanes=4, rounds_per_epoch=2, patience=patience, **PAPER)
        return model.fit(X, Y, validation=patience and (X[:50], Y[:50]), **more)

    straight, elsewhere.most = bits(fitted()), 0
    assert bits(fitted(checkpoint=tmp_path, checkpoint_rounds=1)) == straight
    assert elsewhere.most == N_WORDS // N_BLOCKS and elsewhere.alive == 0


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("driver") / "corpus", *random_counts(200, 20_000, 3, seed=3))


@pytest.mark.parametrize("settings", [PAPER, {**PAPER, "steps": "margin"}])
@pytest.mark.parametrize("n_blocks", [1, 4])
def test_no_task_carries_the_model(client, corpus, n_blocks, settings, tmp_path):
    scheduler, largest = client.cluster.scheduler, []

    def look(event):
        if isinstance(event, CheckpointWritten):
            largest.append(max(len(cloudpickle.dumps(task.run_spec)) for task in scheduler.tasks.values()))

    model = MultinomialNB(n_epochs=3, n_lanes=4, rounds_per_epoch=2, n_blocks=n_blocks, **settings)
    model.fit(corpus, client=client, checkpoint=tmp_path, checkpoint_rounds=1, callbacks=[look])
    assert len(largest) == 6 and max(largest) < 10_000 < model.state_.words.nbytes / 40


@pytest.fixture(scope="module")
def state():
    return MultinomialNB(n_epochs=1).fit(X, Y).state_


def test_a_worker_that_does_not_see_the_file_says_so(state, tmp_path):
    kept = Checkpoints(tmp_path / "run")
    found = [kept.write(RECORD, Progress(epoch), lambda _: state, None) for epoch in (1, 2)]
    assert found[0].is_visible() and found[1].is_visible()
    Path(found[1].path).rename(found[0].path)
    assert not found[0].is_visible(), "another file has its name"
    np.testing.assert_raises_regex(ModelError, "all workers can read", found[0].block, 0, 1)
    assert not found[1].is_visible()
    np.testing.assert_raises_regex(FileNotFoundError, "all workers can read", found[1].block, 0, 1)


def test_storage_that_hiccups_is_not_taken_for_another_file(state, tmp_path):
    saved = Checkpoints(tmp_path).write(RECORD, Progress(1), lambda _: state, None)
    Path(saved.path).unlink()
    Path(saved.path).symlink_to("/proc/self/mem")  # any read of its first bytes fails
    assert not saved.is_visible()
    with pytest.raises(OSError, match="os error .* as seen from") as caught:
        saved.block(0, 1)
    assert caught.value.errno == errno.EIO and not isinstance(caught.value, ModelError)


def test_a_checkpoint_that_a_worker_cannot_read_is_tried_again(client, state, tmp_path):
    from sdem_dist.engine.dask import TRIES, DaskExecutor
    from sdem_dist.engine.events import TaskRetried

    executor = DaskExecutor(client)
    saved = Checkpoints(tmp_path).write(RECORD, Progress(1), lambda _: state, None)
    away = Path(saved.path).rename(tmp_path / "away")
    executor.drain_events()
    handle = executor.submit(rounds.start_block, None, saved.block, 0, 1)
    np.testing.assert_raises_regex(FileNotFoundError, "all workers can read", executor.result, handle)
    assert [type(event) for event in executor.drain_events()] == [TaskRetried] * (TRIES - 1)
    away.rename(saved.path)
    found = executor.result(executor.submit(rounds.start_block, None, saved.block, 0, 1))
    np.testing.assert_array_equal(found.value.words, state.words)


def test_where_workers_do_not_see_the_folder_or_another_one_the_driver_sends_blocks(corpus, tmp_path, monkeypatch):
    from faults.clusters import local_cluster

    sent = []
    from_driver = rounds.blocks_from_driver
    monkeypatch.setattr(rounds, "blocks_from_driver", lambda *args: sent.append(args[1]) or from_driver(*args))
    settings = {"n_epochs": 2, "n_lanes": 4, "rounds_per_epoch": 2, "n_blocks": 3, **PAPER}
    folder, expected = "/proc/self/cwd/run", bits(MultinomialNB(**settings).fit(corpus))  # another one for each process
    for process in ("worker", "nothing", "another file"):
        (tmp_path / process).mkdir()
    monkeypatch.chdir(tmp_path / "worker")
    with local_cluster(2) as (_, client):
        for n_runs, there in enumerate(("nothing", "another file"), 1):
            monkeypatch.chdir(tmp_path / there)
            assert bits(MultinomialNB(**settings).fit(corpus, client=client, checkpoint=folder)) == expected
            assert sent == [3, 3] * n_runs
            MultinomialNB(**settings, alpha=3.0).fit(corpus, checkpoint=tmp_path / "worker/run", resume=n_runs > 1)
        here = MultinomialNB(**settings).fit(corpus, client=client, checkpoint=str(tmp_path / "seen"))
        assert bits(here) == expected and sent == [3, 3] * 2, "seen by all"


SCRIPT = """
import sys
from pathlib import Path

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024

def main(path, kept):
    from sdem_dist import MultinomialNB, open_corpus
    from sdem_dist.cluster import connected
    from sdem_dist.engine.events import CheckpointWritten

    corpus, found = open_corpus(path), []
    settings = {"steps": "paper", "weighting": "counts", "validation_fraction": 0.0}
    model = MultinomialNB(n_epochs=2, rounds_per_epoch=2, n_lanes=8, n_blocks=8, **settings)
    with connected(n_workers=1) as client:
        before = peak()
        listen = lambda event: found.append(peak()) if isinstance(event, CheckpointWritten) else None
        model.fit(corpus, client=client, checkpoint=kept, checkpoint_rounds=1, callbacks=[listen])
    print(model.state_.words.nbytes, found[-1] - before, peak() - before)

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


def test_memory_of_a_driver(tmp_path):
    X, _ = random_counts(100, 100_000, 2, seed=1)
    corpus = write_corpus(tmp_path / "corpus", X, np.arange(100))
    (tmp_path / "driver.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "driver.py"), str(corpus.path), str(tmp_path / "kept")]
    state, checkpoints, in_all = map(int, subprocess.check_output(command, text=True, timeout=200).split())
    assert state == 80_000_000 and checkpoints < 0.6 * state and state < in_all < 1.6 * state


SMALL = random_counts(200, 30, 3, seed=3)


IN_BATCHES = {"merge": "sum", "rounds_per_epoch": None, "batch_size": 20, "steps": "paper"}


@pytest.mark.parametrize("settings", [{"n_lanes": 1}, IN_BATCHES, {"loss": "nll"}])
@pytest.mark.parametrize("n_blocks", [2, 7, 30])
def test_blocks_change_rounding_only(n_blocks, settings):
    settings = {"n_lanes": 20, "rounds_per_epoch": 2, "validation_fraction": 0.0, "evaluate_every": 1, **settings}

    def fit(blocks):
        return MultinomialNB(n_epochs=3, n_blocks=blocks, **settings).fit(*SMALL)

    cut, one = fit(n_blocks), fit(1)
    np.testing.assert_allclose(cut.feature_log_prob_, one.feature_log_prob_, rtol=1e-7)
    np.testing.assert_allclose(cut.class_log_prior_, one.class_log_prior_, rtol=1e-9)
    for a, b in zip(cut.history_, one.history_, strict=True):
        assert a["ncll"] == pytest.approx(b["ncll"], rel=1e-7)


def test_no_task_updates_all_words():
    sizes = []

    class Watching(Executor):
        def submit(self, function, *args, affinity=None):
            handle = super().submit(function, *args, affinity=affinity)
            if function is rounds.update:
                sizes.append(handle.result().value.words.shape[0])
            return handle

    learner = SdEM(NaiveBayes(30, Classes(3)), 200, Merge(), "ncll")
    plan = Plan(200, 1, 1, 20, 0, n_blocks=4)
    with Watching(1) as executor:
        source = rounds.TaskInput(learner, MemoryCorpus(*SMALL, (0, 1, 2)), 1 << 28)
        blocks = [executor.submit(rounds.start_block, learner, None, b, 4) for b in range(4)]
        rounds.submit_rounds(source, plan, executor, blocks, [plan.lanes(0, 0)], 4)
    assert sizes == [7, 8, 7, 8]


def test_blocks_on_a_cluster_that_go_on_from_a_checkpoint_give_the_same_bits(tmp_path, client):
    corpus = write_corpus(tmp_path / "c.zarr", *SMALL)
    settings = {"n_lanes": 20, "n_blocks": 3, "validation_fraction": 0.0}
    straight = bits(MultinomialNB(n_epochs=3, **settings).fit(corpus))
    for epochs in (1, 3):
        model = MultinomialNB(n_epochs=epochs, **settings)
        model.fit(corpus, client=client, checkpoint=tmp_path / "run", checkpoint_rounds=1, resume=True)
    assert bits(model) == straight
