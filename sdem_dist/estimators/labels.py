"""Labels in memory as people have them: lists and columns that may mix texts with what stands for no label."""

from __future__ import annotations

from typing import Any

import numpy as np


def checked_labels(estimator: Any, y: Any) -> Any:
    """Return labels that `validate_data` takes, such that none is changed: NumPy makes texts of numbers among texts.

    Raises
    ------
    ValueError
        A label is None, NaN or pandas' NA, or texts are mixed with what is not the estimator's `unlabelled`.
    """
    dtype = getattr(y, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return y
    values = np.asarray(y, object)
    if values.ndim != 1:
        return y
    missing = next((i for i, v in enumerate(values) if _is_missing(v)), None)
    if missing is not None:
        advice = _advice(estimator, any(isinstance(v, str) for v in values))
        raise ValueError(f"y has no label at position {missing} (from 0) but {values[missing]}: {advice}")
    others = [i for i, v in enumerate(values) if not isinstance(v, str)]
    if not 0 < len(others) < len(values):
        return y
    unlabelled = getattr(estimator, "unlabelled", None)
    at = next((i for i in others if unlabelled is None or values[i] != unlabelled), None)
    if at is not None:
        raise ValueError(
            f"y mixes texts with others, first {values[at]!r} at position {at} (from 0): make all of one kind"
            + (", or name what stands for no label with unlabelled" if hasattr(estimator, "unlabelled") else "")
        )
    return values


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value)


def _advice(estimator: Any, texts: bool) -> str:
    if not hasattr(estimator, "unlabelled"):
        return f"leave such documents out: {type(estimator).__name__} takes labelled ones only"
    if estimator.unlabelled is not None:
        return f"documents without a label have the one that unlabelled names, {estimator.unlabelled!r}"
    own = "" if texts else -1
    return f"give such documents a label of their own and name it, such as unlabelled={own!r}, with loss='nll'"
