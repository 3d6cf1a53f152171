"""Parameters of estimators as dataclass fields (default, constraint, meaning), and those that several have."""

import re
from ast import literal_eval
from collections.abc import Callable, Collection
from dataclasses import Field, dataclass, field, fields
from inspect import cleandoc, get_annotations
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast, dataclass_transform

import numpy as np

from sdem_dist.corpus.manifest import LARGEST
from sdem_dist.fitting import defaults
from sdem_dist.models.em import COOLING, FORMS
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

    def allows(value: object) -> bool:
        return isinstance(value, Integral) and not isinstance(value, bool) and bool(cast(int, value) >= least)

    constraint = Constraint("int", words, allows)
    return or_none(constraint) if optional else constraint


def real(low: float = 0.0, high: float = np.inf, *, above: bool = False) -> Constraint:
    """Allow finite numbers from `low` (with `above`: above it) up to `high`."""
    words = f"a finite number {'above' if above else 'from'} {low:g}{'' if above else ' on'}"
    if high < np.inf:
        words = f"a number {f'above {low:g} and at most' if above else f'between {low:g} and'} {high:.3g}"
    elif low == -np.inf:
        words = "a finite number"

    def allows(value: object) -> bool:
        if not isinstance(value, Real) or isinstance(value, bool) or not np.isfinite(number := float(value)):
            return False
        return (number > low if above else number >= low) and number <= high

    return Constraint("float", words, allows)


def truth() -> Constraint:
    return Constraint("bool", "True or False", lambda v: isinstance(v, bool | np.bool_))


def a_loss(*names: str) -> Constraint:
    """Allow these names, and objects with the methods of `sdem_dist.losses.Loss`."""
    return either(one_of(*names), OF_ANNOTATIONS["Loss"])


def or_none(constraint: Constraint) -> Constraint:
    return Constraint(constraint.kind, f"{constraint.words} or None", lambda v: v is None or constraint.allows(v))


def either(*constraints: Constraint) -> Constraint:
    kinds, words, _ = zip(*constraints, strict=True)
    return Constraint(" or ".join(kinds), " or ".join(words), lambda v: any(one.allows(v) for one in constraints))


def checked_later(kind: str) -> Constraint:
    """Allow everything: what the value may be depends on the documents, and is checked with them."""
    return Constraint(kind, kind, lambda v: True)


def param(default: _Value, meaning: str, constraint: Constraint | None = None, *, positional: bool = False) -> _Value:
    """Declare a parameter.

    `meaning`: for the docstring of the class: whole sentences.
    `constraint`: None: that of the annotation, see `OF_ANNOTATIONS`.
    `positional`: it may be passed without its name.
    """
    declared: _Value = field(
        default=default, kw_only=not positional, metadata={"meaning": meaning, "constraint": constraint}
    )
    return declared


def of_annotation(annotation: str) -> Constraint:
    """Return what a parameter may be by its annotation alone: ``Literal[...]`` lists what it may be."""
    if annotation in OF_ANNOTATIONS:
        return OF_ANNOTATIONS[annotation]
    literal = re.fullmatch(r"Literal(\[.*\])", annotation)
    parts = annotation.split(" | ")
    return one_of(*literal_eval(literal[1])) if literal and len(parts) == 1 else either(*map(of_annotation, parts))


def _are_orders(value: object) -> bool:
    if value is None or not isinstance(value, tuple | list) or len(value) != 2:
        return value is None
    return all(isinstance(n, int | np.integer) for n in value) and 1 <= value[0] <= value[1]


class Declared(NamedTuple):
    """What a parameter means in several estimators, and what it may be, if its annotation does not say that."""

    meaning: str
    constraint: Constraint | None = None


