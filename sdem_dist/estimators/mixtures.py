"""Mixtures without labels: of multinomials, Gaussians or exponentials."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, cast

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from sdem_dist.corpus import Corpus
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators.answers import Clustering, SampledDocuments, SampledRows, WithDensity
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.parameters import (
    EVALUATE_EVERY,
    EmSettings,
    OfText,
    Seeded,
    check_em,
    em_form,
    em_plan,
    estimator,
    integer,
    one_of,
    param,
    real,
)
from sdem_dist.fitting import plans
from sdem_dist.fitting.defaults import EM_CONVERGED
from sdem_dist.fitting.mixture_starts import ClusterKind, RowClusters, WordClusters
from sdem_dist.fitting.scoring import over_blocks
from sdem_dist.inputs.source import Source
from sdem_dist.inputs.spec import Extra, Spec, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners.column_blocks import Kind, moments
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.models.naive_bayes import pseudo_count

if TYPE_CHECKING:
    from distributed import Client


@estimator
class ClusterMixture(EmSettings, Seeded, WithDensity, Clustering, EngineEstimator, Generic[ClusterKind]):
    """Base of mixtures without labels."""

    n_components: int = param(8, integer(), "Clusters.", positional=True)
    init: str = param(
        "k-means",
        one_of("k-means", "examples"),
        "Start at clusters of k-means of `init_documents` documents (of counts in tf-idf), or at random documents.",
    )
    n_init: int = param(10, integer(), "Starts of `n_init_epochs` each; that of the best objective goes on.")
    n_init_epochs: int = param(5, integer(), "Passes over the documents for each start.")
    init_documents: int = param(20_000, integer(), "Documents that k-means sees.")
    n_epochs: int = param(50, integer(), "Passes over the documents after that.")
    evaluate_every: int = param(10, *EVALUATE_EVERY)

    _monitor = "nll"
    _learned: ClassVar[Mapping[str, str]] = {
        "lower_bound_": "float\n"
        "The objective per document: mean ln p(d) and the prior's share. Restarts are chosen by it."
    }

    def _check(self) -> None:
        check_em(self)
        if self.init == "k-means" and self.init_documents < self.n_components:
            raise ValueError(
                f"init_documents={self.init_documents} is too few for k-means to find n_components={self.n_components} "
                "clusters in: raise it"
            )

    @property
    @abstractmethod
    def _kind(self) -> ClusterKind:
        """What clusters are."""

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run short runs from several starts, and a long one from the best of them."""
        if source.n_documents < self.n_components:
            raise ValueError(f"n_samples={source.n_documents} should be >= n_components={self.n_components}")
        plan = plans.full_passes(source.n_documents, self.n_epochs, seed_of(self.random_state))
        kind, form = self._kind, em_form(self)
        learner = kind.learner(trainer, source, plan, form)
        # Starts are compared after exact EM: one draw, or a batch, says little of them.
        exact = replace(form, kind="soft", annealing=1.0)
        short = learner if form.rises else replace(learner, rule=replace(cast(ClosedForm, learner.rule), form=exact))
        best, highest = None, -np.inf
        for number in range(self.n_init):
            which = f" {number + 1} of {self.n_init}" if self.n_init > 1 else ""
            once = replace(plan, n_epochs=1, seed=plan.seed + (number << 20))
            stage = kind.started(trainer, short, once, source, which)
            state = trainer.run(replace(stage, plan=replace(plan, n_epochs=self.n_init_epochs))).state
            objective = 0.0
            if self.n_init > 1:
                objective = self._objective(trainer, f"objective{which}", learner, state, source)
            if best is None or objective > highest:
                best, highest = state, objective
        end = final_stage(trainer, learner, em_plan(self, plan), best)
        self.lower_bound_ = self._objective(trainer, "objective", learner, end.state, source)
        return end

    def _objective(self, trainer: Trainer, name: str, learner: Any, state: Any, source: Source) -> float:
        """Run a scoring; return the mean of ln p(d) and the priors' shares a document."""
        nll = trainer.score(name, learner, state)["nll"]
        return self._kind.prior_share(learner, state) / source.weight - nll

    @property
    def converged_(self) -> bool | None:
        """Whether a pass gained under 0.001 nats a document, in the mean of those between the last evaluations.

        None where fewer than two passes were evaluated.
        """
        check_is_fitted(self)
        evaluated = [(entry["epoch"], entry["nll"]) for entry in self.history_ if "nll" in entry]
        if len(evaluated) < 2:
            return None
        (before, high), (after, low) = evaluated[-2:]
        return bool(high - low < EM_CONVERGED * (after - before))

    @property
    def component_log_prior_(self) -> np.ndarray:
        """Logarithm of p(cluster), shape (n_components,)."""
        check_is_fitted(self)
        return np.asarray(self._parameters.log_prior)

    def _joint_log_proba(self, X: object) -> np.ndarray:
        return self._kind.log_joint(self, X)

    def _clusters(self, X: object) -> np.ndarray:
        return self._joint_log_proba(X).argmax(axis=1)

    def predict_proba(self, X: object, client: Client | None = None) -> Any:
        """Return p(cluster | d), shape (n_samples, n_components); `X` and `client` as for `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_components), float64
        """
        check_is_fitted(self)
        n_components = len(self.learner_.head.component_class)
        return over_blocks(self, X, lambda b: softmax(self._joint_log_proba(b), axis=1), n_components, client)

    def score(self, X: object, y: object = None) -> float:
        """Return the mean of ln p(d) of documents in memory or of a corpus.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), texts, or Corpus
        y : ignored

        Returns
        -------
        float
            In nats per document.
        """
        if isinstance(X, Corpus):
            return -self.evaluate(X)["nll"]
        return float(self.score_samples(X).mean())

    def bic(self, X: object) -> float:
        """Return the Bayesian information criterion on documents in memory or of a corpus; the lower the better.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), texts, or Corpus

        Returns
        -------
        float
        """
        check_is_fitted(self)
        scores = np.full(X.n_documents, self.score(X)) if isinstance(X, Corpus) else self.score_samples(X)
        return float(self._kind.n_parameters(self) * np.log(len(scores)) - 2.0 * scores.sum())

    def extra(self) -> dict[str, object]:
        return {"lower_bound": float(self.lower_bound_)}

    def take_extra(self, extra: Extra) -> None:
        self.lower_bound_ = float(extra["lower_bound"])


