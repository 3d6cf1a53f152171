"""Models cut by vocabulary: the same model up to rounding, the same bits wherever it is trained."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.random_documents import random_counts

from sdem_dist import MultinomialNB, write_corpus
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.engine import tasks
from sdem_dist.engine.executor import InProcess
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.rounds import submit_rounds
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import Merge
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes

X, Y = random_counts(200, 30, 3, seed=3)
CORPUS = MemoryCorpus(X, Y, (0, 1, 2))
ONE_STAGE = {"validation_fraction": 0.0, "evaluate_every": 1}


def fitted(n_blocks, **settings):
    settings = {"n_lanes": 20, "rounds_per_epoch": 2, **ONE_STAGE, **settings}
    return MultinomialNB(n_epochs=3, n_blocks=n_blocks, **settings).fit(X, Y)


@pytest.mark.parametrize(
    "settings",
    [
        {"n_lanes": 1},
        {"merge": "sum", "rounds_per_epoch": None, "batch_size": 20, "steps": "paper"},
        {"loss": "nll"},
    ],
)
@pytest.mark.parametrize("n_blocks", [2, 7, 30])
def test_blocks_change_rounding_only(n_blocks, settings):
    settings = {"n_lanes": 20, "rounds_per_epoch": 2, **ONE_STAGE, **settings}

    def fit(blocks):
        return MultinomialNB(n_epochs=3, n_blocks=blocks, **settings).fit(X, Y)

    cut, one = fit(n_blocks), fit(1)
    np.testing.assert_allclose(cut.feature_log_prob_, one.feature_log_prob_, rtol=1e-7)
    np.testing.assert_allclose(cut.class_log_prior_, one.class_log_prior_, rtol=1e-9)
    for a, b in zip(cut.history_, one.history_, strict=True):
        assert a["ncll"] == pytest.approx(b["ncll"], rel=1e-7)


@given(st.integers(1, 30))
def test_blocks_of_a_state_are_the_state(n_blocks):
    learner = SdEM(NaiveBayes(30, Classes(3)), 200, Merge(), "ncll")
    words = np.random.default_rng(0).gamma(1.0, 1.0, (30, 3))
    state = learner.init()._replace(words=words, totals=words.sum(axis=0))
    blocks = [learner.block_of_state(state, b, n_blocks) for b in range(n_blocks)]
    whole = learner.gathered(n_blocks, blocks.__getitem__)
    np.testing.assert_array_equal(whole.words, words)
    np.testing.assert_allclose(whole.totals, state.totals)
    some = np.array([0, 4, 5, 29], np.uint32)
    np.testing.assert_allclose(
        learner.model.parameters(learner.joined(blocks), some).log_words,
        learner.model.parameters(state, some).log_words,
    )
    fresh = learner.gathered(n_blocks, lambda b: learner.initial_block(b, n_blocks))
    np.testing.assert_array_equal(fresh.words, learner.init().words)


@given(st.integers(1, 30))
def test_blocks_of_statistics_hold_every_row_once(n_blocks):
    learner = SdEM(NaiveBayes(30, Classes(3)), 200, Merge(), "ncll")
    found = learner.map(learner.init(), learner.prepare(CORPUS.read(0, 10)), Lane(0, 0, 0, 0, 10, 10))
    parts = [learner.block_of_statistics(found, b, n_blocks) for b in range(n_blocks)]
    words = [part.words + 30 * b // n_blocks for b, part in enumerate(parts)]
    order, cut = np.argsort(found.words), np.argsort(np.concatenate(words))
    np.testing.assert_array_equal(np.concatenate(words)[cut], found.words[order])
    np.testing.assert_array_equal(np.concatenate([part.rows for part in parts])[cut], found.rows[order])
    assert all(part.weight == found.weight for part in parts)


def test_a_checkpoint_of_blocks_goes_on_with_the_same_bits(tmp_path):
    straight = fitted(4)
    for epochs in (1, 3):
        model = MultinomialNB(n_epochs=epochs, n_lanes=20, rounds_per_epoch=2, n_blocks=4, **ONE_STAGE)
        model.fit(X, Y, checkpoint=tmp_path, checkpoint_rounds=1, resume=True)
    np.testing.assert_array_equal(model.feature_log_prob_, straight.feature_log_prob_)


def test_no_task_updates_all_words():
    sizes = []

    class Watching(InProcess):
        def submit(self, function, *args, affinity=None):
            handle = super().submit(function, *args, affinity=affinity)
            if function is tasks.update:
                sizes.append(handle.result().value.words.shape[0])
            return handle

    learner = SdEM(NaiveBayes(30, Classes(3)), 200, Merge(), "ncll")
    plan = Plan(200, 1, 1, 20, 0, n_blocks=4)
    with Watching(1) as executor:
        source = tasks.TaskInput(learner, CORPUS, 1 << 28)
        blocks = [executor.put(tasks.TaskResult(tasks.initial_block(learner, b, 4))) for b in range(4)]
        submit_rounds(source, plan, executor, blocks, [plan.lanes(0, 0)], 4)
    assert sizes == [7, 8, 7, 8]


def test_blocks_on_a_cluster_give_the_same_bits(tmp_path, client):
    write_corpus(tmp_path / "c.zarr", X, Y)
    from sdem_dist import open_corpus

    def fit(client=None):
        model = MultinomialNB(n_epochs=2, n_lanes=20, n_blocks=3)
        return model.fit(open_corpus(tmp_path / "c.zarr"), client=client).feature_log_prob_

    np.testing.assert_array_equal(fit(client), fit())
