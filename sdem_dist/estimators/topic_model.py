"""Topic models by mirror descent: LDA without labels, and supervised LDA (BP-sLDA), a classifier and a regressor."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from sdem_dist.engine.plan import Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.predictions import EngineClassifier, Transforming
from sdem_dist.fitting import defaults, plans
from sdem_dist.fitting.running import Client, evaluate_source, over_blocks, over_corpus
from sdem_dist.inputs.source import Source, documents_of, source_of
from sdem_dist.inputs.spec import Spec, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners import rules, surveys
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models import lda, topics
from sdem_dist.models import topic_heads as heads
from sdem_dist.reports.explaining import number_explanations
from sdem_dist.reports.top_words import topics_of
from sdem_dist.text.vectorizer import VectorizerSettings


class TopicModel(Transforming):
    """Base of the topic models by mirror descent.

    n_components -- K, the number of topics.
    alpha : Literal["learned"] | p.Positive | p.Positives -- Dirichlet prior of topic proportions: one number, or
        one per topic. Below 1, inference is not convex. "learned": common topics get larger pseudo-counts (alpha - 1),
        whose mean is 0.1; see `alpha_`.
    beta : float in [1, inf) -- Dirichlet prior of words. Above 1, each step changes all words.
    n_layers -- L, number of mirror descent steps to infer the topics of a document.
    inference_step -- Step size of mirror descent: T times the number of words and pseudo-counts in a document.
    inference -- "mirror-descent": fixed steps. "accelerated": with momentum (Tseng 2008). "line-search": with a bound
        by the KL divergence (Chen et al., Algorithm 1). "line-search-l1": with a bound by the 1-norm (equation 29).
    topic_rate -- Learning rate of topics, mu_0 in Algorithm 2; it decreases to 0. None: 0.05 (in LDA without labels
        0.15), and less for more than 25,000 documents.
    steps -- "scaled": gradient norms are weighted by squared word probabilities, and rates decrease to 0. "paper":
        Algorithm 2 as printed, without these changes.
    average_from : int in [0, inf) -- The final model averages all iterates from this epoch on (counted from 0).
    merge -- "mean": lanes run Algorithm 2 in parallel, and their topics are averaged. "sum": a round is one batch.
    batch_size : int | None -- Documents per step, in a lane ("mean") or round ("sum"). None: 100.
    rounds_per_epoch : int | None with merge=mean -- Merges per epoch, for "mean". None: 1.
    topic_shares_ : ndarray of shape (n_components,) -- Expected fraction of the training words in each topic.

    >>> from sdem_dist import TopicModel
    >>> X, y = [[5, 1, 0, 0], [4, 2, 0, 1], [0, 0, 3, 4], [1, 0, 4, 5]] * 50, [0, 0, 1, 1] * 50
    >>> first, second, third, _ = TopicModel(2).fit(X, y).transform(X).argmax(axis=1)[:4]
    >>> bool(first == second != third)
    True
    """

    n_components: int = 20
    alpha: object = 1.001
    beta: float = 1.0
    n_layers: int = 10
    inference_step: p.Positive = 1.0
    inference: Literal["mirror-descent", "accelerated", "line-search", "line-search-l1"] = "mirror-descent"
    topic_rate: float | None = None
    steps: Literal["scaled", "paper"] = "scaled"
    n_epochs: int = 4
    average_from: int = 1
    merge: Literal["mean", "sum"] = "mean"
    batch_size: int | None = None
    n_lanes: int | None = None
    rounds_per_epoch: int | None = None
    vectorizer: VectorizerSettings | None = None

    _topic_rate, _saved = 0.05, {"topic_shares": "alpha_"}

    def _check(self) -> None:
        if (alpha := np.asarray(self.alpha)).ndim and alpha.size != self.n_components:
            raise ValueError(f"alpha has {alpha.size} values for {self.n_components} topics")

    def _schedule(self, n_documents: int) -> tuple[int, int | None]:  # epochs, and documents per step
        return int(self.n_epochs), self.batch_size

    def _head(self, source: Source, summary: surveys.WordSummary) -> heads.TopicHead:
        return heads.NoOutput()  # topics alone: nothing is predicted

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Count words, train, count topics, and choose thresholds for several labels."""
        n, seed, n_labelled, weight = source.n_documents, seed_of(self.random_state), source.n_labelled, source.weight
        n_epochs, batch_size = self._schedule(n)
        if self.merge == "sum":
            plan = plans.batches(n, n_epochs, seed, batch_size or defaults.TOPIC_BATCH, self.n_lanes)
        else:
            lanes = plans.lanes_of(int(n_labelled) or n, defaults.TOPIC_LANE_DOCUMENTS, defaults.TOPIC_LANES)
            plan = Plan(n, n_epochs, self.rounds_per_epoch or 1, self.n_lanes or lanes, seed)
        log_counts = bool(getattr(self, "log_counts", False))  # predictors have more parameters
        counting = surveys.Words(source.n_features, source.corpus.header.n_targets, log_counts)
        summary = trainer.run(Stage("words", counting, Plan(n, 1, 1, plan.n_lanes, seed))).state
        head, factors = self._head(source, summary), plans.weights_of_classes(self, source)
        if factors is not None:  # decay and averaging depend on the weights of batches
            weighed = sum(factor * count for factor, count in zip(factors, source.class_counts, strict=True))
            weight, n_labelled = (weighed + (weight - n_labelled), weighed) if n_labelled else (weighed, 0.0)
        alpha: Any = ("learned" if n < defaults.LDA_FEW else 1.001) if self.alpha is None else self.alpha
        alpha = tuple(values) if isinstance(values := np.asarray(alpha).tolist(), list) else values
        inference = topics.MirrorDescent(alpha, int(self.n_layers), float(self.inference_step), self.inference)
        added = getattr(self, "topic_word_prior", 0.0) * self.n_components * source.n_features
        uniform = float(added / max(added + summary.frequencies.sum(), 1e-300))
        how: Any = {"log_counts": log_counts, "words_weight": float(getattr(self, "words_weight", 0.0))}
        how |= {"beta": float(self.beta), "n_labelled": float(n_labelled), "uniform": uniform}
        model: Any = topics.TopicModel(source.n_features, int(self.n_components), head, inference, **how)
        rate = float(self.topic_rate or self._topic_rate * min(1.0, defaults.TOPIC_MANY_DOCUMENTS / n))
        batch = batch_size or max(defaults.TOPIC_BATCH // plan.n_lanes, defaults.TOPIC_LEAST_BATCH)
        times = n_epochs, int(self.average_from), self.merge == "mean", batch
        rule = rules.MirrorSteps(rate, float(getattr(self, "output_rate", 3.0)), *times, self.steps == "paper")
        learner = SdEM(model, float(weight), rule, class_weight=factors, seed=seed)
        trained = final_stage(trainer, learner, plan, partial(model.start, summary.frequencies, seed))
        scorer = replace(learner, model=replace(model, head=heads.TopicShares(head, model.n_topics)))
        figures = trainer.score("topics' shares", scorer, trained.state)
        self.topic_shares_ = np.array([figures[str(i)] for i in range(model.n_topics)])
        if not isinstance(head, heads.SigmoidLabels):
            return trained
        thresholds = tuple(figures[str(i)] for i in range(model.n_topics, len(figures)))
        return trained._replace(learner=learner.decided(thresholds=thresholds))

    components_ = p.fitted("_parameters.topics.T", "p(word | topic), shape (n_components, n_features).")
    alpha_ = p.fitted("_parameters.alpha", "Dirichlet prior of topics after training, shape (n_components,).")
    _n_features_out = p.fitted("learner_.model.n_topics", "")

    topics = topics_of

    def _transformed(self, X: object) -> np.ndarray:
        model = self.learner_.model
        return np.asarray(model.inference.proportions(self._parameters, model.transformed(documents_of(self, X)))[0])


class LatentDirichletAllocation(TopicModel):
    """Latent Dirichlet allocation by stochastic mirror descent on the topics: BP-LDA.

    The most probable topic proportions given the words of a document are inferred by `n_layers` steps of mirror
    descent. Topic updates use the gradient of ``-ln p(words | theta)`` at this point (Chen et al. 2015, section E).
    Labels and targets are ignored. ``merge="mean"`` reduces the likelihood, since the lanes' topics diverge.

    To compare models, use "word_nll" (``-ln p(w)`` per word, with theta integrated out by the left-to-right estimator)
    or `score` and `perplexity`, which use the same estimator. "plug_in_nll" in the history, ``-ln p(w | theta)``, is
    fast but biased: it is too low, especially with many topics, since theta is inferred from the same words.

    alpha : Literal["learned"] | p.Positive | p.Positives | None -- Dirichlet prior of topic proportions. None: learned
        with fewer than 15,000 documents, otherwise 1.001 (learning it would double the time without benefit).
    n_epochs : int | None -- Number of passes. None: 10, and up to 20 for fewer than 15,000 documents.
    topic_word_prior : float in [0, inf) -- Pseudo-count of each word in an average topic, added after training.
    batch_size : int | None -- Documents per step. None: a 15th of all documents, between 50 and 500.
    n_particles -- Particles of the left-to-right estimate of ln p(words). More particles reduce its noise.
    References -- Chen et al. (2015). End-to-end Learning of LDA by Mirror-Descent Back Propagation over a Deep
        Architecture. NIPS.
    """

    alpha: object = None
    topic_word_prior: float = 0.03
    topic_rate: float | None = 0.15
    n_epochs: Any = None
    merge: Literal["mean", "sum"] = "sum"
    batch_size: int | None = None
    n_particles: int = 10

    spec = Spec("sparse", "nothing", None, shown=("word_nll", "plug_in_nll"), topics="documents")
    _monitor, _topic_rate = "word_nll", 0.15

    def _schedule(self, n_documents: int) -> tuple[int, int | None]:
        batch = self.batch_size or int(np.clip(n_documents // defaults.LDA_EPOCH_STEPS, *defaults.LDA_BATCH))
        return int(self.n_epochs or np.clip(defaults.LDA_ALL_STEPS * batch // n_documents, *defaults.LDA_EPOCHS)), batch

    def scorer(self, learner: SdEM[topics.TopicModel]) -> SdEM[topics.TopicModel]:
        """Return a pass that scores held-out documents with particles."""
        return learner.decided(n_particles=int(self.n_particles))

    def score_samples(self, X: object) -> np.ndarray:
        """Return ln p(words of each document), shape (n_samples,), by the left-to-right estimator, in nats.

        Topics and proportions are integrated out, see `sdem_dist.models.lda.log_probability`. The Dirichlet parameter
        is `alpha_`, or ``alpha_ - 1`` if it was learned.
        """
        topics_of_words, alpha = self._parameters.topics, self.alpha_ - float(self.learner_.model.inference.learned)
        how = alpha, self.n_particles
        return over_corpus(self, X, lambda b: lda.log_probability(topics_of_words, documents_of(self, b), *how))

    def score(self, X: object, y: object = None) -> float:
        """Return the mean ln p per word for documents in memory or a corpus, in nats (see `score_samples`)."""
        return -self.evaluate(X)["word_nll"]

    def perplexity(self, X: object) -> float:
        """Return the perplexity per word, the exponential of minus `score`, by the left-to-right estimator."""
        return self.evaluate(X)["perplexity"]


class SupervisedTopics(TopicModel):
    """Base of supervised topic models.

    log_counts -- Use ln(1 + x) of all counts, in training and prediction.
    words_weight -- Weight of ``-ln p(words | theta)`` over all documents, which is added to the supervised loss so
        that topics also model the words.
    """

    output_rate: float = 3.0
    log_counts: bool = False
    words_weight: float = 0.0


class SupervisedLDAClassifier(EngineClassifier, SupervisedTopics):
    """Topics that predict classes: supervised LDA trained by back-propagation (BP-sLDA).

    The topics of a document are inferred from its words by `n_layers` steps of mirror descent, and predict its class:
    ``p(c | d)`` is proportional to ``exp(gamma U theta)``. Back-propagation through these steps trains topics and U.

    ordered -- Classes are ordinal levels, in the order of `classes_`: use one score, with thresholds between neighbours
        (cumulative logit), instead of the softmax. Strings are sorted alphabetically, so use numbers.
    gamma -- Factor of the scores before the softmax or the sigmoid.
    unlabelled : label -- Value that marks a missing label, such as -1. See also `words_weight`.
    References -- Chen et al. (2015). End-to-end Learning of LDA by Mirror-Descent Back Propagation over a Deep
        Architecture. NIPS.
    """

    ordered: bool = False
    gamma: p.Positive = 1.0
    class_weight: object = None
    unlabelled: object = None

    spec = Spec("sparse", "labels", "class", topics="documents", unlabelled=True, label_sets=True, poor_score=True)
    spec = replace(spec, shown=("accuracy", "ncll", "micro_f1", "label_log_loss"))
    _takes_hidden = True

    def _head(self, source: Source, summary: surveys.WordSummary) -> heads.TopicHead:
        several = source.members is not None
        if several and (self.ordered or self.class_weight is not None or self.unlabelled is not None):
            raise ValueError("with several labels per document, do not set ordered, class_weight or unlabelled")
        levels = source.classes.tolist() if self.ordered else []
        advice = "if the order is wrong, use numbers, or strings of equal length, such as 02 and 10"
        order = f"ordered levels are sorted alphabetically: {', '.join(map(str, levels[:10]))}; {advice}"
        try:
            values = [float(str(level)) for level in levels]
        except ValueError:  # words have no known order
            warnings.warn(order, stacklevel=4)
            values = []
        if values != sorted(values):
            raise ValueError(order)
        kind = heads.SigmoidLabels if several else heads.Levels if self.ordered else heads.SoftmaxClasses
        return kind(len(source.classes), float(self.gamma))

    coef_ = p.fitted(
        lambda model: model._parameters.output[: 1 if isinstance(model.learner_.head, heads.Levels) else None],
        "U, shape (n_classes, n_components), or (1, n_components) with `ordered`.",
    )

    @property
    def level_thresholds_(self) -> np.ndarray:
        """With `ordered`: thresholds between levels, for gamma times the score, shape (n_classes - 1,)."""
        if not isinstance(self.learner_.head, heads.Levels):
            raise AttributeError("level_thresholds_ needs ordered=True")
        return heads.level_thresholds(self._parameters.output)

    def _class_scores(self, X: object) -> np.ndarray:
        output = self._parameters.output
        return np.asarray(self.learner_.head.scores(output, topics.outputs(output, self._transformed(X))))


class SupervisedLDARegressor(RegressorMixin, SupervisedTopics):
    """Topics that predict real numbers or counts: supervised LDA trained by back-propagation (BP-sLDA).

    Like `SupervisedLDAClassifier`, with the prediction ``U theta``. Targets are standardized for training. With
    ``family="poisson"``, the prediction is the exponential of U theta, times the training mean.

    family -- Distribution of targets. "gaussian": real numbers. "poisson": nonnegative numbers, with a log link.
    gamma -- Precision of the noise in standardized targets: the loss is ``gamma / 2`` times the squared error, or, for
        counts, gamma times the negative log-likelihood.
    """

    family: Literal["gaussian", "poisson"] = "gaussian"
    gamma: p.Positive = 1.0
    output_rate: float = 0.3

    spec = Spec("sparse", "numbers", "number", shown=("r2", "mse", "poisson_deviance"), topics="documents")
    explain = number_explanations
    _monitor = p.fitted(lambda m: "poisson_deviance" if m.family == "poisson" else "mse", "", "str")

    def _head(self, source: Source, summary: surveys.WordSummary) -> heads.TopicHead:
        if not np.isfinite(summary.squares).all():
            raise ValueError("the variance of y is too large for float64: divide y by a constant")
        mean, single = summary.mean, source.single
        of_targets = tuple(mean.tolist()), tuple(summary.scale.tolist()), single
        if self.family == "gaussian":
            return heads.Numbers(len(mean), float(self.gamma), *of_targets)
        if not (mean > 0.0).all():
            raise ValueError("family='poisson' needs counts with a positive mean")
        return heads.Rates(len(mean), float(self.gamma), (0.0,) * len(mean), tuple(mean.tolist()), single)

    single_ = p.fitted("learner_.head.single", "Whether `y` was one-dimensional.", "bool")

    @property
    def coef_(self) -> np.ndarray:
        """Predicted target of each topic (its logarithm for "poisson"), shape (n_targets, n_components)."""
        head, output = self.learner_.head, self._parameters.output
        location, scale = np.asarray(head.location)[:, None], np.asarray(head.scale)[:, None]
        return np.asarray(output + np.log(scale) if isinstance(head, heads.Rates) else location + scale * output)

    def predict(self, X: object, client: Client | None = None) -> Any:
        """Return the predicted targets, shape (n_samples,), or (n_samples, n_targets) if `y` was two-dimensional."""

        def predicted(rows: Any) -> np.ndarray:
            # The topics of a document sum to 1, so each topic can add the location of the targets.
            linear = topics.outputs(self.coef_, self._transformed(rows))
            means = np.exp(linear) if isinstance(self.learner_.head, heads.Rates) else linear
            return means[:, 0] if self.single_ else means

        return over_blocks(self, X, predicted, None if self.single_ else self.learner_.n_labels, client)

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return R2 on documents in memory or a corpus; with several targets, the mean."""
        return evaluate_source(self, source_of(self, X, y, sample_weight, use="score"), None)["r2"]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output, tags.target_tags.multi_output = False, True
        tags.regressor_tags.poor_score = True
        return tags
