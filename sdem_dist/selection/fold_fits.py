"""Fits on all but a fold of documents, which are read and counted once for all settings, and scores on the fold."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
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
from sdem_dist.fitting.scoring import over_corpus, ranges_of
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
RESULT_NAMES = {"perplexity": "perplexity", "distance": "distance"}
"""What `evaluate` calls metrics that need the model."""


@dataclass(eq=False)
class FoldFits:
    """Documents in folds, or beside documents that settings are scored on, and the fits on them.

    Of each fold the training part alone decides document frequencies, and with them weights and `min_df`.

    `template`: the estimator, not fitted, with what it has learned of the documents' columns.
    `folds`: of `source`; None: settings are scored on `held_out`.
    `retrain`: whether models are trained anew with the documents that they held out, as by `fit`: half of the time.
    `others`: the same documents read with other values of `READING`.
    """

    template: EngineEstimator
    source: Source
    documents: tuple[Any, Any]
    folds: Folds[Any] | None
    held_out: Source | None
    client: Client | None
    n_jobs: int | None
    retrain: bool = True
    others: dict[str, FoldFits] = field(default_factory=dict)

    @property
    def n_folds(self) -> int:
        """How many models a setting has."""
        return 1 if self.folds is None else self.folds.k

    @property
    def name(self) -> str:
        """What tells these documents and their folds from others, for checkpoints."""
        apart = self.folds.name if self.folds is not None else cast(Source, self.held_out).identity
        return sha256(f"{self.source.identity} {apart}".encode()).hexdigest()

    def n_at_once(self, n: int) -> int:
        """Return how many of `n` fits run at a time: a cluster runs one after the other, each on all of its workers."""
        n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return 1 if self.client is not None else max(1, min(n, self.n_jobs or n_cores))

    @property
    def several(self) -> bool:
        """Whether documents may have several labels."""
        return self.source.members is not None

    def scored(self, fold: int) -> tuple[Source, np.ndarray]:
        """Return the documents that a fold's models are scored on: a source, and their positions in it."""
        if self.folds is None:
            held_out = cast(Source, self.held_out)
            return held_out, _rows(held_out.corpus)
        part = self.folds.test(fold)
        return self._part(part), _rows(part)

    def _part(self, part: Any) -> Source:
        counts = part.class_weights if self.source.class_counts else ()
        if self.source.members is not None:
            counts = (self.source.members.T @ np.asarray(counts)).tolist()
        return replace(self.source, corpus=part, weight=part.weight, class_counts=tuple(counts))

    def training(self, fold: int) -> Source:
        """Return the documents that a fold's models are trained on."""
        source = self.source if self.folds is None else self._part(self.folds.train(fold))
        return replace(source, retrain=self.retrain)

    def without(self, fold: int) -> FoldFits:
        """Return the fits of a search that does not see a fold, with folds of its own."""
        assert self.folds is not None
        training = self.training(fold)
        inner = Folds(cast(Any, training.corpus), self.folds.k, self.folds.seed, groups=self.folds.groups)
        return replace(self, source=training, documents=(training, None), folds=inner, others={})

    def outside(self, outer: FoldFits, fold: int) -> FoldFits:
        """Return these documents with a fold of others as the documents that settings are scored on."""
        return replace(self, folds=None, held_out=outer.scored(fold)[0], others={})

    def unfitted(self, params: dict[str, Any]) -> EngineEstimator:
        """Return the estimator of a setting."""
        model = copy.copy(self.template).set_params(**params)
        return cast(EngineEstimator, model)

    def reading(self, params: dict[str, Any]) -> FoldFits:
        """Return the fits on the documents as a setting asks for them to be read."""
        chosen = {name: params[name] for name in READING if name in params}
        if not chosen or all(getattr(self.template, name) is value for name, value in chosen.items()):
            return self
        key = repr(chosen)
        if key not in self.others:
            X, y = self.documents
            if isinstance(X, Source):
                raise ValueError(f"a nested search cannot try {', '.join(chosen)}: documents are counted once")
            estimator = clone(self.template).set_params(**chosen)
            folds, held_out = self.folds, self.held_out
            apart = folds.k if folds is not None else held_out
            groups = None if folds is None else folds.groups
            seed = 0 if folds is None else folds.seed
            self.others[key] = fits_on(estimator, X, y, cast(Any, apart), seed, groups, self.client, self.n_jobs)
        return self.others[key]

    def fitted(self, params: dict[str, Any], fold: int | None, callbacks: Sequence[Callback] = ()) -> EngineEstimator:
        """Return the model of a setting without a fold, or with None of all documents as they were given."""
        reading = self.reading(params)
        model = reading.unfitted(params)
        if fold is None:
            X, y = self.documents
            return model.fit(X, y, client=self.client, callbacks=callbacks)
        if self.client is None and "n_jobs" in model.get_params():
            model.set_params(n_jobs=1)  # settings are fitted side by side
        return model.fit(reading.training(fold), client=self.client, callbacks=callbacks)

    def fold_scores(
        self, params: dict[str, Any], fold: int, metrics: Sequence[Metric], callbacks: Sequence[Callback] = ()
    ) -> FoldScores:
        """Fit a setting without a fold and return its scores there; raises as `fit`."""
        started = time.perf_counter()
        model = self.fitted(params, fold, callbacks)
        reading = self.reading(params)
        predictions = reading.predictions(model, fold) if model.spec.target == "labels" else None
        scores = {}
        for metric in metrics:
            by_model = isinstance(metric, str) and metric in BY_MODEL
            scores[name_of(metric)] = (
                reading.by_model(cast(str, metric), model, fold)
                if by_model
                else measure(metric, cast(Predictions, predictions))
            )
        return FoldScores(scores, predictions, time.perf_counter() - started)

    def predictions(self, model: EngineEstimator, fold: int) -> Predictions:
        """Return what a classifier predicts of the documents of a fold."""
        source, rows = self.scored(fold)
        several, whole = model.several_labels, self._whole(source)
        predict = cast(Any, model).decision_function if several else cast(Any, model).predict_log_proba
        if self.client is not None and isinstance(source.corpus, Corpus):
            scores = predict_on_workers(model, source.corpus, several, self.client)
        else:
            scores = np.concatenate([predict(documents) for documents in _pieces(whole, rows)])
        labels, weights = whole.labels(), whole.weights
        assert labels is not None
        members = chosen = None
        if several:
            members = cast(Any, source.members)[labels[rows]].toarray() > 0
            chosen = probabilities(scores) >= cast(Any, model).thresholds_
        weights = np.ones(len(rows)) if weights is None else weights[rows]
        return Predictions(rows, scores.astype(np.float32), labels[rows], weights, members, chosen)

    def by_model(self, metric: str, model: EngineEstimator, fold: int) -> float:
        """Return a metric that predictions of classes do not tell."""
        source, rows = self.scored(fold)
        if metric == "R2":
            return self._r2(model, source, rows)
        results = evaluate_source(model, source_of(model, source, use="score"), self.client)
        name = RESULT_NAMES[metric]
        if name not in results:
            raise ValueError(
                f"{type(model).__name__} has no {metric}, only {some(np.array(list(results)))}: folds cannot score it; "
                "compare models by evaluate on held-out documents"
            )
        return results[name]

    def _r2(self, model: EngineEstimator, source: Source, rows: np.ndarray) -> float:
        columns = []
        for documents in _pieces(self._whole(source), rows):
            dense = isinstance(documents, DenseDocuments)
            targets = documents.values[:, -1] if isinstance(documents, DenseDocuments) else documents.targets
            numbers = cast(Any, model).predict(documents)
            weights = np.ones(len(numbers)) if documents.weights is None else documents.weights
            columns.append((targets if dense else np.reshape(cast(Any, targets), numbers.shape), numbers, weights))
        targets, numbers, weights = map(np.concatenate, zip(*columns, strict=True))
        return float(r2_score(targets, numbers, sample_weight=weights))

    def _whole(self, source: Source) -> BaseCorpus:
        """Return the corpus that positions are of."""
        return source.corpus if self.folds is None else self.folds.corpus