AUTO = either(one_of("auto"), integer())
Positive: TypeAlias = float  # above 0
OF_ANNOTATIONS = {
    "bool": truth(),
    "int": integer(),
    "int | None": integer(optional=True),
    "float": real(),
    "p.Positive": real(above=True),
    "Loss": Constraint("Loss", "a loss", lambda v: hasattr(v, "value") and hasattr(v, "weights")),
    "float | None": or_none(real(above=True)),
}
"""What a parameter may be where its annotation says so."""
SHARED = {
    "evaluate_every": Declared(
        "Record metrics whenever this many epochs have passed, and after the last; 0: of `validation` documents alone,\n"
        "after each.",
        integer(0),
    ),
    "n_jobs": Declared("Threads where there is no client; None: all cores. No bit depends on it."),
    "verbose": Declared(
        "Show progress on standard error; a number as scikit-learn has it.", either(truth(), integer(0))
    ),
    "patience": Declared("Stop after this many evaluations without a new best on `validation`; keep the best."),
    "random_state": Declared(
        "Seed of every random choice, such as the order of documents.",
        checked_later("int, RandomState instance or None"),
    ),
    "class_prior": Declared("A fixed class prior.", checked_later("array-like of shape (n_classes,)")),
    "fit_prior": Declared("Learn the class prior; False takes a uniform one."),
    "class_weight": Declared(
        "Weights of the classes; relative but for loss='nll'.", checked_later('dict, "balanced" or None')
    ),
    "vectorizer": Declared(
        "How raw text becomes counts, where `fit` is given texts; see `sdem_dist.text.VectorizerSettings`. None: words,\n"
        "in lower case, as scikit-learn's ``CountVectorizer`` has them.",
        Constraint(
            "VectorizerSettings or None",
            "a sdem_dist.text.VectorizerSettings or None",
            lambda v: v is None or isinstance(v, VectorizerSettings),
        ),
    ),
    "unlabelled": Declared(
        "The label, such as -1, of documents whose class is hidden. Once it is set, None and NaN are such labels, too.",
        checked_later("label"),
    ),
    "unlabelled_weight": Declared("Weight of each of them; they count through ``-ln p(x)``."),
    "n_epochs": Declared("Passes over the documents."),
    "n_lanes": Declared("Lanes of a round. None: by the number of documents, never by the cluster."),
    "rounds_per_epoch": Declared(
        'Merges per epoch, for "mean"; the first epoch has some short ones besides. None: 4, with one lane 1.'
    ),
    "merge": Declared(
        '"mean": lanes run sdEM side by side, and what they learned is merged. "sum": a round is one step, with the\n'
        "statistics of all its documents at one theta.",
        one_of("mean", "sum"),
    ),
    "batch_size": Declared('Documents of a round for ``merge="sum"``. None: 128.'),
    "steps": Declared(
        '"margin": rho_0 is such that a first step moves a mean document\'s label against a rival by `step`, by twice that\n'
        'with the hinge loss. "paper": rho_0 = 1, and the prior\'s running correction (Masegosa 2014, section 4.1). Both\n'
        "fall with the documents seen, see `step_decay`.",
        one_of("margin", "paper"),
    ),
    "step_decay": Declared("lambda: after t documents a step is ``rho_0 / (1 + step_decay * t)``."),
    # Words that are weighted before they are learned.
    "weighting": Declared(
        'How counts x are weighted: as they are, ln(1 + x), 1, or sublinear tf-idf with scikit-learn\'s smooth idf. "auto":\n'
        'whole numbers by tf-idf; others, and all with ``loss="nll"``, as they are.',
        one_of("auto", "counts", "log", "binary", "tfidf"),
    ),
    "norm": Declared(
        'Euclidean length of each document; None leaves it as it is. "auto": 10 with tf-idf, logarithms and ones. Where\n'
        'documents keep their length, one factor makes their mean length 10, but with ``steps="paper"`` and "nll".',
        either(one_of("auto", None), real(above=True)),
    ),
    "min_df": Declared("Words of fewer training documents are left out."),
    "ngram_range": Declared(
        "Shortest and longest n-grams, of a corpus that has longer ones. None: all it has.",
        Constraint("(int, int)", "(shortest, longest), such as (1, 2)", _are_orders),
    ),
    "validation_fraction": Declared(
        "Share of the documents that is held out, 20,000 at most, to choose training time and temperature. Then training\n"
        "begins again with all documents, but not where under 2 % were held out. Where under 200 would be held out,\n"
        "`MultinomialNB` holds out none: training takes 6 epochs, and folds of a third give the temperature. 0: nothing is\n"
        "held out.",
        real(0, 0.5),
    ),
    "calibrate": Declared(
        "Divide scores by one temperature, of the least log-loss on held-out documents, for probabilities."
    ),
    "n_blocks": Declared(
        "Parts of the vocabulary that are merged apart. None: one for each 256 MiB. With several lanes the number\n"
        "of parts changes the model a little."
    ),
    # The form of EM.
    "em": Declared(
        'How components are assigned. "soft": by their posterior, exact EM. "hard": to the most probable, classification\n'
        'EM. "stochastic": to one drawn from the posterior. "generalised": each M-step goes only part of the way.\n'
        '"online": mini-batches, stepwise EM. "variational": parameters have posteriors too.',
        one_of(*FORMS),
    ),
    "em_step": Declared(
        f'Of "generalised": the share of the way. None: {defaults.GENERALISED_EM_STEP}.',
        or_none(real(0, 1, above=True)),
    ),
    "annealing": Declared(
        "Deterministic annealing: the temperature of the first epoch. Posteriors are raised to one over it, and it is\n"
        f"multiplied by {COOLING} an epoch until it is 1. 1: no annealing.",
        real(1),
    ),
}
"""Constraint and meaning of parameters that mean the same in several estimators: these name only a default."""
ALPHA_OF_WORDS = Declared(
    "Pseudo-count of a word: 1 (the paper's P1), ln of the vocabulary's size (P2), or a number. With steps of the\n"
    "margin it grows with the documents that hold the word, to the power 1/8, or 3/8 with logarithms and ones. Its size\n"
    "hardly matters: steps are in its unit.",
    either(one_of("laplace", "log"), real(0, LARGEST)),
)
EM_BATCH = Declared(f'Of "online": documents of a step. None: {defaults.ONLINE_EM_BATCH:,}.', integer(optional=True))
OUTPUT_RATE = Declared("mu_u of Algorithm 2, for U; it falls linearly to 0.", real(above=True))

