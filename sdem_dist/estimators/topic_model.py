"""What the topic models by mirror descent share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sdem_dist.documents import Documents
from sdem_dist.engine.plan import Plan
from sdem_dist.errors import OtherRunError
from sdem_dist.estimators import inputs, topic_settings
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.fitting import FitOptions, fit_state, run_quietly
from sdem_dist.estimators.restoring import restorer
from sdem_dist.estimators.scoring import over_documents
from sdem_dist.estimators.signatures import share_parameters
from sdem_dist.learners.bp_slda import BpSlda
from sdem_dist.learners.local_words import entries
from sdem_dist.learners.words import Words, WordSummary

if TYPE_CHECKING:
    from sdem_dist.estimators.topics import Topic


class TopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, EngineEstimator):
    """Base of the topic models: the parameters that its subclasses take beside their own.

    Parameters
    ----------
    n_components : int, default=20
        K, the topics.
    alpha : float, default=1.001
        Of the Dirichlet prior of a document's topics. From 1 on finding them is a convex problem; below, they are
        sparser.
    beta : float, default=1.0
        Of the Dirichlet prior of a topic's words, not below 1. Above 1 every batch moves every word.
    n_layers : int, default=10
        L, steps of mirror descent towards a document's topics.
    inference_step : float, default=1.0
        Length T of these steps, times the words of the document and its ``n_components * (alpha - 1)`` pseudo-counts; with
        `line_search` half of what is tried first.
    line_search : bool, default=False
        Find each step by line search (Algorithm 1).
    topic_rate : float, default=None
        mu_0 of Algorithm 2; it falls linearly to 0 over the epochs. None: 0.1 for classes, 0.3 for real targets, times
        ``25_000 / n_samples`` where there are more, so that an epoch's steps together stay as long.
    n_epochs : int, default=4
        Passes over the documents.
    average_from : int, default=1
        The model is the mean of the parameters over all batches from this epoch on, counted from 0; without such a batch
        it is the last parameters.
    merge : {"mean", "sum"}, default="mean"
        "mean": each lane runs Algorithm 2 over its documents, and the lanes' parameters are averaged. "sum": a round is
        one batch, whose gradients the lanes share out: Algorithm 2 itself.
    batch_size : int, default=None
        Documents of a step: inside a lane for "mean", of a round for "sum". None: 100, shared out among the lanes, but 10
        a lane at least.
    n_lanes : int, default=None
        Lanes of a round. None: a function of the number of documents, never of the cluster.
    rounds_per_epoch : int, default=None
        Merges an epoch, for "mean". None: 1.
    evaluate_every : int, default=1
        Record metrics of the training documents (and the validation documents) after every so many epochs; 0 never.
    patience : int, default=None
        With validation documents: stop after so many evaluations without a new best one, and keep the best.
    n_jobs : int, default=None
        Threads, where no Dask client is given. No bit of the result depends on it.
    random_state : int, RandomState instance or None, default=0
        Seed of the topics' first noise and of the order of documents.
    verbose : bool, default=False

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        p(word | topic).
    n_features_in_ : int
    history_ : list of dict
        One entry an epoch, see `sdem_dist.learners.bp_slda.BpSlda.metrics`.
    n_iter_ : int
        Epochs run.
    vocabulary_ : list of str or None
        The words, where the training corpus names them.
    """

    _sparse = True
    _restore = staticmethod(restorer(BpSlda))

    _topic_rate = 0.1

    def __init__(
        self,
        *,
        n_components: int = 20,
        alpha: float = 1.001,
        beta: float = 1.0,
        n_layers: int = 10,
        inference_step: float = 1.0,
        line_search: bool = False,
        topic_rate: float | None = None,
        n_epochs: int = 4,
        average_from: int = 1,
        merge: str = "mean",
        batch_size: int | None = None,
        n_lanes: int | None = None,
        rounds_per_epoch: int | None = None,
        evaluate_every: int = 1,
        patience: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.beta = beta
        self.n_layers = n_layers
        self.inference_step = inference_step
        self.line_search = line_search
        self.topic_rate = topic_rate
        self.n_epochs = n_epochs
        self.average_from = average_from
        self.merge = merge
        self.batch_size = batch_size
        self.n_lanes = n_lanes
        self.rounds_per_epoch = rounds_per_epoch
        self.evaluate_every = evaluate_every
        self.patience = patience
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give a subclass's ``**shared`` their names."""
        super().__init_subclass__(**kwargs)
        share_parameters(cls, TopicModel)

    @abstractmethod
    def _kind(self, source: inputs.Source, summary: WordSummary) -> dict[str, Any]:
        """Return the learner's settings of what it learns."""

    def _train(self, source: inputs.Source, options: FitOptions) -> tuple[Any, Any, list[dict[str, float]]]:
        topic_settings.check(self)
        plan = topic_settings.plan(self, source.n_documents)
        once = Plan(plan.n_documents, 1, 1, plan.n_lanes, plan.seed)
        counting = Words(source.n_features, source.corpus.header.n_targets, getattr(self, "log_counts", False))
        summary = run_quietly(counting, once, source, options.client, self.n_jobs)
        learner = topic_settings.learner(self, source, plan, **self._kind(source, summary))
        initial = learner.start(summary.frequencies)
        try:
            return learner, *fit_state(self, learner, plan, source, options, initial)
        except OtherRunError as error:
            raise OtherRunError(
                f"{error}. n_epochs is one of them here: rates fall to 0 over the whole run, so that one of more epochs is "
                "no continuation of it; train it anew, in a folder of its own"
            ) from error

    @property
    def components_(self) -> np.ndarray:
        """p(word | topic), shape (n_components, n_features)."""
        check_is_fitted(self)
        return np.asarray(self._parameters.topics.T)

    @property
    def _n_features_out(self) -> int:
        return int(self._learner.n_topics)

    def _documents(self, X: Any) -> Documents:
        """Return documents in memory as the model sees them."""
        documents = inputs.prediction_documents(self, X)
        return replace(documents, data=entries(documents.data, self._learner.log_counts))

    def _proportions(self, X: Any) -> np.ndarray:
        return np.asarray(self._learner.inference.proportions(self._parameters.topics, self._documents(X))[0])

    def transform(self, X: Any) -> Any:
        """Return the topic proportions of documents, shape (n_samples, n_components).

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features), or Corpus
            For a dask array the result is one too, computed block by block. A corpus is read piece by piece, in this
            process; rows come in its order, see `sdem_dist.corpus.Corpus.ids`.
        """
        check_is_fitted(self)
        return over_documents(self, X, self._proportions, self._n_features_out)

    def _topic_labels(self) -> list[Any]:
        """Return what each topic says of what is to be predicted."""
        return [None] * self._n_features_out

    def topics(self, n_words: int = 10) -> list[Topic]:
        """Return all topics with their words, in the order of `components_`, see `sdem_dist.estimators.topics.Topic`."""
        from sdem_dist.estimators.topics import topics_of_documents

        check_is_fitted(self)
        return topics_of_documents(self, self._topic_labels(), n_words)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags
