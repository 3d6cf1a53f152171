"""Trainings in a local MLflow store."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from sdem_dist import MultinomialNB, SdemError, load_model
from sdem_dist.engine.events import EpochEnded
from sdem_dist.tracking import MODEL_FILE, MLflowLogger

X = np.random.default_rng(0).poisson(1.0, (80, 7))
Y = np.arange(80) % 2


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    found = pytest.importorskip("mlflow", reason="MLflow is not installed: pip install 'sdem_dist[mlflow]'")
    pytest.importorskip("sqlalchemy", reason="MLflow's SQLite store needs SQLAlchemy")
    monkeypatch.chdir(tmp_path)
    before = found.get_tracking_uri()
    found.set_tracking_uri(f"sqlite:///{tmp_path / 'runs.db'}")
    found.set_experiment(
        experiment_id=found.create_experiment("trainings", artifact_location=f"file://{tmp_path / 'artifacts'}")
    )
    yield found
    found.set_tracking_uri(before)


def test_parameters_history_and_model_are_logged(mlflow, tmp_path):
    logger = MLflowLogger(run_name="first")
    model = MultinomialNB(n_epochs=3, evaluate_every=1, validation_fraction=0).fit(
        X, Y, validation=(X, Y), callbacks=[logger]
    )
    assert mlflow.active_run() is None
    run = mlflow.get_run(logger.run_id)
    assert (run.info.status, run.info.run_name) == ("FINISHED", "first")
    assert run.data.params["estimator"] == "MultinomialNB" and run.data.params["n_epochs"] == "3"
    client = mlflow.MlflowClient()
    for name in ("accuracy", "validation_ncll"):
        logged = {m.step: m.value for m in client.get_metric_history(logger.run_id, name)}
        assert logged == {entry["epoch"]: entry[name] for entry in model.history_}
        live = {m.step: m.value for m in client.get_metric_history(logger.run_id, f"train/{name}")}
        assert live == logged
    path = mlflow.artifacts.download_artifacts(run_id=logger.run_id, artifact_path=MODEL_FILE, dst_path=str(tmp_path))
    np.testing.assert_array_equal(load_model(path).predict_proba(X), model.predict_proba(X))


def test_a_run_that_is_open_is_used_and_left_open(mlflow):
    logger = MLflowLogger()
    with mlflow.start_run() as run:
        MultinomialNB(n_epochs=1).fit(X, Y, callbacks=[logger])
        assert mlflow.active_run() is not None and logger.run_id == run.info.run_id
    assert mlflow.get_run(logger.run_id).data.params["loss"] == "auto"


def test_without_mlflow_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(SdemError, match=r'pip install "sdem_dist\[mlflow\]"'):
        MLflowLogger()


def test_a_run_of_a_fit_that_fails_ends_as_failed_and_the_next_has_its_own(mlflow):
    class Unlucky:
        def __call__(self, event):
            if isinstance(event, EpochEnded):
                raise RuntimeError("no luck")

    first = MLflowLogger("one")
    with pytest.raises(RuntimeError, match="no luck"):
        MultinomialNB(n_epochs=2).fit(X, Y, callbacks=[first, Unlucky()])
    assert mlflow.active_run() is None
    assert mlflow.get_run(first.run_id).info.status == "FAILED"
    second = MLflowLogger("two")
    MultinomialNB(n_epochs=1).fit(X, Y, callbacks=[second])
    assert second.run_id != first.run_id and mlflow.get_run(second.run_id).info.status == "FINISHED"
    assert mlflow.get_run(second.run_id).data.params["n_epochs"] == "1"
