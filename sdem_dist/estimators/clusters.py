"""What mixtures without labels share: starts, restarts, the objective, and what is asked of clusters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, cast

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from sdem_dist.corpus import Corpus
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators.answers import Clustering, WithDensity
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.common_parameters import EVALUATE_EVERY, Seeded
from sdem_dist.estimators.em_settings import EmSettings, check_em, em_form, em_plan
from sdem_dist.estimators.parameters import estimator, integer, one_of, param
from sdem_dist.fitting import plans
from sdem_dist.fitting.cluster_kinds import ClusterKind
from sdem_dist.fitting.scoring import over_blocks
from sdem_dist.inputs.source import Source
from sdem_dist.inputs.spec import Extra, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners.rules import ClosedForm

if TYPE_CHECKING:
    from distributed import Client


CONVERGED = 1e-3
"""Nats per document that a pass gains at most, once EM has converged."""


@estimator
class ClusterMixture(EmSettings, Seeded, WithDensity, Clustering, EngineEstimator, Generic[ClusterKind]):
    """Base of mixtures without labels."""

    n_components: int = param(8, integer(), "Clusters.", positional=True)
    init: str = param(
        "k-means",
        one_of("k-means", "examples"),
        "Start at clusters of k-means of `init_documents` documents (of counts in tf-idf), or at random documents.",
    )
    n_init: int = param(10, integer(), "Starts of `n_init_epochs` each; that of the best objective goes on.")
    n_init_epochs: int = param(5, integer(), "Passes over the documents for each start.")
    init_documents: int = param(20_000, integer(), "Documents that k-means sees.")
    n_epochs: int = param(50, integer(), "Passes over the documents after that.")
    evaluate_every: int = param(10, *EVALUATE_EVERY)

    _monitor = "nll"
    _learned: ClassVar[Mapping[str, str]] = {
        "lower_bound_": "float\n"
        "The objective per document: mean ln p(d) and the prior's share. Restarts are chosen by it."
    }

    def _check(self) -> None:
        check_em(self)
        if self.init == "k-means" and self.init_documents < self.n_components:
            raise ValueError(
                f"init_documents={self.init_documents} is too few for k-means to find n_components={self.n_components} "
                "clusters in: raise it"
            )

    @property
    @abstractmethod
    def _kind(self) -> ClusterKind:
        """What clusters are."""

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run short runs from several starts, and a long one from the best of them."""
        if source.n_documents < self.n_components:
            raise ValueError(f"n_samples={source.n_documents} should be >= n_components={self.n_components}")
        plan = plans.full_passes(source.n_documents, self.n_epochs, seed_of(self.random_state))
        kind, form = self._kind, em_form(self)
        learner = kind.learner(trainer, source, plan, form)
        # Starts are compared after exact EM: one draw, or a batch, says little of them.
        exact = replace(form, kind="soft", annealing=1.0)
        short = learner if form.rises else replace(learner, rule=replace(cast(ClosedForm, learner.rule), form=exact))
        best, highest = None, -np.inf
        for number in range(self.n_init):
            which = f" {number + 1} of {self.n_init}" if self.n_init > 1 else ""
            once = replace(plan, n_epochs=1, seed=plan.seed + (number << 20))
            stage = kind.started(trainer, short, once, source, which)
            state = trainer.run(replace(stage, plan=replace(plan, n_epochs=self.n_init_epochs))).state
            objective = 0.0
            if self.n_init > 1:
                objective = self._objective(trainer, f"objective{which}", learner, state, source)
            if best is None or objective > highest:
                best, highest = state, objective
        end = final_stage(trainer, learner, em_plan(self, plan), best)
        self.lower_bound_ = self._objective(trainer, "objective", learner, end.state, source)
        return end

    def _objective(self, trainer: Trainer, name: str, learner: Any, state: Any, source: Source) -> float:
        """Run a scoring; return the mean of ln p(d) and the priors' shares a document."""
        nll = trainer.score(name, learner, state)["nll"]
        return self._kind.prior_share(learner, state) / source.weight - nll

    @property
    def converged_(self) -> bool | None:
        """Whether a pass gained under 0.001 nats a document, in the mean of those between the last evaluations.

        None where fewer than two passes were evaluated.
        """
        check_is_fitted(self)
        known = [(entry["epoch"], entry["nll"]) for entry in self.history_ if "nll" in entry]
        if len(known) < 2:
            return None
        (before, high), (after, low) = known[-2:]
        return bool(high - low < CONVERGED * (after - before))

    @property
    def component_log_prior_(self) -> np.ndarray:
        """Logarithm of p(cluster), shape (n_components,)."""
        check_is_fitted(self)
        return np.asarray(self._parameters.log_prior)

    def _joint_log_proba(self, X: object) -> np.ndarray:
        return self._kind.log_joint(self, X)

    def _clusters(self, X: object) -> np.ndarray:
        return self._joint_log_proba(X).argmax(axis=1)

    def predict_proba(self, X: object, client: Client | None = None) -> Any:
        """Return p(cluster | d), shape (n_samples, n_components); `X` and `client` as for `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_components), float64
        """
        check_is_fitted(self)
        n_components = len(self.learner_.head.component_class)
        return over_blocks(self, X, lambda b: softmax(self._joint_log_proba(b), axis=1), n_components, client)

    def score(self, X: object, y: object = None) -> float:
        """Return the mean of ln p(d) of documents in memory or of a corpus.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), texts, or Corpus
        y : ignored

        Returns
        -------
        float
            In nats per document.
        """
        if isinstance(X, Corpus):
            return -self.evaluate(X)["nll"]
        return float(self.score_samples(X).mean())

    def bic(self, X: object) -> float:
        """Return the Bayesian information criterion on documents in memory or of a corpus; the lower the better.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), texts, or Corpus

        Returns
        -------
        float
        """
        check_is_fitted(self)
        scores = np.full(X.n_documents, self.score(X)) if isinstance(X, Corpus) else self.score_samples(X)
        return float(self._kind.n_parameters(self) * np.log(len(scores)) - 2.0 * scores.sum())

    def extra(self) -> dict[str, object]:
        """Return the objective."""
        return {"lower_bound": float(self.lower_bound_)}

    def take_extra(self, extra: Extra) -> None:
        """Take back the objective."""
        self.lower_bound_ = float(extra["lower_bound"])