ATTRIBUTES: dict[str, dict[str, str]] = {
    "": {
        "n_features_in_": "int",
        "history_": "list of dict\n"
        "One entry per epoch: ``epoch``, ``seconds``, and the metrics of epochs that were evaluated. Losses are means per\n"
        "document, or row. Those of validation documents have the prefix ``validation_``.",
        "n_iter_": "int\nEpochs run.",
        "damaged_shards_": "list of str\nWhat was wrong with each shard that `fit` left out, see its `skip_damaged`.",
        "learner_, state_": "NamedTuple or dataclass\nWhat was trained: settings, and expectation parameters mu.",
    },
    "vectorizer": {
        "vocabulary_": "list of str or None\nThe words, where the training corpus names them.",
        "vectorizer_": "dict or None\n"
        "How the training corpus turned text into counts, so that the model predicts on raw text.",
        "label_separator_": "str or None\n"
        "What stood between the labels of a document in the training corpus's sources, where it may have several.",
    },
    "weighting": {
        "weighting_": "Weighting or None\nWhat becomes of counts; None: nothing.",
        "document_frequency_": "ndarray of shape (n_features,), int64, or None\n"
        "Of the training documents, for the weighting.",
    },
}
"""What fitting adds, beside properties, where there is a parameter of a name: numpydoc's kind and meaning by name."""


