"""Unsupervised LDA by mirror descent (BP-LDA)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sdem_dist.corpus import Corpus
from sdem_dist.estimators import inputs
from sdem_dist.estimators.scoring import pieces
from sdem_dist.estimators.topic_model import TopicModel
from sdem_dist.estimators.word_sources import word_source
from sdem_dist.learners.words import WordSummary
from sdem_dist.models.held_out import log_probability
from sdem_dist.models.naive_bayes import lengths


class LatentDirichletAllocation(TopicModel):
    """Latent Dirichlet allocation by stochastic mirror descent on the topics: BP-LDA.

    A document's topics are the most probable ones given its words, found by `n_layers` steps of mirror descent, and the
    gradient of ``-ln p(words | theta)`` at them moves the topics (Chen et al. 2015, section E). Labels and targets are
    ignored.

    Two estimates say how well documents are explained. The history and `evaluate` hold "plug_in_nll", ``-ln p(w | theta)`` a
    word, theta being found from the same words: fast, on Dask too, and too low for documents held out. `score_samples`,
    `score` and `perplexity` sum theta out by the left-to-right estimator: for comparing models, slow on long documents.

    Lanes that are averaged (``merge="mean"``) cost likelihood here: their topics drift apart, since no label holds them.

    Parameters
    ----------
    topic_rate : float, default=1.0
        None: 1.0 up to 25,000 documents, less for more.
    n_epochs : int, default=10
        Passes over the documents.
    merge : {"mean", "sum"}, default="sum"
        "sum": a round is one batch, whose gradients the lanes share out. "mean": each lane steps through its documents, and
        the lanes' topics are averaged.
    batch_size : int, default=500
        Documents of a step: of a round for "sum", inside a lane for "mean".
    **shared
        See `sdem_dist.estimators.topic_model.TopicModel`.

    References
    ----------
    Chen et al. (2015). End-to-end Learning of LDA by Mirror-Descent Back Propagation over a Deep Architecture. NIPS.
    """

    _monitor = "plug_in_nll"
    _topic_rate = 1.0

    def __init__(
        self,
        *,
        topic_rate: float | None = 1.0,
        n_epochs: int = 10,
        merge: str = "sum",
        batch_size: int | None = 500,
        **shared: Any,
    ) -> None:
        super().__init__(topic_rate=topic_rate, n_epochs=n_epochs, merge=merge, batch_size=batch_size, **shared)

    def _training_source(self, X: Any, y: Any, sample_weight: Any, client: Any) -> inputs.Source:
        return word_source(self, X, y, sample_weight, client, reset=True, targets=False)

    def _evaluation_source(self, X: Any, y: Any, client: Any) -> inputs.Source:
        return word_source(self, X, y, None, client, reset=False, targets=False)

    def _kind(self, source: inputs.Source, summary: WordSummary) -> dict[str, Any]:
        return {"response": "words", "n_outputs": 0}

    def score_samples(self, X: Any, *, n_particles: int = 10) -> np.ndarray:
        """Return ln p(words of each document), shape (n_samples,), by the left-to-right estimator.

        Topics and proportions are summed out, see `sdem_dist.models.held_out.log_probability`. Its time grows with the
        square of a document's length, and with `n_particles`, which make it less noisy.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts, whole numbers.
        n_particles : int, default=10
        """
        check_is_fitted(self)
        documents = inputs.prediction_documents(self, X)
        return log_probability(self._parameters.topics, documents, self._learner.inference.alpha, n_particles)

    def score(self, X: Any, y: Any = None, *, n_particles: int = 10) -> float:
        """Return the mean log-likelihood of a word of documents in memory or of a corpus, see `score_samples`."""
        check_is_fitted(self)
        if isinstance(X, Corpus):
            self._evaluation_source(X, None, None)  # its pieces do not say which words their columns are
        total = words = 0.0
        for rows in pieces(X):
            total += float(self.score_samples(rows, n_particles=n_particles).sum())
            words += float(lengths(inputs.prediction_documents(self, rows)).sum())
        return total / max(words, 1.0)

    def perplexity(self, X: Any, *, n_particles: int = 10) -> float:
        """Return exp of minus `score`: the perplexity of a word, by the left-to-right estimator.

        The exponential of "plug_in_nll" from `evaluate` is lower.
        """
        return float(np.exp(-self.score(X, n_particles=n_particles)))
