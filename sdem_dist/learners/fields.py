"""What the arrays of a learner's state are, and a state from arrays of a file, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from sdem_dist.learners.protocol import Learner

_State = TypeVar("_State")


@dataclass(frozen=True)
class Field:
    """What one array of a state is; float64.

    Attributes
    ----------
    shape : tuple of int or None
        None is any length; () is a number.
    low : float
        Least value.
    finite : bool
        False lets infinities and NaN through.
    """

    shape: tuple[int | None, ...] = ()
    low: float = -np.inf
    finite: bool = True

    def check(self, name: str, value: np.ndarray) -> None:
        """Raise ValueError, with the name, unless an array is what the field says."""
        fits = value.ndim == len(self.shape) and all(
            wanted in (None, n) for n, wanted in zip(value.shape, self.shape, strict=True)
        )
        if not fits or value.dtype != np.float64:
            shape = tuple("any" if n is None else n for n in self.shape)
            raise ValueError(
                f"array {name!r} must be float64 of shape {shape}, and is {value.dtype} of shape {value.shape}"
            )
        if self.finite and not np.isfinite(value).all():
            raise ValueError(f"array {name!r} holds a value that is not finite")
        if (value < self.low).any():
            raise ValueError(f"array {name!r} holds {value.min():.6g}, and its least value is {self.low:g}")


def restored_state(learner: Learner[_State, object, object], arrays: Mapping[str, np.ndarray]) -> _State:
    """Return a state from arrays by name; those without an axis become floats.

    Parameters
    ----------
    learner : Learner
    arrays : mapping of name to ndarray
        May hold more than the state.

    Raises
    ------
    ValueError
        An array is missing, has another shape or dtype than the learner says, or holds what no state does; the message
        names it.
    """
    values: dict[str, np.ndarray | float] = {}
    for name, field in learner.state_fields().items():
        if name not in arrays:
            raise ValueError(f"array {name!r} is missing")
        value = np.asarray(arrays[name])
        field.check(name, value)
        values[name] = value if value.ndim else float(value)
    state = learner.state_type(**values)
    learner.check_state(state)
    return state
