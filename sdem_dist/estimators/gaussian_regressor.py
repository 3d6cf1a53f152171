"""Regression with a joint Gaussian of features and target."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.linalg import solve

from sdem_dist.engine.plan import Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.errors import CorpusError
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.predictions import EngineRegressor
from sdem_dist.families import GaussianFull
from sdem_dist.fitting import defaults, plans
from sdem_dist.fitting.running import over_corpus
from sdem_dist.inputs.source import Source, table_of
from sdem_dist.inputs.spec import Spec, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.safe_step import SafeStep
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.starts import refuse_beyond_squares
from sdem_dist.learners.surveys import Columns
from sdem_dist.losses import Ncll
from sdem_dist.models.feature_classes import started
from sdem_dist.models.features import Block, FeatureModel
from sdem_dist.models.regression import JointGaussian, largest_evidence, predicted_target
from sdem_dist.reports.explaining import Parts, of_regression

if TYPE_CHECKING:
    from distributed import Client


class GaussianRegressor(EngineRegressor):
    """Linear regression as the conditional mean of a joint Gaussian, which predicts with features missing (NaN).

    In memory the target is `y`; a dense corpus has it as its last column. It may not be missing. Missing features are
    summed out in training too.

    loss -- ``-ln p(y, x)`` or ``-ln p(y | x)``: the same, ridge regression, where no row misses a feature. Else "nll"
        runs EM, and "ncll" goes on from there down the conditional loss.
    alpha -- Observations of independent, standardised columns that the prior adds: the penalty of ridge regression.
        "evidence" takes that under which the targets are most probable (empirical Bayes), with a unit for each feature
        or one for all. It costs one more pass, or 10 with features missing.
    n_epochs -- With features missing: passes for EM and, for "ncll", for the steps after it.
    history_ : list of dict -- ``nll`` and ``ncll`` are means per row, of standardised columns, in the last stage.

    >>> import numpy as np
    >>> from sdem_dist import GaussianRegressor
    >>> model = GaussianRegressor().fit([[1, 2], [2, 1], [3, 4], [4, 3], [5, 6]], [3, 3, 7, 7, 11])
    >>> model.predict([[6.0, 5.0], [6.0, np.nan]]).round().tolist()
    [11.0, 12.0]
    """

    loss: Literal["nll", "ncll"] = "nll"
    alpha: Literal["evidence"] | float = "evidence"
    n_epochs: int = 30
    n_lanes: int | None = None

    spec = Spec("dense", "numbers", "number", shown=("nll", "ncll"))

    @property
    def _monitor(self) -> str:
        return self.loss

    def _check_columns(self, source: Source) -> None:
        """Take a corpus with a column for the target, as in training, or without one."""
        theirs, ours = source.vocabulary, self.vocabulary_
        names_differ = theirs is not None and ours is not None and theirs != ours[:-1]
        if source.n_features == self._n_columns:
            super()._check_columns(source)
        elif source.n_features != self.n_features_in_ or names_differ:
            problem = f"{source.name} has {source.n_features} columns that are not the model's {self.n_features_in_}"
            raise CorpusError(f"{problem}, with or without a target after them")

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run EM for the joint loss and, from where it ends, steps down the conditional one."""
        n, d, seed = source.n_documents, source.n_features, seed_of(self.random_state)
        once = Plan(n, 1, 1, self.n_lanes or plans.lanes_of(n, defaults.SUM_LANE_ROWS), seed)
        summary = trainer.run(Stage("columns", Columns(d, weighted=True), once)).state
        gaps = bool((summary.n < source.weight * (1 - 1e-12)).any())
        refuse_beyond_squares(summary, np.arange(d), target=d - 1)

        def em(scale: np.ndarray, alpha: float) -> SdEM[JointGaussian]:
            # Columns that determine each other have a covariance without an inverse: a little prior keeps it regular.
            family = GaussianFull(d, max(alpha, defaults.LEAST_PRIOR_SHARE * source.weight))
            block = Block(family, tuple(range(d)), tuple(summary.mean.tolist()), tuple(scale.tolist()))
            return SdEM(JointGaussian(FeatureModel((block,))), source.weight, ClosedForm())

        alpha, scale = self.alpha, summary.scale
        if isinstance(alpha, str):  # that under which targets are most probable, with a unit a feature or one for all
            pilot = em(scale, 1.0 if gaps else 0.0)
            few = replace(once, n_epochs=min(self.n_epochs, defaults.PILOT_EM_EPOCHS)) if gaps else once
            mu = trainer.run(Stage("prior", pilot, few)).state.mu[0]
            products, one, priors = pilot.model.products(mu, source.weight), scale.copy(), []
            one[:-1] = np.sqrt(summary.variance[:-1].mean()) or 1.0
            for units in (scale, one):
                factor = scale / units
                priors.append((largest_evidence(products * factor * factor[:, None], source.weight), units))
            best, scale = max(priors, key=lambda pair: pair[0].log_evidence)
            alpha = best.penalty
        joint, plan = em(scale, float(alpha)), replace(once, n_epochs=self.n_epochs)
        if not gaps:  # the minimum of the joint loss is the conditional one's, too
            return final_stage(trainer, joint, once)
        if self.loss == "nll":
            return final_stage(trainer, joint, plan)
        state = trainer.run(Stage("EM", joint, plan)).state
        learner = SdEM(joint.model, source.weight, SafeStep(), Ncll())
        return final_stage(trainer, learner, plan, started(np.array([source.weight]), state.mu, state.t))

    @property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of features and target."""
        block = self.learner_.model.variables.blocks[0]
        mean, covariance = self.learner_.model.family.to_moments(self.state_.best[1][0])
        scale = np.asarray(block.scale)
        return np.asarray(block.location) + scale * mean, covariance * scale[:, None] * scale

    @property
    def coef_(self) -> np.ndarray:
        """What a unit of each feature adds, shape (n_features,)."""
        covariance = self._moments[1]
        return np.asarray(solve(covariance[:-1, :-1], covariance[:-1, -1], assume_a="pos"))

    @property
    def variance_(self) -> float:
        """Variance of the target around its mean given all features, with the coefficients as they were learned."""
        covariance = self._moments[1]
        return float(covariance[-1, -1] - self.coef_ @ covariance[:-1, -1])

    alpha_ = p.fitted("learner_.model.family.alpha", "Observations that the prior counts for.", "float")
    intercept_ = p.fitted(
        lambda m: float(m._moments[0] @ np.append(-m.coef_, 1.0)), "The target where all features are 0.", "float"
    )

    def predict(self, X: object, return_std: bool = False, client: Client | None = None) -> Any:
        """Return the mean of the target given the features that are known, shape (n_samples,).

        X : array-like of shape (n_samples, n_features), or Corpus -- NaN where a feature is not known. A corpus may
            have the target as its last column, which is passed over.
        return_std : bool, default=False -- Return the standard deviations of new targets too. They grow with what is
            missing in a row, far from the training rows, and where columns are many.
        Returns : ndarray of shape (n_samples,), float64 -- With `return_std` two: means and standard deviations.
        """
        block = self.learner_.model.variables.blocks[0]
        location, scale = np.asarray(block.location), np.asarray(block.scale)
        learned = self.learner_.model.family, self.state_.best[1][0]

        def predicted(rows: object) -> np.ndarray:
            standardised = (table_of(self, rows) - location[:-1]) / scale[:-1]
            mean, variance = predicted_target(*learned, standardised, self.learner_.n_documents)
            return np.stack([location[-1] + scale[-1] * mean, scale[-1] * np.sqrt(variance)], axis=1)

        means, deviations = over_corpus(self, X, predicted, client).T
        return (means, deviations) if return_std else means

    def _number_parts(self, documents: object, target: int) -> tuple[np.ndarray, float, Parts]:
        means, covariance = self._moments
        result = list(of_regression(means, covariance, table_of(self, documents)))
        return np.array([means[-1] + float(parts.parts.sum()) for parts in result]), float(means[-1]), result
