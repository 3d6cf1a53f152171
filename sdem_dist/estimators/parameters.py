"""Parameters of estimators as dataclass fields (default, constraint, meaning), and those that several have."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from inspect import cleandoc, get_annotations
from numbers import Integral, Real
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, TypeVar, cast, dataclass_transform

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.engine.plan import Plan
from sdem_dist.fitting import defaults, plans
from sdem_dist.models.em import COOLING, FORMS, EmForm
from sdem_dist.text.vectorizer import VectorizerSettings

_Class = TypeVar("_Class", bound=type)
_Value = TypeVar("_Value")
_Method = TypeVar("_Method", bound=Callable[..., Any])


class Constraint(NamedTuple):
    """What values a parameter may have."""

    kind: str  # for the docstring, as numpydoc writes it: "int", "float or str"
    words: str  # for messages: "a positive integer"
    allows: Callable[[object], bool]


def one_of(*values: object) -> Constraint:
    choices = ", ".join(f'"{v}"' if isinstance(v, str) else str(v) for v in values)
    return Constraint(
        f"{{{choices}}}", f"one of {values}", lambda v: any(type(v) is type(a) and bool(v == a) for a in values)
    )


def integer(least: int = 1, *, optional: bool = False) -> Constraint:
    """Allow integers from `least` on, or None."""
    words = {0: "an integer that is not negative", 1: "a positive integer"}.get(least, f"an integer from {least} on")
    constraint = Constraint("int", words, lambda v: _is_number(v, Integral) and bool(cast(int, v) >= least))
    return or_none(constraint) if optional else constraint


def real(low: float = 0.0, high: float = np.inf, *, above: bool = False) -> Constraint:
    """Allow finite numbers from `low` (with `above`: above it) up to `high`."""
    if high < np.inf:
        words = f"a number {f'above {low:g} and at most' if above else f'between {low:g} and'} {high:.3g}"
    elif low == -np.inf:
        words = "a finite number"
    else:
        words = f"a finite number {'above' if above else 'from'} {low:g}{'' if above else ' on'}"

    def allows(value: object) -> bool:
        if not _is_number(value, Real) or not np.isfinite(number := float(cast(float, value))):
            return False
        return (number > low if above else number >= low) and number <= high

    return Constraint("float", words, allows)


def _is_number(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def truth() -> Constraint:
    return Constraint("bool", "True or False", lambda v: isinstance(v, bool | np.bool_))


def a_loss(*names: str) -> Constraint:
    """Allow these names, and objects with the methods of `sdem_dist.losses.Loss`."""
    return either(one_of(*names), Constraint("Loss", "a loss", lambda v: hasattr(v, "value") and hasattr(v, "weights")))


def or_none(constraint: Constraint) -> Constraint:
    return Constraint(constraint.kind, f"{constraint.words} or None", lambda v: v is None or constraint.allows(v))


def either(*constraints: Constraint) -> Constraint:
    kinds, words, _ = zip(*constraints, strict=True)
    return Constraint(" or ".join(kinds), " or ".join(words), lambda v: any(one.allows(v) for one in constraints))


def checked_later(kind: str) -> Constraint:
    """Allow everything: what the value may be depends on the documents, and is checked with them."""
    return Constraint(kind, kind, lambda v: True)


def param(default: _Value, constraint: Constraint, meaning: str, *, positional: bool = False) -> _Value:
    """Declare a parameter.

    `meaning`: for the docstring of the class: whole sentences. `positional`: it may be passed without its name.
    """
    declared: _Value = field(
        default=default, kw_only=not positional, metadata={"constraint": constraint, "meaning": meaning}
    )
    return declared


@dataclass_transform(field_specifiers=(param,), eq_default=False)
def estimator(cls: _Class) -> _Class:
    """Make the constructor of a class whose parameters `param` declares, and two sections of an estimator's docstring.

    They stand before the references and the examples: the parameters, positional ones first, and what fitting adds. The
    latter are properties, with their docstrings, and what the class and its bases say in `_learned`. In both a class's
    own come before what it inherits.
    """
    decorated: _Class = cast(_Class, dataclass(eq=False, repr=False)(cls))
    if not hasattr(decorated, "spec"):
        return decorated
    declared_fields, parameters = {declared.name: declared for declared in fields(decorated)}, []
    attributes: dict[str, str] = {}
    for base in decorated.__mro__:
        parameters += [declared_fields.pop(name) for name in get_annotations(base) if name in declared_fields]
        described: dict[str, str] = dict(vars(base).get("_learned", {}))
        for name, value in vars(base).items():
            if isinstance(value, property) and name.endswith("_") and base.__module__.startswith("sdem_dist."):
                kind = str(get_annotations(cast(FunctionType, value.fget))["return"]).removeprefix("np.")
                described[name] = f"{kind}\n{value.__doc__}"
        attributes |= {name: text for name, text in described.items() if name not in attributes}
    lines = ["Parameters", "----------"]
    for declared in sorted(parameters, key=lambda declared: bool(declared.kw_only)):
        default = f'"{declared.default}"' if isinstance(declared.default, str) else declared.default
        lines.append(f"{declared.name} : {declared.metadata['constraint'].kind}, default={default}")
        lines += [f"    {line}" for line in declared.metadata["meaning"].splitlines()]
    lines += ["", "Attributes", "----------"]
    for name, text in attributes.items():
        kind, *meaning = text.splitlines()
        lines += [f"{name} : {kind}", *(f"    {line}" for line in meaning)]
    text, heading, rest = re.split(r"(    References\n|    Examples\n|$)", decorated.__doc__ or "", maxsplit=1)
    sections = "".join(f"    {line}\n" if line else "\n" for line in lines)
    decorated.__doc__ = f"{text.rstrip()}\n\n{sections}\n{heading}{rest}"
    return decorated


ARGUMENTS = {
    "X": "X : {array-like, sparse matrix} of shape (n_samples, n_features), texts, or Corpus",
    "collection": (
        "X : {array-like, sparse matrix, dask array or DataFrame} of shape (n_samples, n_features), texts, or Corpus\n"
        "    For a Dask collection the result is one too, computed block by block, with the index of a DataFrame. A\n"
        "    corpus is read piece by piece; rows come in its order, see `sdem_dist.corpus.Corpus.ids`."
    ),
    "y": (
        "y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None\n"
        "    Labels or targets; None with a corpus, which has its own. Clusterers and topic models do without."
    ),
    "sample_weight": "sample_weight : array-like of shape (n_samples,), default=None",
    "client": (
        "client : distributed.Client, default=None\n"
        "    Its workers read a corpus and score it; the result is gathered here."
    ),
}
"""What methods of many estimators take, as numpydoc writes it."""


def takes(*names: str) -> Callable[[_Method], _Method]:
    """Add arguments of that name to the docstring of a method, the first of its parameters."""

    def documented(method: _Method) -> _Method:
        text, heading = cleandoc(method.__doc__ or ""), "Parameters\n----------\n"
        if heading not in text:
            text = re.sub(r"\n(?=Returns\n-)|$", f"\n{heading}\n", text, count=1)
        arguments = "".join(f"{ARGUMENTS[name]}\n" for name in names)
        method.__doc__ = text.replace(heading, heading + arguments)
        return method

    return documented


def check(estimator: object) -> None:
    """Check every parameter of an estimator against its constraint.

    Raises ValueError: the name of the parameter, what it was and what it may be.
    """
    for declared in fields(estimator):  # type: ignore[arg-type]
        constraint: Constraint = declared.metadata["constraint"]
        value = getattr(estimator, declared.name)
        if not constraint.allows(value):
            raise ValueError(f"{declared.name} must be {constraint.words}, got {value!r}")


# Declarations that several classes repeat: a constraint and a meaning.
N_EPOCHS = integer(), "Passes over the documents."
AUTO_EPOCHS = (
    either(one_of("auto"), integer()),
    'Passes over the documents. "auto": held-out documents choose, 20 at most.',
)
N_LANES = integer(optional=True), "Lanes of a round. None: by the number of documents, never by the cluster."
CLASS_WEIGHT = checked_later('dict, "balanced" or None'), "Weights of the classes; relative but for loss='nll'."
STEP_DECAY = real(), "lambda: after t documents a step is ``rho_0 / (1 + step_decay * t)``."
EVALUATE_EVERY = (
    integer(0),
    "Record metrics whenever this many epochs have passed, and after the last; 0: of `validation` documents alone, after each.",
)
UNLABELLED = (
    checked_later("label"),
    "The label, such as -1, of documents whose class is hidden. Once it is set, None and NaN are such labels, too.",
)
STEPS = (
    one_of("margin", "paper"),
    (
        '"margin": rho_0 is such that a first step moves a mean document\'s label against a rival by `step`, by twice that\n'
        'with the hinge loss. "paper": rho_0 = 1, and the prior\'s running correction (Masegosa 2014, section 4.1). Both fall\n'
        "with the documents seen, see `step_decay`."
    ),
)


@estimator
class Seeded:
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
    class_weight: object = param(None, *CLASS_WEIGHT)


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
class Unlabelled:
    """Documents in memory whose class is not known, and how much they count."""

    unlabelled: object = param(None, *UNLABELLED)
    unlabelled_weight: float = param(1.0, real(), "Weight of each of them; they count through ``-ln p(x)``.")


@estimator
class Lanes:
    """How documents are shared out to lanes, and what these learn is merged."""

    n_lanes: int | None = param(None, *N_LANES)
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

    def _check_steps(self, closed_form: bool = False) -> None:
        """Raise ValueError where settings of lanes or steps mean nothing; with `closed_form` there are no steps."""
        if self.merge == "mean" and self.batch_size is not None:
            raise ValueError("batch_size is for merge='sum': leave it at None, or set rounds_per_epoch")
        if self.merge == "sum" and self.rounds_per_epoch is not None:
            raise ValueError("with merge='sum' batch_size sets the rounds of an epoch: leave rounds_per_epoch at None")
        if getattr(self, "steps", "margin") == "paper" and getattr(self, "step", None) is not None:
            raise ValueError("step is for steps='margin': the paper's steps start at 1. Leave step at None")
        if getattr(self, "steps", "margin") == "paper" and closed_form:
            raise ValueError("loss='nll' is fitted in closed form, without the paper's steps: leave steps at 'margin'")

    def _plan_of_steps(self, n_documents: int, n_epochs: int, seed: int) -> Plan:
        """Return the plan of a run of a discriminative loss."""
        if self.merge == "sum":
            return plans.batches(n_documents, n_epochs, seed, self.batch_size or defaults.SUM_BATCH, self.n_lanes)
        return plans.sequential(n_documents, n_epochs, seed, self.n_lanes, self.rounds_per_epoch)


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


def unused_steps(estimator: object, names: Collection[str] = OF_STEPS) -> tuple[str, ...]:
    """Return a warning where parameters of steps were set, and the NLL is minimised without such steps."""
    changed = [
        f"{declared.name}={value!r}"
        for declared in fields(estimator)  # type: ignore[arg-type]
        if declared.name in names and (value := getattr(estimator, declared.name)) != declared.default
    ]
    return (f"loss='nll' has no use for {', '.join(changed)}",) if changed else ()


def short_lanes(plan: Plan) -> tuple[str, ...]:
    """Return a warning where lanes of weighted documents are so short that they may lose accuracy."""
    of_a_lane = plan.n_documents // (plan.n_lanes * plan.n_rounds)
    if plan.n_lanes == 1 or of_a_lane >= defaults.SHORT_LANE:
        return ()
    length = counted(of_a_lane, "document") if of_a_lane else "at most one document"
    message = (
        f"n_lanes={plan.n_lanes:,} leaves {length} to a lane in a round. Lanes of fewer than {defaults.SHORT_LANE} may "
        "lose accuracy: leave n_lanes at None, or take fewer"
    )
    return (message,)


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

    def _check(self) -> None:
        """Raise ValueError where a setting belongs to another form."""
        for name, kind in (("em_step", "generalised"), ("batch_size", "online")):
            if getattr(self, name) is not None and self.em != kind:
                raise ValueError(f"{name} means nothing with em={self.em!r}: leave it at None, or set em={kind!r}")
        if self.annealing > 1 and self.em == "hard":
            raise ValueError("annealing means nothing with em='hard', which has no posteriors: leave it at 1")

    @property
    def _em_form(self) -> EmForm:
        step = float(self.em_step or defaults.GENERALISED_EM_STEP) if self.em == "generalised" else 1.0
        return EmForm(self.em, step, float(self.annealing))

    def _em_plan(self, plan: Plan) -> Plan:
        """Return the plan of EM: a round is a pass over all documents, or a batch."""
        if self.em != "online":
            return plan
        n_rounds = max(1, -(-plan.n_documents // (self.batch_size or defaults.ONLINE_EM_BATCH)))
        return replace(plan, n_rounds=n_rounds, n_lanes=1)
