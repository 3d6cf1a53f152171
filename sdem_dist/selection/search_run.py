"""A search under way: settings in turns, fold by fold; its checkpoints; what callbacks are told."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from sdem_dist.engine.checkpoint import Json, check_run, identity
from sdem_dist.engine.events import Callback, Event
from sdem_dist.errors import ModelError, SdemError
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.inputs.spec import OF_THE_MACHINE
from sdem_dist.selection.fold_fits import FoldFits
from sdem_dist.selection.metrics import Metric, Predictions, metrics_of, name_of
from sdem_dist.selection.spaces import Sampler, Space
from sdem_dist.selection.trials import LATE, FoldScores, Trial, drop_worse_half
from sdem_dist.storage.archive import read_archive, write_archive
from sdem_dist.storage.encoding import from_json, to_json
from sdem_dist.storage.urls import place as to_place

KIND = "sdem-search"
RESUMED = "resumed"
FIT = "fit"
FOLD = "fold"
NESTED = "nested search"
LAST = "training the best on all documents"
_log = logging.getLogger(__name__)


class SearchEvent(NamedTuple):
    """What callbacks of a search are called with."""

    what: str
    """A `FIT` of a setting without a fold has ended; all settings that go on have had a `FOLD`; a search is `RESUMED`
    from a checkpoint; a search without a fold, `NESTED`, has ended; the training of the best on all documents begins
    (`LAST`)."""
    done: int
    """How many of these there have been; of `RESUMED` and `LAST` the fits."""
    trials: list[Trial]
    seconds: float
    """Since the search began."""
    metric: Metric
    n_trials: int
    """Settings that are tried in all, at most."""
    n_folds: int


class Search(Protocol):
    """What reports, checkpoints and runs ask of `sdem_dist.selection.search.CorpusSearchCV`."""

    estimator: EngineEstimator
    space: Space | None
    cv: object
    metric: Metric | None
    n_trials: int | None
    sampler: str
    seconds: float | None
    halving: bool
    nested: bool
    random_state: int
    metric_: Metric
    trials_: list[Trial]
    best_index_: int
    n_settings_: int
    n_splits_: int
    nested_score_: float
    nested_scores_: np.ndarray


def _identity(search: Search) -> Json:
    """Return the settings that a resumed search must share, under names for people; none concerns the documents."""
    settings = {name: value for name, value in search.estimator.get_params().items() if name not in OF_THE_MACHINE}
    spaces = [search.space] if isinstance(search.space, Mapping) else search.space or []
    # The default metric is one search with its name; with several labels the default may be another.
    of_several = (False, True) if search.estimator.spec.label_sets else (False,)
    is_default = search.metric is None or {metrics_of(search.estimator, s)[0] for s in of_several} == {search.metric}
    return identity(
        estimator=type(search.estimator).__name__,
        parameters=settings,
        space=[{name: "drawn by rvs" if hasattr(v, "rvs") else list(v) for name, v in part.items()} for part in spaces],
        sampler=search.sampler,
        metric="the default" if is_default else name_of(cast(Metric, search.metric)),
        halving=search.halving,
        **{
            "settings to try": search.n_trials,
            "folds": search.cv if isinstance(search.cv, int | np.integer) else "documents",
            "seed": search.random_state,
        },
    )


class Checkpoints:
    """A folder with a file for each setting and fold.

    `undecided`: parameters of the estimator that are not compared: its documents, not read yet, may settle them.
    Raises ModelError: the folder has the search of an earlier run, and `resume` is false, or it was another search;
    or it cannot be made.
    """

    def __init__(self, folder: str | Path, search: Search, *, resume: bool, undecided: Collection[str] = ()) -> None:
        self.folder, self.documents = to_place(folder), ""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ModelError(f"cannot keep checkpoints in {folder}: {error.strerror or error}") from error
        path, self._search = self.folder / "search.sdem", _identity(search)
        if path.exists() and not resume:
            raise ModelError(
                f"{folder} has an earlier search: resume it (resume=True, --resume), or choose another folder"
            )
        if path.exists():
            _, metadata = read_archive(path, KIND, [])
            earlier = cast(Json, metadata["run"])
            check_run(path, _without(self._search, undecided), {"run": _without(earlier, undecided)})
        elif not undecided:
            write_archive(path, KIND, {}, {"run": self._search})

    def load(self, trial: Trial, fold: int) -> FoldScores | None:
        """Return the scores of a setting on a fold, or None where it was not trained.

        Raises ModelError: the file is damaged, or (`OtherRunError`) of other settings or documents.
        """
        path = self._file(trial, fold)
        if not path.exists():
            return None
        _, metadata = read_archive(path, KIND, [])
        check_run(path, self._run(trial), metadata)
        saved: dict[str, Any] = cast("dict[str, Any]", from_json(metadata["fold"]))
        arrays, _ = read_archive(path, KIND, saved["arrays"])
        return FoldScores(saved["scores"], Predictions(**arrays) if arrays else None, saved["seconds"], saved["error"])

    def save(self, trial: Trial, fold: int, of: FoldScores) -> None:
        columns = {} if of.predictions is None else vars(of.predictions)
        arrays = {name: column for name, column in columns.items() if column is not None}
        saved = {"scores": of.scores, "seconds": of.seconds, "error": of.error, "arrays": list(arrays)}
        write_archive(self._file(trial, fold), KIND, arrays, {"run": self._run(trial), "fold": to_json(saved)})

    def _run(self, trial: Trial) -> Json:
        setting = {f"setting {trial.number}": identity(**trial.params)}
        return identity(asked=self._search, documents=self.documents, **setting)

    def _file(self, trial: Trial, fold: int) -> Path:
        return self.folder / f"setting-{trial.number}-fold-{fold}.sdem"


def _without(run: Json, undecided: Collection[str]) -> Json:
    parameters = cast("dict[str, object]", run["parameters"])
    return {**run, "parameters": {name: value for name, value in parameters.items() if name not in undecided}}


class TimeOver(Exception):
    """The time of a search is over, in the midst of a fit."""


class SearchRun:
    """A search under way: settings in turns, each turn fold by fold.

    `started`: when the search began, which its time counts from.
    """

    def __init__(
        self,
        search: Search,
        fits: FoldFits,
        sampler: Sampler,
        started: float,
        checkpoints: Checkpoints | None = None,
        callbacks: Sequence[Callable[[SearchEvent], None]] = (),
    ) -> None:
        self.search, self.fits, self.sampler, self.started = search, fits, sampler, started
        self.checkpoints, self.callbacks = checkpoints, callbacks
        self.trials, self.n_fits, self._n_restored = list[Trial](), 0, 0
        names: list[Metric] = ["log-loss", "accuracy"] if search.estimator.spec.target == "labels" else []
        names += ["micro-F1"] if fits.several else []
        self.metrics = list(dict.fromkeys([*names, search.metric_]))

    def run(self) -> list[Trial]:
        """Try all settings of the sampler; raise ValueError where the default cannot be trained."""
        try:
            while settings := self.sampler.ask():
                turn = [Trial(len(self.trials) + i, params) for i, params in enumerate(settings)]
                self.trials += turn
                for fold in range(self.fits.n_folds):
                    self._fit([trial for trial in turn if trial.goes_on], fold)
                    if self.search.halving and fold < self.fits.n_folds - 1:
                        drop_worse_half([*self.trials[:1], *turn[not turn[0].number :]], self.search.metric_)
                    self.emit(FOLD, fold + 1)
                self.sampler.tell(turn, self.search.metric_)
        except TimeOver:
            _log.warning("the search ends after %d fits: its time is over", self.n_fits)
            for trial in self.trials:
                if not trial.folds and not trial.error:
                    trial.error = LATE
        return self.trials

    def _fit(self, trials: list[Trial], fold: int) -> None:
        """Fit settings without a fold, several at a time; results are taken in the order of the settings."""
        new = []
        for trial in trials:
            if self.checkpoints is None or (scores := self.checkpoints.load(trial, fold)) is None:
                new.append(trial)
            else:
                self._add(trial, scores)
                self._n_restored += 1
        if self._n_restored and new:
            self.emit(RESUMED, self._n_restored)
            self._n_restored = 0
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
        """Return the scores of a setting on a fold, or why it cannot be trained."""
        self._check_time()
        callbacks: list[Callback] = [] if self.search.seconds is None else [self._check_time]
        try:
            return self.fits.fold_scores(trial.params, fold, self.metrics, callbacks)
        except SdemError:
            raise
        except ValueError as error:
            return FoldScores({}, None, 0.0, str(error))

    def _check_time(self, _: Event | None = None) -> None:
        seconds = self.search.seconds
        if seconds is not None and self.trials[0].folds and time.perf_counter() - self.started > seconds:
            raise TimeOver

    def emit(self, what: str, done: int) -> None:
        elapsed, metric = time.perf_counter() - self.started, self.search.metric_
        event = SearchEvent(what, done, self.trials, elapsed, metric, self.sampler.n_trials, self.fits.n_folds)
        for callback in self.callbacks:
            callback(event)