@estimator
class MultinomialMixture(OfText, SampledDocuments, ClusterMixture[WordClusters]):
    """Clusters of documents: a mixture of multinomials over counts, fitted without labels by EM.

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

    alpha: float = param(0.1, real(), "Pseudo-count of each word in each cluster; 0 stands for 1e-10.")
    weight_alpha: float = param(
        1.0, real(), "Pseudo-count of each cluster in the clusters' weights: 0 for maximum likelihood."
    )

    spec = Spec(
        "sparse", "nothing", "cluster", shown=("nll", "perplexity"), words="component_log_prob_", shuffled=False
    )

    @property
    def _kind(self) -> WordClusters:
        alpha = pseudo_count(self.alpha, 0)
        return WordClusters(
            int(self.n_components), alpha, float(self.weight_alpha), self.init, int(self.init_documents)
        )

    def _check(self) -> None:
        super()._check()
        if self.weight_alpha == 0 and self.em == "variational":
            raise ValueError("em='variational' needs a prior: weight_alpha must be positive with it")

    @property
    def component_log_prob_(self) -> np.ndarray:
        """Logarithm of p(word | cluster), shape (n_components, n_features)."""
        check_is_fitted(self)
        return np.asarray((self._parameters.log_words - self._parameters.log_totals).T)


@estimator
class OfRows(SampledRows):
    """What mixtures over columns of a table have beside the others: families of the columns."""

    alpha: float = param(1.0, real(above=True), "Observations of the column's mean (and variance) that the prior adds.")

    spec = Spec("dense", "nothing", "cluster", shown=("nll", "perplexity"), shuffled=False)
    _family: ClassVar[str]

    if TYPE_CHECKING:
        n_components: int
        init: str
        init_documents: int

    @property
    def _kind(self) -> RowClusters:
        kind = Kind(self._family, float(self.alpha))
        return RowClusters(int(self.n_components), kind, self.init, int(self.init_documents))

    @property
    def weights_(self) -> np.ndarray:
        """Shares of the clusters, shape (n_components,)."""
        check_is_fitted(self)
        return np.exp(self._parameters.log_prior)


@estimator
class GaussianMixture(OfRows, ClusterMixture[RowClusters]):
    """Clusters of rows: a mixture of Gaussians with diagonal covariances, fitted without labels by EM.

    Missing values (NaN) are summed out.

    References
    ----------
    Dempster, A., Laird, N. and Rubin, D. (1977). Maximum Likelihood from Incomplete Data via the EM Algorithm. JRSS B.

    Examples
    --------
    >>> from sdem_dist import GaussianMixture
    >>> X = [[0.0, 0.1], [0.2, 0.0], [5.0, 5.1], [5.2, float("nan")]] * 20
    >>> first, second, third, fourth = GaussianMixture(2).fit(X).predict(X[:4])
    >>> bool(first == second != third == fourth)
    True
    """

    _family = "gaussian"

    @property
    def means_(self) -> np.ndarray:
        """Mean of each cluster and column, shape (n_components, n_features)."""
        check_is_fitted(self)
        return moments(self.learner_.model.variables.blocks[0], self._parameters.theta)[0]

    @property
    def covariances_(self) -> np.ndarray:
        """Variance of each cluster and column, shape (n_components, n_features)."""
        check_is_fitted(self)
        return moments(self.learner_.model.variables.blocks[0], self._parameters.theta)[1]


@estimator
class ExponentialMixture(OfRows, ClusterMixture[RowClusters]):
    """Clusters of rows of numbers from 0 on: a mixture of exponential distributions, fitted without labels by EM.

    Missing values (NaN) are summed out.

    Examples
    --------
    >>> from sdem_dist import ExponentialMixture
    >>> X = [[1.0, 0.1], [2.0, 0.2], [0.1, 3.0], [0.2, 2.5]] * 20
    >>> first, second, third, fourth = ExponentialMixture(2).fit(X).predict(X[:4])
    >>> bool(first == second != third == fourth)
    True
    """

    spec = replace(OfRows.spec, positive=True)
    _family = "exponential"

    @property
    def means_(self) -> np.ndarray:
        """Mean of each cluster and column, shape (n_components, n_features)."""
        check_is_fitted(self)
        block = self.learner_.model.variables.blocks[0]
        return np.asarray(-1.0 / self._parameters.theta * np.asarray(block.scale))
