"""Models elsewhere: scikit-learn pipelines, skops files and ONNX predict what the models do."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from cli.commands import ok, refused

import sdem_dist
from sdem_dist import BernoulliNB, CategoricalNB, GaussianNB, GaussianRegressor, ModelError, MultinomialNB, PoissonNB
from sdem_dist.catalogue import ESTIMATORS
from sdem_dist.export import EXPRESSIBLE, save_onnx, save_skops, why_from_counts
from sdem_dist.text import VectorizerSettings

RNG = np.random.default_rng(3)
WORDS = [f"word{i}" for i in range(40)] + ["naïve", "a_b", "Über"]
TEXTS = [" ".join(RNG.choice(WORDS, 1 + i % 30, p=RNG.dirichlet(np.full(len(WORDS), 0.2)))) for i in range(90)]
TEXTS += ["", "!"]
LABELS = np.array(["ant", "bee", "cow"])[np.arange(92) % 3]
NEW = ["naïve naïve WORD3 word3 word3 unknown", "", "über A_B word1", *TEXTS[:20]]


SETTINGS = [
    {}, {"loss": "nll"}, {"weighting": "log"}, {"weighting": "binary", "min_df": 3}, {"weighting": "counts"},
    {"weighting": "tfidf", "norm": None, "loss": "ncll"}, {"weighting": "log", "norm": None, "min_df": 2},
    {"vectorizer": VectorizerSettings(ngram_range=(1, 2), stop_words=("word1",), lowercase=False), "ngram_range": (2, 2)},
    {"vectorizer": VectorizerSettings(kind="hashing", n_features=64, strip_accents="unicode")},
    {"vectorizer": VectorizerSettings(analyzer="char_wb", ngram_range=(2, 3))},
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_pipeline_and_an_onnx_file_predict_alike(settings, n_classes, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    labels = LABELS if n_classes == 3 else np.where(LABELS == "ant", 1, 0)
    model = MultinomialNB(**settings).fit(TEXTS, labels)
    expected = model.predict_proba(NEW)
    pipeline = model.to_sklearn()
    np.testing.assert_allclose(pipeline.predict_proba(NEW), expected, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(pipeline.predict(NEW), model.predict(NEW))
    assert all(type(step).__module__.startswith("sklearn.") for _, step in pipeline.steps)
    counts = model.vectorize(NEW)
    np.testing.assert_allclose(model.to_sklearn(from_counts=True).predict_proba(counts), expected, rtol=0, atol=1e-6)
    save_onnx(model, tmp_path / "c.onnx", from_counts=True)
    save_onnx(model, tmp_path / "m.onnx")
    inputs = {"counts": counts.toarray().astype(np.float64), "texts": np.array(NEW, object)}
    for name, of in {"c": "counts", "m": "counts" if why_from_counts(model) else "texts"}.items():
        session = ort.InferenceSession(tmp_path / f"{name}.onnx")
        label, found = session.run(None, {of: inputs[of]})
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(label.tolist(), model.predict(NEW).tolist())
        about = session.get_modelmeta().custom_metadata_map
        assert json.loads(about["vectorizer"]) == json.loads(json.dumps(model.vectorizer_))


def test_onnx_cuts_texts_as_the_model_does(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    codes = (*range(1, 0x2800), *range(0x2800, 0x110000, 17))
    differ = (0x130, 0x3A3)  # see why_from_counts
    letters = [chr(code) for code in codes if not 0xD800 <= code < 0xE000 and code not in differ]
    words = [f"a{letter}" for letter in letters if f"a{letter}".isalnum()]
    model = MultinomialNB(n_epochs=1).fit([" ".join(words[i::2]) for i in (0, 1)] * 2, ["a", "b"] * 2)
    save_onnx(model, tmp_path / "m.onnx")
    session = ort.InferenceSession(tmp_path / "m.onnx")
    parts = (letters[start : start + 40_000] for start in range(0, len(letters), 40_000))
    every = ([" ".join(f"A{c} b{c}{c}c {c}" for c in part[i::4]) for i in range(4)] for part in parts)
    for texts in (*every, [""], ["", "!"], ["a"], ["", words[0], ""]):
        (found,) = session.run(["probabilities"], {"texts": np.array(texts, object)})
        np.testing.assert_allclose(found, model.predict_proba(texts), rtol=0, atol=1e-7)


REASONS = [
    ({"stem": "english"}, "stem"), ({"kind": "hashing", "n_features": 8}, "hash"), ({"strip_accents": "unicode"}, "accents"),
    ({"analyzer": "char_wb", "ngram_range": (2, 3)}, "character n-grams"), ({"token_pattern": r"\w+"}, "token pattern"),
    ({"stop_words": "english", "ngram_range": (1, 2)}, "stop words"), (None, "trained on counts"),
    ({"stop_words": "english"}, ""), ({"ngram_range": (2, 3), "lowercase": False}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "reason"), REASONS, ids=str)
def test_onnx_says_why_it_takes_counts(settings, reason, tmp_path):
    X = TEXTS if settings is not None else RNG.poisson(1.0, (len(TEXTS), 5))
    vectorizer = {} if settings is None else {"vectorizer": VectorizerSettings(**settings)}
    model = MultinomialNB(n_epochs=1, **vectorizer).fit(X, LABELS)
    assert reason in why_from_counts(model) and bool(reason) == bool(why_from_counts(model))
    model.save(tmp_path / "m")
    shown = ok("export", str(tmp_path / "m"), str(tmp_path / "m.onnx"))
    assert reason in shown and ("input: counts of" if reason else "input: texts") in shown
    if settings == {"stem": "english"}:
        np.testing.assert_raises_regex(ModelError, "from_counts", model.to_sklearn)
    if not reason:
        session = pytest.importorskip("onnxruntime").InferenceSession(tmp_path / "m.onnx")
        (found,) = session.run(["probabilities"], {"texts": np.array(NEW, object)})
        np.testing.assert_allclose(found, model.predict_proba(NEW), rtol=0, atol=1e-6)
    elif settings is not None:
        found = model.to_sklearn(from_counts=True).predict_proba(model.vectorize(NEW))
        np.testing.assert_allclose(found, model.predict_proba(NEW), atol=1e-6)


@pytest.mark.parametrize("weighting", ["auto", "log"])
@pytest.mark.parametrize("kind", [{}, {"kind": "hashing", "n_features": 512}])
def test_words_and_characters_are_a_feature_union(kind, weighting, tmp_path):
    settings = VectorizerSettings(features="words+characters", **kind)
    model, new = (
        MultinomialNB(n_epochs=1, vectorizer=settings, weighting=weighting).fit(TEXTS, LABELS),
        [*NEW, "", "odd?"],
    )
    np.testing.assert_allclose(model.to_sklearn().predict_proba(new), model.predict_proba(new), atol=1e-6)
    for export in (lambda: model.to_sklearn(from_counts=True), lambda: save_onnx(model, tmp_path / "m.onnx")):
        np.testing.assert_raises_regex(ModelError, "weighted separately", export)


def test_it_works_where_this_package_is_not(tmp_path):
    pytest.importorskip("skops")
    model = MultinomialNB().fit(TEXTS, LABELS)
    save_skops(model, tmp_path / "m.skops")
    np.save(tmp_path / "p.npy", model.predict_proba(NEW))
    (tmp_path / "new.json").write_text(json.dumps(NEW))
    code = """
