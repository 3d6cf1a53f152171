"""Models as files: arrays and JSON, checked on load, never code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sdem_dist.catalogue import ESTIMATORS, estimator_class
from sdem_dist.errors import ModelError
from sdem_dist.learners.fields import restored_state
from sdem_dist.records import plain, restored
from sdem_dist.storage.archive import is_archive, read_archive, write_archive
from sdem_dist.storage.numbers import from_json, to_json
from sdem_dist.storage.places import refuse_url
from sdem_dist.storage.publish import check_writable
from sdem_dist.storage.strings import decode_strings, encode_strings
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.learners.protocol import ModelLearner

KIND = "sdem-model"


def check_destination(path: str | Path) -> None:
    """Raise ModelError if no model can be written to `path`, or something else than a model would be lost."""
    refuse_url(path, "a model is a file", ModelError)
    path = Path(path)
    if not path.absolute().parent.is_dir():
        raise ModelError(f"{path}: the folder {path.absolute().parent} does not exist: make it first")
    if path.is_dir():
        raise ModelError(f"{path} is a folder, perhaps a corpus; a model is a file: choose another name")
    if path.exists() and not (path.is_file() and (path.stat().st_size == 0 or is_archive(path, KIND))):
        raise ModelError(f"{path} exists and is not a model: it is left alone; choose another name, or remove it")
    check_writable(path, error=ModelError)


def save_model(estimator: EngineEstimator, path: str | Path) -> None:
    """Write a fitted estimator as one file, atomically; an earlier model there is replaced.

    Equal models make equal files, but for the seconds in their histories.

    Raises
    ------
    ModelError
        `path` is something else than a model, a parameter cannot be stored as JSON, or the disk refuses; what was there
        stays as it was.
    """
    check_destination(path)
    arrays = {name: np.asarray(value) for name, value in estimator.state_._asdict().items()}
    if estimator.vocabulary_ is not None:
        arrays["vocabulary_bytes"], arrays["vocabulary_offsets"] = encode_strings(estimator.vocabulary_)
    labels = {}
    if estimator.spec.target == "labels":
        labels = {"classes": estimator.classes_.tolist(), "classes_dtype": estimator.classes_.dtype.str}
    metadata = {
        "estimator": type(estimator).__name__,
        "parameters": {name: plain(value) for name, value in estimator.get_params(deep=False).items()},
        **labels,
        "n_features": int(estimator.n_features_in_),
        "feature_names": list(getattr(estimator, "feature_names_in_", [])) or None,
        "vectorizer": estimator.vectorizer_,
        "history": estimator.history_,
        "n_iter": int(estimator.n_iter_),
        "damaged_shards": list(getattr(estimator, "damaged_shards_", [])),
        "learner": plain(estimator.learner_),
        "extra": plain(estimator.extra()),
    }
    write_archive(path, KIND, arrays, to_json(metadata))


def load_model(path: str | Path, *, own: Sequence[type] = ()) -> EngineEstimator:
    """Load a model that `save` wrote.

    Parameters
    ----------
    path : path
    own : sequence of classes, default=()
        Families and losses of your own that the model was made with: a file names them, and never brings their code.

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
        return _rebuild(arrays, from_json(metadata), {c.__name__: c for c in own})
    except ModelError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ModelError(f"{path}: the parts of this model do not fit together ({error})") from error


def _rebuild(arrays: dict[str, np.ndarray], metadata: dict[str, Any], own: Mapping[str, type]) -> EngineEstimator:
    name = metadata["estimator"]
    if name not in ESTIMATORS:
        raise ValueError(f"it holds a {name!r}, which this version does not know")
    kind = estimator_class(name)  # imports the records that the file may name
    estimator = kind(**{k: restored(v, own) for k, v in metadata["parameters"].items()})
    learner = cast("ModelLearner[Any, Any, Any]", restored(metadata["learner"], own))
    state = restored_state(learner, arrays)
    n_features = metadata["n_features"]
    if estimator.spec.target == "labels":
        classes, dtype = np.array(metadata["classes"]), np.dtype(metadata["classes_dtype"])
        if classes.shape != (learner.n_labels,):
            raise ValueError("classes do not match the arrays")
        estimator.classes_ = classes.astype(dtype) if dtype.kind in "biufO" else classes
    estimator.n_features_in_ = n_features
    if learner.width != estimator._n_columns:
        raise ValueError("the number of features does not match the arrays")
    if metadata["feature_names"]:
        estimator.feature_names_in_ = np.array(metadata["feature_names"], dtype=object)
    estimator.vectorizer_ = _checked(metadata["vectorizer"])
    estimator.vocabulary_ = None
    if "vocabulary_bytes" in arrays:
        estimator.vocabulary_ = decode_strings(arrays["vocabulary_bytes"], arrays["vocabulary_offsets"])
        if len(estimator.vocabulary_) != n_features:
            raise ValueError("the vocabulary has another size than the arrays")
    estimator.history_, estimator.n_iter_ = metadata["history"], metadata["n_iter"]
    estimator.damaged_shards_ = metadata["damaged_shards"]
    estimator._take(learner, state)
    estimator.take_extra(cast("Mapping[str, Any]", restored(metadata["extra"], own)))
    return estimator


def _checked(settings: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the settings of text that a model brings; ValueError if no corpus could have them."""
    if settings is not None:
        VectorizerSettings.from_json({**settings, "stem": None})  # stemming needs a package only where text is read
        if not isinstance(settings.get("stem"), str | None):
            raise ValueError(f"stem is a language, not {settings['stem']!r}")
    return settings
