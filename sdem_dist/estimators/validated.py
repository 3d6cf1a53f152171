"""scikit-learn's validation of what is in memory, with advice where people hand over texts."""

from __future__ import annotations

from reprlib import repr as brief
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from sdem_dist.corpus.targets import as_numbers


def validated(estimator: Any, X: Any, y: Any = "no_validation", **accepted: Any) -> Any:
    """Return what `validate_data` does.

    Raises
    ------
    ValueError
        As it does; of texts the message says what to do, and does not hold them all.
    """
    try:
        return validate_data(estimator, X, y, **accepted)
    except (TypeError, ValueError):
        if (text := _first_text(X)) is None:
            raise
        raise ValueError(f"X holds raw text ({brief(text)}): {_advice(estimator, accepted['reset'])}") from None


def _first_text(X: Any) -> str | None:
    values = np.asarray(X, object if isinstance(X, list | tuple) else None)  # a list may be ragged
    if values.dtype.kind not in "OU":
        return None
    return next((str(v) for v in values.ravel() if isinstance(v, str)), None)


def _advice(estimator: Any, training: bool) -> str:
    name = type(estimator).__name__
    if not estimator._sparse:
        return f"{name} takes tables of numbers: make numbers of it first (MixedNB takes pandas tables with categories)"
    if training:
        return (
            f"{name} takes counts of words; vectorize it first, as with scikit-learn's CountVectorizer, or make a corpus of "
            "it with sdem ingest (sdem_dist.text.ingest) and fit that"
        )
    check_is_fitted(estimator)
    if estimator.vectorizer_ is None or estimator.vectorizer_["kind"] == "matrix":
        return "vectorize it as the training documents were"
    return "pass what this model's vectorize(X) makes of it"


def refuse_targets_of_text(y: Any) -> None:
    """Raise ValueError where a target is a text that is no number; the message names it and its place."""
    values = np.asarray(y)
    if values.dtype.kind in "OUS":
        as_numbers(values, "y")
