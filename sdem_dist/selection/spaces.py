"""What a search tries: values and distributions of parameters, and the default space of each estimator."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone

from sdem_dist.counted import nearest
from sdem_dist.estimators import parameters
from sdem_dist.estimators.base import EngineEstimator

Space = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""Values to try of each parameter, in a list or as an object with ``rvs``; or several such spaces."""

Grid: TypeAlias = "dict[str, list[Any]]"
"""Values to try of each parameter."""

_DISCRIMINATIVE: list[Grid] = [
    {"loss": ["hinge"], "weighting": ["tfidf", "log"], "norm": [7.0, 10.0, 14.0], "step": [0.1, 0.2, 0.4]},
    {"loss": ["ncll"], "weighting": ["tfidf", "log"], "norm": [7.0, 10.0, 14.0], "step": [0.5, 1.0, 2.0]},
]
_RARE: Grid = {"min_df": [1, 2]}
_COUNTING: Grid = {"loss": ["nll"], "alpha": [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]}
DEFAULTS: dict[str, list[Grid]] = {
    "MultinomialNB": [*[{**space, **_RARE} for space in _DISCRIMINATIVE], _COUNTING],
    "ManyClassNB": [{"step": [0.1, 0.2, 0.4]}, _COUNTING],
    "MultiLabelNB": _DISCRIMINATIVE,
    "BernoulliNB": [{"loss": ["ncll", "hinge", "nll"], "alpha": [0.1, 1.0]}],
    "PoissonNB": [{"loss": ["ncll", "hinge", "nll"]}],
    "CategoricalNB": [{"loss": ["ncll", "hinge", "nll"], "alpha": [0.1, 1.0, 10.0]}],
    "GaussianNB": [{"loss": ["ncll", "hinge", "nll"]}],
    "MixedNB": [{"loss": ["ncll", "hinge", "nll"]}],
    "LDAClassifier": [{"loss": ["ncll", "nll"], "n_components": [2, 4, 8]}],
    "SdemMixtureClassifier": [{"loss": ["ncll", "hinge"], "n_components": [2, 4]}],
    "EMMixtureClassifier": [{"n_components": [1, 2, 4, 8]}],
    "MultiplicativeMixtureClassifier": [{"n_components": [1, 2, 4]}],
    "SupervisedLDAClassifier": [{"n_components": [10, 20, 50]}],
    "SupervisedLDARegressor": [{"n_components": [10, 20, 50]}],
    "LatentDirichletAllocation": [{"n_components": [5, 10, 20, 50]}],
    "MultinomialMixture": [{"n_components": [2, 5, 10, 20]}],
    "KMeans": [{"n_clusters": [2, 5, 10, 20]}],
    "GaussianMixture": [{"n_components": [2, 5, 10, 20]}],
    "ExponentialMixture": [{"n_components": [2, 5, 10, 20]}],
    "GaussianRegressor": [{"loss": ["ncll", "nll"]}],
}
"""Default spaces by estimator."""


def default_space(estimator: EngineEstimator, *, weighted: bool = False, orders: int = 1) -> list[Grid]:
    """Return the default space of an estimator, without the parameters that it has other values of than by default.

    `weighted`: documents hold other numbers than counts: those are not weighed again.
    `orders`: longest n-grams of the corpus. Raises ValueError: there is none.
    """
    name = type(estimator).__name__
    if name not in DEFAULTS:
        raise ValueError(
            f"{name} has no space of its own: say what to try (space={{NAME: [A, B]}}, --space NAME=A,B); "
            f"it has {', '.join(estimator.get_params(deep=False))}"
        )
    values, defaults = estimator.get_params(deep=False), type(estimator)().get_params(deep=False)
    left_out = ("weighting", "norm", "min_df") if weighted else ()
    spaces = [
        {key: tried for key, tried in space.items() if key in values and key not in left_out}
        for space in DEFAULTS[name]
    ]
    if orders > 1 and "ngram_range" in values:
        spaces = [{**space, "ngram_range": [(1, n) for n in range(1, orders + 1)]} for space in spaces]
    changed = {key for space in spaces for key in space if values[key] != defaults[key]}
    if values.get("steps") == "paper":  # which begin at 1
        changed.add("step")
    if "loss" in changed:
        of_loss = [space for space in spaces if values["loss"] in space.get("loss", [defaults["loss"]])]
        # Steps are of one loss; no space is of a loss that is an object.
        spaces = of_loss or [{key: tried for key, tried in spaces[0].items() if key != "step"}]
    return [{key: tried for key, tried in space.items() if key not in changed} for space in spaces]


def checked_spaces(estimator: EngineEstimator, space: Space) -> list[dict[str, Any]]:
    """Return the spaces to draw from.

    Raises ValueError: one is no dict, or names parameters that the estimator lacks, or holds no values or wrong ones.
    """
    parts = [space] if isinstance(space, Mapping) else space
    if isinstance(parts, str) or not all(isinstance(part, Mapping) for part in parts):
        raise ValueError(f"a space is a dict of parameters and values to try, or a list of such, got {space!r}")
    spaces = [dict(part) for part in parts]
    parameters.check(estimator)
    names, estimator_name = estimator.get_params(deep=False), type(estimator).__name__
    for part in spaces:
        for name, values in part.items():
            if name not in names:
                raise ValueError(f"{estimator_name} has no {name}; {nearest(name, names)}it has {', '.join(names)}")
            if hasattr(values, "rvs"):
                continue
            if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
                raise ValueError(f"{name} must have a list of values or a distribution with rvs, got {values!r}")
            if not len(values):
                raise ValueError(f"{name} has no value to try")
            for value in values:
                try:
                    parameters.check(clone(estimator).set_params(**{name: value}))
                except ValueError as error:
                    raise ValueError(f"what is tried of {name}: {error}") from error
    return spaces
