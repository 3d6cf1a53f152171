"""A search under way: settings in turns, fold by fold; its checkpoints; what callbacks are told."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from sdem_dist.engine.checkpoint import Json, check_run, identity
from sdem_dist.engine.events import Callback, Event
from sdem_dist.errors import ModelError, SdemError
from sdem_dist.inputs.spec import OF_THE_MACHINE
from sdem_dist.selection.fold_fits import FoldFits
from sdem_dist.selection.metrics import Metric, Predictions, metrics_of, name_of
from sdem_dist.selection.samplers import Sampler
from sdem_dist.selection.trials import FoldScores, Search, Trial, drop_worse_half
from sdem_dist.storage.archive import read_archive, write_archive
from sdem_dist.storage.encoding import from_json, to_json
from sdem_dist.storage.urls import place as to_place

KIND = "sdem-search"


def asked(search: Search) -> Json:
    """Return the settings that a resumed search must share, under names for people; none concerns the documents."""
    settings = {name: value for name, value in search.estimator.get_params().items() if name not in OF_THE_MACHINE}
    spaces = [search.space] if isinstance(search.space, Mapping) else search.space or []
    return identity(
        estimator=type(search.estimator).__name__,
        parameters=settings,
        space=[{name: "drawn by rvs" if hasattr(v, "rvs") else list(v) for name, v in part.items()} for part in spaces],
        sampler=search.sampler,
        metric="the default" if _is_default(search) else name_of(cast(Metric, search.metric)),
        halving=search.halving,
        **{
            "settings to try": search.n_trials,
            "folds": search.cv if isinstance(search.cv, int | np.integer) else "documents",
            "seed": search.random_state,
        },
    )


def _is_default(search: Search) -> bool:
    """Whether a search has its estimator's default metric, named or not; with several labels a named one may differ."""
    of_several = (False, True) if search.estimator.spec.label_sets else (False,)
    return search.metric is None or {metrics_of(search.estimator, of)[0] for of in of_several} == {search.metric}


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
        path, self._asked = self.folder / "search.sdem", asked(search)
        if path.exists() and not resume:
            raise ModelError(
                f"{folder} has an earlier search: resume it (resume=True, --resume), or choose another folder"
            )
        if path.exists():
            _, metadata = read_archive(path, KIND, [])
            then = cast(Json, metadata["run"])
            names = {*self._asked, *then} if then["estimator"] == self._asked["estimator"] else {"estimator"}
            check_run(path, _compared(self._asked, names, undecided), {"run": _compared(then, names, undecided)})
        elif not undecided:
            write_archive(path, KIND, {}, {"run": self._asked})

    def restored(self, trial: Trial, fold: int) -> FoldScores | None:
        """Return the scores of a setting on a fold, or None where it was not trained; its error, if any, is set.

        Raises ModelError: the file is damaged, or (`OtherRunError`) of other settings or documents.
        """
        path = self._file(trial, fold)
        if not path.exists():
            return None
        _, metadata = read_archive(path, KIND, [])
        check_run(path, self._run(trial), metadata)
        held: dict[str, Any] = cast("dict[str, Any]", from_json(metadata["fold"]))
        arrays, _ = read_archive(path, KIND, held["arrays"])
        trial.error = held["error"]
        predictions = Predictions(**arrays) if arrays else None
        return FoldScores(held["scores"], predictions, held["seconds"])

    def keep(self, trial: Trial, fold: int, scores: FoldScores) -> None:
        """Publish the scores of a setting on a fold, or its error."""
        columns = {} if scores.predictions is None else scores.predictions.columns()
        arrays = {name: column for name, column in columns.items() if column is not None}
        held = {"scores": scores.scores, "seconds": scores.seconds, "error": trial.error, "arrays": list(arrays)}
        write_archive(self._file(trial, fold), KIND, arrays, {"run": self._run(trial), "fold": to_json(held)})

    def _run(self, trial: Trial) -> Json:
        setting = {f"setting {trial.number}": identity(**trial.params)}
        return identity(asked=self._asked, documents=self.documents, **setting)

    def _file(self, trial: Trial, fold: int) -> Path:
        return self.folder / f"setting-{trial.number}-fold-{fold}.sdem"


def _compared(run: Json, names: Collection[str], undecided: Collection[str]) -> Json:
    """Return some of what was asked, but for some parameters of the estimator."""
    parameters = cast("dict[str, object]", run["parameters"])
    settled = {name: value for name, value in parameters.items() if name not in undecided}
    return {name: value for name, value in {**run, "parameters": settled}.items() if name in names}