def fits_on(
    estimator: EngineEstimator,
    X: object,
    y: object,
    cv: int | Corpus | tuple[object, object] | Source,
    seed: int,
    groups: ArrayLike | None,
    client: Client | None,
    n_jobs: int | None,
) -> FoldFits:
    """Read the documents of a search once.

    `estimator`: unfitted; it takes note of the documents' columns.
    `groups`: in the order of `X`.
    Raises as `source_of` and `Folds`.
    """
    estimator._look_at(X)
    source = source_of(estimator, X, y, client=client)
    if isinstance(cv, Source | Corpus | tuple):
        described = clone(estimator)
        described._look_at(X)
        described._describe(source)
        held_out = cv if isinstance(cv, Source) else validation_source(described, cv, client)
        return FoldFits(estimator, source, (X, y), None, held_out, client, n_jobs)
    order = None if isinstance(source.corpus, Corpus) else source.corpus.order
    if groups is not None and order is not None:
        groups = np.asarray(groups)[order]
    folds = Folds(source.corpus, cv, seed, groups=groups)
    return FoldFits(estimator, source, (X, y), folds, None, client, n_jobs)


def predict_on_workers(model: EngineEstimator, part: Corpus, several: bool, client: Client) -> np.ndarray:
    """Return the scores of the documents of a part of a corpus, computed by the workers that read it."""
    predict = cast(Any, model).decision_function if several else cast(Any, model).predict_log_proba
    return over_corpus(model, part, predict, client)


def _rows(corpus: BaseCorpus) -> np.ndarray:
    """Return the positions of the documents of a corpus, or of the subset that it is."""
    return np.arange(corpus.n_documents) if corpus.mask is None else np.flatnonzero(corpus.mask)


def _pieces(corpus: Any, rows: np.ndarray) -> Iterator[Documents | DenseDocuments]:
    """Yield some documents of a corpus, a bounded number of them read at a time."""
    for start, stop in ranges_of(corpus):
        own = rows[(rows >= start) & (rows < stop)] - start
        if len(own):
            documents = corpus.read(start, stop)
            yield documents.taken(own) if isinstance(documents, Documents) else documents[own]
