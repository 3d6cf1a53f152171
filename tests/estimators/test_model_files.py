"""Models as files: the same bits back, whatever classes and settings are; and a clear word about every file that is none."""

import copy
import math
from dataclasses import make_dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from reference.random_documents import random_counts
from reference.trained_bits import bits, kept

import sdem_dist as sd
from sdem_dist.learners.rules import StepSizes
from sdem_dist.losses import Blend, CostSensitiveHinge, Ncll
from sdem_dist.records import plain, record, restored
from sdem_dist.saving import KIND
from sdem_dist.storage import archive
from sdem_dist.storage.archive import read_archive, write_archive
from sdem_dist.storage.encoding import from_json, to_json

X, Y = random_counts(120, 20, 3, seed=2)


def without_seconds(model):
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in model.history_]


def assert_same_model(a: sd.MultinomialNB, b: sd.MultinomialNB) -> None:
    for left, right in zip(a.state_, b.state_, strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(a.predict_joint_log_proba(X), b.predict_joint_log_proba(X))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert a.classes_.dtype == b.classes_.dtype


def test_equal_models_are_equal_files(tmp_path):
    of_the_machine = {"a": {}, "b": {}, "c": {"n_jobs": 1, "verbose": True}, "d": {"n_jobs": 2}}
    for name, own in of_the_machine.items():
        sd.MultinomialNB(n_epochs=2, **own).fit(X, Y).save(tmp_path / name)
    assert len({(tmp_path / name).read_bytes() for name in of_the_machine}) == 1
    assert sd.load_model(tmp_path / "c").n_jobs is None


@pytest.mark.parametrize("parameters", [
    {}, {"loss": "hinge", "merge": "sum"}, {"loss": "nll", "alpha": 0.5}, {"loss": "nll", "unlabelled": 2},
    {"class_prior": np.array([0.2, 0.3, 0.5])}, {"class_prior": (0.5, 0.5, 0.0)}, {"fit_prior": False},
    {"class_weight": "balanced"}, {"class_weight": {0: 2.0, 2: 0.5}}, {"class_weight": {np.int64(1): 3.0}},
    {"random_state": np.random.RandomState(0)}, {"alpha": np.float64(0.3), "n_lanes": np.int64(2)},
])  # fmt: skip
def test_there_and_back(parameters, tmp_path):
    model = sd.MultinomialNB(**{"n_epochs": 2, **parameters}).fit(X, Y)
    loaded = kept(model, tmp_path / "m")
    assert_same_model(model, loaded)
    assert loaded.history_ == without_seconds(model) or parameters.get("class_prior") == (0.5, 0.5, 0.0)
    assert loaded.n_iter_ == model.n_iter_ and loaded.n_features_in_ == 20
    assert loaded.evaluate(X, Y) == pytest.approx(model.evaluate(X, Y), rel=1e-12)
    drawn_from = isinstance(parameters.get("random_state"), np.random.RandomState)
    for name, value in model.get_params().items():
        if name != "random_state":
            np.testing.assert_array_equal(loaded.get_params()[name], value)
    assert drawn_from or bits(loaded.fit(X, Y)) == bits(model)


@pytest.mark.parametrize("loss", ["ncll", "nll"])
def test_partial_fit_goes_on_the_same(loss, tmp_path):
    model = sd.MultinomialNB(loss=loss, class_weight={1: 2.0}).partial_fit(X[:60], Y[:60], classes=[0, 1, 2])
    loaded = kept(model, tmp_path / "m")
    assert_same_model(model.partial_fit(X[60:], Y[60:]), loaded.partial_fit(X[60:], Y[60:]))
    assert loaded.n_iter_ == 2


@pytest.mark.parametrize("classes", [
    np.array(["a", "long name", "é"]), np.array(["a", "b", "c"], dtype=object), np.array([3, 5, 900]),
    np.array([0, 1, 2], np.int8), np.array([0, 1, 2], np.uint16), np.array([0.0, 1.0, 2.0]),
    np.array([False, True]), np.array([-3, 2]),
    np.array([1, 2**63 + 1, 2**63 + 2], np.uint64),  # hashes, of which two would be one as floats
])  # fmt: skip
def test_classes_keep_their_type(classes, tmp_path):
    y = classes[Y % len(classes)]
    model = sd.MultinomialNB(n_epochs=1).fit(X, y)
    of_corpus = sd.MultinomialNB(n_epochs=1).fit(sd.write_corpus(tmp_path / "c", X, y)).classes_
    np.testing.assert_array_equal(of_corpus, classes)
    assert classes.dtype != np.uint64 or of_corpus.dtype == np.uint64
    loaded = kept(model, tmp_path / "m")
    np.testing.assert_array_equal(loaded.classes_, classes)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert type(loaded.predict(X)[0]) is type(model.predict(X)[0]) and loaded.score(X, y) == model.score(X, y)


def test_losses_that_are_not_finite(tmp_path):
    model = sd.MultinomialNB(n_epochs=2, class_prior=[1.0, 0.0, 0.0], evaluate_every=1).fit(X, Y)
    assert model.history_[-1]["nll"] == np.inf
    assert kept(model, tmp_path / "m").history_ == without_seconds(model)
    silent = sd.MultinomialNB(n_epochs=1, evaluate_every=1).fit(X * 0, Y)
    assert np.isnan(kept(silent, tmp_path / "s").history_[0]["perplexity"])


RNG = np.random.default_rng(0)
WHOLE = RNG.integers(0, 4, (60, 8))
LABELS, REAL = np.arange(60) % 3, RNG.normal(size=(60, 3))
COUNTS = sp.csr_matrix(WHOLE)
MODELS = {
    "naive Bayes": (sd.MultinomialNB(n_epochs=1), COUNTS, LABELS),
    "LDA": (sd.LDAClassifier(n_epochs=1), COUNTS, LABELS),
    "LDA, sampled": (sd.LDAClassifier(n_epochs=1, inference="gibbs", n_particles=2), COUNTS, LABELS),
    "Gaussian": (sd.GaussianNB(n_epochs=2, loss=Blend(Ncll(), 0.5)), REAL, LABELS),
    "categories": (sd.CategoricalNB(n_epochs=2), WHOLE, LABELS),
    "regression": (sd.GaussianRegressor(), REAL, REAL[:, 0]),
    "topics": (sd.SupervisedLDAClassifier(2, n_epochs=1), COUNTS, LABELS),
    "real targets": (sd.SupervisedLDARegressor(2, n_epochs=1, inference="line-search"), COUNTS, REAL[:, 0]),
    "words": (sd.LatentDirichletAllocation(2, n_epochs=1), COUNTS, None),
    "clusters": (sd.MultinomialMixture(2, n_epochs=1), COUNTS, None),
    "multiplicative": (sd.MultiplicativeMixtureClassifier(2, n_epochs=1), WHOLE, LABELS),
    "mixture": (sd.EMMixtureClassifier(2, n_epochs=1), REAL, LABELS),
    "mixed columns": (sd.MixedNB(n_epochs=1), REAL, LABELS),
    "several labels": (sd.MultiLabelNB(n_epochs=1), COUNTS, np.eye(3, dtype=int)[LABELS]),
    "many classes": (sd.ManyClassNB(n_epochs=1), COUNTS, LABELS),
    "centres": (sd.KMeans(2, n_epochs=2), REAL, None),
}
OTHER = ["text", None, [], {}, ["text"], True, -1, 0, 3, 10**12, [10**12], 10**400, 0.5]
OTHER += [-1e300, 1e308, 1e-308, math.inf, math.nan]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    found = {}
    for name, (model, documents, y) in MODELS.items():
        path = tmp_path_factory.mktemp("files") / "m"
        model.fit(documents, y).save(path)
        arrays, metadata = read_archive(path, KIND)
        found[name] = arrays, from_json(metadata)
    return found


def leaves(value, path=()):
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in leaves(v, (*path, k))]
    return [path] + ([p for i, v in enumerate(value) for p in leaves(v, (*path, i))] if isinstance(value, list) else [])


