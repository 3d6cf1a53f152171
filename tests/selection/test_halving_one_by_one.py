"""Settings that are fitted one by one: compared after epochs 2, 4, 8..., within budgets, the same however they are trained."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from selection.test_half_labelled_searches import HALF
from selection.test_half_labelled_searches import X as COUNTS
from sklearn.datasets import load_digits

from sdem_dist import (
    BernoulliNB,
    CorpusSearchCV,
    GaussianMixture,
    GaussianNB,
    LDAClassifier,
    ManyClassNB,
    MultinomialNB,
    SdemMixtureClassifier,
    cross_validate,
    write_corpus,
)
from sdem_dist.fitting import running
from sdem_dist.selection import one_by_one
from sdem_dist.selection.schedule import Schedule
from sdem_dist.selection.trials import Trial

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 200)
X = RNG.normal(Y[:, None] * [0.6, -0.4, 0.2], [0.5, 1.0, 1.5])
SPACE = {"loss": ["ncll", "hinge"], "var_smoothing": [0.01, 0.1, 0.3, 1.0]}
TOPICS = {"n_components": [1, 3], "step": [0.02, 0.2]}


def table(search):
    columns = search.cv_results_
    return {name: list(columns[name]) for name in columns if name != "seconds"}


def check_same(one, other):
    assert one.best_params_ == other.best_params_ and one.best_score_ == other.best_score_
    np.testing.assert_equal(table(one), table(other))
    assert [trial.epochs for trial in one.trials_] == [trial.epochs for trial in other.trials_]
    if hasattr(one, "oof_proba_"):
        np.testing.assert_array_equal(one.oof_proba_, other.oof_proba_)


def searched(estimator=None, space=SPACE, *documents, cv=2, **more):
    estimator = GaussianNB(n_epochs=8, n_jobs=1) if estimator is None else estimator
    fit = {name: more.pop(name) for name in ("client", "checkpoint", "resume") if name in more}
    return CorpusSearchCV(estimator, space, cv=cv, **{"halving": True, **more}).fit(*(documents or (X, Y)), **fit)


def half_labelled(n_epochs):
    return MultinomialNB(unlabelled=-1, loss="ncll", n_epochs=n_epochs, validation_fraction=0.0, n_jobs=1)


def test_the_worse_half_goes_and_what_is_left_has_the_bits_of_training_it_alone():
    found = searched(refit=False)
    dropped = [trial.dropped for trial in found.trials_]
    assert dropped[0] is None
    assert [dropped[1:].count(epoch) for epoch in (2, 4, None)] == [4, 2, 2], "of nine the default goes on besides"
    for trial in found.trials_:
        assert [of["epoch"] for of in trial.epochs] == [e for e in (2, 4, 8) if e <= trial.trained]
        assert trial.trained == (trial.dropped or 8)
        alone = GaussianNB(n_jobs=1, **{**trial.params, "n_epochs": trial.n_epochs})
        for name, scores in cross_validate(alone, X, Y, cv=2).scores.items():
            np.testing.assert_array_equal(trial.scores[name], scores)


@pytest.mark.parametrize(
    ("estimator", "space", "documents"),
    [
        (LDAClassifier(n_epochs=4, n_jobs=1), TOPICS, (COUNTS, HALF + 1)),
        (ManyClassNB(n_epochs=4, n_jobs=1), {"step": [0.02, 0.1, 0.4], "loss": ["hinge", "nll"]}, (COUNTS, HALF + 1)),
        (half_labelled(4), {"step": [0.02, 0.5], "alpha": [0.1, 1.0]}, (COUNTS, HALF)),
        (GaussianMixture(n_init=1, n_epochs=4, n_jobs=1), {"n_components": [1, 2, 3]}, (X,)),
    ],
    ids=["topics", "many classes", "half-labelled", "clusters"],
)
def test_all_kinds_are_halved(estimator, space, documents):
    found = searched(estimator, space, *documents, refit=False)
    assert found.trials_[0].dropped is None and any(trial.dropped for trial in found.trials_)
    for trial in found.trials_:
        alone = type(estimator)(**{**estimator.get_params(), **trial.params, "n_epochs": trial.n_epochs})
        for name, scores in cross_validate(alone, *documents, cv=2).scores.items():
            np.testing.assert_array_equal(trial.scores[name], scores)


def overtrained(**more):
    """Return a search whose settings are best after their first training."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 60)
    table = rng.normal(y[:, None] * 0.5, 1.0, (60, 12))
    return searched(GaussianNB(n_epochs=32, n_jobs=1), {"var_smoothing": [0.01, 0.1], **more}, table, y)


