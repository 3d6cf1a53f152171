"""Models as files: arrays and JSON, never code."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from sdem_dist.errors import ModelError
from sdem_dist.inputs.spec import OF_THE_MACHINE, Estimator
from sdem_dist.records import plain
from sdem_dist.storage.archive import is_archive, write_archive
from sdem_dist.storage.buckets import is_url, place
from sdem_dist.storage.encoding import encode_strings, to_json
from sdem_dist.storage.publish import check_writable

KIND = "sdem-model"
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class Metadata(msgspec.Struct, frozen=True):
    """What a model file holds beside arrays, as JSON; values of any type are checked by what is made of them."""

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
    """Raise ModelError if no model can be written to `path`, or something else than a model would be lost."""
    path = place(path)
    try:
        if not (is_url(path) or path.absolute().parent.is_dir()):
            raise ModelError(f"{path}: the folder {path.absolute().parent} does not exist: make it first")
        if path.is_dir():
            raise ModelError(f"{path} is a folder, perhaps a corpus; a model is a file: choose another name")
        if path.exists() and not (path.is_file() and (path.stat().st_size == 0 or is_archive(path, KIND))):
            raise ModelError(f"{path} exists and is not a model: it is left alone; choose another name, or remove it")
    except OSError as error:
        raise ModelError(f"cannot write {path}: {error.strerror or error}") from error
    check_writable(path, error=ModelError)


def save_model(estimator: Estimator, path: str | Path) -> None:
    """Write a fitted estimator as one file, atomically; an earlier model there is replaced."""
    check_destination(path)
    arrays = {name: np.asarray(value) for name, value in estimator.state_._asdict().items()}
    if estimator.vocabulary_ is not None:
        arrays["vocabulary_bytes"], arrays["vocabulary_offsets"] = encode_strings(estimator.vocabulary_)
    if estimator.document_frequency_ is not None:
        arrays["document_frequency"] = estimator.document_frequency_
    if (scores := getattr(estimator, "set_scores_", None)) is not None:
        arrays["set_scores"] = np.concatenate(scores)
        arrays["set_counts"] = np.array([len(of_class) for of_class in scores], np.int64)
    classes = estimator.classes_ if estimator.spec.target == "labels" else None
    parameters = estimator.get_params(deep=False).items()
    metadata = Metadata(  # of equal models equal: without what is of the machine, and seconds
        estimator=type(estimator).__name__,
        parameters={name: plain(value) for name, value in parameters if name not in OF_THE_MACHINE},
        classes=None if classes is None else classes.tolist(),
        classes_dtype=None if classes is None else classes.dtype.str,
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
    )
    write_archive(path, KIND, arrays, to_json(msgspec.structs.asdict(metadata)))
