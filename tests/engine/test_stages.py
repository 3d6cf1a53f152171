"""A fit of several stages: one executor, events of each, and a resume that does nothing twice but the interval under way."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pytest
from reference.random_documents import random_counts

from sdem_dist.corpus import MemoryCorpus
from sdem_dist.engine import events as ev
from sdem_dist.engine.checkpoint import Checkpoints
from sdem_dist.engine.executor import InProcess
from sdem_dist.engine.plan import Monitoring, Plan, Stage, StageResult
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


class Killed(Exception):
    pass


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
        metrics = trainer.score(f"score {number}", learner, state)
        found.append((metrics["loss"], number, state))
    best = min(found)[2]
    return trainer.run(Stage("train", Summing("train", decay), plan(n_epochs), lambda: best, monitored=True))


def fit(folder=None, callbacks=(), made=None, resume=False, executor=None, **more) -> StageResult:
    checkpoints = None if folder is None else Checkpoints(folder, every_rounds=1)
    with InProcess(1) as here:
        options = {"settings": {"corpus": "it"}, "resume": resume, "callbacks": callbacks}
        with Trainer(executor or here, CORPUS, monitoring=MONITORING, checkpoints=checkpoints, **options) as trainer:
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


def killing(at: tuple[type, str, int]):
    """Return a callback that ends the driver at the n-th event of a kind and stage."""
    kind, stage, count = at
    seen = []

    def callback(event) -> None:
        if isinstance(event, kind) and event.stage == stage:
            seen.append(event)
            if len(seen) == count:
                raise Killed

    return callback


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
        with InProcess(1) as here:
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
    with pytest.raises(Killed):
        fit(tmp_path, [killing(point)], executor=executor())
    before = begun()
    resumed = fit(tmp_path, resume=True, executor=executor())
    after = begun()
    assert same(resumed, whole)
    assert len(set(before) & set(after)) <= 1, "at most one interval is done again"
    assert len({*before, *after}) == sum(ROUNDS.values())


def test_finished_stages_are_not_run_again_and_starts_not_made_again(tmp_path):
    made: list = []
    with pytest.raises(Killed):
        fit(tmp_path, [killing((ev.RoundEnded, "train", 3))], made)
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
    assert sorted(p.name for p in tmp_path.glob("checkpoint-*")) == [
        "checkpoint-005-000002-000001.sdem", "checkpoint-005-000003-000000.sdem",
    ]  # fmt: skip
    begun()
    longer = fit(tmp_path, resume=True, n_epochs=5)
    assert begun() == [("train", epoch, round_) for epoch in (3, 4) for round_ in (0, 1)]
    assert same(longer, fit(n_epochs=5))
    with pytest.raises(ModelError, match="has run 5 epochs"):
        fit(tmp_path, resume=True)


def test_a_scoring_after_the_last_stage_does_not_end_its_checkpoints(tmp_path):
    def fitted(n_epochs, **more):
        with InProcess(1) as executor, Trainer(executor, CORPUS, monitoring=MONITORING, **more) as trainer:
            result = trainer.run(Stage("train", Summing("train"), plan(n_epochs), monitored=True))
            return result, trainer.score("score", Summing("train"), result.state)

    fitted(2, checkpoints=Checkpoints(tmp_path))
    result, metrics = fitted(4, checkpoints=Checkpoints(tmp_path), resume=True)
    expected, scored = fitted(4)
    assert same(result, expected) and metrics == scored == {"loss": pytest.approx(result.history[-1]["loss"])}


@pytest.mark.parametrize("at", ["start 2 of 2", "train"])
def test_other_settings_are_refused_by_name_in_any_stage(at, tmp_path):
    with pytest.raises(Killed):
        fit(tmp_path, [killing((ev.RoundEnded, at, 2))])
    kept = sorted(tmp_path.iterdir())
    with pytest.raises(OtherRunError, match=r"stage-000.*learner.decay: 0.25, before 0.5"):
        fit(tmp_path, resume=True, decay=0.25)
    with pytest.raises(ModelError, match="earlier run"):
        fit(tmp_path)
    assert sorted(tmp_path.iterdir()) == kept


def test_a_damaged_result_is_named_and_once_removed_made_again(tmp_path):
    with pytest.raises(Killed):
        fit(tmp_path, [killing((ev.RoundEnded, "train", 2))])
    damaged = tmp_path / "stage-001.sdem"
    damaged.write_bytes(damaged.read_bytes()[:-50])
    with pytest.raises(ModelError, match=r"stage-001.*remove the damaged result of a stage"):
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
    assert [(e.stage, e.n_epochs, e.reason) for e in events if isinstance(e, ev.StageEnded)] == [
        ("survey", 1, "epochs"), ("start 1 of 2", 2, "epochs"), ("start 2 of 2", 2, "epochs"), ("train", 3, "epochs"),
    ]  # fmt: skip
    for name, rounds in ROUNDS.items():
        assert sum(isinstance(e, ev.RoundEnded) and e.stage == name for e in events) == rounds
    assert all(bool(e.metrics) == (e.stage == "train") for e in events if isinstance(e, ev.EpochEnded))
    assert sum(isinstance(e, ev.Compiled) for e in events) == 1, "one kind of learner"
    assert not any(isinstance(e, ev.CheckpointWritten) for e in events)


def test_a_stage_may_have_documents_of_its_own():
    other = corpus_of(seed=5)

    with InProcess(1) as executor, Trainer(executor, CORPUS) as trainer:
        stages = [Stage("train", Summing("train"), plan(1), corpus=corpus) for corpus in (None, CORPUS, other)]
        found = [trainer.run(stage).state for stage in stages]
        stages = [stages[0], replace(stages[2], corpus=None)]
        changed = trainer.changed(lambda stage: replace(stage, corpus=other)).changed(lambda stage: stages[1])
        assert np.array_equal(changed.run(stages[0]).state.words, found[2].words)
    assert np.array_equal(found[0].words, found[1].words) and not np.array_equal(found[0].words, found[2].words)


def test_patience_ends_the_stage_that_is_monitored():
    watching = replace(MONITORING, validation=corpus_of(seed=7), patience=1)
    with InProcess(1) as executor:
        trainer = Trainer(executor, CORPUS, monitoring=watching)
        result = trainer.run(Stage("train", Summing("train", decay=2.0), plan(30), monitored=True))
        quiet = trainer.run(Stage("train", Summing("train", 2.0), plan(30)))
    assert len(result.history) < 30 == len(quiet.history)
