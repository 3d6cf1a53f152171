"""A fit of several stages and of one: events, what is recorded, when it stops, and a resume that does nothing twice."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pytest
from engine.conftest import killing
from reference.random_documents import random_counts
from reference.trained_bits import Stop

from sdem_dist import MultinomialNB
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.engine import events as ev
from sdem_dist.engine.checkpoint import Checkpoints
from sdem_dist.engine.executor import Executor
from sdem_dist.engine.plan import Monitoring, Plan, Stage, StageResult
from sdem_dist.engine.rounds import TaskSizes
from sdem_dist.engine.trainer import Trainer
from sdem_dist.errors import ModelError, OtherRunError

WORK: list[tuple[str, int, int, int]] = []
"""Learner, epoch, round and lane of every lane begun in this process."""


class Total(NamedTuple):
    words: np.ndarray
    t: float


@dataclass(frozen=True)
class Summing:
    name: str
    decay: float = 0.5
    cache_key = "summing"

    def init(self) -> Total:
        return Total(np.zeros(30), 0.0)

    def prepare(self, documents):
        return documents

    def map(self, state, documents, lane):
        WORK.append((self.name, lane.epoch, lane.round, lane.lane))
        return np.bincount(documents.indices, documents.data, minlength=30) / (1.0 + state.words.sum())

    def combine(self, parts):
        return np.sum(np.stack(parts), axis=0)

    def update(self, state, statistics):
        return Total(self.decay * state.words + statistics, state.t + 1)

    def evaluate(self, state, batches):
        return sum((np.array([b.data @ state.words[b.indices], float(b.n_documents)]) for b in batches), np.zeros(2))

    def metrics(self, sums):
        return {"loss": float(sums[0] / sums[1])}


def corpus_of(seed: int = 2) -> MemoryCorpus:
    X, y = random_counts(200, 30, 3, seed=seed)
    return MemoryCorpus(X, y, (0, 1, 2))


def plan(n_epochs: int) -> Plan:
    return Plan(n_documents=200, n_epochs=n_epochs, n_rounds=2, n_lanes=4, seed=1)


CORPUS = corpus_of()
NAMES = ["survey", "start 1 of 2", "score 1", "start 2 of 2", "score 2", "train"]
ROUNDS = {"survey": 2, "start 1 of 2": 4, "start 2 of 2": 4, "train": 6}
MONITORING = Monitoring(every=1, monitor="loss", main_metrics=("loss",))


def train(trainer: Trainer, made: list, n_epochs: int = 3, decay: float = 0.5) -> StageResult:
    """Run what a mixture would: a survey, starts of which the best is taken, and the training."""
    survey = trainer.run(Stage("survey", Summing("survey", decay), plan(1))).state
    found = []
    for number in (1, 2):

        def start(number: int = number) -> Total:
            made.append(number)
            return survey._replace(words=survey.words * number)

        learner = Summing(f"start {number}", decay)
        state = trainer.run(Stage(f"start {number} of 2", learner, plan(2), start)).state
        found.append((trainer.score(f"score {number}", learner, state)["loss"], number, state))
    best = min(found)[2]
    return trainer.run(Stage("train", Summing("train", decay), plan(n_epochs), lambda: best, monitored=True))


def fit(folder=None, callbacks=(), made=None, resume=False, executor=None, change=None, **more) -> StageResult:
    checkpoints = None if folder is None else Checkpoints(folder, every_rounds=1)
    with Executor(1) as here:
        options = {"settings": {"corpus": "it"}, "resume": resume, "callbacks": callbacks}
        with Trainer(executor or here, CORPUS, monitoring=MONITORING, checkpoints=checkpoints, **options) as trainer:
            trainer = trainer if change is None else trainer.changed(change)
            return train(trainer, [] if made is None else made, **more)


def same(a: StageResult, b: StageResult) -> bool:
    def losses(result):
        return [{name: v for name, v in entry.items() if name != "seconds"} for entry in result.history]

    return np.array_equal(a.state.words, b.state.words) and a.state.t == b.state.t and losses(a) == losses(b)


def begun() -> list[tuple[str, int, int]]:
    """Return the rounds begun since last asked; compiling does the first lane of each stage's kernels once more."""
    rounds = [(name, epoch, round_) for name, epoch, round_, lane in WORK if lane == 3]
    WORK.clear()
    return rounds


