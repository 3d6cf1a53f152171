"""Model files: arrays and JSON, verified, without code."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
import numpy as np

import sdem_dist
from sdem_dist.catalogue import ESTIMATORS
from sdem_dist.corpus.labels import array_of
from sdem_dist.errors import ModelError
from sdem_dist.estimators.parameters import check
from sdem_dist.inputs.spec import OF_THE_MACHINE, Estimator
from sdem_dist.learners.protocol import AnyModelLearner, restored_state
from sdem_dist.models.weighting import Weighting
from sdem_dist.records import plain, restored
from sdem_dist.storage.archive import is_archive, read_archive, write_archive
from sdem_dist.storage.buckets import place
from sdem_dist.storage.encoding import decode_strings, encode_strings, from_json, to_json
from sdem_dist.storage.publish import check_writable
from sdem_dist.text.sources import SUFFIXES, plain_suffix
from sdem_dist.text.vectorizer import VectorizerSettings

KIND = "sdem-model"
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class Metadata(msgspec.Struct, frozen=True):
    """Content of a model file besides arrays, as JSON; fields of type Any are checked when they are converted."""

    estimator: str
    parameters: dict[str, Any]
    n_features: Count
    feature_names: list[str] | None
    vectorizer: dict[str, Any] | None
    label_separator: Annotated[str, msgspec.Meta(min_length=1)] | None
    history: list[dict[str, int | float | None]]
    n_iter: Count
    damaged_shards: list[str]
    weighting: Any
    learner: Any
    extra: Any
    classes: list[Any] | None = None
    classes_dtype: str | None = None


def check_destination(path: str | Path) -> None:
    """Raise ModelError if no model can be written to `path`, or a file that is not a model would be overwritten."""
    path = place(path)
    try:
        if path.exists() and not (path.is_file() and (path.stat().st_size == 0 or is_archive(path, KIND))):
            what = "is a folder" if path.is_dir() else "exists"
            raise ModelError(f"{path} {what} and is not a model; choose another name, or remove it")
        check_writable(path, error=ModelError)
    except OSError as error:
        raise ModelError(f"cannot write {path}: {error.strerror or error}") from error


def save_model(estimator: Estimator, path: str | Path) -> None:
    """Save the model as one file of arrays and JSON, atomically; see `sdem_dist.load_model`.

    path : str or Path -- An existing model is replaced.
    Raises ModelError -- The file cannot be written, or exists and is not a model.
    """
    arrays = {name: np.asarray(value) for name, value in estimator.state_._asdict().items()}
    check_destination(path)
    if estimator.vocabulary_ is not None:
        arrays["vocabulary_bytes"], arrays["vocabulary_offsets"] = encode_strings(estimator.vocabulary_)
    if estimator.document_frequency_ is not None:
        arrays["document_frequency"] = estimator.document_frequency_
    if (scores := getattr(estimator, "set_scores_", None)) is not None:
        arrays["set_scores"] = np.concatenate(scores)
        arrays["set_counts"] = np.array([len(of_class) for of_class in scores], np.int64)
    classes = estimator.classes_ if estimator.spec.target == "labels" else None
    parameters = estimator.get_params(deep=False).items()
    metadata = Metadata(  # equal for equal models: without parameters of the machine, and without seconds
        estimator=type(estimator).__name__,
        parameters={name: plain(value) for name, value in parameters if name not in OF_THE_MACHINE},
        n_features=int(estimator.n_features_in_),
        feature_names=list(getattr(estimator, "feature_names_in_", [])) or None,
        vectorizer=estimator.vectorizer_,
        label_separator=estimator.label_separator_,
        history=[{k: v for k, v in entry.items() if not k.endswith("seconds")} for entry in estimator.history_],
        n_iter=int(estimator.n_iter_),
        damaged_shards=list(getattr(estimator, "damaged_shards_", [])),
        weighting=plain(estimator.weighting_),
        learner=plain(estimator.learner_),
        extra=plain(estimator.extra()),
        classes=None if classes is None else classes.tolist(),
        classes_dtype=None if classes is None else classes.dtype.str,
    )
    write_archive(path, KIND, arrays, to_json(msgspec.structs.asdict(metadata)))


def load_model(path: str | Path, *, own: Sequence[type] = ()) -> Any:
    """Load a model that `save` wrote.

    Parameters
    ----------
    path : path or URL
    own : sequence of classes, default=()
        Custom families and losses of the model: a file contains their names, not their code.

    Raises
    ------
    ModelError
        The file is missing, truncated or altered, has a newer format, or is not a model of this package.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sdem_dist import PoissonNB, load_model
    >>> path = Path(tempfile.mkdtemp()) / "counts.model"
    >>> PoissonNB(loss="nll").fit([[9, 1], [8, 0], [1, 7], [0, 9]], [0, 0, 1, 1]).save(path)
    >>> load_model(path).predict([[7, 2]]).tolist()
    [0]
    """
    path = place(path)
    try:
        if path.is_dir():
            raise ModelError(f"{path} is a folder, perhaps a corpus; a model is a file written by sdem train or save")
        if path.is_file() and plain_suffix(path) in SUFFIXES and not is_archive(path, KIND):
            raise ModelError(f"{path} contains documents: pass the model first; to inspect documents, ingest them")
        arrays, metadata = read_archive(path, KIND)
        estimator = _rebuild(arrays, msgspec.convert(from_json(metadata), Metadata), {c.__name__: c for c in own})
    except ModelError:
        raise
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error
    except (NameError, KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        problem = error if isinstance(error, NameError) else f"this model file is inconsistent ({error})"
        raise ModelError(f"{path}: {problem}") from error
    estimator._lazy_parameters.owner = str(path)
    return estimator


def _rebuild(arrays: dict[str, np.ndarray], metadata: Metadata, own: Mapping[str, type]) -> Any:
    _require(metadata.estimator in ESTIMATORS, f"this version does not support {metadata.estimator!r}")
    kind: Any = getattr(sdem_dist, metadata.estimator)  # its import also defines the records that the file may name
    estimator = kind(**{k: restored(v, own) for k, v in metadata.parameters.items()})
    check(estimator)
    learner = cast(AnyModelLearner, restored(metadata.learner, own))
    estimator._take(learner, restored_state(learner, arrays))
    estimator.n_features_in_ = n_features = metadata.n_features
    _require(learner.width == estimator._n_columns, "the number of features does not match the arrays")
    if estimator.spec.target == "labels":
        classes, dtype = array_of(tuple(metadata.classes or ())), np.dtype(str(metadata.classes_dtype))
        _require(classes.shape == (learner.n_labels,), "classes do not match the arrays")
        estimator.classes_ = classes.astype(dtype) if dtype.kind in "biufO" else classes
    if metadata.feature_names:
        _require(len(metadata.feature_names) == n_features, "the names of the features do not match the arrays")
        estimator.feature_names_in_ = np.array(metadata.feature_names, dtype=object)
    estimator.vectorizer_, estimator.vocabulary_ = metadata.vectorizer, None
    settings = metadata.vectorizer or {}
    if metadata.vectorizer is not None:
        VectorizerSettings.from_json(settings | {"stem": None})  # stemming needs a package only to read text
        _require(isinstance(settings.get("stem"), str | None), f"stem must be a language, got {settings.get('stem')!r}")
        fits = settings["kind"] != "hashing" or settings.get("n_features") == n_features
        _require(fits, f"text is hashed to {settings.get('n_features')} columns, but the model has {n_features:,}")
    if "vocabulary_bytes" in arrays:
        estimator.vocabulary_ = decode_strings(arrays["vocabulary_bytes"], arrays["vocabulary_offsets"])
        _require(len(estimator.vocabulary_) == n_features, "the vocabulary does not match the arrays")
    _require("vocabulary_bytes" in arrays or settings.get("kind") != "count", "it counts words, but has no vocabulary")
    if metadata.weighting is not None:
        weighting, frequency = restored(metadata.weighting, own), arrays["document_frequency"]
        _require(isinstance(weighting, Weighting), f"unknown weighting {weighting!r:.80}")
        fits = frequency.shape == (n_features,) and frequency.dtype == np.int64
        _require(fits, "array 'document_frequency' does not match the vocabulary")
        estimator.weighting_, estimator.document_frequency_ = weighting, frequency
    if "set_counts" in arrays:  # scores for prediction sets, class by class
        scores, counts = arrays["set_scores"], arrays["set_counts"]
        fits = counts.shape == (learner.n_labels,) and (counts >= 0).all() and counts.sum() == len(scores)
        _require(fits and scores.dtype == np.float64, "array 'set_scores' does not match the classes")
        estimator.set_scores_ = np.split(scores, np.cumsum(counts)[:-1])
    estimator.history_, estimator.n_iter_ = metadata.history, metadata.n_iter
    estimator.damaged_shards_, estimator.label_separator_ = metadata.damaged_shards, metadata.label_separator
    extra = cast("Mapping[str, Any]", restored(metadata.extra, own))
    estimator.take_extra(extra)
    unknown = extra.keys() - estimator.extra().keys()
    _require(not unknown, f"this version of {metadata.estimator} has no parameter {', '.join(map(str, unknown))}")
    return estimator


def _require(condition: object, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
