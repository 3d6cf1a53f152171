"""A search under way: settings in turns, side by side as far as memory holds them, or one by one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.folds import Folds, assign_folds
from sdem_dist.engine.checkpoint import Json, identity
from sdem_dist.engine.executor import Executor
from sdem_dist.engine.memory import of_this_process
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.fitting.defaults import MAX_EPOCHS
from sdem_dist.fitting.running import executor_for, validation_source
from sdem_dist.inputs.label_sets import coded
from sdem_dist.inputs.spec import Source
from sdem_dist.inputs.validation import positions_of, seed_of
from sdem_dist.selection import checkpoints, default_loss, one_by_one
from sdem_dist.selection.checkpoints import Fitted
from sdem_dist.selection.label_metrics import THRESHOLDS
from sdem_dist.selection.predicted import Metric
from sdem_dist.selection.samplers import Sampler
from sdem_dist.selection.schedule import Schedule, TimeOver
from sdem_dist.selection.settings import Search
from sdem_dist.selection.side_by_side import Documents, Learners, SideBySide, at_once
from sdem_dist.selection.spaces import are_equal, spelled_out
from sdem_dist.selection.trials import LATE, MONITOR, Training, Trial, epochs_of

if TYPE_CHECKING:
    from distributed import Client


_log = logging.getLogger(__name__)


RESUMED = "resumed after epoch"
"""What an event says of a search that goes on from a checkpoint."""
NESTED = "nested search"
"""What an event says where the repetition without a fold has ended."""
LAST = "training the best on all documents"
"""What an event says where that begins."""


class EpochOfSettings(NamedTuple):
    """All settings under way have run one more epoch, one was fitted, or a search goes on from a checkpoint."""

    epoch: int
    """From 1; of a "setting", how many have been fitted, and of `NESTED`, how many folds have had their search."""
    trials: list[Trial]
    seconds: float
    """Since the search began."""
    what: str = "epoch"
    """What has ended: an epoch, or the training of a "setting"; `RESUMED` where it is the checkpoint's last epoch.
    `NESTED`: the search without a fold, whose settings `trials` are. `LAST`: the training of the best on all documents
    begins."""
    most: int = 0
    """Settings that are tried in all, at most; of `NESTED` the folds."""
    metric: Metric = MONITOR
    """What decides."""


def made(estimator: EngineEstimator, trial: Trial) -> EngineEstimator:
    """Return the unfitted estimator of a setting."""
    return cast("EngineEstimator", clone(estimator).set_params(**trial.params))


def _was_trained(trial: Trial) -> bool:
    return bool(trial.epochs or trial.error)


@dataclass
class Run:
    """The state of a search.

    `estimator`: what settings are changes of: the search's, and its loss once that is settled.
    `source`: all training documents. `beside`: settings learn side by side; else they are fitted one by one.
    `trials`: of all turns so far. `untried`: settings for which the budget of epochs had no room, in the end.
    """

    search: Search
    estimator: EngineEstimator
    schedule: Schedule
    source: Source
    sampler: Sampler
    beside: bool
    trials: list[Trial] = field(default_factory=list)
    untried: int = 0
    ncll_left_out: bool = False

    def turns(self, most: int) -> Iterator[list[Trial]]:
        """Yield the settings that are tried together, `most` at most, until there are no more or a budget ends.

        Settings that have the default's loss come after it, where its loss is not settled yet.
        """
        while asked := self.sampler.ask(self.schedule.room(most)):
            if self.trials and self.schedule.over(len(self.trials), "setting"):
                return
            alone = not self.trials and default_loss.is_open(self.estimator) and any(map(default_loss.waits, asked[1:]))
            for part in [asked[:1], asked[1:]] if alone else [asked]:
                trials = self._laid_out(part)
                self.schedule.begin(trials)
                self.trials += trials
                yield trials
                self._ended(trials)
                if default_loss.is_open(self.estimator):
                    yield from self._settle()
        if not self.schedule.timed_out:
            self.untried = self.sampler.most - len(self.trials)

    def _laid_out(self, asked: list[dict[str, object]]) -> list[Trial]:
        given, first = self.estimator.get_params(), len(self.trials)
        trials = [
            Trial(first + i, chosen, *epochs_of({**given, **chosen}, self.schedule.max_epochs or MAX_EPOCHS))
            for i, chosen in enumerate(asked)
        ]
        for trial in trials:
            model = made(self.estimator, trial)
            trial.decides = model._decided_by_folds(self.source.members is not None)
            if not self.beside:
                # Models predict at temperatures of their own, unlike those side by side.
                trial.decides = tuple(name for name in trial.decides if name == THRESHOLDS)
                trial.most_epochs = min(model._n_epochs, self.schedule.max_epochs or model._n_epochs)
                trial.fixed = not trial.number or "n_epochs" in trial.params
        return trials

    def _ended(self, trials: list[Trial]) -> None:
        self.schedule.ended_turn(trials)
        self.sampler.tell(trials, self.search.metric_)

    def _settle(self) -> Iterator[list[Trial]]:
        """Settle which loss the default's ``loss="auto"`` is, after its turn: yield it with NCLL if that is tried."""
        default = self.trials[0]
        if not default_loss.ncll_is_tried(default, self.source):
            self.estimator.set_params(loss="hinge")
            return
        listed = next(filter(self._is_default_with_ncll, self.trials), None)
        if listed is not None and listed.dropped is None:
            ncll = listed
        elif self.schedule.room(1) and not self.schedule.over(len(self.trials), "setting"):
            (ncll,) = self._laid_out([{"loss": "ncll"}])
            self.trials.append(ncll)
            yield [ncll]
            self.trials.pop()
            self.schedule.ended_turn([ncll])
        else:
            _log.warning("the default has the hinge loss: nothing was left to try NCLL, which a fit would")
            self.estimator.set_params(loss="hinge")
            self.ncll_left_out = True
            return
        chosen, seconds = default_loss.lower(default, ncll), default.seconds + ncll.seconds
        self.estimator.set_params(loss="hinge" if chosen is default else "ncll")
        self.trials[0] = replace(chosen, number=0, params={}, seconds=seconds)
        if chosen is ncll and listed is not None:  # no two rows are of one setting
            self.trials[listed.number] = replace(default, number=listed.number, params={"loss": "hinge"})
        self.sampler.tell(self.trials[:1], self.search.metric_)

    def _is_default_with_ncll(self, trial: Trial) -> bool:
        own = spelled_out(self.estimator, trial.params, self.source)
        return are_equal(own, spelled_out(self.estimator, {"loss": "ncll"}, self.source)) and bool(trial.scores)

    @property
    def _metrics(self) -> tuple[Metric, ...]:
        metric = self.search.metric_
        names: list[Metric] = [MONITOR, "accuracy"] if self.estimator.spec.target == "labels" else []
        if self.source.members is not None:
            names.append("micro-F1")
        return tuple(names) if metric in names else (*names, metric)

    def _tell(self, epoch: int, what: str = "epoch") -> None:
        self._emit(EpochOfSettings(epoch, self.trials, self.schedule.elapsed, what, self.sampler.most))

    def _emit(self, event: EpochOfSettings) -> None:
        for callback in self.search.callbacks:
            callback(event._replace(metric=self.search.metric_))

    def tell_of_nested(self, done: int, most: int, trials: list[Trial]) -> None:
        """Tell that the search without a fold has ended."""
        self._emit(EpochOfSettings(done, trials, self.schedule.elapsed, NESTED, most))

    def tell_of_the_last(self) -> None:
        """Tell that the best setting is now trained on all documents."""
        self._tell(max((trial.trained for trial in self.trials), default=0), LAST)

    def _documents(self, groups: ArrayLike | None, client: Client | None) -> Documents:
        search, corpus = self.search, self.source.corpus
        folds, validation, scored, sets, name = None, None, corpus, self.source.members, ""
        if isinstance(search.cv, Corpus | tuple):
            held_out = self._held_out(client)
            validation, scored, sets, name = held_out.corpus, held_out.corpus, held_out.members, held_out.identity
        else:
            if groups is not None and not isinstance(corpus, Corpus):
                groups = np.asarray(groups)[corpus.order]
            folds = Folds(corpus, cast(int, search.cv), seed_of(search.random_state), groups=groups)
        labels = scored.labels()
        assert labels is not None
        weights = scored.weights
        numbers = np.zeros(len(labels), np.int16) if folds is None else folds.numbers
        weights = np.ones(len(labels)) if weights is None else weights
        members = None if sets is None else sets[labels].toarray()
        return Documents(self.source, folds, validation, labels, weights, numbers, sets, members, name)

    def _held_out(self, client: Client | None) -> Source:
        """Return the documents that settings are scored on."""
        estimator = clone(self.estimator)
        estimator._describe(self.source)
        return validation_source(estimator, self.search.cv, client)

    def side_by_side(self, groups: ArrayLike | None, client: Client | None, path: Path | None) -> np.ndarray:
        """Try settings of naive Bayes; return the fold of each document."""
        documents = self._documents(groups, client)
        with executor_for(client, self.search.n_jobs, self.source) as executor:
            memory = executor.memory_bytes, executor.n_processes
            driver = None if path is None else 0 if client is None else of_this_process()
            n = at_once(self.estimator, self.source, documents.n_folds, self.sampler.most, *memory, driver)
            for turn, trials in enumerate(self.turns(min(n, self.sampler.at_once))):
                file = None if path is None else path.with_stem(f"{path.stem}-{turn}") if turn else path
                with self._under_way(documents, trials, executor, keeps_starts=file is not None) as side:
                    self._turn(trials, side, documents, file)
        return documents.numbers

    def _turn(self, trials: list[Trial], side: SideBySide, documents: Documents, path: Path | None) -> None:
        if trials[0].number == 0 and trials[0].error:
            raise ValueError(trials[0].error)
        done, run, near = 0, self._identity(trials, documents), 1.0
        if path is not None and path.exists():
            done = checkpoints.read(path, run, trials, documents, side)
            self._tell(done, RESUMED)
        for epoch in range(done, max(trial.most_epochs for trial in trials)):
            if not any(trial.alive for trial in trials) or self.schedule.over(epoch, "epoch"):
                break
            for number, predicted in side.epoch(epoch).items():
                trial = self.trials[number]
                if not trial.epochs:
                    trial.temperature = near  # the search for its own begins there
                trial.ended_epoch(predicted._replace(decides=trial.decides), self._metrics)
                near = trial.temperature if trial.decides else near
            self.schedule.ended_epoch(trials, epoch + 1)
            side.keep({trial.number for trial in trials if trial.alive})
            self._tell(epoch + 1)
            if path is not None:
                checkpoints.write(path, run, epoch + 1, trials, side)

    @contextmanager
    def _under_way(
        self, documents: Documents, trials: list[Trial], executor: Executor, *, keeps_starts: bool
    ) -> Iterator[SideBySide]:
        def begun(number: int) -> Learners:
            chosen = cast(Learners, made(self.estimator, self.trials[number]))
            return chosen.set_params(n_epochs=1, validation_fraction=0.0) if chosen.loss != "nll" else chosen

        side = SideBySide(begun, documents, trials, executor, keeps_starts=keeps_starts)
        try:
            yield side
        finally:
            side.close()

    def one_by_one(
        self, X: Any, y: Any, groups: ArrayLike | None, client: Client | None, path: Path | None
    ) -> np.ndarray:
        """Fit settings of any estimator; return the fold of each document.

        Several labels of documents in memory are an indicator matrix, so that all folds know all of them.
        """
        search, seed = self.search, seed_of(self.search.random_state)
        validation = search.cv if isinstance(search.cv, Corpus | tuple) else None
        folds, numbers = None, np.zeros(0, np.int16)
        if validation is None:
            folds = Folds(self.source.corpus, cast(int, search.cv), seed)  # says what is wrong with the number
            if isinstance(X, Corpus):
                folds = Folds(X, cast(int, search.cv), seed, groups=groups)
                numbers = folds.numbers
            else:
                numbers = assign_folds(self._labels(y), self.source.n_documents, folds.k, seed, groups)
                folds = None
        more: dict[str, object] = {} if validation is None else {"validation": self._held_out(client).identity}
        known, metrics = self.source.classes, self._metrics
        kept = Fitted(path, self._asked(sha256(numbers.tobytes()).hexdigest() if folds is None else folds.name, **more))

        of = (X, y, numbers, folds, validation, metrics, known, client)
        done = dict[int, tuple[dict[str, object], Training]]()

        def train(trial: Trial, n_epochs: int) -> None:
            before = trial.trained
            if not kept.restored(trial):
                model, own = made(self.estimator, trial), dict(trial.params)
                if n_epochs < model._n_epochs:
                    model.set_params(n_epochs=n_epochs)
                    own["n_epochs"] = n_epochs
                whole, started = spelled_out(self.estimator, own, self.source), time.perf_counter()
                found = next((found for other, found in done.values() if are_equal(other, whole)), None)
                if found is None:
                    watch = self.schedule.watch(sum(map(_was_trained, self.trials)))
                    found = one_by_one.run(model, trial.decides, *of, watch)
                done[trial.number] = whole, found
                trial.seconds += time.perf_counter() - started
                trial.was_trained(found, search.metric_)
                kept.keep(trial, before)
            if trial.number == 0 and trial.error:
                raise ValueError(trial.error)

        for trials in self.turns(self.sampler.at_once if self.schedule.looks_on else 1):
            try:
                self._rungs(trials, train)
            except TimeOver:
                self._leave_out(trials)
        return numbers

    def _rungs(self, trials: list[Trial], train: Callable[[Trial, int], None]) -> None:
        """Train the settings of a turn: compare them after `Schedule.first` epochs, twice that...; or to the end.

        Raises TimeOver.
        """
        schedule, epoch = self.schedule, self.schedule.first
        while len(trials) > 1 and sum(schedule.goal(trial, trials, epoch) for trial in trials) > schedule.left(trials):
            trials.pop()  # its first training is more than the budget pays for
            self.trials.pop()
        while alive := [trial for trial in trials if trial.alive]:
            goals = {trial.number: schedule.goal(trial, trials, epoch) for trial in alive}
            for trial in alive:
                if goals[trial.number] <= trial.trained:  # its bracket has not begun
                    continue
                if schedule.over(done := sum(map(_was_trained, self.trials)), "setting"):
                    raise TimeOver
                is_new = not trial.epochs
                train(trial, goals[trial.number])
                if is_new:
                    self._tell(done + 1, "setting")
            schedule.halve(trials, epoch)
            further = {t.number: schedule.goal(t, trials, 2 * epoch) - t.trained for t in trials if t.alive}
            schedule.keep_within_budget(trials, further, epoch)
            goes_on = any(trial.alive for trial in trials)
            if goes_on or epoch > schedule.first:
                self._tell(epoch if goes_on else max(trial.trained for trial in trials))
            epoch *= 2

    def _leave_out(self, trials: list[Trial]) -> None:
        """Leave out settings that were not trained before the time was over."""
        for trial in reversed(trials):
            if _was_trained(trial):
                continue
            if trial is self.trials[-1]:
                self.trials.pop()
            else:  # numbers are places
                trial.alive, trial.error = False, LATE

    def _labels(self, y: Any) -> np.ndarray | None:
        """Return by what documents in memory are assign_folds evenly: their class, or their set of labels."""
        if self.source.members is not None:
            return coded(y, None)[0]
        return positions_of(self.estimator, y, self.source.classes) if len(self.source.classes) else None

    def _identity(self, trials: list[Trial], documents: Documents) -> Json:
        settings = {str(trial.number): trial.params for trial in trials}
        if documents.folds is None:
            return self._asked("documents", settings=settings, validation=documents.validation_identity)
        return self._asked(documents.folds.name, settings=settings)

    def _asked(self, folds: str, **more: object) -> Json:
        return identity(asked=checkpoints.asked(self.search), corpus=self.source.identity, folds=folds, **more)
