"""Settings in model files: of another type they are refused by name, of another value nothing hangs."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

import sdem_dist as sd
from sdem_dist.errors import ModelError
from sdem_dist.learners.rules import StepSizes
from sdem_dist.losses import Blend, Ncll
from sdem_dist.records import plain, record, restored
from sdem_dist.saving import KIND
from sdem_dist.storage.archive import read_archive, write_archive
from sdem_dist.storage.encoding import from_json, to_json

RNG = np.random.default_rng(0)
X = RNG.integers(0, 4, (60, 8))
Y, Z = np.arange(60) % 3, RNG.normal(size=(60, 3))
COUNTS = sp.csr_matrix(X)
MODELS = {
    "naive Bayes": lambda: sd.MultinomialNB(n_epochs=1).fit(COUNTS, Y),
    "LDA": lambda: sd.LDAClassifier(n_epochs=1).fit(COUNTS, Y),
    "LDA, sampled": lambda: sd.LDAClassifier(n_epochs=1, inference="gibbs", n_particles=2).fit(COUNTS, Y),
    "Gaussian": lambda: sd.GaussianNB(n_epochs=2, loss=Blend(Ncll(), 0.5)).fit(Z, Y),
    "categories": lambda: sd.CategoricalNB(n_epochs=2).fit(X, Y),
    "regression": lambda: sd.GaussianRegressor().fit(Z, Z[:, 0]),
    "topics": lambda: sd.SupervisedLDAClassifier(2, n_epochs=1).fit(COUNTS, Y),
    "real targets": lambda: sd.SupervisedLDARegressor(2, n_epochs=1, inference="line-search").fit(COUNTS, Z[:, 0]),
    "words": lambda: sd.LatentDirichletAllocation(2, n_epochs=1).fit(COUNTS),
    "clusters": lambda: sd.MultinomialMixture(2, n_epochs=1).fit(COUNTS),
    "multiplicative": lambda: sd.MultiplicativeMixtureClassifier(2, n_epochs=1).fit(X, Y),
    "mixture": lambda: sd.EMMixtureClassifier(2, n_epochs=1).fit(Z, Y),
    "mixed columns": lambda: sd.MixedNB(n_epochs=1).fit(Z, Y),
    "several labels": lambda: sd.MultiLabelNB(n_epochs=1).fit(COUNTS, np.eye(3, dtype=int)[Y]),
    "many classes": lambda: sd.ManyClassNB(n_epochs=1).fit(COUNTS, Y),
    "centres": lambda: sd.KMeans(2, n_epochs=2).fit(Z),
}
OTHER = ["text", None, [], {}, ["text"], True, -1, 0, 3, 10**12, [10**12], 10**400, 0.5, -1e300, math.inf, math.nan]


def leaves(value, path=()):
    """Return the paths of all values that are not records."""
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in leaves(v, (*path, k))]
    return [path] + ([p for i, v in enumerate(value) for p in leaves(v, (*path, i))] if isinstance(value, list) else [])


def replaced(tree, path, value):
    """Return a copy of a tree with another value at a path."""
    tree = copy.deepcopy(tree)
    at = tree
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return tree


def data_of(model):
    return Z if model.n_features_in_ == 3 else COUNTS if hasattr(model, "topics") else X


def predicted(model):
    with np.errstate(all="ignore"):
        return getattr(model, "predict" if hasattr(model, "predict") else "transform")(data_of(model))


def saved(name, path):
    """Return a model, and what its file holds: arrays and metadata."""
    model = MODELS[name]()
    model.save(path)
    arrays, metadata = read_archive(path, KIND)
    return model, arrays, from_json(metadata)


@pytest.mark.parametrize("name", MODELS)
def test_every_other_setting_is_refused_or_a_model(name, tmp_path):
    path = tmp_path / "model"
    model, arrays, metadata = saved(name, path)
    expected, refused, n = predicted(model), 0, 0
    for i, leaf in enumerate(leaves(metadata["learner"])):
        for value in OTHER[i % 4 :: 4]:
            changed = {**metadata, "learner": replaced(metadata["learner"], leaf, value)}
            write_archive(path, KIND, arrays, to_json(changed))
            n += 1
            try:
                loaded = sd.load_model(path)
            except ModelError as error:
                refused += 1
                assert str(path) in str(error)
            else:  # another number of the same type
                try:
                    assert predicted(loaded).shape == expected.shape
                except ValueError as error:
                    assert "takes no such value" in str(error)  # the data are not in the new units
    assert refused > n / 2


def used(model, path):
    """Ask a loaded model for all that its parts could make it stumble over."""
    predicted(model)
    if hasattr(model, "explain") and not isinstance(model, sd.MultiplicativeMixtureClassifier):
        with np.errstate(all="ignore"):
            model.explain(data_of(model)[:2])
    if hasattr(model, "topics"):
        model.topics(3)
    model.save(path)


@pytest.mark.parametrize("name", MODELS)
def test_whatever_else_a_file_holds_is_refused_or_can_be_used(name, tmp_path):
    path = tmp_path / "model"
    _, arrays, metadata = saved(name, path)
    others = [(key, *leaf) for key in metadata if key != "learner" for leaf in {(), *leaves(metadata[key])}]
    files = [(arrays, replaced(metadata, path, value)) for i, path in enumerate(others) for value in OTHER[i % 3 :: 3]]
    files += [(arrays, {k: v for k, v in metadata.items() if k != key}) for key in metadata]
    for array, values in arrays.items():
        forms = [
            values[None],
            values.ravel()[:1],
            np.atleast_1d(values)[:-1],
            values.astype(np.int8),
        ]
        files += [({**arrays, array: form}, metadata) for form in forms]
        files += [({k: v for k, v in arrays.items() if k != array}, metadata)]
    n_refused = 0
    for parts, settings in files:
        write_archive(path, KIND, parts, to_json(settings))
        try:
            loaded = sd.load_model(path)
        except ModelError:
            n_refused += 1
        else:
            used(loaded, tmp_path / "again")
    assert n_refused > len(files) / 2


@pytest.mark.parametrize("name", MODELS)
def test_arrays_with_right_checksums_are_refused_or_give_finite_answers(name, tmp_path):
    path = tmp_path / "model"
    _, arrays, metadata = saved(name, path)
    for array, values in arrays.items():
        if values.dtype.kind != "f":
            continue
        for value in (0.0, -1.0, math.inf, math.nan, 1e300):
            write_archive(path, KIND, {**arrays, array: np.full_like(values, value)}, to_json(metadata))
            try:
                loaded = sd.load_model(path)
            except ModelError:
                continue
            with np.errstate(all="ignore"):
                found = loaded.predict_proba(data_of(loaded)) if hasattr(loaded, "predict_proba") else predicted(loaded)
            assert not np.isnan(np.asarray(found, float)).any(), (array, value)
            loaded.save(path)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"n_sweeps": 10**12}, "n_sweeps"),
        ({"n_particles": 10**12}, "n_particles"),
        ({"burn_in": 10**12}, "burn_in"),
        ({"alpha": -1e300}, "alpha"),
        ({"alpha": "1"}, "'alpha' of Inference"),
        ({"n_sweeps": True}, "'n_sweeps' of Inference"),
        ({"n_sweeps": 2.0}, "'n_sweeps' of Inference"),
    ],
)
def test_the_field_is_named(settings, field, tmp_path):
    path = tmp_path / "model"
    _, arrays, metadata = saved("LDA", path)
    metadata["learner"]["model"]["inference"].update(settings)
    write_archive(path, KIND, arrays, to_json(metadata))
    with pytest.raises(ModelError, match=field):
        sd.load_model(path)


def test_more_than_can_be_computed_is_refused_by_estimators_too():
    with pytest.raises(ValueError, match="n_sweeps must be from 1 to 10,000"):
        sd.LDAClassifier(n_sweeps=10**12).fit(COUNTS, Y)
    with pytest.raises(ValueError, match="n_layers must be from 1 to 10,000"):
        sd.SupervisedLDAClassifier(n_layers=10**12).fit(COUNTS, Y)
    with pytest.raises(ValueError, match="n_particles must be from 1 to 10,000"):
        MODELS["words"]().set_params(n_particles=10**12).score(COUNTS)


def test_whole_numbers_are_floats_where_those_are_declared():
    made = restored({**plain(StepSizes()), "floor": 0}, {})
    assert type(made.floor) is float


def test_a_field_cannot_have_the_name_of_the_key():
    with pytest.raises(TypeError, match="a field 'record'"):

        @record
        @dataclass(frozen=True)
        class Unfit:
            record: int = 0