_log = logging.getLogger(__name__)
LATE = "the time was over"
"""The error of a setting whose first training the time of a search did not allow."""
RESUMED = "resumed"
FIT = "fit"
FOLD = "fold"
NESTED = "nested search"
LAST = "training the best on all documents"


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


class TimeOver(Exception):
    """The time of a search is over, in the midst of a fit."""


class SearchRun:
    """A search under way: settings in turns, each turn fold by fold."""

    def __init__(
        self,
        search: Search,
        fits: FoldFits,
        sampler: Sampler,
        kept: Checkpoints | None,
        *,
        silent: bool = False,
    ) -> None:
        self.search, self.fits, self.sampler, self.kept, self.silent = search, fits, sampler, kept, silent
        self.n_fits, self._n_restored, self._trials = 0, 0, list[Trial]()
        metric = search.metric_
        names: list[Metric] = ["log-loss", "accuracy"] if search.estimator.spec.target == "labels" else []
        names += ["micro-F1"] if fits.several else []
        self.metrics = names if metric in names else [*names, metric]

    def trials(self) -> list[Trial]:
        """Try all settings of the sampler; raise ValueError where the default cannot be trained."""
        try:
            while settings := self.sampler.ask():
                turn = [Trial(len(self._trials) + i, params) for i, params in enumerate(settings)]
                self._trials += turn
                self._try(turn)
                self.sampler.tell(turn, self.search.metric_)
        except TimeOver:
            _log.warning("the search ends after %d fits: its time is over", self.n_fits)
            for trial in self._trials:
                if not trial.folds and not trial.error:
                    trial.error = LATE
        return self._trials

    def _try(self, turn: list[Trial]) -> None:
        for fold in range(self.fits.n_folds):
            self._fit([trial for trial in turn if trial.goes_on], fold)
            if self.search.halving and fold < self.fits.n_folds - 1:
                drop_worse_half([*self._trials[:1], *turn[not turn[0].number :]], self.search.metric_)
            self.emit(FOLD, fold + 1)

    def _fit(self, trials: list[Trial], fold: int) -> None:
        """Fit settings without a fold, several at a time; results are taken in the order of the settings."""
        new = []
        for trial in trials:
            scores = None if self.kept is None else self.kept.restored(trial, fold)
            if scores is None:
                new.append(trial)
            else:
                self._take(trial, scores)
                self._n_restored += 1
        if self._n_restored and new:
            self.emit(RESUMED, self._n_restored)
            self._n_restored = 0
        with ThreadPoolExecutor(self.fits.n_at_once(len(new))) as threads:
            try:
                for trial, (scores, error) in zip(new, threads.map(partial(self._scores, fold=fold), new), strict=True):
                    if error and not trial.number:
                        raise ValueError(error)
                    trial.error = error
                    if self.kept is not None:
                        self.kept.keep(trial, fold, scores)
                    self._take(trial, scores)
                    self.emit(FIT, self.n_fits)
            finally:
                threads.shutdown(cancel_futures=True)

    def _take(self, trial: Trial, scores: FoldScores) -> None:
        self.n_fits += 1
        if not trial.error:
            trial.folds.append(scores)

    def _scores(self, trial: Trial, fold: int) -> tuple[FoldScores, str]:
        """Return the scores of a setting on a fold, or why it cannot be trained."""
        self._check_time()
        callbacks: list[Callback] = [] if self.search.seconds is None else [self._check_time]
        try:
            return self.fits.fold_scores(trial.params, fold, self.metrics, callbacks), ""
        except SdemError:
            raise
        except ValueError as error:
            return FoldScores({}, None, 0.0), str(error)

    def _check_time(self, _: Event | None = None) -> None:
        """Raise TimeOver where the time is over and there is a first score."""
        seconds = self.search.seconds
        if seconds is not None and self._trials[0].folds and time.perf_counter() - self.search._started > seconds:
            raise TimeOver

    def emit(self, what: str, done: int) -> None:
        """Call the callbacks."""
        if self.silent:
            return
        elapsed = time.perf_counter() - self.search._started
        n_folds = self.fits.n_folds
        event = SearchEvent(what, done, self._trials, elapsed, self.search.metric_, self.sampler.n_trials, n_folds)
        for callback in self.search.callbacks:
            callback(event)
