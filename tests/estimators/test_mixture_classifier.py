"""`MixtureClassifier`, as a user has it."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist import CorpusError, MixtureClassifier, ModelError, load_model, write_corpus
from sdem_dist.errors import DocumentError

EM = {"training": "em"}
SDEM = {"training": "sdem", "n_epochs": 20}
KINDS = {
    "multiplicative": {"n_epochs": 30},
    "literal": {"n_epochs": 30, "scaling": None, "schedule": "alternate", "accelerate": False},
    "single": {"n_epochs": 20, "dtype": "float32"},
    "shared": {"n_epochs": 30, "shared": True, "n_components": 9},
    "from EM": {"n_epochs": 10, "init": "em"},
    "expanded": {"n_epochs": 10, "expand": True, "n_components": 1},
    "expanded from EM": {"n_epochs": 10, "expand": True, "init": "em"},
    "em gaussian": {**EM, "n_epochs": 10},
    "em exponential": {**EM, "components": "exponential", "offset": 0.1, "n_epochs": 10},
    "em hard": {**EM, "assignment": "hard", "n_epochs": 10},
    "em generalised": {**EM, "em_step": 0.5, "n_epochs": 10},
    "em multinomial": {**EM, "components": "multinomial", "n_epochs": 10},
    "sdem gaussian": SDEM,
    "sdem exponential": {**SDEM, "components": "exponential", "loss": "hinge"},
    "sdem multinomial": {**SDEM, "components": "multinomial", "n_epochs": 3},
    "sdem multinomial hinge": {**SDEM, "components": "multinomial", "loss": "hinge", "n_epochs": 3},
    "sdem nll": {**SDEM, "components": "multinomial", "loss": "nll", "n_epochs": 3},
}


def table(n=400, seed=0):
    """Three classes of two clusters each, whole numbers; no class is one convex lump."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    means = np.array([[9, 1, 1, 4], [1, 9, 4, 1], [1, 1, 9, 4], [9, 4, 1, 1], [4, 9, 1, 9], [1, 4, 9, 1]], float) * 2.0
    return rng.poisson(means[2 * y + rng.integers(0, 2, n)]).astype(float), np.array(["a", "b", "c"])[y]


X, Y = table()
X_TEST, Y_TEST = table(seed=1)


@pytest.fixture(scope="module")
def fitted():
    return {name: MixtureClassifier(**{"n_components": 2, **settings}).fit(X, Y) for name, settings in KINDS.items()}


def bits(model):
    digest = hashlib.sha256()
    for value in model._state:
        digest.update(np.ascontiguousarray(value).tobytes())
    history = [{k: v for k, v in h.items() if k not in ("epoch", "seconds")} for h in model.history_]
    digest.update(repr(history).encode())
    return digest.hexdigest()


@pytest.mark.parametrize("name", KINDS)
def test_every_training_classifies(fitted, name):
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
    assert model.log_weights_.shape == (3, 9 if name == "shared" else 3 if name == "expanded" else 6)
    assert len(model.theta_) == model.log_weights_.shape[1]


@pytest.mark.parametrize("name", KINDS)
def test_there_and_back(fitted, name, tmp_path):
    model = fitted[name]
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.get_params() == model.get_params()
    assert bits(loaded) == bits(model)
    np.testing.assert_array_equal(loaded.predict_proba(X_TEST), model.predict_proba(X_TEST))
    assert loaded.evaluate(X_TEST, Y_TEST) == model.evaluate(X_TEST, Y_TEST)
    assert loaded.classes_.tolist() == ["a", "b", "c"]


def test_starting_at_em_is_the_posterior_of_the_generative_model():
    for expand in (False, True):
        start = MixtureClassifier(2, init="em", expand=expand, scaling=None, n_epochs=1).fit(X, Y)
        kind = "gaussian" if expand else "exponential"
        em = MixtureClassifier(2, training="em", components=kind, n_epochs=11, evaluate_every=0).fit(X, Y)
        near = abs(start.predict_proba(X) - em.predict_proba(X)).max()
        assert near < 0.01
    gained = MixtureClassifier(2, init="em", scaling=None, n_epochs=50).fit(X, Y).log_likelihood_path_
    assert gained[-1] > gained[0]


