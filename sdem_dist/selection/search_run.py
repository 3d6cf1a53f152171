"""A search under way: settings in turns, each without each fold; its documents, its checkpoints, its events."""

from __future__ import annotations

import copy
import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.metrics import r2_score

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.base import BaseCorpus
from sdem_dist.corpus.folds import Folds
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.engine.checkpoint import Json, check_run, checkpoint_folder, identity
from sdem_dist.engine.events import Callback, Event
from sdem_dist.errors import ModelError, SdemError
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.fitting.running import evaluate_source, validation_source
from sdem_dist.fitting.scoring import over_corpus
from sdem_dist.inputs.source import source_of
from sdem_dist.inputs.spec import Source
from sdem_dist.inputs.validation import some
from sdem_dist.label_scores import probabilities
from sdem_dist.selection.spaces import Sampler
from sdem_dist.selection.trials import (
    BY_MODEL,
    LATE,
    FoldScores,
    Metric,
    Predictions,
    Trial,
    drop_worse_half,
    measure,
    name_of,
)
from sdem_dist.storage.archive import read_archive, write_archive
from sdem_dist.storage.encoding import from_json, to_json

if TYPE_CHECKING:
    from distributed import Client

READING = ("vectorizer", "components", "unlabelled")  # settings that differ in these have a source of their own
KIND = "sdem-search"
RESUMED, FIT, FOLD, NESTED, LAST = "resumed", "fit", "fold", "nested search", "training the best on all documents"
_log = logging.getLogger(__name__)


def rows_of(corpus: BaseCorpus) -> np.ndarray:
    return np.arange(corpus.n_documents) if corpus.mask is None else np.flatnonzero(corpus.mask)


@dataclass(eq=False)
class FoldFits:
    """Documents in folds, or beside documents that settings are scored on, counted once, and the fits on them."""

    template: EngineEstimator  # not fitted; it takes note of the documents' columns
    X: object
    y: object
    _: KW_ONLY
    cv: Any  # number of folds, or documents that settings are scored on: a corpus, or a tuple (X, y)
    seed: int
    groups: ArrayLike | None = None  # in the order of `X`
    client: Client | None = None
    n_jobs: int | None = None
    retrain: bool = True  # train anew with the documents that a model held out, as `fit` does: half of the time
    source: Source = None  # type: ignore[assignment]  # read at once
    folds: Folds[Any] | None = None  # of `source`; None: settings are scored on `held_out`
    held_out: Source | None = None
    others: dict[str, FoldFits] = field(default_factory=dict)  # the same documents, by values of `READING`

    def __post_init__(self) -> None:
        """Read the documents, unless they were read; raises as `source_of` and `Folds`."""
        if self.folds is not None or self.held_out is not None:
            return
        self.template._look_at(self.X)
        self.source = source_of(self.template, self.X, self.y, client=self.client)
        if isinstance(self.cv, Corpus | tuple):
            described = clone(self.template)
            described._look_at(self.X)
            described._describe(self.source)
            self.held_out = validation_source(described, self.cv, self.client)
        else:
            order = None if isinstance(self.source.corpus, Corpus) else self.source.corpus.order
            groups = self.groups if self.groups is None or order is None else np.asarray(self.groups)[order]
            self.folds = Folds(self.source.corpus, self.cv, self.seed, groups=groups)

    @property
    def n_folds(self) -> int:
        return 1 if self.folds is None else self.folds.k

    @property
    def name(self) -> str:
        apart = self.folds.name if self.folds is not None else cast(Source, self.held_out).corpus.header.uid
        return sha256(f"{self.source.corpus.header.uid} {apart}".encode()).hexdigest()

    def n_at_once(self, n: int) -> int:  # of `n` fits; on a cluster one, on all of its workers
        return 1 if self.client is not None else max(1, min(n, self.n_jobs or len(os.sched_getaffinity(0))))

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
            template = clone(self.template).set_params(**chosen)
            self.others[key] = replace(self, template=template, folds=None, held_out=None, others={})
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
        corpus, rows = held_out.corpus, rows_of(held_out.corpus)
        weights = np.ones(len(rows)) if corpus.weights is None else corpus.weights[rows]
        client, predictions = self.client if isinstance(corpus, Corpus) else None, None  # whose workers read it
        if model.spec.target == "labels":
            several, classifier = model.several_labels, cast(Any, model)
            predict = classifier.decision_function if several else classifier.predict_log_proba
            scores, labels = over_corpus(model, corpus, predict, client), cast(np.ndarray, corpus.labels())[rows]
            columns: tuple[np.ndarray, ...] = ()
            if several:
                members = cast(Any, held_out.members)[labels].toarray() > 0
                columns = members, probabilities(scores) >= classifier.thresholds_
            predictions = Predictions(rows, scores.astype(np.float32), labels, weights, *columns)
        values = {}
        for metric in metrics:
            if metric == "R2":
                numbers = over_corpus(model, corpus, partial(_targets_and_numbers, model), client)
                values[metric] = float(r2_score(*np.split(numbers, 2, axis=1), sample_weight=weights))
            elif metric in BY_MODEL:
                results = evaluate_source(model, source_of(model, held_out, use="score"), self.client)
                if metric not in results:
                    raise ValueError(
                        f"{type(model).__name__} has no {metric}, only {some(np.array(list(results)))}: folds cannot score "
                        "it; compare models by evaluate on held-out documents"
                    )
                values[str(metric)] = results[str(metric)]
            else:
                values[name_of(metric)] = measure(metric, cast(Predictions, predictions))
        return FoldScores(values, predictions, time.perf_counter() - started)


