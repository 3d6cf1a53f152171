"""Models as files: arrays and JSON, checked on load, never code."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sdem_dist.errors import ModelError
from sdem_dist.learners.sdem import Sdem, SdemState
from sdem_dist.storage.archive import is_archive, read_archive, write_archive
from sdem_dist.storage.numbers import from_json, to_json
from sdem_dist.storage.strings import decode_strings, encode_strings

KIND = "sdem-model"
_ESTIMATORS = {"MultinomialNB": "sdem_dist.estimators.naive_bayes"}


def check_destination(path: str | Path) -> None:
    """Raise ModelError if no model can be written to `path`, or something else than a model would be lost."""
    path = Path(path)
    if not path.absolute().parent.is_dir():
        raise ModelError(f"{path}: the folder {path.absolute().parent} does not exist: make it first")
    if path.is_dir():
        raise ModelError(f"{path} is a folder, perhaps a corpus; a model is a file: choose another name")
    if path.exists() and not (path.is_file() and (path.stat().st_size == 0 or is_archive(path, KIND))):
        raise ModelError(f"{path} exists and is not a model: it is left alone; choose another name, or remove it")


def save_model(estimator: Any, path: str | Path) -> None:
    """Write a fitted estimator as one file, atomically; an earlier model there is replaced.

    Equal models make equal files, but for the seconds in their histories.

    Raises
    ------
    ModelError
        `path` is something else than a model, a parameter cannot be stored as JSON, or the disk refuses; what was there
        stays as it was.
    """
    check_destination(path)
    arrays = {name: np.asarray(value) for name, value in estimator._state._asdict().items()}
    if estimator.vocabulary_ is not None:
        arrays["vocabulary_bytes"], arrays["vocabulary_offsets"] = encode_strings(estimator.vocabulary_)
    if estimator.idf_ is not None:
        arrays["idf"] = np.asarray(estimator.idf_)
    metadata = {
        "estimator": type(estimator).__name__,
        "parameters": {name: _plain(value) for name, value in estimator.get_params(deep=False).items()},
        "classes": estimator.classes_.tolist(),
        "classes_dtype": estimator.classes_.dtype.str,
        "n_features": int(estimator.n_features_in_),
        "feature_names": list(getattr(estimator, "feature_names_in_", [])) or None,
        "vectorizer": estimator.vectorizer_,
        "history": estimator.history_,
        "n_iter": int(estimator.n_iter_),
        "damaged_shards": list(getattr(estimator, "damaged_shards_", [])),
        "learner": {name: _plain(value) for name, value in estimator._learner.__dict__.items()},
    }
    write_archive(path, KIND, arrays, to_json(metadata))


def load_model(path: str | Path) -> Any:
    """Load a model that `save` wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    fitted estimator

    Raises
    ------
    ModelError
        The file is missing, cut short, altered, of a newer format, or does not hold a model of this package.
    """
    if Path(path).is_dir():
        raise ModelError(f"{path} is a folder, perhaps a corpus; a model is a file that sdem train or save wrote")
    arrays, metadata = read_archive(path, KIND)
    try:
        return _rebuild(arrays, from_json(metadata))
    except ModelError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ModelError(f"{path}: the parts of this model do not fit together ({error})") from error


def _rebuild(arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> Any:
    name = metadata["estimator"]
    if name not in _ESTIMATORS:
        raise ValueError(f"it holds a {name!r}, which this version does not know")
    parameters = metadata["parameters"]
    if isinstance(parameters["class_weight"], list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    estimator = getattr(import_module(_ESTIMATORS[name]), name)(**parameters)
    settings: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in metadata["learner"].items()}
    learner = Sdem(**settings)
    state = SdemState(*(_field(arrays[f]) for f in SdemState._fields))
    n_features, n_classes = learner.n_features, learner.n_classes
    averaged = bool(state.n_averaged)
    expected = {
        "words": (n_features, n_classes),
        "totals": (n_classes,),
        "class_counts": (n_classes,),
        "mean_words": (n_features, n_classes) if averaged else (0, 0),
        "mean_class_counts": (n_classes,) if averaged else (0,),
        **dict.fromkeys(("gamma", "class_gamma", "t", "n_averaged"), ()),
    }
    for field, shape in expected.items():
        value = getattr(state, field)
        value = np.asarray(value)
        if value.shape != shape or value.dtype != np.float64 or not (np.isfinite(value).all() and (value >= 0).all()):
            raise ValueError(f"array {field!r} is not made of {shape} finite numbers, none negative")
    classes = np.array(metadata["classes"])
    if classes.shape != (n_classes,) or metadata["n_features"] != n_features:
        raise ValueError("classes or features do not match the arrays")
    if learner.log_prior is not None and len(learner.log_prior) != n_classes:
        raise ValueError("the class prior does not match the classes")
    dtype = np.dtype(metadata["classes_dtype"])
    estimator.classes_ = classes.astype(dtype) if dtype.kind in "biufO" else classes
    estimator.n_features_in_ = n_features
    if metadata["feature_names"]:
        estimator.feature_names_in_ = np.array(metadata["feature_names"], dtype=object)
    estimator.vectorizer_ = metadata["vectorizer"]
    estimator.vocabulary_ = None
    if "vocabulary_bytes" in arrays:
        estimator.vocabulary_ = decode_strings(arrays["vocabulary_bytes"], arrays["vocabulary_offsets"])
        if len(estimator.vocabulary_) != n_features:
            raise ValueError("the vocabulary has another size than the arrays")
    estimator.idf_ = arrays.get("idf")
    if estimator.idf_ is not None and estimator.idf_.shape != (n_features,):
        raise ValueError("array 'idf' has another size than the vocabulary")
    estimator.history_, estimator.n_iter_ = metadata["history"], metadata["n_iter"]
    estimator.damaged_shards_ = metadata.get("damaged_shards", [])
    estimator._learner, estimator._state, estimator._parameters = learner, state, learner.parameters(state)
    return estimator


def _field(value: np.ndarray) -> Any:
    return float(value) if value.ndim == 0 else value


def _plain(value: Any) -> Any:
    """Return a parameter as JSON values: a dict as its items; a RandomState has been used up and becomes None."""
    if isinstance(value, dict):
        return [[_plain(k), _plain(v)] for k, v in value.items()]
    if isinstance(value, np.ndarray | tuple):
        return [_plain(v) for v in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.random.RandomState):
        return None
    return value
