"""Parameters of estimators as dataclass fields (default, constraint, meaning), and those that several have."""

import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from inspect import get_annotations
from numbers import Integral, Real
from types import FunctionType
from typing import ClassVar, NamedTuple, TypeVar, cast, dataclass_transform

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.engine.plan import Plan
from sdem_dist.fitting import defaults, plans
from sdem_dist.models.mixture import COOLING, FORMS, EmForm
from sdem_dist.text.vectorizer import VectorizerSettings

_Class = TypeVar("_Class", bound=type)
_Value = TypeVar("_Value")
_CONSTRAINT, _MEANING = "constraint", "meaning"


class Constraint(NamedTuple):
    """What values a parameter may have."""

    kind: str
    """For the docstring, as numpydoc writes it: "int", "float or None"."""
    words: str
    """For messages: "a positive integer"."""
    allows: Callable[[object], bool]


def one_of(*values: object) -> Constraint:
    choices = ", ".join(f'"{v}"' if isinstance(v, str) else str(v) for v in values)
    return Constraint(f"{{{choices}}}", f"one of {values}", lambda v: any(v is a or _equal(v, a) for a in values))


def integer(least: int = 1, *, optional: bool = False) -> Constraint:
    """Allow integers from `least` on, or None."""
    words = {0: "an integer that is not negative", 1: "a positive integer"}.get(least, f"an integer from {least} on")
    constraint = Constraint("int", words, lambda v: _is(v, Integral) and bool(cast(int, v) >= least))
    return or_none(constraint) if optional else constraint


def real(low: float = 0.0, high: float = np.inf, *, above: bool = False) -> Constraint:
    """Allow finite numbers from `low` (with `above`: above it) up to `high`."""
    if high < np.inf:
        words = f"a number {f'above {low:g} and at most' if above else f'between {low:g} and'} {high:.3g}"
    elif low == -np.inf:
        words = "a finite number"
    elif low == 0.0:
        words = "a positive number" if above else "a finite number that is not negative"
    else:
        words = f"a finite number {'above' if above else 'from'} {low:g}{'' if above else ' on'}"

    def allows(value: object) -> bool:
        if not _is(value, Real) or not np.isfinite(number := float(cast(float, value))):
            return False
        return (number > low if above else number >= low) and number <= high

    return Constraint("float", words, allows)


def numbers() -> Constraint:

    def allows(value: object) -> bool:
        if not isinstance(value, list | tuple | np.ndarray) or getattr(value, "ndim", 1) != 1:
            return False
        return len(value) > 0 and all(_is(v, Real) and 0.0 < float(cast(float, v)) < np.inf for v in value)

    return Constraint("sequence of float", "a sequence of positive numbers", allows)


def a_loss() -> Constraint:
    """Allow objects with the methods of `sdem_dist.losses.Loss`."""
    return Constraint("Loss", "a loss", lambda v: hasattr(v, "value") and hasattr(v, "weights"))


def truth() -> Constraint:
    return Constraint("bool", "True or False", lambda v: isinstance(v, bool | np.bool_))


def or_none(constraint: Constraint) -> Constraint:
    return Constraint(constraint.kind, f"{constraint.words} or None", lambda v: v is None or constraint.allows(v))


def either(first: Constraint, second: Constraint) -> Constraint:
    return Constraint(
        f"{first.kind} or {second.kind}",
        f"{first.words} or {second.words}",
        lambda v: first.allows(v) or second.allows(v),
    )


def checked_later(kind: str) -> Constraint:
    """Allow everything: what the value may be depends on the documents, and is checked with them."""
    return Constraint(kind, kind, lambda v: True)


def param(default: _Value, constraint: Constraint, meaning: str, *, positional: bool = False) -> _Value:
    """Declare a parameter.

    `meaning`: for the docstring of the class: whole sentences. `positional`: it may be passed without its name.
    """
    declared: _Value = field(
        default=default, kw_only=not positional, metadata={_CONSTRAINT: constraint, _MEANING: meaning}
    )
    return declared


