"""Settings of any estimator, fitted one after the other: documents of a corpus stay decoded where memory holds them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.folds import Folds
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.engine.plan import cut
from sdem_dist.errors import SdemError
from sdem_dist.estimators.latent_dirichlet_allocation import LatentDirichletAllocation
from sdem_dist.inputs.validation import positions_of, some
from sdem_dist.selection.metrics import CLASSES, Metric, Predicted, measured, name_of, temperature_of
from sdem_dist.selection.trials import Trial

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.estimators.base import EngineEstimator

READ = 16_384
"""Documents that are predicted at once."""
_NAMED = {"R2": "r2", "log-loss": "ncll", "perplexity": "perplexity", "accuracy": "accuracy"}
"""What `evaluate` calls metrics."""


def run(
    unfitted: EngineEstimator,
    trial: Trial,
    X: Any,
    y: Any,
    numbers: np.ndarray,
    folds: Folds | None,
    validation: Any,
    metrics: tuple[Metric, ...],
    client: Client | None,
) -> None:
    """Fit one setting on all but each fold and take note of how good it is.

    Parameters
    ----------
    unfitted : estimator
    trial : Trial
    X, y : as `fit` takes them
    numbers : ndarray of shape (n_documents,)
        The fold of each document.
    folds : Folds or None
        Of a corpus; None: `X` is in memory, or `validation` is scored.
    validation : Corpus, (X, y) or None
    metrics : tuple of metrics
    client : distributed.Client or None
    """
    started = time.perf_counter()
    of_folds: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    scores: dict[str, list[float]] = {name_of(metric): [] for metric in metrics}
    try:
        for fold in [0] if validation is not None else np.unique(numbers).tolist():
            model = clone(unfitted)
            training, scored = parts(X, y, numbers, folds, validation, fold)
            model.fit(*training, client=client)
            if hasattr(model, "predict_log_proba"):
                log_proba, labels = predicted(model, scored, numbers, fold if validation is None else None)
                of_folds.append((log_proba, labels, np.full(len(labels), fold)))
            else:
                named = _evaluated(model, scored, client)
                for metric in metrics:
                    scores[name_of(metric)].append(_named(model, named, metric))
        trial.n_epochs = model.n_iter_
    except SdemError:
        raise
    except ValueError as error:
        trial.error = str(error)
    trial.alive, trial.seconds = False, time.perf_counter() - started
    if trial.error:
        return
    if of_folds:
        found = _together(of_folds, numbers if validation is None else None)
        trial.temperature = temperature_of(found)
        trial.scores, trial.found = measured(found, 1.0, metrics), found
    else:
        trial.scores = {name: np.array(values) for name, values in scores.items()}
    trial.epochs = [{"epoch": trial.n_epochs, **{name: float(v.mean()) for name, v in trial.scores.items()}}]


def parts(
    X: Any, y: Any, numbers: np.ndarray, folds: Folds | None, validation: Any, fold: int
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return what is trained on and what is scored, as `fit` and `evaluate` take them; see `run`."""
    if validation is not None:
        return (X, y), validation if isinstance(validation, tuple) else (validation,)
    if folds is not None and isinstance(X, Corpus):
        return (folds.train(fold),), (folds.test(fold),)
    inside, outside = np.flatnonzero(numbers == fold), np.flatnonzero(numbers != fold)
    return tuple(
        tuple(None if part is None else _safe_indexing(part, rows) for part in (X, y)) for rows in (outside, inside)
    )  # type: ignore[return-value]


def predicted(
    model: EngineEstimator, scored: Sequence[Any], numbers: np.ndarray, fold: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return ln p(y | d) of the documents of a fold, and their labels; -1: none."""
    predict = cast(Any, model).predict_log_proba
    if not isinstance(scored[0], Corpus):
        X, y = scored
        return np.asarray(predict(X), np.float64), positions_of(model, y, model.classes_)
    corpus, found, of_rows = scored[0], [], []
    for start, stop in cut(0, corpus.n_documents, READ):
        documents: Documents | DenseDocuments = corpus.read(start, stop)
        rows = np.arange(stop - start) if fold is None else np.flatnonzero(numbers[start:stop] == fold)
        if not len(rows):
            continue
        table = documents.to_csr() if isinstance(documents, Documents) else np.asarray(documents.values, np.float64)
        assert documents.labels is not None
        found.append(predict(table[rows]))
        of_rows.append(documents.labels[rows])
    return np.concatenate(found), np.concatenate(of_rows)


def score_of(
    model: EngineEstimator,
    scored: Sequence[Any],
    numbers: np.ndarray,
    fold: int,
    metric: Metric,
    client: Client | None,
) -> float:
    """Return how good a fitted model is on a fold."""
    if not callable(metric) and metric not in CLASSES[:3]:
        return _named(model, _evaluated(model, scored, client), metric)
    log_proba, labels = predicted(model, scored, numbers, fold)
    found = Predicted(log_proba, labels, np.ones(len(labels)), np.zeros(len(labels)))
    return float(measured(found, 1.0, (metric,))[name_of(metric)][0])


def _together(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], numbers: np.ndarray | None) -> Predicted:
    """Return the models' predictions in the order of the documents."""
    log_proba, labels, of_fold = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    if numbers is not None:
        order = np.argsort(np.concatenate([np.flatnonzero(numbers == fold) for fold in np.unique(numbers)]))
        log_proba, labels, of_fold = log_proba[order], labels[order], of_fold[order]
    return Predicted(log_proba, labels, np.ones(len(labels)), of_fold)


def _evaluated(model: EngineEstimator, scored: Sequence[Any], client: Client | None) -> dict[str, float]:
    """Return what a model is measured by; topics have no perplexity at one point, but one of their own."""
    if isinstance(model, LatentDirichletAllocation):
        return {"perplexity": model.perplexity(scored[0])}
    return dict(model.evaluate(*scored, client=client))


def _named(model: EngineEstimator, found: dict[str, float], metric: Metric) -> float:
    name = _NAMED.get(metric, "") if isinstance(metric, str) else ""
    if name not in found:
        others = ", ".join(known for known, own in _NAMED.items() if own in found)
        raise ValueError(
            f"{type(model).__name__} has no {name_of(metric)}, only {some(np.array(list(found)))}: "
            + (
                f"choose {others}"
                if others
                else "folds cannot score it; compare models by evaluate on held-out documents"
            )
        )
    return found[name]