import sys, json
class Refuse:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] == "sdem_dist":
            raise ImportError("not here")
sys.meta_path.insert(0, Refuse())
import numpy as np, skops.io
assert skops.io.get_untrusted_types(file="m.skops") == []
model = skops.io.load("m.skops", trusted=[])
np.testing.assert_allclose(model.predict_proba(json.load(open("new.json"))), np.load("p.npy"), rtol=0, atol=1e-6)
assert not any(name.startswith("sdem_dist") for name in sys.modules)
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=120, env=environment)
    assert b"sdem_dist" not in (tmp_path / "m.skops").read_bytes()


@pytest.mark.parametrize("loss", ["nll", "ncll"])
@pytest.mark.parametrize("class_prior", [None, [0.2, 0.5, 0.3]])
def test_tables(loss, class_prior):
    y = np.arange(90) % 3
    X = RNG.integers(0, [2, 4, 3, 4], (90, 4)) * (RNG.random((90, 4)) < 0.3 + 0.2 * y[:, None])
    for model in (
        BernoulliNB(loss=loss, class_prior=class_prior, binarize=1.0),
        BernoulliNB(loss=loss, class_prior=class_prior, alpha=0.1),
        CategoricalNB(loss=loss, class_prior=class_prior, min_categories=5),
        CategoricalNB(loss=loss, class_prior=class_prior),
        GaussianNB(),
    ):
        pipeline = model.fit(X, y).to_sklearn()
        np.testing.assert_allclose(pipeline.predict_proba(X), model.predict_proba(X), rtol=0, atol=1e-9)
        np.testing.assert_array_equal(pipeline.predict(X), model.predict(X))
        assert type(pipeline[-1]).__module__ == "sklearn.naive_bayes"
    regressor = GaussianRegressor().fit(X, X @ np.arange(4) + RNG.normal(size=90))
    np.testing.assert_allclose(regressor.to_sklearn().predict(X), regressor.predict(X), atol=1e-9)


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - set(EXPRESSIBLE)))
def test_others_say_so(name):
    made = getattr(sdem_dist, name)()
    for parameter in ("n_components", "n_epochs"):
        if parameter in made.get_params():
            made.set_params(**{parameter: 2})
    X = (RNG.random((30, 4)) > 0.5).astype(float)
    y = {"labels": np.arange(30) % 2, "numbers": np.arange(30.0), "nothing": None}[made.spec.target]
    made.fit(sp.csr_matrix(X) if made._layout == "sparse" else X, y)
    np.testing.assert_raises_regex(ModelError, f"a {name} cannot be exported to scikit-learn", made.to_sklearn)
    np.testing.assert_raises_regex(ModelError, f"this is a {name}", save_onnx, made, "never.onnx")


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    MultinomialNB(n_epochs=1).fit(TEXTS, LABELS).save("m")
    PoissonNB(n_epochs=1).fit(np.ones((6, 2)), [0, 1] * 3).save("p")
    for arguments, said in {
        "a.onnx": "input: texts",
        "f.onnx --from-counts": "input: counts of 44 words",
        "b --sklearn": "input: texts",
        "c.skops --from-counts": "input: numbers",
    }.items():
        assert said in ok(f"export m {arguments}")
    assert "PoissonNB" in refused("export p e.skops")
    monkeypatch.setattr("sdem_dist.export.LARGEST", 1000)
    assert "an ONNX file is limited to" in refused("export m large.onnx")
    assert sorted(os.listdir()) == ["a.onnx", "b", "c.skops", "f.onnx", "m", "p"]
