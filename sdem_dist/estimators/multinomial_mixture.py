"""Clustering documents by a mixture of multinomials."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from sdem_dist.corpus import Corpus
from sdem_dist.estimators import inputs
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.fitting import FitOptions, evaluate_source, fit_state, run_quietly
from sdem_dist.estimators.mixture_classifier import sample_counts
from sdem_dist.estimators.mixture_settings import full_passes, positive_integers_or_none
from sdem_dist.estimators.mixture_starts import counts_at_examples, counts_by_k_means, surveyed
from sdem_dist.estimators.restoring import restorer
from sdem_dist.estimators.scoring import over_blocks, over_documents
from sdem_dist.estimators.settings import positive_integers, seed_of
from sdem_dist.learners.em import WordEm
from sdem_dist.losses import marginal_log_likelihood
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores

BATCH = 1024
"""Default documents of a step of ``training="online"``."""


class MultinomialMixture(ClusterMixin, EngineEstimator):
    """Clusters of documents: a mixture of multinomials over counts, fitted without labels by EM.

    Parameters
    ----------
    n_components : int, default=8
        Clusters.
    training : {"em", "online"}, default="em"
        "online": stochastic EM, a step for every `batch_size` documents: sdEM with NLL and the class hidden.
    alpha : float, default=0.1
        Pseudo-count of each word in each cluster.
    init : {"k-means", "examples"}, default="k-means"
        Start at clusters that scikit-learn's MiniBatchKMeans finds in tf-idf rows of unit length of `init_documents` random
        documents, or half way between the whole corpus and random documents.
    n_init : int, default=10
        Starts. Each is run for `n_init_epochs`, and the one with the best objective goes on.
    n_init_epochs : int, default=5
    init_documents : int, default=20000
    n_epochs : int, default=50
        Passes over the documents after that.
    batch_size : int, default=None
        Documents of a step of "online". None: 1,024.
    evaluate_every : int, default=10
        Record ``nll`` and ``perplexity`` after every so many epochs and after the last; 0 never.
    patience : int, default=None
        With validation documents: stop after so many evaluations without a new minimum of their NLL, and keep the minimum.
    n_jobs : int, default=None
        Threads, where no Dask client is given. No bit of the result depends on it.
    random_state : int, RandomState instance or None, default=0
    verbose : bool, default=False

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Clusters of the training documents in memory; a corpus is passed to `predict`. Not kept in files.
    component_log_prob_ : ndarray of shape (n_components, n_features)
        ln p(word | cluster).
    component_log_prior_ : ndarray of shape (n_components,)
        ln p(cluster).
    lower_bound_ : float
        The objective a document: mean ln p(d) and the prior's share. Restarts are chosen by it.
    n_features_in_ : int
    history_ : list of dict
    n_iter_ : int
    vocabulary_, vectorizer_, idf_
        As of `MultinomialNB`.

    References
    ----------
    Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 2, NLL.
    """

    _sparse = True
    _monitor = "nll"
    _restore = staticmethod(restorer(WordEm))

    def __init__(
        self,
        n_components: int = 8,
        *,
        training: str = "em",
        alpha: float = 0.1,
        init: str = "k-means",
        n_init: int = 10,
        n_init_epochs: int = 5,
        init_documents: int = 20_000,
        n_epochs: int = 50,
        batch_size: int | None = None,
        evaluate_every: int = 10,
        patience: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.training = training
        self.alpha = alpha
        self.init = init
        self.n_init = n_init
        self.n_init_epochs = n_init_epochs
        self.init_documents = init_documents
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.evaluate_every = evaluate_every
        self.patience = patience
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **options: Any) -> MultinomialMixture:
        """Cluster documents in memory or of a corpus; labels play no part.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features), or Corpus
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
        **options
            See `sdem_dist.estimators.base.EngineEstimator.fit`: `client`, `validation`, `checkpoint`, `resume` and others.
        """
        super().fit(X, None, sample_weight, **options)
        if not isinstance(X, Corpus):
            self.labels_ = np.asarray(self.predict(X))
        return self

    def _check(self, source: inputs.Source) -> None:
        choices = {"training": ("em", "online"), "init": ("k-means", "examples")}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, got {getattr(self, name)!r}")
        positive_integers(self, "n_epochs")
        for name in ("n_components", "n_init", "n_init_epochs", "init_documents"):
            value = getattr(self, name)
            if not (isinstance(value, int | np.integer) and value >= 1):
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
        for name in ("batch_size", "patience", "n_jobs"):
            positive_integers_or_none(self, name)
        if not (isinstance(self.alpha, Real) and 0 < float(self.alpha) < np.inf):
            raise ValueError(f"alpha must be a positive number, got {self.alpha!r}")
        if self.batch_size is not None and self.training == "em":
            raise ValueError("batch_size means nothing with training='em': leave it at None")
        if not (isinstance(self.evaluate_every, int | np.integer) and self.evaluate_every >= 0):
            raise ValueError(f"evaluate_every must be an integer that is not negative, got {self.evaluate_every!r}")
        if source.n_documents < self.n_components:
            raise ValueError(f"n_samples={source.n_documents} should be >= n_components={self.n_components}")
        if self.init == "k-means" and self.init_documents < self.n_components:
            raise ValueError(
                f"init_documents={self.init_documents} is too few for k-means to find n_components={self.n_components} "
                "clusters in: raise it"
            )

    def _training_source(self, X: Any, y: Any, sample_weight: Any, client: Any) -> inputs.Source:
        source = inputs.unlabelled_source(self, X, sample_weight, client, reset=True)
        self._check(source)
        return source

    def _evaluation_source(self, X: Any, y: Any, client: Any) -> inputs.Source:
        return inputs.unlabelled_source(self, X, None, client, reset=False)

    def _train(self, source: inputs.Source, options: FitOptions) -> tuple[Any, Any, list[dict[str, float]]]:
        plan = full_passes(self, source, self.n_epochs)
        learner = WordEm(
            model=NaiveBayes(source.n_features, 1, float(self.alpha), owners=(0,) * int(self.n_components)),
            n_documents=source.weight,
            seed=plan.seed,
            rule="maximise",
        )
        best, highest = None, -np.inf
        for number in range(self.n_init):
            start = self._start(learner, source, options, number)
            short = replace(plan, n_epochs=self.n_init_epochs)
            state = run_quietly(learner, short, source, options.client, self.n_jobs, start)
            objective = self._objective(learner, state, source, options.client) if self.n_init > 1 else 0.0
            if best is None or objective > highest:
                best, highest = state, objective
        if self.training == "online":
            learner = replace(learner, rule="online")
            plan = replace(plan, n_rounds=max(1, -(-source.n_documents // (self.batch_size or BATCH))), n_lanes=1)
        state, history = fit_state(self, learner, plan, source, options, best)
        self.lower_bound_ = self._objective(learner, state, source, options.client)
        return learner, state, history

    def _start(self, learner: WordEm, source: inputs.Source, options: FitOptions, number: int) -> Any:
        """Return one of the starts: each has its own random numbers."""
        once = replace(full_passes(self, source, 1), seed=learner.seed + (number << 20))
        if self.init == "examples":
            survey = surveyed(self, source, once, options.client, self.n_components, labelled=False)
            naive = replace(learner, model=replace(learner.model, owners=(0,)))
            words = run_quietly(naive, once, source, options.client, self.n_jobs).words
            return learner.start_at(*counts_at_examples(source, survey, (int(self.n_components),), words))
        survey = surveyed(self, source, once, options.client, self.init_documents, labelled=False)
        return learner.start_at(
            *counts_by_k_means(source, survey, int(self.n_components), learner.model.alpha, once.seed)
        )

    def _objective(self, learner: WordEm, state: Any, source: inputs.Source, client: Any) -> float:
        """Return the mean of ln p(d) and the priors' shares a document: ``alpha ln p(word | cluster)`` and ``ln p(cluster)``."""
        nll = evaluate_source(self, learner, state, source, client)["nll"]
        parameters = learner.model.parameters(state)
        prior = learner.model.alpha * float((parameters.log_words - parameters.log_totals).sum())
        prior += learner.model.class_alpha * float(parameters.log_prior.sum())
        return prior / source.weight - nll

    @property
    def component_log_prob_(self) -> np.ndarray:
        """Ln p(word | cluster), shape (n_components, n_features)."""
        check_is_fitted(self)
        return np.asarray((self._parameters.log_words - self._parameters.log_totals).T)

    @property
    def component_log_prior_(self) -> np.ndarray:
        """Ln p(cluster), shape (n_components,)."""
        check_is_fitted(self)
        return np.asarray(self._parameters.log_prior)

    def _scores(self, X: Any) -> np.ndarray:
        """Return ln p(cluster, d), shape (n_samples, n_components)."""
        return joint_scores(self._parameters, inputs.prediction_documents(self, X))

    def predict(self, X: Any) -> Any:
        """Return the most probable cluster of each document, shape (n_samples,), int64; a corpus is read piece by piece."""
        check_is_fitted(self)
        return over_documents(self, X, lambda b: self._scores(b).argmax(axis=1), None)

    def predict_proba(self, X: Any) -> Any:
        """Return p(cluster | d), shape (n_samples, n_components)."""
        from scipy.special import softmax

        check_is_fitted(self)
        return over_blocks(self, X, lambda b: softmax(self._scores(b), axis=1), self._learner.model.n_columns)

    def score_samples(self, X: Any) -> np.ndarray:
        """Return ln p(d) of each document, without the multinomial coefficient, shape (n_samples,)."""
        check_is_fitted(self)
        return marginal_log_likelihood(self._scores(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of ln p(d) of documents in memory or of a corpus."""
        if isinstance(X, Corpus):
            return -self.evaluate(X)["nll"]
        return float(self.score_samples(X).mean())

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion on documents in memory or of a corpus; the lower the better."""
        check_is_fitted(self)
        n_components = self._learner.model.n_columns
        n_parameters = n_components - 1 + n_components * (self.n_features_in_ - 1)
        scores = np.full(X.n_documents, self.score(X)) if isinstance(X, Corpus) else self.score_samples(X)
        return float(n_parameters * np.log(len(scores)) - 2.0 * scores.sum())

    def sample(
        self, n_samples: int = 1, random_state: Any = None, *, length: int = 100
    ) -> tuple[sp.csr_matrix, np.ndarray]:
        """Draw documents of `length` words, and their clusters.

        Returns
        -------
        X : CSR matrix of shape (n_samples, n_features)
        labels : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        rng = np.random.default_rng(seed_of(random_state))
        prior = np.exp(self.component_log_prior_)
        drawn = rng.choice(len(prior), n_samples, p=prior / prior.sum())
        return sample_counts(self.component_log_prob_, drawn, length, rng), drawn

    def _extra(self) -> dict[str, Any]:
        """Return what a model file holds beside arrays and settings."""
        return {"lower_bound": float(self.lower_bound_)}

    def _take_extra(self, extra: Any) -> None:
        """Take back what `_extra` returned."""
        self.lower_bound_ = float(dict(extra)["lower_bound"])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags
