"""Classes over dense features: naive Bayes whose variables have families, and mixtures of components of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import DenseDocuments
from sdem_dist.evaluation import Scored, classifier_metrics, classifier_sums, evaluation_sums, finish, joined, scored
from sdem_dist.losses import Loss
from sdem_dist.models.class_weight import weighted
from sdem_dist.models.components import by_class, check_components, loss_of_components, starts_of
from sdem_dist.models.em_forms import EStep
from sdem_dist.models.features import FeatureModel, FeatureParameters, Features
from sdem_dist.records import record


class FeatureStatistics(NamedTuple):
    """Sums over documents, or over lanes."""

    class_sums: np.ndarray  # shape (n_components,)
    sums: np.ndarray  # shape (n_components, n_statistics)
    known: np.ndarray
    """Observations of each component and variable, shape (n_components, n_variables), of EM; else (n_components, 0)."""
    loss: float  # at the state that was broadcast
    weight: float  # documents, by weight


@record
@dataclass(frozen=True)
class FeatureClasses:
    """p(y) times naive Bayes of variables given the class; or given the component, and classes sum over theirs."""

    variables: FeatureModel
    n_classes: int
    owners: tuple[int, ...] = ()  # the class of each component, ascending; empty: classes have no components
    log_prior: tuple[float, ...] | None = None  # fixed ln p(y); None learns it
    temperature: float = 1.0  # scores of classes are divided by it for probabilities

    def __post_init__(self) -> None:
        check_components(self.n_components, self.n_classes, self.owners, self.log_prior)

    @property
    def n_components(self) -> int:
        """Rows of the expectation parameters: components, or classes."""
        return len(self.owners) or self.n_classes

    @property
    def clusters(self) -> bool:
        """Whether there are components and no classes to tell apart."""
        return self.n_classes == 1 and bool(self.owners)

    def start_counts(self, n_documents: float, class_alpha: float) -> np.ndarray:
        """Return N of a start at the prior."""
        return np.full(self.n_components, class_alpha)

    def prepare(self, documents: DenseDocuments) -> Features:
        """Return documents as statistics; where there are components, sorted by class."""
        labels = np.zeros(len(documents.values), np.int32) if self.clusters else documents.labels
        features = self.variables.features(documents.values, labels, documents.weights)
        return features.take(np.argsort(features.labels, kind="stable")) if self.owners else features

    def reweighted(self, features: Features, class_weight: tuple[float, ...] | None) -> Features:
        """Return documents with the weights that they have in training."""
        return features._replace(weights=weighted(features.weights, features.labels, class_weight))

    def parameters(self, counts: np.ndarray, mu: np.ndarray) -> FeatureParameters:
        """Return theta(mu) (M-step)."""
        if self.log_prior is not None:
            return self.variables.to_natural(mu, np.asarray(self.log_prior))
        with np.errstate(divide="ignore"):  # a class without documents
            return self.variables.to_natural(mu, np.log(counts) - np.log(counts.sum()))

    def loss_weights(
        self, scores: np.ndarray, features: Features, loss: Loss, unlabelled_weight: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return each row's weights of components, and what it costs; both by the row's weight (Table 2)."""
        weights, values = loss_of_components(loss, scores, features.labels, self.owners, unlabelled_weight)
        used = features.weights > 0
        return weights * features.weights[:, None], np.where(used, values, 0.0) * features.weights

    def expected(
        self, counts: np.ndarray, mu: np.ndarray, features: Features, loss: Loss, unlabelled_weight: float = 1.0
    ) -> FeatureStatistics:
        """Return the sum of loss weights times expected statistics at one theta, and the loss there (Table 2)."""
        scores = self.variables.scores(self.parameters(counts, mu), features)
        weights, values = self.loss_weights(scores, features, loss, unlabelled_weight)
        sums = self.variables.weighted_statistics(weights, features, mu)
        none = np.zeros((self.n_components, 0))
        return FeatureStatistics(weights.sum(axis=0), sums, none, float(values.sum()), float(features.weights.sum()))

    def under_prior(self, mu: np.ndarray, loss: Loss) -> np.ndarray:
        """Return the part of mu that the prior concerns: all of it."""
        return mu

    def complete(self, features: Features) -> FeatureStatistics:
        """Return the statistics of labelled documents, by class."""
        weights = np.zeros((len(features.labels), self.n_classes))
        labelled = np.flatnonzero(features.labels >= 0)
        weights[labelled, features.labels[labelled]] = features.weights[labelled]
        class_sums = weights.sum(axis=0)
        sums = np.einsum("nk,ns->ks", weights, features.statistics)
        known = np.repeat(class_sums[:, None], self.variables.n_variables, axis=1)
        if features.missing.shape[1]:
            known = known - np.einsum("nk,nv->kv", weights, features.missing)
        return FeatureStatistics(class_sums, sums, known, 0.0, float(features.weights.sum()))

    def posterior(
        self, counts: np.ndarray, mu: np.ndarray, features: Features, step: EStep, unlabelled_weight: float
    ) -> FeatureStatistics:
        """Return the statistics of documents by the shares of their components, and what they cost (E-step)."""
        parameters = step.parameters or self.parameters(counts, mu)
        n, owners = self.n_components, self.owners or tuple(range(self.n_classes))
        totals, sums = np.zeros(n), np.zeros(mu.shape)
        observed, loss = np.zeros(parameters.partitions.shape), 0.0
        bounds = np.searchsorted(features.labels, np.arange(-1, self.n_classes + 1))
        owned = [slice(0, n), *(slice(a, b) for a, b in pairwise([*starts_of(owners).tolist(), n]))]
        for own, first, stop in zip(owned, bounds[:-1], bounds[1:], strict=True):
            if first == stop:
                continue
            part = Features(*(array[first:stop] for array in features))
            share = part.weights * (unlabelled_weight if part.labels[0] < 0 else 1.0)
            scores = self.variables.scores(FeatureParameters(*(array[own] for array in parameters)), part)
            weights, total = step.shares(scores, slice(first, stop))
            weights *= share[:, None]
            totals[own] += weights.sum(axis=0)
            sums[own] += np.einsum("nk,ns->ks", weights, part.statistics)
            if part.missing.shape[1]:
                observed[own] -= np.einsum("nk,nv->kv", weights, part.missing)
            loss -= float((np.where(share > 0, total, 0.0) * share).sum())
        return FeatureStatistics(totals, sums, observed + totals[:, None], loss, float(features.weights.sum()))

    def evaluate(self, counts: np.ndarray, mu: np.ndarray, batches: Iterable[Features]) -> np.ndarray:
        """Return the sums of `evaluation.classifier_sums` over all labelled documents of the batches."""
        parameters = self.parameters(counts, mu)
        documents = joined(self._scored(parameters, features) for features in batches)
        return evaluation_sums(documents) if self.clusters else classifier_sums(documents, tempered=bool(self.owners))

    def _scored(self, parameters: FeatureParameters, features: Features) -> Scored:
        labelled = features.take(np.flatnonzero(features.labels >= 0))
        known = self.variables.n_variables - labelled.missing.sum(axis=1)
        scores = self.variables.scores(parameters, labelled)
        scores = by_class(scores, self.owners)[0] if self.owners else scores
        return scored(scores / self.temperature, labelled.labels, labelled.weights, known, scores)

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return accuracy, mean losses, perplexity and more, see `sdem_dist.evaluation.classifier_metrics`.

        Of clusters only what concerns p(x).
        """
        if self.clusters:
            found = finish(sums)
            return {name: found[name] for name in ("nll", "perplexity")}
        return classifier_metrics(sums, self.n_classes)