@dataclass_transform(field_specifiers=(param,), eq_default=False)
def estimator(cls: _Class) -> _Class:
    """Make the constructor of a class whose parameters `param` declares, and two sections of an estimator's docstring.

    They stand before the references and the examples: the parameters, and what fitting adds. The latter are properties,
    with their docstrings, and what the class and its bases say in `_learned`.
    """
    decorated: _Class = cast(_Class, dataclass(eq=False, repr=False)(cls))
    if hasattr(decorated, "spec"):
        text, heading, rest = re.split(r"(    References\n|    Examples\n|$)", decorated.__doc__ or "", maxsplit=1)
        lines = [
            "Parameters",
            "----------",
            *_parameters(decorated),
            "",
            "Attributes",
            "----------",
            *_attributes(decorated),
        ]
        sections = "".join(f"    {line}\n" if line else "\n" for line in lines)
        decorated.__doc__ = f"{text.rstrip()}\n\n{sections}\n{heading}{rest}"
    return decorated


def check(estimator: object) -> None:
    """Check every parameter of an estimator against its constraint.

    Raises ValueError: the name of the parameter, what it was and what it may be.
    """
    for declared in fields(estimator):  # type: ignore[arg-type]
        constraint: Constraint = declared.metadata[_CONSTRAINT]
        value = getattr(estimator, declared.name)
        if not constraint.allows(value):
            raise ValueError(f"{declared.name} must be {constraint.words}, got {value!r}")


def _parameters(cls: type) -> list[str]:
    """Return the parameters' lines ordered for people: positional ones, then a class's own before those it inherits."""
    declared_fields = {declared.name: declared for declared in fields(cls)}
    own_first = [
        declared_fields.pop(name) for base in cls.__mro__ for name in get_annotations(base) if name in declared_fields
    ]
    in_order = sorted(own_first, key=lambda declared: bool(declared.kw_only))
    return [line for declared in in_order for line in _entry(declared)]


def _attributes(cls: type) -> list[str]:
    """Return the lines of what fitting adds, a class's own before what it inherits."""
    entries: dict[str, list[str]] = {}
    for base in cls.__mro__:
        described: dict[str, str] = dict(vars(base).get("_learned", {}))
        for name, value in vars(base).items():
            if isinstance(value, property) and name.endswith("_") and base.__module__.startswith("sdem_dist."):
                kind = str(get_annotations(cast(FunctionType, value.fget))["return"]).removeprefix("np.")
                described[name] = f"{kind}\n{value.__doc__}"
        for name, text in described.items():
            kind, *meaning = text.splitlines()
            entries.setdefault(name, [f"{name} : {kind}", *(f"    {line}" for line in meaning)])
    return [line for lines in entries.values() for line in lines]


def _entry(declared: Field[object]) -> list[str]:
    """Return a parameter's lines in a numpydoc section."""
    default = f'"{declared.default}"' if isinstance(declared.default, str) else declared.default
    head = f"{declared.name} : {declared.metadata[_CONSTRAINT].kind}, default={default}"
    return [head, *(f"    {line}" for line in declared.metadata[_MEANING].splitlines())]


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _equal(value: object, allowed: object) -> bool:
    return type(value) is type(allowed) and value == allowed


CLASS_WEIGHT = checked_later('dict, "balanced" or None')
EVALUATE_EVERY = (
    integer(0),
    "Record metrics whenever this many epochs have passed, and after the last; 0: of `validation` documents alone, after each.",
)


STEP_DECAY = (1e-5, real(), "lambda: after t documents a step is ``rho_0 / (1 + step_decay * t)``.")


@estimator
class Running:
    """How a fit is run and watched."""

    evaluate_every: int = param(1, *EVALUATE_EVERY)
    n_jobs: int | None = param(
        None, integer(optional=True), "Threads where there is no client; None: all cores. No bit depends on it."
    )
    verbose: bool | int = param(
        False, either(truth(), integer(0)), "Show progress on standard error; a number as scikit-learn has it."
    )


@estimator
class Seeded(Running):
    """A fit that may stop early, and whose random numbers have a seed."""

    patience: int | None = param(
        None,
        integer(optional=True),
        "Stop after this many evaluations without a new best on `validation`; keep the best.",
    )
    random_state: object = param(
        0,
        checked_later("int, RandomState instance or None"),
        "Seed of every random choice, such as the order of documents.",
    )


