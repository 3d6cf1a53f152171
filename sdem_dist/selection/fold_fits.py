"""The parts of a search: documents in folds, fits without each fold, and checkpoints of their scores."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.metrics import r2_score

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.folds import Folds
from sdem_dist.documents import DenseDocuments
from sdem_dist.engine.checkpoint import Json, check_run, checkpoint_folder, identity
from sdem_dist.engine.events import Callback
from sdem_dist.errors import ModelError
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.evaluation import probabilities
from sdem_dist.fitting.running import evaluate_source, over_corpus, validation_source
from sdem_dist.inputs.source import source_of
from sdem_dist.inputs.spec import Source
from sdem_dist.selection.trials import BY_MODEL, FoldScores, Metric, Predictions, Trial, measure, name_of
from sdem_dist.storage.archive import read_archive, write_archive
from sdem_dist.storage.encoding import from_json, to_json

if TYPE_CHECKING:
    from distributed import Client

READING = ("vectorizer", "components", "unlabelled")  # for each value of these parameters, documents are read anew
KIND = "sdem-search"


@dataclass(eq=False)
class FoldFits:
    """Documents in folds, or with separate documents for scores, counted once; and the fits on them."""

    template: EngineEstimator  # not fitted; records the columns of the documents
    X: object
    y: object
    _: KW_ONLY
    cv: Any  # number of folds, or documents on which settings are scored: a corpus, or a tuple (X, y)
    seed: int
    groups: ArrayLike | None = None  # in the order of `X`
    client: Client | None = None
    n_jobs: int | None = None
    metrics: Sequence[Metric] = ()  # of `fold_scores`; the first one decides
    deadline: float = np.inf  # of a search, in seconds of `time.perf_counter`
    retrain: bool = True  # retrain with the documents that a fit held out, as `fit` does; takes half the time
    source: Source = None  # type: ignore[assignment]  # set in `__post_init__`
    folds: Folds[Any] | None = None  # of `source`; None: settings are scored on `held_out`
    held_out: Source | None = None
    others: dict[str, FoldFits] = field(default_factory=dict)  # the same documents for other values of `READING`
    counted: Mapping[object, Corpus] = field(default_factory=dict)  # the same documents for other settings of text

    def __post_init__(self) -> None:
        """Read the documents, unless they are already read; raises the errors of `source_of` and `Folds`."""
        if self.folds is None and self.held_out is None:
            self.template._look_at(self.X)
            self.source = source_of(self.template, self.X, self.y, client=self.client)
            if isinstance(self.cv, Corpus | tuple):
                self.template._describe(self.source)
                self.held_out = validation_source(self.template, self.cv, self.client)
            else:
                order = getattr(self.source.corpus, "order", None)
                groups = self.groups if self.groups is None or order is None else np.asarray(self.groups)[order]
                self.folds = Folds(self.source.corpus, self.cv, self.seed, groups=groups)
        self.n_folds = 1 if self.folds is None else self.folds.k

    @property
    def name(self) -> str:
        split = self.folds.name if self.folds is not None else cast(Source, self.held_out).corpus.header.uid
        return sha256(f"{self.source.corpus.header.uid} {split}".encode()).hexdigest()

    def n_at_once(self, n: int) -> int:  # of `n` fits; on a cluster, one fit uses all workers
        return 1 if self.client is not None else max(1, min(n, self.n_jobs or len(os.sched_getaffinity(0))))

    def training(self, fold: int) -> Source:
        source = self.source if self.folds is None else self._part(self.folds.train(fold))
        return replace(source, retrain=self.retrain)

    def scored(self, fold: int) -> Source:
        return cast(Source, self.held_out) if self.folds is None else self._part(self.folds.test(fold))

    def rows(self, fold: int) -> np.ndarray:
        """Return the rows of `X`, or positions in a corpus, of the documents of a fold."""
        corpus = self.scored(fold).corpus
        order = getattr(corpus, "order", None)
        rows = np.arange(corpus.n_documents) if order is None else order
        return rows if corpus.mask is None else rows[corpus.mask]

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

    def fitted(self, params: dict[str, Any], fold: int | None, callbacks: Sequence[Callback] = ()) -> EngineEstimator:
        """Return the model of a setting, fitted without a fold, or to all documents if `fold` is None."""
        fits, client = self._as_read_for(params), self.client
        model: EngineEstimator = copy.copy(fits.template).set_params(**params)
        if fold is None:
            return model.fit(fits.X, self.y, client=client, callbacks=callbacks)
        if client is None and "n_jobs" in model.get_params():
            model.set_params(n_jobs=1)  # settings are fitted in parallel
        return model.fit(fits.training(fold), client=client, callbacks=callbacks)

    def _as_read_for(self, params: dict[str, Any]) -> FoldFits:
        chosen = {name: params[name] for name in READING if name in params}
        if all(getattr(self.template, name) == value for name, value in chosen.items()):
            return self
        key = repr(chosen)
        if key not in self.others:
            if isinstance(self.X, Source):
                raise ValueError(f"a nested search cannot vary {', '.join(chosen)}: words are counted only once")
            template = clone(self.template).set_params(**chosen)
            X = self.counted.get(chosen.get("vectorizer"), self.X)
            self.others[key] = replace(self, X=X, template=template, folds=None, held_out=None, others={})
        return self.others[key]

    def fold_scores(self, params: dict[str, Any], fold: int, callbacks: Sequence[Callback] = ()) -> FoldScores:
        """Fit a setting without a fold, and return its scores on the fold; raises the errors of `fit`."""
        started = time.perf_counter()
        model, fits = cast(Any, self.fitted(params, fold, callbacks)), self._as_read_for(params)
        held_out, rows, predictions = fits.scored(fold), fits.rows(fold), None
        corpus, inside = held_out.corpus, slice(None) if held_out.corpus.mask is None else held_out.corpus.mask
        weights = np.ones(len(rows)) if corpus.weights is None else corpus.weights[inside]
        client = self.client if isinstance(corpus, Corpus) else None  # only a corpus can be read by workers
        if model.spec.target == "labels":
            predict = model.decision_function if model.several_labels else model.predict_log_proba
            scores, labels = over_corpus(model, corpus, predict, client), cast(np.ndarray, corpus.labels())[inside]
            columns: tuple[np.ndarray, ...] = ()
            if model.several_labels:
                members = cast(Any, held_out.members)[labels].toarray() > 0
                columns = members, probabilities(scores) >= model.thresholds_
            predictions = Predictions(rows, scores.astype(np.float32), labels, weights, *columns)

        def targets_and_numbers(documents: Any) -> np.ndarray:
            n, dense = documents.n_documents, isinstance(documents, DenseDocuments)
            targets = documents.values[:, -1] if dense else documents.targets
            return np.hstack([targets.reshape(n, -1), model.predict(documents).reshape(n, -1)])

        values = {}
        for metric in self.metrics:
            if metric == "R2":
                numbers = over_corpus(model, corpus, targets_and_numbers, client)
                values[metric] = float(r2_score(*np.split(numbers, 2, axis=1), sample_weight=weights))
            elif metric in BY_MODEL:
                results = evaluate_source(model, source_of(model, held_out, use="score"), self.client)
                if metric not in results:
                    raise ValueError(f"{type(model).__name__} has no {metric}, only {', '.join(results)}")
                values[str(metric)] = results[str(metric)]
            else:
                values[name_of(metric)] = measure(metric, cast(Predictions, predictions))
        return FoldScores(values, predictions, time.perf_counter() - started)


class Checkpoints:
    """A folder with a file per setting and fold; ModelError if it contains another search, or `resume` is missing."""

    def __init__(self, folder: str | Path, search: Json, *, resume: bool) -> None:
        self.folder, self.documents, self._search = checkpoint_folder(folder), "", search
        parameters = cast("dict[str, object]", search["parameters"])
        early = {name: value for name, value in parameters.items() if name not in READING}
        # `READING` may depend on the documents: files of settings contain it; this file is compared before reading.
        self._search_file, self._early = self.folder / "search.sdem", {"run": {**search, "parameters": early}}
        if self._search_file.exists():
            if not resume:
                raise ModelError(
                    f"{folder} contains an earlier search: resume it (resume=True, --resume), or choose another folder"
                )
            check_run(self._search_file, self._early["run"], read_archive(self._search_file, KIND, [])[1])

    def _file(self, trial: Trial, fold: int) -> tuple[Path, Json]:
        """Return the path of the scores of a setting on a fold, and the identity by which they are recognised."""
        setting = {f"setting {trial.number}": identity(**trial.params)}
        run = identity(search=self._search, documents=self.documents, **setting)
        return self.folder / f"setting-{trial.number}-fold-{fold}.sdem", run

    def load(self, trial: Trial, fold: int) -> FoldScores | None:
        """Return the scores of a setting on a fold, or None; ModelError if damaged, or of another search."""
        path, run = self._file(trial, fold)
        if not path.exists():
            return None
        arrays, metadata = read_archive(path, KIND)
        check_run(path, run, metadata)
        saved = cast("dict[str, Any]", from_json(metadata["fold"]))
        return FoldScores(saved["scores"], Predictions(**arrays) if arrays else None, saved["seconds"], saved["error"])

    def save(self, trial: Trial, fold: int, of: FoldScores) -> None:
        columns = {} if of.predictions is None else of.predictions._asdict()
        arrays = {name: column for name, column in columns.items() if column is not None}
        saved = {"scores": of.scores, "seconds": of.seconds, "error": of.error}
        if not self._search_file.exists():
            write_archive(self._search_file, KIND, {}, self._early)
        path, run = self._file(trial, fold)
        write_archive(path, KIND, arrays, {"run": run, "fold": to_json(saved)})