@dataclass_transform(eq_default=False)
def estimator(cls: _Class) -> _Class:
    """Make the constructor of a class with parameters, and two sections of an estimator's docstring.

    Parameters are declared by `param`; a default alone re-declares one of `SHARED`, or of a base. The sections stand
    before the references and the examples: the parameters, positional ones first, and what fitting adds. The latter are
    properties, with their docstrings, what the class and its bases say in `_learned`, and `ATTRIBUTES`. In both a
    class's own come before what it inherits.
    """
    inherited: dict[str, Field[Any]] = {}
    for base in reversed(cls.__mro__):
        inherited |= getattr(base, "__dataclass_fields__", {})
    for name, annotation in get_annotations(cls).items():
        declared: Any = vars(cls).get(name)
        if not isinstance(declared, Field):
            if name in inherited and inherited[name].metadata:
                of_base = inherited[name]
                declared = param(declared, *of_base.metadata.values(), positional=not of_base.kw_only)
            elif name in SHARED:
                declared = param(declared, *SHARED[name])
            else:
                continue
        meaning, constraint = declared.metadata.values()
        constraint = constraint or of_annotation(getattr(annotation, "__name__", str(annotation)))
        setattr(cls, name, param(declared.default, meaning, constraint, positional=declared.kw_only is False))
    decorated: _Class = cast(_Class, dataclass(eq=False, repr=False)(cls))
    if not hasattr(decorated, "spec"):
        return decorated
    declared_fields, parameters = {declared.name: declared for declared in fields(decorated)}, []
    names = list(declared_fields)
    attributes: dict[str, str] = {}
    for base in decorated.__mro__:
        parameters += [declared_fields.pop(name) for name in get_annotations(base) if name in declared_fields]
        described: dict[str, str] = dict(vars(base).get("_learned", {}))
        for name, value in vars(base).items():
            if isinstance(value, property) and name.endswith("_") and base.__module__.startswith("sdem_dist."):
                kind = str(get_annotations(cast(Any, value.fget))["return"]).removeprefix("np.")
                described[name] = f"{kind}\n{cleandoc(value.__doc__ or '')}"
        for name, text in described.items():
            attributes.setdefault(name, text)
    for name, texts in ATTRIBUTES.items():
        if not name or name in names:
            attributes = attributes | {key: text for key, text in texts.items() if key not in attributes}
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


def takes(*names: str, returns: str = "") -> Callable[[_Method], _Method]:
    """Add these arguments to the docstring of a method, the first of its parameters, and what it returns."""

    def documented(method: _Method) -> _Method:
        text, heading = cleandoc(method.__doc__ or ""), "Parameters\n----------\n"
        if "Returns\n-------" not in text:
            kind, *meaning = (returns or str(get_annotations(method)["return"])).splitlines()
            section = "\n".join([f"Returns\n-------\n{kind}", *(f"    {line}" for line in meaning)])
            text = re.sub(r"\n(?=Raises\n-)|$", f"\n\n{section}\n\n", text, count=1).strip()
            text = re.sub(r"\n{3,}", "\n\n", text)
        if heading not in text:
            text = re.sub(r"\n(?=Returns\n-)", f"\n{heading}\n", text, count=1)
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


OF_STEPS = [
    "n_epochs",
    "step",
    "step_decay",
    "merge",
    "rounds_per_epoch",
    "calibrate",
    "validation_fraction",
    "patience",
]
"""Parameters that mean nothing where a loss is fitted in closed form."""


def unused_steps(estimator: object, names: Collection[str] = OF_STEPS) -> tuple[str, ...]:
    """Return a warning where parameters of steps were set, and the NLL is minimised without such steps."""
    changed = [
        f"{declared.name}={value!r}"
        for declared in fields(estimator)  # type: ignore[arg-type]
        if declared.name in names and (value := getattr(estimator, declared.name)) != declared.default
    ]
    return (f"loss='nll' has no use for {', '.join(changed)}",) if changed else ()


def check_steps(estimator: Any, *, closed_form: bool = False) -> None:
    """Raise ValueError where settings of lanes or steps mean nothing; with `closed_form` there are no steps."""
    if estimator.merge == "mean" and estimator.batch_size is not None:
        raise ValueError("batch_size is for merge='sum': leave it at None, or set rounds_per_epoch")
    if estimator.merge == "sum" and estimator.rounds_per_epoch is not None:
        raise ValueError("with merge='sum' batch_size sets the rounds of an epoch: leave rounds_per_epoch at None")
    if estimator.steps == "paper" and estimator.step is not None:
        raise ValueError("step is for steps='margin': the paper's steps start at 1. Leave step at None")
    if estimator.steps == "paper" and closed_form:
        raise ValueError("loss='nll' is fitted in closed form, without the paper's steps: leave steps at 'margin'")