def _targets_and_numbers(model: Any, documents: Documents | DenseDocuments) -> np.ndarray:
    """Return what is to be predicted of documents and what a regressor predicts, in columns beside each other."""
    targets = documents.values[:, -1] if isinstance(documents, DenseDocuments) else cast(np.ndarray, documents.targets)
    n = documents.n_documents
    return np.hstack([targets.reshape(n, -1), model.predict(documents).reshape(n, -1)])


class SearchEvent(NamedTuple):
    """What callbacks of a search are called with."""

    # A `FIT` of a setting without a fold has ended; all settings that go on have had a `FOLD`; a search is `RESUMED`
    # from a checkpoint; a search without a fold, `NESTED`, has ended; the last training of the best begins (`LAST`).
    what: str
    done: int  # how many of these there have been; of `RESUMED` and `LAST` the fits
    trials: list[Trial]
    seconds: float  # since the search began
    metric: Metric
    n_trials: int  # settings that are tried in all, at most
    n_folds: int


class Checkpoints:
    """A folder with a file for each setting and fold; ModelError: of an earlier search, without `resume` or another."""

    def __init__(self, folder: str | Path, search: Json, *, resume: bool) -> None:
        self.folder, self.documents, self._search = checkpoint_folder(folder), "", search
        parameters = cast("dict[str, object]", search["parameters"])
        early = {name: value for name, value in parameters.items() if name not in READING}
        # Documents may settle how they are read: each setting's file names that, and this one is compared before.
        self._search_file, self._early = self.folder / "search.sdem", {"run": {**search, "parameters": early}}
        if self._search_file.exists():
            if not resume:
                raise ModelError(
                    f"{folder} has an earlier search: resume it (resume=True, --resume), or choose another folder"
                )
            check_run(self._search_file, self._early["run"], read_archive(self._search_file, KIND, [])[1])

    def _file(self, trial: Trial, fold: int) -> tuple[Path, Json]:
        """Return where the scores of a setting on a fold are, and what they are recognised by."""
        setting = {f"setting {trial.number}": identity(**trial.params)}
        run = identity(search=self._search, documents=self.documents, **setting)
        return self.folder / f"setting-{trial.number}-fold-{fold}.sdem", run

    def load(self, trial: Trial, fold: int) -> FoldScores | None:
        """Return the scores of a setting on a fold, or None; ModelError: damaged, or of other settings or documents."""
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
        saved = {"scores": of.scores, "seconds": of.seconds, "error": of.error, "arrays": list(arrays)}
        if not self._search_file.exists():
            write_archive(self._search_file, KIND, {}, self._early)
        path, run = self._file(trial, fold)
        write_archive(path, KIND, arrays, {"run": run, "fold": to_json(saved)})


