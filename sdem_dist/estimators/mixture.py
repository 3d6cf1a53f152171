"""What classifiers whose classes are mixtures of components share: numbers of components, starts, densities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sdem_dist.engine.monitoring import History
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators.answers import WithDensity
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.classifier import EngineClassifier, JointClassifier, weights_of_classes
from sdem_dist.estimators.common_parameters import CLASS_WEIGHT, EVALUATE_EVERY, OfText, Seeded, Unlabelled
from sdem_dist.estimators.parameters import checked_later, estimator, one_of, param, real
from sdem_dist.fitting.drawing import drawn_from, sample_counts
from sdem_dist.fitting.mixture_starts import Start, start_of_counts, start_of_features
from sdem_dist.fitting.temperature import with_temperature
from sdem_dist.inputs.source import Source, documents_of, table_of
from sdem_dist.inputs.spec import Layout, Spec, Trained
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners.column_blocks import Kind
from sdem_dist.models.feature_classes import FeatureClasses, FeatureState
from sdem_dist.models.features import FeatureModel
from sdem_dist.models.heads import by_class
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores
from sdem_dist.models.word_counts import SdemState

if TYPE_CHECKING:
    from sdem_dist.reports.explanation import DocumentParts

VALIDATION_FRACTION = (
    real(0, 0.5),
    (
        "Share of the documents, 20,000 at most, without which a model is trained first. They give the temperature that\n"
        "scores are divided by for probabilities, and the curve of a report. The model itself is trained with all documents.\n"
        "0, or where it would be under 20 documents: none, and half the time. With `patience` the history is of scores that\n"
        "no temperature divides."
    ),
)


@estimator
class Components(Seeded):
    """How many components each class has."""

    n_components: Any = param(
        4, checked_later("int, sequence of int or dict of class to int"), "Components of each class.", positional=True
    )
    class_weight: object = param(None, CLASS_WEIGHT, "Weights of the classes' documents, as in scikit-learn.")
    validation_fraction: float = param(0.1, *VALIDATION_FRACTION)
    evaluate_every: int = param(50, *EVALUATE_EVERY)

    if TYPE_CHECKING:
        learner_: Any

        def _kept_of(self, history: History) -> dict[str, float]: ...

    @abstractmethod
    def _train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stages of a training with a source's documents."""

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stages of a training without some documents, and of that with all."""
        share, seed = float(self.validation_fraction), seed_of(self.random_state)
        kept = None if self.patience is None else self._n_kept
        weights = weights_of_classes(self.class_weight, source)
        return with_temperature(trainer, self._train, source, share, seed, weights, kept)

    def _n_kept(self, history: History) -> int:
        return int(self._kept_of(history)["epoch"])

    @property
    def temperature_(self) -> float:
        """What scores are divided by for probabilities."""
        check_is_fitted(self)
        return float(self.learner_.temperature)


@estimator
class JointMixture(OfText, Components, Unlabelled, WithDensity, JointClassifier, EngineClassifier, EngineEstimator):
    """Base of the mixtures that are joint distributions: what components are, and p(x)."""

    components: str = param(
        "gaussian",
        one_of("gaussian", "exponential", "multinomial"),
        "Gaussians have diagonal covariances, multinomials take counts; the others sum out NaN.",
    )
    alpha: float = param(
        1.0,
        real(above=True),
        "Observations of the column's mean, or pseudo-counts of a word, that the prior adds. Each multinomial component\n"
        "counts one document more than it has, so that none dies out.",
    )
    offset: float = param(
        0.0, real(), "Of exponentials: added to values, in means of all. Exact zeros have no bounded likelihood."
    )

    spec = Spec("dense", "labels", "class", words="feature_log_prob_", unlabelled=True)

    @property
    def _layout(self) -> Layout:
        return "sparse" if self.components == "multinomial" else "dense"

    def _check(self) -> None:
        if self.offset != 0 and self.components != "exponential":
            raise ValueError(f"offset means nothing with components={self.components!r}: leave it at 0")

    def _start_of_counts(self, trainer: Trainer, source: Source) -> Start[NaiveBayes, SdemState]:
        """Run the stages that find where EM of multinomials starts."""
        numbers, weights = self._numbers(source)
        seed = seed_of(self.random_state)
        start = start_of_counts(trainer, source, numbers, float(self.alpha), weights, seed)
        return replace(start, learner=replace(start.learner, unlabelled_weight=float(self.unlabelled_weight)))

    def _start_of_features(self, trainer: Trainer, source: Source) -> Start[FeatureClasses, FeatureState]:
        """Run the stages that find where EM over columns of a table starts."""
        numbers, weights = self._numbers(source)
        kind = Kind(self.components, float(self.alpha), float(self.offset))
        start = start_of_features(trainer, source, numbers, kind, weights, seed_of(self.random_state))
        return replace(start, learner=replace(start.learner, unlabelled_weight=float(self.unlabelled_weight)))

    def _numbers(self, source: Source) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
        return components_of(self.n_components, source.classes), weights_of_classes(self.class_weight, source)

    @property
    def log_weights_(self) -> np.ndarray:
        """Logarithm of p(z, y), shape (n_classes, n_components); -inf where a component is not the class's."""
        check_is_fitted(self)
        owners = np.asarray(self.learner_.head.component_class)
        found = np.full((len(self.classes_), len(owners)), -np.inf)
        found[owners, np.arange(len(owners))] = self._parameters.log_prior
        return found

    @property
    def theta_(self) -> np.ndarray:
        """Natural parameters, shape (n_components, n_parameters); of multinomials ln p(word | component)."""
        check_is_fitted(self)
        if self.components == "multinomial":
            return np.asarray((self._parameters.log_words - self._parameters.log_totals).T)
        return np.asarray(self._parameters.theta)

    @property
    def feature_log_prob_(self) -> np.ndarray:
        """Logarithm of p(word | class), shape (n_classes, n_features), of multinomial components."""
        joint = self.log_weights_
        if self.components != "multinomial":
            raise AttributeError(f"components={self.components!r} have no words")
        p = np.exp(joint - self.class_log_prior_[:, None])
        return np.asarray(np.log(p @ np.exp(self.theta_)))

    @property
    def class_log_prior_(self) -> np.ndarray:
        """Logarithm of p(class), shape (n_classes,)."""
        return np.asarray(np.logaddexp.reduce(self.log_weights_, axis=1))

    def _joint_log_proba(self, X: object) -> np.ndarray:
        if self.components == "multinomial":
            scores = joint_scores(self._parameters, documents_of(self, X))
        else:
            model: FeatureModel = self.learner_.model.variables
            scores = model.scores(self._parameters, model.features(table_of(self, X)))
        return by_class(scores, self.learner_.head.component_class)[0]

    def _class_scores(self, X: object) -> np.ndarray:
        return self._joint_log_proba(X) / self.temperature_

    def _document_parts(self, documents: object, pairs: np.ndarray) -> list[DocumentParts]:
        from sdem_dist.inspection.parts import of_component_columns, of_components

        owners, t = self.learner_.head.component_class, self.temperature_
        if self.components == "multinomial":
            return of_components(self._parameters, documents_of(self, documents), pairs, owners, t)
        model: FeatureModel = self.learner_.model.variables
        densities = partial(model.log_densities, self._parameters)
        return of_component_columns(densities, self._parameters.log_prior, table_of(self, documents), pairs, owners, t)

    def sample(self, n_samples: int = 1, random_state: object = None, *, length: int = 100) -> tuple[Any, np.ndarray]:
        """Draw rows and their classes from p(x, y).

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
        length : int, default=100
            Words of each document, of multinomial components.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), float64, or CSR matrix of counts
        y : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        drawn, rng = drawn_from(self._parameters.log_prior, n_samples, random_state)
        y = self.classes_[np.asarray(self.learner_.head.component_class)[drawn]]
        if self.components == "multinomial":
            return sample_counts(self.theta_, drawn, length, rng), y
        X = self.learner_.model.variables.sample(self._parameters, drawn, rng)
        return (np.maximum(X, 0.0) if self.components == "exponential" else X), y

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.components != "gaussian"
        tags.classifier_tags.poor_score = tags.input_tags.positive_only
        return tags


def components_of(n_components: Any, classes: np.ndarray) -> tuple[int, ...]:
    """Return the number of components of each class.

    Raises ValueError: they are not one positive integer, one for each class, or a dict from class to one.
    """
    if isinstance(n_components, Mapping):
        there = set(classes.tolist())
        odd = {"unknown": set(n_components) - there, "missing": there - set(n_components)}
        if any(odd.values()):
            named = "; ".join(f"{what}: {', '.join(sorted(map(repr, some)))}" for what, some in odd.items() if some)
            raise ValueError(f"n_components does not name the classes of the documents ({named})")
        numbers = [n_components[c] for c in classes.tolist()]
    elif isinstance(n_components, int | np.integer):
        numbers = [n_components] * len(classes)
    else:
        numbers = list(n_components) if np.iterable(n_components) else []
    right = len(numbers) == len(classes) and all(isinstance(n, int | np.integer) and n >= 1 for n in numbers)
    if not right:
        raise ValueError(f"n_components must be a positive integer, or one for each class, got {n_components!r}")
    return tuple(int(n) for n in numbers)
