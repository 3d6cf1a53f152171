"""From the parameters of a naive Bayes of dense features to the learner and the plan of a run."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.engine.plan import Plan
from sdem_dist.estimators.settings import MERGES, class_weights, fixed_log_prior, positive_integers, seed_of
from sdem_dist.learners.feature_em import FeatureEm
from sdem_dist.learners.feature_sdem import FeatureSdem
from sdem_dist.losses import NAMED, Loss
from sdem_dist.models.feature_classes import FeatureClasses
from sdem_dist.models.features import FeatureModel

if TYPE_CHECKING:
    from sdem_dist.estimators.inputs import Source

LANES = 128
SUM_LANE_DOCUMENTS = 2_000
"""Documents that make a lane of ``merge="sum"`` worth its overhead."""
MEAN_LANE_DOCUMENTS = 256
"""Documents from which a lane of ``merge="mean"`` learns something of its own."""
MEAN_BATCH = 32


def check(estimator: Any) -> None:
    """Check the shared parameters.

    Raises
    ------
    ValueError
        The name of the parameter, what it was and what it may be.
    """
    e = estimator
    if isinstance(e.loss, str) and e.loss not in NAMED:
        raise ValueError(f"loss must be one of {tuple(NAMED)} or a loss, got {e.loss!r}")
    for name, allowed in (("merge", MERGES), ("step", ("safe", "paper"))):
        if getattr(e, name) not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, got {getattr(e, name)!r}")
    positive_integers(e, "n_epochs", "n_lanes", "batch_size", "patience", "n_jobs")
    for name in ("step_decay", "prior_scale", "unlabelled_weight"):
        value = getattr(e, name)
        if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
            raise ValueError(f"{name} must be a finite number that is not negative, got {value!r}")
    if not (isinstance(e.evaluate_every, int | np.integer) and e.evaluate_every >= 0):
        raise ValueError(f"evaluate_every must be an integer that is not negative, got {e.evaluate_every!r}")
    if e.step == "paper" and e.merge == "sum":
        raise ValueError(
            "step='paper' is a step a document: it needs merge='mean', n_lanes=1 for the paper's algorithm"
        )


def loss_of(estimator: Any) -> Loss:
    """Return the loss itself."""
    return NAMED[estimator.loss] if isinstance(estimator.loss, str) else estimator.loss


def plan(estimator: Any, n_documents: int) -> Plan:
    """Return the plan of a run: rounds are whole epochs unless ``merge="sum"`` has a `batch_size`."""
    e = estimator
    seed = seed_of(e.random_state)
    if e.merge == "sum":
        batch = min(e.batch_size or n_documents, n_documents)
        lanes = e.n_lanes or min(LANES, -(-batch // SUM_LANE_DOCUMENTS))
        return Plan(n_documents, e.n_epochs, -(-n_documents // batch), lanes, seed)
    return Plan(n_documents, e.n_epochs, 1, e.n_lanes or max(1, min(LANES, n_documents // MEAN_LANE_DOCUMENTS)), seed)


def one_round(plan: Plan) -> Plan:
    """Return the plan of a single pass with the lanes of another."""
    return replace(plan, n_epochs=1, n_rounds=1, n_lanes=max(1, min(LANES, plan.n_documents // SUM_LANE_DOCUMENTS)))


def learner(estimator: Any, source: Source, plan: Plan, model: FeatureModel, loss: Loss | None) -> Any:
    """Return the learner of an estimator for a training source; `loss` None for its generative fit."""
    e = estimator
    n_classes = len(source.classes)
    shared: dict[str, Any] = {
        "model": FeatureClasses(model, n_classes, log_prior=fixed_log_prior(e, n_classes)),
        "n_documents": source.weight,
        "class_weight": class_weights(e.class_weight, source),
        "unlabelled_weight": float(e.unlabelled_weight),
    }
    if loss is None:
        return FeatureEm(**shared, complete=True)
    return FeatureSdem(
        **shared,
        loss=loss,
        merge=e.merge,
        batch_size=e.batch_size or (1 if e.step == "paper" else MEAN_BATCH),
        step=e.step,
        judged=plan.n_rounds == 1 and e.step == "safe",
        step_decay=float(e.step_decay),
        prior_scale=float(e.prior_scale),
        seed=plan.seed,
    )
