"""A learner's state from arrays of a file, checked."""

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from sdem_dist.learners.protocol import Learner

_State = TypeVar("_State")


def restored_state(learner: Learner[_State, object, object], arrays: Mapping[str, np.ndarray]) -> _State:
    """Return a state from arrays by name; those without an axis become floats.

    `arrays`: may hold more than the state.
    Raises ValueError: an array is missing, has another shape or dtype than the learner says, or holds what no state
    does; the message names it.
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
