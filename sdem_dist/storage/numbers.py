"""NaN and infinities in JSON, which cannot express them."""

import math
from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]  # a JSON object: its values are what JSON has
_NAMES = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_json(value: object) -> Any:
    """Return `value`, made of dicts, lists, tuples and scalars, with ``{"float": name}`` for what JSON lacks."""
    if isinstance(value, dict):
        return {name: to_json(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(float(value))}
    return value


def null_for_nan(value: object) -> Any:
    """Return `value`, made of dicts, lists, tuples and scalars, with null for what JSON lacks: for other programs."""
    if isinstance(value, dict):
        return {name: null_for_nan(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [null_for_nan(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def from_json(value: object) -> Any:
    """Return what `to_json` was given, with lists for tuples."""
    if isinstance(value, dict):
        if value.keys() == {"float"} and value["float"] in _NAMES:
            return _NAMES[value["float"]]
        return {name: from_json(v) for name, v in value.items()}
    if isinstance(value, list):
        return [from_json(v) for v in value]
    return value
