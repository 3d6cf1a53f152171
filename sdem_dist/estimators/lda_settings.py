"""From the parameters of an LDA classifier to the learner and the plan of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.engine.plan import Plan
from sdem_dist.estimators import settings
from sdem_dist.learners.sdem import Sdem
from sdem_dist.models.lda import INFERENCE, OCCURRENCES, Inference, LdaClasses

if TYPE_CHECKING:
    from sdem_dist.estimators.inputs import Source

BURN_IN = 3


def check(estimator: Any) -> None:
    """Check an estimator's parameters.

    Raises
    ------
    ValueError
        The name of the parameter, what it was and what it may be.
    """
    e = estimator
    settings.check_schedule(e)
    for name, allowed in (("inference", tuple(INFERENCE)), ("occurrences", tuple(OCCURRENCES))):
        if getattr(e, name) not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, got {getattr(e, name)!r}")
    for name, least in (("n_topics", 1), ("n_sweeps", 1), ("n_particles", 0)):
        value = getattr(e, name)
        if not (isinstance(value, int | np.integer) and value >= least):
            raise ValueError(f"{name} must be an integer from {least} on, got {value!r}")
    if e.burn_in is not None and e.inference == "map":
        raise ValueError("burn_in is of sampling, and inference='map' samples nothing: leave it at None")
    if e.burn_in is not None and not (isinstance(e.burn_in, int | np.integer) and 0 <= e.burn_in < e.n_sweeps):
        raise ValueError(f"burn_in must be an integer that leaves some of the {e.n_sweeps} sweeps, got {e.burn_in!r}")
    if e.inference == "map" and e.occurrences != "shared" and e.n_particles == 0:
        raise ValueError("occurrences says how topics are sampled, and inference='map' does not: leave it at 'shared'")
    settings.not_negative(e, "init_noise")
    for name in ("topic_word_prior", "doc_topic_prior"):
        value = getattr(e, name)
        if value is None and name == "doc_topic_prior":
            continue
        settings.not_negative(e, name)
        if value == 0:
            raise ValueError(f"{name} must be positive: the prior keeps probabilities off 0")
    if e.merge == "mean" and e.batch_size is not None:
        raise ValueError("batch_size is of merge='sum': leave it at None, or set rounds_per_epoch")


def plan(estimator: Any, n_documents: int, seed: int) -> Plan:
    """Return the plan of a run; NLL takes one step a round, of an eighth of the documents if nothing else is said."""
    e = estimator
    if e.merge == "sum":
        return settings.summing_plan(e, n_documents, seed, min(e.batch_size or settings.SUM_BATCH, n_documents))
    if e.loss == "nll":
        rounds = e.rounds_per_epoch or settings.default_rounds(n_documents)
        return Plan(n_documents, e.n_epochs, rounds, e.n_lanes or settings.default_lanes(n_documents, rounds), seed)
    return settings.plan(e, n_documents, seed)


def learner(estimator: Any, source: Source) -> Sdem[LdaClasses]:
    """Return the learner of an estimator for a training source."""
    e = estimator
    check(e)
    n_classes = len(source.classes)
    inference = Inference(
        method=e.inference,
        occurrences=e.occurrences,
        alpha=1.0 / e.n_topics if e.doc_topic_prior is None else float(e.doc_topic_prior),
        n_sweeps=int(e.n_sweeps),
        burn_in=min(BURN_IN, int(e.n_sweeps) - 1) if e.burn_in is None else int(e.burn_in),
        n_particles=int(e.n_particles),
    )
    model = LdaClasses(
        n_features=source.n_features,
        n_classes=n_classes,
        n_topics=int(e.n_topics),
        alpha=float(e.topic_word_prior) / e.n_topics,
        inference=inference,
        noise=float(e.init_noise),
        log_prior=settings.fixed_log_prior(e, n_classes),
    )
    return Sdem(
        model=model,
        n_documents=source.weight,
        class_weight=settings.class_weights(e.class_weight, source),
        seed=settings.seed_of(e.random_state),
        loss=e.loss,
        merge="sum" if e.loss == "nll" else e.merge,
        schedule=settings.schedule_of(e, n_classes, source.weighted),
    )
