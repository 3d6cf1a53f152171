"""A search's settings and scores as scikit-learn's `cv_results_`."""

from typing import Any

import numpy as np

from sdem_dist.selection.trials import Trial


def results_of(trials: list[Trial], metric: str, sign: float, n_splits: int) -> dict[str, Any]:
    """Return scikit-learn's `cv_results_`: columns with an entry for each setting; more is better."""
    nothing = np.full(n_splits, np.nan)
    scores = np.array([sign * trial.scores.get(metric, nothing) for trial in trials])
    mean = scores.mean(axis=1)
    ranked = np.where(np.isfinite(mean), mean, -np.inf)
    columns: dict[str, Any] = {"params": [dict(trial.params) for trial in trials]}
    for name in dict.fromkeys(name for trial in trials for name in trial.params):
        values = [trial.params.get(name) for trial in trials]
        masked = np.ma.MaskedArray(np.empty(len(trials), object), mask=[name not in trial.params for trial in trials])
        for i, value in enumerate(values):
            if name in trials[i].params:
                masked[i] = value
        columns[f"param_{name}"] = masked
    columns |= {f"split{i}_test_score": scores[:, i] for i in range(n_splits)}
    columns |= {"mean_test_score": mean, "std_test_score": scores.std(axis=1)}
    columns["rank_test_score"] = np.array([1 + int((ranked > value).sum()) for value in ranked], np.int32)
    for name in dict.fromkeys(name for trial in trials for name in trial.scores):
        columns[f"mean_{name}"] = np.array([trial.scores.get(name, nothing).mean() for trial in trials])
    columns["n_epochs"] = np.array([trial.n_epochs for trial in trials])
    columns["temperature"] = np.array([trial.temperature for trial in trials])
    columns["seconds"] = np.array([trial.seconds for trial in trials])
    columns["dropped_after"] = [trial.dropped for trial in trials]
    columns["error"] = [trial.error for trial in trials]
    return columns
