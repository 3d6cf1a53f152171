"""What the parts of a search read of its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.selection.predicted import Metric
    from sdem_dist.selection.spaces import Space
    from sdem_dist.selection.trials import Trial


class Search(Protocol):
    """Parameters of a `CorpusSearchCV`."""

    estimator: EngineEstimator
    space: Space | None
    cv: object
    metric: Metric | None
    metric_: Metric
    classes_: np.ndarray
    n_trials: int | None
    sampler: str
    max_epochs: int | None
    total_epochs: int | None
    seconds: float | None
    halving: bool | str
    random_state: int
    n_jobs: int | None
    callbacks: Sequence[Callable[[Any], None]]


class Searched(Search, Protocol):
    """A `CorpusSearchCV` that has been fitted."""

    nested: bool
    tuned_: EngineEstimator
    trials_: list[Trial]
    n_splits_: int
    n_settings_: int
    _untried: int
    _ncll_left_out: bool
    best_index_: int
    best_params_: dict[str, Any]
    nested_scores_: np.ndarray
    nested_score_: float
