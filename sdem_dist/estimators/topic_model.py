"""Topic models by mirror descent, and the one without labels."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.engine.plan import Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.predictions import WithTopics
from sdem_dist.fitting import defaults, plans
from sdem_dist.fitting.holdout import Candidate, HoldoutPolicy, share_held_out
from sdem_dist.fitting.scoring import over_corpus
from sdem_dist.inputs.source import Source, documents_of
from sdem_dist.inputs.spec import Extra, Spec, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners.rules import MirrorSteps
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.surveys import Words, WordSummary
from sdem_dist.models.lda import log_probability
from sdem_dist.models.topic_heads import LabelThresholds, NoOutput, SigmoidLabels, TopicHead, TopicShares
from sdem_dist.models.topics import MirrorDescent
from sdem_dist.models.topics import TopicModel as LearnedTopics
from sdem_dist.models.word_counts import entries, lengths
from sdem_dist.text.vectorizer import VectorizerSettings


@p.estimator
class TopicModel(WithTopics):
    """Base of the topic models by mirror descent."""

    n_components: int = p.param(20, "K, the topics.", positional=True)
    alpha: object = p.param(
        1.001,
        "Of the Dirichlet prior of a document's topics: convex from 1 on, sparser below. One number, or one for each\n"
        'topic. "learned": common topics get more of the pseudo-counts, alpha - 1, whose mean is 0.1; see `alpha_`.',
        'Literal["learned"] | p.Positive | p.Positives',
    )
    beta: float = p.param(
        1.0, "Of the Dirichlet prior of words. Above 1 every batch moves every word.", "float in [1, inf)"
    )
    n_layers: int = p.param(10, "L, steps of mirror descent towards a document's topics.")
    inference_step: p.Positive = p.param(1.0, "Length T of a step, times a document's words and pseudo-counts.")
    inference: Literal["mirror-descent", "accelerated", "line-search", "line-search-l1"] = p.param(
        "mirror-descent",
        "How steps are taken: of that length; with momentum (accelerated mirror descent, Tseng 2008); or by line search,\n"
        "whose bound has the divergence (Algorithm 1) or the 1-norm (equation 29) of Chen et al.",
    )
    topic_rate: float | None = p.param(
        None,
        "mu_0 of Algorithm 2: the share by which a step changes common words; falls to 0.\n"
        "None: 0.05, less from 25,000 documents on.",
    )
    n_epochs: int = 4
    average_from: int = p.param(1, "The model is the mean over batches from this epoch on, from 0.", "int in [0, inf)")
    merge: Literal["mean", "sum"] = p.param(
        "mean", '"mean": lanes run Algorithm 2, and their parameters are averaged. "sum": a round is one batch.'
    )
    batch_size: int | None = p.param(
        None, 'Documents of a step: of a lane for "mean", of a round for "sum". None: 100.'
    )
    n_lanes: int | None = None
    rounds_per_epoch: int | None = p.param(None, 'Merges per epoch, for "mean". None: 1.')
    vectorizer: VectorizerSettings | None = None
    patience: int | None = None
    random_state: object = 0

    _topic_rate = 0.05
    _learned = """
    topic_shares_ : ndarray of shape (n_components,) -- Share of the training documents' words that each topic is
        expected to explain.
    history_ : list of dict -- One entry per epoch, see ``sdem_dist/models/topic_heads.py``.
    """

    @abstractmethod
    def _head(self, source: Source, summary: WordSummary) -> TopicHead:
        """Return what is learned to be predicted."""

    def _check(self) -> None:
        alpha = np.asarray(self.alpha)
        if alpha.ndim and alpha.size != self.n_components:
            raise ValueError(f"alpha has {alpha.size} numbers for {self.n_components} topics")
        if self.merge == "sum" and self.rounds_per_epoch is not None:
            raise ValueError("with merge='sum' batch_size sets the rounds of an epoch: leave rounds_per_epoch at None")

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the count of the words, the training, the count of the topics, and the thresholds of several labels."""
        n, seed, batch = source.n_documents, seed_of(self.random_state), self.batch_size
        if self.merge == "sum":
            plan = plans.batches(n, self.n_epochs, seed, batch or defaults.TOPIC_BATCH, self.n_lanes)
        else:
            counted = int(source.n_labelled) or n
            lanes = plans.lanes_of(counted, defaults.TOPIC_LANE_DOCUMENTS, defaults.TOPIC_LANES)
            plan = Plan(n, self.n_epochs, self.rounds_per_epoch or 1, self.n_lanes or lanes, seed)
        log_counts, words_weight = bool(getattr(self, "log_counts", False)), getattr(self, "words_weight", 0.0)
        counting = Words(source.n_features, source.corpus.header.n_targets, log_counts)
        summary = trainer.run(Stage("words", counting, Plan(n, 1, 1, plan.n_lanes, seed))).state
        head, factors, weight, labelled = self._head(source, summary), None, source.weight, source.n_labelled
        if hasattr(self, "class_weight") and source.members is None:
            factors = plans.weights_of_classes(self, source)
        if factors is not None:  # rates fall and averages begin by the weights that batches have
            weighed = sum(factor * count for factor, count in zip(factors, source.class_counts, strict=True))
            if not weighed > 0:
                raise ValueError("class_weight gives no document a weight")
            weight, labelled = weighed + (weight - labelled if labelled else 0.0), weighed if labelled else 0.0
        alpha: Any = self.alpha
        if not isinstance(alpha, str):
            alpha = tuple(np.asarray(alpha, np.float64).tolist()) if np.ndim(alpha) else float(alpha)
        inference = MirrorDescent(alpha, int(self.n_layers), float(self.inference_step), self.inference)
        model = LearnedTopics(source.n_features, int(self.n_components), head, inference, float(self.beta), log_counts)
        model = replace(model, n_labelled=float(labelled))
        if words_weight != "auto":
            model = replace(model, words_weight=float(words_weight))
        rule = MirrorSteps(
            topic_rate=float(self.topic_rate or self._topic_rate * min(1.0, defaults.TOPIC_MANY_DOCUMENTS / n)),
            output_rate=float(getattr(self, "output_rate", 3.0)),
            n_epochs=int(self.n_epochs),
            average_from=int(self.average_from),
            local=self.merge == "mean",
            batch_size=int(batch or max(defaults.TOPIC_BATCH // plan.n_lanes, defaults.TOPIC_LEAST_BATCH)),
        )
        learner = SdEM(model, float(weight), rule, class_weight=factors, seed=seed)
        start = partial(model.start, summary.frequencies, seed)
        if words_weight == "auto":
            share = share_held_out(defaults.WORDS_SHARE, int(source.n_labelled or n))
            if not share:
                raise ValueError("words_weight='auto' needs 100 labelled documents, to hold some out: give a number")
            policy = HoldoutPolicy(trainer, source, share, None, self._monitor, plan.n_epochs, gate=False)
            trials = {w: replace(learner, model=replace(model, words_weight=w)) for w in defaults.WORDS_WEIGHTS}
            candidates = [partial(Candidate, t, plan, start, f"words_weight {w:g}") for w, t in trials.items()]
            learner = policy.choose(candidates).candidate.learner
        trained = final_stage(trainer, learner, plan, start)

        def reported(name: str, head: Any) -> dict[str, float]:
            """Run a pass that scores what a head reports of the trained model."""
            return trainer.score(name, replace(learner, model=replace(learner.model, head=head)), trained.state)

        of_topics = reported("topics' shares", TopicShares(head))
        self.topic_shares_ = np.array([of_topics[str(k)] for k in range(model.n_topics)])
        if not isinstance(head, SigmoidLabels):
            return trained
        best = reported("thresholds of labels", LabelThresholds(head))
        thresholds = tuple(best[str(i)] for i in range(learner.n_labels))
        return trained._replace(learner=learner.decided(thresholds=thresholds))

    @property
    def components_(self) -> np.ndarray:
        """p(word | topic), shape (n_components, n_features)."""
        return np.asarray(self._parameters.topics.T)

    @property
    def alpha_(self) -> np.ndarray:
        """Alpha of the Dirichlet prior of a document's topics, shape (n_components,), as it was given or learned."""
        return np.asarray(self._parameters.alpha)

    @property
    def _n_features_out(self) -> int:
        return int(self.learner_.model.n_topics)

    def extra(self) -> dict[str, object]:
        return {"topic_shares": self.topic_shares_}

    def take_extra(self, extra: Extra) -> None:
        self.topic_shares_ = np.array(extra["topic_shares"], np.float64)
        if self.topic_shares_.shape != (self._n_features_out,) or not np.isfinite(self.topic_shares_).all():
            raise ValueError("the shares of the topics do not match the topics")

    def _documents(self, X: object) -> Documents:
        documents = documents_of(self, X)
        return replace(documents, data=entries(documents.data, self.learner_.model.log_counts))

    def _transformed(self, X: object) -> np.ndarray:
        return np.asarray(self.learner_.model.inference.proportions(self._parameters, self._documents(X))[0])


@p.estimator
class LatentDirichletAllocation(TopicModel):
    """Latent Dirichlet allocation by stochastic mirror descent on the topics: BP-LDA.

    A document's topics are the most probable ones given its words, found by `n_layers` steps of mirror descent, and the
    gradient of ``-ln p(words | theta)`` at them moves the topics (Chen et al. 2015, section E). Labels and targets are
    ignored.

    Two estimates say how well documents are explained. `evaluate`, validation, searches, `score` and `perplexity` sum
    theta out, by the left-to-right estimator with `n_particles`: "word_nll", ``-ln p(w)`` a word. Compare models with
    these. "plug_in_nll" is ``-ln p(w | theta)`` a word, where theta is found from the same words: it is too low, and
    lower with more topics. The history has it of training documents, since it is fast.

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

    topic_rate: float | None = p.param(
        0.15,
        "mu_0 of Algorithm 2: the share by which a step changes common words; falls to 0.\n"
        "None: 0.15 up to 25,000 documents, less for more.",
    )
    n_epochs: int = 10
    merge: Literal["mean", "sum"] = p.param(
        "sum", '"sum": a round is one batch. "mean": lanes step through their documents, and topics are averaged.'
    )
    batch_size: int | None = p.param(500, 'Documents of a step: of a round for "sum", inside a lane for "mean".')
    n_particles: int = p.param(10, "Particles of the left-to-right estimate of ln p(words). More make it less noisy.")

    spec = Spec("sparse", "nothing", None, shown=("word_nll", "plug_in_nll"), topics="documents")
    _monitor = "word_nll"
    _topic_rate = 0.15

    def _head(self, source: Source, summary: WordSummary) -> NoOutput:
        return NoOutput()

    def scorer(self, learner: SdEM[LearnedTopics]) -> SdEM[LearnedTopics]:
        """Return a pass that scores documents which were not trained on, with particles."""
        return learner.decided(n_particles=int(self.n_particles))

    def _estimated(self, X: object) -> np.ndarray:
        """Return ln p(words) of documents in memory, and how many words they have, shape (n_samples, 2)."""
        documents = documents_of(self, X)
        alpha = self.alpha_ - (1.0 if self.learner_.model.inference.learned else 0.0)
        values = log_probability(self._parameters.topics, documents, alpha, self.n_particles)
        return np.stack([values, lengths(documents)], axis=1)

    @p.takes("X", returns="ndarray of shape (n_samples,), float64\nIn nats.")
    def score_samples(self, X: object) -> np.ndarray:
        """Return ln p(words of each document), shape (n_samples,), by the left-to-right estimator.

        Topics and proportions are summed out, see `sdem_dist.models.lda.log_probability`. The prior is `alpha_`, or
        ``alpha_ - 1`` where it was learned: the pseudo-counts that make the counts of topics most probable.
        """
        return over_corpus(self, X, self._estimated)[:, 0]

    @p.takes("X", "y", returns="float\nIn nats.")
    def score(self, X: object, y: object = None) -> float:
        """Return the mean log-likelihood of a word of documents in memory or of a corpus, see `score_samples`."""
        values, n_words = over_corpus(self, X, self._estimated).T
        return float(values.sum() / max(n_words.sum(), 1.0))

    @p.takes("X")
    def perplexity(self, X: object) -> float:
        """Return exp of minus `score`: the perplexity of a word, by the left-to-right estimator."""
        return float(np.exp(-self.score(X)))
