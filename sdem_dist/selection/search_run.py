"""A search under way: settings in turns, fold by fold; its checkpoints; the events of its callbacks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from sdem_dist.engine.checkpoint import Json, check_run, identity
from sdem_dist.engine.events import Callback, Event
from sdem_dist.errors import ModelError, SdemError
from sdem_dist.selection.fold_fits import READING, FoldFits
from sdem_dist.selection.metrics import Metric, Predictions
from sdem_dist.selection.spaces import Sampler
from sdem_dist.selection.trials import LATE, FoldScores, Trial, drop_worse_half
from sdem_dist.storage.archive import read_archive, write_archive
from sdem_dist.storage.encoding import from_json, to_json
from sdem_dist.storage.urls import place as to_place

KIND = "sdem-search"
RESUMED, FIT, FOLD, NESTED, LAST = "resumed", "fit", "fold", "nested search", "training the best on all documents"
_log = logging.getLogger(__name__)


class SearchEvent(NamedTuple):
    """What callbacks of a search are called with.

    `what`: a `FIT` of a setting without a fold has ended; all settings that go on have had a `FOLD`; a search is
    `RESUMED` from a checkpoint; a search without a fold, `NESTED`, has ended; the training of the best on all documents
    begins (`LAST`).
    `done`: how many of these there have been; of `RESUMED` and `LAST` the fits.
    `seconds`: since the search began.
    `n_trials`: settings that are tried in all, at most.
    """

    what: str
    done: int
    trials: list[Trial]
    seconds: float
    metric: Metric
    n_trials: int
    n_folds: int


class Checkpoints:
    """A folder with a file for each setting and fold.

    `search`: the identity of the search, without its documents, which `documents` names once they are read.
    Raises ModelError: the folder has the search of an earlier run, and `resume` is false, or it was another search;
    or it cannot be made.
    """

    def __init__(self, folder: str | Path, search: Json, *, resume: bool) -> None:
        self.folder, self.documents, self._search = to_place(folder), "", search
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ModelError(f"cannot keep checkpoints in {folder}: {error.strerror or error}") from error
        parameters = cast("dict[str, object]", search["parameters"])
        early = {name: value for name, value in parameters.items() if name not in READING}
        # Documents may settle how they are read: each setting's file names that, and this one is compared before.
        self._begun, self._early = self.folder / "search.sdem", {"run": {**search, "parameters": early}}
        if self._begun.exists():
            if not resume:
                raise ModelError(
                    f"{folder} has an earlier search: resume it (resume=True, --resume), or choose another folder"
                )
            check_run(self._begun, self._early["run"], read_archive(self._begun, KIND, [])[1])

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
        if not self._begun.exists():
            write_archive(self._begun, KIND, {}, self._early)
        write_archive(self._file(trial, fold), KIND, arrays, {"run": self._run(trial), "fold": to_json(saved)})

    def _run(self, trial: Trial) -> Json:
        setting = {f"setting {trial.number}": identity(**trial.params)}
        return identity(search=self._search, documents=self.documents, **setting)

    def _file(self, trial: Trial, fold: int) -> Path:
        return self.folder / f"setting-{trial.number}-fold-{fold}.sdem"


class TimeOver(Exception):
    """The time of a search is over, in the midst of a fit."""


@dataclass(eq=False)
class SearchRun:
    """A search under way: settings in turns, each turn fold by fold.

    `metrics`: the one that decides, and those that reports show.
    `halving`: whether the worse half of the settings ends after each fold.
    `seconds`: after which it ends, counted from `started`.
    """

    fits: FoldFits
    sampler: Sampler
    metrics: Sequence[Metric]
    started: float
    halving: bool
    seconds: float | None
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
        saved = {trial.number: self.checkpoints.load(trial, fold) for trial in trials} if self.checkpoints else {}
        new = [trial for trial in trials if saved.get(trial.number) is None]
        for trial in trials:
            if (scores := saved.get(trial.number)) is not None:
                self._add(trial, scores)
        if len(new) < len(trials) and new:
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
        callbacks: list[Callback] = [] if self.seconds is None else [self._check_time]
        try:
            return self.fits.fold_scores(trial.params, fold, self.metrics, callbacks)
        except SdemError:
            raise
        except ValueError as error:
            return FoldScores({}, None, 0.0, str(error))

    def _check_time(self, _: Event | None = None) -> None:
        """Raise TimeOver where the time is over and there is a first score."""
        late = self.seconds is not None and time.perf_counter() - self.started > self.seconds
        if late and self.trials[0].folds:
            raise TimeOver

    def emit(self, what: str, done: int) -> None:
        elapsed = time.perf_counter() - self.started
        event = SearchEvent(what, done, self.trials, elapsed, self.metrics[0], self.sampler.n_trials, self.fits.n_folds)
        for callback in self.callbacks:
            callback(event)
