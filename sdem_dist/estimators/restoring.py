"""Learners and their states from what a model file holds, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sdem_dist.learners.fields import restored_state
from sdem_dist.models.regression import JointGaussian


def restorer(*kinds: type) -> Callable[[Mapping[str, np.ndarray], Any, int], Any]:
    """Return what makes the state of a learner of one of some classes."""

    def restore(arrays: Mapping[str, np.ndarray], learner: Any, n_features: int) -> Any:
        if not isinstance(learner, kinds):
            raise ValueError(f"its learner is a {type(learner).__name__}")
        known: Any = learner
        state: Any = restored_state(known, arrays)
        if _width(learner) != n_features:
            raise ValueError("the number of features does not match the arrays")
        return state

    return restore


def _width(learner: Any) -> int:
    """Return the columns of a learner's documents, without a target."""
    model: Any = getattr(learner, "model", None)
    if hasattr(model, "variables"):
        columns = sorted(c for block in model.variables.blocks for c in block.columns)
        if columns != list(range(len(columns))):
            raise ValueError("the columns of the blocks are not those of the table")
        return len(columns) - isinstance(model, JointGaussian)
    if hasattr(learner, "transform"):
        n = next(n for n in range(learner.n_features + 1) if learner.transform.n_features(n) >= learner.n_features)
        return int(n) if learner.transform.n_features(n) == learner.n_features else -1
    return int((model or learner).n_features)
