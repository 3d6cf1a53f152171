"""The best settings of an estimator for a corpus, by cross-validation: `CorpusSearchCV`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from sdem_dist.corpus import Corpus, DenseMemoryCorpus
from sdem_dist.corpus.folds import Folds, dealt, labels_of
from sdem_dist.counted import counted
from sdem_dist.engine.identity import Json, identity
from sdem_dist.estimators.naive_bayes import MultinomialNB
from sdem_dist.estimators.plans import seed_of
from sdem_dist.estimators.running import executor_for, validation_source
from sdem_dist.estimators.source import source_of
from sdem_dist.estimators.spec import Source
from sdem_dist.estimators.training_time import MOST_EPOCHS
from sdem_dist.selection import checkpoints, one_by_one
from sdem_dist.selection.metrics import CLASSES, Metric, check_metric, greater_is_better, name_of, tempered
from sdem_dist.selection.results import results_of
from sdem_dist.selection.side_by_side import Documents, SideBySide, at_once
from sdem_dist.selection.spaces import Space, default_space, settings
from sdem_dist.selection.trials import MONITOR, Trial, best_of, epochs_of
from sdem_dist.selection.schedule import ranked, let_go, kept_after

if TYPE_CHECKING:
    from typing import Self

    from distributed import Client

    from sdem_dist.engine.executor import Executor
    from sdem_dist.estimators.base import EngineEstimator

_log = logging.getLogger(__name__)


class EpochOfSettings(NamedTuple):
    """All settings under way have run one more epoch, or one setting has been fitted."""

    epoch: int
    """From 1; of settings that are fitted one by one, how many have been."""
    trials: list[Trial]
    seconds: float
    """Since the search began."""
    what: str = "epoch"
    """What has ended: an epoch, or the training of a "setting"."""


class CorpusSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Search for the best settings of an estimator, by cross-validation on a corpus or on documents in memory.

    Settings of `MultinomialNB` learn side by side: documents are read once, weighed and prepared once for all settings of one
    weighting, and each setting's model of each fold has the bits of training it alone. They are scored after each epoch on
    the fold that they have not seen. A setting ends where another epoch does not lower its log-loss by 1 %; with `halving`,
    also where it is not among the better half after epochs 1, 2, 4 and 8. Other estimators are fitted one setting and one
    fold after the other, for as long as their own settings say.

    Document frequencies, which weigh words, are those of all documents, in folds as well. They know nothing of labels.

    Parameters
    ----------
    estimator : estimator of this package
        Its settings are tried, too, and are what the winner is compared with.
    space : dict, list of dict or None, default=None
        Of parameters, lists of values to try or objects with ``rvs``. None: the estimator's own space.
    cv : int, Corpus or tuple (X, y), default=5
        Folds, or documents that settings are scored on.
    metric : {"log-loss", "accuracy", "macro-F1", "R2", "perplexity"} or callable, default="log-loss"
        A callable takes labels, as positions in ``classes_``, and probabilities; more is better.
    n_trials : int or None, default=17
        Settings to try at most, drawn from a space that has more; None: all of a grid.
    max_epochs : int, default=20
        Epochs of a setting at most. A setting with `n_epochs` has as many as that, unless it is let go.
    seconds : float or None, default=None
        Go on with no setting for longer. What comes of it may then depend on the machine.
    halving : bool, default=True
        Let the worse half of the settings go after epochs 1, 2, 4 and 8.
    refit : bool, default=True
        Train the best settings on all documents.
    random_state : int, default=0
        Decides the folds and what is drawn.
    n_jobs : int or None, default=None
        Threads where there is no client; None: all cores. No bit depends on it.
    callbacks : sequence of callables
        Called with an `EpochOfSettings` after each epoch.

    Attributes
    ----------
    best_params_ : dict
        What of the settings differs from `estimator`; with ``n_epochs``, where epochs were counted.
    best_score_ : float
        Mean over folds; more is better, so log-loss and perplexity are negative. The best of many is optimistic.
    best_index_ : int
    best_estimator_ : estimator
        Trained on all documents, with `refit`. Its temperature is that of the predictions out of fold.
    cv_results_ : dict of str to array
        A row a setting: a pandas DataFrame can be made of it.
    oof_proba_ : ndarray of shape (n_documents, n_classes)
        What the best settings say of each document that their model has not seen, in the order of `X`, of a corpus as stored.
    oof_folds_ : ndarray of shape (n_documents,)
        The fold of each.
    classes_ : ndarray of shape (n_classes,)
    temperature_ : float
    trials_ : list of Trial
    n_splits_ : int
    refit_time_ : float
        Seconds.

    References
    ----------
    Jamieson, K. and Talwalkar, A. (2016). Non-stochastic best arm identification. AISTATS.
    """

    def __init__(
        self,
        estimator: EngineEstimator,
        space: Space | None = None,
        *,
        cv: object = 5,
        metric: Metric = "log-loss",
        n_trials: int | None = 17,
        max_epochs: int = MOST_EPOCHS,
        seconds: float | None = None,
        halving: bool = True,
        refit: bool = True,
        random_state: int = 0,
        n_jobs: int | None = None,
        callbacks: Sequence[Callable[[EpochOfSettings], None]] = (),
    ) -> None:
        self.estimator, self.space, self.cv, self.metric = estimator, space, cv, metric
        self.n_trials, self.max_epochs, self.seconds = n_trials, max_epochs, seconds
        self.halving, self.refit, self.random_state = halving, refit, random_state
        self.n_jobs, self.callbacks = n_jobs, callbacks

    def fit(
        self,
        X: object,
        y: object = None,
        *,
        client: Client | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Try settings and train the best.

        Parameters
        ----------
        X : Corpus, matrix or texts
            As the estimator's `fit` takes them.
        y : array-like, default=None
            None with a corpus.
        client : distributed.Client, default=None
            Search on this cluster; `X` is then a corpus.
        checkpoint : path, default=None
            Folder where the search is kept after each epoch, of settings that learn side by side.
        resume : bool, default=False
            Go on from there.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Settings, metric or space do not go with the estimator, or no setting can be trained.
        CorpusError, ClusterError, ModelError
            A damaged corpus, an unreachable cluster, a search that does not fit.
        """
        self._check()
        started, seed = time.perf_counter(), seed_of(self.random_state)
        estimator = clone(self.estimator)
        source = source_of(estimator, X, y, client=client)
        estimator._describe(source)
        space = default_space(estimator, weighted=source.weighted, orders=_orders(source))
        found = settings(estimator, space if self.space is None else self.space, self.n_trials, seed)
        self.trials_ = [
            Trial(i, params, *epochs_of({**estimator.get_params(), **params}, self.max_epochs))
            for i, params in enumerate(found)
        ]
        beside = type(estimator) is MultinomialNB and estimator.unlabelled is None
        if checkpoint is not None and not beside:
            raise ValueError("only settings of MultinomialNB, which learn side by side, are kept in checkpoints")
        (self._side_by_side if beside else self._one_by_one)(X, y, source, client, checkpoint, resume, started)
        self._conclude(source)
        if self.refit:
            self._refit(X, y, client, beside)
        return self

    def _check(self) -> None:
        check_metric(self.metric)
        for name in ("max_epochs", "n_trials"):
            value = getattr(self, name)
            if not (value is None and name == "n_trials") and (not isinstance(value, int | np.integer) or value < 1):
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"seconds must be positive or None, got {self.seconds!r}")
        labels, classes = self.estimator.spec.target == "labels", self.metric in CLASSES[:3]
        if callable(self.metric) and not labels:
            raise ValueError("a metric of your own takes labels and probabilities, which only classifiers have")
        if isinstance(self.metric, str) and (labels == (self.metric == "R2") or (classes and not labels)):
            raise ValueError(f"{type(self.estimator).__name__} has no {self.metric}: choose another metric")

    @property
    def _metrics(self) -> tuple[Metric, ...]:
        names: list[Metric] = [MONITOR, "accuracy"] if self.estimator.spec.target == "labels" else []
        return tuple(names) if self.metric in names else (*names, self.metric)

    def _made(self, number: int) -> EngineEstimator:
        """Return the unfitted estimator of a setting."""
        return cast("EngineEstimator", clone(self.estimator).set_params(**self.trials_[number].params))

    def _documents(self, source: Source, estimator: EngineEstimator, client: Client | None) -> Documents:
        folds, validation, scored = None, None, source.corpus
        if isinstance(self.cv, Corpus | tuple):
            held_out = validation_source(estimator, self.cv, client)
            validation, scored = held_out.corpus, held_out.corpus
        else:
            folds = Folds(source.corpus, cast(int, self.cv), seed_of(self.random_state))
        labels = labels_of(scored)
        assert labels is not None
        weights = None if isinstance(scored, Corpus) else scored.read(0, scored.n_documents).weights
        numbers = np.zeros(len(labels), np.int16) if folds is None else folds.numbers
        return Documents(
            source, folds, validation, labels, np.ones(len(labels)) if weights is None else weights, numbers
        )

    def _side_by_side(
        self,
        X: object,
        y: object,
        source: Source,
        client: Client | None,
        checkpoint: str | Path | None,
        resume: bool,
        started: float,
    ) -> None:
        estimator = clone(self.estimator)
        estimator._describe(source)
        documents = self._documents(source, estimator, client)
        path = None if checkpoint is None else checkpoints.path_of(checkpoint, resume=resume)
        self._numbers = documents.numbers
        with executor_for(client, self.n_jobs, source) as executor:
            n = at_once(source, documents.n_folds, len(self.trials_), executor.memory_bytes)
            if path is not None and n < len(self.trials_):
                raise ValueError("memory does not hold all settings side by side, as a search with checkpoints needs")
            for first in range(0, len(self.trials_), n):
                trials = self.trials_[first : first + n]
                with self._under_way(documents, trials, executor) as side:
                    done = 0
                    if path is not None and path.exists():
                        done = checkpoints.read(path, self._identity(source), trials, documents, side)
                    for epoch in range(done, max(trial.most_epochs for trial in trials)):
                        if not self._epoch(epoch, trials, side, started):
                            break
                        if path is not None:
                            checkpoints.write(path, self._identity(source), epoch + 1, trials, side)

    @contextmanager
    def _under_way(self, documents: Documents, trials: list[Trial], executor: Executor) -> Iterator[SideBySide]:
        def made(number: int) -> MultinomialNB:
            chosen = cast(MultinomialNB, self._made(number))
            return chosen.set_params(n_epochs=1, validation_fraction=0.0) if chosen.loss != "nll" else chosen

        side = SideBySide(made, documents, trials, executor)
        try:
            yield side
        finally:
            side.close()

    def _epoch(self, epoch: int, trials: list[Trial], side: SideBySide, started: float) -> bool:
        """Run one epoch of the settings under way, if there are any and time is left; say whether one was run."""
        if not any(trial.alive for trial in trials):
            return False
        if self.seconds is not None and epoch and time.perf_counter() - started > self.seconds:
            _log.warning("the search ends after %s: its time is over", counted(epoch, "epoch"))
            return False
        for number, predicted in side.epoch(epoch).items():
            calibrated = bool({**self.estimator.get_params(), **self.trials_[number].params}["calibrate"])
            self.trials_[number].ended_epoch(predicted, self._metrics, calibrated)
        if self.halving and (keep := kept_after(epoch + 1, len(trials))) is not None:
            let_go(ranked(trials, self.metric)[keep:], epoch + 1)
        side.keep({trial.number for trial in trials if trial.alive})
        self._tell(epoch + 1, started)
        return True

    def _one_by_one(
        self,
        X: object,
        y: object,
        source: Source,
        client: Client | None,
        checkpoint: object,
        resume: bool,
        started: float,
    ) -> None:
        on_disk, validation = isinstance(X, Corpus), self.cv if isinstance(self.cv, Corpus | tuple) else None
        folds, seed = None, seed_of(self.random_state)
        if validation is not None:
            self._numbers = np.zeros(0, np.int16)
        elif on_disk:
            folds = Folds(cast(Corpus, X), cast(int, self.cv), seed)
            self._numbers = folds.numbers
        else:
            Folds(source.corpus, cast(int, self.cv), seed)  # says what is wrong with the number
            labels = None if not len(source.classes) else np.searchsorted(source.classes, np.asarray(y))
            self._numbers = dealt(labels, source.n_documents, cast(int, self.cv), seed)
        for trial in self.trials_:
            one_by_one.run(self._made, trial, X, y, self._numbers, folds, validation, self._metrics, client)
            self._tell(trial.number + 1, started, "setting")
            if self.seconds is not None and time.perf_counter() - started > self.seconds:
                _log.warning("the search ends after %s: its time is over", counted(trial.number + 1, "setting"))
                self.trials_ = self.trials_[: trial.number + 1]
                break

    def _tell(self, epoch: int, started: float, what: str = "epoch") -> None:
        for callback in self.callbacks:
            callback(EpochOfSettings(epoch, self.trials_, time.perf_counter() - started, what))

    def _identity(self, source: Source) -> Json:
        return identity(
            search=[{**self.estimator.get_params(), **trial.params} for trial in self.trials_],
            corpus=source.identity,
            cv=self.cv if isinstance(self.cv, int) else "documents",
            metric=name_of(self.metric),
            halving=self.halving,
            random_state=self.random_state,
        )

    def _conclude(self, source: Source) -> None:
        best = best_of(self.trials_, self.metric)
        sign = 1.0 if greater_is_better(self.metric) else -1.0
        self.best_index_, self.best_score_, self.temperature_ = best.number, best.score(self.metric), best.temperature
        self.best_params_ = dict(best.params)
        self.n_splits_ = len(next(iter(best.scores.values())))
        self.classes_ = source.classes
        self.cv_results_ = results_of(self.trials_, name_of(self.metric), sign, self.n_splits_)
        if best.found is not None:
            order = None if isinstance(source.corpus, Corpus) else source.corpus.order
            beside = best.found.lengths is not None and not isinstance(self.cv, Corpus | tuple)
            proba = np.exp(tempered(best.found.log_proba, best.temperature if beside else 1.0))
            self.oof_folds_, self.oof_proba_ = best.found.folds, proba
            if order is not None and beside:  # back to the rows of X
                self.oof_folds_, self.oof_proba_ = np.empty_like(best.found.folds), np.empty_like(proba)
                self.oof_folds_[order], self.oof_proba_[order] = best.found.folds, proba

    def _refit(self, X: object, y: object, client: Client | None, beside: bool) -> None:
        started = time.perf_counter()
        best, model = self.trials_[self.best_index_], self._made(self.best_index_)
        if beside:
            calibrate = cast(MultinomialNB, model).calibrate
            if cast(MultinomialNB, model).loss != "nll":
                self.best_params_ |= {"n_epochs": best.n_epochs}
                model.set_params(n_epochs=best.n_epochs, validation_fraction=0.0)
            model.fit(X, y, client=client)
            if calibrate:
                model._take(replace(model.learner_, temperature=best.temperature), model.state_)
        else:
            model.fit(X, y, client=client)
        self.best_estimator_, self.refit_time_ = model, time.perf_counter() - started

    def _best(self) -> Any:
        check_is_fitted(self, "best_index_")
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("with refit=False there is no best_estimator_: train one with best_params_")
        return self.best_estimator_

    def predict(self, X: object) -> Any:
        """Return what the best estimator predicts."""
        return self._best().predict(X)

    def predict_proba(self, X: object) -> Any:
        """Return the best estimator's probabilities."""
        return self._best().predict_proba(X)

    def score(self, X: object, y: object = None) -> float:
        """Return the best estimator's score."""
        return float(self._best().score(X, y))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_index_")


def _orders(source: Source) -> int:
    """Return the longest n-grams of words of a corpus of text."""
    made = source.vectorizer or {}
    if isinstance(source.corpus, DenseMemoryCorpus) or source.vocabulary is None or made.get("analyzer") != "word":
        return 1
    return int(cast("Sequence[int]", made.get("ngram_range", (1, 1)))[1])
