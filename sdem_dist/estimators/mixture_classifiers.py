"""Classifiers whose classes are mixtures: by EM, by sdEM from where EM ends, and by multiplicative updates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from sdem_dist.corpus.base import OfValues
from sdem_dist.engine.plan import Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.predictions import EngineClassifier, JointClassifier, WithDensity
from sdem_dist.fitting import defaults, plans
from sdem_dist.fitting.holdout import train_with_temperature
from sdem_dist.inputs.source import Source, documents_of, table_of
from sdem_dist.inputs.spec import Layout, Spec, Trained, final_stage
from sdem_dist.learners.rules import STEP_OF_COUNTS, Merge, Multiplicative, margin_steps
from sdem_dist.learners.safe_step import SafeStep
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.starts import Kind, rows_at, weights_of_features
from sdem_dist.learners.surveys import examples_of
from sdem_dist.losses import PACKAGE_LOSSES_ONLY, Loss, kernel_form, named
from sdem_dist.models.em import EXACT, EmForm
from sdem_dist.models.feature_classes import started
from sdem_dist.models.heads import by_class, unit_of
from sdem_dist.models.mixture import PosteriorClasses, PosteriorMixture, RowTransform, scale_of
from sdem_dist.text.vectorizer import VectorizerSettings


class Components(EngineClassifier):
    """How many components each class has.

    n_components : int, sequence of int or dict of class to int -- Components of each class.
    validation_fraction : float in [0, 0.5] -- Share of the documents, 20,000 at most, without which a model is trained
        first. They give the temperature that scores are divided by for probabilities, and the curve of a report. The
        model itself is trained with all documents. 0, or where it would be under 20 documents: none, and half the time.
        With `patience` the history is of scores that no temperature divides.
    """

    n_components: Any = p.positional(4)
    class_weight: object = None
    validation_fraction: float = 0.1
    vectorizer: VectorizerSettings | None = None
    patience: int | None = None
    random_state: object = 0
    evaluate_every: int = 50

    @abstractmethod
    def _train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stages of a training with a source's documents."""

    train = train_with_temperature


class JointMixture(Components, WithDensity, JointClassifier):
    """Base of the mixtures that are joint distributions: what components are, and p(x).

    components -- Gaussians have diagonal covariances, multinomials take counts; the others sum out NaN.
    alpha -- Observations of the column's mean, or pseudo-counts of a word, that the prior adds. Each multinomial
        component counts one document more than it has, so that none dies out.
    offset -- Of exponentials: added to values, in means of all; exact zeros need one.
    """

    components: Literal["gaussian", "exponential", "multinomial"] = "gaussian"
    alpha: p.Positive = 1.0
    offset: float = 0.0
    unlabelled: object = None
    unlabelled_weight: float = 1.0

    spec = Spec("dense", "labels", "class", words="feature_log_prob_", unlabelled=True)

    @property
    def _layout(self) -> Layout:
        return "sparse" if self.components == "multinomial" else "dense"

    def _check(self) -> None:
        if self.offset != 0 and self.components != "exponential":
            raise ValueError(f"offset means nothing with components={self.components!r}: leave it at 0")

    def _em(self, trainer: Trainer, source: Source, once: Plan, form: EmForm = EXACT) -> tuple[SdEM[Any], Any]:
        """Run the stages that find a start; return EM's learner, and the start."""
        kind = Kind(self.components, float(self.alpha), float(self.offset))
        numbers, weights = components_of(self.n_components, source.classes), plans.weights_of_classes(self, source)
        how = {"class_weight": weights, "unlabelled_weight": float(self.unlabelled_weight)}
        em = plans.mixture(trainer, source, once, numbers, kind, form, **how)
        return em, plans.start_of_em(trainer, em, source, once)

    @property
    def log_weights_(self) -> np.ndarray:
        """Logarithm of p(z, y), shape (n_classes, n_components); -inf where a component is not the class's."""
        class_of = np.asarray(self.learner_.head.component_class)
        log_weights = np.full((len(self.classes_), len(class_of)), -np.inf)
        log_weights[class_of, np.arange(len(class_of))] = self._parameters.log_prior
        return log_weights

    theta_ = p.fitted(
        lambda model: model._log_words if model.components == "multinomial" else model._parameters.theta,
        "Natural parameters, shape (n_components, n_parameters); of multinomials ln p(word | component).",
    )

    @property
    def feature_log_prob_(self) -> np.ndarray:
        """Logarithm of p(word | class), shape (n_classes, n_features), of multinomial components."""
        if self.components != "multinomial":
            raise AttributeError(f"components={self.components!r} have no words")
        shares = np.exp(self.log_weights_ - self.class_log_prior_[:, None])
        return np.asarray(np.log(shares @ np.exp(self.theta_)))

    class_log_prior_ = p.fitted(
        lambda model: np.logaddexp.reduce(model.log_weights_, axis=1), "Logarithm of p(class), shape (n_classes,)."
    )

    def _joint_log_proba(self, X: object) -> np.ndarray:
        return by_class(super()._joint_log_proba(X), self.learner_.head.component_class)[0]


