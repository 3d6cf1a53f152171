"""Classifiers whose classes have hidden variables: mixtures, by EM, sdEM and multiplicative updates, and LDA models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import softmax

from sdem_dist.documents import Documents
from sdem_dist.engine.plan import Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.incremental import Incremental
from sdem_dist.estimators.predictions import EngineClassifier, JointClassifier, Transforming, WithDensity
from sdem_dist.estimators.tables import TableEstimator
from sdem_dist.families import Family
from sdem_dist.fitting import defaults, holdout, plans
from sdem_dist.inputs.source import Source, documents_of, table_of
from sdem_dist.inputs.spec import Spec, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners import rules, safe_step, starts, surveys, variables
from sdem_dist.learners.sdem import SdEM
from sdem_dist.losses import PACKAGE_LOSSES_ONLY, Loss, kernel_form, loss_kind, named
from sdem_dist.models import feature_classes, heads, lda, mixture
from sdem_dist.models.em import EXACT, EmForm
from sdem_dist.models.word_counts import state_at
from sdem_dist.reports.top_words import topics_of
from sdem_dist.text.vectorizer import VectorizerSettings


class Components(EngineClassifier):
    """Base of classifiers with components for each class.

    n_components : int, sequence of int or dict of class to int -- Number of components of each class.
    validation_fraction : float in [0, 0.5] -- Fraction of the documents (at most 20,000) to hold out in a first
        training run, for the temperature and the curves in reports. With fewer than 20 of them, the temperature is 1.

    >>> from sdem_dist import Components
    >>> X, y = [[1.0, 0.0], [2.0, 0.5], [0.0, 3.0], [0.5, 2.0], [1.0, 0.2], [0.2, 2.5]], [0, 0, 1, 1, 0, 1]
    >>> Components(1).fit(X, y).predict([[2.0, 0.0], [0.0, 2.0]]).tolist()
    [0, 1]
    """

    n_components: Any = 4
    class_weight: object = None
    validation_fraction: float = 0.1
    vectorizer: VectorizerSettings | None = None
    evaluate_every: int = 50

    _train: ClassVar[Any]  # runs the stages of training on the documents of a source
    train = holdout.train_with_temperature


class JointMixture(Components, TableEstimator, WithDensity, JointClassifier):
    """Base of mixtures that are joint distributions.

    alpha -- Weight of the prior: a number of observations at the column mean (for "poisson", at 1), or pseudo-count of
        each value or word. "multinomial" adds one document to each component, so that none is empty.
    offset : float in [0, inf) with components=exponential -- Add this fraction of the column mean to each column.
    """

    components: str = "gaussian"
    covariance_type: str = "diag"
    kinds: Mapping[Any, str | Family] | None = None
    alpha: p.Positive = 1.0
    offset: float = 0.0
    unlabelled: object = None
    unlabelled_weight: float = 1.0

    spec = Spec("dense", "labels", "class", words="feature_log_prob_", unlabelled=True)
    _kind = p.fitted("components", "", "str")

    def _em(self, trainer: Trainer, source: Source, once: Plan, form: EmForm = EXACT) -> tuple[SdEM[Any], Any]:
        """Return the learner of EM, and a function for its start, between a fit of the classes and examples."""
        words, shared, n_classes = self._layout == "sparse", bool(getattr(self, "shared", False)), len(source.classes)
        numbers = components_of(self.n_components, source.classes[: 1 if shared else None])
        numbers, weights = numbers * (n_classes if shared else 1), plans.weights_of_classes(self, source)
        how = {"class_weight": weights, "unlabelled_weight": float(self.unlabelled_weight)}
        em = plans.mixture(self, trainer, source, once, numbers, form, **how)
        model: Any = replace(em.model, head=heads.Classes(n_classes, shared=shared))
        if words:
            model = replace(model, class_alpha=0.0)
        generative = SdEM(model, source.weight, rules.ClosedForm(complete=True), class_weight=weights)
        classes = trainer.run(Stage("classes", generative, once)).state
        survey = plans.surveyed(trainer, source, once, max(numbers), labelled=not shared)
        examples = np.concatenate(surveys.examples_of(survey, numbers[: len(survey.keys)]))
        positions = np.resize(examples, sum(numbers))  # shared components are the same for all classes

        def half_way() -> Any:
            if not words:
                examples = starts.rows_at(source.corpus, positions)
                return starts.features_at_examples(examples, numbers, model.variables, classes)
            documents = (starts.rows_at(source.corpus, [position])[0] for position in positions)
            return state_at(*starts.counts_at_examples(documents, numbers, classes.words, source.class_counts))

        return em, half_way

    @property
    def log_weights_(self) -> np.ndarray:
        """Logarithm of p(component, class), shape (n_classes, n_components); -inf for components of other classes."""
        head, log_prior = self.learner_.head, self._parameters.log_prior
        if head.shared:
            return np.asarray(log_prior.reshape(head.n_classes, -1))
        return np.where(np.eye(head.n_classes)[:, head.component_class], log_prior, -np.inf)

    @property
    def theta_(self) -> np.ndarray:
        """Natural parameters, shape (n_components, n_parameters); for multinomials, ln p(word | component)."""
        theta = self._parameters.log_probabilities if self._layout == "sparse" else self._parameters.theta
        return np.asarray(theta[: self.log_weights_.shape[1]])

    class_log_prior_ = p.fitted(lambda model: np.logaddexp.reduce(model.log_weights_, axis=1), "Logarithm of p(class).")

    @property
    def feature_log_prob_(self) -> np.ndarray:
        """Logarithm of p(word | class), shape (n_classes, n_features), of multinomial components."""
        if self.components != "multinomial":
            raise AttributeError(f"feature_log_prob_ needs components='multinomial', not {self.components!r}")
        shares = np.exp(self.log_weights_ - self.class_log_prior_[:, None])
        return np.asarray(np.log(shares @ np.exp(self.theta_)))

    def _joint_log_proba(self, X: object) -> np.ndarray:
        return heads.by_class(super()._joint_log_proba(X), self.learner_.head.component_class)[0]


def components_of(n_components: Any, classes: np.ndarray) -> tuple[int, ...]:
    """Return the number of components of each class; ValueError unless positive, one or one per class."""
    numbers = list(n_components) if np.iterable(n_components) else [n_components] * len(classes)
    if isinstance(n_components, Mapping):
        if odd := set(n_components) ^ set(classes.tolist()):
            names = ", ".join(sorted(map(repr, odd)))
            raise ValueError(f"n_components does not match the classes of the documents (unknown or missing: {names})")
        numbers = [n_components[c] for c in classes.tolist()]
    if len(numbers) != len(classes) or not all(isinstance(n, int | np.integer) and n >= 1 for n in numbers):
        raise ValueError(f"n_components must be an integer of at least 1, or one for each class, got {n_components!r}")
    return tuple(int(n) for n in numbers)


class EMMixtureClassifier(JointMixture):
    """A classifier with a mixture of components for each class, fitted by EM (mixture discriminant analysis).

    n_epochs -- Iterations of EM.
    batch_size : int | None with em=online -- Documents per step, with "online". None: 1,024.
    shared : bool with em=soft -- All classes share `n_components` components, with separate weights (equation 1).
    References -- Saul, L. and Lee, D. (2001). Multiplicative Updates for Classification by Mixture Models. NIPS.
    """

    n_epochs: int = 64
    em: str = "soft"
    em_step: float | None = None
    batch_size: int | None = None
    annealing: float = 1.0
    shared: bool = False

    _monitor, _weights_are_relative = "nll", False

    def _train(self, trainer: Trainer, source: Source) -> Trained:
        form, once, plan = plans.em_of(self, source)
        learner, start = self._em(trainer, source, once, form)
        return final_stage(trainer, learner, plan, start)


class SdemMixtureClassifier(JointMixture, Incremental):
    """A classifier whose classes are mixtures of components, trained by sdEM with the component as the hidden variable.

    EM first fits the joint distribution to all documents. Training then includes unlabelled table rows, with the loss
    ``-ln p(x)``, but not unlabelled documents with word counts.

    loss -- Loss function to minimize, as in `MultinomialNB`.
    n_epochs -- Number of passes. None: 60, or 15 for multinomial components.
    n_em_epochs -- Iterations of EM before the passes of sdEM.
    References -- Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 2.
    """

    loss: Literal["ncll", "hinge", "nll"] | Loss = "ncll"
    n_epochs: int | None = None
    n_em_epochs: int = 10
    validation_fraction: float = 0.0  # training minimizes the log-loss itself

    def _train(self, trainer: Trainer, source: Source) -> Trained:
        once = plans.one_pass(self, source)
        em, start = self._em(trainer, source, once)
        fitted = trainer.run(Stage("EM", em, replace(once, n_epochs=self.n_em_epochs), start)).state
        words, model, weights = self.components == "multinomial", em.model, em.class_weight
        n_epochs = self.n_epochs or (defaults.MIXTURE_EPOCHS_OF_COUNTS if words else defaults.MIXTURE_EPOCHS)
        plan = replace(once, n_epochs=n_epochs)
        if not words:
            rule, loss, share = safe_step.SafeStep(), named(self.loss), float(self.unlabelled_weight)
            # With an empty component, no step of the class counts would be possible.
            initial: Any = feature_classes.started(fitted.best_counts + model.class_alpha, fitted.best_mu)
            return final_stage(trainer, SdEM(model, source.weight, rule, loss, weights, share), plan, initial)
        if self.loss == "nll":
            return final_stage(trainer, em, plan, fitted)
        documents, share = plans.sample(source), defaults.MIXTURE_START_SHARE
        prior = model.alpha + share * (fitted.words.mean(axis=1) - model.alpha)
        unit = heads.unit_of(documents, prior)
        sizes = rules.margin_steps(rules.STEP_OF_COUNTS, unit, model.alpha, model.class_alpha)
        kernel_form(self.loss, model.n_classes, PACKAGE_LOSSES_ONLY)  # raises if the loss is not supported
        n_labelled = source.n_labelled or source.weight  # documents without a label need no steps
        learner = SdEM(model, n_labelled, rules.Merge(sizes), self.loss, weights, seed=once.seed)
        weight = starts.weight_of_margin(fitted, documents, defaults.MIXTURE_MARGIN, model.head.component_class)
        class_counts = model.class_alpha + share * fitted.class_counts
        initial = starts.start_at(model.start_at(prior)._replace(class_counts=class_counts), fitted, weight)
        return final_stage(trainer, learner, plans.sequential(source.n_documents, n_epochs, once.seed), initial)


NO_GAPS = "multiplicative updates do not support missing values: impute them, or use EMMixtureClassifier"
NOT_NEGATIVE = "multiplicative updates need nonnegative features: add constants, or split each feature into two by sign"


class MultiplicativeMixtureClassifier(Components):
    """A classifier with a mixture of components for each class, whose posterior p(y | x) is trained directly.

    Plain multiplicative updates cannot decrease the conditional log-likelihood and have no step size. They require
    tables or sparse matrices without missing or negative values. The model does not define p(x).

    n_epochs -- Number of updates; each is a pass over the documents.
    shared -- All classes share the `n_components` components, and each class has its own weights.
    scaling -- "rows": divide each row by its sum, and multiply all rows by one factor, so that updates are large.
    expand -- Also use squares and products of the columns of a table (equation 9).
    schedule -- "alternate": update the weights W and theta in turn, as in the paper. "joint": both in each pass.
    accelerate -- Raise updates to a power that grows by a fifth per pass; a fall in likelihood is undone and resets it.
    dtype -- Precision of posteriors for tables; float32 is twice as fast.
    References -- Saul, L. and Lee, D. (2001). Multiplicative Updates for Classification by Mixture Models. NIPS.
    """

    n_epochs: int = 200
    shared: bool = False
    scaling: Literal["rows", None] = "rows"
    expand: bool = False
    schedule: Literal["joint", "alternate"] = "joint"
    accelerate: bool = True
    dtype: Literal["float64", "float32"] = "float64"

    spec = Spec("dense", "labels", "class", either=True, positive=True, poor_score=True)

    def _checked(self, X: np.ndarray) -> np.ndarray:
        variables.refuse(X, np.isnan(X), "Input X contains NaN", type(self).__name__, NO_GAPS)
        variables.refuse(X, X < 0, "Negative values", type(self).__name__, NOT_NEGATIVE)
        return X

    def _train(self, trainer: Trainer, source: Source) -> Trained:
        if self._layout == "sparse" and (self.expand or self.dtype != "float64"):
            raise ValueError("expand and dtype='float32' need a table, but X is sparse: pass a dense array")
        once, weights = plans.one_pass(self, source), plans.weights_of_classes(self, source)
        numbers = components_of(self.n_components, source.classes[:1] if self.shared else source.classes)
        component_class = () if self.shared else tuple(np.repeat(np.arange(len(numbers)), numbers).tolist())
        survey = plans.surveyed(trainer, source, once, max(numbers), labelled=not self.shared)
        if survey.n_missing or survey.lowest < 0:
            raise ValueError(NO_GAPS if survey.n_missing else NOT_NEGATIVE)
        scale = mixture.scale_of(survey.summed_rows / survey.n_documents) if self.scaling == "rows" else 0.0
        transform, eta = mixture.RowTransform(scale, bool(self.expand)), scale or survey.largest_sum
        if self.expand:
            expanded = plans.surveyed(trainer, source, once, 1, "expanded rows", labelled=False, transform=transform)
            eta = expanded.largest_sum
        n_inputs, head = transform.n_features(source.n_features), mixture.PosteriorClasses(len(source.classes))
        model = mixture.PosteriorMixture(head, sum(numbers), n_inputs, component_class, transform, self.dtype)
        largest = (eta or 1.0) * (1.0 + 16.0 * float(np.finfo(self.dtype).eps))  # a bound of sums of rounded rows
        rule = rules.Multiplicative(largest, self.schedule, bool(self.accelerate))
        learner = SdEM(model, source.weight, rule, "ncll", weights)
        examples = starts.rows_at(source.corpus, np.concatenate(surveys.examples_of(survey, numbers)))
        start = model.start_at(transform.dense(examples))
        return final_stage(trainer, learner, replace(once, n_epochs=self.n_epochs), start)

    log_weights_ = p.fitted("_parameters.log_weights", "Logarithm of W, shape (n_classes, n_components).")
    theta_ = p.fitted("_parameters.theta", "Natural parameters of the components, shape (n_components, n_parameters).")
    eta_ = p.fitted("learner_.rule.eta", "Largest row sum of the transformed features.", "float")
    log_likelihood_path_ = p.fitted("state_.path", "Highest mean of ln p(label | x) so far, after each pass.")

    def _class_scores(self, X: object) -> np.ndarray:
        model: mixture.PosteriorMixture = self.learner_.model
        if self._layout == "sparse":
            rows: Any = model.transform.sparse(documents_of(self, X))
        else:  # in C order as in training: another order would round differently
            rows = model.transform.dense(np.ascontiguousarray(table_of(self, X), model.dtype))
        return model.scores(self._parameters, rows) / self.temperature_


class LDAClassifier(Transforming, JointClassifier, Incremental):
    """A classifier with an LDA topic model for each class (latent Dirichlet allocation), trained by sdEM.

    For each document, the proportions of the topics of its class are drawn from a Dirichlet distribution, and a topic
    is drawn from these for each word. With one topic per class, this is `MultinomialNB`. For readable topics, use
    ``loss="nll"``: with other losses, the topics of a class hardly differ. `transform` returns p(class, topic | d).

    "nll" and "perplexity" are upper bounds from `predict_joint_log_proba`, or estimates if `n_particles` is above 0.
    `predict_proba` and "ncll" use the trained scores, which may rank classes differently.

    loss -- As in `MultinomialNB`. "nll": sums of expected counts, without sdEM steps.
    n_components -- Number of topics of each class.
    topic_word_prior -- eta: pseudo-count of a word, divided among the topics of a class; 0.1 in the paper.
    doc_topic_prior -- alpha: Dirichlet prior of the topic proportions. None: 1 / n_components.
    inference -- Inference of topics. "map": most probable proportions (fast). "gibbs": sampled topics (equation 18).
    occurrences -- With "gibbs". "shared": all occurrences of a word in a document have the same topic. "paper": also,
        but with equation 18 exactly as printed. "each": every occurrence has its own topic, which needs integer counts.
    n_sweeps -- Number of sweeps over each document.
    burn_in : int in [0, inf) | None with inference=gibbs -- Initial sweeps to discard. None: 3 (fewer for < 4 sweeps).
    n_particles : int in [0, inf) -- Particles of the left-to-right estimate of ln p(d | y), which is slow. 0: use the
        bound from inference.
    init_noise -- Initial topics differ by random factors ``exp(init_noise * z)``, with standard normal z.
    step : float | None with steps=margin -- As in `MultinomialNB`. None: 3 with the hinge loss, 16 with other losses.
    References -- Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Section 4.2, Algorithms 5 to 7.

    >>> from sdem_dist import LDAClassifier
    >>> X, y = [[5, 1, 0, 0], [4, 2, 0, 1], [0, 0, 3, 4], [1, 0, 4, 5]] * 5, [0, 0, 1, 1] * 5
    >>> LDAClassifier(loss="nll", n_components=2).fit(X, y).transform(X).shape
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

    spec = Spec("sparse", "labels", "class", topics="classes", poor_score=True)
    _unused_by_nll = p.fitted(lambda m: ("step", "step_decay") if m.steps == "margin" else (), "", "tuple")

    def _check(self) -> None:
        if self.burn_in is not None and self.burn_in >= self.n_sweeps:
            raise ValueError(f"burn_in must be less than n_sweeps={self.n_sweeps}, got {self.burn_in!r}")
        if self.inference == "map" and self.occurrences != "shared" and self.n_particles == 0:
            raise ValueError(f"occurrences={self.occurrences!r} needs inference='gibbs' or n_particles above 0")

    def train(self, trainer: Trainer, source: Source) -> Trained:
        n, seed, n_classes = source.n_documents, seed_of(self.random_state), len(source.classes)
        nll, lanes_step, of_margin = self.loss == "nll", self.merge == "mean", self.steps == "margin"
        burn_in = min(defaults.LDA_BURN_IN, self.n_sweeps - 1) if self.burn_in is None else self.burn_in
        alpha = 1.0 / self.n_components if self.doc_topic_prior is None else float(self.doc_topic_prior)
        sampled = int(self.n_sweeps), int(burn_in), int(self.n_particles)
        inference = lda.Inference(self.inference, self.occurrences, alpha, *sampled)
        eta, class_alpha = float(self.topic_word_prior) / self.n_components, 0.0 if nll and of_margin else 1.0
        log_prior = plans.fixed_log_prior(self, n_classes)
        how = eta, class_alpha, log_prior, int(self.n_components), inference, float(self.init_noise)
        model = lda.LdaClasses(source.n_features, heads.Classes(n_classes), *how)
        kernel_form(self.loss, n_classes, PACKAGE_LOSSES_ONLY)  # raises if the loss is not supported
        weights, weight = plans.weights_of_classes(self, source), source.weight
        if nll and weights is not None:
            weight = float(np.dot(weights, source.class_counts))
        sizes = rules.paper_steps(float(self.step_decay))
        if nll and of_margin:
            # With NLL, every pass adds the documents and the prior once; so does the start.
            sizes = rules.StepSizes(correction=True, correct_from=weight, floor=0.0, class_floor=0.0)
        elif of_margin:
            prior = np.full(source.n_features, model.alpha * model.n_topics)  # the topics of a document share its words
            step = float(self.step or defaults.LDA_STEPS[loss_kind(self.loss)])
            unit = heads.unit_of(plans.sample(source), prior)
            sizes = rules.margin_steps(step, unit, model.alpha, model.class_alpha, float(self.step_decay))
        learner = SdEM(model, weight, rules.Merge(sizes, local=not nll and lanes_step), self.loss, weights, seed=seed)
        least = plans.lanes_of(n, defaults.LDA_LANE_DOCUMENTS, defaults.LDA_LANES) if of_margin else 1
        plan = plans.plan_of_steps(self, n, int(self.n_epochs), seed, least)
        if nll and lanes_step:  # a step per round, of an eighth of the documents
            rounds = self.rounds_per_epoch or max(1, min(defaults.LDA_NLL_ROUNDS, n // 2))
            plan = Plan(n, self.n_epochs, rounds, self.n_lanes or plans.lanes_of(n // rounds, 2), seed)
        plan = replace(plan, n_blocks=plans.blocks_of(source.n_features, model.n_columns))
        return final_stage(trainer, learner, plan)

    components_ = p.fitted(
        lambda model: np.exp(lda.log_word_probabilities(model._parameters)).reshape(-1, model.n_features_in_),
        "p(word | topic, class), shape (n_classes * n_components, n_features).",
    )
    _n_features_out = p.fitted("learner_.model.n_columns", "")
    topics = topics_of

    def _scored(self, X: object) -> tuple[Documents, np.ndarray, np.ndarray]:
        """Return documents, the scores of their classes, and the topic proportions under each class."""
        documents = documents_of(self, X)
        return documents, *self.learner_.model.scores(self._parameters, documents, self.learner_.seed)

    def _class_scores(self, X: object) -> np.ndarray:
        return self._scored(X)[1]

    def _joint_log_proba(self, X: object) -> np.ndarray:
        documents, scores, proportions = self._scored(X)
        return lda.log_joint(self._parameters, documents, self.learner_.model.inference, scores, proportions)

    def _transformed(self, X: object) -> np.ndarray:
        _, scores, proportions = self._scored(X)
        joint = proportions.swapaxes(1, 2) * softmax(scores, axis=1)[:, :, None]
        return joint.reshape(len(scores), -1)
