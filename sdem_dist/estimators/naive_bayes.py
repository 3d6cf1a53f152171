"""Multinomial naive Bayes trained by sdEM, as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sdem_dist.estimators import inputs, settings
from sdem_dist.estimators.classifier import SdemClassifier
from sdem_dist.estimators.fitting import FitOptions, fit_state, one_pass
from sdem_dist.estimators.restoring import restorer
from sdem_dist.learners.em import WordEm
from sdem_dist.learners.sdem import Sdem
from sdem_dist.models.naive_bayes import joint_scores
from sdem_dist.models.word_counts import log_class_prior


class MultinomialNB(SdemClassifier):
    """Multinomial naive Bayes, trained discriminatively by stochastic discriminative EM (sdEM).

    The model stays a joint distribution p(y, d) of classes and documents; what changes with `loss` is how its
    expectation parameters are found.

    Parameters
    ----------
    loss : {"ncll", "hinge", "nll"}, default="ncll"
        Negative conditional log-likelihood ``-ln p(y | d)``, hinge loss (Masegosa 2014, equation 17), or the negative
        log-likelihood ``-ln p(y, d)``: then the result is exactly scikit-learn's ``MultinomialNB``, in one pass.
    alpha : {"laplace", "log"} or float, default="laplace"
        Pseudo-count of each word in the Dirichlet prior: 1 (the paper's P1), ln of the size of the vocabulary (P2),
        or a number.
    fit_prior : bool, default=True
        Learn the class prior; False takes a uniform one.
    class_prior : array-like of shape (n_classes,), default=None
        A fixed class prior.
    n_epochs : int, default=15
        Passes over the documents.
    n_lanes : int, default=None
        Lanes of a round. None: a function of the number of documents, never of the cluster,
        see `sdem_dist.estimators.settings.default_lanes`.
    rounds_per_epoch : int, default=None
        Merges an epoch. None: with ``merge="mean"`` 8, fewer from 125,000 documents on, 1 from 500,001 on or
        where there is one lane; with ``merge="sum"`` as many as
        `batch_size` asks for, and nothing else may be given.
    merge : {"mean", "sum"}, default="mean"
        "mean": each lane runs sdEM over its documents and the lanes' expectation parameters are averaged, each word's
        over the lanes that met it. "sum": the lanes' statistics at one theta are added for one step a round.
    batch_size : int, default=None
        Documents of a step: inside a lane for "mean" (None: 1), of a round for "sum" (None: 128).
    step_decay : float, default=1e-5
        lambda of the step size ``1 / (1 + lambda t)``, t counting documents.
    tolerance : float, default=1e-6
        A document whose largest class weight (``1 - p(y | d)`` for NCLL) is not above it asks for no step.
    prior_scale : float, default=1.0
        Multiplies the running prior correction gamma. The paper has 1.
    absence : float or "auto", default="auto"
        For "mean": how much a lane that did not meet a word counts towards keeping the word's row as it was, between
        0 (not at all) and 1 (like any other lane: the plain mean). "auto": 3 / n_classes for
        counts, 10 / n_classes for weights such as tf-idf, at most 1.
    average : bool, default=False
        Polyak-Ruppert averaging: the model is the mean of mu over all rounds after the first epoch. `partial_fit` goes
        on from the last mu, and does not average.
    n_blocks : int, default=None
        Parts of the vocabulary that are merged and updated apart, so that no worker has to do this for all words at
        once. Their number decides the order of a few additions, and so the last bits. None: one for each 256 MiB of the
        table of words and classes.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn.
    unlabelled : label, default=None
        The label, such as -1, of documents in memory whose class is not known; with ``loss="nll"``: `n_epochs` of EM.
    unlabelled_weight : float, default=1.0
        Weight of each of them.
    evaluate_every : int, default=1
        Record the losses over the training documents (and the validation documents) after every so many epochs; 0
        never.
    patience : int, default=None
        With validation documents: stop after so many evaluations in which their loss found no new minimum, and keep
        the parameters of the minimum.
    n_jobs : int, default=None
        Threads, where no Dask client is given. None: all cores. No bit of the result depends on it.
    random_state : int, RandomState instance or None, default=0
        Seed of the order of documents.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    feature_log_prob_ : ndarray of shape (n_classes, n_features)
        ln p(word | class).
    class_log_prior_ : ndarray of shape (n_classes,)
        ln p(class).
    n_features_in_ : int
    history_ : list of dict
        One entry an epoch: ``epoch``, ``seconds``, and where evaluated ``accuracy``, ``nll``, ``ncll``, ``hinge``
        (means a document) and ``perplexity`` (a word), with the prefix ``validation_`` for validation documents.
    n_iter_ : int
        Epochs run.
    vocabulary_ : list of str or None
        The words, where the training corpus names them.
    vectorizer_ : dict or None
        How the training corpus turned text into counts, so that the model predicts on raw text.
    idf_ : ndarray of shape (n_features,) or None
    damaged_shards_ : list of str
        What was wrong with each shard that `fit` left out, see its `skip_damaged`.

    References
    ----------
    Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 1, Algorithms 1 to 4.
    """

    def __init__(
        self,
        *,
        loss: str = "ncll",
        alpha: str | float = "laplace",
        fit_prior: bool = True,
        class_prior: Any = None,
        n_epochs: int = 15,
        n_lanes: int | None = None,
        rounds_per_epoch: int | None = None,
        merge: str = "mean",
        batch_size: int | None = None,
        step_decay: float = 1e-5,
        tolerance: float = 1e-6,
        prior_scale: float = 1.0,
        absence: float | str = "auto",
        average: bool = False,
        n_blocks: int | None = None,
        class_weight: Any = None,
        unlabelled: Any = None,
        unlabelled_weight: float = 1.0,
        evaluate_every: int = 1,
        patience: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.n_epochs = n_epochs
        self.n_lanes = n_lanes
        self.rounds_per_epoch = rounds_per_epoch
        self.merge = merge
        self.batch_size = batch_size
        self.step_decay = step_decay
        self.tolerance = tolerance
        self.prior_scale = prior_scale
        self.absence = absence
        self.average = average
        self.n_blocks = n_blocks
        self.class_weight = class_weight
        self.unlabelled = unlabelled
        self.unlabelled_weight = unlabelled_weight
        self.evaluate_every = evaluate_every
        self.patience = patience
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    _sparse = True
    _restore = staticmethod(restorer(Sdem, WordEm))

    def _train(self, source: inputs.Source, options: FitOptions) -> tuple[Any, Any, list[dict[str, float]]]:
        learner = settings.learner(self, source)
        plan = settings.plan(self, source.n_documents, learner.seed)
        plan = replace(plan, n_blocks=settings.blocks(self.n_blocks, source.n_features, len(source.classes)))
        return learner, *fit_state(self, learner, plan, source, options)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> MultinomialNB:
        """Go on with one more batch of documents: one pass of sdEM over it, from where the model stands.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes; needed at the first call.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        first = not hasattr(self, "_state")  # a first call that failed leaves classes_ behind
        source = inputs.partial_source(self, X, y, classes, sample_weight, first)
        if first:
            self.history_, self.n_iter_ = [], 0
            self._describe(source)
        state = settings.learner(self, source).init() if first else self._state
        learner = settings.learner(self, source, n_documents=state.t + source.weight)
        self._take(learner, one_pass(self, learner, source, state))
        self.n_iter_ += 1
        return self

    @property
    def feature_log_prob_(self) -> np.ndarray:
        """Ln p(word | class), shape (n_classes, n_features)."""
        check_is_fitted(self)
        return np.asarray((self._parameters.log_words - self._parameters.log_totals).T)

    @property
    def class_log_prior_(self) -> np.ndarray:
        """Ln p(class), shape (n_classes,)."""
        check_is_fitted(self)
        return log_class_prior(self._state, self._learner.model.log_prior)

    def _joint_log_proba(self, X: Any) -> np.ndarray:
        return joint_scores(self._parameters, inputs.prediction_documents(self, X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True
        return tags