@estimator
class Classes:
    """The classes' prior and weights."""

    class_prior: object = param(None, checked_later("array-like of shape (n_classes,)"), "A fixed class prior.")
    fit_prior: bool = param(True, truth(), "Learn the class prior; False takes a uniform one.")
    class_weight: object = param(None, CLASS_WEIGHT, "Weights of the classes' documents, as in scikit-learn.")


@estimator
class OfText:
    """Documents that may be raw text."""

    _learned: ClassVar[Mapping[str, str]] = {
        "vocabulary_": "list of str or None\nThe words, where the training corpus names them.",
        "vectorizer_": "dict or None\n"
        "How the training corpus turned text into counts, so that the model predicts on raw text.",
        "label_separator_": "str or None\n"
        "What stood between the labels of a document in the training corpus's sources, where it may have several.",
    }

    vectorizer: VectorizerSettings | None = param(
        None,
        Constraint(
            "VectorizerSettings or None",
            "a sdem_dist.text.VectorizerSettings or None",
            lambda v: v is None or isinstance(v, VectorizerSettings),
        ),
        "How raw text becomes counts, where `fit` is given texts; see `sdem_dist.text.VectorizerSettings`. None: words,\n"
        "in lower case, as scikit-learn's ``CountVectorizer`` has them.",
    )


@estimator
class Hidden:
    """Documents in memory whose class is not known."""

    unlabelled: object = param(
        None,
        checked_later("label"),
        "The label, such as -1, of documents whose class is hidden. Once it is set, None and NaN are such labels, too.",
    )


@estimator
class Unlabelled(Hidden):
    """How much such documents count."""

    unlabelled_weight: float = param(1.0, real(), "Weight of each of them; they count through ``-ln p(x)``.")


@estimator
class Lanes:
    """How documents are shared out to lanes, and what these learn is merged."""

    n_lanes: int | None = param(
        None, integer(optional=True), "Lanes of a round. None: by the number of documents, never by the cluster."
    )
    rounds_per_epoch: int | None = param(
        None,
        integer(optional=True),
        'Merges per epoch, for "mean"; the first epoch has some short ones besides. None: 4, with one lane 1.',
    )
    merge: str = param(
        "mean",
        one_of("mean", "sum"),
        '"mean": lanes run sdEM side by side, and what they learned is merged. "sum": a round is one step, with the statistics\n'
        "of all its documents at one theta.",
    )
    batch_size: int | None = param(None, integer(optional=True), 'Documents of a round for ``merge="sum"``. None: 128.')


@estimator
class Steps(Lanes):
    """How far steps over counts go."""

    steps: str = param(
        "margin",
        one_of("margin", "paper"),
        '"margin": rho_0 is such that a first step moves a mean document\'s label against a rival by `step`, by twice that\n'
        'with the hinge loss. "paper": rho_0 = 1, and the prior\'s running correction (Masegosa 2014, section 4.1). Both fall\n'
        "with the documents seen, see `step_decay`.",
    )
    step: float | None = param(
        None,
        or_none(real(above=True)),
        'c, for "margin". None: 0.2 with the hinge loss, 1 with "ncll"; 3 where documents are counts that keep their length.',
    )


def check_merge(lanes: Lanes) -> None:
    """Raise ValueError where settings belong to another merge."""
    if lanes.merge == "mean" and lanes.batch_size is not None:
        raise ValueError("batch_size is for merge='sum': leave it at None, or set rounds_per_epoch")
    if lanes.merge == "sum" and lanes.rounds_per_epoch is not None:
        raise ValueError("with merge='sum' batch_size sets the rounds of an epoch: leave rounds_per_epoch at None")


def check_steps(steps: Steps, closed_form: bool = False) -> None:
    """Raise ValueError where settings of steps mean nothing; with `closed_form` there are no steps."""
    check_merge(steps)
    if steps.steps == "paper" and steps.step is not None:
        raise ValueError("step is for steps='margin': the paper's steps start at 1. Leave step at None")
    if steps.steps == "paper" and closed_form:
        raise ValueError("loss='nll' is fitted in closed form, without the paper's steps: leave steps at 'margin'")


