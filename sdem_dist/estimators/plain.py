"""Parameters and settings as JSON values and back, families and losses among them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sdem_dist import families, losses
from sdem_dist.models.features import Block, FeatureModel
from sdem_dist.models.lda import Inference
from sdem_dist.models.nonnegative_rows import RowTransform
from sdem_dist.models.supervised_lda import MirrorDescent

KIND = "kind"
_KNOWN: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        *(getattr(families, name) for name in families.__all__ if name != "Family"),
        *(losses.Nll, losses.Ncll, losses.Hinge, losses.CostSensitiveHinge, losses.Blend),
        *(Block, FeatureModel, Inference, MirrorDescent, RowTransform),
    )
}


def fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a dataclass and their values."""
    for field in dataclasses.fields(value):
        yield field.name, getattr(value, field.name)


def plain(value: Any) -> Any:
    """Return a parameter as JSON values.

    A dict becomes its items; a family, a loss or the like its fields under its name; a RandomState has been used up and
    becomes None.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {KIND: type(value).__name__, **{name: plain(v) for name, v in fields(value)}}
    if isinstance(value, Mapping):
        return [[plain(k), plain(v)] for k, v in value.items()]
    if isinstance(value, np.ndarray | tuple | list):
        return [plain(v) for v in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.random.RandomState):
        return None
    return value


def restored(value: Any, own: Mapping[str, type]) -> Any:
    """Return settings from JSON values: lists as tuples, named things made again.

    Parameters
    ----------
    value : JSON value
    own : mapping of name to class
        Classes that the package does not know.

    Raises
    ------
    ValueError
        A thing of a class that neither knows.
    """
    if isinstance(value, dict) and KIND in value:
        name = value[KIND]
        cls = own.get(name) or _KNOWN.get(name)
        if cls is None:
            raise ValueError(
                f"it is made with {name}, which is not of this package: pass the class as load_model(own=)"
            )
        return cls(**{k: restored(v, own) for k, v in value.items() if k != KIND})
    if isinstance(value, dict):
        return {k: restored(v, own) for k, v in value.items()}
    if isinstance(value, list):
        return tuple(restored(v, own) for v in value)
    return value
