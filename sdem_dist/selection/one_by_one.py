"""Settings of any estimator, fitted one after the other: documents of a corpus stay decoded where memory holds them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.utils import _safe_indexing

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.folds import Folds
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.engine.events import Callback
from sdem_dist.engine.plan import cut
from sdem_dist.errors import SdemError
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.topic_model import LatentDirichletAllocation
from sdem_dist.fitting.scoring import documents_in_pieces
from sdem_dist.inputs.label_sets import indicator_of_labels, members_of
from sdem_dist.inputs.validation import positions_of, some
from sdem_dist.label_scores import Decisions
from sdem_dist.selection.label_metrics import measured_labels
from sdem_dist.selection.metrics import measured, name_of, temperature_of
from sdem_dist.selection.predicted import Metric, Predicted
from sdem_dist.selection.trials import Training

if TYPE_CHECKING:
    from distributed import Client


WITHOUT = ".* without a document of a weight above zero"
"""What a fit warns of where a fold has all documents of a class."""
READ = 16_384
"""Documents that are predicted at once."""
_NAMED = {"R2": "r2", "perplexity": "perplexity", "distance": "distance"}
"""What `evaluate` calls the metrics of others than classifiers."""


def run(
    unfitted: EngineEstimator,
    decides: tuple[str, ...],
    X: Any,
    y: Any,
    numbers: np.ndarray,
    folds: Folds | None,
    validation: Any,
    metrics: tuple[Metric, ...],
    classes: np.ndarray,
    client: Client | None,
    callbacks: Sequence[Callback] = (),
) -> Training:
    """Fit one setting on all but each fold, and return how good it is.

    `decides`: what the folds decide, see `Trial`. `X`, `y`: several labels as an indicator matrix.
    `numbers`: shape (n_documents,), the fold of each document.
    `folds`: of a corpus; None: `X` is in memory, or `validation` is scored.
    `classes`: shape (n_classes,), of all documents; empty where they have none.
    `callbacks`: of the fits; what they raise ends it.
    """
    asked, run_epochs = unfitted._n_epochs, 0
    of_folds: list[Predicted] = []
    scores: dict[str, list[float]] = {name_of(metric): [] for metric in metrics}
    try:
        for fold in [0] if validation is not None else np.unique(numbers).tolist():
            model = clone(unfitted)
            training, scored = parts(X, y, numbers, folds, validation, fold)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", WITHOUT, UserWarning)
                model.fit(*training, client=client, callbacks=callbacks)
            run_epochs = max(run_epochs, model.n_iter_)
            if hasattr(model, "predict_log_proba"):
                of_folds.append(predicted(model, scored, numbers, fold, classes, whole=validation is not None))
            else:
                named = _evaluated(model, scored, client)
                for metric in metrics:
                    scores[name_of(metric)].append(_named(model, named, metric))
    except SdemError:
        raise
    except ValueError as error:
        return Training(0, False, {}, error=str(error))
    a_number = isinstance(getattr(unfitted, "n_epochs", None), int | np.integer)
    reached = (min(asked, run_epochs) if a_number else run_epochs), asked <= run_epochs
    if not of_folds:
        return Training(*reached, {name: np.array(values) for name, values in scores.items()})
    found = _together(of_folds, numbers if validation is None else None)._replace(decides=decides)
    temperature = temperature_of(found) if found.members is None else 1.0
    return Training(*reached, measured(found, 1.0, metrics), found, temperature)


def parts(
    X: Any, y: Any, numbers: np.ndarray, folds: Folds | None, validation: Any, fold: int
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return what is trained on and what is scored, as `fit` and `evaluate` take them; see `run`.

    As in a corpus, documents of the fold have weight 0 and their classes, columns and words are known.
    """
    if validation is not None:
        return (X, y), validation if isinstance(validation, tuple) else (validation,)
    if folds is not None and isinstance(X, Corpus):
        return (folds.train(fold),), (folds.test(fold),)
    return (X, y, (numbers != fold).astype(np.float64)), rows_of(X, y, numbers == fold)


def rows_of(X: Any, y: Any, which: np.ndarray) -> tuple[Any, Any]:
    """Return some of the documents in memory."""
    rows = np.flatnonzero(which)
    return _safe_indexing(X, rows), None if y is None else _safe_indexing(y, rows)


