"""Classes over dense features: naive Bayes with a family for each variable, and mixtures of such components."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from sdem_dist.documents import DenseDocuments
from sdem_dist.evaluation import Scored, scored
from sdem_dist.losses import Loss, one_hot
from sdem_dist.models.em import EXACT, EmForm
from sdem_dist.models.features import FeatureModel, FeatureParameters, Features
from sdem_dist.models.heads import Classes, Model, Number, by_class, first_components, pooled
from sdem_dist.records import LARGEST, Field, record


class FeatureState(NamedTuple):
    """Expectation parameters and the progress of the run."""

    class_counts: np.ndarray  # N, expected counts of the classes, or of the components: shape (n_components,)
    mu: np.ndarray  # mean statistics given the class, S / N: shape (n_components, n_statistics)
    rho: float  # size of the next safe step
    best_counts: np.ndarray  # N at the lowest objective so far; shape (0,) if the learner does not compare rounds
    best_mu: np.ndarray  # mu at the same point
    best_objective: float  # the objective there, mean loss plus prior; or infinity
    first_loss: float  # mean loss at the start of the run, or infinity; the best has no higher loss, unless blended
    t: float  # weight of the documents seen

    @property
    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """N and mu at the lowest objective, or the last ones if the learner does not compare rounds."""
        return (self.best_counts, self.best_mu) if len(self.best_counts) else (self.class_counts, self.mu)


def started(counts: np.ndarray, mu: np.ndarray, t: float = 0.0) -> FeatureState:
    """Return a state at a point, without a best point and with rho 1."""
    return FeatureState(counts, mu, 1.0, np.empty(0), np.empty((0, 0)), np.inf, np.inf, t)


class FeatureStatistics(NamedTuple):
    """Sums over documents, or over lanes."""

    class_counts: np.ndarray  # shape (n_components,)
    sums: np.ndarray  # sums of the statistics, shape (n_components, n_statistics)
    n_observed: np.ndarray  # observed values, shape (n_components, n_variables); (n_components, 0) if lanes step
    loss: float  # sum of the losses at the broadcast state
    weight: float  # weight of the documents


@dataclass(frozen=True)
class DenseModel(Model):
    """Base of the models of tables: states, sums, and the M-step of each form of EM."""

    variables: FeatureModel  # the families of the columns
    head: Classes | Number
    state_type = FeatureState
    class_alpha = 1.0  # pseudo-count of each class in the conjugate prior

    @property
    def n_components(self) -> int:
        """Number of rows of the expectation parameters: components, or classes."""
        return self.head.n_columns

    @property
    def n_features(self) -> int:
        return sum(len(block.columns) for block in self.variables.blocks)

    @cached_property
    def cache_key(self) -> str:
        key = type(self).__name__, self.variables.blocks, self.head.component_class
        return "features " + sha256(repr(key).encode()).hexdigest()

    @abstractmethod
    def parameters_at(self, counts: np.ndarray, mu: np.ndarray) -> FeatureParameters:
        """Return theta(mu) (M-step)."""

    def parameters(self, state: FeatureState) -> FeatureParameters:
        """Return the natural parameters of the best mu, or of the last if the learner does not compare rounds."""
        return self.parameters_at(*state.best)

    def init(self, n_documents: float, seed: int) -> FeatureState:
        """Return mu_0, the centre of the prior (Algorithm 1, line 1)."""
        mu = np.tile(self.variables.centre, (self.n_components, 1))
        return started(np.full(self.n_components, self.class_alpha), mu)

    def state_fields(self) -> dict[str, Field]:
        counts, mu = Field((self.n_components,), 0.0), Field((self.n_components, self.variables.n_statistics))
        number, objective = Field((), 0.0), Field((), finite=False)
        each = (counts, mu, number, Field((None,), 0.0), Field((None, None)), objective, objective, number)
        return dict(zip(FeatureState._fields, each, strict=True))

    def check_state(self, state: FeatureState) -> None:
        columns = sorted(c for block in self.variables.blocks for c in block.columns)
        if columns != list(range(len(columns))):
            raise ValueError("the columns of the blocks must be 0 to n - 1, each exactly once")
        n = len(state.best_counts)
        if n not in (0, self.n_components) or state.best_mu.shape != (state.mu.shape if n else (0, 0)):
            raise ValueError("arrays 'best_counts' and 'best_mu' do not match the classes")
        counts, mu = state.best
        with np.errstate(all="ignore"):
            theta = self.parameters_at(counts, mu)
        in_range = all((np.abs(values) <= LARGEST).all() for values in (theta.theta, theta.partitions))
        if not (counts.any() and in_range):
            raise ValueError("array 'mu' is not inside S")

    def inside(self, state: FeatureState) -> FeatureState:
        """Return a generative fit as a start for steps; moments on the boundary (variance 0) are projected into S."""
        variables = self.variables
        with np.errstate(all="ignore"):
            theta = variables.to_natural(state.mu, np.zeros(self.n_components))
        finite = variables.all_of_variables(np.isfinite(theta.theta)) & np.isfinite(theta.partitions)
        usable = finite[:, variables.variable_of]
        return state._replace(mu=np.where(usable, state.mu, variables.check(state.mu)[0]))

    def under_prior(self, mu: np.ndarray, loss: Loss) -> np.ndarray:
        return mu

    def maximum(self, state: FeatureState, s: FeatureStatistics, n_documents: float, form: EmForm) -> FeatureState:
        """Return the mu of largest expected log-likelihood (M-step) or, depending on `form`, a step towards it.

        The counts sum to `n_documents`, so that the later step of one document has weight 1.
        """
        s = s._replace(sums=pooled(self.head, s.sums), n_observed=pooled(self.head, s.n_observed))
        variables = self.variables
        if form.kind == "online":  # a mean of the old mu and the batch's, weighted by their observations and the prior
            rho, scale = form.rho(state.t, s.weight), n_documents / s.weight
            mu = variables.posterior_mean(s.sums * scale, s.n_observed * scale)
            nu = variables.prior_weight
            before, now = (1.0 - rho) * (nu + state.class_counts[:, None]), rho * (nu + s.n_observed * scale)
            share = (now / (before + now))[:, variables.variable_of]
            counts = (1.0 - rho) * state.class_counts + rho * s.class_counts * (n_documents / s.class_counts.sum())
            return started(counts, variables.check(state.mu + share * (mu - state.mu))[0], state.t + s.weight)
        mu, counts = variables.posterior_mean(s.sums, s.n_observed), s.class_counts
        if form.kind != "variational":
            counts = counts * (n_documents / counts.sum())
        if form.step < 1:  # the bound rises all the way to its maximum
            mu = variables.check(state.mu + form.step * (mu - state.mu))[0]
            counts = state.class_counts + form.step * (counts - state.class_counts)
        return started(counts, mu, state.t + s.weight)._replace(rho=state.rho, first_loss=state.first_loss)

    def counted(self, state: FeatureState, s: FeatureStatistics, n_documents: float) -> FeatureState:
        """Return the fit of these documents and the earlier ones, if no values are missing."""
        alone, v, n = self.maximum(state, s, n_documents, EXACT), self.variables, s.n_observed
        if not state.t:
            return alone
        nu, of_prior = v.prior_weight + 0.0 * n, v.posterior_mean(0.0 * s.sums, 0.0 * n)
        prior, before, now = (w[:, v.variable_of] for w in (nu, nu + state.class_counts[:, None], nu + n))
        total = before + now - prior  # both include the prior
        sums = before * state.mu + now * alone.mu - prior * of_prior
        mu = np.divide(sums, total, out=of_prior, where=total > 0)
        return alone._replace(class_counts=state.class_counts + s.class_counts, mu=mu)

    def posterior_mean(self, state: FeatureState) -> tuple[FeatureParameters, float]:
        """Return expected parameters under the posterior of shares (Dirichlet) and theta, and its KL from the prior."""

        def log_volume(counts: np.ndarray) -> float:  # of a Dirichlet distribution
            return float(gammaln(counts).sum() - gammaln(counts.sum()))

        prior = np.full(len(state.class_counts), self.class_alpha)
        counts = prior + state.class_counts
        log_shares = digamma(counts) - digamma(counts.sum())
        parameters, divergence = self.variables.under_posterior(state.mu, state.class_counts, log_shares)
        of_shares = float((state.class_counts * log_shares).sum()) - log_volume(counts) + log_volume(prior)
        return parameters, float(divergence.sum()) + of_shares

    def em_objective(self, state: FeatureState, s: FeatureStatistics, variational: bool) -> float:
        prior = self.posterior_mean(state)[1] if variational else self._prior_divergence(state.mu)
        return (s.loss + prior) / s.weight

    def log_prior_density(self, state: FeatureState) -> float:
        """Return the log-density of the conjugate prior at the best mu, minus the log-density at its centre."""
        return -self._prior_divergence(state.best[1])

    def _prior_divergence(self, mu: np.ndarray) -> float:
        """Return the sum of the components' divergences from the prior's centre, times the prior's weight."""
        if getattr(self.head, "shared", False):
            mu = mu[: len(mu) // self.n_classes]
        centre = np.broadcast_to(self.variables.centre, mu.shape)
        return float((self.variables.prior_weight * self.variables.divergence(centre, mu)).sum())


@record
class FeatureClasses(DenseModel):
    """p(y) times naive Bayes of the variables given the class, or given its components, which are summed out."""

    head: Classes
    log_prior: tuple[float, ...] | None = None  # fixed ln p(y); None learns it
    class_alpha: float = 1.0  # pseudo-count of each class in the conjugate prior of a discriminative run

    def __post_init__(self) -> None:
        if self.log_prior is not None and len(self.log_prior) != self.n_components:
            raise ValueError(f"log_prior has {len(self.log_prior)} numbers for {self.n_components} classes")

    @property
    def tempered(self) -> bool:  # type: ignore[override]
        """Whether evaluation computes the log-loss at each temperature."""
        return bool(self.head.component_class)

    def prepare(self, documents: DenseDocuments, *, frequent_first: bool = False) -> Features:
        """Return documents as statistics; sorted by class if there are components."""
        labels = np.zeros(len(documents.values), np.int32) if self.head.clusters else documents.labels
        features = self.variables.features(documents.values, labels, documents.weights)
        return features.take(np.argsort(features.labels, kind="stable")) if self.head.component_class else features

    def parameters_at(self, counts: np.ndarray, mu: np.ndarray) -> FeatureParameters:
        if self.log_prior is not None:
            return self.variables.to_natural(mu, np.asarray(self.log_prior))
        with np.errstate(divide="ignore"):  # a class without documents
            return self.variables.to_natural(mu, np.log(counts) - np.log(counts.sum()))

    def loss_weights(self, scores: np.ndarray, features: Features, loss: Loss, unlabelled_weight: float = 1.0) -> Any:
        """Return the loss weights of components for each row, and its loss; both times the row's weight (Table 2)."""
        weights, values = self.head.loss_weights(loss, scores, features.labels, unlabelled_weight)
        values = np.where(features.weights > 0, values, 0.0) * features.weights
        return weights * features.weights[:, None], values

    def expected(
        self, counts: np.ndarray, mu: np.ndarray, features: Features, loss: Loss, unlabelled_weight: float = 1.0
    ) -> FeatureStatistics:
        """Return the sum of loss weights times expected statistics, and the sum of losses, at one theta (Table 2)."""
        scores = self.variables.scores(self.parameters_at(counts, mu), features)
        weights, values = self.loss_weights(scores, features, loss, unlabelled_weight)
        s = self._weighted(weights, features)
        absent = s.class_counts[:, None] - s.n_observed  # a missing value counts as ``E[T | y]``
        return s._replace(sums=s.sums + absent[:, self.variables.variable_of] * mu, loss=float(values.sum()))

    def complete(self, features: Features) -> FeatureStatistics:
        return self._weighted(one_hot(features.labels, self.n_components) * features.weights[:, None], features)

    def _weighted(self, weights: np.ndarray, features: Features) -> FeatureStatistics:
        totals, sums = weights.sum(axis=0), np.einsum("nk,ns->ks", weights, features.statistics)
        observed = np.repeat(totals[:, None], self.variables.n_variables, axis=1)
        if features.missing.shape[1]:
            observed -= np.einsum("nk,nv->kv", weights, features.missing)
        return FeatureStatistics(totals, sums, observed, 0.0, float(features.weights.sum()))

    def posterior(self, state: FeatureState, features: Features, form: EmForm, at: Any, unlabelled: float) -> Any:
        """Return the sums of statistics weighted by the shares of the components, and of losses (E-step)."""
        variational = form.kind == "variational"
        if variational and features.missing.any():
            raise ValueError("em='variational' does not support missing values: impute them, or use em='soft'")
        parameters = self.posterior_mean(state)[0] if variational else self.parameters_at(state.class_counts, state.mu)
        temperature, keys = form.temperature(at.lane.epoch), at.keys(len(features.weights))
        n, component_class = self.n_components, self.head.component_class or tuple(range(self.n_classes))
        totals, sums = np.zeros(n), np.zeros(state.mu.shape)
        observed, loss = np.zeros(parameters.partitions.shape), 0.0
        bounds = np.searchsorted(features.labels, np.arange(-1, self.n_classes + 1))
        of_class = [slice(a, b) for a, b in pairwise([*first_components(component_class).tolist(), n])]
        for own, first, stop in zip([slice(0, n), *of_class], bounds[:-1], bounds[1:], strict=True):
            if first == stop:
                continue
            part = Features(*(array[first:stop] for array in features))
            share = part.weights * (unlabelled if part.labels[0] < 0 else 1.0)
            scores = self.variables.scores(FeatureParameters(*(array[own] for array in parameters)), part)
            weights, total = form.responsibilities(scores, temperature, keys[first:stop])
            s = self._weighted(weights * share[:, None], part)
            totals[own] += s.class_counts
            sums[own] += s.sums
            observed[own] += s.n_observed
            loss -= float((np.where(share > 0, total, 0.0) * share).sum())
        return FeatureStatistics(totals, sums, observed, loss, float(features.weights.sum()))

    def scored(self, state: FeatureState, features: Features, temperature: float, seed: int) -> Scored:
        labelled = features.take(np.flatnonzero(features.labels >= 0))
        n_observed = self.variables.n_variables - labelled.missing.sum(axis=1)
        scores = by_class(self.variables.scores(self.parameters(state), labelled), self.head.component_class)[0]
        return scored(scores / temperature, labelled.labels, labelled.weights, n_observed, scores)