def test_the_best_epochs_of_a_setting_count():
    found = overtrained()
    default, *others = found.trials_
    assert default.n_epochs == default.trained == 32, "the default is the default"
    assert any(trial.n_epochs < trial.trained for trial in others)
    for trial in found.trials_[1:]:
        best = min(trial.epochs, key=lambda of: of["log-loss"])
        assert (trial.n_epochs, trial.scores["log-loss"].mean()) == (best["epoch"], best["log-loss"])
    best = found.trials_[found.best_index_]
    assert found.best_params_["n_epochs"] == best.n_epochs == found.best_estimator_.n_iter_ < best.trained
    named = overtrained(n_epochs=[16])
    assert all(trial.n_epochs == trial.trained for trial in named.trials_)


def test_equal_settings_are_trained_once(monkeypatch):
    asked = list[tuple[object, object]]()
    run = one_by_one.run

    def noted(unfitted, *more):
        asked.append((unfitted.var_smoothing, unfitted.n_epochs))
        return run(unfitted, *more)

    monkeypatch.setattr(one_by_one, "run", noted)
    found = searched(space={"n_epochs": [16, 32], "var_smoothing": [0.1, 0.3]}, refit=False, seconds=1e6)
    assert len(asked) == len(set(asked)) < sum(len(trial.epochs) for trial in found.trials_)
    for trial in found.trials_:
        alone = GaussianNB(n_jobs=1).set_params(**trial.params).set_params(n_epochs=trial.n_epochs)
        scores = cross_validate(alone, X, Y, cv=2).scores["log-loss"]
        np.testing.assert_array_equal(trial.scores["log-loss"], scores)


def test_time_ends_a_setting_in_its_midst(monkeypatch, caplog):
    began, clock = list[int](), iter(range(10**9))

    class Later(Schedule):
        elapsed = property(lambda self: next(clock) if began else 0.0)

    monkeypatch.setattr("sdem_dist.selection.search.Schedule", Later)
    for halving, seconds in ((True, 30), (False, 30), ("brackets", 150)):
        began.clear()

        def see(event):
            began.append(event.epoch)

        found = searched(seconds=seconds, halving=halving, callbacks=[see], refit=False)
        assert len(found.trials_) < 8 or any(trial.error == "the time was over" for trial in found.trials_)
        assert found.best_index_ == 0 or found.trials_[found.best_index_].scores
        late = 9 - sum(bool(trial.scores) for trial in found.trials_)
        said = f"{late} setting{'s were' if late > 1 else ' was'} not tried."
        assert (said in " ".join(found.summary().split())) == (late > 0)
    assert late and any(trial.error == "the time was over" for trial in found.trials_), (
        "brackets leave some in the midst"
    )
    assert sum("its time is over" in record.message for record in caplog.records) == 3


def test_epochs_are_bounded_and_the_best_is_trained_for_as_many():
    found = searched(max_epochs=3, halving=False)
    assert {trial.n_epochs for trial in found.trials_} == {3}
    assert found.best_params_["n_epochs"] == found.best_estimator_.n_iter_ == 3
    assert "n_epochs=3" in found.summary()
    own = searched(max_epochs=100, halving=False)
    assert {trial.n_epochs for trial in own.trials_} == {8} and "n_epochs" not in own.best_params_
    mixture = searched(SdemMixtureClassifier(n_jobs=1), {"n_components": [1]}, max_epochs=2, halving=False)
    assert [trial.n_epochs for trial in mixture.trials_] == [2, 2]


