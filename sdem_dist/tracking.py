"""Trainings in MLflow: a callback that logs parameters, the course of a training, and the model."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdem_dist.engine.events import EpochEnded, Event, StageStarted
from sdem_dist.errors import SdemError

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator

MODEL_FILE = "sdem.model"
"""The artifact that `sdem_dist.load_model` reads."""


class MLflowLogger:
    """Log a fit to MLflow: ``clf.fit(X, y, callbacks=[MLflowLogger()])``.

    Metrics of an epoch are logged as it ends, with the stage's name before theirs; parameters, the history and the
    model, as the artifact `MODEL_FILE`, when the fit has ended. The run is the active one of MLflow, which stays open;
    where there is none, one of its own, which ends as failed where the fit fails.

    Parameters
    ----------
    run_name : str, optional
        Of a run of its own.

    Attributes
    ----------
    run_id : str or None
        The latest run.

    Raises
    ------
    SdemError
        MLflow is not installed.
    """

    def __init__(self, run_name: str | None = None) -> None:
        try:
            self._mlflow: Any = import_module("mlflow")
        except ImportError as error:
            raise SdemError('logging to MLflow needs it: pip install "sdem_dist[mlflow]"') from error
        self._run_name = run_name
        self._own = self._watched = False
        self.run_id: str | None = None

    def __call__(self, event: Event) -> None:
        """Log the metrics of an epoch that people watch."""
        if isinstance(event, StageStarted):
            self._begin()
            self._watched = event.monitored
        elif isinstance(event, EpochEnded) and self._watched:
            self._log({f"{event.stage}/{name}": value for name, value in event.metrics.items()}, event.epoch + 1)

    def fitted(self, estimator: EngineEstimator) -> None:
        """Log what a fit has led to; `fit` calls it in the end."""
        self._begin()
        settings = {name: str(value) for name, value in estimator.get_params(deep=False).items()}
        self._mlflow.log_params({"estimator": type(estimator).__name__, **settings})
        for entry in estimator.history_:
            self._log({name: value for name, value in entry.items() if name != "epoch"}, int(entry["epoch"]))
        with tempfile.TemporaryDirectory(prefix="sdem-") as folder:
            path = Path(folder, MODEL_FILE)
            estimator.save(path)
            self._mlflow.log_artifact(str(path))
        self._end("FINISHED")

    def failed(self) -> None:
        """End a run of its own as failed; `fit` calls it where a fit does not reach its end."""
        self._end("FAILED")

    def _end(self, status: str) -> None:
        if self._own:
            self._mlflow.end_run(status)
            self._own = False

    def _begin(self) -> None:
        run = self._mlflow.active_run()
        if run is None:
            run, self._own = self._mlflow.start_run(run_name=self._run_name), True
        self.run_id = run.info.run_id

    def _log(self, metrics: Mapping[str, float], epoch: int) -> None:
        finite = {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
        self._mlflow.log_metrics(finite, step=epoch)