def components_of(n_components: Any, classes: np.ndarray) -> tuple[int, ...]:
    """Return the number of components of each class; ValueError where they are not positive, one or for each class."""
    numbers = list(n_components) if np.iterable(n_components) else [n_components] * len(classes)
    if isinstance(n_components, Mapping):
        present = set(classes.tolist())
        odd = {"unknown": set(n_components) - present, "missing": present - set(n_components)}
        if any(odd.values()):
            named = "; ".join(f"{what}: {', '.join(sorted(map(repr, some)))}" for what, some in odd.items() if some)
            raise ValueError(f"n_components does not name the classes of the documents ({named})")
        numbers = [n_components[c] for c in classes.tolist()]
    if len(numbers) != len(classes) or not all(isinstance(n, int | np.integer) and n >= 1 for n in numbers):
        raise ValueError(f"n_components must be a positive integer, or one for each class, got {n_components!r}")
    return tuple(int(n) for n in numbers)


class EMMixtureClassifier(JointMixture):
    """A classifier of which every class is a mixture of components, fitted by EM: mixture discriminant analysis.

    n_epochs -- Iterations of EM.
    batch_size -- Of "online": documents of a step. None: 1,024.
    References -- Saul, L. and Lee, D. (2001). Multiplicative Updates for Classification by Mixture Models. NIPS. (The
        baseline.)

    >>> from sdem_dist import EMMixtureClassifier
    >>> X, y = [[1.0, 0.0], [2.0, 0.5], [0.0, 3.0], [0.5, 2.0], [1.0, 0.2], [0.2, 2.5]], [0, 0, 1, 1, 0, 1]
    >>> EMMixtureClassifier(1).fit(X, y).predict([[2.0, 0.0], [0.0, 2.0]]).tolist()
    [0, 1]
    """

    n_epochs: int = 64
    em: str = "soft"
    em_step: float | None = None
    batch_size: int | None = None
    annealing: float = 1.0

    _monitor = "nll"
    _weights_are_relative = False

    def _check(self) -> None:
        plans.check_em(self)
        super()._check()

    def _train(self, trainer: Trainer, source: Source) -> Trained:
        once = plans.one_pass(self, source)
        form, plan = plans.em_of(self, once)
        learner, start = self._em(trainer, source, once, form)
        return final_stage(trainer, learner, plan, start)