@pytest.mark.parametrize("total", [3, 9, 17, 30])
@pytest.mark.parametrize("halving", [True, False, "brackets"])
def test_epochs_of_all_settings_keep_within_their_budget(total, halving):
    found = searched(total_epochs=total, halving=halving)
    used = sum(trial.n_epochs for trial in found.trials_)
    assert used <= total and found.trials_[0].n_epochs == min(8, total)
    assert len(found.trials_) >= 1 + max(0, total - 8) // (6 if halving else 8)
    best = found.trials_[found.best_index_]
    assert found.best_estimator_.n_iter_ == best.n_epochs


def test_where_it_is_left_to_the_fit_the_last_training_is_as_it_would_be():
    found = searched(half_labelled("auto"), {"step": [0.02, 0.5]}, COUNTS, HALF, refit=False)
    assert [of["epoch"] for of in found.trials_[found.best_index_].epochs] == [2, 6]
    alone = cross_validate(half_labelled("auto"), COUNTS, HALF, cv=2)
    np.testing.assert_array_equal(found.trials_[0].scores["log-loss"], alone.scores["log-loss"])
    closed = searched(GaussianNB(loss="nll", n_jobs=1), {"loss": ["ncll"]}, halving="brackets")
    assert closed.trials_[0].epochs[-1]["epoch"] == 1


def test_settings_that_are_not_reached_in_time_are_left_out():
    found = searched(seconds=1e-9)
    assert len(found.trials_) == 1 and found.best_params_ == {"n_epochs": 2}
    said = "The time was over: the default was cut after 2 epochs, and 8 settings were not tried."
    assert said in " ".join(found.summary().split())
    assert found.best_estimator_.n_iter_ == 2
    of_brackets = searched(seconds=1e-9, halving="brackets")
    assert {trial.error for trial in of_brackets.trials_[1:]} <= {"the time was over"}


def test_in_brackets_some_learn_longer_before_they_are_dropped():
    found = searched(halving="brackets")
    assert len({trial.bracket for trial in found.trials_}) > 1
    for trial in found.trials_[1:]:
        assert trial.epochs[0]["epoch"] in (2 << trial.bracket, 8)
        assert trial.dropped is None or trial.dropped >= 2 << trial.bracket


def test_by_itself_none_is_dropped_and_one_that_learns_longer_wins():
    """Models of tables begin as the generative fit: after an epoch all losses are alike."""
    digits, y = load_digits(return_X_y=True)
    digits, space = (digits > 7).astype(float), {"loss": ["ncll", "hinge"]}
    found = CorpusSearchCV(BernoulliNB(loss="nll", n_jobs=1), space, cv=3).fit(digits, y)
    assert (
        found.best_params_ == {"loss": "ncll"} and -found.best_score_ < 0.3 < found.trials_[0].scores["log-loss"].mean()
    )
    assert not any(trial.dropped for trial in found.trials_)
    halved = searched(BernoulliNB(loss="nll", n_jobs=1), space, digits, y, cv=3, refit=False)
    assert halved.best_params_ == found.best_params_


def test_an_error_in_a_later_training_leaves_the_scores_of_the_one_before(monkeypatch):
    fit = GaussianNB.fit

    def failing(self, *args, **more):
        if self.n_epochs >= 4 and self.var_smoothing in SPACE["var_smoothing"]:
            raise ValueError("it went wrong")
        return fit(self, *args, **more)

    monkeypatch.setattr(GaussianNB, "fit", failing)
    found = searched()
    trial = next(trial for trial in found.trials_ if trial.error)
    assert not trial.alive and trial.n_epochs == trial.trained == 2
    alone = cross_validate(GaussianNB(**{**trial.params, "n_epochs": 2}, n_jobs=1), X, Y, cv=2)
    np.testing.assert_array_equal(trial.scores["log-loss"], alone.scores["log-loss"])
    assert "trained no further than 2 epochs, it went wrong" in " ".join(found.summary().split())


