"""From an estimator's parameters to the learner and the plan of a run."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.corpus.entries import LARGEST
from sdem_dist.engine.memory import default_blocks
from sdem_dist.engine.plan import Plan
from sdem_dist.learners.em import WordEm
from sdem_dist.learners.schedule import PaperSchedule
from sdem_dist.learners.sdem import Sdem
from sdem_dist.losses import LOSSES
from sdem_dist.models.naive_bayes import NaiveBayes

if TYPE_CHECKING:
    from sdem_dist.estimators.inputs import Source

MERGES = ("mean", "sum")
SUM_BATCH = 128
"""Default documents of a round for ``merge="sum"``."""
SUM_TASK_DOCUMENTS = 1_000
"""Documents that make a task of ``merge="sum"`` worth its overhead."""
MIN_LANE_DOCUMENTS = 2
MAX_LANE_DOCUMENTS = 10_000
LANES = 128
ROUNDS = 8
MANY_DOCUMENTS = 1_000_000
"""Documents of an epoch from which one round is enough: on large corpora merging more often gains nothing."""
ABSENCE_CLASSES = {"counts": 3.0, "weights": 10.0}
"""Classes up to which ``absence="auto"`` is the plain mean; chosen by tests/benchmarks/choose_defaults.py."""


def default_lanes(n_documents: int, n_rounds: int) -> int:
    """Return the number of lanes of a round for ``merge="mean"``: a function of the corpus, never of the cluster.

    128, fewer where a lane would have under 2 documents; doubled until none has over 10,000 in a round, so that lanes can
    be dealt out evenly: tasks have powers of two of them.
    """
    a_round = n_documents // n_rounds
    lanes = max(1, min(LANES, a_round // MIN_LANE_DOCUMENTS))
    while lanes * MAX_LANE_DOCUMENTS < a_round:
        lanes *= 2
    return lanes


def default_rounds(n_documents: int) -> int:
    """Return the rounds of an epoch for ``merge="mean"``: 8, fewer where documents are many, 1 where they are few."""
    if n_documents < ROUNDS * MIN_LANE_DOCUMENTS:
        return 1
    return max(1, min(ROUNDS, MANY_DOCUMENTS // n_documents))


def blocks(n_blocks: int | None, n_features: int, n_columns: int) -> int:
    """Return the number of blocks of the vocabulary."""
    return int(min(n_blocks or default_blocks(8 * n_features * n_columns), n_features))


def seed_of(random_state: Any) -> int:
    """Return an integer seed from what scikit-learn accepts as ``random_state``."""
    from sklearn.utils import check_random_state

    if isinstance(random_state, int | np.integer) and 0 <= random_state < 2**63:
        return int(random_state)
    if isinstance(random_state, int | np.integer):
        raise ValueError(f"random_state must be between 0 and 2**63 - 1, got {random_state!r}")
    return int(check_random_state(random_state).randint(2**31 - 1))


def plan(estimator: Any, n_documents: int, seed: int) -> Plan:
    """Return the plan of a run.

    Raises
    ------
    ValueError
        Settings that contradict each other.
    """
    e = estimator
    if e.loss == "nll":  # sums once over the corpus: one round is enough, and lanes only share the work
        epochs = 1 if e.unlabelled is None else e.n_epochs
        return Plan(n_documents, epochs, 1, e.n_lanes or default_lanes(n_documents, 1), seed)
    if e.merge == "sum":
        return summing_plan(e, n_documents, seed, min(e.batch_size or SUM_BATCH, n_documents))
    rounds = e.rounds_per_epoch or (1 if e.n_lanes == 1 else default_rounds(n_documents))
    return Plan(n_documents, e.n_epochs, rounds, e.n_lanes or default_lanes(n_documents, rounds), seed)


def summing_plan(estimator: Any, n_documents: int, seed: int, batch: int) -> Plan:
    """Return the plan of a run that takes one step a round, of `batch` documents."""
    e = estimator
    if e.rounds_per_epoch is not None:
        raise ValueError("with merge='sum' batch_size sets the rounds of an epoch: leave rounds_per_epoch at None")
    rounds = -(-n_documents // batch)
    return Plan(n_documents, e.n_epochs, rounds, e.n_lanes or -(-batch // SUM_TASK_DOCUMENTS), seed)


def check_schedule(estimator: Any) -> None:
    """Check the parameters that every model of word counts has.

    Raises
    ------
    ValueError
        The name of the parameter, what it was and what it may be.
    """
    e = estimator
    for name, allowed in (("loss", LOSSES), ("merge", MERGES)):
        if getattr(e, name) not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, got {getattr(e, name)!r}")
    positive_integers(e, "n_epochs", "n_lanes", "rounds_per_epoch", "batch_size", "patience", "n_jobs")
    not_negative(e, "step_decay", "tolerance", "prior_scale")
    if not (isinstance(e.evaluate_every, int | np.integer) and e.evaluate_every >= 0):
        raise ValueError(f"evaluate_every must be an integer that is not negative, got {e.evaluate_every!r}")
    if e.absence != "auto" and not (isinstance(e.absence, int | float) and 0 <= e.absence <= 1):
        raise ValueError(f"absence must be 'auto' or a number between 0 and 1, got {e.absence!r}")
    _keeps_inside(e, "prior_scale")


def check(estimator: Any) -> None:
    """Check the parameters of naive Bayes, see `check_schedule`."""
    e = estimator
    check_schedule(e)
    not_negative(e, "unlabelled_weight")
    if isinstance(e.alpha, str):
        if e.alpha not in ("laplace", "log"):
            raise ValueError(f"alpha must be 'laplace', 'log' or a number, got {e.alpha!r}")
    elif not (isinstance(e.alpha, int | float | np.floating | np.integer) and 0 <= e.alpha <= LARGEST):
        raise ValueError(f"alpha must be 'laplace', 'log' or a number between 0 and {LARGEST:.3g}, got {e.alpha!r}")
    if e.unlabelled is not None and (e.loss != "nll" or e.class_weight is not None):
        raise ValueError("unlabelled documents need loss='nll', and no class_weight")
    _keeps_inside(e, "alpha")


def _keeps_inside(estimator: Any, name: str) -> None:
    if getattr(estimator, name) == 0 and estimator.loss != "nll":
        raise ValueError(f"{name} must be positive for a discriminative loss: the prior keeps mu off the boundary of S")


def not_negative(estimator: Any, *names: str) -> None:
    """Check parameters that are finite numbers from 0 on."""
    for name in names:
        value = getattr(estimator, name)
        if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
            raise ValueError(f"{name} must be a finite number that is not negative, got {value!r}")


def positive_integers(estimator: Any, *names: str) -> None:
    """Check parameters that are positive integers, or None but for ``n_epochs``."""
    for name in names:
        value = getattr(estimator, name)
        optional = name != "n_epochs"
        if not (optional and value is None) and not (isinstance(value, int | np.integer) and value >= 1):
            raise ValueError(f"{name} must be a positive integer{' or None' if optional else ''}, got {value!r}")


def pseudo_count(alpha: str | float, n_features: int) -> float:
    """Return alpha as a number: "laplace" is 1 (P1), "log" ln |W| (P2).

    0 becomes 1e-10, as with scikit-learn's ``force_alpha=False``.
    """
    if alpha == "laplace":
        return 1.0
    if alpha == "log":
        return float(np.log(max(n_features, 2)))
    return max(float(alpha), 1e-10)


def learner(estimator: Any, source: Source, n_documents: float | None = None) -> Any:
    """Return the learner of an estimator for a training source.

    Parameters
    ----------
    n_documents : float, optional
        n of the paper; None: the source's documents by weight.
    """
    e = estimator
    check(e)
    n_classes = len(source.classes)
    seed = seed_of(e.random_state)
    plan_ = plan(e, source.n_documents, seed)
    model = NaiveBayes(
        source.n_features, n_classes, pseudo_count(e.alpha, source.n_features), log_prior=fixed_log_prior(e, n_classes)
    )
    shared: dict[str, Any] = {
        "model": model,
        "n_documents": source.weight if n_documents is None else n_documents,
        "class_weight": class_weights(e.class_weight, source),
        "seed": seed,
    }
    if e.loss == "nll" and e.unlabelled is None:
        return WordEm(**shared)
    if e.loss == "nll":
        return WordEm(**shared, rule="maximise", unlabelled_weight=float(e.unlabelled_weight))
    schedule = schedule_of(e, n_classes, source.weighted, exact=plan_.n_lanes == plan_.n_rounds == 1)
    return Sdem(**shared, loss=e.loss, merge=e.merge, schedule=schedule)


def schedule_of(e: Any, n_classes: int, weighted: bool, exact: bool = False) -> PaperSchedule:
    """Return the steps that parameters ask for."""
    absence = absence_of(e.absence, n_classes, weighted)
    return PaperSchedule(float(e.step_decay), float(e.prior_scale), float(e.tolerance), absence, exact)


def absence_of(absence: str | float, n_classes: int, weighted: bool) -> float:
    """Return `absence` as a number, chosen by the number of classes for "auto"."""
    if absence == "auto":
        return min(1.0, ABSENCE_CLASSES["weights" if weighted else "counts"] / n_classes)
    return float(absence)


def fixed_log_prior(estimator: Any, n_classes: int) -> tuple[float, ...] | None:
    """Return ln p(y) from `class_prior` and `fit_prior`; None if it is to be learnt."""
    if estimator.class_prior is not None:
        return log_shares(estimator.class_prior, n_classes)
    if not estimator.fit_prior:
        return (-float(np.log(n_classes)),) * n_classes
    return None


def log_shares(class_prior: Any, n_classes: int) -> tuple[float, ...]:
    """Return the logarithms of a class prior.

    Raises
    ------
    ValueError
        It has not a number for each class, or one that is negative or not finite, or they do not sum to 1.
    """
    prior = np.asarray(class_prior, np.float64)
    if prior.shape != (n_classes,):
        raise ValueError(f"Number of priors must match number of classes: {prior.size} for {n_classes}")
    if not (np.isfinite(prior).all() and (prior >= 0).all()):
        raise ValueError(f"class_prior must be made of finite numbers, none negative, got {prior.tolist()}")
    if not np.isclose(prior.sum(), 1.0):
        raise ValueError(f"The sum of the priors should be 1, and is {prior.sum():.6g}: {prior.tolist()}")
    with np.errstate(divide="ignore"):
        return tuple(np.log(prior).tolist())


def class_weights(class_weight: Any, source: Source) -> tuple[float, ...] | None:
    """Return the weights of the classes' documents, as scikit-learn understands `class_weight`."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f"class_weight must be a dict, 'balanced' or None, got {class_weight!r}")
        counts = np.asarray(source.class_counts, np.float64)
        return tuple((counts.sum() / (len(counts) * np.maximum(counts, 1.0))).tolist())
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be a dict, 'balanced' or None, got {class_weight!r}")
    if not all(np.isfinite(w) and w >= 0 for w in class_weight.values()):
        raise ValueError(f"class_weight must be made of finite numbers, none negative, got {class_weight!r}")
    unknown = set(class_weight) - set(source.classes.tolist())
    if unknown:
        raise ValueError(f"class_weight names classes that are not there: {sorted(unknown, key=str)}")
    return tuple(float(class_weight.get(c, 1.0)) for c in source.classes.tolist())