def replaced(tree, path, value):
    tree = copy.deepcopy(tree)
    at = tree
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return tree


def other_settings(arrays, metadata):
    first = len(metadata["estimator"])  # models of many names try all values of what they share
    for i, leaf in enumerate(leaves(metadata["learner"]), first):
        for value in OTHER[i % 6 :: 6]:
            yield arrays, replaced(metadata, ("learner", *leaf), value)


def other_parts(arrays, metadata):
    places = [(key, *leaf) for key in metadata if key != "learner" for leaf in {(), *leaves(metadata[key])}]
    for i, place in enumerate(places, len(metadata["estimator"])):
        for value in OTHER[i % 6 :: 6]:
            yield arrays, replaced(metadata, place, value)
    for key in metadata:
        yield arrays, {k: v for k, v in metadata.items() if k != key}
    for array, values in arrays.items():
        for form in (values[None], values.ravel()[:1], np.atleast_1d(values)[:-1], values.astype(np.int8)):
            yield {**arrays, array: form}, metadata
        yield {k: v for k, v in arrays.items() if k != array}, metadata


def other_numbers(arrays, metadata):
    for array, values in arrays.items():
        if values.dtype.kind == "f":
            for value in (0.0, -1.0, math.inf, math.nan, 1e300, 1e308, 1e-308):
                for entries in (slice(None), slice(1)):
                    changed = values.copy()
                    changed.flat[entries] = value
                    yield {**arrays, array: changed}, metadata


