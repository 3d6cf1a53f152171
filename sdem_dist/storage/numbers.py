"""NaN and infinities in JSON, which cannot express them."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]  # a JSON object: its values are what JSON has
_NAMES = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_json(value: object, lacking: Callable[[float], object] = lambda v: {"float": str(float(v))}) -> Any:
    """Return `value`, made of dicts, lists, tuples and scalars, with ``{"float": name}`` for what JSON lacks."""
    if isinstance(value, dict):
        return {name: to_json(v, lacking) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(v, lacking) for v in value]
    return lacking(value) if isinstance(value, float) and not math.isfinite(value) else value


def null_for_nan(value: object) -> Any:
    """Return the same with null for what JSON lacks: for other programs."""
    return to_json(value, lambda v: None)


def from_json(value: object) -> Any:
    """Return what `to_json` was given, with lists for tuples."""
    if isinstance(value, dict):
        if value.keys() == {"float"} and value["float"] in _NAMES:
            return _NAMES[value["float"]]
        return {name: from_json(v) for name, v in value.items()}
    if isinstance(value, list):
        return [from_json(v) for v in value]
    return value
