"""Parameters of estimators as dataclass fields: default, constraint and meaning stand side by side, checked once."""

import re
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from inspect import get_annotations
from numbers import Integral, Real
from types import FunctionType
from typing import NamedTuple, TypeVar, cast, dataclass_transform

import numpy as np

_Class = TypeVar("_Class", bound=type)
_Value = TypeVar("_Value")
_CONSTRAINT, _MEANING = "constraint", "meaning"


class Constraint(NamedTuple):
    """What values a parameter may have."""

    kind: str
    """For the docstring, as numpydoc writes it: "int", "float or None"."""
    words: str
    """For messages: "a positive integer"."""
    allows: Callable[[object], bool]


def one_of(*values: object) -> Constraint:
    """Allow some values."""
    shown = ", ".join(f'"{v}"' if isinstance(v, str) else str(v) for v in values)
    return Constraint(f"{{{shown}}}", f"one of {values}", lambda v: any(v is a or _equal(v, a) for a in values))


def integer(least: int = 1, *, optional: bool = False) -> Constraint:
    """Allow integers from `least` on, or None."""
    words = {0: "an integer that is not negative", 1: "a positive integer"}.get(least, f"an integer from {least} on")
    whole = Constraint("int", words, lambda v: _is(v, Integral) and bool(cast(int, v) >= least))
    return or_none(whole) if optional else whole


def real(low: float = 0.0, high: float = np.inf, *, above: bool = False) -> Constraint:
    """Allow finite numbers from `low` (with `above`: above it) up to `high`."""
    if high < np.inf:
        words = f"a number {f'above {low:g} and at most' if above else f'between {low:g} and'} {high:.3g}"
    elif low == -np.inf:
        words = "a finite number"
    elif low == 0.0:
        words = "a positive number" if above else "a finite number that is not negative"
    else:
        words = f"a finite number {'above' if above else 'from'} {low:g}{'' if above else ' on'}"

    def allows(value: object) -> bool:
        if not _is(value, Real) or not np.isfinite(number := float(cast(float, value))):
            return False
        return (number > low if above else number >= low) and number <= high

    return Constraint("float", words, allows)


def numbers() -> Constraint:
    """Allow sequences of positive numbers."""

    def allows(value: object) -> bool:
        if not isinstance(value, list | tuple | np.ndarray) or getattr(value, "ndim", 1) != 1:
            return False
        return len(value) > 0 and all(_is(v, Real) and 0.0 < float(cast(float, v)) < np.inf for v in value)

    return Constraint("sequence of float", "a sequence of positive numbers", allows)


def a_loss() -> Constraint:
    """Allow objects with the methods of `sdem_dist.losses.Loss`."""
    return Constraint("Loss", "a loss", lambda v: hasattr(v, "value") and hasattr(v, "weights"))


def truth() -> Constraint:
    """Allow True and False."""
    return Constraint("bool", "True or False", lambda v: isinstance(v, bool | np.bool_))


def or_none(constraint: Constraint) -> Constraint:
    """Allow None too."""
    return Constraint(constraint.kind, f"{constraint.words} or None", lambda v: v is None or constraint.allows(v))


def either(first: Constraint, second: Constraint) -> Constraint:
    """Allow what one of two constraints does."""
    return Constraint(
        f"{first.kind} or {second.kind}",
        f"{first.words} or {second.words}",
        lambda v: first.allows(v) or second.allows(v),
    )


def checked_later(kind: str) -> Constraint:
    """Allow everything: what the value may be depends on the documents, and is checked with them."""
    return Constraint(kind, kind, lambda v: True)


def param(default: _Value, constraint: Constraint, meaning: str, *, positional: bool = False) -> _Value:
    """Declare a parameter.

    `meaning`: for the docstring of the class: whole sentences. `positional`: it may be passed without its name.
    """
    declared: _Value = field(
        default=default, kw_only=not positional, metadata={_CONSTRAINT: constraint, _MEANING: meaning}
    )
    return declared


@dataclass_transform(field_specifiers=(param,), eq_default=False)
def estimator(cls: _Class) -> _Class:
    """Make the constructor of a class whose parameters `param` declares, and two sections of an estimator's docstring.

    They stand before the references and the examples: the parameters, and what fitting adds. The latter are properties,
    with their docstrings, and what the class and its bases say in `_learned`.
    """
    made: _Class = cast(_Class, dataclass(eq=False, repr=False)(cls))
    if hasattr(made, "spec"):
        text, found, rest = re.split(r"(    References\n|    Examples\n|$)", made.__doc__ or "", maxsplit=1)
        lines = ["Parameters", "----------", *_parameters(made), "", "Attributes", "----------", *_attributes(made)]
        sections = "".join(f"    {line}\n" if line else "\n" for line in lines)
        made.__doc__ = f"{text.rstrip()}\n\n{sections}\n{found}{rest}"
    return made


def check(estimator: object) -> None:
    """Check every parameter of an estimator against its constraint.

    Raises ValueError: the name of the parameter, what it was and what it may be.
    """
    for declared in fields(estimator):  # type: ignore[arg-type]
        constraint: Constraint = declared.metadata[_CONSTRAINT]
        value = getattr(estimator, declared.name)
        if not constraint.allows(value):
            raise ValueError(f"{declared.name} must be {constraint.words}, got {value!r}")


def _parameters(cls: type) -> list[str]:
    """Return the parameters' lines ordered for people: positional ones, then a class's own before those it inherits."""
    known = {declared.name: declared for declared in fields(cls)}
    own_first = [known.pop(name) for owner in cls.__mro__ for name in get_annotations(owner) if name in known]
    in_order = sorted(own_first, key=lambda declared: bool(declared.kw_only))
    return [line for declared in in_order for line in _entry(declared)]


def _attributes(cls: type) -> list[str]:
    """Return the lines of what fitting adds, a class's own before what it inherits."""
    found: dict[str, list[str]] = {}
    for owner in cls.__mro__:
        said: dict[str, str] = dict(vars(owner).get("_learned", {}))
        for name, value in vars(owner).items():
            if isinstance(value, property) and name.endswith("_") and owner.__module__.startswith("sdem_dist."):
                kind = str(get_annotations(cast(FunctionType, value.fget))["return"]).removeprefix("np.")
                said[name] = f"{kind}\n{value.__doc__}"
        for name, text in said.items():
            kind, *meaning = text.splitlines()
            found.setdefault(name, [f"{name} : {kind}", *(f"    {line}" for line in meaning)])
    return [line for lines in found.values() for line in lines]


def _entry(declared: Field[object]) -> list[str]:
    """Return a parameter's lines in a numpydoc section."""
    shown = f'"{declared.default}"' if isinstance(declared.default, str) else declared.default
    head = f"{declared.name} : {declared.metadata[_CONSTRAINT].kind}, default={shown}"
    return [head, *(f"    {line}" for line in declared.metadata[_MEANING].splitlines())]


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _equal(value: object, allowed: object) -> bool:
    return type(value) is type(allowed) and value == allowed