POINTS = [
    *[(ev.RoundEnded, name, n) for name, rounds in ROUNDS.items() for n in (1, rounds)],
    *[(ev.CheckpointWritten, name, rounds) for name, rounds in ROUNDS.items()],
    *[(ev.StageStarted, name, 1) for name in ROUNDS],
    *[(ev.StageEnded, name, 1) for name in ROUNDS],
    *[(ev.Scored, f"score {n}", 1) for n in (1, 2)],
]


@pytest.fixture
def executor(request):
    if request.param == "threads":
        with Executor(1) as here:
            yield lambda: here
        return
    from sdem_dist.engine.dask import DaskExecutor

    client = request.getfixturevalue("client")
    yield lambda: DaskExecutor(client)


@pytest.mark.parametrize(
    ("executor", "point"),
    [*(("threads", point) for point in POINTS), *(("cluster", point) for point in POINTS[1::6])],
    ids=lambda p: p if isinstance(p, str) else f"{p[0].__name__} {p[1]} {p[2]}",
    indirect=["executor"],
)
def test_a_driver_killed_in_any_stage_goes_on_with_the_same_bits(point, executor, tmp_path):
    whole = fit()
    begun()
    np.testing.assert_raises(Stop, fit, tmp_path, [killing(point)], executor=executor())
    before = begun()
    resumed = fit(tmp_path, resume=True, executor=executor())
    after = begun()
    assert same(resumed, whole)
    assert len(set(before) & set(after)) <= 1, "at most one interval is done again"
    assert len({*before, *after}) == sum(ROUNDS.values())


def test_finished_stages_are_not_run_again_and_starts_not_made_again(tmp_path):
    made: list = []
    np.testing.assert_raises(Stop, fit, tmp_path, [killing((ev.RoundEnded, "train", 3))], made)
    assert made == [1, 2]
    assert sorted(p.name for p in tmp_path.glob("stage-*")) == [f"stage-{n:03d}.sdem" for n in range(5)]
    made.clear()
    begun()
    events: list = []
    fit(tmp_path, [events.append], made, resume=True)
    assert made == []
    assert {name for name, *_ in begun()} == {"train"}
    assert [e.stage for e in events if isinstance(e, ev.StageStarted)] == ["train"]


def test_an_ended_fit_goes_on_to_more_epochs(tmp_path):
    fit(tmp_path)
    expected = ["checkpoint-005-000002-000001.sdem", "checkpoint-005-000003-000000.sdem"]
    assert sorted(p.name for p in tmp_path.glob("checkpoint-*")) == expected
    begun()
    longer = fit(tmp_path, resume=True, n_epochs=5)
    assert begun() == [("train", epoch, round_) for epoch in (3, 4) for round_ in (0, 1)]
    assert same(longer, fit(n_epochs=5))
    shorter = {"n_epochs": 5, "change": lambda stage: replace(stage, plan=plan(min(stage.plan.n_epochs, 3)))}
    for how in ({}, shorter):
        np.testing.assert_raises_regex(ModelError, "is at epoch 5", fit, tmp_path, resume=True, **how)


def test_a_scoring_after_the_last_stage_does_not_end_its_checkpoints(tmp_path):
    def fitted(n_epochs, **more):
        with Executor(1) as executor, Trainer(executor, CORPUS, monitoring=MONITORING, **more) as trainer:
            result = trainer.run(Stage("train", Summing("train"), plan(n_epochs), monitored=True))
            return result, trainer.score("score", Summing("train"), result.state)

    fitted(2, checkpoints=Checkpoints(tmp_path))
    result, metrics = fitted(4, checkpoints=Checkpoints(tmp_path), resume=True)
    expected, scored = fitted(4)
    assert same(result, expected) and metrics == scored == {"loss": pytest.approx(result.history[-1]["loss"])}


