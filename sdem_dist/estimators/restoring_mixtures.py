"""Learners and states of mixtures from what a model file holds, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sdem_dist.estimators.restoring import restore_features, restore_multinomial
from sdem_dist.learners.mixture_counts import MixtureCounts
from sdem_dist.learners.mixture_features import MixtureFeatures
from sdem_dist.learners.multiplicative import Multiplicative, MultiplicativeState


def restore_mixture(arrays: Mapping[str, np.ndarray], settings: dict[str, Any], n_features: int) -> tuple[Any, Any]:
    """Return the learner and the state of a mixture of any training.

    Raises
    ------
    ValueError
        An array has another shape than the settings say, or holds what no model does.
    """
    if "eta" in settings:
        return _restore_multiplicative(arrays, settings, n_features)
    learner: Any
    state: Any
    if "model" in settings:
        learner, state = restore_features(arrays, settings, n_features, MixtureFeatures)
    else:
        learner, state = restore_multinomial(arrays, settings, n_features, MixtureCounts)
    _check_owners(learner.owners, learner.n_classes, learner.n_labels)
    return learner, state


def _restore_multiplicative(
    arrays: Mapping[str, np.ndarray], settings: dict[str, Any], n_features: int
) -> tuple[Multiplicative, MultiplicativeState]:
    learner = Multiplicative(**settings)
    values = {name: np.asarray(arrays[name]) for name in MultiplicativeState._fields}
    if learner.n_features != learner.transform.n_features(n_features):
        raise ValueError("the number of features does not match the arrays")
    if learner.owners:
        _check_owners(learner.owners, learner.n_components, learner.n_classes)
    for prefix in ("", "good_", "plain_"):
        theta, log_weights = values[prefix + "theta"], values[prefix + "log_weights"]
        if theta.shape != (learner.n_components, learner.n_features) or not np.isfinite(theta).all():
            raise ValueError(f"array '{prefix}theta' is not made of finite numbers, a row for each component")
        right = log_weights.shape == (learner.n_classes, learner.n_components) and (log_weights < np.inf).all()
        if not (right and np.isfinite(log_weights).any(axis=1).all()):
            raise ValueError(f"array '{prefix}log_weights' does not hold the weights of the components")
    shapes = {name: v.shape for name, v in values.items() if not name.endswith(("theta", "log_weights", "path"))}
    if any(v.dtype != np.float64 for v in values.values()) or values["path"].ndim != 1 or any(shapes.values()):
        raise ValueError("an array has another dtype or shape than a state's")
    if learner.dtype not in ("float64", "float32") or not 0.0 < learner.eta < np.inf:
        raise ValueError(f"the dtype {learner.dtype!r} or eta {learner.eta!r} is none that a training has")
    fields: list[Any] = [float(v) if v.ndim == 0 else v for v in values.values()]
    return learner, MultiplicativeState(*fields)


def _check_owners(owners: tuple[int, ...], n_components: int, n_classes: int) -> None:
    wanted = len(owners) == n_components and sorted(owners) == list(owners) and set(owners) == set(range(n_classes))
    if not wanted:
        raise ValueError("the components do not belong to the classes")
