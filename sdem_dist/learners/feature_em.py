"""EM over dense features: generative fit in closed form, hidden components, missing values (Masegosa 2014, Table 2)."""

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from sdem_dist.errors import TrainingError
from sdem_dist.kernels.randomness import document_keys
from sdem_dist.learners.features import FeatureLearner, FeatureState, Prepared, started
from sdem_dist.learners.protocol import Lane
from sdem_dist.models.em_forms import EXACT, EmForm, EStep
from sdem_dist.models.feature_classes import FeatureStatistics
from sdem_dist.models.features import FeatureParameters, Features
from sdem_dist.records import record

ROUNDING = 1e-9
"""Relative rise of the objective that EM allows as rounding."""


@record
@dataclass(frozen=True)
class FeatureEm(FeatureLearner[Prepared]):
    """The learner of maximum a posteriori estimates; a round of all documents is an iteration."""

    complete: bool = False  # take labelled documents by their class: one round is the fit
    monitored: bool = False
    """Compute the objective, keep its state, and raise an error where it rises although `form` forbids it."""
    form: EmForm = EXACT
    seed: int = 0

    @property
    def _variational(self) -> bool:
        return self.form.kind == "variational"

    def map(self, state: FeatureState, documents: Prepared, lane: Lane) -> FeatureStatistics:
        """Return the expected statistics of one lane (E-step)."""
        documents = self.model.reweighted(documents, self.class_weight)
        if self.complete:
            return self.model.complete(documents)
        keys = document_keys(self.seed, lane.epoch, lane.start, lane.start + len(documents.weights))
        step = EStep(self.form, self.form.temperature(lane.epoch), keys)
        if self._variational:
            if isinstance(documents, Features) and documents.missing.any():
                raise ValueError("em='variational' takes no missing values (NaN): fill them in, or take em='soft'")
            step = step._replace(parameters=self._under_posterior(state)[0])
        return self.model.posterior(state.class_counts, state.mu, documents, step, self.unlabelled_weight)

    def update(self, state: FeatureState, statistics: FeatureStatistics) -> FeatureState:
        """Return the next mu (M-step), in closed form; no prior on the classes, but for "variational".

        Raises TrainingError: the objective rose.
        """
        s = statistics
        if s.weight == 0.0 or not s.class_sums.any():  # no document has a label
            return state
        if self.form.kind == "online":
            return self._stepped(state, s)
        best = started(state.class_counts, state.mu)[3:5]
        objective = np.inf  # the start may come from another form of EM
        if self.monitored and self.form.rises:
            best, objective = (state.class_counts, state.mu), self._objective(state, s)
        mu = self.model.variables.posterior_mean(s.sums, s.known)
        # As many as there are documents, so that a document's step weighs 1.
        counts = s.class_sums if self._variational else s.class_sums * (self.n_documents / s.class_sums.sum())
        if self.form.step < 1:  # the bound is concave on the way to its maximum, in the expectation parameters
            mu = self.model.variables.check(state.mu + self.form.step * (mu - state.mu))[0]
            counts = state.class_counts + self.form.step * (counts - state.class_counts)
        return FeatureState(counts, mu, state.rho, *best, objective, state.first_loss, state.t + s.weight)

    def _stepped(self, state: FeatureState, s: FeatureStatistics) -> FeatureState:
        """Return mu between the old one and a batch's, each weighted by its observations and the prior's."""
        variables, rho, scale = self.model.variables, self.form.rho(state.t, s.weight), self.n_documents / s.weight
        mu = variables.posterior_mean(s.sums * scale, s.known * scale)
        nu = variables.weight_of_variables
        before, now = (1.0 - rho) * (nu + state.class_counts[:, None]), rho * (nu + s.known * scale)
        share = (now / (before + now))[:, variables.variable_of]
        counts = (1.0 - rho) * state.class_counts + rho * s.class_sums * (self.n_documents / s.class_sums.sum())
        moved = variables.check(state.mu + share * (mu - state.mu))[0]
        return started(counts, moved, state.t + s.weight)

    def _objective(self, state: FeatureState, s: FeatureStatistics) -> float:
        """Return the objective of the broadcast state, a document."""
        variables = self.model.variables
        if self._variational:
            prior = self._under_posterior(state)[1]
        else:
            centre = np.broadcast_to(variables.centre, state.mu.shape)
            prior = float((variables.weight_of_variables * variables.divergence(centre, state.mu)).sum())
        objective = (s.loss + prior) / s.weight
        rise = objective - state.best_objective
        if not np.isfinite(objective) or rise > ROUNDING * max(1.0, abs(objective)):
            raise TrainingError(
                f"the objective of EM went from {state.best_objective:.17g} to {objective:.17g} a document after "
                f"{state.t:g} documents, which it cannot do: are there values that no component can have?"
            )
        return objective

    def _under_posterior(self, state: FeatureState) -> tuple[FeatureParameters, float]:
        """Return expected parameters under the posterior of shares (Dirichlet) and theta, and its KL from the prior."""
        prior = np.full(len(state.class_counts), self.class_alpha)
        counts = prior + state.class_counts
        log_shares = digamma(counts) - digamma(counts.sum())
        parameters, divergence = self.model.variables.under_posterior(state.mu, state.class_counts, log_shares)
        of_shares = float((state.class_counts * log_shares).sum()) - _log_volume(counts) + _log_volume(prior)
        return parameters, float(divergence.sum()) + of_shares


def _log_volume(counts: np.ndarray) -> float:
    """Return the logarithm of the normaliser of a Dirichlet distribution."""
    return float(gammaln(counts).sum() - gammaln(counts.sum()))