def predicted(
    model: EngineEstimator,
    scored: Sequence[Any],
    numbers: np.ndarray,
    fold: int,
    classes: np.ndarray,
    *,
    whole: bool = False,
) -> Predicted:
    """Return what a model says of the documents of a fold, or with `whole` of all, and their labels.

    The winner of a search without the fold (`nested_scores`) may not know all of `classes`: others get the share of
    what none of its n documents had, ``1 / (n + n_classes)``.
    """
    several = model.several_labels
    predict = cast(Any, model).decision_function if several else cast(Any, model).predict_log_proba
    if not isinstance(scored[0], Corpus):
        X, y = scored
        said = np.asarray(predict(X), np.float64)
        members = indicator_of_labels(y, model.classes_).toarray() if several else None
        labels = np.zeros(len(said), np.int64) if several else positions_of(model, y, classes)
        if not several and (unknown := len(classes) - len(model.classes_)):
            total = np.count_nonzero(numbers != fold) + len(classes)
            scores = np.full((len(said), len(classes)), -np.log(total))
            scores[:, np.searchsorted(classes, model.classes_)] = said + np.log1p(-unknown / total)
            said = scores
        return Predicted(said, labels, np.ones(len(labels)), np.full(len(labels), fold), members=members)
    corpus, found, of_rows = scored[0], [], []
    weights = []
    for start, stop in cut(0, corpus.n_documents, READ):
        documents: Documents | DenseDocuments = corpus.read(start, stop)
        rows = np.arange(stop - start) if whole else np.flatnonzero(numbers[start:stop] == fold)
        if not len(rows):
            continue
        part = documents.taken(rows) if isinstance(documents, Documents) else documents[rows]
        assert part.labels is not None
        found.append(predict(part))
        of_rows.append(part.labels)
        weights.append(np.ones(len(rows)) if part.weights is None else part.weights)
    labels = np.concatenate(of_rows)
    members = members_of(corpus, model.classes_)[0][labels].toarray() if several else None
    folds = np.full(len(labels), fold)
    return Predicted(np.concatenate(found), labels, np.concatenate(weights), folds, members=members)


def score_of(
    model: EngineEstimator,
    scored: Sequence[Any],
    numbers: np.ndarray,
    fold: int,
    classes: np.ndarray,
    metric: Metric,
    client: Client | None,
) -> float:
    """Return how good a fitted model is on a fold."""
    if not callable(metric) and metric in _NAMED:
        return _named(model, _evaluated(model, scored, client), metric)
    found = predicted(model, scored, numbers, fold, classes)
    if found.members is not None:  # at its temperatures already
        own = Decisions(np.ones(found.scores.shape[1]), cast(Any, model).thresholds_)
        return measured_labels(found, (metric,), {fold: own})[0][0]
    return float(measured(found, 1.0, (metric,))[name_of(metric)][0])


def _together(parts: list[Predicted], numbers: np.ndarray | None) -> Predicted:
    """Return the models' predictions in the documents' order, with scores in single precision, as side by side."""
    columns = (None if of[0] is None else np.concatenate(of) for of in zip(*(part[:7] for part in parts), strict=True))
    found = Predicted(*columns)  # type: ignore[arg-type]
    found = found._replace(scores=found.scores.astype(np.float32))
    if numbers is None:
        return found
    order = np.argsort(np.concatenate([np.flatnonzero(numbers == fold) for fold in np.unique(numbers)]))
    return Predicted(*(None if column is None else column[order] for column in found[:7]))  # type: ignore[arg-type]


def _evaluated(model: EngineEstimator, scored: Sequence[Any], client: Client | None) -> dict[str, float]:
    """Return what a model is measured by; topics have no perplexity at one point, but one of their own."""
    if isinstance(model, LatentDirichletAllocation):
        return {"perplexity": model.perplexity(scored[0])}
    found = dict(model.evaluate(*scored, client=client))
    return found if model.spec.target != "numbers" or "r2" in found else {"r2": _r2(model, *scored)}


def _r2(model: EngineEstimator, X: Any, y: Any = None) -> float:
    """Return R2 of a regressor of a table, whose corpora have the target as their last column."""
    predict = cast(Any, model).predict
    if not isinstance(X, Corpus):
        return float(r2_score(y, predict(X)))
    columns = []
    for _, rows in documents_in_pieces(X):
        assert isinstance(rows, DenseDocuments)
        weights = np.ones(rows.n_documents) if rows.weights is None else rows.weights
        columns.append((rows.values[:, -1], predict(rows), weights))
    targets, means, weights = map(np.concatenate, zip(*columns, strict=True))
    return float(r2_score(targets, means, sample_weight=weights))


def _named(model: EngineEstimator, found: dict[str, float], metric: Metric) -> float:
    name = _NAMED.get(metric, "") if isinstance(metric, str) else ""
    if name not in found:
        raise ValueError(
            f"{type(model).__name__} has no {name_of(metric)}, only {some(np.array(list(found)))}: folds cannot score it; "
            "compare models by evaluate on held-out documents"
        )
    return found[name]
