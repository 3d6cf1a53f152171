"""The temperature of classifiers whose classes are mixtures, from documents that a first training does without."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax

import sdem_dist as sd
from sdem_dist.calibration import TEMPERATURES, cautious_temperature, tempered_losses, tempered_sums
from sdem_dist.evaluation import classifier_metrics, classifier_sums, scored
from sdem_dist.fitting.holdout import held_out_of

KINDS = {
    "EM": (sd.EMMixtureClassifier, {"n_epochs": 15}),
    "EM of counts": (sd.EMMixtureClassifier, {"n_epochs": 15, "components": "multinomial"}),
    "sdEM": (sd.SdemMixtureClassifier, {"n_epochs": 15, "validation_fraction": 0.1}),
    "sdEM of counts": (
        sd.SdemMixtureClassifier,
        {"n_epochs": 4, "components": "multinomial", "validation_fraction": 0.1},
    ),
    "updates": (sd.MultiplicativeMixtureClassifier, {"n_epochs": 30}),
    "updates of sparse rows": (sd.MultiplicativeMixtureClassifier, {"n_epochs": 30}),
}


def table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three classes that overlap; every column is there six times, which no component knows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    once = rng.poisson(np.array([[4, 2, 2], [2, 4, 2], [2, 2, 4]])[y])
    return np.tile(once, 6).astype(float), np.array(["a", "b", "c"], "U8")[y]


def log_loss(log_p: np.ndarray, y: np.ndarray) -> float:
    return float(-log_p[np.arange(len(y)), np.searchsorted(["a", "b", "c"], y)].mean())


def given(name: str, X: np.ndarray) -> np.ndarray | sp.csr_matrix:
    return sp.csr_matrix(X) if "counts" in name or "sparse" in name else X


@pytest.mark.parametrize("name", KINDS)
def test_held_out_documents_make_probabilities_honest_and_change_no_prediction(name):
    kind, settings = KINDS[name]
    (X, y), (X_test, y_test) = table(900, 0), table(900, 1)
    X, X_test = given(name, X), given(name, X_test)
    with_all = kind(2, **{**settings, "validation_fraction": 0}).fit(X, y)
    model = kind(2, **settings).fit(X, y)
    assert with_all.temperature_ == 1.0
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(model.state_, with_all.state_, strict=True))
    before, after = (m.predict_log_proba(X_test) for m in (with_all, model))
    np.testing.assert_array_equal(before.argmax(axis=1), after.argmax(axis=1))
    assert log_loss(after, y_test) < log_loss(before, y_test) + 0.01
    if "EM" in name and "sd" not in name:  # six times too sure
        assert model.temperature_ > 3
        assert log_loss(after, y_test) < 0.6 * log_loss(before, y_test)
    curve = [entry for entry in model.history_ if "held_out_log_loss" in entry]
    assert len(curve) >= min(settings["n_epochs"], 10)
    assert all("held_out_accuracy" in entry for entry in curve)
    assert len(model.history_) == len(with_all.history_)
    found = model.evaluate(X_test, y_test)
    assert found["ncll"] == pytest.approx(log_loss(after, y_test))
    assert found.get("nll") == pytest.approx(with_all.evaluate(X_test, y_test).get("nll"))  # p(y, d) has no temperature


def test_a_class_is_never_held_out_whole():
    X, y = table(400, 0)
    y[:8] = [f"only {k}" for k in range(8)]
    for seed in range(5):
        model = sd.EMMixtureClassifier(1, n_epochs=2, random_state=seed).fit(X, y)
        assert model.temperature_ != 1.0


def test_a_class_of_weight_0_does_not_decide():
    X, y = table(900, 0)
    weightless = sd.EMMixtureClassifier(2, n_epochs=5, class_weight={"c": 0}).fit(X, y)
    rest = sd.EMMixtureClassifier(2, n_epochs=5).fit(X[y != "c"], y[y != "c"])
    assert weightless.temperature_ == pytest.approx(rest.temperature_, rel=0.5)
    assert weightless.predict_proba(X[y != "c"]).max(axis=1).mean() > 0.7


def test_groups_are_kept_together_where_there_are_enough(tmp_path):
    X, y = table(600, 0)
    for n_groups in (4, 60):
        groups = np.arange(600) % n_groups
        corpus = sd.write_corpus(tmp_path / str(n_groups), X, y, dense=True, groups=groups, shuffle=False)
        held_out = held_out_of(corpus, 0.1, 0)
        inside = groups[held_out.mask(0, 600)]
        assert len(inside) >= 30
        assert (np.bincount(inside, minlength=n_groups) % 10 == 0).all() == (n_groups == 60)
        assert sd.EMMixtureClassifier(2, n_epochs=3).fit(corpus).temperature_ != 1.0


@pytest.mark.parametrize("name", ["sdEM of counts", "updates"])
def test_where_patience_ends_a_training_the_temperature_is_of_the_epochs_that_are_kept(name):
    kind, settings = KINDS[name]
    (X, y), (X_new, y_new) = table(900, 0), table(300, 2)
    validation = given(name, X_new), y_new
    watched = {**settings, "n_epochs": 300, "evaluate_every": 1, "patience": 1}
    model = kind(2, **watched).fit(given(name, X), y, validation=validation)
    n_kept = int(model.best_entry_["epoch"])
    assert n_kept < model.n_iter_ < 300
    alike = kind(2, **{**settings, "n_epochs": n_kept}).fit(given(name, X), y)
    assert model.temperature_ == alike.temperature_ != 1.0
    without = kind(2, **{**watched, "validation_fraction": 0}).fit(given(name, X), y, validation=validation)
    assert len(without.history_) == len(model.history_)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(model.state_, without.state_, strict=True))
    assert any("held_out_log_loss" in entry for entry in model.history_)


def test_few_documents_hold_nothing_out():
    X, y = table(150, 0)
    model = sd.EMMixtureClassifier(1).fit(X, y)
    assert model.temperature_ == 1.0
    assert not any("held_out_log_loss" in entry for entry in model.history_)


def test_documents_that_are_all_right_do_not_make_a_model_certain():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 40)
    scores = rng.normal(size=(40, 3))
    scores[np.arange(40), labels] += 10.0
    weights = np.ones(40)
    plain = TEMPERATURES[tempered_losses(scores, labels, weights).argmin()]
    assert plain == TEMPERATURES[0]
    assert cautious_temperature(tempered_sums(scores, labels, weights), 40.0)[0] > 0.5
    more = tempered_sums(np.repeat(scores, 2, axis=0), np.repeat(labels, 2), np.full(80, 0.5))
    assert cautious_temperature(more, 40.0)[0] > 0.5


@pytest.mark.parametrize("lead", [0.5, 2.0, 10.0])
def test_the_log_loss_is_that_at_the_temperature(lead):
    rng = np.random.default_rng(0)
    labels, weights = rng.integers(0, 3, 40), rng.integers(1, 3, 40).astype(float)
    scores = rng.normal(size=(40, 3))
    scores[np.arange(40), labels] += lead
    documents = scored(scores, labels, weights, np.ones(40), scores)
    found = classifier_metrics(classifier_sums(documents, tempered=True), 3)
    at = log_softmax(scores / found["temperature"], axis=1)[np.arange(40), labels]
    assert found["tempered_log_loss"] == pytest.approx(-np.average(at, weights=weights), abs=5e-4)
