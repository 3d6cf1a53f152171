"""Clustering documents by a mixture of multinomials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from sdem_dist.corpus import Corpus
from sdem_dist.documents import Documents
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import Scoring, Stage, Stages, metrics_of, state_of
from sdem_dist.estimators import plans
from sdem_dist.estimators.base import EngineEstimator, Trained, final_stage
from sdem_dist.estimators.common_parameters import OfText, Seeded
from sdem_dist.estimators.feature_naive_bayes import drawn_from
from sdem_dist.estimators.mixture import positions_of, sample_counts, surveyed
from sdem_dist.estimators.parameters import estimator, integer, one_of, param, real
from sdem_dist.estimators.scoring import over_blocks, over_corpus
from sdem_dist.estimators.source import documents_of
from sdem_dist.estimators.spec import Spec
from sdem_dist.learners.em import WordEm
from sdem_dist.learners.starts import counts_at_examples, counts_by_k_means, rows_at
from sdem_dist.losses import marginal_log_likelihood
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores
from sdem_dist.models.word_counts import SdemState

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.estimators.source import Source

BATCH = 1024
"""Default documents of a step of ``training="online"``."""


@estimator
class MultinomialMixture(OfText, Seeded, ClusterMixin, EngineEstimator):
    """Clusters of documents: a mixture of multinomials over counts, fitted without labels by EM.

    Parameters
    ----------
    {parameters}

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
    vocabulary_, vectorizer_
        As of `MultinomialNB`.

    References
    ----------
    Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 2, NLL.

    Examples
    --------
    >>> from sdem_dist import MultinomialMixture
    >>> X = [[5, 1, 0, 0], [4, 2, 0, 1], [0, 0, 3, 4], [1, 0, 4, 5]] * 50
    >>> first, second, third, _ = MultinomialMixture(2).fit(X).predict(X[:4])
    >>> bool(first == second != third)
    True
    """

    n_components: int = param(8, integer(), "Clusters.", positional=True)
    training: str = param(
        "em", one_of("em", "online"), '"online": stochastic EM, a step for every `batch_size` documents.'
    )
    alpha: float = param(0.1, real(above=True), "Pseudo-count of each word in each cluster.")
    init: str = param(
        "k-means",
        one_of("k-means", "examples"),
        "Start at clusters of k-means in tf-idf of `init_documents` documents, or at random documents.",
    )
    n_init: int = param(10, integer(), "Starts of `n_init_epochs` each; that of the best objective goes on.")
    n_init_epochs: int = param(5, integer(), "Passes over the documents for each start.")
    init_documents: int = param(20_000, integer(), "Documents that k-means sees.")
    n_epochs: int = param(50, integer(), "Passes over the documents after that.")
    batch_size: int | None = param(None, integer(optional=True), 'Documents of a step of "online". None: 1,024.')
    evaluate_every: int = param(
        10,
        integer(0),
        "Record metrics after every so many epochs and after the last; 0: of `validation` documents alone, after each.",
    )

    spec = Spec(
        "sparse", "nothing", "cluster", shown=("nll", "perplexity"), words="component_log_prob_", shuffled=False
    )
    _monitor = "nll"

    def fit(self, X: object, y: object = None, sample_weight: object = None, **options: Any) -> MultinomialMixture:
        """Cluster documents in memory or of a corpus; labels play no part.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features), or Corpus
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
        **options
            As those of `sdem_dist.MultinomialNB.fit`: `client`, `validation`, `checkpoint`, `resume` and others.
        """
        super().fit(X, None, sample_weight, **options)
        if not isinstance(X, Corpus):
            self.labels_ = np.asarray(self.predict(X))
        return self

    def _check(self) -> None:
        if self.batch_size is not None and self.training == "em":
            raise ValueError("batch_size means nothing with training='em': leave it at None")
        if self.init == "k-means" and self.init_documents < self.n_components:
            raise ValueError(
                f"init_documents={self.init_documents} is too few for k-means to find n_components={self.n_components} "
                "clusters in: raise it"
            )

    def stages(self, source: Source) -> Stages[Trained]:
        """Yield short runs from several starts, and a long one from the best of them."""
        if source.n_documents < self.n_components:
            raise ValueError(f"n_samples={source.n_documents} should be >= n_components={self.n_components}")
        plan = plans.full_passes(source.n_documents, self.n_epochs, plans.seed_of(self.random_state))
        model = NaiveBayes(source.n_features, 1, float(self.alpha), owners=(0,) * int(self.n_components))
        learner = WordEm(model, source.weight, seed=plan.seed, rule="maximise")
        best, highest = None, -np.inf
        for number in range(self.n_init):
            which = f" {number + 1} of {self.n_init}" if self.n_init > 1 else ""
            state = yield from self._short_run(learner, plan, source, number, which)
            objective = 0.0
            if self.n_init > 1:
                objective = yield from self._objective(f"objective{which}", learner, state, source)
            if best is None or objective > highest:
                best, highest = state, objective
        if self.training == "online":
            learner = replace(learner, rule="online")
            plan = replace(plan, n_rounds=max(1, -(-source.n_documents // (self.batch_size or BATCH))), n_lanes=1)
        end = yield from final_stage(learner, plan, best)
        self.lower_bound_ = yield from self._objective("objective", learner, end.state, source)
        return end

    def _short_run(self, learner: WordEm, plan: Plan, source: Source, number: int, which: str) -> Stages[SdemState]:
        """Yield the stages of one of the starts: each has its own random numbers."""
        seed = learner.seed + (number << 20)
        once = replace(plan, n_epochs=1, seed=seed)
        n_examples = self.n_components if self.init == "examples" else self.init_documents
        survey = yield from surveyed(source, once, n_examples, name=f"survey{which}", labelled=False)
        if self.init == "examples":
            naive = replace(learner, model=replace(learner.model, owners=(0,)))
            words = (yield from state_of(Stage(f"words{which}", naive, once))).words
            numbers = (int(self.n_components),)

        def start() -> SdemState:
            corpus = source.corpus
            if self.init == "examples":
                examples = (rows_at(corpus, [p])[0] for p in positions_of(survey, numbers, source))
                return learner.start_at(*counts_at_examples(examples, numbers, words, (source.weight,)))
            positions = np.sort(survey.positions[np.isfinite(survey.keys)].astype(np.int64)).tolist()
            documents = Documents.concatenate([cast(Documents, corpus.read(p, p + 1)) for p in positions])
            return learner.start_at(*counts_by_k_means(documents, int(self.n_components), learner.model.alpha, seed))

        short = replace(plan, n_epochs=self.n_init_epochs)
        return (yield from state_of(Stage(f"start{which}", learner, short, start)))

    def _objective(self, name: str, learner: WordEm, state: SdemState, source: Source) -> Stages[float]:
        """Yield a scoring; return the mean of ln p(d) and the priors' shares a document.

        The priors are ``alpha ln p(word | cluster)`` and ``ln p(cluster)``.
        """
        nll = (yield from metrics_of(Scoring(name, learner, state)))["nll"]
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

    def _scores(self, X: object) -> np.ndarray:
        """Return ln p(cluster, d), shape (n_samples, n_components)."""
        return joint_scores(self._parameters, documents_of(self, X))

    def predict(self, X: object, client: Client | None = None) -> Any:
        """Return the most probable cluster of each document, shape (n_samples,), int64; a corpus is read piece by piece."""
        check_is_fitted(self)
        return over_blocks(self, X, lambda b: self._scores(b).argmax(axis=1), None, client)

    def predict_proba(self, X: object, client: Client | None = None) -> Any:
        """Return p(cluster | d), shape (n_samples, n_components)."""
        from scipy.special import softmax

        check_is_fitted(self)
        return over_blocks(self, X, lambda b: softmax(self._scores(b), axis=1), self.learner_.model.n_columns, client)

    def score_samples(self, X: object) -> np.ndarray:
        """Return ln p(d) of each document, without the multinomial coefficient, shape (n_samples,)."""
        check_is_fitted(self)
        return over_corpus(self, X, lambda b: marginal_log_likelihood(self._scores(b)))

    def score(self, X: object, y: object = None) -> float:
        """Return the mean of ln p(d) of documents in memory or of a corpus."""
        if isinstance(X, Corpus):
            return -self.evaluate(X)["nll"]
        return float(self.score_samples(X).mean())

    def bic(self, X: object) -> float:
        """Return the Bayesian information criterion on documents in memory or of a corpus; the lower the better."""
        check_is_fitted(self)
        n_components = self.learner_.model.n_columns
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
        drawn, rng = drawn_from(self.component_log_prior_, n_samples, random_state)
        return sample_counts(self.component_log_prob_, drawn, length, rng), drawn

    def extra(self) -> dict[str, object]:
        """Return the objective."""
        return {"lower_bound": float(self.lower_bound_)}

    def take_extra(self, extra: Mapping[str, Any]) -> None:
        """Take back what `extra` returned."""
        self.lower_bound_ = float(extra["lower_bound"])
