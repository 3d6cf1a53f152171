"""The loop: what it records, when it stops, what it tells."""

import numpy as np
import pytest
from reference.random_documents import random_counts

from sdem_dist import MultinomialNB
from sdem_dist.engine.events import (
    CheckpointWritten,
    Compiled,
    EpochEnded,
    LanesEnded,
    RoundEnded,
    RunEnded,
    RunStarted,
    StageEnded,
    StageStarted,
)
from sdem_dist.engine.executor import InProcess
from sdem_dist.engine.rounds import TaskSizes

X, Y = random_counts(200, 30, 3, seed=2)
HELD_OUT = random_counts(150, 30, 3, seed=12)
METRICS = {"accuracy", "nll", "ncll", "hinge", "perplexity", "brier", "ece", "temperature", "tempered_log_loss"}
METRICS |= {"macro_f1"}
ONE_STAGE = {"validation_fraction": 0.0, "evaluate_every": 1}


def test_history_without_and_with_validation():
    model = MultinomialNB(n_epochs=3, **ONE_STAGE).fit(X, Y)
    assert [h["epoch"] for h in model.history_] == [1, 2, 3] and model.n_iter_ == 3
    assert all(set(h) == {"epoch", "seconds", *METRICS} and h["seconds"] > 0 for h in model.history_)
    model = MultinomialNB(n_epochs=3, **ONE_STAGE).fit(X, Y, validation=HELD_OUT)
    assert all(set(h) == {"epoch", "seconds", *METRICS, *(f"validation_{m}" for m in METRICS)} for h in model.history_)


@pytest.mark.parametrize(("every", "evaluated"), [(0, []), (1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (5, [5]), (9, [5])])
def test_evaluate_every(every, evaluated):
    model = MultinomialNB(n_epochs=5, validation_fraction=0.0, evaluate_every=every).fit(X, Y)
    assert [h["epoch"] for h in model.history_ if "ncll" in h] == evaluated
    np.testing.assert_array_equal(model.state_.words, MultinomialNB(n_epochs=5, **ONE_STAGE).fit(X, Y).state_.words)


@pytest.mark.parametrize("loss", ["ncll", "hinge"])
@pytest.mark.parametrize(("patience", "every", "n_epochs"), [(1, 1, 60), (3, 1, 60), (2, 2, 60), (50, 1, 12)])
def test_patience_returns_the_best_state_exhausted_or_not(loss, patience, every, n_epochs):
    settings = {"loss": loss, "n_lanes": 1, "rounds_per_epoch": 2, **ONE_STAGE, "evaluate_every": every}
    events: list = []
    model = MultinomialNB(n_epochs=n_epochs, patience=patience, **settings)
    model.fit(X, Y, validation=HELD_OUT, callbacks=[events.append])
    watched = {h["epoch"]: h[f"validation_{loss}"] for h in model.history_ if f"validation_{loss}" in h}
    best = min(watched, key=lambda epoch: (watched[epoch], epoch))
    assert model.n_iter_ == min(best + patience * every, n_epochs) < 60
    ended = next(event for event in events if isinstance(event, StageEnded))
    reason = "patience" if n_epochs == 60 else "epochs"
    assert (ended.reason, ended.best_epoch, ended.n_epochs) == (reason, best, model.n_iter_)
    assert model.evaluate(*HELD_OUT)[loss] == pytest.approx(watched[best], rel=1e-12)
    fixed = MultinomialNB(n_epochs=best, **settings).fit(X, Y)
    np.testing.assert_array_equal(model.state_.words, fixed.state_.words)


def test_events_in_order(tmp_path):
    events: list = []
    MultinomialNB(n_epochs=2, n_lanes=3, rounds_per_epoch=2, **ONE_STAGE).fit(
        X, Y, checkpoint=tmp_path, checkpoint_rounds=1, callbacks=[events.append]
    )
    lanes = [e for e in events if isinstance(e, LanesEnded)]
    assert {(e.epoch, e.round) for e in lanes} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert sum(e.n_lanes for e in lanes) == 3 * 2 * 2
    assert sum(e.n_documents for e in lanes) == 2 * X.shape[0]
    events = [e for e in events if not isinstance(e, LanesEnded)]
    epoch = [RoundEnded, CheckpointWritten, RoundEnded, EpochEnded, CheckpointWritten]
    assert [type(e) for e in events] == [RunStarted, StageStarted, Compiled, *epoch, *epoch, StageEnded, RunEnded]
    started = events[1]
    assert (started.n_epochs, started.n_rounds, started.n_lanes, started.epoch) == (2, 2, 3, 0)
    assert [(e.epoch, e.round) for e in events if isinstance(e, RoundEnded)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    ended = [e for e in events if isinstance(e, EpochEnded)]
    assert [e.epoch for e in ended] == [0, 1]
    assert all(set(e.metrics) == METRICS and e.documents_per_second > 0 for e in ended)
    assert events[-2:] == [StageEnded("train", 0, 2, "epochs", 2), RunEnded(1)]


@pytest.mark.parametrize("every", [None, 1, 3])
def test_rounds_that_go_together_are_told_and_kept_one_by_one(every, tmp_path, monkeypatch):
    def trained(folder):
        events: list = []
        model = MultinomialNB(n_epochs=2, n_lanes=2, rounds_per_epoch=10, n_jobs=1, **ONE_STAGE)
        model.fit(X, Y, checkpoint=folder, checkpoint_rounds=every, callbacks=[events.append])
        told = [
            (type(e), e.epoch, e.round) for e in events if isinstance(e, RoundEnded | LanesEnded | CheckpointWritten)
        ]
        # Two lanes are told as one task, or as two.
        return model, list(dict.fromkeys(told)), sorted(path.name for path in folder.iterdir())

    apart, submit = trained(tmp_path / "apart"), InProcess.submit
    functions: list = []

    def counted(self, function, *args, affinity=None):
        functions.append(function.__name__)
        return submit(self, function, *args, affinity=affinity)

    monkeypatch.setattr(InProcess, "submit", counted)
    monkeypatch.setattr(InProcess, "max_pending_rounds", 1)  # as on a cluster
    monkeypatch.setattr(TaskSizes, "lanes_and_rounds", lambda sizes: (2, 4))
    together = trained(tmp_path / "together")
    np.testing.assert_array_equal(together[0].state_.words, apart[0].state_.words)
    assert together[1:] == apart[1:]
    n_tasks = {None: 2 * 3, 1: 20, 3: 8}  # of ten rounds in an epoch; a task ends where a checkpoint is due
    assert functions.count("run_rounds") == n_tasks[every]


@pytest.mark.parametrize("settings", [{"rounds_per_epoch": 8}, {"merge": "sum", "batch_size": 1, "n_lanes": 4}])
def test_more_rounds_and_lanes_than_documents(settings):
    model = MultinomialNB(n_epochs=3, **ONE_STAGE, **settings).fit(X[:5], [0, 1, 0, 1, 1])
    assert model.n_iter_ == 3 and np.isfinite(model.feature_log_prob_).all()
    assert model.state_.t == 15


def test_a_training_that_fails_leaves_no_threads():
    import threading

    before = threading.active_count()

    def fail(event):
        raise RuntimeError("stop here")

    with pytest.raises(RuntimeError, match="stop here"):
        MultinomialNB().fit(np.tile(X.toarray(), (40, 1)), np.tile(Y, 40), callbacks=[fail])
    assert threading.active_count() == before