def test_how_far_settings_are_trained_at_once():
    trials = [Trial(i, {}, most) for i, most in enumerate((60, 60, 10, 3, 1))]
    schedule = Schedule("accuracy", True, None, 0)
    goals = [[schedule.goal(trial, trials, epoch) for trial in trials] for epoch in (1, 2, 4, 8, 16, 32)]
    assert np.transpose(goals).tolist() == [
        [1, 2, 4, 8, 16, 60],
        [1, 2, 4, 8, 16, 60],
        [1, 2, 4, 10, 10, 10],
        [1, 3, 3, 3, 3, 3],
        [1] * 6,
    ]
    for trial in trials[1:]:
        trial.alive = False
    assert schedule.goal(trials[0], trials, 2) == 60  # nothing is left to compare it with


def test_threads_and_workers_find_the_same(tmp_path, monkeypatch, client):
    monkeypatch.setattr(running, "SMALL", 0)
    corpus = write_corpus(tmp_path / "c.zarr", X, Y, dense=True, shard_documents=40)
    of = [searched(GaussianNB(n_epochs=8, n_lanes=5, n_jobs=n), SPACE, corpus) for n in (1, 2, 3)]
    check_same(of[0], of[1])
    check_same(of[0], of[2])
    check_same(of[0], searched(GaussianNB(n_epochs=8, n_lanes=5), SPACE, corpus, client=client))


@pytest.mark.parametrize(
    "more", [{}, {"halving": "brackets"}, {"total_epochs": 25}], ids=["halved", "brackets", "budget"]
)
def test_stopped_anywhere_it_goes_on_as_if_nothing_had_happened(tmp_path, more):
    class Stop(Exception):
        pass

    straight, stop = searched(**more), 0
    while stop < 40:
        stop += 4
        seen = []

        def see(event, seen=seen, stop=stop):
            seen.append(event)
            if len(seen) == stop:
                raise Stop

        try:
            found = searched(**more, callbacks=[see], checkpoint=tmp_path / "run", resume=stop > 4)
        except Stop:
            continue
        break
    check_same(found, straight)


KILLED = """
import os, signal, sys
from selection.test_halving_one_by_one import searched

def kill(event):
    if event.what == "epoch" and event.epoch == 4:
        os.kill(os.getpid(), signal.SIGKILL)

searched(callbacks=[kill], checkpoint=sys.argv[1])
"""


def test_a_killed_process_is_taken_up(tmp_path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(["tests", *sys.path])}
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "run")], env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
    assert any("after" in path.name for path in kept)
    check_same(searched(checkpoint=tmp_path / "run", resume=True), searched())
    assert kept.items() <= {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}.items()


def test_another_bound_is_another_search(tmp_path):
    searched(max_epochs=2, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="epochs of a setting: 4, before 2"):
        searched(max_epochs=4, checkpoint=tmp_path / "run", resume=True)


@pytest.mark.parametrize(("default", "total"), [(BernoulliNB(loss="nll"), 70), (GaussianNB(n_epochs=2), 10)])
def test_a_budget_is_kept_where_the_default_has_few_epochs(default, total):
    X, y = load_digits(return_X_y=True)
    space = {"loss": ["ncll", "hinge"], "alpha": [0.5, 2.0]} if default.loss == "nll" else {"n_epochs": [40]}
    search = CorpusSearchCV(default, space, cv=2, n_trials=None, total_epochs=total, refit=False).fit(X > 7, y)
    assert len(search.trials_) > 1 and sum(trial.trained for trial in search.trials_) <= total
