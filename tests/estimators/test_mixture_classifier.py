"""Classifiers whose classes are mixtures, and the temperature that documents give which a first training does without."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.trained_bits import bits, kept
from scipy.special import log_softmax

import sdem_dist as sd
from sdem_dist.corpus.folds import held_out_of
from sdem_dist.errors import DocumentError
from sdem_dist.evaluation import classifier_metrics, classifier_sums, scored
from sdem_dist.families import GaussianFull
from sdem_dist.reports.top_words import word_weights

EM: dict = {"kind": sd.EMMixtureClassifier}
SDEM = {"kind": sd.SdemMixtureClassifier, "n_epochs": 20}
OF_COUNTS = {**SDEM, "components": "multinomial", "n_epochs": 3}


def mixture(n_components=4, *, kind=sd.MultiplicativeMixtureClassifier, **settings):
    return kind(n_components, **settings)


FAMILIES, LOSSES = ("exponential", "poisson", "bernoulli", "mixed"), ("ncll", "hinge", "nll")
KINDS = {
    "multiplicative": {"n_epochs": 30},
    "literal": {"n_epochs": 30, "scaling": None, "schedule": "alternate", "accelerate": False},
    "single": {"n_epochs": 20, "dtype": "float32"},
    "shared": {"n_epochs": 30, "shared": True, "n_components": 9},
    "expanded": {"n_epochs": 10, "expand": True, "n_components": 1},
    "em gaussian": {**EM, "n_epochs": 10},
    "em exponential": {**EM, "components": "exponential", "offset": 0.1, "n_epochs": 10},
    "em full": {**EM, "covariance_type": "full", "n_epochs": 10},
    "em shared": {**EM, "components": "poisson", "n_components": 9, "shared": True},
    "em multinomial shared": {**EM, "components": "multinomial", "n_components": 9, "shared": True},
    **{f"em {form}": {**EM, "em": form, "n_epochs": 10} for form in ("hard", "generalised")},
    "em multinomial": {**EM, "components": "multinomial", "n_epochs": 10},
    "sdem gaussian": SDEM,
    "sdem exponential": {**SDEM, "components": "exponential", "loss": "hinge"},
    "sdem mixed": {**SDEM, "components": "mixed", "kinds": {0: "poisson", (1, 2): GaussianFull(2, 1.0)}},
    **{f"sdem multinomial {loss}": {**OF_COUNTS, "loss": loss} for loss in LOSSES},
}


def table(n=400, seed=0):
    rng, y = np.random.default_rng(seed), np.arange(n) % 3
    means = np.array([[9, 1, 1, 4], [1, 9, 4, 1], [1, 1, 9, 4], [9, 4, 1, 1], [4, 9, 1, 9], [1, 4, 9, 1]], float) * 2.0
    return rng.poisson(means[2 * y + rng.integers(0, 2, n)]).astype(float), np.array(["a", "b", "c"])[y]


X, Y = table()
X_TEST, Y_TEST = table(seed=1)


@pytest.fixture(scope="module")
def fitted():
    return {name: mixture(**{"n_components": 2, **settings}).fit(X, Y) for name, settings in KINDS.items()}


@pytest.mark.parametrize("name", KINDS)
def test_every_training_classifies_and_is_saved(fitted, name, tmp_path):
    model = fitted[name]
    assert model.score(X_TEST, Y_TEST) > 0.85
    proba = model.predict_proba(X_TEST)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert (model.classes_[proba.argmax(axis=1)] == model.predict(X_TEST)).all()
    found = model.evaluate(X_TEST, Y_TEST)
    assert found["accuracy"] == model.score(X_TEST, Y_TEST)
    own = proba[np.arange(len(Y_TEST)), np.searchsorted(model.classes_, Y_TEST)]
    assert found["ncll"] == pytest.approx(-np.log(own).mean(), rel=1e-3 if name == "single" else 1e-7)
    assert len(model.history_) == model.n_iter_ == model.n_epochs
    assert model.log_weights_.shape == (3, 9 if "shared" in name else 3 if name == "expanded" else 6)
    assert len(model.theta_) == model.log_weights_.shape[1]
    np.testing.assert_array_equal(model.predict_log_proba(np.asfortranarray(X_TEST)), model.predict_log_proba(X_TEST))
    assert bits(kept(model, tmp_path / "m")) == bits(model)


@pytest.mark.parametrize("loss", LOSSES[:2])
@pytest.mark.parametrize("settings", [{}, {"covariance_type": "full"}, *({"components": c} for c in FAMILIES)], ids=str)
def test_discriminative_losses_end_lower_than_em(loss, settings):
    """Where a class is no one distribution of the family."""
    rows = X > 6.0 if settings.get("components") == "bernoulli" else X
    em, sdem = (mixture(1, **s, **settings).fit(rows, Y).evaluate(rows, Y) for s in (EM, {**SDEM, "loss": loss}))
    assert sdem[loss] < em[loss] - 0.005


def test_the_posterior_alone_has_no_density_and_tables_have_no_words(fitted):
    assert not hasattr(fitted["em gaussian"], "feature_log_prob_") and word_weights(fitted["em gaussian"]) == {}
    for name in ("score_samples", "sample", "predict_joint_log_proba"):
        assert not hasattr(fitted["multiplicative"], name)
    assert fitted["literal"].eta_ == pytest.approx(X.sum(axis=1).max())


def test_missing_values_are_summed_out():
    gaps = X.copy()
    gaps[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    for settings in ({**EM, "components": "poisson"}, {**EM, "components": "exponential"}, SDEM):
        model = mixture(2, validation_fraction=0.0, **settings).fit(gaps, Y)
        assert model.score(X_TEST, Y_TEST) > 0.88
        nothing = model.predict_proba(np.full((1, 4), np.nan))[0]
        np.testing.assert_allclose(nothing, np.exp(np.logaddexp.reduce(model.log_weights_, axis=1)), rtol=1e-6)
    np.testing.assert_raises_regex(ValueError, "NaN in some, but not all", mixture(2, **KINDS["em full"]).fit, gaps, Y)
    with pytest.raises(ValueError, match=r"contains NaN .*row \d+, .*do not support missing values: impute"):
        mixture().fit(gaps, Y)


@pytest.mark.parametrize("kind", [sd.EMMixtureClassifier, sd.SdemMixtureClassifier])
def test_words_of_a_class_are_those_of_its_documents(kind):
    model = mixture({"a": 1, "b": 3, "c": 2}, kind=kind, components="multinomial", n_epochs=3).fit(X, Y)
    p = np.exp(model.feature_log_prob_)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(p[0], np.exp(model.theta_[0]))
    drawn, classes = model.sample(6_000, 0, length=20)
    for k, name in enumerate(model.classes_):
        counts = np.asarray(drawn[classes == name].sum(axis=0)).ravel()
        np.testing.assert_allclose(counts / counts.sum(), p[k], atol=0.01)
    said = word_weights(model, 1)
    assert list(said) == ["a", "b", "c"] and all(said.values())


def test_components_by_class():
    model = mixture({"a": 1, "b": 3, "c": 2}, n_epochs=5).fit(X, Y)
    assert np.isfinite(model.log_weights_).sum(axis=1).tolist() == [1, 3, 2]
    assert mixture([1, 3, 2], n_epochs=5).fit(X, Y).theta_.shape == (6, 4)
    few = mixture(5, n_epochs=5).fit(X[:7], Y[:7])  # more components than documents
    assert few.theta_.shape == (15, 4) and few.score(X[:7], Y[:7]) == 1.0


def test_values_that_have_no_place(tmp_path):
    with pytest.raises(ValueError, match=r"Negative values .*row 3"):
        mixture().fit(np.where(np.arange(len(X))[:, None] == 3, -1.0, X), Y)
    for settings, said in (({"expand": True}, "expand and .*"), ({"dtype": "float32"}, "dtype='float32'")):
        with pytest.raises(ValueError, match=f"{said} need a table, but X is sparse"):
            mixture(**settings).fit(sp.csr_matrix(X), Y)
    corpus = sd.write_corpus(tmp_path / "c", np.where(X == 1, np.nan, X), Y, dense=True)
    np.testing.assert_raises_regex(ValueError, "do not support missing values", mixture().fit, corpus)
    np.testing.assert_raises_regex(
        sd.CorpusError, "needs sparse documents", mixture(components="multinomial", **EM).fit, corpus
    )
    np.testing.assert_raises_regex(
        DocumentError, "but Exponential does", mixture(components="exponential", **EM).fit, -X, Y
    )


@pytest.mark.parametrize("values", [-X, np.where(X == 1, np.nan, X)], ids=["negative", "missing"])
def test_corpora_with_values_that_have_no_place_are_not_evaluated(fitted, values, tmp_path):
    corpus = sd.write_corpus(tmp_path / "c", values, Y, dense=True)
    np.testing.assert_raises_regex(ValueError, "negative or missing", fitted["multiplicative"].evaluate, corpus)
    np.testing.assert_raises_regex(ValueError, "negative or missing", mixture(2).fit, X, Y, validation=corpus)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_a_class_without_weight_is_warned_of_and_rare(settings):
    with pytest.warns(UserWarning, match=r"no document of positive weight in 1 class \(b\)"):
        model = mixture(**settings).fit(X, Y, sample_weight=(Y != "b").astype(float))
    of_b = model.predict_proba(X)[:, model.classes_.tolist().index("b")]
    assert np.isfinite(of_b).all() and of_b.mean() < 0.2


def test_a_run_that_started_elsewhere_is_not_resumed(tmp_path):
    first, other = ({**SDEM, "n_em_epochs": n, "validation_fraction": 0.0} for n in (1, 2))
    mixture(2, **{**first, "n_epochs": 2}).fit(X, Y, checkpoint=tmp_path)
    with pytest.raises(sd.ModelError, match="other settings"):
        mixture(2, **{**other, "n_epochs": 4}).fit(X, Y, checkpoint=tmp_path, resume=True)
    free = {"n_epochs": 4, "n_jobs": 1, "evaluate_every": 0}
    assert mixture(2, **{**first, **free}).fit(X, Y, checkpoint=tmp_path, resume=True).n_iter_ == 4


def test_a_start_by_the_margin_does_not_hear_documents_of_weight_zero():
    weights = np.where(np.arange(len(Y)) < 200, 1.0, 0.0)
    others = X * np.where(weights > 0, 1.0, 20.0)[:, None]
    one, two = (mixture(2, **KINDS["sdem multinomial ncll"]).fit(sp.csr_matrix(x), Y, weights) for x in (X, others))
    np.testing.assert_array_equal(one.predict_log_proba(X_TEST), two.predict_log_proba(X_TEST))


def test_class_weights_favour_a_class():
    blurred = X + np.random.default_rng(0).poisson(15.0, X.shape)
    for settings in ({"n_epochs": 30}, {**EM, "n_epochs": 10}, SDEM):
        fitted = (mixture(1, class_weight=w, **settings).fit(blurred, Y) for w in (None, {"a": 5.0}))
        plain, heavy = ((model.predict(blurred) == "a").mean() for model in fitted)
        assert heavy > plain


COUNTS = {"components": "multinomial"}
KINDS_OVERLAP = {
    "EM": (sd.EMMixtureClassifier, {"n_epochs": 15}),
    "EM of counts": (sd.EMMixtureClassifier, {**COUNTS, "n_epochs": 15}),
    "sdEM": (sd.SdemMixtureClassifier, {"n_epochs": 15, "validation_fraction": 0.1}),
    "sdEM of counts": (sd.SdemMixtureClassifier, {**COUNTS, "n_epochs": 4, "validation_fraction": 0.1}),
    "updates": (sd.MultiplicativeMixtureClassifier, {"n_epochs": 30}),
    "updates of sparse rows": (sd.MultiplicativeMixtureClassifier, {"n_epochs": 30}),
}


def table_overlap(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three classes that overlap; every column is there six times, which no component knows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    once = rng.poisson(np.array([[4, 2, 2], [2, 4, 2], [2, 2, 4]])[y])
    return np.tile(once, 6).astype(float), np.array(["a", "b", "c"], "U8")[y]


def log_loss(log_p: np.ndarray, y: np.ndarray) -> float:
    return float(-log_p[np.arange(len(y)), np.searchsorted(["a", "b", "c"], y)].mean())


def given(name: str, X: np.ndarray) -> np.ndarray | sp.csr_matrix:
    return sp.csr_matrix(X) if "counts" in name or "sparse" in name else X


@pytest.mark.parametrize("name", KINDS_OVERLAP)
def test_held_out_documents_make_probabilities_honest_and_change_no_prediction(name):
    kind, settings = KINDS_OVERLAP[name]
    (X, y), (X_test, y_test) = table_overlap(900, 0), table_overlap(900, 1)
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
    X, y = table_overlap(400, 0)
    y[:8] = [f"only {k}" for k in range(8)]
    for seed in range(5):
        assert sd.EMMixtureClassifier(1, n_epochs=2, random_state=seed).fit(X, y).temperature_ != 1.0


def test_a_class_of_weight_0_does_not_decide():
    X, y = table_overlap(900, 0)
    weightless = sd.EMMixtureClassifier(2, n_epochs=5, class_weight={"c": 0}).fit(X, y)
    rest = sd.EMMixtureClassifier(2, n_epochs=5).fit(X[y != "c"], y[y != "c"])
    assert weightless.temperature_ == pytest.approx(rest.temperature_, rel=0.5)
    assert weightless.predict_proba(X[y != "c"]).max(axis=1).mean() > 0.7


def test_groups_are_kept_together_where_there_are_enough(tmp_path):
    X, y = table_overlap(600, 0)
    for n_groups in (4, 60):
        groups = np.arange(600) % n_groups
        corpus = sd.write_corpus(tmp_path / str(n_groups), X, y, dense=True, groups=groups, shuffle=False)
        inside = groups[held_out_of(corpus, 0.1, 0, 20, 20_000)]
        assert len(inside) >= 30
        assert (np.bincount(inside, minlength=n_groups) % 10 == 0).all() == (n_groups == 60)
        assert sd.EMMixtureClassifier(2, n_epochs=3).fit(corpus).temperature_ != 1.0


@pytest.mark.parametrize("name", ["sdEM of counts", "updates"])
def test_where_patience_ends_a_training_the_temperature_is_of_the_epochs_that_are_kept(name):
    kind, settings = KINDS_OVERLAP[name]
    (X, y), (X_new, y_new) = table_overlap(900, 0), table_overlap(300, 2)
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
    X, y = table_overlap(150, 0)
    model = sd.EMMixtureClassifier(1).fit(X, y)
    assert model.temperature_ == 1.0 and not any("held_out_log_loss" in entry for entry in model.history_)


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
