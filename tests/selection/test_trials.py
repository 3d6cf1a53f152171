"""Which setting wins, and by how much, where documents have weights."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import ttest_rel
from sklearn.metrics import f1_score

from sdem_dist import CorpusSearchCV, MultinomialNB
from sdem_dist.selection.metrics import measured
from sdem_dist.selection.predicted import Predicted
from sdem_dist.selection.summary import _mattered, _passed_over, differences, effects
from sdem_dist.selection.trials import Trial, accuracy_lost, best_of, by_document, less_accurate, mean_and_error, ranked

N = 400


def trial(number, right, weights):
    """A setting that gives the right class these probabilities."""
    found = Predicted(np.log(np.c_[right, 1 - right]), np.zeros(N, int), weights, np.zeros(N))
    return Trial(number, {}, 1, found=found, scores=measured(found, 1.0, ("log-loss", "accuracy")))


@pytest.fixture
def half():
    return np.arange(N) < N // 2


def settings(weights, half):
    """The default, which is right of the second half and of .7 of the first; and one that is right of the first."""
    first = np.random.default_rng(0).choice([0.4, 0.6], N, p=[0.3, 0.7])
    return trial(0, np.where(half, first, 0.9), weights), trial(1, np.where(half, 0.8, 0.3), weights)


def test_documents_of_little_weight_do_not_pass_a_setting_over(half):
    default, other = settings(np.where(half, 100.0, 0.01), half)
    assert not less_accurate(other, default, 2)
    assert best_of([default, other], "log-loss") is other
    search = SimpleNamespace(trials_=[default, other], best_index_=1, metric_="log-loss", n_splits_=1)
    for of in differences(search):
        scores = [float(each.scores[of.metric][0]) for each in (default, other)]
        assert [of.default, of.winner] == pytest.approx(scores)
        gain = abs(scores[1] - scores[0])
        assert of.low < gain < of.high and (of.low + of.high) / 2 == pytest.approx(gain)


def test_macro_f1_has_an_interval_by_documents_as_wide_as_the_bootstraps(documents):
    found = CorpusSearchCV(MultinomialNB(), {"loss": ["nll"]}, metric="macro-F1", cv=3, max_epochs=2, n_jobs=1)
    found.fit(*documents[:2])
    found.best_index_ = 1  # whichever won
    of = differences(found)[0]
    assert [other.metric for other in differences(found)] == ["macro-F1", "log-loss", "accuracy"]
    labels = found.trials_[0].found.labels
    said = [trial.found.scores.argmax(axis=1) for trial in found.trials_]
    assert [of.default, of.winner] == pytest.approx([f1_score(labels, each, average="macro") for each in said])
    assert (of.low + of.high) / 2 == pytest.approx(of.winner - of.default)
    rng, gains = np.random.default_rng(0), []
    for _ in range(400):
        rows = rng.integers(len(labels), size=len(labels))
        gains.append(np.subtract(*(f1_score(labels[rows], each[rows], average="macro") for each in said)))
    assert (of.high - of.low) / 2 / 1.96 == pytest.approx(np.std(gains), rel=0.2)


def test_macro_f1_leaves_out_classes_that_nobody_has(half):
    default, other = settings(np.arange(1.0, N + 1), half)
    apart = np.full((N, 1), -9.0)
    for each in (default, other):
        each.found = each.found._replace(scores=np.hstack([each.found.scores, apart]))
        shares = by_document(each, "macro-F1")
        whole = np.average(shares, weights=each.found.weights)
        assert whole == pytest.approx(measured(each.found, 1.0, ("macro-F1",))["macro-F1"][0])


def test_other_metrics_are_compared_by_the_folds_differences(documents):
    def brier(labels, p):
        return -float(np.mean((p - np.eye(3)[labels]) ** 2))

    for metric, name in ((brier, "brier"), ("perplexity", "perplexity")):
        found = CorpusSearchCV(MultinomialNB(), {"loss": ["nll"]}, metric=metric, cv=4, max_epochs=2, n_jobs=1)
        found.fit(*documents[:2])
        found.best_index_ = 1  # whichever won
        of = differences(found)[0]
        before, after = (trial.scores[name] for trial in found.trials_)
        assert (of.metric, of.n_folds, of.default, of.winner) == (name, 4, before.mean(), after.mean())
        gains = after - before if metric is brier else before - after
        interval = ttest_rel(gains, np.zeros(4)).confidence_interval()
        assert [of.low, of.high] == pytest.approx(list(interval))
        assert "by the 4 folds" in found.summary()


def test_of_equal_weights_a_less_accurate_setting_is_passed_over(half):
    default, other = settings(np.full(N, 3.0), half)
    assert less_accurate(other, default, 2)
    assert best_of([default, other], "accuracy") is default
    lost, least = accuracy_lost(other, default, 2)
    assert (
        lost == pytest.approx(float(default.scores["accuracy"][0] - other.scores["accuracy"][0])) and 0 < least < lost
    )
    said = _passed_over(SimpleNamespace(trials_=[default, other]), other)
    assert f"{lost:.4f} lower" in said and f"more than {least:.4f}" in said and "2 settings" in said


def scored(number, params, *losses, dropped=None):
    """A setting with these log-losses after its epochs."""
    epochs = [{"epoch": i, "log-loss": loss} for i, loss in enumerate(losses, 1)]
    return Trial(
        number,
        params,
        20,
        n_epochs=len(losses),
        epochs=epochs,
        dropped=dropped,
        scores={"log-loss": np.array(losses[-1:])},
    )


def test_what_mattered_compares_settings_that_differ_in_nothing_else():
    trials = [
        scored(0, {}, 0.5, 0.3),
        scored(1, {"step": 0.5}, 0.6, dropped=1),  # .1 above the default after as long
        scored(2, {"step": 0.5, "norm": 7.0}, 0.4, 0.2),
        scored(3, {"step": 0.2, "norm": 7.0}, 0.4, 0.25),
        scored(4, {"alpha": 0.1, "norm": 3.0}, 9.0),
    ]
    tuned = SimpleNamespace(get_params=lambda deep: {"step": 1.0, "norm": 5.0, "alpha": 1.0})
    found = effects(SimpleNamespace(trials_=trials, metric_="log-loss", tuned_=tuned))
    assert [effect.name for effect in found] == ["norm", "step", "alpha"]
    norm, step, alpha = found
    assert np.isnan(alpha.change)  # the other setting differs in its norm, too
    assert norm.change == pytest.approx(0.2)  # settings 1 and 2, after one epoch
    assert norm.best == [(7.0, 0.2), (5.0, 0.3), (3.0, 9.0)]
    assert step.change == pytest.approx((0.1 + 0.05) / 2)
    assert step.best == [(0.5, 0.2), (0.2, 0.25), (1.0, 0.3)]


def test_values_of_two_losses_are_not_in_one_row():
    trials = [
        scored(0, {}, 0.24),
        scored(1, {"loss": "nll", "alpha": 0.1}, 0.76),
        scored(2, {"loss": "nll", "alpha": 1.0}, 0.81),
        scored(3, {"step": 0.5}, 0.25),
        scored(4, {"loss": "hinge"}, 0.23),
    ]
    tuned = SimpleNamespace(get_params=lambda deep: {"loss": "ncll", "step": 1.0, "alpha": "laplace"})
    search = SimpleNamespace(trials_=trials, metric_="log-loss", tuned_=tuned)
    step_or_loss = {effect.title: effect.best for effect in effects(search)}
    assert step_or_loss == {
        "alpha (nll)": [(0.1, 0.76), (1.0, 0.81)],
        "loss": [("hinge", 0.23), ("ncll", 0.24), ("nll", 0.76)],
        "step (ncll)": [(1.0, 0.24), (0.5, 0.25)],
    }
    assert effects(search)[0].title == "alpha (nll)"  # 0.05 between two alphas, 0.01 between two losses
    assert "  parameter      change  value: best" in _mattered(search)
    assert "  alpha (nll)    0.0500  0.1: 0.7600, 1: 0.8100" in _mattered(search)


def test_equal_weights_are_no_weights():
    values = np.random.default_rng(0).normal(size=50)
    mean, error = mean_and_error(values, np.full(50, 7.0), ddof=1)
    assert (mean, error) == pytest.approx((values.mean(), values.std(ddof=1) / 50**0.5))
    assert np.isnan(mean_and_error(np.ones(1), np.ones(1), ddof=1)[1])


def test_of_equal_accuracies_the_default_wins_and_then_the_lowest_log_loss():
    def of(number, accuracy, loss):
        return Trial(number, {}, 1, scores={"accuracy": np.array([accuracy]), "log-loss": np.array([loss])})

    default, worse, better, best = of(0, 0.8, 0.9), of(1, 0.8, 0.5), of(2, 0.8, 0.3), of(3, 0.9, 1.5)
    in_order = ranked([default, worse, better, best], "accuracy")
    assert [trial.number for trial in in_order] == [3, 0, 2, 1]
    assert best_of([default, worse, better], "accuracy") is default
