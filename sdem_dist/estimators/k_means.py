"""k-means and spherical k-means of documents and of tables."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.engine.plan import Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.prediction_mixins import Clustering, Transforming
from sdem_dist.fitting import plans
from sdem_dist.fitting.mixture_starts import sampled_positions, surveyed
from sdem_dist.fitting.plans import with_frequencies
from sdem_dist.inputs.source import Source, documents_of, table_of
from sdem_dist.inputs.spec import Extra, Spec, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.surveys import Columns
from sdem_dist.models.k_means import TRIES, Centres, KMeansState, k_means
from sdem_dist.models.mixture import EmForm
from sdem_dist.models.weighting import Weighting


@p.estimator
class KMeans(p.OfText, p.Seeded, Clustering, Transforming, EngineEstimator):
    """k-means of documents or of rows of a table, from k-means++; spherical k-means with ``metric="cosine"``.

    References
    ----------
    Arthur, D. and Vassilvitskii, S. (2007). k-means++: The Advantages of Careful Seeding. SODA.
    Dhillon, I. and Modha, D. (2001). Concept Decompositions for Large Sparse Text Data Using Clustering. Machine
    Learning.

    Examples
    --------
    >>> from sdem_dist import KMeans
    >>> texts = ["a goal in the match", "a late goal", "the bank raises rates", "rates of the bank"] * 5
    >>> first, second, third, fourth = KMeans(2, metric="cosine").fit(texts).predict(texts[:4])
    >>> bool(first == second != third == fourth)
    True
    """

    n_clusters: int = p.param(8, p.integer(), "Clusters.", positional=True)
    metric: str = p.param(
        "euclidean",
        p.one_of("euclidean", "cosine"),
        '"cosine": rows and centres have length 1, and distances are cosines: spherical k-means.',
    )
    weighting: str = p.param(
        "auto",
        p.one_of("auto", "counts", "log", "binary", "tfidf"),
        'What becomes of counts, as in `MultinomialNB`; but for "counts" documents then have length 1. "auto": tf-idf of\n'
        "whole numbers, nothing of others.",
    )
    init_documents: int = p.param(
        20_000, p.integer(), "Documents, drawn at random, in which k-means++ looks for starts."
    )
    n_init: int = p.param(TRIES, p.integer(), "Starts of k-means on these; the best goes on with all documents.")
    n_epochs: int = p.param(30, p.integer(), "Passes over all documents.")
    evaluate_every: int = p.param(10, *p.EVALUATE_EVERY)

    spec = Spec(
        "sparse",
        "nothing",
        "cluster",
        shown=("distance",),
        words="center_log_prob_",
        word_weights="_word_weights",
        shuffled=False,
        either=True,
    )
    _monitor = "distance"
    _learned: ClassVar[Mapping[str, str]] = {
        "inertia_": "float\nSum of squared distances of the training documents to their nearest centre, by weight.",
        "history_": "list of dict\n``distance`` is the mean squared distance to the nearest centre.",
    }

    def _check(self) -> None:
        if self.init_documents < self.n_clusters:
            raise ValueError(
                f"init_documents={self.init_documents} is fewer than n_clusters={self.n_clusters}: raise it"
            )

    def _checked(self, X: np.ndarray) -> np.ndarray:
        if (gaps := np.isnan(X).any(axis=1)).any():
            raise ValueError(
                f"Input X contains NaN: row {int(gaps.argmax())} (from 0). k-means takes no missing values: fill them in"
            )
        return X

    def _weighed(self, source: Source) -> Source:
        form = self.weighting
        if form == "auto":
            form = "counts" if self._layout == "dense" or source.weighted else "tfidf"
        if form == "counts":
            return source
        if self._layout == "dense" or source.weighted:
            raise ValueError(
                f"weighting={form!r} is for whole counts, and there are other numbers in {source.name}: leave it at 'auto'"
            )
        return with_frequencies(source, Weighting(form, 1.0))

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Yield a survey that draws documents, and Lloyd's iterations from the best start in these."""
        if source.n_documents < self.n_clusters:
            raise ValueError(f"n_samples={source.n_documents} should be >= n_clusters={self.n_clusters}")
        plan = plans.full_passes(source.n_documents, self.n_epochs, seed_of(self.random_state))
        once, location = replace(plan, n_epochs=1), ()
        if self._layout == "dense" and self.metric == "euclidean":
            summary = trainer.run(Stage("columns", Columns(source.n_features, weighted=True), once)).state
            location = tuple(summary.mean.tolist())
        model = Centres(int(self.n_clusters), source.n_features, self.metric == "cosine", location)
        learner = SdEM(model, source.weight, ClosedForm(EmForm("hard")))
        survey = surveyed(trainer, source, once, self.init_documents, labelled=False)

        def start() -> KMeansState:
            positions, n = sampled_positions(survey), source.n_documents
            spans = [(0, n)] if len(positions) == n else [(p, p + 1) for p in positions]
            X, weights = model.sampled([source.documents.read(*span) for span in spans])
            if len(spans) > 1:  # they were drawn in proportion to their weights
                weights = np.ones(len(weights))
            clusters = k_means(X, weights, model.n_clusters, plan.seed, tries=self.n_init, spherical=model.spherical)
            return model.start(clusters.centres)

        end = final_stage(trainer, learner, plan, start)
        self.inertia_ = source.weight * trainer.score("inertia", learner, end.state)["distance"]
        return end

    def _distances(self, X: object) -> np.ndarray:
        """Return squared distances from the centres, shape (n_samples, n_clusters)."""
        documents: Documents | DenseDocuments
        documents = DenseDocuments(table_of(self, X)) if self._layout == "dense" else documents_of(self, X)
        return np.asarray(self.learner_.model.distances(self._parameters, self.learner_.prepare(documents)))

    def _clusters(self, X: object) -> np.ndarray:
        return self._distances(X).argmin(axis=1)

    def _transformed(self, X: object) -> np.ndarray:
        return np.sqrt(self._distances(X))

    @p.takes("X", "y")
    def score(self, X: object, y: object = None) -> float:
        """Return minus the sum of squared distances of documents to the nearest centre.

        Returns
        -------
        float
        """
        distances = np.asarray(self.transform(X))
        return -float((distances.min(axis=1) ** 2).sum())

    @property
    def cluster_centers_(self) -> np.ndarray:
        """Centres, shape (n_clusters, n_features)."""
        check_is_fitted(self)
        location = self.learner_.model.location
        return np.asarray(self._parameters.centres + (np.asarray(location) if location else 0.0))

    @property
    def center_log_prob_(self) -> np.ndarray:
        """Logarithms of the words' shares in each centre, shape (n_clusters, n_features); for documents only."""
        centres = np.maximum(self.cluster_centers_, 1e-300)
        return np.asarray(np.log(centres) - np.log(centres.sum(axis=1, keepdims=True)))

    @property
    def _word_weights(self) -> np.ndarray:
        centres, counts = self.cluster_centers_, self._parameters.counts
        return np.asarray(centres - np.average(centres, axis=0, weights=counts if counts.any() else None))

    @property
    def _n_features_out(self) -> int:
        return int(self.learner_.model.n_clusters)

    def extra(self) -> dict[str, object]:
        """Return the inertia, and what documents are."""
        return {**super().extra(), "inertia": float(self.inertia_)}

    def take_extra(self, extra: Extra) -> None:
        """Take back what `extra` returned."""
        super().take_extra(extra)
        self.inertia_ = float(extra["inertia"])
