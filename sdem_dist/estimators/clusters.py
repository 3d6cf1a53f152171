"""Clustering: mixtures of multinomials, Gaussians or exponentials by EM, and k-means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.special import softmax
from sklearn.base import ClusterMixin

from sdem_dist.documents import DenseDocuments
from sdem_dist.engine.plan import Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.predictions import Transforming, WithDensity
from sdem_dist.estimators.tables import GaussianNB, TableEstimator
from sdem_dist.families import Family
from sdem_dist.fitting import defaults, plans
from sdem_dist.fitting.running import Client, evaluate_source, over_blocks
from sdem_dist.inputs.source import Source, documents_of, source_of, table_of
from sdem_dist.inputs.spec import Spec, Trained, final_stage
from sdem_dist.learners import rules, starts, surveys, variables
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.em import TRIES, Centres, EmForm, KMeansState, k_means
from sdem_dist.models.weighting import Weighting
from sdem_dist.models.word_counts import state_at
from sdem_dist.text.vectorizer import VectorizerSettings


class Clustering(ClusterMixin, EngineEstimator):
    """Base of clustering without labels: `fit` ignores `y`.

    init_documents -- Number of random documents that k-means uses for initialization.
    labels_ : ndarray of shape (n_samples,) -- Clusters of the training documents, if they were in memory;
        not saved in files. For a corpus, use `predict`.
    """

    init_documents: int = 20_000
    evaluate_every: int = 10

    _number = "n_components"  # name of the parameter for the number of clusters

    def _describe(self, source: Source) -> None:
        super()._describe(source)
        if source.n_documents < (n_clusters := getattr(self, self._number)):
            raise ValueError(f"n_samples={source.n_documents} should be >= {self._number}={n_clusters}")
        if self.init_documents < n_clusters:
            raise ValueError(f"init_documents={self.init_documents} must be at least {self._number}")

    def predict(self, X: object, client: Client | None = None) -> Any:
        """Return the nearest or most probable cluster of each document, int64 of shape (n_samples,)."""
        return over_blocks(self, X, lambda b: self._joint_log_proba(b).argmax(axis=1), None, client)


class ClusterMixture(Clustering, TableEstimator, WithDensity):  # this order sets the default of `evaluate_every`
    """Base of mixtures without labels.

    alpha -- Weight of the prior, as a number of observations with the mean and variance of the column ("poisson": with
        mean 1). Without means: pseudo-count of each value.
    n_components -- Number of clusters.
    n_init -- Number of initializations by k-means (on tf-idf for counts), each with `n_init_epochs`. Training continues
        from the best objective.
    n_init_epochs -- Epochs of each initialization.
    n_epochs -- Epochs after the best initialization.
    batch_size : int | None with em=online -- Documents per step, with "online". None: 1,024.
    lower_bound_ : float -- Objective per document: mean ln p(d) plus the prior term. It selects the initialization.

    >>> from sdem_dist import ClusterMixture
    >>> X = [[5, 1, 0, 0], [4, 2, 0, 1], [0, 0, 3, 4], [1, 0, 4, 5]] * 50
    >>> first, second, third, _ = ClusterMixture(2).fit(X).predict(X[:4])
    >>> bool(first == second != third)
    True
    """

    alpha: p.Positive = 1.0
    n_components: int = 8
    n_init: int = 10
    n_init_epochs: int = 5
    n_epochs: int = 50
    em: str = "soft"
    em_step: float | None = None
    batch_size: int | None = None
    annealing: float = 1.0

    spec = Spec("dense", "nothing", "cluster", ("nll", "perplexity"), "component_log_prob_", shuffled=False)
    _monitor, _saved = "nll", {"lower_bound": ""}

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run EM briefly from several initializations, and continue from the best one."""
        words, (form, plan, long) = self._layout == "sparse", plans.em_of(self, source)
        learner: Any = plans.mixture(self, trainer, source, plan, (int(self.n_components),), form)
        # Starts are compared after exact EM: one draw or one batch is too noisy.
        exact = replace(form, kind="soft", annealing=1.0)
        short = learner if form.rises else replace(learner, rule=replace(learner.rule, form=exact))

        def objective_at(name: str, state: Any) -> float:
            """Score all documents; return the mean of ln p(d) plus ln p(parameters) per document."""
            nll = trainer.score(name, learner, state)["nll"]
            return float(learner.model.log_prior_density(state) / source.weight - nll)

        def at_clusters(survey: surveys.SurveyResult, seed: int) -> Any:
            drawn, n, model = plans.drawn_documents(source.documents, survey), int(self.n_components), learner.model
            if words:
                return state_at(*starts.counts_by_k_means(drawn, n, model.alpha, seed))
            rows = np.ascontiguousarray(drawn.values, np.float64)
            return starts.features_by_k_means(rows, n, model.variables, source.weight, seed)

        best, highest = None, -np.inf
        for number in range(self.n_init):
            which = f" {number + 1} of {self.n_init}" if self.n_init > 1 else ""
            once = replace(plan, seed=plan.seed + (number << 20))
            survey = plans.surveyed(trainer, source, once, self.init_documents, f"survey{which}", labelled=False)
            start = partial(at_clusters, survey, once.seed)
            state = trainer.run(Stage(f"start{which}", short, replace(plan, n_epochs=self.n_init_epochs), start)).state
            objective = objective_at(f"objective{which}", state) if self.n_init > 1 else 0.0
            if best is None or objective > highest:
                best, highest = state, objective
        end = final_stage(trainer, learner, long, best)
        self.lower_bound_ = objective_at("objective", end.state)
        return end

    @property
    def converged_(self) -> bool | None:
        """Whether the last two evaluations, if any, differ by less than 0.001 nats per document and epoch."""
        gains = np.diff([(entry["epoch"], -entry["nll"]) for entry in self.history_ if "nll" in entry], axis=0)
        return bool(gains[-1, 1] < defaults.EM_CONVERGED * gains[-1, 0]) if len(gains) else None

    weights_ = p.fitted(lambda model: np.exp(model.component_log_prior_), "p(cluster), shape (n_components,).")
    component_log_prior_ = p.fitted("_parameters.log_prior", "Logarithm of p(cluster), shape (n_components,).")

    def predict_proba(self, X: object, client: Client | None = None) -> Any:
        """Return p(cluster | d), shape (n_samples, n_components)."""
        n_components = len(self.learner_.head.component_class)
        return over_blocks(self, X, lambda b: softmax(self._joint_log_proba(b), axis=1), n_components, client)

    def score(self, X: object, y: object = None) -> float:
        """Return the mean of ln p(d) for documents in memory or a corpus, in nats."""
        return -evaluate_source(self, source_of(self, X, use="score"), None)["nll"]

    def bic(self, X: object) -> float:
        """Return the Bayesian information criterion on documents in memory or a corpus; lower is better."""
        source, n_parameters = source_of(self, X, use="score"), self.n_components * self.n_features_in_ - 1
        if self._layout == "dense":
            n_parameters = self.n_components - 1 + self._parameters.theta.size
        return float(n_parameters * np.log(source.n_documents) - 2.0 * source.n_documents * self.score(source))

    means_ = p.fitted("_means", "Means of columns, shape (n_components, n_features); NaN if categorical.")
    component_log_prob_ = p.fitted("_parameters.log_probabilities", "ln p(word | cluster), shaped like `means_`.")


