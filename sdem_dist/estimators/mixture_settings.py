"""From the parameters of mixtures to components, plans and learners."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.engine.plan import Plan
from sdem_dist.estimators.settings import default_lanes, default_rounds, positive_integers, seed_of
from sdem_dist.losses import NAMED

if TYPE_CHECKING:
    from sdem_dist.estimators.inputs import Source

PASS_DOCUMENTS = 4096
"""Documents that make a lane of a full pass worth its overhead."""
LANES = 128
EPOCHS = {"multiplicative": 200, "em": 64, "sdem": 60, "multinomial": 15}
"""Default epochs by training, sdEM of multinomials apart."""
TRAININGS = ("multiplicative", "em", "sdem")
COMPONENTS = ("gaussian", "exponential", "multinomial")
_MULTIPLICATIVE, _EM, _SDEM = TRAININGS
_ONLY: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # parameter: trainings, and kinds of components, in which it means something
    "shared": ((_MULTIPLICATIVE,), COMPONENTS),
    "init": ((_MULTIPLICATIVE,), COMPONENTS),
    "scaling": ((_MULTIPLICATIVE,), COMPONENTS),
    "expand": ((_MULTIPLICATIVE,), COMPONENTS),
    "schedule": ((_MULTIPLICATIVE,), COMPONENTS),
    "accelerate": ((_MULTIPLICATIVE,), COMPONENTS),
    "dtype": ((_MULTIPLICATIVE,), COMPONENTS),
    "components": ((_EM, _SDEM), COMPONENTS),
    "loss": ((_SDEM,), COMPONENTS),
    "n_em_epochs": ((_SDEM,), COMPONENTS),
    "assignment": ((_EM,), ("gaussian", "exponential")),
    "em_step": ((_EM,), ("gaussian", "exponential")),
    "prior": ((_EM, _SDEM), ("gaussian", "exponential")),
    "offset": ((_EM, _SDEM), ("exponential",)),
    "alpha": ((_EM, _SDEM), ("multinomial",)),
    "absence": ((_SDEM,), ("multinomial",)),
}


def check(estimator: Any) -> None:
    """Check the parameters of a `MixtureClassifier`.

    Raises
    ------
    ValueError
        The name of the parameter, what it was and what it may be, or that it means nothing in this training.
    """
    e = estimator
    choices = {
        "training": TRAININGS,
        "components": COMPONENTS,
        "init": ("examples", "em"),
        "scaling": ("rows", None),
        "schedule": ("joint", "alternate"),
        "dtype": ("float64", "float32"),
        "loss": tuple(NAMED),
        "assignment": ("soft", "hard"),
    }
    for name, allowed in choices.items():
        if getattr(e, name) not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, got {getattr(e, name)!r}")
    defaults = signature(type(e).__init__).parameters
    for name, (trainings, kinds) in _ONLY.items():
        meant = e.training in trainings and (e.training == _MULTIPLICATIVE or e.components in kinds)
        if not meant and getattr(e, name) != defaults[name].default:
            raise ValueError(
                f"{name} means nothing with training={e.training!r} and components={e.components!r}: leave it at "
                f"{defaults[name].default!r}"
            )
    for name in ("n_epochs", "n_em_epochs", "patience", "n_jobs"):
        positive_integers_or_none(e, name)
    for name in ("prior", "alpha"):
        if not (isinstance(getattr(e, name), Real) and 0 < float(getattr(e, name)) < np.inf):
            raise ValueError(f"{name} must be a positive number, got {getattr(e, name)!r}")
    if not (isinstance(e.offset, Real) and 0 <= float(e.offset) < np.inf):
        raise ValueError(f"offset must be a finite number that is not negative, got {e.offset!r}")
    if not (isinstance(e.em_step, Real) and 0 < float(e.em_step) <= 1):
        raise ValueError(f"em_step must be above 0 and at most 1, got {e.em_step!r}")
    if e.absence != "auto" and not (isinstance(e.absence, int | float) and 0 <= e.absence <= 1):
        raise ValueError(f"absence must be 'auto' or a number between 0 and 1, got {e.absence!r}")
    if not (isinstance(e.evaluate_every, int | np.integer) and e.evaluate_every >= 0):
        raise ValueError(f"evaluate_every must be an integer that is not negative, got {e.evaluate_every!r}")
    if e.shared and not isinstance(e.n_components, int | np.integer):
        raise ValueError(f"shared components are one number, got n_components={e.n_components!r}")
    if e.init == "em" and e.shared:
        raise ValueError("init='em' fits components to classes: it needs shared=False")


def positive_integers_or_none(estimator: Any, name: str) -> None:
    """Check a parameter that is a positive integer or None."""
    if getattr(estimator, name) is not None:
        positive_integers(estimator, name)


def components_of(n_components: Any, classes: np.ndarray) -> tuple[int, ...]:
    """Return the number of components of each class.

    Raises
    ------
    ValueError
        They are not one positive integer, one for each class, or a dict from class to one.
    """
    if isinstance(n_components, Mapping):
        odd = set(n_components) ^ set(classes.tolist())
        if odd:
            raise ValueError(f"n_components names other classes than there are: {sorted(odd, key=str)}")
        numbers = [n_components[c] for c in classes.tolist()]
    elif isinstance(n_components, int | np.integer):
        numbers = [n_components] * len(classes)
    else:
        numbers = list(n_components) if np.iterable(n_components) else []
    right = len(numbers) == len(classes) and all(isinstance(n, int | np.integer) and n >= 1 for n in numbers)
    if not right:
        raise ValueError(f"n_components must be a positive integer, or one for each class, got {n_components!r}")
    return tuple(int(n) for n in numbers)


def owners_of(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return the class of each component."""
    return tuple(np.repeat(np.arange(len(numbers)), numbers).tolist())


def epochs(estimator: Any) -> int:
    """Return the epochs of a run."""
    e = estimator
    kind = "multinomial" if e.training == _SDEM and e.components == "multinomial" else e.training
    return int(e.n_epochs or EPOCHS[kind])


def full_passes(estimator: Any, source: Source, n_epochs: int) -> Plan:
    """Return the plan of so many passes over all documents."""
    lanes = max(1, min(LANES, source.n_documents // PASS_DOCUMENTS))
    return Plan(source.n_documents, n_epochs, 1, lanes, seed_of(estimator.random_state))


def sequential_lanes(estimator: Any, source: Source, n_epochs: int) -> Plan:
    """Return the plan of sdEM over counts: lanes and rounds as naive Bayes has them."""
    rounds = default_rounds(source.n_documents)
    lanes = default_lanes(source.n_documents, rounds)
    return Plan(source.n_documents, n_epochs, rounds, lanes, seed_of(estimator.random_state))
