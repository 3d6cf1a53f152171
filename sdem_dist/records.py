"""Frozen dataclasses as JSON values and back: how settings of learners, models, families and losses reach files.

A file names the class of a record and its fields; it never brings code. A class takes part by the decorator `record`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

import numpy as np

KIND = "record"
"""The key under which the class of a record stands, among its fields."""
_KNOWN: dict[str, type] = {}
_Class = TypeVar("_Class", bound=type)


def record(cls: _Class) -> _Class:
    """Let files name a dataclass of this package. Its fields are its settings, all of them."""
    if _KNOWN.setdefault(cls.__name__, cls).__qualname__ != cls.__qualname__:
        raise TypeError(f"two records are called {cls.__name__}")
    return cls


def plain(value: object) -> object:
    """Return a value as JSON values.

    A dict is a record of its items, whose keys need not be texts. A RandomState has been used up and becomes None.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {KIND: type(value).__name__, **{name: plain(getattr(value, name)) for name in names}}
    if isinstance(value, Mapping):
        return {KIND: "dict", "items": [[plain(k), plain(v)] for k, v in value.items()]}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    return None if isinstance(value, np.random.RandomState) else value


def restored(value: object, own: Mapping[str, type]) -> object:
    """Return what JSON values of `plain` stand for: lists as tuples, records made again.

    Parameters
    ----------
    value : JSON value
    own : mapping of name to class
        Classes of the user's that files may name.

    Raises
    ------
    ValueError
        A record of a class that neither the package nor `own` knows.
    """
    if isinstance(value, list):
        return tuple(restored(v, own) for v in value)
    if not isinstance(value, dict):
        return value
    name = value[KIND]
    if name == "dict":
        return {restored(k, own): restored(v, own) for k, v in value["items"]}
    cls = own.get(name) or _KNOWN.get(name)
    if cls is None:
        raise ValueError(f"it is made with {name}, which is not of this package: pass the class as load_model(own=)")
    return cls(**{k: restored(v, own) for k, v in value.items() if k != KIND})
