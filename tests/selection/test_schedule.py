"""Which settings go on: halving, brackets, budgets; what Optuna proposes; own losses and metrics; nested scores; reads."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pytest
from scipy.stats import loguniform, randint
from selection.test_search import SPACE, same, search
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score, log_loss

from sdem_dist import CorpusSearchCV, MultinomialNB
from sdem_dist.byte_cache import prepared_cache
from sdem_dist.corpus import Corpus
from sdem_dist.inputs.source import source_of
from sdem_dist.losses import Hinge
from sdem_dist.selection import run
from sdem_dist.selection.predicted import Predicted
from sdem_dist.selection.samplers import sampler_of
from sdem_dist.selection.schedule import Schedule, bracket_sizes, kept_after, let_go, worse
from sdem_dist.selection.summary import WIDTH, lines
from sdem_dist.selection.trials import Trial, best_of, ranked


def trials_of(*scores):
    return [Trial(i, {}, 20, scores={"accuracy": np.array([score])}) for i, score in enumerate(scores)]


def test_the_better_half_goes_on():
    trials = trials_of(0.5, 0.9, 0.7, 0.9, 0.1)
    let_go(ranked(trials, "accuracy")[kept_after(1, 5) :], 1)
    assert [trial.alive for trial in trials] == [True, True, False, True, False]
    assert [kept_after(epoch, 16) for epoch in range(1, 10)] == [8, 4, None, 2, None, None, None, 1, None]


def said(n_right, sure, n=400):
    """Return what folds say of documents of class 0: so many right, each with a probability of `sure`."""
    log_proba = np.log(np.tile([sure, 1.0 - sure], (n, 1)))
    log_proba[n_right:] = log_proba[n_right:, ::-1]
    return Predicted(log_proba, np.zeros(n, int), np.ones(n), np.arange(n) % 2)


def test_the_last_epoch_is_taken_where_it_gained_a_little():
    for last, n_epochs in ((0.9005, 3), (0.8995, 1)):  # a log-loss .5 % lower, or higher
        trial = Trial(0, {}, 20)
        for sure in (0.9, 0.9):
            trial.ended_epoch(said(400, sure), ("log-loss",))
            assert trial.alive and trial.n_epochs == 1
        trial.ended_epoch(said(400, last), ("log-loss",))
        assert not trial.alive and trial.n_epochs == n_epochs and len(trial.epochs) == 3
        assert trial.scores["log-loss"].mean() == pytest.approx(-np.log(max(last, 0.9)))


def test_an_epoch_without_a_gain_at_the_start_is_not_the_end():
    trial = Trial(0, {}, 20)
    for sure, n_epochs in ((0.8, 1), (0.79, 1), (0.85, 3), (0.9, 4), (0.89, 4)):
        assert trial.alive
        trial.ended_epoch(said(400, sure), ("log-loss",))
        assert trial.n_epochs == n_epochs
    assert not trial.alive and trial.scores["log-loss"].mean() == pytest.approx(-np.log(0.9))


def test_what_is_as_good_as_a_setting_that_goes_on_goes_on():
    trials = trials_of(0.5, 0.9, 0.9, 0.9 + 1e-12, 0.5, 0.4)
    assert worse(trials, 1, "accuracy") == [trials[5]]  # the others are as good as the best, or as the default
    trials[0].number = 6
    assert worse(trials, 1, "accuracy") == [trials[4], trials[0], trials[5]]


def test_by_log_loss_a_setting_that_is_clearly_less_accurate_does_not_win():
    for n_right, wins in ((388, True), (360, False)):  # .5 and 7.5 points under the default
        default, other = Trial(0, {}, 20), Trial(1, {"step": 1.0}, 20)
        default.ended_epoch(said(390, 0.6), ("log-loss", "accuracy"))
        other.ended_epoch(said(n_right, 0.8), ("log-loss", "accuracy"))
        assert other.score("log-loss") > default.score("log-loss")
        assert best_of([default, other], "log-loss") is (other if wins else default)
        assert best_of([default, other], "accuracy") is default


def test_brackets_are_halved_later_and_cost_about_the_same():
    assert bracket_sizes(16) == [16, 10, 7, 5, 5]  # Li et al. 2018, with eta = 2 and R = 16
    assert [kept_after(epoch, 8, first=3) for epoch in (1, 2, 3, 4, 6, 9, 12)] == [None, None, 4, None, 2, None, 1]
    assert [kept_after(epoch, 8, first=4) for epoch in (1, 2, 4, 8, 16)] == [None, None, 4, 2, 1]
    trials, schedule = trials_of(*np.linspace(0.0, 1.0, 43)), Schedule("accuracy", "brackets", 16, 0)
    schedule.begin(trials)
    assert np.bincount([trial.bracket for trial in trials]).tolist() == [16, 10, 7, 5, 5]
    schedule.ended_epoch(trials, 1)
    assert {trial.bracket for trial in trials if not trial.alive} == {0}
    assert sum(trial.dropped == 1 for trial in trials) in (7, 8)  # the first of all goes on


def test_a_budget_of_epochs_lets_the_best_go_on():
    trials, schedule = trials_of(0.5, 0.9, 0.7, 0.9), Schedule("accuracy", False, 20, 0, total_epochs=6)
    for trial in trials:
        trial.epochs = [{"epoch": 1}]
    schedule.ended_epoch(trials, 1)
    assert [trial.alive for trial in trials] == [True, True, False, False]


def test_the_report_says_that_time_cut_the_default(corpus):
    said = " ".join(search(corpus, seconds=1e-9).summary().split())
    assert "The time was over: the default was cut after 1 epoch." in said
    assert "The time was over" not in search(corpus, seconds=3600).summary()


@pytest.mark.parametrize(("halving", "each"), [(False, 5), (True, 3)])
def test_a_budget_of_epochs_has_room_for_the_default_and_a_few_epochs_of_each_other(halving, each):
    schedule = Schedule("accuracy", halving, 20, 0, total_epochs=20)
    assert schedule.room(10) == 1
    schedule.ended_turn([Trial(0, {}, 20, epochs=[{"epoch": 5}])])
    assert schedule.room(10) == 15 // each and schedule.room(2) == 2


@pytest.mark.parametrize("halving", [True, False, "brackets"])
def test_the_default_learns_to_its_end_within_a_budget(corpus, halving):
    whole = search(corpus, halving=False).trials_[0]
    for total in (len(whole.epochs), len(whole.epochs) + 12, 40):
        found = search(corpus, total_epochs=total, halving=halving)
        assert found.trials_[0].epochs == whole.epochs and found.trials_[0].dropped is None
        assert sum(len(trial.epochs) for trial in found.trials_) <= total
        n = 9 - len(found.trials_)
        said = " ".join(found.summary().split())
        were = f"{n} setting{'s were' if n > 1 else ' was'} not tried: the budget of epochs has no room for"
        assert (were in said) == (n > 0)
    assert len(found.trials_) > 1
    few = search(corpus, total_epochs=1, halving=halving)
    assert len(few.trials_) == 1 and few.trials_[0].n_epochs == 1
    assert "*" not in few.summary(), "others did not push it out"
    assert "The budget of epochs is used up: the default was cut after 1 epoch. 8 settings were not" in " ".join(
        few.summary().split()
    )


def test_memory_decides_how_many_go_side_by_side_and_a_stop_in_a_later_turn(corpus, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(run, "at_once", lambda *_: 3)
    found = search(corpus)
    assert len(found.trials_) == 9

    class Stop(Exception):
        pass

    def stop(event):
        if len(event.trials) == 6 and event.epoch == 1:
            raise Stop

    more = {"checkpoint": tmp_path / "run"}
    with pytest.raises(Stop):
        CorpusSearchCV(MultinomialNB(), SPACE, cv=3, n_jobs=1, callbacks=[stop]).fit(corpus, **more)
    same(CorpusSearchCV(MultinomialNB(), SPACE, cv=3, n_jobs=1).fit(corpus, resume=True, **more), found)
    monkeypatch.undo()
    from sdem_dist.engine.memory import LOADED, SHARE
    from sdem_dist.selection.side_by_side import at_once

    memory = int(LOADED / SHARE) + 60_000
    with caplog.at_level(logging.WARNING):
        assert at_once(MultinomialNB(), source_of(MultinomialNB(), corpus), 3, 9, memory, 1) < 9
    assert "of 9 settings side by side" in caplog.text


def test_optuna_proposes_the_same_for_a_seed(corpus):
    pytest.importorskip("optuna")
    space = [{"loss": ["hinge"], "step": loguniform(0.05, 2.0)}, {"loss": ["ncll"], "min_df": randint(1, 4)}]
    more = {"space": space, "cv": 3, "n_trials": 10, "sampler": "optuna", "refit": False}
    found = CorpusSearchCV(MultinomialNB(), n_jobs=1, **more).fit(corpus)
    same(CorpusSearchCV(MultinomialNB(), n_jobs=2, **more).fit(corpus), found)
    tried = found.cv_results_["params"]
    assert len(tried) == 10 and tried[0] == {}
    assert all(0.05 <= params["step"] <= 2.0 for params in tried if "step" in params)
    other = CorpusSearchCV(MultinomialNB(), n_jobs=1, random_state=1, **more).fit(corpus)
    assert other.cv_results_["params"] != tried
    with pytest.raises(ValueError, match="n_trials"):
        CorpusSearchCV(MultinomialNB(), sampler="optuna", n_trials=None).fit(corpus)


def test_optuna_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"sdem_dist\[optuna\]"):
        sampler_of("optuna", MultinomialNB(), {"alpha": [1.0]}, 3, 0, source_of(MultinomialNB(), np.eye(3), [0, 1, 0]))


def test_a_nested_score_is_of_searches_without_the_fold(corpus):
    space = {"loss": ["hinge", "ncll"]}
    told = list[run.EpochOfSettings]()
    found = CorpusSearchCV(MultinomialNB(), space, cv=3, nested=True, n_jobs=1, callbacks=[told.append]).fit(corpus)
    assert [(event.epoch, event.most) for event in told if event.what == run.NESTED] == [(1, 3), (2, 3), (3, 3)]
    folds, whole = corpus.folds(3), corpus.read(0, corpus.n_documents)
    for fold in range(3):
        inner = CorpusSearchCV(MultinomialNB(), space, cv=3, n_jobs=1).fit(folds.train(fold))
        rows = folds.numbers == fold
        proba = inner.best_estimator_.predict_proba(whole.to_csr()[rows])
        loss = -np.log(proba[np.arange(rows.sum()), whole.labels[rows]]).mean()
        assert found.nested_scores_[fold] == pytest.approx(-loss)
    assert found.nested_score_ == found.nested_scores_.mean() != found.best_score_
    said = "\n".join(lines(found))
    assert found.summary() == said and said.startswith("Tried 2 settings, each on 3 folds")
    best = found.trials_[found.best_index_]
    assert f"log-loss {-found.best_score_:.4f}" in repr(best) and "array" not in repr(found.trials_)
    with pytest.raises(NotFittedError):
        CorpusSearchCV(MultinomialNB()).summary()
    assert "Expect the nested score on new documents. The best score above is optimistic" in " ".join(said.split())
    assert f"(+- {found.nested_scores_.std():.4f}, the standard deviation over 3 folds)" in said
    assert max(map(len, said.splitlines())) <= WIDTH


def test_parts_are_cut_evenly_and_know_nothing_of_the_rest(corpus):
    from sdem_dist.corpus.folds import Folds

    outer = corpus.folds(3)
    inner = Folds(outer.train(1), 3)
    inside = outer.numbers != 1
    assert np.ptp(np.bincount(inner.numbers[inside])) <= 1
    assert not inner.test(0).mask[~inside].any() or inner.test(0)._weights[~inside].sum() == 0.0
    assert inner.train(0).weight + inner.test(0).weight == outer.train(1).weight


def test_losses_and_metrics_of_ones_own(corpus, tmp_path):
    def f1(labels, proba):
        return f1_score(labels, proba.argmax(axis=1), average="macro")

    found = CorpusSearchCV(MultinomialNB(), {"loss": [Hinge(0.5), Hinge(2.0), "hinge"]}, cv=3, metric=f1, n_jobs=1).fit(
        corpus, checkpoint=tmp_path / "run"
    )
    whole = corpus.read(0, corpus.n_documents)
    scores = [
        f1_score(whole.labels[inside], found.oof_proba_[inside].argmax(axis=1), average="macro")
        for inside in (found.oof_folds_ == fold for fold in range(3))
    ]
    assert found.best_score_ == pytest.approx(np.mean(scores)) == found.cv_results_["mean_test_score"].max()
    assert len({float(score) for score in found.cv_results_["mean_test_score"]}) > 1


def test_counts_are_taken_once_a_fold_for_all_alphas_and_priors(corpus, monkeypatch):
    """Two reads, one to count and one to score, even where nothing stays in memory."""
    read, seen = Corpus.read, []
    monkeypatch.setattr(Corpus, "read", lambda self, a, b, **more: seen.append(b - a) or read(self, a, b, **more))
    monkeypatch.setattr(prepared_cache, "get", lambda key, make: make())
    space = {"alpha": [0.01, 0.1, 0.5, 1.0, 3.0], "fit_prior": [True, False]}
    found = CorpusSearchCV(MultinomialNB(loss="nll"), space, cv=3, n_jobs=1, refit=False).fit(corpus)
    assert len(found.trials_) == 10  # one of them is the default
    assert sum(seen) == 2 * corpus.n_documents
    monkeypatch.undo()
    folds = corpus.folds(3)
    for trial in found.trials_[::3]:
        alone = [
            MultinomialNB(loss="nll", **trial.params).fit(folds.train(f)).evaluate(folds.test(f)) for f in range(3)
        ]
        assert trial.scores["accuracy"] == pytest.approx([metrics["accuracy"] for metrics in alone])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"halving": "often"}, "halving must be"),
        ({"sampler": "tpe"}, "sampler must be"),
        ({"total_epochs": 0}, "total_epochs"),
        ({"nested": True, "cv": (np.ones((3, 60)), [0, 1, 0])}, "nested"),
        ({"space": ["loss"]}, "a space is a dict"),
    ],
)
def test_mistakes(corpus, settings, message):
    with pytest.raises(ValueError, match=message):
        CorpusSearchCV(MultinomialNB(), **{"space": SPACE, **settings}).fit(corpus)


@pytest.mark.parametrize("value", ["good", np.ones(3)])
def test_a_metric_of_ones_own_that_is_no_number(corpus, value):
    def mine(labels, proba):
        return value

    with pytest.raises(TypeError, match="the metric mine has to return a number, and returned"):
        CorpusSearchCV(MultinomialNB(), SPACE, metric=mine).fit(corpus)


def test_a_loss_as_a_metric_is_warned_of(corpus):
    with pytest.warns(UserWarning, match="more is better, and log_loss sounds as if less were") as warned:
        CorpusSearchCV(MultinomialNB(), {}, metric=log_loss, cv=2).fit(corpus)
    assert warned[0].filename == __file__


def test_a_class_in_place_of_an_estimator():
    with pytest.raises(TypeError, match=r"write MultinomialNB\(\)"):
        CorpusSearchCV(MultinomialNB).fit([[1]], [0])


def test_epochs_of_a_setting_are_bounded(corpus):
    found = search(corpus, max_epochs=2, halving=False)
    assert max(len(trial.epochs) for trial in found.trials_) == 2
