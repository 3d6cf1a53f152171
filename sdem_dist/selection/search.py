"""Hyperparameter search by cross-validation: `CorpusSearchCV`."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from sdem_dist.corpus import Corpus
from sdem_dist.engine.checkpoint import identity
from sdem_dist.errors import SdemError
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.fitting.running import forgetting, one_blas_thread
from sdem_dist.inputs.spec import OF_THE_MACHINE
from sdem_dist.inputs.validation import seed_of
from sdem_dist.selection import trials
from sdem_dist.selection.fold_fits import Checkpoints, FoldFits
from sdem_dist.selection.spaces import Sampler, Space, checked_spaces, default_space, sampler_of
from sdem_dist.selection.trials import FoldScores, Metric, Trial

if TYPE_CHECKING:
    from distributed import Client

RESUMED, FIT, FOLD, NESTED, LAST = (
    "resumed",
    "fit",
    "fold",
    "nested search",
    "training with the best setting on all documents",
)
_log = logging.getLogger(__name__)


class SearchEvent(NamedTuple):
    """The argument of callbacks of a search."""

    # `FIT`: a fit without a fold has ended. `FOLD`: all remaining settings are scored on a fold. `RESUMED`: fits were
    # loaded from a checkpoint. `NESTED`: a search without a fold has ended. `LAST`: the final training begins.
    what: str
    done: int  # number of such events so far; for `RESUMED` and `LAST`, the number of fits
    trials: list[Trial]
    seconds: float  # since the search began
    metric: Metric
    n_trials: int  # most settings to try
    n_folds: int


class TimeOver(Exception):
    """The time limit of a search was reached, perhaps during a fit."""


@p.declare
@p.document
class CorpusSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Hyperparameter search by cross-validation, on a corpus or on documents in memory.

    Documents are read and words are counted once. For each fold and setting, a model is trained on the other folds,
    which also choose epochs and temperature, and scored on that fold. These models are not retrained on documents that
    they held out. Document frequencies (for weights and `min_df`) are those of their training documents.

    Folds are stratified by class. With several labels per document, they are stratified by label set, if sets occur
    repeatedly. All models have all classes, even classes that occur in only one fold.

    estimator : estimator of this package -- Its parameters are the default setting, which is also tried.
    space : dict, list of dict or None -- For each parameter, a list of values to try or an object with ``rvs``. None:
        the default space, without parameters changed from their defaults in `estimator`.
    cv : int, Corpus or tuple (X, y) -- Number of folds, or other documents to score settings on.
    metric : str, callable or None -- Classifiers: "log-loss", "accuracy", "macro-F1" or "perplexity". With several
        labels per document: "micro-F1", "macro-F1", "accuracy" (all labels correct), "Hamming-loss" or "log-loss" (the
        mean over labels). Regression: "R2". `KMeans`: "distance", the mean squared distance to the nearest centre.
        Other clustering, and topic models: "perplexity". None: the first for the task. A callable gets labels, as
        positions in ``classes_``, and probabilities; with several labels, both have the shape (n_documents, n_labels).
        Larger values must be better.
    n_trials -- Maximum number of settings, including the default; a larger space is sampled. None: all settings of a
        grid.
    sampler -- How to sample settings. Optuna proposes eight at a time, based on previous scores: ``pip install
        "sdem_dist[optuna]"``.
    seconds -- Time limit; at least one score is computed. The result may then depend on the machine.
    halving -- Drop the worse half of the settings after each fold, by the mean score over the folds so far. The default
        and ties are not dropped.
    nested -- For each fold, repeat the search on the other folds, and score the winner on this fold. This takes `cv`
        times as long, and results in an unbiased score of the search.
    refit -- Train with the best setting on all documents.
    random_state : int, RandomState instance or None -- Seed for folds and sampling.
    n_jobs -- Number of concurrent fits if no client is used; None: one per core. The result does not depend on it.
    callbacks : sequence of callables -- Called with a `SearchEvent` after each fit, fold and nested search, when a
        search resumes, and before the final model is trained.
    metric_ : str or callable -- The metric used.
    best_params_ : dict -- Parameters of the best setting that differ from those of `estimator`.
    best_score_ : float -- Mean over folds; larger is better, so log-loss and perplexity are negative. The best of many
        scores is optimistic. The default wins unless another setting is better by more than one standard error of the
        difference and, with log-loss, not less accurate.
    best_index_ : int --
    best_estimator_ : estimator -- Trained on all documents, with `refit`.
    cv_results_ : dict of str to array -- A row per setting, for pandas.DataFrame. Folds on which a setting was not
        scored are NaN.
    nested_scores_, nested_score_ : ndarray of shape (n_splits,), float -- With `nested`: for each fold, the unbiased
        score of a search without this fold; and the mean of these scores.
    oof_proba_ : ndarray of shape (n_documents, n_classes) -- Out-of-fold probabilities of the best setting, in the
        order of `X` or of the corpus; NaN for documents outside the subset that was searched. With several labels, the
        probability of each label.
    oof_folds_ : ndarray of shape (n_documents,) -- The fold of each document; -1 outside the searched subset.
    classes_ : ndarray of shape (n_classes,) --
    trials_ : list of Trial --
    n_splits_ : int --
    n_settings_ : int -- Number of planned settings; `trials_` has fewer if the time limit was reached.
    refit_time_ : float -- Seconds for the final training.
    References -- Jamieson, K. and Talwalkar, A. (2016). Non-stochastic best arm identification. AISTATS.
    """

    estimator: EngineEstimator = field()
    space: Space | None = None
    cv: Any = 5
    metric: Metric | None = None
    n_trials: int | None = 17
    sampler: Literal["random", "optuna"] = "random"
    seconds: float | None = None
    halving: bool = True
    nested: bool = False
    refit: bool = True
    random_state: object = 0
    n_jobs: int | None = None
    callbacks: Sequence[Callable[[SearchEvent], None]] = ()

    _counted = cast("Mapping[object, Corpus]", {})  # the documents for other settings of text, if `X` is a corpus

    def fit(
        self,
        X: object,
        y: object = None,
        *,
        groups: ArrayLike | None = None,
        client: Client | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Try settings, then train with the best one.

        groups : array-like of shape (n_documents,), default=None -- Group of each document, such as its author, in the
            order of `X` or of the corpus. A group stays in one fold. None: the groups of the corpus, from
            `write_corpus` or ``sdem ingest --group``.
        client : distributed.Client, default=None -- Dask client: search on its cluster. `X` must then be a corpus.
        checkpoint : path, default=None -- Folder for checkpoints, written after each fit.
        resume : bool, default=False -- Resume from `checkpoint`.
        Raises TypeError -- The estimator is not from this package.
        Raises ValueError -- The estimator does not support the metric or space, or all settings fail.
        Raises CorpusError, ClusterError, ModelError -- A damaged corpus, an unreachable cluster, or a checkpoint of
            another search.
        """
        self.check()
        started, seed, model = time.perf_counter(), seed_of(self.random_state), clone(self.estimator)
        options: dict[str, Any] = {"cv": self.cv, "seed": seed, "groups": groups, "counted": self._counted}
        fits = FoldFits(model, X, y, client=client, n_jobs=self.n_jobs, **options)
        source, several = fits.source, fits.source.members is not None
        self.metric_ = trials.metric_of(self.estimator, self.metric, several)
        space = self.space
        if space is None:
            settings: Any = source.vectorizer or {}
            by_words = source.vocabulary is not None and settings.get("analyzer") == "word"
            orders = int(settings.get("ngram_range", (1, 1))[1]) if by_words else 1
            raw = bool(self._counted) or source.transformer is not None
            raw = raw and not self.nested  # a nested search counts documents only once
            space = default_space(self.estimator, weighted=source.weighted, orders=orders, raw=raw)
        checkpoints = None if checkpoint is None else self.checkpoints(checkpoint, resume=resume)
        if checkpoints is not None:
            checkpoints.documents = fits.name
        new_sampler = partial(sampler_of, self.sampler, self.estimator, space, self.n_trials, seed)
        sampler = new_sampler()
        self.trials_, self.n_settings_, self.n_splits_ = list[Trial](), sampler.n_trials, fits.n_folds
        self.classes_, fits.retrain = source.classes, sampler.n_trials == 1
        shown = ["log-loss", "accuracy"] if source.class_counts else []
        fits.metrics = list(dict.fromkeys([self.metric_, *shown, *(["micro-F1"] if several else [])]))
        fits.deadline = started + (np.inf if self.seconds is None else self.seconds)

        def emit(what: str, done: int) -> None:
            seconds = time.perf_counter() - started
            event = SearchEvent(what, done, self.trials_, seconds, self.metric_, self.n_settings_, self.n_splits_)
            for callback in self.callbacks:
                callback(event)

        with one_blas_thread(), forgetting(source):
            best = self._try_all(fits, sampler, self.trials_, emit, checkpoints)
            if self.nested:
                scores = list[float]()
                for fold in range(fits.n_folds):
                    winner = self._try_all(fits.without(fold), new_sampler(), [], lambda what, done: None)
                    of_winner = fits.fold_scores(winner.params, fold).scores
                    scores.append(trials.sign_of(self.metric_) * of_winner[trials.name_of(self.metric_)])
                    emit(NESTED, len(scores))
                self.nested_scores_ = np.array(scores)
                self.nested_score_ = float(self.nested_scores_.mean())
        self.best_index_, self.best_score_, self.best_params_ = best.number, best.score(self.metric_), dict(best.params)
        self.cv_results_ = trials.results_of(self.trials_, self.metric_, self.n_splits_)
        corpus = source.corpus if fits.held_out is None else fits.held_out.corpus
        n = corpus.n_documents if isinstance(corpus, Corpus) else corpus.n_rows
        self.oof_folds_ = np.full(n, -1, np.int16)
        for fold in range(fits.n_folds):
            self.oof_folds_[fits.rows(fold)] = fold
        if (predictions := best.predictions) is not None:
            self.oof_proba_ = np.full((n, len(self.classes_)), np.nan)
            self.oof_proba_[predictions.rows] = predictions.proba
        if self.refit:
            emit(LAST, sum(trial.n_fits for trial in self.trials_))
            started = time.perf_counter()
            self.best_estimator_ = fits.fitted(best.params, None)
            self.refit_time_ = time.perf_counter() - started
        return self

    def _try_all(
        self, fits: FoldFits, sampler: Sampler, tried: list[Trial], emit: Any, checkpoints: Checkpoints | None = None
    ) -> Trial:
        """Try the settings of a sampler, turn by turn and fold by fold; append them to `tried`, and return the best."""

        def check_time(_: object = None) -> None:
            if time.perf_counter() > fits.deadline and tried[0].folds:
                raise TimeOver

        def scores_of(trial: Trial) -> FoldScores:
            check_time()
            try:
                return fits.fold_scores(trial.params, fold, [check_time])
            except ValueError as error:
                if isinstance(error, SdemError):
                    raise
                return FoldScores({}, None, 0.0, str(error))

        def n_fits() -> int:
            return sum(trial.n_fits for trial in tried)

        try:
            while settings := sampler.ask():
                turn = [Trial(len(tried) + i, params) for i, params in enumerate(settings)]
                tried += turn
                for fold in range(fits.n_folds):
                    going_on = [trial for trial in turn if trial.goes_on]
                    for trial in going_on:
                        if checkpoints is not None and (saved := checkpoints.load(trial, fold)) is not None:
                            trial.add(saved)
                    new = [trial for trial in going_on if trial.n_fits == fold]
                    if 0 < len(new) < len(going_on):
                        emit(RESUMED, n_fits())
                    with ThreadPoolExecutor(fits.n_at_once(len(new))) as threads:
                        try:  # takes results in the order of settings
                            for trial, scores in zip(new, threads.map(scores_of, new), strict=True):
                                if scores.error and not trial.number:
                                    raise ValueError(scores.error)
                                if checkpoints is not None:
                                    checkpoints.save(trial, fold, scores)
                                trial.add(scores)
                                emit(FIT, n_fits())
                        finally:
                            threads.shutdown(cancel_futures=True)
                    if self.halving and fold < fits.n_folds - 1:
                        trials.drop_worse_half([*tried[:1], *turn[not turn[0].number :]], self.metric_)
                    emit(FOLD, fold + 1)
                sampler.tell(turn, self.metric_)
        except TimeOver:
            _log.warning("the search stops after %d fits, at the time limit", n_fits())
            for trial in tried:
                if not trial.n_fits:
                    trial.error = trials.LATE
        return trials.best_of(tried, self.metric_)

    def check(self) -> None:
        """Raise TypeError or ValueError for contradictory parameters, before documents are read."""
        if isinstance(self.estimator, type):
            raise TypeError(f"estimator must be an instance: write {self.estimator.__name__}()")
        if not isinstance(self.estimator, EngineEstimator):
            raise TypeError(
                f"estimator must be from sdem_dist, got {type(self.estimator).__name__}: for others, use "
                "scikit-learn's GridSearchCV"
            )
        if callable(self.metric):
            if (name := trials.name_of(self.metric)).endswith(("_loss", "_error")):
                warnings.warn(
                    f"custom metrics are maximized, but {name} looks like a loss: pass lambda y, p: "
                    f"-{name}(y, p), or rename the function",
                    stacklevel=3,
                )
        elif self.metric not in (None, *trials.METRICS):
            raise ValueError(f"metric must be one of {', '.join(trials.METRICS)} or a function, got {self.metric!r}")
        p.check(self)
        if self.sampler == "optuna" and self.n_trials is None:
            raise ValueError("a search with Optuna needs a limit: set n_trials")
        if self.nested and isinstance(self.cv, Corpus | tuple):
            raise ValueError("nested scores need folds: set cv to a number")
        if not (self.estimator.spec.label_sets and self.metric in trials.LABEL_METRICS):
            trials.metric_of(self.estimator, self.metric)
        if self.space is not None:
            checked_spaces(self.estimator, self.space)

    def checkpoints(self, folder: str | Path, *, resume: bool) -> Checkpoints:
        spaces = [self.space] if isinstance(self.space, Mapping) else self.space or []
        # None and the name of the default metric are the same search; the default depends on several labels.
        usual = None if self.estimator.spec.label_sets else trials.metric_of(self.estimator, None)
        search = identity(
            estimator=type(self.estimator).__name__,
            parameters={k: v for k, v in self.estimator.get_params().items() if k not in OF_THE_MACHINE},
            space=[{k: "drawn by rvs" if hasattr(v, "rvs") else list(v) for k, v in s.items()} for s in spaces],
            sampler=self.sampler,
            metric="the default" if self.metric in (None, usual) else trials.name_of(self.metric),
            halving=self.halving,
            n_trials=self.n_trials,
            folds=self.cv if isinstance(self.cv, int | np.integer) else "documents",
            seed=self.random_state,
        )
        return Checkpoints(folder, search, resume=resume)

    def summary(self) -> str:
        """Return the settings tried, the best score for each value, and the winner, in lines of up to 80 characters."""
        check_is_fitted(self, "best_index_")
        return trials.summary_of(self)

    def _best(self) -> Any:
        check_is_fitted(self, "best_index_")
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("best_estimator_ is not available with refit=False: train a model with best_params_")
        return self.best_estimator_

    def predict(self, X: object) -> Any:
        """Return the predictions of the best estimator, shape (n_samples,)."""
        return self._best().predict(X)

    def predict_proba(self, X: object) -> Any:
        """Return the probabilities of the best estimator, shape (n_samples, n_classes)."""
        return self._best().predict_proba(X)

    def score(self, X: object, y: object = None) -> float:
        """Return the score of the best estimator: accuracy, R2, or the mean log-likelihood."""
        return float(self._best().score(X, y))

    def _html_repr(self) -> str:  # called by scikit-learn 1.7 and newer; older versions show the diagram
        return trials.summary_of(self, html=True) if hasattr(self, "best_index_") else str(super()._html_repr())
