"""Topic models: by mirror descent, of which one takes no labels, and a classifier whose classes are LDA models."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.special import softmax

from sdem_dist.documents import Documents
from sdem_dist.engine.plan import Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.predictions import JointClassifier, WithTopics
from sdem_dist.fitting import defaults, plans
from sdem_dist.fitting.holdout import Candidate, HoldoutPolicy, share_held_out
from sdem_dist.fitting.running import over_corpus
from sdem_dist.inputs.source import Source, documents_of
from sdem_dist.inputs.spec import Extra, Spec, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners.rules import Merge, MirrorSteps, StepSizes, margin_steps, paper_steps
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.surveys import Words, WordSummary
from sdem_dist.losses import PACKAGE_LOSSES_ONLY, Loss, kernel_form, loss_kind
from sdem_dist.models import lda, topics
from sdem_dist.models import topic_heads as heads
from sdem_dist.models.heads import Classes, unit_of
from sdem_dist.models.word_counts import entries, lengths
from sdem_dist.reports.explaining import Parts, of_lda
from sdem_dist.reports.top_words import named
from sdem_dist.text.vectorizer import VectorizerSettings


class TopicModel(WithTopics):
    """Base of the topic models by mirror descent.

    n_components -- K, the topics.
    alpha : Literal["learned"] | p.Positive | p.Positives -- Of the Dirichlet prior of a document's topics: convex from
        1 on, sparser below. One number, or one for each topic. "learned": common topics get more of the pseudo-counts,
        alpha - 1, whose mean is 0.1; see `alpha_`.
    beta : float in [1, inf) -- Of the Dirichlet prior of words. Above 1 all words move at once.
    n_layers -- L, steps of mirror descent towards a document's topics.
    inference_step -- Length T of a step, times a document's words and pseudo-counts.
    inference -- Steps of that length; with momentum (Tseng 2008); or by line search, whose bound has the divergence
        (Algorithm 1) or the 1-norm (equation 29) of Chen et al.
    topic_rate -- mu_0 of Algorithm 2: the share by which a step changes common words; falls to 0. None: 0.05, without
        labels 0.15, and less from 25,000 documents on.
    average_from : int in [0, inf) -- The model is the mean over batches from this epoch on, from 0.
    merge -- "mean": lanes of Algorithm 2, averaged. "sum": a round is one batch.
    batch_size -- Documents of a step: of a lane ("mean") or round ("sum"). None: 100.
    rounds_per_epoch -- Merges per epoch, for "mean". None: 1.
    topic_shares_ : ndarray of shape (n_components,) -- Share of the training documents' words that each topic is
        expected to explain.
    history_ : list of dict -- One entry per epoch, see ``sdem_dist/models/topic_heads.py``.
    """

    n_components: int = p.positional(20)
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
    patience: int | None = None
    random_state: object = 0

    _topic_rate = 0.05

    @abstractmethod
    def _head(self, source: Source, summary: WordSummary) -> heads.TopicHead:
        """Return what is learned to be predicted."""

    def _check(self) -> None:
        if (alpha := np.asarray(self.alpha)).ndim and alpha.size != self.n_components:
            raise ValueError(f"alpha has {alpha.size} numbers for {self.n_components} topics")
        if self.merge == "sum" and self.rounds_per_epoch is not None:
            raise ValueError("with merge='sum' batch_size sets the rounds of an epoch: leave rounds_per_epoch at None")

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
        model = topics.TopicModel(
            n_features=source.n_features,
            n_topics=int(self.n_components),
            head=head,
            inference=topics.MirrorDescent(alpha, int(self.n_layers), float(self.inference_step), self.inference),
            beta=float(self.beta),
            log_counts=log_counts,
            words_weight=0.0 if words_weight == "auto" else float(words_weight),
            n_labelled=float(n_labelled),
        )
        rule = MirrorSteps(
            topic_rate=float(self.topic_rate or self._topic_rate * min(1.0, defaults.TOPIC_MANY_DOCUMENTS / n)),
            output_rate=float(getattr(self, "output_rate", 3.0)),
            n_epochs=int(self.n_epochs),
            average_from=int(self.average_from),
            local=self.merge == "mean",
            batch_size=self.batch_size or max(defaults.TOPIC_BATCH // plan.n_lanes, defaults.TOPIC_LEAST_BATCH),
        )
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


class LatentDirichletAllocation(TopicModel):
    """Latent Dirichlet allocation by stochastic mirror descent on the topics: BP-LDA.

    A document's topics are the most probable ones given its words, found by `n_layers` steps of mirror descent, and the
    gradient of ``-ln p(words | theta)`` at them moves the topics (Chen et al. 2015, section E). Labels and targets are
    ignored. ``merge="mean"`` lowers the likelihood: without labels the topics of the lanes drift apart.

    Compare models by "word_nll", ``-ln p(w)`` a word: `evaluate`, validation, searches, `score` and `perplexity` sum
    theta out, by the left-to-right estimator with `n_particles`. The history has "plug_in_nll" of training documents,
    ``-ln p(w | theta)`` a word: it is fast and too low, lower with more topics, as theta is found from the same words.

    n_particles -- Particles of the left-to-right estimate of ln p(words). More make it less noisy.
    References -- Chen et al. (2015). End-to-end Learning of LDA by Mirror-Descent Back Propagation over a Deep
        Architecture. NIPS.

    >>> from sdem_dist import LatentDirichletAllocation
    >>> X = [[5, 1, 0, 0], [4, 2, 0, 1], [0, 0, 3, 4], [1, 0, 4, 5]] * 50
    >>> model = LatentDirichletAllocation(n_components=2).fit(X)
    >>> first, second, third, _ = model.transform(X[:4]).argmax(axis=1)
    >>> bool(first == second != third)
    True
    """

    topic_rate: float | None = 0.15
    n_epochs: int = 10
    merge: Literal["mean", "sum"] = "sum"
    batch_size: int | None = 500
    n_particles: int = 10

    spec = Spec("sparse", "nothing", None, shown=("word_nll", "plug_in_nll"), topics="documents")
    _monitor = "word_nll"
    _topic_rate = 0.15

    def _head(self, source: Source, summary: WordSummary) -> heads.NoOutput:
        return heads.NoOutput()

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

        Topics and proportions are summed out, see `sdem_dist.models.lda.log_probability`. The prior is `alpha_`, or
        ``alpha_ - 1`` where it was learned: the pseudo-counts that make the counts of topics most probable.
        """
        return over_corpus(self, X, self._estimated)[:, 0]

    def score(self, X: object, y: object = None) -> float:
        """Return the mean ln p of a word of documents in memory or of a corpus, in nats, see `score_samples`."""
        values, n_words = over_corpus(self, X, self._estimated).T
        return float(values.sum() / max(n_words.sum(), 1.0))

    def perplexity(self, X: object) -> float:
        """Return exp of minus `score`: the perplexity of a word, by the left-to-right estimator."""
        return float(np.exp(-self.score(X)))