@pytest.mark.parametrize("loss", ["ncll", "hinge"])
def test_discriminative_losses_end_lower_than_em(loss):
    """Where a class is no one Gaussian."""
    em, sdem = (MixtureClassifier(1, **s).fit(X, Y).evaluate(X, Y) for s in (EM, {**SDEM, "loss": loss}))
    assert sdem[loss] < em[loss] - 0.01


@pytest.mark.parametrize("name", ["em gaussian", "em exponential", "em multinomial"])
def test_samples_and_densities(fitted, name):
    model = fitted[name]
    rows, y = model.sample(3000, random_state=0)
    assert rows.shape == (3000, 4) and set(y) == {"a", "b", "c"}
    assert model.score(rows, y) > (0.55 if name == "em exponential" else 0.85)  # exponentials overlap
    if name != "em multinomial":
        np.testing.assert_allclose(rows.mean(axis=0), X.mean(axis=0), rtol=0.15)
    dense = rows.toarray() if sp.issparse(rows) else rows
    joint = model.predict_joint_log_proba(dense)
    np.testing.assert_allclose(model.score_samples(dense), np.log(np.exp(joint).sum(axis=1)), rtol=1e-9)


def test_the_posterior_alone_has_no_density(fitted):
    for name in ("score_samples", "sample"):
        with pytest.raises(AttributeError, match="has no attribute"):
            getattr(fitted["multiplicative"], name)(X)
    with pytest.raises(AttributeError, match="multiplicative"):
        _ = fitted["em gaussian"].eta_
    assert fitted["literal"].eta_ == pytest.approx(X.sum(axis=1).max())


def test_missing_values_are_summed_out():
    gaps = X.copy()
    gaps[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    for settings in ({**EM, "components": "gaussian"}, {**EM, "components": "exponential"}, SDEM):
        model = MixtureClassifier(2, **settings).fit(gaps, Y)
        assert model.score(X_TEST, Y_TEST) > 0.88
        nothing = model.predict_proba(np.full((1, 4), np.nan))[0]
        np.testing.assert_allclose(nothing, np.exp(np.logaddexp.reduce(model.log_weights_, axis=1)), rtol=1e-6)
    with pytest.raises(ValueError, match=r"contains NaN: row \d+ .*no place for missing values: impute"):
        MixtureClassifier().fit(gaps, Y)


def test_components_by_class():
    model = MixtureClassifier({"a": 1, "b": 3, "c": 2}, n_epochs=5).fit(X, Y)
    assert np.isfinite(model.log_weights_).sum(axis=1).tolist() == [1, 3, 2]
    assert MixtureClassifier([1, 3, 2], n_epochs=5).fit(X, Y).theta_.shape == (6, 4)
    few = MixtureClassifier(5, n_epochs=5).fit(X[:7], Y[:7])  # more components than documents
    assert few.theta_.shape == (15, 4) and few.score(X[:7], Y[:7]) == 1.0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"training": "magic"}, "training must be one of"),
        ({"n_components": 0}, "n_components must be a positive integer"),
        ({"n_components": [1, 2]}, "or one for each class"),
        ({"n_components": None}, "or one for each class"),
        ({"n_components": {"a": 1}}, "other classes than there are"),
        ({"loss": "hinge"}, "loss means nothing with training='multiplicative'"),
        ({"training": "em", "scaling": None}, "scaling means nothing with training='em'"),
        ({"training": "em", "components": "multinomial", "prior": 2.0}, "prior means nothing"),
        ({"training": "em", "em_step": 1.5}, "em_step must be above 0"),
        ({"shared": True, "init": "em"}, "needs shared=False"),
        ({"n_epochs": 0}, "n_epochs must be a positive integer"),
        ({"training": "sdem", "prior": 0.0}, "prior must be a positive number"),
        ({"patience": 2}, "patience needs validation"),
    ],
)
def test_settings_that_make_no_sense(settings, said):
    with pytest.raises(ValueError, match=said):
        MixtureClassifier(**settings).fit(X, Y)


