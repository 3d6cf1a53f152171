"""Fits on all but a fold of documents, which are read and counted once for all settings, and scores on the fold."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.metrics import r2_score

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.base import BaseCorpus
from sdem_dist.corpus.folds import Folds
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.engine.events import Callback
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.fitting.running import evaluate_source, validation_source
from sdem_dist.fitting.scoring import over_corpus
from sdem_dist.inputs.source import source_of
from sdem_dist.inputs.spec import Source
from sdem_dist.inputs.validation import some
from sdem_dist.label_scores import probabilities
from sdem_dist.selection.metrics import BY_MODEL, Metric, Predictions, measure, name_of
from sdem_dist.selection.trials import FoldScores

if TYPE_CHECKING:
    from distributed import Client

READING = ("vectorizer", "components", "unlabelled")
"""Parameters that decide how documents are read: settings that differ in them have a source of their own."""


@dataclass(eq=False)
class FoldFits:
    """Documents in folds, or beside documents that settings are scored on, and the fits on them.

    Of each fold the training part alone decides document frequencies, and with them weights and `min_df`.
    """

    template: EngineEstimator  # not fitted, with what it has learned of the documents' columns
    X: object
    y: object
    source: Source
    folds: Folds[Any] | None  # of `source`; None: settings are scored on `held_out`
    held_out: Source | None
    client: Client | None
    n_jobs: int | None
    read: Callable[[EngineEstimator], FoldFits]  # the same documents as another estimator reads them
    retrain: bool = True  # train anew with the documents that a model held out, as `fit` does: half of the time
    others: dict[str, FoldFits] = field(default_factory=dict)  # the same documents, by values of `READING`

    @property
    def n_folds(self) -> int:
        return 1 if self.folds is None else self.folds.k

    @property
    def name(self) -> str:
        apart = self.folds.name if self.folds is not None else cast(Source, self.held_out).identity
        return sha256(f"{self.source.identity} {apart}".encode()).hexdigest()

    def n_at_once(self, n: int) -> int:
        """Return how many of `n` fits run at a time: a cluster runs one after the other, each on all of its workers."""
        n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return 1 if self.client is not None else max(1, min(n, self.n_jobs or n_cores))

    def scored(self, fold: int) -> Source:
        return cast(Source, self.held_out) if self.folds is None else self._part(self.folds.test(fold))

    def training(self, fold: int) -> Source:
        source = self.source if self.folds is None else self._part(self.folds.train(fold))
        return replace(source, retrain=self.retrain)

    def _part(self, part: Any) -> Source:
        counts = part.class_weights if self.source.class_counts else ()
        if self.source.members is not None:
            counts = (self.source.members.T @ np.asarray(counts)).tolist()
        return replace(self.source, corpus=part, weight=part.weight, class_counts=tuple(counts))

    def without(self, fold: int) -> FoldFits:
        assert self.folds is not None
        training = self.training(fold)
        inner = Folds(cast(Any, training.corpus), self.folds.k, self.folds.seed, groups=self.folds.groups)
        return replace(self, X=training, y=None, source=training, folds=inner, others={})

    def as_read_for(self, params: dict[str, Any]) -> FoldFits:
        chosen = {name: params[name] for name in READING if name in params}
        if all(getattr(self.template, name) == value for name, value in chosen.items()):
            return self
        key = repr(chosen)
        if key not in self.others:
            if isinstance(self.X, Source):
                raise ValueError(f"a nested search cannot try {', '.join(chosen)}: documents are counted once")
            self.others[key] = replace(self.read(clone(self.template).set_params(**chosen)), retrain=self.retrain)
        return self.others[key]

    def fitted(self, params: dict[str, Any], fold: int | None, callbacks: Sequence[Callback] = ()) -> EngineEstimator:
        """Return the model of a setting without a fold, or with None of all documents as they were given."""
        fits, client = self.as_read_for(params), self.client
        model: EngineEstimator = copy.copy(fits.template).set_params(**params)
        if fold is None:
            return model.fit(self.X, self.y, client=client, callbacks=callbacks)
        if client is None and "n_jobs" in model.get_params():
            model.set_params(n_jobs=1)  # settings are fitted side by side
        return model.fit(fits.training(fold), client=client, callbacks=callbacks)

    def fold_scores(
        self, params: dict[str, Any], fold: int, metrics: Sequence[Metric], callbacks: Sequence[Callback] = ()
    ) -> FoldScores:
        """Fit a setting without a fold and return its scores there; raises as `fit`."""
        started = time.perf_counter()
        model, held_out = self.fitted(params, fold, callbacks), self.as_read_for(params).scored(fold)
        predictions = _predictions(model, held_out, self.client) if model.spec.target == "labels" else None
        scores = {}
        for metric in metrics:
            if isinstance(metric, str) and metric in BY_MODEL:
                scores[metric] = _score_of_model(metric, model, held_out, self.client)
            else:
                scores[name_of(metric)] = measure(metric, cast(Predictions, predictions))
        return FoldScores(scores, predictions, time.perf_counter() - started)


def fits_on(
    estimator: EngineEstimator,
    X: object,
    y: object,
    *,
    cv: Any,
    seed: int,
    groups: ArrayLike | None = None,
    client: Client | None = None,
    n_jobs: int | None = None,
) -> FoldFits:
    """Read the documents of a search once.

    `estimator`: unfitted; it takes note of the documents' columns.
    `cv`: number of folds, or documents that settings are scored on: a corpus, or a tuple (X, y).
    `groups`: in the order of `X`.
    Raises as `source_of` and `Folds`.
    """
    read = partial(fits_on, X=X, y=y, cv=cv, seed=seed, groups=groups, client=client, n_jobs=n_jobs)
    estimator._look_at(X)
    source, folds, held_out = source_of(estimator, X, y, client=client), None, None
    if isinstance(cv, Corpus | tuple):
        described = clone(estimator)
        described._look_at(X)
        described._describe(source)
        held_out = validation_source(described, cv, client)
    else:
        order = None if isinstance(source.corpus, Corpus) else source.corpus.order
        groups = groups if groups is None or order is None else np.asarray(groups)[order]
        folds = Folds(source.corpus, cv, seed, groups=groups)
    return FoldFits(estimator, X, y, source, folds, held_out, client, n_jobs, read)


def rows_of(corpus: BaseCorpus) -> np.ndarray:
    return np.arange(corpus.n_documents) if corpus.mask is None else np.flatnonzero(corpus.mask)


def _weights(corpus: BaseCorpus, rows: np.ndarray) -> np.ndarray:
    return np.ones(len(rows)) if corpus.weights is None else corpus.weights[rows]


def _predictions(model: Any, source: Source, client: Client | None) -> Predictions:
    """Return what a classifier predicts of documents, those of a corpus on the workers that read it."""
    corpus, rows = source.corpus, rows_of(source.corpus)
    predict = model.decision_function if model.several_labels else model.predict_log_proba
    scores = over_corpus(model, corpus, predict, client if isinstance(corpus, Corpus) else None)
    labels = cast(np.ndarray, corpus.labels())[rows]
    members = chosen = None
    if model.several_labels:
        members = cast(Any, source.members)[labels].toarray() > 0
        chosen = probabilities(scores) >= model.thresholds_
    return Predictions(rows, scores.astype(np.float32), labels, _weights(corpus, rows), members, chosen)


def _score_of_model(metric: str, model: EngineEstimator, source: Source, client: Client | None) -> float:
    corpus = source.corpus
    if metric == "R2":
        rows, on_disk = rows_of(corpus), isinstance(corpus, Corpus)
        numbers = over_corpus(model, corpus, partial(_targets_and_numbers, model), client if on_disk else None)
        targets, predicted = np.split(numbers, 2, axis=1)
        return float(r2_score(targets, predicted, sample_weight=_weights(corpus, rows)))
    results = evaluate_source(model, source_of(model, source, use="score"), client)
    if metric not in results:
        raise ValueError(
            f"{type(model).__name__} has no {metric}, only {some(np.array(list(results)))}: folds cannot score it; "
            "compare models by evaluate on held-out documents"
        )
    return results[metric]


def _targets_and_numbers(model: Any, documents: Documents | DenseDocuments) -> np.ndarray:
    """Return what is to be predicted of documents and what a regressor predicts, in columns beside each other."""
    targets = documents.values[:, -1] if isinstance(documents, DenseDocuments) else cast(np.ndarray, documents.targets)
    n = documents.n_documents
    return np.hstack([targets.reshape(n, -1), model.predict(documents).reshape(n, -1)])