@pytest.mark.parametrize("at", ["start 2 of 2", "train"])
def test_other_settings_are_refused_by_name_in_any_stage(at, tmp_path):
    np.testing.assert_raises(Stop, fit, tmp_path, [killing((ev.RoundEnded, at, 2))])
    kept = sorted(tmp_path.iterdir())
    with pytest.raises(OtherRunError, match=r"stage-000.*learner.decay: 0.25, was 0.5"):
        fit(tmp_path, resume=True, decay=0.25)
    np.testing.assert_raises_regex(ModelError, "earlier run", fit, tmp_path)
    assert sorted(tmp_path.iterdir()) == kept


def test_a_damaged_result_is_named_and_once_removed_made_again(tmp_path):
    np.testing.assert_raises(Stop, fit, tmp_path, [killing((ev.RoundEnded, "train", 2))])
    damaged = tmp_path / "stage-001.sdem"
    damaged.write_bytes(damaged.read_bytes()[:-50])
    with pytest.raises(ModelError, match=r"stage-001.*remove the damaged result"):
        fit(tmp_path, resume=True)
    damaged.unlink()
    assert same(fit(tmp_path, resume=True), fit())


def test_events_of_each_stage():
    events: list = []
    fit(callbacks=[events.append])
    assert isinstance(events[0], ev.RunStarted) and events[-1] == ev.RunEnded(6)
    told = [e for e in events if isinstance(e, ev.StageStarted | ev.Scored)]
    assert [(e.stage, e.number) for e in told] == list(zip(NAMES, range(6), strict=True))
    started = [e for e in told if isinstance(e, ev.StageStarted)]
    assert [(e.monitored, e.main_metrics) for e in started] == [(False, ())] * 3 + [(True, ("loss",))]
    ended = [(e.stage, e.n_epochs, e.reason) for e in events if isinstance(e, ev.StageEnded)]
    assert ended == [(name, rounds // 2, "epochs") for name, rounds in ROUNDS.items()]
    for name, rounds in ROUNDS.items():
        assert sum(isinstance(e, ev.RoundEnded) and e.stage == name for e in events) == rounds
    assert all(bool(e.metrics) == (e.stage == "train") for e in events if isinstance(e, ev.EpochEnded))
    assert sum(isinstance(e, ev.Compiled) for e in events) == 1, "one kind of learner"
    assert not any(isinstance(e, ev.CheckpointWritten) for e in events)


def test_a_stage_may_have_documents_of_its_own():
    other = corpus_of(seed=5)

    with Executor(1) as executor, Trainer(executor, CORPUS) as trainer:
        stages = [Stage("train", Summing("train"), plan(1), corpus=corpus) for corpus in (None, CORPUS, other)]
        found = [trainer.run(stage).state for stage in stages]
        stages = [stages[0], replace(stages[2], corpus=None)]
        changed = trainer.changed(lambda stage: replace(stage, corpus=other)).changed(lambda stage: stages[1])
        assert np.array_equal(changed.run(stages[0]).state.words, found[2].words)
    assert np.array_equal(found[0].words, found[1].words) and not np.array_equal(found[0].words, found[2].words)


def test_patience_ends_the_stage_that_is_monitored():
    watching = replace(MONITORING, validation=corpus_of(seed=7), patience=1)
    with Executor(1) as executor:
        trainer = Trainer(executor, CORPUS, monitoring=watching)
        result = trainer.run(Stage("train", Summing("train", decay=2.0), plan(30), monitored=True))
        quiet = trainer.run(Stage("train", Summing("train", 2.0), plan(30)))
    assert len(result.history) < 30 == len(quiet.history)


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
    ended = next(event for event in events if isinstance(event, ev.StageEnded))
    reason = "patience" if n_epochs == 60 else "epochs"
    assert (ended.reason, ended.best_epoch, ended.n_epochs) == (reason, best, model.n_iter_)
    assert model.evaluate(*HELD_OUT)[loss] == pytest.approx(watched[best], rel=1e-12)
    np.testing.assert_array_equal(model.state_.words, MultinomialNB(n_epochs=best, **settings).fit(X, Y).state_.words)


def test_events_in_order(tmp_path):
    events: list = []
    model = MultinomialNB(n_epochs=2, n_lanes=3, rounds_per_epoch=2, **ONE_STAGE)
    model.fit(X, Y, checkpoint=tmp_path, checkpoint_rounds=1, callbacks=[events.append])
    lanes = [e for e in events if isinstance(e, ev.LanesEnded)]
    assert {(e.epoch, e.round) for e in lanes} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert sum(e.n_lanes for e in lanes) == 3 * 2 * 2 and sum(e.n_documents for e in lanes) == 2 * X.shape[0]
    events = [e for e in events if not isinstance(e, ev.LanesEnded)]
    epoch = [ev.RoundEnded, ev.CheckpointWritten, ev.RoundEnded, ev.EpochEnded, ev.CheckpointWritten]
    first, last = [ev.RunStarted, ev.StageStarted, ev.Compiled], [ev.StageEnded, ev.RunEnded]
    assert [type(e) for e in events] == [*first, *epoch, *epoch, *last]
    started = events[1]
    assert (started.n_epochs, started.n_rounds, started.n_lanes, started.epoch) == (2, 2, 3, 0)
    assert [(e.epoch, e.round) for e in events if isinstance(e, ev.RoundEnded)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    ended = [e for e in events if isinstance(e, ev.EpochEnded)]
    assert [e.epoch for e in ended] == [0, 1]
    assert all(set(e.metrics) == METRICS and e.documents_per_second > 0 for e in ended)
    assert events[-2:] == [ev.StageEnded("train", 0, 2, "epochs", 2), ev.RunEnded(1)]


@pytest.mark.parametrize("every", [None, 1, 3])
def test_rounds_that_go_together_are_told_and_kept_one_by_one(every, tmp_path, monkeypatch):
    def trained(folder):
        events: list = []
        model = MultinomialNB(n_epochs=2, n_lanes=2, rounds_per_epoch=10, n_jobs=1, **ONE_STAGE)
        model.fit(X, Y, checkpoint=folder, checkpoint_rounds=every, callbacks=[events.append])
        kinds = ev.RoundEnded | ev.LanesEnded | ev.CheckpointWritten
        told = [(type(e), e.epoch, e.round) for e in events if isinstance(e, kinds)]
        # Two lanes are told as one task, or as two.
        return model, list(dict.fromkeys(told)), sorted(path.name for path in folder.iterdir())

    apart, submit = trained(tmp_path / "apart"), Executor.submit
    functions: list = []

    def counted(self, function, *args, affinity=None):
        functions.append(function.__name__)
        return submit(self, function, *args, affinity=affinity)

    monkeypatch.setattr(Executor, "submit", counted)
    monkeypatch.setattr(Executor, "max_pending_rounds", 1)  # as on a cluster
    monkeypatch.setattr(TaskSizes, "lanes_and_rounds", lambda sizes: (2, 4))
    together = trained(tmp_path / "together")
    np.testing.assert_array_equal(together[0].state_.words, apart[0].state_.words)
    assert together[1:] == apart[1:]
    n_tasks = {None: 2 * 3, 1: 20, 3: 8}  # of ten rounds in an epoch; a task ends where a checkpoint is due
    assert functions.count("run_rounds") == n_tasks[every]


@pytest.mark.parametrize("settings", [{"rounds_per_epoch": 8}, {"merge": "sum", "batch_size": 1, "n_lanes": 4}])
def test_more_rounds_and_lanes_than_documents(settings):
    model = MultinomialNB(n_epochs=3, **ONE_STAGE, **settings).fit(X[:5], [0, 1, 0, 1, 1])
    assert model.n_iter_ == 3 and np.isfinite(model.feature_log_prob_).all() and model.state_.t == 15


def test_a_training_that_fails_leaves_no_threads():
    import threading

    before = threading.active_count()

    def fail(event):
        raise RuntimeError("stop here")

    with pytest.raises(RuntimeError, match="stop here"):
        MultinomialNB().fit(np.tile(X.toarray(), (40, 1)), np.tile(Y, 40), callbacks=[fail])
    assert threading.active_count() == before