class Mixture(ClusterMixture):
    """Clustering of rows or documents by a mixture of components from one of several families, fitted by EM."""

    components: str = "gaussian"
    covariance_type: str = "diag"
    kinds: Mapping[Any, str | Family] | None = None
    vectorizer: VectorizerSettings | None = None

    _kind = p.fitted("components", "", "str")


class GaussianMixture(ClusterMixture):
    """Clustering of rows by a mixture of Gaussians, fitted by EM.

    covariance_type : Literal["diag", "full"] -- As in `Mixture`. With "diag", missing values (NaN) are marginalized.
    References -- Dempster, A., Laird, N. and Rubin, D. (1977). Maximum Likelihood via the EM Algorithm. JRSS B.
    """

    covariance_type: str = "diag"

    covariances_ = p.fitted(
        GaussianNB.var_.fget, "Variances, shape (n_components, n_features), or covariance matrices of the components."
    )


class MultinomialMixture(ClusterMixture):
    """Clustering of documents by a mixture of multinomials over counts, fitted by EM.

    alpha : float -- Pseudo-count of each word in each cluster; 0 is replaced by 1e-10.
    weight_alpha -- Pseudo-count of each cluster, for the cluster weights. 0: maximum likelihood.
    References -- Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 2, NLL.
    """

    alpha: float = 0.1
    weight_alpha: float = 1.0
    vectorizer: VectorizerSettings | None = None

    spec = replace(ClusterMixture.spec, layout="sparse")
    _kind = "multinomial"