def test_values_that_have_no_place(tmp_path):
    with pytest.raises(ValueError, match=r"Negative values .*row 3"):
        MixtureClassifier().fit(np.where(np.arange(len(X))[:, None] == 3, -1.0, X), Y)
    with pytest.raises(ValueError, match="expand multiplies columns of tables"):
        MixtureClassifier(expand=True).fit(sp.csr_matrix(X), Y)
    with pytest.raises(ValueError, match="dtype='float32' is for tables"):
        MixtureClassifier(dtype="float32").fit(sp.csr_matrix(X), Y)
    write_corpus(tmp_path / "c", np.where(X == 1, np.nan, X), Y, dense=True)
    from sdem_dist import open_corpus

    with pytest.raises(ValueError, match="no place for missing values"):
        MixtureClassifier().fit(open_corpus(tmp_path / "c"))
    with pytest.raises(CorpusError, match="takes sparse ones"):
        MixtureClassifier(training="em", components="multinomial").fit(open_corpus(tmp_path / "c"))
    with pytest.raises(DocumentError, match="Exponential column"):
        MixtureClassifier(training="em", components="exponential").fit(-X, Y)
    (tmp_path / "bad").write_bytes(b"no model")
    with pytest.raises(ModelError):
        load_model(tmp_path / "bad")


def test_damaged_model_files_are_refused(fitted, tmp_path):
    from sdem_dist.storage.archive import read_archive, write_archive

    for name in ("multiplicative", "em gaussian", "em multinomial"):
        fitted[name].save(tmp_path / "m")
        arrays, metadata = read_archive(tmp_path / "m", "sdem-model")
        learner = metadata["learner"]
        learner.get("model", learner)["owners"] = [0, 0, 0, 0, 0, 0]
        write_archive(tmp_path / "odd", "sdem-model", arrays, metadata)
        with pytest.raises(ModelError, match="do not fit together"):
            load_model(tmp_path / "odd")
    fitted["multiplicative"].save(tmp_path / "m")
    arrays, metadata = read_archive(tmp_path / "m", "sdem-model")
    for field, value in (("dtype", "int8"), ("eta", -1.0)):
        odd = {**metadata, "learner": {**metadata["learner"], field: value}}
        write_archive(tmp_path / "odd", "sdem-model", arrays, odd)
        with pytest.raises(ModelError, match="dtype 'int8'|eta -1.0"):
            load_model(tmp_path / "odd")
    write_archive(tmp_path / "odd", "sdem-model", {**arrays, "factor": np.ones(2)}, metadata)
    with pytest.raises(ModelError, match="array 'factor'"):
        load_model(tmp_path / "odd")


@pytest.mark.parametrize("values", [-X, np.where(X == 1, np.nan, X)], ids=["negative", "missing"])
def test_corpora_with_values_that_have_no_place_are_not_evaluated(fitted, values, tmp_path):
    corpus = write_corpus(tmp_path / "c", values, Y, dense=True)
    with pytest.raises(ValueError, match="negative or missing"):
        fitted["multiplicative"].evaluate(corpus)
    with pytest.raises(ValueError, match="negative or missing"):
        MixtureClassifier(2, n_epochs=2).fit(X, Y, validation=corpus)


@pytest.mark.parametrize("settings", [{}, EM, {**EM, "components": "multinomial"}])
def test_a_class_without_weight_is_named(settings):
    with pytest.raises(ValueError, match="class 'b' has no training document of positive weight"):
        MixtureClassifier(2, n_epochs=2, **settings).fit(X, Y, sample_weight=(Y != "b").astype(float))


def test_predictions_do_not_depend_on_the_layout_of_memory():
    rng = np.random.default_rng(0)
    wide, labels = rng.random((50, 300)), np.arange(50) % 3
    model = MixtureClassifier(2, n_epochs=3).fit(wide, labels)
    np.testing.assert_array_equal(
        model.predict_joint_log_proba(np.asfortranarray(wide)), model.predict_joint_log_proba(wide)
    )


@pytest.mark.parametrize("settings", [{"n_epochs": 30}, {**EM, "n_epochs": 10}, {**EM, "components": "multinomial"}])
def test_documents_of_weight_zero_have_no_say(settings):
    wrong = np.arange(len(Y)) % 2 == 0
    mistaken = np.where(wrong, np.roll(Y, 1), Y)
    weighted = MixtureClassifier(2, **settings).fit(X, mistaken, sample_weight=np.where(wrong, 0.0, 1.0))
    assert weighted.score(X_TEST, Y_TEST) > 0.85
    assert MixtureClassifier(2, **settings).fit(X, mistaken).score(X_TEST, Y_TEST) < 0.8