def used(model, documents, path):
    """Ask a loaded model for all that its parts could make it stumble over; return its answers."""
    ask = next(name for name in ("predict_proba", "predict", "transform") if hasattr(model, name))
    with np.errstate(all="ignore"):
        answers = np.asarray(getattr(model, ask)(documents), float)
        if hasattr(model, "explain") and not isinstance(model, sd.MultiplicativeMixtureClassifier):
            model.explain(documents[:2])
    if hasattr(model, "topics"):
        model.topics(3)
    model.save(path)
    return answers


@pytest.mark.parametrize("mutations", [other_settings, other_parts, other_numbers])
@pytest.mark.parametrize("name", MODELS)
def test_whatever_a_file_holds_is_refused_by_name_or_can_be_used(name, mutations, files, tmp_path):
    path, documents, refused, n = tmp_path / "model", MODELS[name][1], 0, 0
    for arrays, metadata in mutations(*files[name]):
        write_archive(path, KIND, arrays, to_json(metadata))
        n += 1
        try:
            loaded = sd.load_model(path)
        except sd.ModelError as error:
            refused += 1
            assert str(path) in str(error)
            continue
        try:
            answers = used(loaded, documents, tmp_path / "again")
        except ValueError as error:  # the data are not in the new units
            assert mutations is other_settings and "does not support this value" in str(error)
        else:
            assert len(answers) == documents.shape[0]
            assert mutations is not other_numbers or not np.isnan(answers).any()
    assert refused > n / 2 or mutations is other_numbers


@pytest.mark.parametrize(("settings", "field"), [
    ({"n_sweeps": 10**12}, "n_sweeps"),
    ({"n_particles": 10**12}, "n_particles"),
    ({"burn_in": 10**12}, "burn_in"),
    ({"alpha": -1e300}, "alpha"),
    ({"alpha": "1"}, "'alpha' of Inference"),
    ({"n_sweeps": True}, "'n_sweeps' of Inference"),
    ({"n_sweeps": 2.0}, "'n_sweeps' of Inference"),
])  # fmt: skip
def test_the_field_is_named(settings, field, files, tmp_path):
    arrays, metadata = copy.deepcopy(files["LDA"])
    metadata["learner"]["model"]["inference"].update(settings)
    write_archive(tmp_path / "model", KIND, arrays, to_json(metadata))
    np.testing.assert_raises_regex(sd.ModelError, field, sd.load_model, tmp_path / "model")


