"""Models cut by vocabulary: the same model up to rounding, the same bits wherever it is trained."""

import numpy as np
import pytest
from reference.random_documents import random_counts
from reference.trained_bits import bits

from sdem_dist import MultinomialNB, write_corpus
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.engine import rounds
from sdem_dist.engine.executor import InProcess
from sdem_dist.engine.plan import Plan
from sdem_dist.learners.rules import Merge
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes

X, Y = random_counts(200, 30, 3, seed=3)
CORPUS = MemoryCorpus(X, Y, (0, 1, 2))


@pytest.mark.parametrize(
    "settings",
    [{"n_lanes": 1}, {"merge": "sum", "rounds_per_epoch": None, "batch_size": 20, "steps": "paper"}, {"loss": "nll"}],
)
@pytest.mark.parametrize("n_blocks", [2, 7, 30])
def test_blocks_change_rounding_only(n_blocks, settings):
    settings = {"n_lanes": 20, "rounds_per_epoch": 2, "validation_fraction": 0.0, "evaluate_every": 1, **settings}

    def fit(blocks):
        return MultinomialNB(n_epochs=3, n_blocks=blocks, **settings).fit(X, Y)

    cut, one = fit(n_blocks), fit(1)
    np.testing.assert_allclose(cut.feature_log_prob_, one.feature_log_prob_, rtol=1e-7)
    np.testing.assert_allclose(cut.class_log_prior_, one.class_log_prior_, rtol=1e-9)
    for a, b in zip(cut.history_, one.history_, strict=True):
        assert a["ncll"] == pytest.approx(b["ncll"], rel=1e-7)


def test_no_task_updates_all_words():
    sizes = []

    class Watching(InProcess):
        def submit(self, function, *args, affinity=None):
            handle = super().submit(function, *args, affinity=affinity)
            if function is rounds.update:
                sizes.append(handle.result().value.words.shape[0])
            return handle

    learner = SdEM(NaiveBayes(30, Classes(3)), 200, Merge(), "ncll")
    plan = Plan(200, 1, 1, 20, 0, n_blocks=4)
    with Watching(1) as executor:
        source = rounds.TaskInput(learner, CORPUS, 1 << 28)
        blocks = [executor.put(rounds.TaskResult(rounds.initial_block(learner, b, 4))) for b in range(4)]
        rounds.submit_rounds(source, plan, executor, blocks, [plan.lanes(0, 0)], 4)
    assert sizes == [7, 8, 7, 8]


def test_blocks_on_a_cluster_that_go_on_from_a_checkpoint_give_the_same_bits(tmp_path, client):
    corpus = write_corpus(tmp_path / "c.zarr", X, Y)
    settings = {"n_lanes": 20, "n_blocks": 3, "validation_fraction": 0.0}
    straight = bits(MultinomialNB(n_epochs=3, **settings).fit(corpus))
    for epochs in (1, 3):
        model = MultinomialNB(n_epochs=epochs, **settings)
        model.fit(corpus, client=client, checkpoint=tmp_path / "run", checkpoint_rounds=1, resume=True)
    assert bits(model) == straight
