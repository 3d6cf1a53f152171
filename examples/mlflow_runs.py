"""A callback that logs a training to MLflow: parameters, metrics of each epoch as it ends, and the model."""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path

import mlflow
from sklearn.datasets import load_digits

from sdem_dist import GaussianNB
from sdem_dist.engine.events import EpochEnded, Event, StageStarted

MODEL_FILE = "sdem.model"  # the artifact that `sdem_dist.load_model` reads


class MLflowLogger:
    """Log to MLflow's active run, which stays open; where there is none, to one that ends with the fit."""

    def __init__(self, run_name: str | None = None) -> None:
        self.run_id: str | None = None
        self._run_name = run_name
        self._owns_run = self._monitored = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self._begin()
            self._monitored = event.monitored
        elif isinstance(event, EpochEnded) and self._monitored:
            _log({f"{event.stage}/{name}": value for name, value in event.metrics.items()}, event.epoch + 1)

    def fitted(self, estimator: GaussianNB) -> None:
        """Called by `fit` at its end."""
        self._begin()
        parameters = {name: str(value) for name, value in estimator.get_params(deep=False).items()}
        mlflow.log_params({"estimator": type(estimator).__name__, **parameters})
        for entry in estimator.history_:
            _log({name: value for name, value in entry.items() if name != "epoch"}, int(entry["epoch"]))
        with tempfile.TemporaryDirectory() as folder:
            estimator.save(Path(folder, MODEL_FILE))
            mlflow.log_artifact(str(Path(folder, MODEL_FILE)))
        self._end("FINISHED")

    def failed(self) -> None:
        """Called by `fit` where it fails."""
        self._end("FAILED")

    def _begin(self) -> None:
        run = mlflow.active_run()
        if run is None:
            run, self._owns_run = mlflow.start_run(run_name=self._run_name), True
        self.run_id = run.info.run_id

    def _end(self, status: str) -> None:
        if self._owns_run:
            mlflow.end_run(status)
            self._owns_run = False


def _log(metrics: Mapping[str, float], epoch: int) -> None:
    mlflow.log_metrics({name: float(value) for name, value in metrics.items() if math.isfinite(value)}, step=epoch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="folder for MLflow's runs")
    parser.add_argument("--quick", action="store_true", help="three epochs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    mlflow.set_tracking_uri(f"sqlite:///{(options.out / 'runs.db').absolute()}")
    experiment = mlflow.create_experiment("digits", artifact_location=(options.out / "artifacts").absolute().as_uri())
    mlflow.set_experiment(experiment_id=experiment)
    X, y = load_digits(return_X_y=True)
    logger = MLflowLogger("hinge")
    GaussianNB(loss="hinge", n_epochs=3 if options.quick else 30).fit(X, y, callbacks=[logger])
    run = mlflow.get_run(logger.run_id)
    print(f"run {run.info.run_name}, {run.info.status.lower()}: {run.data.params['loss']}, see mlflow ui")


if __name__ == "__main__":
    main()
