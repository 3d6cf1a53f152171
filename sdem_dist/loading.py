"""Models from files: arrays and JSON, checked, never code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np

import sdem_dist
from sdem_dist.catalogue import ESTIMATORS
from sdem_dist.corpus.labels import array_of
from sdem_dist.errors import ModelError
from sdem_dist.estimators.parameters import check
from sdem_dist.learners.protocol import AnyModelLearner, restored_state
from sdem_dist.models.weighting import Weighting
from sdem_dist.records import restored
from sdem_dist.saving import KIND, Metadata
from sdem_dist.storage.archive import is_archive, read_archive
from sdem_dist.storage.buckets import place
from sdem_dist.storage.encoding import decode_strings, from_json
from sdem_dist.text.sources import SUFFIXES, plain_suffix
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator


def load_model(path: str | Path, *, own: Sequence[type] = ()) -> EngineEstimator:
    """Load a model that `save` wrote.

    Parameters
    ----------
    path : path or URL
    own : sequence of classes, default=()
        Families and losses of your own that the model was made with: a file names them, and never brings their code.

    Raises
    ------
    ModelError
        The file is missing, cut short, altered, of a newer format, or does not hold a model of this package.

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
            raise ModelError(f"{path} is a folder, perhaps a corpus; a model is a file that sdem train or save wrote")
        if path.is_file() and plain_suffix(path) in SUFFIXES and not is_archive(path, KIND):
            raise ModelError(f"{path} is a source of documents, not a model: name the model first, then the documents")
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    arrays, metadata = read_archive(path, KIND)
    try:
        estimator = _rebuild(arrays, msgspec.convert(from_json(metadata), Metadata), {c.__name__: c for c in own})
    except ModelError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ModelError(f"{path}: the parts of this model do not fit together ({error})") from error
    estimator._lazy_parameters.owner = str(path)
    return estimator


def _rebuild(arrays: dict[str, np.ndarray], metadata: Metadata, own: Mapping[str, type]) -> EngineEstimator:
    if metadata.estimator not in ESTIMATORS:
        raise ValueError(f"it holds a {metadata.estimator!r}, which this version does not know")
    kind: Any = getattr(sdem_dist, metadata.estimator)  # imports the records that the file may name
    estimator: EngineEstimator = kind(**{k: restored(v, own) for k, v in metadata.parameters.items()})
    check(estimator)
    learner = cast("AnyModelLearner", restored(metadata.learner, own))
    state, n_features = restored_state(learner, arrays), metadata.n_features
    if estimator.spec.target == "labels":
        if metadata.classes is None or metadata.classes_dtype is None:
            raise ValueError("there are no classes")
        classes, dtype = array_of(tuple(metadata.classes)), np.dtype(metadata.classes_dtype)
        _require(classes.shape == (learner.n_labels,), "classes do not match the arrays")
        estimator.classes_ = classes.astype(dtype) if dtype.kind in "biufO" else classes
    estimator.n_features_in_, names, settings = n_features, metadata.feature_names, metadata.vectorizer
    _require(learner.width == estimator._n_columns, "the number of features does not match the arrays")
    if names:
        _require(len(names) == n_features, "the names of the features are not as many as the features")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if settings is not None:
        _require("kind" in settings, "the settings of text have no kind")
        VectorizerSettings.from_json({**settings, "stem": None})  # stemming needs its package only to read text
        stem, width = settings.get("stem"), settings.get("n_features")
        _require(isinstance(stem, str | None), f"stem is a language, not {stem!r}")
        fits = settings["kind"] != "hashing" or width == n_features
        _require(fits, f"texts are hashed to {width} columns, and the model has {n_features:,}")
    estimator.vectorizer_, estimator.label_separator_, estimator.vocabulary_ = settings, metadata.label_separator, None
    if "vocabulary_bytes" in arrays:
        estimator.vocabulary_ = decode_strings(arrays["vocabulary_bytes"], arrays["vocabulary_offsets"])
        _require(len(estimator.vocabulary_) == n_features, "the vocabulary has another size than the arrays")
    else:
        _require((settings or {}).get("kind") != "count", "it counts words of texts, and has no vocabulary")
    if metadata.weighting is not None:
        weighting, frequency = restored(metadata.weighting, own), arrays["document_frequency"]
        if not isinstance(weighting, Weighting):
            raise ValueError(f"the weighting is {weighting!r:.80}")
        fits = frequency.shape == (n_features,) and frequency.dtype == np.int64
        _require(fits, "array 'document_frequency' has another size or dtype than the vocabulary asks for")
        estimator.weighting_, estimator.document_frequency_ = weighting, frequency
    estimator.history_, estimator.n_iter_ = cast("list[dict[str, float]]", metadata.history), metadata.n_iter
    estimator.damaged_shards_ = metadata.damaged_shards
    estimator._take(learner, state)
    if "set_counts" in arrays:  # the scores that sets of classes are made by, class by class
        scores, counts = arrays["set_scores"], arrays["set_counts"]
        fits = counts.shape == (learner.n_labels,) and (counts >= 0).all() and counts.sum() == len(scores)
        _require(fits and scores.dtype == np.float64, "array 'set_scores' does not match the classes")
        estimator.set_scores_ = np.split(scores, np.cumsum(counts)[:-1])
    estimator.take_extra(cast("Mapping[str, Any]", restored(metadata.extra, own)))
    return estimator


def _require(condition: object, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