def test_class_weights_favour_a_class():
    blurred = X + np.random.default_rng(0).poisson(15.0, X.shape)
    for settings in ({"n_epochs": 30}, {**EM, "n_epochs": 10}, SDEM):
        found = [
            (MixtureClassifier(1, class_weight=w, **settings).fit(blurred, Y).predict(blurred) == "a").mean()
            for w in (None, {"a": 5.0})
        ]
        assert found[1] > found[0]


def test_validation_stops_and_keeps_the_best():
    model = MixtureClassifier(8, n_epochs=300, evaluate_every=5, patience=3).fit(
        X[:60], Y[:60], validation=(X_TEST, Y_TEST)
    )
    seen = [h["validation_ncll"] for h in model.history_ if "validation_ncll" in h]
    assert len(model.history_) < 300
    assert model.evaluate(X_TEST, Y_TEST)["ncll"] == pytest.approx(min(seen))


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixtures")
    wide, labels = table(9000, seed=3)
    return {
        True: write_corpus(folder / "dense", wide, labels, dense=True, shard_documents=700),
        False: write_corpus(folder / "sparse", sp.csr_matrix(wide), labels, shard_documents=700),
    }


PLACES = {
    "multiplicative": (True, {"n_epochs": 4}),
    "sparse": (False, {"n_epochs": 4}),
    "from EM": (True, {"n_epochs": 2, "init": "em"}),
    "em": (True, {**EM, "n_epochs": 3}),
    "sdem": (True, {**SDEM, "n_epochs": 3, "n_em_epochs": 2}),
    "counts": (False, {**SDEM, "components": "multinomial", "n_epochs": 1, "n_em_epochs": 2}),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_same_bits_in_threads_and_after_a_checkpoint(corpora, name, tmp_path, monkeypatch):
    import sdem_dist.estimators.fitting as fitting

    monkeypatch.setattr(fitting, "SMALL", 0)  # two threads for little data too
    dense, settings = PLACES[name]
    one, two = (
        MixtureClassifier(2, evaluate_every=2, n_jobs=n, **settings).fit(corpora[dense], checkpoint=tmp_path / str(n))
        for n in (1, 2)
    )
    assert bits(one) == bits(two)
    if settings["n_epochs"] < 2:
        return
    kept = tmp_path / "resumed"
    short = {**settings, "n_epochs": settings["n_epochs"] - 1}
    MixtureClassifier(2, evaluate_every=2, **short).fit(corpora[dense], checkpoint=kept)
    resumed = MixtureClassifier(2, evaluate_every=2, **settings).fit(corpora[dense], checkpoint=kept, resume=True)
    for a, b in zip(resumed._state, one._state, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("first", "other"),
    [({"init": "em"}, {}), ({**SDEM, "n_em_epochs": 1}, {**SDEM, "n_em_epochs": 2})],
    ids=["init", "n_em_epochs"],
)
def test_a_run_that_started_elsewhere_is_not_resumed(tmp_path, first, other):
    MixtureClassifier(2, **{**first, "n_epochs": 2}).fit(X, Y, checkpoint=tmp_path)
    with pytest.raises(ModelError, match="other settings"):
        MixtureClassifier(2, **{**other, "n_epochs": 4}).fit(X, Y, checkpoint=tmp_path, resume=True)
    free = {"n_epochs": 4, "n_jobs": 1, "evaluate_every": 0}
    assert MixtureClassifier(2, **{**first, **free}).fit(X, Y, checkpoint=tmp_path, resume=True).n_iter_ == 4


def test_the_same_bits_on_a_cluster(corpora):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50) as c,
        Client(c) as client,
    ):
        for dense, settings in PLACES.values():
            there = MixtureClassifier(2, evaluate_every=2, **settings).fit(corpora[dense], client=client)
            here = MixtureClassifier(2, evaluate_every=2, **settings).fit(corpora[dense])
            assert bits(there) == bits(here)
            assert there.evaluate(corpora[dense], client=client) == here.evaluate(corpora[dense])
