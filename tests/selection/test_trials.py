"""What is tried, each setting once; metrics are scikit-learn's; which settings go on and win, and by how much."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import loguniform, randint, uniform
from sklearn.base import clone
from sklearn.metrics import accuracy_score, f1_score, hamming_loss, log_loss
from sklearn.model_selection import ParameterGrid

import sdem_dist
import sdem_dist as sd
from sdem_dist.catalogue import ESTIMATORS
from sdem_dist.estimators import parameters
from sdem_dist.losses import Hinge
from sdem_dist.selection import trials as ts
from sdem_dist.selection.spaces import default_space, sampler_of

N, RNG = 400, np.random.default_rng(3)
WEIGHTS = RNG.random(N)
LABELS, PROBA = RNG.integers(4, size=N), RNG.dirichlet(np.ones(4), N)
MEMBERS, ODDS = RNG.random((N, 4)) < 0.4, RNG.normal(size=(N, 4))
OF_CLASSES = ts.Predictions(np.arange(N), np.log(PROBA), LABELS, WEIGHTS)
OF_LABELS = ts.Predictions(np.arange(N), ODDS, LABELS, WEIGHTS, MEMBERS, ODDS > 0.2)
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
GRID = {"alpha": np.linspace(0.01, 0.9, 6).tolist(), "step": np.linspace(0.1, 0.9, 6).tolist()}
MODEL = sd.MultinomialNB(loss="hinge")


@pytest.mark.parametrize(("metric", "predictions", "expected"), EXPECTED)
def test_metrics_are_those_of_scikit_learn(metric, predictions, expected):
    assert ts.measure(metric, predictions) == pytest.approx(expected) and metric in ts.METRICS
    parts = [predictions.taken(np.arange(i, N, 3)) for i in (2, 0, 1)]
    assert ts.measure(metric, ts.joined(parts)) == pytest.approx(expected)
    assert np.isnan(ts.measure(metric, ts.Predictions(**{**predictions._asdict(), "weights": np.zeros(N)})))
    unlabelled = ts.Predictions(**{**predictions._asdict(), "labels": np.where(WEIGHTS > 0.5, -1, LABELS)})
    assert ts.measure(metric, unlabelled) == pytest.approx(ts.measure(metric, predictions.taken(WEIGHTS <= 0.5)))


@pytest.mark.parametrize(("metric", "predictions", "expected"), [row for row in EXPECTED if row[0] in ts.PER_DOCUMENT])
def test_standard_errors_are_those_of_the_bootstrap(metric, predictions, expected):
    equal = ts.Predictions(**{**predictions._asdict(), "weights": np.full(N, 7.0)})
    error = ts.mean_and_error(ts.per_document(metric, equal), equal.weights)[1]
    rng = np.random.default_rng(0)
    drawn = [ts.measure(metric, equal.taken(rng.integers(N, size=N))) for _ in range(300)]
    assert error == pytest.approx(np.std(drawn), rel=0.2)
    of_each = ts.per_document(metric, equal)
    assert error == pytest.approx(of_each.std(ddof=1) / N**0.5)
    assert np.isnan(ts.mean_and_error(of_each[:1], np.ones(1))[1])


def test_a_metric_of_ones_own_takes_labels_and_probabilities(corpus):
    assert ts.measure(lambda y, p: float((p.argmax(axis=1) == y).mean()), OF_CLASSES) == np.mean(BEST == LABELS)
    assert ts.measure(lambda y, p: float(((p > 0.5) == y).mean()), OF_LABELS) == np.mean((ODDS > 0) == MEMBERS)
    np.testing.assert_raises_regex(TypeError, "must return a number", ts.measure, lambda y, p: p, OF_CLASSES)

    def some_loss(y, p):
        return 1.0

    with pytest.warns(UserWarning, match="custom metrics are maximized, but some_loss looks like a loss"):
        sd.CorpusSearchCV(sd.MultinomialNB(n_epochs=1), {}, metric=some_loss, cv=2, refit=False).fit(corpus)


def test_macro_f1_leaves_out_classes_that_nobody_has():
    apart = ts.Predictions(**{**OF_CLASSES._asdict(), "scores": np.hstack([OF_CLASSES.scores, np.full((N, 1), -9.0)])})
    assert ts.measure("macro-F1", apart) == pytest.approx(ts.measure("macro-F1", OF_CLASSES))


def trial(number, right, weights):
    predictions = ts.Predictions(np.arange(N), np.log(np.c_[right, 1 - np.asarray(right)]), np.zeros(N, int), weights)
    of = {name: ts.measure(name, predictions) for name in ("log-loss", "accuracy")}
    return ts.Trial(number, {}, [ts.FoldScores(of, predictions, 0.0)])


def settings(weights):
    """The default, which is right of the second half and of .7 of the first; and one that is right of the first."""
    half, first = np.arange(N) < N // 2, np.random.default_rng(0).choice([0.4, 0.6], N, p=[0.3, 0.7])
    return trial(0, np.where(half, first, 0.9), weights), trial(1, np.where(half, 0.8, 0.3), weights)


def test_documents_of_little_weight_do_not_pass_a_setting_over():
    default, other = settings(np.where(np.arange(N) < N // 2, 100.0, 0.01))
    assert ts.best_of([default, other], "log-loss") is other
    for metric in ("log-loss", "accuracy"):
        gain, error = ts.gain_of(other, default, metric)
        assert gain == pytest.approx(other.score(metric) - default.score(metric)) and 0 < error < gain


def test_by_log_loss_a_setting_that_is_less_accurate_does_not_win():
    probabilities = np.full(N, 0.6), np.where(np.arange(N) % 5, 0.9, 0.4)
    default, other = (trial(number, p, np.ones(N)) for number, p in enumerate(probabilities))
    assert ts.weakness(other, default, "log-loss") == "It is less accurate than the default"
    assert ts.best_of([default, other], "log-loss") is default


def test_the_default_wins_but_for_a_clear_gain():
    rng = np.random.default_rng(0)
    default, noise = trial(0, rng.uniform(0.2, 0.9, N), np.ones(N)), trial(1, rng.uniform(0.2, 0.9, N), np.ones(N))
    for one, other in ((default, noise), (noise, default)):
        one.number, other.number = 0, 1
        gain, error = ts.gain_of(other, one, "log-loss")
        assert abs(gain) < 2 * error and (ts.best_of([one, other], "log-loss") is one) == (not gain > error)
    by_fold = [scored(0, {}, 0.5, 0.5, 0.5), scored(1, {}, 0.1, 0.6, 0.6), scored(2, {}, 0.49, 0.48, 0.47)]
    assert ts.best_of(by_fold, "log-loss") is by_fold[2] and "one standard" in ts.weakness(*by_fold[1::-1], "log-loss")


def scored(number, params, *losses, dropped=None, metric="log-loss"):
    return ts.Trial(number, params, [ts.FoldScores({metric: loss}, None, 0.0) for loss in losses], dropped)


def test_the_better_half_goes_on_and_what_is_as_good_and_the_default():
    trials = [scored(i, {}, loss) for i, loss in enumerate([9.0, 1.0, 2.0, 3.0, 4.0, 4.0 * (1 + 1e-12), 5.0])]
    ts.drop_worse_half(trials, "log-loss")
    assert [t.number for t in trials if t.goes_on] == [0, 1, 2, 3, 4, 5] and trials[6].dropped == 1
    ts.drop_worse_half(trials, "log-loss")
    assert [t.number for t in trials if t.goes_on] == [0, 1, 2, 3]


def test_those_that_went_on_come_first_and_of_equals_the_default():
    trials = [scored(0, {}, 0.5, 0.5), scored(1, {}, 0.1, dropped=1), scored(2, {}, 0.4, 0.6), scored(3, {}, 0.3, 0.4)]
    trials.append(ts.Trial(4, {}, error="no"))
    assert [t.number for t in ts.ranked(trials, "log-loss")] == [3, 0, 2, 1, 4]
    with pytest.raises(ValueError, match="all settings failed; the first error: no"):
        ts.best_of([ts.Trial(0, {}, error="no")], "log-loss")


def by_value(trials, defaults):
    estimator = SimpleNamespace(get_params=lambda deep: defaults)
    return ts.best_by_value(SimpleNamespace(trials_=trials, metric_="log-loss", estimator=estimator))


def test_values_are_compared_on_the_folds_that_all_have_and_within_a_loss():
    trials = [scored(0, {}, 0.5, 0.3), scored(1, {"step": 0.5}, 0.6, dropped=1)]
    trials += [scored(n, {"step": step, "norm": 7.0}, *of) for n, step, *of in ((2, 0.5, 0.4, 0.2), (3, 0.2, 0.3, 0.5))]
    table = by_value(trials, {"step": 1.0, "norm": 5.0})
    assert "  step            0.2: 0.3000, 0.5: 0.4000, 1: 0.5000" in table
    assert "  norm            7: 0.3000, 5: 0.5000" in table
    trials = [scored(0, {}, 0.24), scored(3, {"step": 0.5}, 0.25), scored(4, {"loss": "hinge"}, 0.23)]
    trials[1:1] = [scored(n, {"loss": "nll", "alpha": a}, loss) for n, a, loss in ((1, 0.1, 0.76), (2, 1.0, 0.81))]
    table = by_value(trials, {"loss": "ncll", "step": 1.0, "alpha": "laplace"})
    assert {"  alpha (loss nll)  0.1: 0.7600, 1: 0.8100", "  step (loss ncll)  1: 0.2400, 0.5: 0.2500"} <= {*table}
    assert "  loss              hinge: 0.2300, ncll: 0.2400, nll: 0.7600" in table


def test_other_metrics_are_compared_by_the_folds_differences(documents):
    def brier(labels, p):
        return -float(np.mean((p - np.eye(3)[labels]) ** 2))

    for metric in (brier, "perplexity", "macro-F1"):
        search = sd.CorpusSearchCV(sd.MultinomialNB(), {"loss": ["nll"]}, metric=metric, cv=4, n_jobs=1)
        search.fit(*documents[:2])
        search.best_index_ = 1  # whichever won
        assert "over the 4 folds" in search.summary()


def far(params):
    return -abs(params.get("alpha", 1.0) - 0.01) - abs(params.get("step", 1.0) - 0.1)


def tried(sampler):
    settings = list[dict[str, object]]()
    while turn := sampler.ask():
        trials = [ts.Trial(i, p, [ts.FoldScores({"accuracy": far(p)}, None, 0.0)]) for i, p in enumerate(turn)]
        sampler.tell(trials, "accuracy")
        settings += turn
    return settings


@pytest.mark.parametrize(("model", "given"), [
    (sd.SupervisedLDAClassifier(n_components=5), {"n_components"}),
    (sd.KMeans(n_clusters=3), {"n_clusters"}),
    (sd.MultinomialNB(alpha=0.5, min_df=3), {"alpha", "min_df"}),
    (sd.MultinomialNB(loss="hinge", step=0.3), {"loss", "step"}),
    (sd.MultinomialNB(loss=Hinge(margin=2.0)), {"loss", "step"}),
    (sd.MultiLabelNB(loss="ncll"), {"loss"}),
], ids=lambda value: repr(sorted(value) if isinstance(value, set) else value))  # fmt: skip
def test_what_is_given_is_not_tried(model, given):
    names = {name for part in default_space(model) for name in part}
    assert names < {name for part in default_space(type(model)()) for name in part} and not names & given


def test_a_loss_that_is_given_has_its_own_steps_alone():
    (of_ncll,) = default_space(sd.MultinomialNB(loss="ncll"))
    assert of_ncll["step"] == [0.5, 1.0, 2.0] and "loss" not in of_ncll
    assert default_space(sd.MultinomialNB(loss="nll")) == [{"alpha": [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]}]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_has_a_space_of_its_own_whose_settings_it_takes(name):
    model = getattr(sdem_dist, name)()
    space = default_space(model)
    settings = tried(sampler_of("random", model, space, None, 0))
    assert settings[0] == {} and 1 < len(settings) <= 1 + sum(len(ParameterGrid(part)) for part in space)
    for params in settings:
        parameters.check(clone(model).set_params(**params))
    assert not any("weighting" in part for part in default_space(model, weighted=True))


@pytest.mark.parametrize("sampler", ["random", "optuna"])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("space", "n_trials", "n"), [
    (GRID, 20, 20), (GRID, 36, 36), (GRID, 41, 37),
    ([{"step": list(np.linspace(0.01, 0.9, 60))}, {"alpha": [0.5]}, {"loss": ["nll"]}], 22, 22),
    ({"step": loguniform(0.05, 2.0), "loss": ["hinge", "ncll"]}, 12, 12),
    ({"min_df": randint(1, 4), "step": [0.1, 0.3]}, 30, 7),
    ([{"alpha": [0.1, 0.2]}, {"step": uniform(0.1, 0.5)}], 12, 12),
    ({"class_prior": [np.array([0.2, 0.8]), np.array([0.8, 0.2]), np.array([0.2, 0.8])]}, 9, 3),
    ({"unlabelled": [float("nan"), float("nan")]}, 9, 2),
    ({"step": [None], "loss": ["hinge"]}, 5, 1), ({"step": [0.1, 0.3], "loss": ["hinge", "nll"]}, 9, 4),
    ({"unlabelled": [""], "loss": ["nll"], "n_epochs": [5, 50]}, 9, 3),
    ({}, 4, 1), ([], 4, 1),
])  # fmt: skip
def test_as_many_are_tried_as_are_asked_for_or_there_are(sampler, seed, space, n_trials, n):
    if sampler == "optuna":
        pytest.importorskip("optuna")
    settings = tried(sampler_of(sampler, MODEL, space, n_trials, seed))
    assert settings[0] == {} and len({repr(sorted(params.items())) for params in settings}) == len(settings) == n
    assert repr(tried(sampler_of(sampler, MODEL, space, n_trials, seed))) == repr(settings)


def test_optuna_learns_from_scores_and_is_told_of_repeats():
    pytest.importorskip("optuna")
    sampler = sampler_of("optuna", MODEL, GRID, 30, 0)
    settings = tried(sampler)
    late, early = (np.mean([far(params) for params in part]) for part in (settings[16:24], settings[1:8]))
    assert late > early
    values = {}
    for trial in sampler._study.trials:
        assert trial.state.name == "COMPLETE", "none fails, and none waits for ever"
        values.setdefault(str(trial.params), set()).add(trial.value)
    assert all(len(own) == 1 for own in values.values())


def test_optuna_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    np.testing.assert_raises_regex(ImportError, "pip install", sampler_of, "optuna", MODEL, GRID, 5, 0)