OF_STEPS = (
    "n_epochs",
    "step",
    "step_decay",
    "merge",
    "rounds_per_epoch",
    "calibrate",
    "validation_fraction",
    "patience",
)
"""Parameters that mean nothing where a loss is fitted in closed form."""


def unused_steps(estimator: object) -> tuple[str, ...]:
    """Return a warning where parameters of steps were set, and the fit is in closed form."""
    defaults = {declared.name: declared.default for declared in fields(estimator)}  # type: ignore[arg-type]
    changed = [
        f"{name}={value!r}" for name in OF_STEPS if (value := getattr(estimator, name, None)) != defaults.get(name)
    ]
    return (f"loss='nll' is fitted in closed form, and has no use for {', '.join(changed)}",) if changed else ()


def plan_of(lanes: Lanes, n_documents: int, n_epochs: int, seed: int) -> Plan:
    """Return the plan of a run of a discriminative loss."""
    if lanes.merge == "sum":
        return plans.batches(n_documents, n_epochs, seed, lanes.batch_size or defaults.SUM_BATCH, lanes.n_lanes)
    return plans.sequential(n_documents, n_epochs, seed, lanes.n_lanes, lanes.rounds_per_epoch)


def short_lanes(plan: Plan) -> tuple[str, ...]:
    """Return a warning where lanes of weighted documents are so short that they may lose accuracy."""
    of_a_lane = plan.n_documents // (plan.n_lanes * plan.n_rounds)
    if plan.n_lanes == 1 or of_a_lane >= defaults.SHORT_LANE:
        return ()
    length = counted(of_a_lane, "document") if of_a_lane else "at most one document"
    problem = f"n_lanes={plan.n_lanes:,} leaves {length} to a lane in a round"
    fewer = "may lose accuracy: leave n_lanes at None, or take fewer"
    return (f"{problem}. Lanes of fewer than {defaults.SHORT_LANE} {fewer}",)


@estimator
class EmSettings:
    """The form of EM."""

    em: str = param(
        "soft",
        one_of(*FORMS),
        'How components are assigned. "soft": by their posterior, exact EM. "hard": to the most probable, classification\n'
        'EM. "stochastic": to one drawn from the posterior. "generalised": each M-step goes only part of the way.\n'
        '"online": mini-batches, stepwise EM. "variational": parameters have posteriors too.',
    )
    em_step: float | None = param(
        None,
        or_none(real(0, 1, above=True)),
        f'Of "generalised": the share of the way. None: {defaults.GENERALISED_EM_STEP}.',
    )
    batch_size: int | None = param(
        None, integer(optional=True), f'Of "online": documents of a step. None: {defaults.ONLINE_EM_BATCH:,}.'
    )
    annealing: float = param(
        1.0,
        real(1),
        "Deterministic annealing: the temperature of the first epoch. Posteriors are raised to one over it, and it is\n"
        f"multiplied by {COOLING} an epoch until it is 1. 1: no annealing.",
    )


def check_em(settings: EmSettings) -> None:
    """Raise ValueError where a setting belongs to another form."""
    for name, kind in (("em_step", "generalised"), ("batch_size", "online")):
        if getattr(settings, name) is not None and settings.em != kind:
            raise ValueError(f"{name} means nothing with em={settings.em!r}: leave it at None, or set em={kind!r}")
    if settings.annealing > 1 and settings.em == "hard":
        raise ValueError("annealing means nothing with em='hard', which has no posteriors: leave it at 1")


def em_form(settings: EmSettings) -> EmForm:
    step = float(settings.em_step or defaults.GENERALISED_EM_STEP) if settings.em == "generalised" else 1.0
    return EmForm(settings.em, step, float(settings.annealing))


def em_plan(settings: EmSettings, plan: Plan) -> Plan:
    """Return the plan of EM: a round is a pass over all documents, or a batch."""
    if settings.em != "online":
        return plan
    return replace(
        plan, n_rounds=max(1, -(-plan.n_documents // (settings.batch_size or defaults.ONLINE_EM_BATCH))), n_lanes=1
    )
