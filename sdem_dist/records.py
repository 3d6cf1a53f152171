"""Settings of learners, models, families and losses as JSON: a file names a `record`'s class and fields, never code."""

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import UnionType
from typing import Any, TypeVar, Union, cast, dataclass_transform, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

KIND = "record"  # the key of a record's class name, among its fields
LARGEST = 1e250  # largest number in a model: sums of larger ones may overflow; columns: at most 1e100, squares 1e200
_KNOWN: dict[str, type] = {}
_Class = TypeVar("_Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: _Class) -> _Class:
    """Make a class of this package a frozen dataclass that files may name; its fields are all of its settings."""
    if "__dataclass_fields__" not in vars(cls):
        dataclass(frozen=True)(cls)
    if any(field.name == KIND for field in dataclasses.fields(cls)):
        raise TypeError(f"{cls.__name__} must not have a field {KIND!r}, which files use for class names: rename it")
    if _KNOWN.setdefault(cls.__name__, cls).__qualname__ != cls.__qualname__:
        raise TypeError(f"two record classes are called {cls.__name__}")
    return cls


def plain(value: object) -> object:
    """Return a value as JSON values; a dict becomes a record of its items, a RandomState (already used) None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {KIND: type(value).__name__, **fields}
    if isinstance(value, Mapping):
        return {KIND: "dict", "items": [[plain(k), plain(v)] for k, v in value.items()]}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    return None if isinstance(value, np.random.RandomState) else value


def restored(value: object, own: Mapping[str, type]) -> object:
    """Return the value that `plain` converted; NameError for an unknown class, ValueError for invalid fields."""
    if isinstance(value, list):
        return tuple(restored(v, own) for v in value)
    if not isinstance(value, dict):
        return value
    name = value.get(KIND)
    if name == "dict":
        return {restored(k, own): restored(v, own) for k, v in value["items"]}
    if not isinstance(name, str):
        raise ValueError(f"its class name must be a string, got {name!r}")
    if (cls := own.get(name) or _KNOWN.get(name)) is None:
        raise NameError(f"it uses the class {name}: in Python, import it and call load_model(path, own=[{name}])")
    declared = get_type_hints(cls) if cls in _KNOWN.values() else {}  # custom classes may lack type hints
    fields = {k: restored(v, own) for k, v in value.items() if k != KIND}
    for key in declared.keys() & fields.keys():
        fields[key] = _typed(fields[key], declared[key], f"{key!r} of {name}")
    try:
        return cls(**fields)
    except TypeError as error:
        raise ValueError(f"unexpected or missing fields of {name}: {error}") from error


def _typed(value: object, declared: object, where: str) -> object:
    """Return a value converted to a field's declared type; for a protocol or type variable, any record is valid."""
    kinds = get_args(declared) if get_origin(declared) in (Union, UnionType) else (declared,)
    if dataclasses.is_dataclass(value):
        if type(value) in kinds or not {int, bool, str, type(None), *_KNOWN.values()}.issuperset(kinds):
            return value
    elif of_json := tuple(kind for kind in kinds if kind in (int, bool, str, float, type(None)) or get_origin(kind)):
        with suppress(ValueError):
            converted: object = msgspec.convert(value, cast(Any, Union)[of_json])
            if _in_range(converted):
                return converted
    raise ValueError(f"field {where} is {value!r:.80}, but must be {getattr(declared, '__name__', declared)}")


def _in_range(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_in_range, value))
    return not isinstance(value, float) or abs(value) in (0, np.inf) or 1.0 / LARGEST <= abs(value) <= LARGEST  # ln 0


@dataclass(frozen=True)
class Field:
    """Requirements on one array of a state; its dtype is float64."""

    shape: tuple[int | None, ...] = ()  # None: any length; (): a number
    low: float = -np.inf  # smallest valid value
    finite: bool = True  # False: infinities and NaN are valid

    def check(self, name: str, value: np.ndarray) -> None:
        """Raise ValueError, which contains `name`, unless an array meets the requirements."""
        fits = value.ndim == len(self.shape) and all(map(lambda n, size: n in (None, size), self.shape, value.shape))
        if not fits or value.dtype != np.float64:
            shape = str(self.shape).replace("None", "any")
            raise ValueError(f"array {name!r} must be float64 of shape {shape}, got {value.dtype} of {value.shape}")
        if self.finite and not (np.abs(value) <= LARGEST).all():
            raise ValueError(f"array {name!r} contains a value that is not finite, or beyond {LARGEST:g}")
        if (value < self.low).any():
            raise ValueError(f"array {name!r} contains {value.min():.6g}, below the minimum {self.low:g}")
