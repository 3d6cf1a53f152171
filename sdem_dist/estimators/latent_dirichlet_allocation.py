"""Unsupervised LDA by mirror descent (BP-LDA)."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sdem_dist.corpus import Corpus
from sdem_dist.estimators.parameters import estimator, integer, one_of, or_none, param, real
from sdem_dist.estimators.topic_model import Output, TopicModel
from sdem_dist.fitting.scoring import over_corpus, pieces
from sdem_dist.inputs.source import Source, documents_of, source_of
from sdem_dist.inputs.spec import Spec
from sdem_dist.learners.words import WordSummary
from sdem_dist.models.held_out import log_probability
from sdem_dist.models.word_counts import lengths


@estimator
class LatentDirichletAllocation(TopicModel):
    """Latent Dirichlet allocation by stochastic mirror descent on the topics: BP-LDA.

    A document's topics are the most probable ones given its words, found by `n_layers` steps of mirror descent, and the
    gradient of ``-ln p(words | theta)`` at them moves the topics (Chen et al. 2015, section E). Labels and targets are
    ignored.

    Two estimates say how well documents are explained. The history and `evaluate` hold "plug_in_nll":
    ``-ln p(w | theta)`` a word, where theta is found from the same words. It is fast, works on Dask, and is too low for
    held-out documents. `score_samples`, `score` and `perplexity` sum theta out by the left-to-right estimator. Compare
    models with these; they are slow on long documents.

    ``merge="mean"`` lowers the likelihood here: without labels the topics of the lanes drift apart.

    References
    ----------
    Chen et al. (2015). End-to-end Learning of LDA by Mirror-Descent Back Propagation over a Deep Architecture. NIPS.

    Examples
    --------
    >>> from sdem_dist import LatentDirichletAllocation
    >>> X = [[5, 1, 0, 0], [4, 2, 0, 1], [0, 0, 3, 4], [1, 0, 4, 5]] * 50
    >>> model = LatentDirichletAllocation(n_components=2).fit(X)
    >>> first, second, third, _ = model.transform(X[:4]).argmax(axis=1)
    >>> bool(first == second != third)
    True
    """

    topic_rate: float | None = param(
        0.15,
        or_none(real(above=True)),
        "mu_0 of Algorithm 2: the share by which a step changes common words; falls to 0.\n"
        "None: 0.15 up to 25,000 documents, less for more.",
    )
    n_epochs: int = param(10, integer(), "Passes over the documents.")
    merge: str = param(
        "sum",
        one_of("mean", "sum"),
        '"sum": a round is one batch. "mean": lanes step through their documents, and topics are averaged.',
    )
    batch_size: int | None = param(
        500, integer(optional=True), 'Documents of a step: of a round for "sum", inside a lane for "mean".'
    )

    spec = Spec("sparse", "nothing", None, shown=("plug_in_nll",), topics="documents")
    _monitor = "plug_in_nll"
    _topic_rate = 0.15

    def _output(self, source: Source, summary: WordSummary) -> Output:
        return Output("words", 0)

    def score_samples(self, X: object, *, n_particles: int = 10) -> np.ndarray:
        """Return ln p(words of each document), shape (n_samples,), by the left-to-right estimator.

        Topics and proportions are summed out, see `sdem_dist.models.held_out.log_probability`. Its time grows with the
        square of a document's length, and with `n_particles`, which make it less noisy. The prior is `alpha_`, or
        ``alpha_ - 1`` where it was learned: the pseudo-counts that make the counts of topics most probable.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Corpus
            Counts, whole numbers.
        n_particles : int, default=10

        Returns
        -------
        ndarray of shape (n_samples,), float64
            In nats.
        """
        check_is_fitted(self)
        topics, alpha = self._parameters.topics, self.alpha_ - (1.0 if self.learner_.inference.learned else 0.0)
        return over_corpus(self, X, lambda b: log_probability(topics, documents_of(self, b), alpha, n_particles))

    def score(self, X: object, y: object = None, *, n_particles: int = 10) -> float:
        """Return the mean log-likelihood of a word of documents in memory or of a corpus, see `score_samples`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), texts, or Corpus
        y : ignored
        n_particles : int, default=10
            More make the estimate less noisy, and take longer.

        Returns
        -------
        float
            In nats.
        """
        check_is_fitted(self)
        if isinstance(X, Corpus):
            source_of(self, X, use="score")  # its pieces do not say which words their columns are
        total = words = 0.0
        for rows in pieces(X):
            total += float(self.score_samples(rows, n_particles=n_particles).sum())
            words += float(lengths(documents_of(self, rows)).sum())
        return total / max(words, 1.0)

    def perplexity(self, X: object, *, n_particles: int = 10) -> float:
        """Return exp of minus `score`: the perplexity of a word, by the left-to-right estimator.

        The exponential of "plug_in_nll" from `evaluate` is lower.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), texts, or Corpus
        n_particles : int, default=10
            More make the estimate less noisy, and take longer.

        Returns
        -------
        float
        """
        return float(np.exp(-self.score(X, n_particles=n_particles)))
