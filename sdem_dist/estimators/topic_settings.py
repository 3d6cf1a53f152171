"""From the parameters of a topic model to the learner and the plan of a run."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.engine.plan import Plan
from sdem_dist.estimators.settings import MERGES, SUM_TASK_DOCUMENTS, positive_integers, seed_of
from sdem_dist.learners.bp_slda import BpSlda
from sdem_dist.models.supervised_lda import MirrorDescent

if TYPE_CHECKING:
    from sdem_dist.estimators.inputs import Source

LANES = 8
LANE_DOCUMENTS = 2_500
"""Documents from which a lane learns something of its own."""
BATCH = 100
"""Documents of a step, of all lanes together."""
SMALLEST_BATCH = 10
MANY_DOCUMENTS = 25_000
"""Documents from which the default rate of topics falls, as one over their number."""


def check(estimator: Any) -> None:
    """Check the parameters.

    Raises
    ------
    ValueError
        The name of the parameter, what it was and what it may be.
    """
    e = estimator
    if e.merge not in MERGES:
        raise ValueError(f"merge must be one of {MERGES}, got {e.merge!r}")
    positive_integers(
        e, "n_epochs", "n_components", "n_layers", "batch_size", "n_lanes", "rounds_per_epoch", "patience", "n_jobs"
    )
    for name in ("n_components", "n_layers"):
        if getattr(e, name) is None:
            raise ValueError(f"{name} must be a positive integer, got None")
    for name in ("alpha", "gamma", "inference_step", "topic_rate", "output_rate"):
        value = getattr(e, name, 1.0)
        if name == "topic_rate" and value is None:
            continue
        if not (isinstance(value, Real) and 0 < float(value) < np.inf):
            raise ValueError(f"{name} must be a positive finite number, got {value!r}")
    if not (isinstance(e.beta, Real) and 1 <= float(e.beta) < np.inf):
        raise ValueError(f"beta must be a finite number that is not below 1, got {e.beta!r}")
    for name in ("line_search", "log_counts"):
        value = getattr(e, name, False)
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} must be True or False, got {value!r}")
    for name in ("evaluate_every", "average_from"):
        value = getattr(e, name)
        if not (isinstance(value, int | np.integer) and value >= 0):
            raise ValueError(f"{name} must be an integer that is not negative, got {value!r}")
    if e.merge == "sum" and e.rounds_per_epoch is not None:
        raise ValueError("with merge='sum' batch_size sets the rounds of an epoch: leave rounds_per_epoch at None")


def inference(estimator: Any) -> MirrorDescent:
    """Return how topic proportions are found."""
    e = estimator
    return MirrorDescent(float(e.alpha), int(e.n_layers), float(e.inference_step), bool(e.line_search))


def plan(estimator: Any, n_documents: int) -> Plan:
    """Return the plan of a run, a function of the corpus and the parameters."""
    e = estimator
    seed = seed_of(e.random_state)
    if e.merge == "sum":
        batch = min(e.batch_size or BATCH, n_documents)
        lanes = e.n_lanes or -(-batch // SUM_TASK_DOCUMENTS)
        return Plan(n_documents, e.n_epochs, -(-n_documents // batch), lanes, seed)
    lanes = e.n_lanes or max(1, min(LANES, n_documents // LANE_DOCUMENTS))
    return Plan(n_documents, e.n_epochs, e.rounds_per_epoch or 1, lanes, seed)


def _topic_rate(estimator: Any, n_documents: int) -> float:
    if estimator.topic_rate is not None:
        return float(estimator.topic_rate)
    return float(estimator._topic_rate * min(1.0, MANY_DOCUMENTS / n_documents))


def learner(estimator: Any, source: Source, plan: Plan, **kind: Any) -> BpSlda:
    """Return the learner of an estimator for a training source; `kind` is what it learns.

    Raises
    ------
    ValueError
        The weights of the classes leave nothing to learn from.
    """
    e = estimator
    weight = source.weight
    if (
        factors := kind.get("class_weight")
    ) is not None:  # rates fall and averages begin by the weights that batches have
        weight = sum(factor * count for factor, count in zip(factors, source.class_counts, strict=True))
        if not weight > 0:
            raise ValueError(f"class_weight gives no document a weight, got {e.class_weight!r}")
    return BpSlda(
        n_features=source.n_features,
        n_topics=int(e.n_components),
        n_documents=float(weight),
        inference=inference(e),
        beta=float(e.beta),
        topic_rate=_topic_rate(e, source.n_documents),
        n_epochs=int(e.n_epochs),
        average_from=int(e.average_from),
        merge=e.merge,
        batch_size=int(e.batch_size or max(BATCH // plan.n_lanes, SMALLEST_BATCH)),
        seed=plan.seed,
        **kind,
    )