class LDAClassifier(WithTopics, JointClassifier):
    """A classifier whose classes are LDA models with topics of their own, trained by sdEM.

    A document draws topic proportions from a Dirichlet distribution, and each word a topic of the document's class.
    With one topic per class this is `MultinomialNB`. Discriminative training gives the topics of a class little reason
    to differ: for topics that say what a class is about take ``loss="nll"``. `transform` returns p(class, topic |
    document): the posterior of the class times the document's topic proportions under it.

    "nll" and "perplexity" are upper bounds, unless `n_particles` estimates them, made of what `predict_joint_log_proba`
    returns. `predict_proba` and "ncll" come from the score that training changes: both may rank classes differently.

    loss -- As in `MultinomialNB`; "nll" adds expected counts.
    n_components -- Topics of each class.
    topic_word_prior -- eta: pseudo-count of a word, which topics of a class share; paper: 0.1.
    doc_topic_prior -- alpha, of a document's topic proportions. None: 1 / n_components.
    inference -- Of topics: most probable, fast; or sampled (equation 18).
    occurrences -- For "gibbs": occurrences of a word share a topic, by the exact conditional or by equation 18
        literally, or each has its own, which needs whole counts.
    n_sweeps -- Sweeps over a document.
    burn_in : int in [0, inf) | None -- First sweeps, not kept. None: 3, or all but one.
    n_particles : int in [0, inf) -- Particles of the left-to-right estimate of ln p(d | y) (Wallach et al. 2009):
        consistent, slow; with "shared" all occurrences of a word have one topic. 0: what inference gives, with sampling
        the plug-in estimate.
    init_noise -- The start is multiplied by ``exp(init_noise * normal)``: topics can part.
    step -- c, for "margin". None: 3 with the hinge loss, 16 with the others.
    References -- Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Section 4.2, Algorithms 5 to 7.

    >>> from sdem_dist import LDAClassifier
    >>> X, y = [[5, 1, 0, 0], [4, 2, 0, 1], [0, 0, 3, 4], [1, 0, 4, 5]] * 5, [0, 0, 1, 1] * 5
    >>> clf = LDAClassifier(loss="nll", n_components=2).fit(X, y)
    >>> clf.predict([[3, 1, 0, 0]]).tolist()
    [0]
    >>> clf.transform(X).shape
    (20, 4)
    """

    loss: Literal["ncll", "hinge", "nll"] | Loss = "ncll"
    n_components: int = 2
    topic_word_prior: p.Positive = 1.0
    doc_topic_prior: float | None = None
    inference: Literal["map", "gibbs"] = "map"
    occurrences: Literal["shared", "paper", "each"] = "shared"
    n_sweeps: int = 10
    burn_in: int | None = None
    n_particles: int = 0
    init_noise: float = 0.1
    n_epochs: int = 10
    steps: str = "margin"
    step: float | None = None
    step_decay: float = 1e-5
    merge: str = "mean"
    n_lanes: int | None = None
    rounds_per_epoch: int | None = None
    batch_size: int | None = None
    class_prior: object = None
    fit_prior: bool = True
    class_weight: object = None
    vectorizer: VectorizerSettings | None = None
    patience: int | None = None
    random_state: object = 0

    spec = Spec("sparse", "labels", "class", topics="classes", poor_score=True)

    def _check(self) -> None:
        p.check_steps(self)
        if self.burn_in is not None and self.inference == "map":
            raise ValueError("burn_in is for inference='gibbs': leave it at None with inference='map'")
        if self.burn_in is not None and self.burn_in >= self.n_sweeps:
            raise ValueError(f"burn_in must leave some of the {self.n_sweeps} sweeps, got {self.burn_in!r}")
        if self.inference == "map" and self.occurrences != "shared" and self.n_particles == 0:
            raise ValueError("occurrences is for inference='gibbs', or n_particles above 0: leave it at 'shared'")

    def train(self, trainer: Trainer, source: Source) -> Trained:
        n, seed, n_classes = source.n_documents, seed_of(self.random_state), len(source.classes)
        nll, lanes_step, of_margin = self.loss == "nll", self.merge == "mean", self.steps == "margin"
        burn_in = min(defaults.LDA_BURN_IN, self.n_sweeps - 1) if self.burn_in is None else self.burn_in
        alpha = 1.0 / self.n_components if self.doc_topic_prior is None else float(self.doc_topic_prior)
        model = lda.LdaClasses(
            n_features=source.n_features,
            head=Classes(n_classes),
            n_topics=int(self.n_components),
            alpha=float(self.topic_word_prior) / self.n_components,
            class_alpha=0.0 if nll and of_margin else 1.0,
            inference=lda.Inference(
                self.inference, self.occurrences, alpha, int(self.n_sweeps), int(burn_in), int(self.n_particles)
            ),
            noise=float(self.init_noise),
            log_prior=plans.fixed_log_prior(self.class_prior, self.fit_prior, n_classes),
        )
        kernel_form(self.loss, n_classes, PACKAGE_LOSSES_ONLY)  # says what is wrong with it
        weights, weight = plans.weights_of_classes(self, source), source.weight
        if nll and weights is not None:
            weight = float(np.dot(weights, source.class_counts))
        sizes, unused = paper_steps(float(self.step_decay)), tuple[str, ...]()
        if nll and of_margin:
            # NLL counts: every pass adds the documents and the prior once; the start adds it, too.
            sizes = StepSizes(correction=True, correct_from=weight, floor=0.0, class_floor=0.0)
            unused = p.unused_steps(self, ("step", "step_decay"))
        elif of_margin:
            prior = np.full(source.n_features, model.alpha * model.n_topics)  # a document's topics share its words
            step = float(self.step or defaults.LDA_STEPS[loss_kind(self.loss)])
            unit = unit_of(plans.sample(source), prior)
            sizes = margin_steps(step, unit, model.alpha, model.class_alpha, float(self.step_decay))
        learner = SdEM(model, weight, Merge(sizes, local=not nll and lanes_step), self.loss, weights, seed=seed)
        least = plans.lanes_of(n, defaults.LDA_LANE_DOCUMENTS, defaults.LDA_LANES) if of_margin else 1
        plan = plans.plan_of_steps(self, n, int(self.n_epochs), seed, least)
        if nll and lanes_step:  # a step per round, of an eighth of the documents
            rounds = self.rounds_per_epoch or max(1, min(defaults.LDA_NLL_ROUNDS, n // 2))
            plan = Plan(n, self.n_epochs, rounds, self.n_lanes or plans.lanes_of(n // rounds, 2), seed)
        plan = replace(plan, n_blocks=plans.blocks_of(source.n_features, model.n_columns))
        return final_stage(trainer, learner, plan)._replace(warnings=unused)

    @property
    def components_(self) -> np.ndarray:
        """The probabilities p(word | topic, class), shape (n_classes * n_components, n_features)."""
        return np.exp(lda.log_word_probabilities(self._parameters)).reshape(-1, self.n_features_in_)

    @property
    def _n_features_out(self) -> int:
        return int(self.learner_.model.n_columns)

    def _scored(self, X: object) -> tuple[Documents, np.ndarray, np.ndarray]:
        """Return documents, what decides between their classes, and their topics' proportions under each class."""
        documents, learner = documents_of(self, X), self.learner_
        words = np.arange(documents.n_features)
        scored = lda.joint_scores(self._parameters, documents, words, learner.model.inference, learner.seed)
        return documents, *scored

    def _class_scores(self, X: object) -> np.ndarray:
        return self._scored(X)[1]

    def _document_parts(self, documents: object, pairs: np.ndarray) -> Parts:
        rows, _, proportions = self._scored(documents)
        return of_lda(self._parameters, rows, pairs, proportions, named(self.topics(3)))

    def _joint_log_proba(self, X: object) -> np.ndarray:
        documents, scores, proportions = self._scored(X)
        return lda.log_joint(self._parameters, documents, self.learner_.model.inference, scores, proportions)

    def _transformed(self, X: object) -> np.ndarray:
        _, scores, proportions = self._scored(X)
        joint = proportions.swapaxes(1, 2) * softmax(scores, axis=1)[:, :, None]
        return joint.reshape(len(scores), -1)