def test_whole_numbers_are_floats_where_those_are_declared_and_no_field_has_the_name_of_the_key():
    assert type(restored({**plain(StepSizes()), "floor": 0}, {}).floor) is float
    uneven = {**plain(CostSensitiveHinge(((0.0, 1.0), (1.0, 0.0)))), "costs": [[0.0, math.nan], [1.0]]}
    np.testing.assert_raises_regex(ValueError, "field 'costs'", restored, uneven, {})
    np.testing.assert_raises_regex(TypeError, "a field 'record'", record, make_dataclass("Unfit", ["record"]))
    np.testing.assert_raises_regex(NameError, "the class Mine: in Python", restored, {"record": "Mine"}, {})


SOME_BYTES = np.frombuffer(b"ab", np.uint8)
EDITS = {
    "a module for an estimator": lambda a, m: m.update(estimator="os.system"),
    "an unknown parameter": lambda a, m: m["parameters"].update(unheard_of=1),
    "an unknown setting": lambda a, m: m["learner"].update(unheard_of=1),
    "a learner of another kind": lambda a, m: m["learner"].update(kind="Words"),
    "a vocabulary of another length": lambda a, m: a.update(vocabulary_bytes=SOME_BYTES,
        vocabulary_offsets=np.array([0, 1, 2])),
    "offsets beyond the vocabulary": lambda a, m: a.update(vocabulary_bytes=SOME_BYTES,
        vocabulary_offsets=np.arange(21) * 7),
    "half a vocabulary": lambda a, m: a.update(vocabulary_bytes=SOME_BYTES),
    "unknown settings of text": lambda a, m: m.update(vectorizer={"kind": "count", "bogus": 1}),
    "settings of text of a wrong kind": lambda a, m: m.update(vectorizer={"kind": "count", "ngram_range": 3}),
    "a stem that is not a language": lambda a, m: m.update(vectorizer={"kind": "count", "stem": 3}),
    "texts hashed to other columns": lambda a, m: m.update(vectorizer={"kind": "hashing", "n_features": 2**40}),
    "a pattern larger than memory": lambda a, m: m.update(vectorizer={"token_pattern": "((a{999}){999}){999}"}),
    "an unknown field": lambda a, m: m["extra"]["items"].append(["log_prior", [0.5, 0.5]]),
    "n-grams longer than memory": lambda a, m: m.update(vectorizer={"ngram_range": [1, 10**9]}),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_parts_that_do_not_fit_together(name, tmp_path):
    model, path = sd.MultinomialNB(n_epochs=1).fit(X, Y), tmp_path / "edited"
    model.save(path)
    arrays, metadata = read_archive(path, KIND)
    write_archive(path, KIND, arrays, metadata)
    assert_same_model(sd.load_model(path), model)
    EDITS[name](arrays, metadata)
    write_archive(path, KIND, arrays, metadata)
    np.testing.assert_raises_regex(sd.ModelError, "edited", sd.load_model, path)


def test_other_files(tmp_path, monkeypatch):
    model = sd.MultinomialNB(n_epochs=1).fit(X, Y)
    np.testing.assert_raises_regex(sd.ModelError, "no such file", sd.load_model, tmp_path / "absent")
    np.testing.assert_raises_regex(sd.ModelError, "absent", model.save, tmp_path / "absent" / "m")
    for folder in (tmp_path, sd.write_corpus(tmp_path / "c", X, Y).path):
        np.testing.assert_raises(sd.ModelError, sd.load_model, folder)
    write_archive(tmp_path / "checkpoint", "sdem-checkpoint", {}, {})
    np.testing.assert_raises_regex(sd.ModelError, "sdem-checkpoint", sd.load_model, tmp_path / "checkpoint")
    with monkeypatch.context() as later:
        later.setattr(archive, "FORMAT_VERSION", archive.FORMAT_VERSION + 1)
        model.save(tmp_path / "m")
    np.testing.assert_raises_regex(sd.ModelError, "format version", sd.load_model, tmp_path / "m")
