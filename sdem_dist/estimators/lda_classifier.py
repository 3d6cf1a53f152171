"""A classifier whose classes are LDA models, trained by sdEM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sdem_dist.estimators import inputs, lda_settings, settings
from sdem_dist.estimators.classifier import SdemClassifier
from sdem_dist.estimators.fitting import FitOptions, fit_state
from sdem_dist.estimators.restoring import restorer
from sdem_dist.estimators.scoring import over_documents
from sdem_dist.learners.sdem import Sdem
from sdem_dist.models.lda import joint_scores, log_word_probabilities

if TYPE_CHECKING:
    from sdem_dist.estimators.topics import Topic


class LDAClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SdemClassifier):
    """A classifier whose classes are LDA models with topics of their own, trained by sdEM.

    A document draws topic proportions from a Dirichlet distribution, and each word a topic of the document's class. With one
    topic a class this is `MultinomialNB` (but NLL counts its prior twice, in the start and in gamma). Discriminative
    training lowers the conditional losses; it gives the topics of a class little reason to differ. For topics that say what
    a class is about take ``loss="nll"``.

    Parameters
    ----------
    loss : {"ncll", "hinge", "nll"}, default="ncll"
        ``-ln p(y | d)``, the hinge loss, or ``-ln p(y, d)``, whose steps only add expected counts, whatever `merge` says.
    n_topics : int, default=2
        Of each class.
    topic_word_prior : float, default=1.0
        eta: the topics of a class share this pseudo-count of each word. The paper has 0.1.
    doc_topic_prior : float, default=None
        alpha, of the Dirichlet prior of a document's topic proportions. None: 1 / n_topics.
    inference : {"map", "gibbs"}, default="map"
        Of a document's topics under a class: maximum a posteriori proportions by EM, which is smooth and fast, or
        collapsed Gibbs sampling (equation 18), as the paper.
    occurrences : {"shared", "paper", "each"}, default="shared"
        When sampling: the occurrences of a word in a document draw one topic from their exact conditional, or from
        equation 18 taken literally, or each draws its own, which needs whole counts.
    n_sweeps, burn_in : int, default=10, None
        Sweeps over a document, and those at the beginning of which sampling keeps nothing (None: 3, or all but one).
    n_particles : int, default=0
        Particles of the left-to-right estimate of ln p(d | y) (Wallach et al. 2009), which is consistent and slow; 0 takes
        what inference gives, for sampling the plug-in estimate.
    init_noise : float, default=0.1
        The start of each count is multiplied by ``exp(init_noise * normal)``, so that the topics can part.
    n_epochs : int, default=10
    fit_prior, class_prior, n_lanes, rounds_per_epoch, merge, step_decay, tolerance, prior_scale, absence, class_weight, \
    evaluate_every, patience, n_jobs, random_state, verbose
        As for `MultinomialNB`. Classes whose weight is not above `tolerance` are not updated.
    batch_size : int, default=None
        Documents of a round for ``merge="sum"`` (None: 128), whatever the loss.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    components_ : ndarray of shape (n_classes * n_topics, n_features)
        p(word | topic, class), class by class.
    class_log_prior_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    history_, n_iter_, vocabulary_, vectorizer_, idf_, damaged_shards_
        As for `MultinomialNB`.

    References
    ----------
    Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Section 4.2, Algorithms 5 to 7.
    """

    _sparse = True
    _restore = staticmethod(restorer(Sdem))

    def __init__(
        self,
        *,
        loss: str = "ncll",
        n_topics: int = 2,
        topic_word_prior: float = 1.0,
        doc_topic_prior: float | None = None,
        inference: str = "map",
        occurrences: str = "shared",
        n_sweeps: int = 10,
        burn_in: int | None = None,
        n_particles: int = 0,
        init_noise: float = 0.1,
        fit_prior: bool = True,
        class_prior: Any = None,
        n_epochs: int = 10,
        n_lanes: int | None = None,
        rounds_per_epoch: int | None = None,
        merge: str = "mean",
        batch_size: int | None = None,
        step_decay: float = 1e-5,
        tolerance: float = 1e-6,
        prior_scale: float = 1.0,
        absence: float | str = "auto",
        class_weight: Any = None,
        evaluate_every: int = 1,
        patience: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.n_topics = n_topics
        self.topic_word_prior = topic_word_prior
        self.doc_topic_prior = doc_topic_prior
        self.inference = inference
        self.occurrences = occurrences
        self.n_sweeps = n_sweeps
        self.burn_in = burn_in
        self.n_particles = n_particles
        self.init_noise = init_noise
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
        self.class_weight = class_weight
        self.evaluate_every = evaluate_every
        self.patience = patience
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _train(self, source: inputs.Source, options: FitOptions) -> tuple[Any, Any, list[dict[str, float]]]:
        learner = lda_settings.learner(self, source)
        plan = lda_settings.plan(self, source.n_documents, learner.seed)
        n_columns = learner.model.n_columns
        plan = replace(plan, n_blocks=settings.blocks(None, source.n_features, n_columns))
        return learner, *fit_state(self, learner, plan, source, options)

    @property
    def components_(self) -> np.ndarray:
        """p(word | topic, class), shape (n_classes * n_topics, n_features)."""
        check_is_fitted(self)
        return np.exp(log_word_probabilities(self._parameters)).reshape(-1, self.n_features_in_)

    @property
    def class_log_prior_(self) -> np.ndarray:
        """Ln p(class), shape (n_classes,)."""
        check_is_fitted(self)
        return np.asarray(self._parameters.log_prior)

    @property
    def _n_features_out(self) -> int:
        return self._learner.model.n_columns

    def _scored(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        documents = inputs.prediction_documents(self, X)
        learner = self._learner
        return joint_scores(
            self._parameters, documents, np.arange(documents.n_features), learner.model.inference, learner.seed
        )

    def _joint_log_proba(self, X: Any) -> np.ndarray:
        return self._scored(X)[0]

    def transform(self, X: Any) -> Any:
        """Return p(class, topic | document), shape (n_samples, n_classes * n_topics), in the order of `components_`.

        The posterior of the class times the document's topic proportions under it; rows sum to 1.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features), or Corpus
            For a dask array the result is one too, computed block by block. A corpus is read piece by piece, in this
            process; rows come in its order, see `sdem_dist.corpus.Corpus.ids`.
        """

        def shares(block: Any) -> np.ndarray:
            scores, proportions = self._scored(block)
            joint = proportions.swapaxes(1, 2) * softmax(scores, axis=1)[:, :, None]
            return joint.reshape(len(scores), -1)

        check_is_fitted(self)
        return over_documents(self, X, shares, self._n_features_out)

    def topics(self, n_words: int = 10) -> list[Topic]:
        """Return the topics of all classes with their words, see `sdem_dist.estimators.topics.Topic`."""
        from sdem_dist.estimators.topics import topics_of_classes

        check_is_fitted(self)
        return topics_of_classes(self, n_words)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True
        return tags
