"""Topic models by mirror descent: LDA without labels, and supervised LDA (BP-sLDA), a classifier and a regressor."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from sdem_dist.corpus import Corpus
from sdem_dist.documents import Documents
from sdem_dist.engine.plan import Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.predictions import EngineClassifier, WithTopics
from sdem_dist.fitting import defaults, plans
from sdem_dist.fitting.holdout import Candidate, HoldoutPolicy, share_held_out
from sdem_dist.fitting.running import over_blocks, over_corpus
from sdem_dist.inputs.source import Source, documents_of
from sdem_dist.inputs.spec import Extra, Spec, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners.rules import MirrorSteps
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.surveys import Words, WordSummary
from sdem_dist.models import lda, topics
from sdem_dist.models import topic_heads as heads
from sdem_dist.models.word_counts import entries, lengths
from sdem_dist.reports.explaining import Parts, number_explanations, of_supervised_topics, refused
from sdem_dist.reports.top_words import named
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from distributed import Client


class TopicModel(WithTopics):
    """Base of the topic models by mirror descent.

    n_components -- K, the topics.
    alpha : Literal["learned"] | p.Positive | p.Positives -- Of the Dirichlet prior of a document's topics: convex from
        1 on, sparser below. One number, or one for each topic. "learned": common topics get more of the pseudo-counts,
        alpha - 1, whose mean is 0.1; see `alpha_`.
    beta : float in [1, inf) -- Of the Dirichlet prior of words. Above 1 all words move at once.
    n_layers -- L, steps of mirror descent towards a document's topics.
    inference_step -- Length T of such a step, times a document's words and pseudo-counts.
    inference -- Steps of that length; with momentum (Tseng 2008); or by line search, whose bound has the divergence
        (Algorithm 1) or the 1-norm (equation 29) of Chen et al.
    topic_rate -- mu_0 of Algorithm 2: the share by which a step changes common words; falls to 0. None: 0.05, without
        labels 0.15, and less from 25,000 documents on.
    average_from : int in [0, inf) -- The model is the mean over batches from this epoch on, from 0.
    merge -- "mean": lanes of Algorithm 2, averaged. "sum": a round is one batch.
    batch_size : int | None -- Documents of a step: of a lane ("mean") or round ("sum"). None: 100.
    rounds_per_epoch : int | None with merge=mean -- Merges per epoch, for "mean". None: 1.
    topic_shares_ : ndarray of shape (n_components,) -- Expected share of the training documents' words.
    """

    n_components: int = 20
    alpha: object = 1.001
    beta: float = 1.0
    n_layers: int = 10
    inference_step: p.Positive = 1.0
    inference: Literal["mirror-descent", "accelerated", "line-search", "line-search-l1"] = "mirror-descent"
    topic_rate: float | None = None
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
            raise ValueError(f"alpha has {alpha.size} numbers for {self.n_components} topics")

    def _head(self, source: Source, summary: WordSummary) -> heads.TopicHead:
        """Return what is learned to be predicted."""
        return heads.NoOutput()

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the count of the words, the training, the count of the topics, and the thresholds of several labels."""
        n, seed, n_labelled, weight = source.n_documents, seed_of(self.random_state), source.n_labelled, source.weight
        if self.merge == "sum":
            plan = plans.batches(n, self.n_epochs, seed, self.batch_size or defaults.TOPIC_BATCH, self.n_lanes)
        else:
            lanes = plans.lanes_of(int(n_labelled) or n, defaults.TOPIC_LANE_DOCUMENTS, defaults.TOPIC_LANES)
            plan = Plan(n, self.n_epochs, self.rounds_per_epoch or 1, self.n_lanes or lanes, seed)
        log_counts, words_weight = bool(getattr(self, "log_counts", False)), getattr(self, "words_weight", 0.0)
        counting = Words(source.n_features, source.corpus.header.n_targets, log_counts)
        summary = trainer.run(Stage("words", counting, Plan(n, 1, 1, plan.n_lanes, seed))).state
        head, factors = self._head(source, summary), None
        if hasattr(self, "class_weight") and source.members is None:
            factors = plans.weights_of_classes(self, source)
        if factors is not None:  # rates fall and averages begin by the weights that batches have
            weighed = sum(factor * count for factor, count in zip(factors, source.class_counts, strict=True))
            if not weighed > 0:
                raise ValueError("class_weight gives no document a weight")
            weight = weighed + (weight - n_labelled if n_labelled else 0.0)
            n_labelled = weighed if n_labelled else 0.0
        alpha: Any = self.alpha
        if not isinstance(alpha, str):
            alpha = tuple(np.asarray(alpha, np.float64).tolist()) if np.ndim(alpha) else float(alpha)
        inference = topics.MirrorDescent(alpha, int(self.n_layers), float(self.inference_step), self.inference)
        model = topics.TopicModel(
            source.n_features, int(self.n_components), head, inference, float(self.beta), log_counts
        )
        model = replace(model, n_labelled=float(n_labelled))
        if words_weight != "auto":
            model = replace(model, words_weight=float(words_weight))
        rate = float(self.topic_rate or self._topic_rate * min(1.0, defaults.TOPIC_MANY_DOCUMENTS / n))
        rates = rate, float(getattr(self, "output_rate", 3.0))
        batch = self.batch_size or max(defaults.TOPIC_BATCH // plan.n_lanes, defaults.TOPIC_LEAST_BATCH)
        rule = MirrorSteps(*rates, int(self.n_epochs), int(self.average_from), self.merge == "mean", batch)
        learner = SdEM(model, float(weight), rule, class_weight=factors, seed=seed)
        start = partial(model.start, summary.frequencies, seed)
        if words_weight == "auto":
            share = share_held_out(defaults.WORDS_SHARE, int(source.n_labelled or n))
            if not share:
                raise ValueError("words_weight='auto' needs 100 labelled documents, to hold some out: give a number")
            policy = HoldoutPolicy(trainer, source, share, None, self._monitor, plan.n_epochs, gate=False)
            trials = {w: replace(learner, model=replace(model, words_weight=w)) for w in defaults.WORDS_WEIGHTS}
            candidates = (Candidate(t, plan, start, f"words_weight {w:g}") for w, t in trials.items())
            learner = policy.choose(candidates).candidate.learner
        trained = final_stage(trainer, learner, plan, start)
        shares: Any = heads.TopicShares(head, model.n_topics)
        scorer = replace(learner, model=replace(learner.model, head=shares))
        figures = trainer.score("topics' shares", scorer, trained.state)
        shares_and_thresholds = [figures[str(i)] for i in range(len(figures))]
        self.topic_shares_ = np.array(shares_and_thresholds[: model.n_topics])
        if not isinstance(head, heads.SigmoidLabels):
            return trained
        thresholds = shares_and_thresholds[model.n_topics : model.n_topics + learner.n_labels]
        return trained._replace(learner=learner.decided(thresholds=tuple(thresholds)))

    components_ = p.fitted("_parameters.topics.T", "p(word | topic), shape (n_components, n_features).")
    alpha_ = p.fitted("_parameters.alpha", "Of the prior of a document's topics, shape (n_components,), in the end.")
    _n_features_out = p.fitted("learner_.model.n_topics", "")

    def _documents(self, X: object) -> Documents:
        documents = documents_of(self, X)
        return replace(documents, data=entries(documents.data, self.learner_.model.log_counts))

    def _transformed(self, X: object) -> np.ndarray:
        return np.asarray(self.learner_.model.inference.proportions(self._parameters, self._documents(X))[0])


class LatentDirichletAllocation(TopicModel):
    """Latent Dirichlet allocation by stochastic mirror descent on the topics: BP-LDA.

    A document's topics are the most probable ones given its words, found by `n_layers` steps of mirror descent, and the
    gradient of ``-ln p(words | theta)`` at them moves the topics (Chen et al. 2015, section E). Labels and targets are
    ignored. ``merge="mean"`` lowers the likelihood: without labels the topics of the lanes drift apart.

    Compare models by "word_nll", ``-ln p(w)`` a word, with theta summed out by the left-to-right estimator: `evaluate`,
    validation, searches, `score` and `perplexity` have it. The history has "plug_in_nll", ``-ln p(w | theta)`` a word:
    it is fast and too low, lower with more topics, as theta is found from the same words.

    n_particles -- Particles of the left-to-right estimate of ln p(words). More make it less noisy.
    References -- Chen et al. (2015). End-to-end Learning of LDA by Mirror-Descent Back Propagation over a Deep
        Architecture. NIPS.

    >>> from sdem_dist import LatentDirichletAllocation
    >>> X = [[5, 1, 0, 0], [4, 2, 0, 1], [0, 0, 3, 4], [1, 0, 4, 5]] * 50
    >>> first, second, third, _ = LatentDirichletAllocation(2).fit_transform(X).argmax(axis=1)[:4]
    >>> bool(first == second != third)
    True
    """

    topic_rate: float | None = 0.15
    n_epochs: int = 10
    merge: Literal["mean", "sum"] = "sum"
    batch_size: int | None = 500
    n_particles: int = 10

    spec = Spec("sparse", "nothing", None, shown=("word_nll", "plug_in_nll"), topics="documents")
    _monitor, _topic_rate = "word_nll", 0.15

    def scorer(self, learner: SdEM[topics.TopicModel]) -> SdEM[topics.TopicModel]:
        """Return a pass that scores documents which were not trained on, with particles."""
        return learner.decided(n_particles=int(self.n_particles))

    def _estimated(self, X: object) -> np.ndarray:
        """Return ln p(words) of documents in memory, and how many words they have, shape (n_samples, 2)."""
        documents = documents_of(self, X)
        alpha = self.alpha_ - (1.0 if self.learner_.model.inference.learned else 0.0)
        values = lda.log_probability(self._parameters.topics, documents, alpha, self.n_particles)
        return np.stack([values, lengths(documents)], axis=1)

    def score_samples(self, X: object) -> np.ndarray:
        """Return ln p(words of each document), shape (n_samples,), by the left-to-right estimator, in nats.

        Topics and proportions are summed out, see `sdem_dist.models.lda.log_probability`. The prior is `alpha_`, or the
        pseudo-counts ``alpha_ - 1`` where it was learned.
        """
        return over_corpus(self, X, self._estimated)[:, 0]

    def score(self, X: object, y: object = None) -> float:
        """Return the mean ln p of a word of documents in memory or of a corpus, in nats, see `score_samples`."""
        values, n_words = over_corpus(self, X, self._estimated).T
        return float(values.sum() / max(n_words.sum(), 1.0))

    def perplexity(self, X: object) -> float:
        """Return exp of minus `score`: the perplexity of a word, by the left-to-right estimator."""
        return float(np.exp(-self.score(X)))


class SupervisedTopics(TopicModel):
    """What topics that learn to predict have beside others.

    log_counts -- Take ln(1 + x) of all counts, in training and prediction.
    words_weight -- Weight of ``-ln p(words | theta)`` of all documents beside the loss of the labelled ones: topics
        also explain the words. "auto": a fifth of the documents is held out and chooses, in five more trainings.
    """

    output_rate: float = 3.0
    log_counts: bool = False
    words_weight: Literal["auto"] | float = 0.0


class SupervisedLDAClassifier(EngineClassifier, SupervisedTopics):
    """Topics that are learned to tell classes: BP-sLDA with softmax outputs.

    A document's topics are found from its words alone, by `n_layers` steps of mirror descent, and its class from them:
    ``p(c | d)`` is proportional to ``exp(gamma U theta)``. Topics Phi and U are learned by back-propagation through all
    steps.

    ordered -- Classes are levels of a scale, in the order of `classes_`: one score, and a threshold between neighbours
        (cumulative logit), rather than the softmax. Texts are in the order of the alphabet: give numbers.
    gamma -- Factor inside the softmax, or of the scores of levels and labels.
    unlabelled : label -- The label, such as -1, of hidden classes: see `words_weight`.
    References -- Chen et al. (2015). End-to-end Learning of LDA by Mirror-Descent Back Propagation over a Deep
        Architecture. NIPS.

    >>> from sdem_dist import SupervisedLDAClassifier
    >>> X, y = [[5, 1, 0, 0], [4, 2, 0, 1], [0, 0, 3, 4], [1, 0, 4, 5]] * 50, [0, 0, 1, 1] * 50
    >>> SupervisedLDAClassifier(2).fit(X, y).predict([[3, 1, 0, 0]]).tolist()
    [0]
    """

    ordered: bool = False
    gamma: p.Positive = 1.0
    class_weight: object = None
    unlabelled: object = None

    spec = Spec("sparse", "labels", "class", topics="documents", unlabelled=True, label_sets=True, poor_score=True)
    spec = replace(spec, shown=("accuracy", "ncll", "micro_f1", "label_log_loss"))
    _takes_hidden = True

    def _head(self, source: Source, summary: WordSummary) -> heads.TopicHead:
        several = source.members is not None
        if several and (self.ordered or self.class_weight is not None or self.unlabelled is not None):
            raise ValueError(
                "several labels have neither levels nor class weights: leave ordered, class_weight, unlabelled"
            )
        levels = source.classes.tolist() if self.ordered else []
        order = "ordered levels are in the order of the alphabet"
        try:
            values = [float(str(level)) for level in levels]
        except ValueError:
            advice = "if the scale has another order, give numbers, such as 0, 1, 2"
            warnings.warn(f"{order}: {', '.join(map(repr, levels[:10]))}; {advice}", stacklevel=2)
            values = []
        if values != sorted(values):
            advice = "write texts of one length, such as 02 and 10, or numbers"
            raise ValueError(f"{order}: {', '.join(map(str, levels))}; {advice}")
        kind = heads.SigmoidLabels if several else heads.Levels if self.ordered else heads.SoftmaxClasses
        return kind(len(source.classes), float(self.gamma))

    coef_ = p.fitted(
        lambda model: model._parameters.output[: 1 if isinstance(model.learner_.head, heads.Levels) else None],
        "U, shape (n_classes, n_components); with `ordered` of the score, shape (1, n_components).",
    )
    thresholds_ = p.fitted(
        lambda model: np.array(model.learner_.head.thresholds or (0.5,) * len(model.classes_)),
        "Lowest probability with which a document gets a label, of the largest F1 in training, shape (n_labels,).",
    )

    @property
    def level_thresholds_(self) -> np.ndarray:
        """With `ordered`: what gamma times a document's score must pass for the next level, shape (n_classes - 1,)."""
        if not isinstance(self.learner_.head, heads.Levels):
            raise AttributeError("level_thresholds_ are those of ordered=True")
        return heads.level_thresholds(self._parameters.output)

    def _topic_labels(self) -> list[object]:
        return self.classes_[self._scores_of_topics(np.eye(self._n_features_out)).argmax(axis=1)].tolist()

    def _class_scores(self, X: object) -> np.ndarray:
        return self._scores_of_topics(self._transformed(X))

    def _scores_of_topics(self, theta: np.ndarray) -> np.ndarray:
        output = self._parameters.output
        return np.asarray(self.learner_.head.scores(output, topics.outputs(output, theta)))

    def _document_parts(self, documents: object, pairs: np.ndarray) -> Parts:
        output, (a, b) = self.learner_.head.gamma * self._parameters.output, pairs.T
        says = output[a] if self.several_labels else output[a] - output[b]
        if isinstance(self.learner_.head, heads.Levels):
            says = np.sign(a - b)[:, None] * output[:1]
        rows, theta = self._documents(documents), self._transformed(documents)
        return of_supervised_topics(self._parameters, rows, says, theta, named(self.topics(3)))


class SupervisedLDARegressor(RegressorMixin, SupervisedTopics):
    """Topics learned to predict real numbers or counts, one or several: BP-sLDA with Gaussian or Poisson outputs.

    As `SupervisedLDAClassifier`, with the prediction ``U theta``. Targets are standardised for training. Of counts,
    with ``family="poisson"``, the prediction is the exponential of U theta, times the mean of training.

    family -- Of real numbers; or of counts (log link), fractions too.
    gamma -- Precision of the noise of standardised targets: the loss is ``gamma / 2`` times the squared error; of
        counts, minus the log-likelihood times it.

    >>> from sdem_dist import SupervisedLDARegressor
    >>> X, stars = [[5, 1, 0, 0], [4, 2, 0, 1], [0, 0, 3, 4], [1, 0, 4, 5]] * 50, [1.0, 2.0, 8.0, 9.0] * 50
    >>> low, high = SupervisedLDARegressor(2).fit(X, stars).predict([[3, 1, 0, 0], [0, 0, 1, 3]])
    >>> bool(low < high)
    True
    """

    family: Literal["gaussian", "poisson"] = "gaussian"
    gamma: p.Positive = 1.0
    output_rate: float = 0.3

    spec = Spec("sparse", "numbers", "number", shown=("r2", "mse", "poisson_deviance"), topics="documents")
    explain = number_explanations
    _single = True  # targets are one per document, not a column of a table

    @property
    def _monitor(self) -> str:
        return "poisson_deviance" if self.family == "poisson" else "mse"

    def _describe(self, source: Source) -> None:
        super()._describe(source)
        self._single = source.single

    def _head(self, source: Source, summary: WordSummary) -> heads.TopicHead:
        if not np.isfinite(summary.squares).all():
            raise ValueError("y has numbers too large for their variance to be a float64: divide them by a constant")
        mean = summary.mean
        if self.family == "gaussian":
            return heads.Numbers(len(mean), float(self.gamma), tuple(mean.tolist()), tuple(summary.scale.tolist()))
        if not (mean > 0.0).all():
            raise ValueError("family='poisson' learns counts, and the mean of y is not positive")
        return heads.Rates(len(mean), float(self.gamma), (0.0,) * len(mean), tuple(mean.tolist()))

    @property
    def coef_(self) -> np.ndarray:
        """What each topic predicts, of counts its logarithm, shape (n_targets, n_components)."""
        head, output = self.learner_.head, self._parameters.output
        location, scale = np.asarray(head.location)[:, None], np.asarray(head.scale)[:, None]
        return np.asarray(output + np.log(scale) if isinstance(head, heads.Rates) else location + scale * output)

    def _topic_labels(self) -> list[object]:
        return self.coef_[0].tolist() if self._single else [tuple(column) for column in self.coef_.T.tolist()]

    def predict(self, X: object, client: Client | None = None) -> Any:
        """Return the targets, shape (n_samples,), or (n_samples, n_targets) where they were columns."""

        def predicted(rows: Any) -> np.ndarray:
            # A document's topics sum to 1, so that the targets' location can be each topic's.
            linear = topics.outputs(self.coef_, self._transformed(rows))
            means = np.exp(linear) if isinstance(self.learner_.head, heads.Rates) else linear
            return means[:, 0] if self._single else means

        return over_blocks(self, X, predicted, None if self._single else self.learner_.n_labels, client)

    def _number_parts(self, documents: object, target: int) -> tuple[np.ndarray, float, Parts]:
        if isinstance(self.learner_.head, heads.Rates):  # a product over topics
            raise refused(self)
        theta, mean = self._transformed(documents), float(self.learner_.head.location[target])
        says = np.broadcast_to(self.coef_[target] - mean, theta.shape)
        parts = of_supervised_topics(self._parameters, self._documents(documents), says, theta, named(self.topics(3)))
        return topics.outputs(self.coef_, theta)[:, target], mean, parts

    def extra(self) -> dict[str, object]:
        return {**super().extra(), "single": self._single}

    def take_extra(self, extra: Extra) -> None:
        super().take_extra(extra)
        self._single = bool(extra["single"]) and self.learner_.n_labels == 1

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return the predictive R2 on documents, or on a corpus with its own targets; of several targets the mean."""
        if isinstance(X, Corpus) and sample_weight is None:
            return self.evaluate(X, y)["r2"]
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output, tags.target_tags.multi_output = False, True
        tags.regressor_tags.poor_score = True
        return tags
