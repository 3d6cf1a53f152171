"""The best settings of an estimator for a corpus, by cross-validation: `CorpusSearchCV`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from sdem_dist.corpus import Corpus, DenseMemoryCorpus, MemoryCorpus
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.inputs.label_sets import indicator_of_labels
from sdem_dist.inputs.source import source_of
from sdem_dist.inputs.spec import Source
from sdem_dist.inputs.validation import seed_of
from sdem_dist.selection import checkpoints, default_loss, summary
from sdem_dist.selection.label_metrics import LABELS
from sdem_dist.selection.metrics import check_metric, greater_is_better, metric_of, name_of
from sdem_dist.selection.nested import nested_scores
from sdem_dist.selection.notebook import ShownInNotebooks
from sdem_dist.selection.predicted import Metric
from sdem_dist.selection.results import results_of
from sdem_dist.selection.run import EpochOfSettings, Run, made
from sdem_dist.selection.samplers import SAMPLERS, sampler_of
from sdem_dist.selection.schedule import AUTO, BRACKETS, Schedule
from sdem_dist.selection.side_by_side import Learners, halving_of, learns_beside
from sdem_dist.selection.spaces import Space, checked_spaces, default_space
from sdem_dist.selection.trials import Trial, best_of

if TYPE_CHECKING:
    from distributed import Client


class CorpusSearchCV(MetaEstimatorMixin, ShownInNotebooks):
    """Search for the best settings of an estimator, by cross-validation on a corpus or on documents in memory.

    Settings of `MultinomialNB` and `MultiLabelNB` learn side by side: documents are read once, weighed and prepared
    once for all settings of one weighting, and each setting's model of each fold has the bits of training it alone.
    They are scored after each epoch on the fold that they have not seen. From the third epoch on, a setting ends where
    another epoch does not lower its log-loss by 1 %; with `halving`, also where it is not among the better half after
    epochs 1, 2, 4, 8...

    Other estimators are fitted one setting and one fold after the other, for their own `n_epochs`. With
    ``halving=True``, brackets or `total_epochs` they are trained for an eighth of these epochs (2 at least) first; what
    goes on for twice as many, and so on. Each training begins anew, so that it has the bits of `n_epochs` epochs
    whatever its steps depend on; together they cost at most twice the longest. The best of them counts, but for the
    default and where `space` has `n_epochs`: there the longest. What takes longer than the epochs, such as the `n_init`
    starts of `KMeans`, is paid for each time.

    Folds have the same share of every class; of several labels of every set of labels, as far as sets recur. Scores of
    a fold are at the temperatures and thresholds of labels that the other folds ask for. All models know all classes,
    also one that only one fold has.

    Document frequencies, which weigh words, are those of all documents, in folds as well. They do not depend on labels.

    Parameters
    ----------
    estimator : estimator of this package
        Its settings are tried, too, and are what the winner is compared with.
    space : dict, list of dict or None, default=None
        Of parameters, lists of values to try or objects with ``rvs``. None: the estimator's own space,
        without the parameters whose value in `estimator` is not their default.
    cv : int, Corpus or tuple (X, y), default=5
        Folds, or documents that settings are scored on.
    metric : str or callable, default=None
        Of classes "log-loss", "accuracy", "macro-F1" or "perplexity"; of several labels per document "micro-F1",
        "macro-F1", "accuracy" (of documents all of whose labels are right), "Hamming-loss" or "log-loss" (the mean over
        labels); of numbers "R2"; of k-means "distance", the mean square to the nearest centre; of other clusters and
        topics "perplexity". None: the first of these. A callable takes labels, as positions in ``classes_``, and
        probabilities; of several labels both have shape (n_documents, n_labels). More is better.
    n_trials : int or None, default=17
        Settings to try at most, drawn from a space that has more; None: all of a grid.
    sampler : {"random", "optuna"}, default="random"
        What draws them. Optuna proposes eight at a time by the scores so far: ``pip install "sdem_dist[optuna]"``.
    max_epochs : int or None, default=None
        Epochs of a setting at most. None: those of its `n_epochs`; 20 of settings side by side without. There a setting
        with `n_epochs` has as many as that, unless it is dropped.
    total_epochs : int or None, default=None
        Epochs of all settings together at most, of a fold. They first pay for the default, which learns alone. Of other
        settings so many are tried as there is room for: about three epochs for each with halving, three times the first
        comparison's where settings are fitted one after the other, and without halving as many as the default has had.
        When epochs run out, only the best settings go on. Of settings that are fitted one after the other only the
        longest training counts.
    seconds : float or None, default=None
        End the search after this many seconds, once there is a first score. Its result may then depend on the machine.
    halving : {"auto", True, False, "brackets"}, default="auto"
        Let the worse half of the settings go after epochs 1, 2, 4, 8...; the first, the default, always goes on, and so
        does what is as good as a setting that goes on. Settings that are fitted one after the other are first compared
        after an eighth of their epochs, 2 at least. By Hyperband's brackets, some are first halved later. "auto": True
        where settings learn side by side, else False: the best of those is often not seen before its last epochs.
    nested : bool, default=False
        Repeat the search without each fold in turn, and score its winner on that fold: `cv` times the work, for an
        honest score of the whole search.
    refit : bool, default=True
        Train the best settings on all documents.
    random_state : int, default=0
        Decides the folds and what is drawn.
    n_jobs : int or None, default=None
        Threads where there is no client; None: all cores. No bit depends on it.
    callbacks : sequence of callables
        Called with an `EpochOfSettings` after each epoch in which settings are compared, after the first training of
        each that is fitted one by one, after each nested search, and where a search is resumed.

    Attributes
    ----------
    metric_ : str or callable
        What decided.
    tuned_ : estimator
        `estimator` with its loss settled: the default that settings are compared with. ``loss="auto"`` is settled by
        the rule of a fit: NCLL of few documents, and where the folds say that the hinge loss gets over a fifth of their
        documents wrong and has a higher log-loss.
    best_params_ : dict
        The settings that differ from `tuned_`, and ``n_epochs`` where folds or a budget decided it.
    best_score_ : float
        Mean over folds; more is better, so log-loss and perplexity are negative. The best of many is optimistic.
        By log-loss, settings that are clearly less accurate than the default are passed over.
    best_index_ : int
    best_estimator_ : estimator
        Trained on all documents, with `refit`. Thresholds of several labels are those of the predictions out of fold;
        so are temperatures, where settings learn side by side.
    cv_results_ : dict of str to array
        A row per setting: a pandas DataFrame can be made of it.
    nested_scores_, nested_score_ : ndarray of shape (n_splits,), float
        With `nested`, the score on each fold of a search without it, and their mean: not optimistic, unlike
        `best_score_`.
    oof_proba_ : ndarray of shape (n_documents, n_classes)
        What the best settings say of each document that their model has not seen, in the order of `X`, of a corpus as
        stored. Of several labels the probability of each.
    oof_folds_ : ndarray of shape (n_documents,)
        The fold of each.
    classes_ : ndarray of shape (n_classes,)
    temperature_ : float
    trials_ : list of Trial
    n_splits_ : int
    n_settings_ : int
        Settings that were to be tried; `trials_` has fewer where a budget ended the search.
    refit_time_ : float
        Seconds.

    References
    ----------
    Jamieson, K. and Talwalkar, A. (2016). Non-stochastic best arm identification. AISTATS.
    Li, L. et al. (2018). Hyperband: a novel bandit-based approach to hyperparameter optimization. JMLR 18.
    """

    def __init__(
        self,
        estimator: EngineEstimator,
        space: Space | None = None,
        *,
        cv: object = 5,
        metric: Metric | None = None,
        n_trials: int | None = 17,
        sampler: str = "random",
        max_epochs: int | None = None,
        total_epochs: int | None = None,
        seconds: float | None = None,
        halving: bool | str = AUTO,
        nested: bool = False,
        refit: bool = True,
        random_state: int = 0,
        n_jobs: int | None = None,
        callbacks: Sequence[Callable[[EpochOfSettings], None]] = (),
    ) -> None:
        self.estimator, self.space, self.cv, self.metric = estimator, space, cv, metric
        self.n_trials, self.sampler, self.halving = n_trials, sampler, halving
        self.max_epochs, self.total_epochs, self.seconds = max_epochs, total_epochs, seconds
        self.nested, self.refit, self.random_state = nested, refit, random_state
        self.n_jobs, self.callbacks = n_jobs, callbacks

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
        """Try settings and train the best.

        Parameters
        ----------
        X : Corpus, matrix or texts
            As the estimator's `fit` takes them.
        y : array-like, default=None
            None with a corpus.
        groups : array-like of shape (n_documents,), default=None
            Documents of one group, such as those of one author, are in one fold. In the order of `X`, of a corpus as
            stored. None: a corpus is grouped as `write_corpus` or ``sdem ingest --group`` was told.
        client : distributed.Client, default=None
            Search on this cluster; `X` is then a corpus.
        checkpoint : path, default=None
            Folder where the search is kept after each epoch, or after each training of a setting fitted one by one.
        resume : bool, default=False
            Go on from there.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            The estimator is not one of this package.
        ValueError
            Settings, metric or space do not go with the estimator, or no setting can be trained.
        CorpusError, ClusterError, ModelError
            A damaged corpus, an unreachable cluster, a search that does not fit.
        """
        self._check()
        seed = seed_of(self.random_state)
        estimator = clone(self.estimator)
        estimator._look_at(X)
        source = source_of(estimator, X, y, client=client)
        several = source.members is not None
        self.metric_ = metric_of(estimator, self.metric, several)
        beside, halving = learns_beside(estimator), halving_of(estimator, self.halving)
        schedule = Schedule(
            self.metric_, halving, self.max_epochs, seed, self.total_epochs, self.seconds, apart=not beside
        )
        estimator._describe(source)
        space = self.space
        if space is None:
            space = default_space(estimator, weighted=source.weighted, orders=_orders(source))
        path = None if checkpoint is None else checkpoints.path_of(checkpoint, self, resume=resume)
        self.tuned_ = default_loss.begun(self.estimator, source)
        sampler = sampler_of(self.sampler, self.tuned_, space, self.n_trials, seed, source)
        run = Run(self, self.tuned_, schedule, source, sampler, beside)
        # Folds in memory get several labels as an indicator matrix, so that all of them know all labels.
        whole = isinstance(X, Corpus) or isinstance(self.cv, Corpus | tuple)
        known = indicator_of_labels(y, None) if several and not whole else y
        if beside:
            self._numbers = run.side_by_side(groups, client, path)
        else:
            self._numbers = run.one_by_one(X, known, groups, client, path)
        self.trials_, self.n_settings_ = run.trials, sampler.most
        self._untried, self._ncll_left_out = run.untried, run.ncll_left_out
        self._conclude(source)
        best = self.trials_[self.best_index_]
        counted = self._counted_epochs(best, beside)
        self.best_params_ |= counted
        if self.nested:
            numbers = getattr(self, "oof_folds_", self._numbers)  # in the order of X
            self.nested_scores_ = nested_scores(self, X, known, numbers, groups, client, run.tell_of_nested)
            self.nested_score_ = float(self.nested_scores_.mean())
        if self.refit:
            run.tell_of_the_last()
            self._refit(X, y, client, beside, counted)
        return self

    def _check(self) -> None:
        if isinstance(self.estimator, type):
            raise TypeError(f"estimator must be an object: write {self.estimator.__name__}(), with brackets")
        if not isinstance(self.estimator, EngineEstimator):
            raise TypeError(
                f"estimator must be one of sdem_dist, got {type(self.estimator).__name__}: tune others by GridSearchCV of "
                "scikit-learn"
            )
        if self.metric is not None:
            check_metric(self.metric)
        for name in ("max_epochs", "n_trials", "total_epochs"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | np.integer) or value < 1):
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"seconds must be positive or None, got {self.seconds!r}")
        if self.halving not in (AUTO, True, False, BRACKETS):
            raise ValueError(f'halving must be "{AUTO}", True, False or "{BRACKETS}", got {self.halving!r}')
        if self.sampler not in SAMPLERS:
            raise ValueError(f"sampler must be one of {', '.join(SAMPLERS)}, got {self.sampler!r}")
        if self.sampler == "optuna" and self.n_trials is None:
            raise ValueError("Optuna goes on for ever: say how many settings it may try (n_trials)")
        if self.nested and isinstance(self.cv, Corpus | tuple):
            raise ValueError("a nested score needs folds: give cv a number")
        if not (self.estimator.spec.label_sets and self.metric in LABELS):  # of one label a document, or several
            metric_of(self.estimator, self.metric)
        if self.space is not None:
            checked_spaces(self.estimator, self.space)

    def _conclude(self, source: Source) -> None:
        best = best_of(self.trials_, self.metric_)
        sign = 1.0 if greater_is_better(self.metric_) else -1.0
        self.best_index_, self.best_score_, self.temperature_ = best.number, best.score(self.metric_), best.temperature
        self.best_params_ = dict(best.params)
        self.n_splits_ = len(next(iter(best.scores.values())))
        self.classes_ = source.classes
        self.cv_results_ = results_of(self.trials_, name_of(self.metric_), sign, self.n_splits_)
        if best.found is not None:
            order = None if isinstance(source.corpus, Corpus) else source.corpus.order
            beside = best.found.lengths is not None and not isinstance(self.cv, Corpus | tuple)
            proba = best.proba
            self.oof_folds_, self.oof_proba_ = best.found.folds, proba
            if order is not None and beside:  # back to the rows of X
                n_rows = cast(MemoryCorpus, source.corpus).n_rows  # some may have no weight
                self.oof_folds_ = np.full(n_rows, -1, best.found.folds.dtype)
                self.oof_proba_ = np.full((n_rows, *proba.shape[1:]), np.nan)
                self.oof_folds_[order], self.oof_proba_[order] = best.found.folds, proba

    def _counted_epochs(self, best: Trial, beside: bool) -> dict[str, int]:
        """Return the epochs of a setting, where folds or budgets decide them."""
        model = made(self.tuned_, best)
        if beside:
            return {} if cast(Learners, model).loss == "nll" else {"n_epochs": best.n_epochs}
        cut_short = best.alive or best.error or best.dropped is not None or best.most_epochs < model._n_epochs
        cut_short = cut_short or best.n_epochs < best.trained
        return {"n_epochs": best.n_epochs} if cut_short else {}

    def _refit(self, X: object, y: object, client: Client | None, beside: bool, counted: dict[str, int]) -> None:
        started = time.perf_counter()
        best = self.trials_[self.best_index_]
        model = made(self.tuned_, best)
        model.set_params(**counted)
        if beside and counted:
            model.set_params(validation_fraction=0.0)
        model.fit(X, y, client=client)
        if best.decided:
            model._take(model.learner_.decided(**best.decided), model.state_)
        self.best_estimator_, self.refit_time_ = model, time.perf_counter() - started

    def _best(self) -> Any:
        check_is_fitted(self, "best_index_")
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("with refit=False there is no best_estimator_: train one with best_params_")
        return self.best_estimator_

    def summary(self) -> str:
        """Return what was tried, what mattered, and the best beside the default, as ``sdem tune`` prints it.

        Returns
        -------
        str
            Lines of at most 80 columns, to be printed.
        """
        check_is_fitted(self, "best_index_")
        return "\n".join(summary.lines(self))

    def predict(self, X: object) -> Any:
        """Return what the best estimator predicts.

        Parameters
        ----------
        X : documents
            As the estimator takes them.

        Returns
        -------
        ndarray of shape (n_samples,)
            Dask collections for Dask collections.
        """
        return self._best().predict(X)

    def predict_proba(self, X: object) -> Any:
        """Return the best estimator's probabilities.

        Parameters
        ----------
        X : documents
            As the estimator takes them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._best().predict_proba(X)

    def score(self, X: object, y: object = None) -> float:
        """Return the best estimator's score.

        Parameters
        ----------
        X : documents
            As the estimator takes them.
        y : array-like of shape (n_samples,), default=None
            None with a corpus.

        Returns
        -------
        float
            Accuracy of classifiers, R2 of regressors, mean log-likelihood of others.
        """
        return float(self._best().score(X, y))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_index_")


def _orders(source: Source) -> int:
    """Return the longest n-grams of words of a corpus of text."""
    made = source.vectorizer or {}
    if isinstance(source.corpus, DenseMemoryCorpus) or source.vocabulary is None or made.get("analyzer") != "word":
        return 1
    return int(cast("Sequence[int]", made.get("ngram_range", (1, 1)))[1])
