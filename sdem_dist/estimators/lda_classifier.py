"""A classifier whose classes are LDA models, trained by sdEM."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from scipy.special import softmax

from sdem_dist.engine.plan import Plan
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.predictions import JointClassifier, WithTopics
from sdem_dist.fitting import defaults, plans
from sdem_dist.inputs.source import Source, documents_of
from sdem_dist.inputs.spec import Spec, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners.rules import Merge, StepSizes, margin_steps, paper_steps
from sdem_dist.learners.sdem import SdEM
from sdem_dist.losses import PACKAGE_LOSSES_ONLY, Loss, kernel_form, loss_kind
from sdem_dist.models import lda
from sdem_dist.models.heads import Classes, unit_of
from sdem_dist.reports.explaining import DocumentParts, of_lda
from sdem_dist.reports.top_words import named
from sdem_dist.text.vectorizer import VectorizerSettings


@p.estimator
class LDAClassifier(WithTopics, JointClassifier):
    """A classifier whose classes are LDA models with topics of their own, trained by sdEM.

    A document draws topic proportions from a Dirichlet distribution, and each word a topic of the document's class.
    With one topic per class this is `MultinomialNB`. Discriminative training lowers the conditional losses; it gives
    the topics of a class little reason to differ. For topics that say what a class is about take ``loss="nll"``.
    `transform` returns p(class, topic | document): the posterior of the class times the document's topic proportions
    under it.

    "nll" and "perplexity" of the history and of `evaluate` are upper bounds, unless `n_particles` estimates them. They
    are made of what `predict_joint_log_proba` returns. `predict_proba` and "ncll" come from another score, the one that
    training changes. So both may rank classes differently.

    References
    ----------
    Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Section 4.2, Algorithms 5 to 7.

    Examples
    --------
    >>> from sdem_dist import LDAClassifier
    >>> X, y = [[5, 1, 0, 0], [4, 2, 0, 1], [0, 0, 3, 4], [1, 0, 4, 5]] * 5, [0, 0, 1, 1] * 5
    >>> clf = LDAClassifier(loss="nll", n_components=2).fit(X, y)
    >>> clf.predict([[3, 1, 0, 0]]).tolist()
    [0]
    >>> clf.transform(X).shape
    (20, 4)
    """

    loss: Literal["ncll", "hinge", "nll"] | Loss = p.param(
        "ncll", 'What training lowers, as in `MultinomialNB`. Steps of "nll" add expected counts.'
    )
    n_components: int = p.param(2, "Topics of each class.")
    topic_word_prior: p.Positive = p.param(
        1.0, "eta: pseudo-count of a word, shared by the topics of a class; the paper: 0.1."
    )
    doc_topic_prior: float | None = p.param(None, "alpha, of a document's topic proportions. None: 1 / n_components.")
    inference: Literal["map", "gibbs"] = p.param(
        "map",
        "Of topics given the class: the most probable proportions, fast; or Gibbs sampling (equation 18).",
    )
    occurrences: Literal["shared", "paper", "each"] = p.param(
        "shared",
        'For "gibbs": occurrences of a word share a topic, by the exact conditional or by equation 18 literally, or\n'
        "each has its own, which needs whole counts.",
    )
    n_sweeps: int = p.param(10, "Sweeps over a document.")
    burn_in: int | None = p.param(
        None, "First sweeps of which sampling keeps nothing. None: 3, or all but one.", "int in [0, inf) | None"
    )
    n_particles: int = p.param(
        0,
        "Particles of the left-to-right estimate of ln p(d | y) (Wallach et al. 2009), which is consistent and slow. With\n"
        '``occurrences="shared"`` all occurrences of a word have one topic. 0: classes are told apart by what inference\n'
        "gives; with sampling that is the plug-in estimate.",
        "int in [0, inf)",
    )
    init_noise: float = p.param(0.1, "The start is multiplied by ``exp(init_noise * normal)``: topics can part.")
    n_epochs: int = 10
    steps: str = "margin"
    step: float | None = p.param(None, 'c, for "margin". None: 3 with the hinge loss, 16 with the others.')
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
        how = lda.Inference(
            self.inference, self.occurrences, alpha, int(self.n_sweeps), int(burn_in), int(self.n_particles)
        )
        model = lda.LdaClasses(
            n_features=source.n_features,
            head=Classes(n_classes),
            n_topics=int(self.n_components),
            alpha=float(self.topic_word_prior) / self.n_components,
            class_alpha=0.0 if nll and of_margin else 1.0,
            inference=how,
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
        rule = Merge(sizes, local=not nll and lanes_step)
        learner = SdEM(model, weight, rule, self.loss, weights, seed=seed)
        plan = plans.plan_of_steps(self, n, int(self.n_epochs), seed)
        if nll and lanes_step:  # a step per round, of an eighth of the documents
            rounds = self.rounds_per_epoch or max(1, min(defaults.LDA_NLL_ROUNDS, n // 2))
            plan = Plan(n, self.n_epochs, rounds, self.n_lanes or plans.lanes_of(n // rounds, 2), seed)
        elif lanes_step and of_margin:
            lanes = plans.lanes_of(n, defaults.LDA_LANE_DOCUMENTS, defaults.LDA_LANES)
            lanes = self.n_lanes or max(lanes, plans.default_lanes(n, defaults.ROUNDS))
            plan = plans.sequential(n, int(self.n_epochs), seed, lanes, self.rounds_per_epoch)
        plan = replace(plan, n_blocks=plans.blocks_of(source.n_features, model.n_columns))
        return final_stage(trainer, learner, plan)._replace(warnings=unused)

    @property
    def components_(self) -> np.ndarray:
        """The probabilities p(word | topic, class), shape (n_classes * n_components, n_features)."""
        return np.exp(lda.log_word_probabilities(self._parameters)).reshape(-1, self.n_features_in_)

    @property
    def _n_features_out(self) -> int:
        return int(self.learner_.model.n_columns)

    def _scored(self, X: object) -> tuple[np.ndarray, np.ndarray]:
        documents, learner = documents_of(self, X), self.learner_
        return lda.joint_scores(
            self._parameters, documents, np.arange(documents.n_features), learner.model.inference, learner.seed
        )

    def _class_scores(self, X: object) -> np.ndarray:
        return self._scored(X)[0]

    def _document_parts(self, documents: object, pairs: np.ndarray) -> list[DocumentParts]:
        proportions = self._scored(documents)[1]
        return of_lda(self._parameters, documents_of(self, documents), pairs, proportions, named(self.topics(3)))

    def _joint_log_proba(self, X: object) -> np.ndarray:
        inference = self.learner_.model.inference
        return lda.log_joint(self._parameters, documents_of(self, X), inference, *self._scored(X))

    def _transformed(self, X: object) -> np.ndarray:
        scores, proportions = self._scored(X)
        joint = proportions.swapaxes(1, 2) * softmax(scores, axis=1)[:, :, None]
        return joint.reshape(len(scores), -1)