class TimeOver(Exception):
    """The time of a search is over, in the midst of a fit."""


@dataclass(eq=False)
class SearchRun:
    """A search under way: settings in turns, each turn fold by fold."""

    fits: FoldFits
    sampler: Sampler
    metrics: Sequence[Metric]  # the one that decides, and those that reports show
    started: float
    halving: bool  # whether the worse half of the settings ends after each fold
    seconds: float | None  # after which it ends, counted from `started`
    checkpoints: Checkpoints | None = None
    callbacks: Sequence[Callable[[SearchEvent], None]] = ()
    trials: list[Trial] = field(default_factory=list)
    n_fits: int = 0

    def run(self) -> list[Trial]:
        """Try all settings of the sampler; raise ValueError where the default cannot be trained."""
        metric = self.metrics[0]
        try:
            while settings := self.sampler.ask():
                turn = [Trial(len(self.trials) + i, params) for i, params in enumerate(settings)]
                self.trials += turn
                for fold in range(self.fits.n_folds):
                    self._fit([trial for trial in turn if trial.goes_on], fold)
                    if self.halving and fold < self.fits.n_folds - 1:
                        drop_worse_half([*self.trials[:1], *turn[not turn[0].number :]], metric)
                    self.emit(FOLD, fold + 1)
                self.sampler.tell(turn, metric)
        except TimeOver:
            _log.warning("the search ends after %d fits: its time is over", self.n_fits)
            for trial in self.trials:
                if not trial.folds and not trial.error:
                    trial.error = LATE
        return self.trials

    def _fit(self, trials: list[Trial], fold: int) -> None:
        """Fit settings without a fold, several at a time; results are taken in the order of the settings."""
        saved = {} if self.checkpoints is None else {t.number: self.checkpoints.load(t, fold) for t in trials}
        new = [trial for trial in trials if saved.get(trial.number) is None]
        for trial in trials:
            if (scores := saved.get(trial.number)) is not None:
                self._add(trial, scores)
        if 0 < len(new) < len(trials):
            self.emit(RESUMED, self.n_fits)
        with ThreadPoolExecutor(self.fits.n_at_once(len(new))) as threads:
            try:
                for trial, scores in zip(new, threads.map(partial(self._scores, fold=fold), new), strict=True):
                    if scores.error and not trial.number:
                        raise ValueError(scores.error)
                    if self.checkpoints is not None:
                        self.checkpoints.save(trial, fold, scores)
                    self._add(trial, scores)
                    self.emit(FIT, self.n_fits)
            finally:
                threads.shutdown(cancel_futures=True)

    def _add(self, trial: Trial, scores: FoldScores) -> None:
        self.n_fits += 1
        trial.error = scores.error
        if not trial.error:
            trial.folds.append(scores)

    def _scores(self, trial: Trial, fold: int) -> FoldScores:
        self._check_time()
        try:
            return self.fits.fold_scores(trial.params, fold, self.metrics, [self._check_time])
        except ValueError as error:
            if isinstance(error, SdemError):
                raise
            return FoldScores({}, None, 0.0, str(error))

    def _check_time(self, _: Event | None = None) -> None:
        """Raise TimeOver where the time is over and there is a first score."""
        if self.seconds is not None and time.perf_counter() - self.started > self.seconds and self.trials[0].folds:
            raise TimeOver

    def emit(self, what: str, done: int) -> None:
        elapsed = time.perf_counter() - self.started
        event = SearchEvent(what, done, self.trials, elapsed, self.metrics[0], self.sampler.n_trials, self.fits.n_folds)
        for callback in self.callbacks:
            callback(event)
