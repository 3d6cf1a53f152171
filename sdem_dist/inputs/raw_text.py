"""Raw text where documents go in: lists, arrays, pandas and Arrow columns of texts become counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import scipy.sparse as sp

    from sdem_dist.inputs.spec import Estimator


def are_texts(X: object) -> bool:
    """Whether documents are one column of texts: a list, an array, a pandas or an Arrow column."""
    if isinstance(X, list | tuple):
        return bool(X) and isinstance(X[0], str)
    dtype = getattr(X, "dtype", None)
    if isinstance(X, np.ndarray):
        return X.ndim == 1 and len(X) > 0 and (X.dtype.kind in "UT" or (X.dtype == object and isinstance(X[0], str)))
    if dtype is not None and getattr(X, "ndim", 0) == 1 and hasattr(X, "iloc"):
        return bool(len(X) and isinstance(X.iloc[0], str))  # type: ignore[attr-defined, arg-type]
    return type(X).__module__.partition(".")[0] == "pyarrow" and not hasattr(X, "column_names")


def learned_counts(estimator: Estimator, X: object) -> tuple[sp.csr_matrix, list[str] | None, dict[str, object]]:
    """Return the counts of training texts, their vocabulary (None if words are hashed), and how they were made.

    Raises
    ------
    ValueError
        Something is not text, or there are no words at all.
    """
    from sdem_dist.text.transform import count_texts

    settings = estimator.vectorizer or VectorizerSettings()
    counts, words = count_texts(cast("Sequence[str]", X), settings)
    if counts.shape[1] == 0:
        raise ValueError(
            "none of the texts holds a word: the vectorizer's token_pattern and stop_words decide what one is"
        )
    return counts, words if settings.kind == "count" else None, dict(settings.to_json())
