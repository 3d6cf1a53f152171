"""Metrics are scikit-learn's; which settings go on and win, and by how much, where documents have weights."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import ttest_rel
from sklearn.metrics import accuracy_score, f1_score, hamming_loss, log_loss

from sdem_dist import CorpusSearchCV, MultinomialNB
from sdem_dist.selection.metrics import GREATER, Predictions, joined, mean_and_error, measure, per_document
from sdem_dist.selection.summary import differences, effects, mattered
from sdem_dist.selection.trials import FoldScores, Trial, accuracy_lost, best_of, drop_worse_half, ranked

N = 400
RNG = np.random.default_rng(3)
WEIGHTS = RNG.random(N)
LABELS, PROBA = RNG.integers(4, size=N), RNG.dirichlet(np.ones(4), N)
MEMBERS, ODDS = RNG.random((N, 4)) < 0.4, RNG.normal(size=(N, 4))
OF_CLASSES = Predictions(np.arange(N), np.log(PROBA), LABELS, WEIGHTS)
OF_LABELS = Predictions(np.arange(N), ODDS, LABELS, WEIGHTS, MEMBERS, ODDS > 0.2)
BEST, MORE = PROBA.argmax(axis=1), {"sample_weight": WEIGHTS}
EXPECTED = [
    ("log-loss", OF_CLASSES, log_loss(LABELS, PROBA, **MORE)),
    ("accuracy", OF_CLASSES, accuracy_score(LABELS, BEST, **MORE)),
    ("macro-F1", OF_CLASSES, f1_score(LABELS, BEST, average="macro", **MORE)),
    ("micro-F1", OF_LABELS, f1_score(MEMBERS, ODDS > 0.2, average="micro", **MORE)),
    ("macro-F1", OF_LABELS, f1_score(MEMBERS, ODDS > 0.2, average="macro", **MORE)),
    ("accuracy", OF_LABELS, accuracy_score(MEMBERS, ODDS > 0.2, **MORE)),
    ("Hamming-loss", OF_LABELS, hamming_loss(MEMBERS, ODDS > 0.2, **MORE)),
    ("log-loss", OF_LABELS, np.mean([log_loss(MEMBERS[:, k], expit(ODDS[:, k]), **MORE) for k in range(4)])),
]


@pytest.mark.parametrize(("metric", "predictions", "expected"), EXPECTED)
def test_metrics_are_those_of_scikit_learn(metric, predictions, expected):
    assert measure(metric, predictions) == pytest.approx(expected) and metric in GREATER
    parts = [predictions.rows_at(np.arange(i, N, 3)) for i in (2, 0, 1)]
    assert measure(metric, joined(parts)) == pytest.approx(expected)
    none = Predictions(**{**vars(predictions), "weights": np.zeros(N)})
    assert np.isnan(measure(metric, none))
    unlabelled = Predictions(**{**vars(predictions), "labels": np.where(WEIGHTS > 0.5, -1, LABELS)})
    assert measure(metric, unlabelled) == pytest.approx(measure(metric, predictions.rows_at(WEIGHTS <= 0.5)))


@pytest.mark.parametrize(("metric", "predictions", "expected"), EXPECTED)
def test_standard_errors_are_those_of_the_bootstrap(metric, predictions, expected):
    equal = Predictions(**{**vars(predictions), "weights": np.ones(N)})
    error = mean_and_error(per_document(metric, equal), np.ones(N))[1]
    rng = np.random.default_rng(0)
    drawn = [measure(metric, equal.rows_at(rng.integers(N, size=N))) for _ in range(300)]
    assert error == pytest.approx(np.std(drawn), rel=0.2)


def test_a_metric_of_ones_own_takes_labels_and_probabilities(corpus):
    assert measure(lambda y, p: float((p.argmax(axis=1) == y).mean()), OF_CLASSES) == np.mean(BEST == LABELS)
    assert measure(lambda y, p: float(((p > 0.5) == y).mean()), OF_LABELS) == np.mean((ODDS > 0) == MEMBERS)
    with pytest.raises(TypeError, match="has to return a number"):
        measure(lambda y, p: p, OF_CLASSES)

    def some_loss(y, p):
        return 1.0

    with pytest.warns(UserWarning, match="more is better, and some_loss sounds as if less were"):
        CorpusSearchCV(MultinomialNB(n_epochs=1), {}, metric=some_loss, cv=2, refit=False).fit(corpus)


def test_macro_f1_leaves_out_classes_that_nobody_has():
    apart = Predictions(**{**vars(OF_CLASSES), "scores": np.hstack([OF_CLASSES.scores, np.full((N, 1), -9.0)])})
    assert measure("macro-F1", apart) == pytest.approx(measure("macro-F1", OF_CLASSES))


def trial(number, right, weights):
    """A setting that gives the right class these probabilities."""
    scores = np.log(np.c_[right, 1 - np.asarray(right)])
    predictions = Predictions(np.arange(N), scores, np.zeros(N, int), weights)
    of = {name: measure(name, predictions) for name in ("log-loss", "accuracy")}
    return Trial(number, {}, [FoldScores(of, predictions, 0.0)])


def settings(weights):
    """The default, which is right of the second half and of .7 of the first; and one that is right of the first."""
    half, first = np.arange(N) < N // 2, np.random.default_rng(0).choice([0.4, 0.6], N, p=[0.3, 0.7])
    return trial(0, np.where(half, first, 0.9), weights), trial(1, np.where(half, 0.8, 0.3), weights)


def test_documents_of_little_weight_do_not_pass_a_setting_over():
    default, other = settings(np.where(np.arange(N) < N // 2, 100.0, 0.01))
    assert best_of([default, other], "log-loss") is other
    search = SimpleNamespace(trials_=[default, other], best_index_=1, metric_="log-loss", n_splits_=1)
    for of in differences(search):
        assert (of.low + of.high) / 2 == pytest.approx(abs(of.winner - of.default)) and of.low < of.high


def test_by_log_loss_a_setting_that_is_clearly_less_accurate_does_not_win():
    default, other = settings(np.full(N, 3.0))
    other.folds[0].scores["log-loss"] = 0.0
    assert best_of([default, other], "log-loss") is default
    lost, least = accuracy_lost(other, default, 2)
    assert lost == pytest.approx(default.score("accuracy") - other.score("accuracy")) and 0 < least < lost


def scored(number, params, *losses, dropped=None, metric="log-loss"):
    """A setting with these log-losses on its folds."""
    folds = [FoldScores({metric: loss}, None, 0.0) for loss in losses]
    return Trial(number, params, folds, dropped)


def test_the_better_half_goes_on_and_what_is_as_good_and_the_default():
    trials = [scored(i, {}, loss) for i, loss in enumerate([9.0, 1.0, 2.0, 3.0, 4.0, 4.0 * (1 + 1e-12), 5.0])]
    drop_worse_half(trials, "log-loss")
    assert [t.number for t in trials if t.goes_on] == [0, 1, 2, 3, 4, 5] and trials[6].dropped == 1
    drop_worse_half(trials, "log-loss")
    assert [t.number for t in trials if t.goes_on] == [0, 1, 2, 3]


def test_those_that_went_on_come_first_and_of_equals_the_default():
    trials = [
        scored(0, {}, 0.5, 0.5),
        scored(1, {}, 0.1, dropped=1),
        scored(2, {}, 0.4, 0.6),
        scored(3, {}, 0.3, 0.4),
        Trial(4, {}, error="no"),
    ]
    assert [t.number for t in ranked(trials, "log-loss")] == [3, 0, 2, 1, 4]
    with pytest.raises(ValueError, match="no setting could be trained; the first says: no"):
        best_of([Trial(0, {}, error="no")], "log-loss")


def test_what_mattered_compares_settings_that_differ_in_nothing_else():
    trials = [
        scored(0, {}, 0.5, 0.3),
        scored(1, {"step": 0.5}, 0.6, dropped=1),  # .1 above the default on the fold of both
        scored(2, {"step": 0.5, "norm": 7.0}, 0.4, 0.2),
        scored(3, {"step": 0.2, "norm": 7.0}, 0.3, 0.5),
        scored(4, {"alpha": 0.1, "norm": 3.0}, 9.0, dropped=1),
    ]
    estimator = SimpleNamespace(get_params=lambda deep: {"step": 1.0, "norm": 5.0, "alpha": 1.0})
    search = SimpleNamespace(trials_=trials, metric_="log-loss", estimator=estimator)
    by_name = {effect.name: effect for effect in effects(search)}
    assert np.isnan(by_name["alpha"].change)  # the other setting differs in its norm, too
    assert by_name["norm"].change == pytest.approx(0.2)  # settings 1 and 2 on the first fold
    assert by_name["step"].change == pytest.approx((0.1 + 0.1) / 2)
    assert by_name["step"].best == [(0.2, 0.3), (0.5, 0.4), (1.0, 0.5)]  # on the fold that all have


def test_values_of_two_losses_are_not_in_one_row():
    trials = [
        scored(0, {}, 0.24),
        scored(1, {"loss": "nll", "alpha": 0.1}, 0.76),
        scored(2, {"loss": "nll", "alpha": 1.0}, 0.81),
        scored(3, {"step": 0.5}, 0.25),
        scored(4, {"loss": "hinge"}, 0.23),
    ]
    estimator = SimpleNamespace(get_params=lambda deep: {"loss": "ncll", "step": 1.0, "alpha": "laplace"})
    search = SimpleNamespace(trials_=trials, metric_="log-loss", estimator=estimator)
    assert {effect.title: effect.best for effect in effects(search)} == {
        "alpha (nll)": [(0.1, 0.76), (1.0, 0.81)],
        "loss": [("hinge", 0.23), ("ncll", 0.24), ("nll", 0.76)],
        "step (ncll)": [(1.0, 0.24), (0.5, 0.25)],
    }
    assert "  alpha (nll)    0.0500  0.1: 0.7600, 1: 0.8100" in mattered(search)


def test_other_metrics_are_compared_by_the_folds_differences(documents):
    def brier(labels, p):
        return -float(np.mean((p - np.eye(3)[labels]) ** 2))

    for metric, name in ((brier, "brier"), ("perplexity", "perplexity")):
        search = CorpusSearchCV(MultinomialNB(), {"loss": ["nll"]}, metric=metric, cv=4, n_jobs=1)
        search.fit(*documents[:2])
        search.best_index_ = 1  # whichever won
        of = differences(search)[0]
        before, after = (trial.scores[name] for trial in search.trials_)
        assert (of.metric, of.n_folds, of.default, of.winner) == (name, 4, before.mean(), after.mean())
        interval = ttest_rel(after if metric is brier else before, before if metric is brier else after)
        assert [of.low, of.high] == pytest.approx(list(interval.confidence_interval()))
        assert "by the 4 folds" in search.summary()


def test_equal_weights_are_no_weights():
    values = np.random.default_rng(0).normal(size=50)
    assert mean_and_error(values, np.full(50, 7.0)) == pytest.approx((values.mean(), values.std(ddof=1) / 50**0.5))
    assert np.isnan(mean_and_error(np.ones(1), np.ones(1))[1])