class KMeans(Clustering, Transforming):
    """k-means clustering of documents or table rows, with k-means++ starts; spherical k-means with ``metric="cosine"``.

    n_clusters -- Number of clusters.
    metric -- "cosine": rows and centres are scaled to length 1.
    weighting -- Weighting of counts, as in `MultinomialNB`. Except with "counts", documents are scaled to length 1.
        "auto": tf-idf for integers, no weighting for other numbers.
    n_init -- Number of runs on `init_documents` documents; the best centres start the full training.
    inertia_ : float -- Weighted sum of squared distances of the training documents to their nearest centres.
    history_ : list of dict -- ``distance`` is the mean squared distance to the nearest centre.
    References -- Arthur, D. and Vassilvitskii, S. (2007). k-means++: The Advantages of Careful Seeding. SODA.
        Dhillon, I. and Modha, D. (2001). Concept Decompositions for Large Sparse Text Data. Machine Learning.

    >>> from sdem_dist import KMeans
    >>> texts = ["a goal in the match", "a late goal", "the bank raises rates", "rates of the bank"] * 5
    >>> first, second, third, _ = KMeans(2, metric="cosine").fit(texts).predict(texts[:4])
    >>> bool(first == second != third)
    True
    """

    n_clusters: int = 8
    metric: Literal["euclidean", "cosine"] = "euclidean"
    weighting: Literal["auto", "counts", "log", "binary", "tfidf"] = "auto"
    n_init: int = TRIES
    n_epochs: int = 30
    vectorizer: VectorizerSettings | None = None

    spec = Spec("sparse", "nothing", "cluster", ("distance",), "center_log_prob_", shuffled=False, either=True)
    _number, _monitor, _saved = "n_clusters", "distance", {"inertia": ""}
    _n_features_out = p.fitted("learner_.model.n_clusters", "")

    def _checked(self, X: np.ndarray) -> np.ndarray:
        variables.refuse(
            X, np.isnan(X), "Input X contains NaN", "KMeans", "missing values are not supported: impute them"
        )
        return X

    def _weighed(self, source: Source) -> Source:
        are_counts = self._layout == "sparse" and not source.weighted
        form = self.weighting if self.weighting != "auto" else "tfidf" if are_counts else "counts"
        if form != "counts" and not are_counts:
            raise ValueError(f"weighting={form!r} needs integers, but {source.name} has other numbers: use 'auto'")
        if form == "counts":
            return super()._weighed(source)
        return plans.with_frequencies(source, Weighting(form, 1.0, boundary=source.boundary))

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run k-means from several starts on random documents, and continue with all documents from the best one."""
        once, location = plans.one_pass(self, source), ()
        if self._layout == "dense" and self.metric == "euclidean":
            summary = trainer.run(Stage("columns", surveys.Columns(source.n_features, weighted=True), once)).state
            location = tuple(summary.mean.tolist())
        model = Centres(int(self.n_clusters), source.n_features, self.metric == "cosine", location)
        learner = SdEM(model, source.weight, rules.ClosedForm(EmForm("hard")))
        survey = plans.surveyed(trainer, source, once, self.init_documents, labelled=False)

        def start() -> KMeansState:
            drawn = model.prepare(plans.drawn_documents(source.documents, survey))
            # Documents are drawn in proportion to their weights.
            weights: Any = drawn.weights if drawn.n_documents == source.n_documents else np.ones(drawn.n_documents)
            how: Any = {"tries": self.n_init, "spherical": model.spherical}
            return model.start(k_means(drawn.to_csr(), weights, model.n_clusters, once.seed, **how).centres)

        end = final_stage(trainer, learner, replace(once, n_epochs=self.n_epochs), start)
        self.inertia_ = source.weight * trainer.score("inertia", learner, end.state)["distance"]
        return end

    def _joint_log_proba(self, X: object) -> np.ndarray:
        """Return minus the squared distances from the centres, shape (n_samples, n_clusters)."""
        documents: Any = DenseDocuments(table_of(self, X)) if self._layout == "dense" else documents_of(self, X)
        return np.asarray(-self.learner_.model.distances(self._parameters, self.learner_.prepare(documents)))

    def _transformed(self, X: object) -> np.ndarray:
        return np.sqrt(-self._joint_log_proba(X))

    def score(self, X: object, y: object = None) -> float:
        """Return minus the sum of squared distances to the nearest centres."""
        return -float((np.asarray(self.transform(X)).min(axis=1) ** 2).sum())

    cluster_centers_ = p.fitted(
        lambda m: m._parameters.centres + np.asarray(m.learner_.model.location or 0.0),
        "Centres of the clusters, shape (n_clusters, n_features).",
    )

    @property
    def center_log_prob_(self) -> np.ndarray:
        """Logarithm of the fraction of each word in each centre, shape (n_clusters, n_features); only for documents."""
        centres = np.maximum(self.cluster_centers_, 1e-300)
        return np.asarray(np.log(centres) - np.log(centres.sum(axis=1, keepdims=True)))
