"""Clustering documents by a mixture of multinomials."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from sdem_dist.documents import Documents
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import AnyStage, Stage, Stages, state_of
from sdem_dist.estimators.clusters import ClusterMixture
from sdem_dist.estimators.common_parameters import OfText
from sdem_dist.estimators.em_settings import em_form
from sdem_dist.estimators.parameters import estimator, param, real
from sdem_dist.fitting.drawing import drawn_from, sample_counts
from sdem_dist.fitting.mixture_starts import positions_of, sampled_positions, surveyed
from sdem_dist.inputs.source import documents_of
from sdem_dist.inputs.spec import Spec
from sdem_dist.learners.em import WordEm
from sdem_dist.learners.starts import counts_at_examples, counts_by_k_means, rows_at
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores
from sdem_dist.models.word_counts import SdemState

if TYPE_CHECKING:
    from sdem_dist.inputs.source import Source


@estimator
class MultinomialMixture(OfText, ClusterMixture[WordEm, SdemState]):
    """Clusters of documents: a mixture of multinomials over counts, fitted without labels by EM.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

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

    alpha: float = param(0.1, real(above=True), "Pseudo-count of each word in each cluster.")

    spec = Spec(
        "sparse", "nothing", "cluster", shown=("nll", "perplexity"), words="component_log_prob_", shuffled=False
    )

    def _em(self, source: Source, plan: Plan) -> Stages[WordEm]:
        model = NaiveBayes(source.n_features, 1, float(self.alpha), owners=(0,) * int(self.n_components))
        yield from ()
        return WordEm(model, source.weight, seed=plan.seed, rule="maximise", form=em_form(self))

    def _started(self, learner: WordEm, once: Plan, source: Source, which: str) -> Stages[AnyStage]:
        n_examples = self.n_components if self.init == "examples" else self.init_documents
        survey = yield from surveyed(source, once, n_examples, name=f"survey{which}", labelled=False)
        if self.init == "examples":
            naive = WordEm(NaiveBayes(source.n_features, 1, float(self.alpha), owners=(0,)), source.weight)
            words = (yield from state_of(Stage(f"words{which}", naive, once))).words
            numbers = (int(self.n_components),)

        def start() -> SdemState:
            corpus = source.corpus
            if self.init == "examples":
                examples = (rows_at(corpus, [p])[0] for p in positions_of(survey, numbers, source))
                return learner.start_at(*counts_at_examples(examples, numbers, words, (source.weight,)))
            documents = Documents.concatenate(
                [cast(Documents, corpus.read(p, p + 1)) for p in sampled_positions(survey)]
            )
            found = counts_by_k_means(documents, int(self.n_components), learner.model.alpha, once.seed)
            return learner.start_at(*found)

        return Stage(f"start{which}", learner, once, start)

    def _prior_share(self, learner: WordEm, state: SdemState) -> float:
        """Return ``alpha ln p(word | cluster)`` and ``ln p(cluster)``, summed."""
        parameters = learner.model.parameters(state)
        share = learner.model.alpha * float((parameters.log_words - parameters.log_totals).sum())
        return share + learner.model.class_alpha * float(parameters.log_prior.sum())

    @property
    def component_log_prob_(self) -> np.ndarray:
        """Ln p(word | cluster), shape (n_components, n_features)."""
        check_is_fitted(self)
        return np.asarray((self._parameters.log_words - self._parameters.log_totals).T)

    def _joint_log_proba(self, X: object) -> np.ndarray:
        return joint_scores(self._parameters, documents_of(self, X))

    @property
    def _n_parameters(self) -> int:
        n_components = self.learner_.model.n_columns
        return int(n_components - 1 + n_components * (self.n_features_in_ - 1))

    def sample(
        self, n_samples: int = 1, random_state: object = None, *, length: int = 100
    ) -> tuple[sp.csr_matrix, np.ndarray]:
        """Draw documents of `length` words, and their clusters.

        Returns
        -------
        X : CSR matrix of shape (n_samples, n_features)
        labels : ndarray of shape (n_samples,)

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
        length : int, default=100
            Words of each document.
        """
        check_is_fitted(self)
        drawn, rng = drawn_from(self.component_log_prior_, n_samples, random_state)
        return sample_counts(self.component_log_prob_, drawn, length, rng), drawn