class SdemMixtureClassifier(JointMixture):
    """A classifier whose classes are mixtures of components, trained by sdEM with the component as hidden variable.

    EM fits the joint distribution first, of all documents. Rows of a table without a label then take part through
    ``-ln p(x)``; documents of counts without one do not.

    loss -- What training lowers, as in `MultinomialNB`.
    n_epochs -- Passes. None: 60; 15 of multinomials.
    n_em_epochs -- Iterations of EM before them.
    References -- Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 2.

    >>> from sdem_dist import SdemMixtureClassifier
    >>> X, y = [[1.0, 0.0], [2.0, 0.5], [0.0, 3.0], [0.5, 2.0], [1.0, 0.2], [0.2, 2.5]], [0, 0, 1, 1, 0, 1]
    >>> SdemMixtureClassifier(1).fit(X, y).predict([[2.0, 0.0], [0.0, 2.0]]).tolist()
    [0, 1]
    """

    loss: Literal["ncll", "hinge", "nll"] | Loss = "ncll"
    n_epochs: int | None = None
    n_em_epochs: int = 10
    validation_fraction: float = 0.0  # training lowers the log-loss itself

    def _train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stages that find a start, EM, and sdEM from where it ends."""
        once = plans.one_pass(self, source)
        em, start = self._em(trainer, source, once)
        fitted = trainer.run(Stage("EM", em, replace(once, n_epochs=self.n_em_epochs), start)).state
        words, model, weights = self.components == "multinomial", em.model, em.class_weight
        n_epochs = self.n_epochs or (defaults.MIXTURE_EPOCHS_OF_COUNTS if words else defaults.MIXTURE_EPOCHS)
        plan = replace(once, n_epochs=n_epochs)
        if not words:
            rule, loss, share = SafeStep(), named(self.loss), float(self.unlabelled_weight)
            # A component without documents would stop every step of the class counts.
            initial: Any = started(fitted.best_counts + model.class_alpha, fitted.best_mu)
            return final_stage(trainer, SdEM(model, source.weight, rule, loss, weights, share), plan, initial)
        if self.loss == "nll":
            return final_stage(trainer, em, plan, fitted)
        documents, share = plans.sample(source), defaults.MIXTURE_START_SHARE
        prior = model.alpha + share * (fitted.words.mean(axis=1) - model.alpha)
        sizes = margin_steps(STEP_OF_COUNTS, unit_of(documents, prior), model.alpha, model.class_alpha)
        kernel_form(self.loss, model.n_classes, PACKAGE_LOSSES_ONLY)  # says what is wrong with it
        n_labelled = source.n_labelled or source.weight  # documents without a label ask for no step
        learner = SdEM(model, n_labelled, Merge(sizes), self.loss, weights, seed=once.seed)
        weight = plans.weight_of_margin(fitted, documents, defaults.MIXTURE_MARGIN, model.head.component_class)
        class_counts = model.class_alpha + share * fitted.class_counts
        initial = plans.start_at(model.start_at(prior)._replace(class_counts=class_counts), fitted, weight)
        return final_stage(trainer, learner, plans.sequential(source.n_documents, n_epochs, once.seed), initial)


NO_GAPS = "multiplicative updates have no place for missing values: impute them, or take EMMixtureClassifier"
NOT_NEGATIVE = "multiplicative updates take features that are not negative: shift them, or split each into two parts"


class MultiplicativeMixtureClassifier(Components):
    """A classifier of which every class is a mixture of components, whose posterior p(y | x) is trained itself.

    Multiplicative updates cannot lower the conditional log-likelihood and have no step size. They take tables and
    sparse matrices that are not negative, without missing values. The model has no p(x).

    n_epochs -- Updates, each a pass over the documents.
    shared -- All classes use all `n_components` components, each with its own weights.
    init -- Start at random examples with W = 1, or at the mixture that EM finds in 10 iterations.
    scaling -- "rows": each row is divided by its sum, and all are scaled for a mean product of 2. It keeps eta small.
    expand -- Expand a table quadratically.
    schedule -- "alternate": W and theta in turn, as the paper. "joint": both, by exponents 1 / 11 and 10 / (11 eta).
    accelerate -- Exponents grow by a fifth per pass; where the likelihood falls, the plain update is taken.
    dtype -- Of posteriors of tables; float32 is twice as fast.
    References -- Saul, L. and Lee, D. (2001). Multiplicative Updates for Classification by Mixture Models. NIPS.

    >>> from sdem_dist import MultiplicativeMixtureClassifier
    >>> X, y = [[1.0, 0.0], [2.0, 0.5], [0.0, 3.0], [0.5, 2.0], [1.0, 0.2], [0.2, 2.5]], [0, 0, 1, 1, 0, 1]
    >>> MultiplicativeMixtureClassifier(1).fit(X, y).predict([[2.0, 0.0], [0.0, 2.0]]).tolist()
    [0, 1]
    """

    n_epochs: int = 200
    shared: bool = False
    init: Literal["examples", "em"] = "examples"
    scaling: Literal["rows", None] = "rows"
    expand: bool = False
    schedule: Literal["joint", "alternate"] = "joint"
    accelerate: bool = True
    dtype: Literal["float64", "float32"] = "float64"

    spec = Spec("dense", "labels", "class", either=True, positive=True, poor_score=True)

    def _check(self) -> None:
        if self.shared and not isinstance(self.n_components, int | np.integer):
            raise ValueError(f"shared components are one number, got n_components={self.n_components!r}")
        if self.init == "em" and self.shared:
            raise ValueError("init='em' fits components to classes: it needs shared=False")

    def _checked(self, X: np.ndarray) -> np.ndarray:
        for unfit, what, advice in (
            (np.isnan(X), "Input X contains NaN", NO_GAPS),
            (X < 0, f"Negative values in data passed to {type(self).__name__} (input X)", NOT_NEGATIVE),
        ):
            if unfit.any():
                raise ValueError(f"{what}: row {int(unfit.any(axis=1).argmax())} (from 0). {advice}")
        return X

    def _train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the survey of the documents, the start, and the updates."""
        sparse = self._layout == "sparse"
        if sparse and self.expand:
            raise ValueError("expand multiplies columns of tables, and X is sparse: pass it dense")
        if sparse and self.init == "em":
            raise ValueError("init='em' needs a table: pass X dense, or start at examples")
        if sparse and self.dtype != "float64":
            raise ValueError(f"dtype={self.dtype!r} is for tables, and X is sparse: take 'float64', or pass X dense")
        once, weights = plans.one_pass(self, source), plans.weights_of_classes(self, source)
        numbers = components_of(self.n_components, source.classes[:1] if self.shared else source.classes)
        component_class = () if self.shared else tuple(np.repeat(np.arange(len(numbers)), numbers).tolist())
        survey = plans.surveyed(trainer, source, once, max(numbers), labelled=not self.shared)
        if survey.n_missing or survey.lowest < 0:
            raise ValueError(NO_GAPS if survey.n_missing else NOT_NEGATIVE)
        scale = scale_of(survey.summed_rows / survey.n_documents) if self.scaling == "rows" else 0.0
        transform, eta = RowTransform(scale, bool(self.expand)), scale or survey.largest_sum
        if self.expand:
            expanded = plans.surveyed(trainer, source, once, 1, "expanded rows", labelled=False, transform=transform)
            eta = expanded.largest_sum
        n_inputs, head = transform.n_features(source.n_features), PosteriorClasses(len(source.classes))
        model = PosteriorMixture(head, sum(numbers), n_inputs, component_class, transform, self.dtype)
        largest = (eta or 1.0) * (1.0 + 16.0 * float(np.finfo(self.dtype).eps))  # sums of rounded rows stay below it
        rule = Multiplicative(largest, self.schedule, bool(self.accelerate))
        if self.init == "em":
            rows = replace(source, corpus=source.corpus.transformed(OfValues(RowTransform(scale).dense)))
            kind = Kind("gaussian" if self.expand else "exponential")
            em = plans.mixture(trainer, rows, once, numbers, kind, class_weight=weights)
            at_examples = plans.start_of_em(trainer, em, rows, once)
            few = replace(once, n_epochs=defaults.START_EM_EPOCHS)
            state = trainer.run(Stage("EM", em, few, at_examples, corpus=rows.documents)).state
            weights_of_em = em.model.variables, state.best_mu, state.best_counts + 1.0, component_class
            start = model.start(weights_of_features(*weights_of_em))
        else:
            examples = rows_at(source.corpus, np.concatenate(examples_of(survey, numbers)))
            start = model.start_at(transform.dense(examples))
        learner = SdEM(model, source.weight, rule, "ncll", weights)
        return final_stage(trainer, learner, replace(once, n_epochs=self.n_epochs), start)

    log_weights_ = p.fitted("_parameters.log_weights", "Logarithm of W, shape (n_classes, n_components).")
    theta_ = p.fitted("_parameters.theta", "Natural parameters of the components, shape (n_components, n_parameters).")
    eta_ = p.fitted("learner_.rule.eta", "Largest sum of a row of transformed features.", "float")
    log_likelihood_path_ = p.fitted(
        "state_.path", "The highest conditional log-likelihood per document after each pass, shape (n_epochs,)."
    )

    def _class_scores(self, X: object) -> np.ndarray:
        model: PosteriorMixture = self.learner_.model
        if self._layout == "sparse":
            rows: Any = model.transform.sparse(documents_of(self, X))
        else:  # in C order as in training: sums along a row would round otherwise
            rows = model.transform.dense(np.ascontiguousarray(table_of(self, X), model.dtype))
        return model.scores(self._parameters, rows) / self.temperature_
