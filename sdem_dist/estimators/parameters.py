"""Parameters of estimators as dataclass fields (default, meaning, type), and parameters that several share."""

import re
from ast import literal_eval
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from inspect import cleandoc, get_annotations, isfunction, signature
from numbers import Integral, Real
from operator import attrgetter
from textwrap import indent
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast, dataclass_transform

import numpy as np

from sdem_dist.counted import nearest
from sdem_dist.fitting import defaults
from sdem_dist.models.em import COOLING, FORMS
from sdem_dist.text.vectorizer import VectorizerSettings

_Documented = TypeVar("_Documented", bound=Callable[..., Any])  # a class or a function
Positive: TypeAlias = float  # above 0


class Constraint(NamedTuple):
    """The allowed values of a parameter."""

    kind: str  # for the docstring, as numpydoc writes it: "int", "float or str"
    words: str  # for messages: "an integer of at least 1"
    allows: Callable[[Any], bool]
    choices: tuple[object, ...] = ()
    only_with: tuple[str, str] | None = None  # a parameter and its value, without which this one is unused


def _are(value: Any, type_of_each: str, number: int = 0) -> bool:
    is_sequence = isinstance(value, list | tuple | np.ndarray) and getattr(value, "ndim", 1) == 1
    return is_sequence and len(value) in (number or len(value) or 1,) and all(map(of_type(type_of_each).allows, value))


TYPES: dict[str, Constraint | str] = {
    "None": Constraint("None", "None", lambda v: v is None),
    "bool": Constraint("bool", "True or False", lambda v: isinstance(v, bool | np.bool_)),
    "Loss": Constraint(
        "Loss",
        "a frozen dataclass like sdem_dist.losses.Loss",
        lambda v: is_dataclass(type(v)) and hasattr(v, "weights"),
    ),
    "mapping": Constraint("mapping", "a mapping", lambda v: isinstance(v, Mapping)),
    "p.Positives": Constraint("sequence of float", "a sequence of positive numbers", lambda v: _are(v, "p.Positive")),
    "orders": Constraint("(int, int)", "(shortest, longest)", lambda v: _are(v, "int", 2) and v[0] <= v[1]),
    "VectorizerSettings": Constraint(
        "VectorizerSettings", "a sdem_dist.text.VectorizerSettings", lambda v: isinstance(v, VectorizerSettings)
    ),
    "int": "int in [1, inf)",
    "float": "float in [0, inf)",
    "p.Positive": "float in (0, inf)",
    "float | None": "float in (0, inf) | None",
}
"""Allowed values of named types, or the ranges that they abbreviate."""


def of_type(text: str) -> Constraint:
    """Return the allowed values of a type, given as an annotation or as a range of numbers: ``float in (0, 1]``.

    ``with merge=sum`` at its end: all values but the default need this value of another parameter. Other text is
    documentation: the value is checked with the documents.
    """
    text, _, condition = text.partition(" with ")
    if condition:
        other, _, value = condition.partition("=")
        return of_type(text)._replace(only_with=(other, value))
    constraint = TYPES.get(text, text)
    if isinstance(constraint, Constraint):
        return constraint
    if " | " in constraint:
        kinds, words, checks, choices, _ = zip(*map(of_type, constraint.split(" | ")), strict=True)
        return Constraint(" or ".join(kinds), " or ".join(words), lambda v: any(f(v) for f in checks), sum(choices, ()))
    if literal := re.fullmatch(r"Literal(\[.*\])", text):
        choices = tuple(literal_eval(literal[1]))
        kind = ", ".join(f'"{v}"' if isinstance(v, str) else str(v) for v in choices)
        is_choice = lambda v: any(type(v) is type(a) and v == a for a in choices)  # noqa: E731
        return Constraint(f"{{{kind}}}", f"one of {choices}" if choices[1:] else repr(choices[0]), is_choice, choices)
    if not (interval := re.fullmatch(r"(int|float) in ([\[(])(\S+), (\S+)[\])]", constraint)):
        return Constraint(text, text, lambda v: True)
    kind, bracket, *ends = interval.groups()
    low, high = map(float, ends)
    number: Any = Integral if kind == "int" else Real

    def allows(v: Any) -> bool:
        inside = isinstance(v, number) and not isinstance(v, bool) and low <= v <= high and v < np.inf
        return bool(inside and (v > low or bracket == "["))

    return Constraint(kind, f"an integer of at least {ends[0]}" if kind == "int" else f"a {constraint}", allows)


ENTRY = re.compile(r"^(\w+(?:,? \w+)*)(?: : (.*?))? --(?: (.*)|$)((?:\n .*)*)", re.MULTILINE)


def entries(text: str) -> dict[str, tuple[str, str]]:
    """Return meanings and types by name of entries ``name : type -- meaning``, whose further lines are indented."""
    return {name: (cleandoc(first + rest), kind) for name, kind, first, rest in ENTRY.findall(cleandoc(text))}


def numpydoc(text: str, sections: Mapping[str, Mapping[str, tuple[str, str]]]) -> str:
    """Return a docstring: the text before the entries, then sections of meanings and types by name."""
    parts = [ENTRY.split(text, maxsplit=1)[0].strip()]
    for title, described in sections.items():
        heads = [(" : ".join(filter(None, (name, kind))), meaning) for name, (meaning, kind) in described.items()]
        body = "\n".join(f"{head}\n{indent(meaning, '    ')}".rstrip() for head, meaning in heads)
        parts += [f"{title}\n{'-' * len(title)}\n{body}"] if body else []
    return "\n\n".join(parts)


SHARED = entries(f"""
evaluate_every : int in [0, inf) -- Evaluate every n epochs and after the last. 0: only on `validation`, every epoch.
n_jobs -- Number of threads if no client is used; None: all cores. The result does not depend on it.
verbose : bool | int in [0, inf) -- Show progress on standard error. Integers above 0 mean True.
patience -- Stop after this many evaluations without improvement on `validation`, and keep the best model.
random_state : int, RandomState instance or None -- Seed for all random choices, such as the order of documents.
class_prior : array-like of shape (n_classes,) -- A fixed class prior.
fit_prior -- Learn the class prior. False: a uniform prior.
class_weight : dict, "balanced" or None -- Class weights; only their ratios matter, except with loss='nll'.
vectorizer -- Tokenization settings (see `sdem_dist.text.VectorizerSettings`). None: lower-cased words, numbers and symbols.
unlabelled : label -- Value that marks a missing label, such as -1. None and NaN are then missing labels, too.
unlabelled_weight -- Weight of the loss of unlabelled documents, ``-ln p(x)``.
n_epochs -- Number of passes over the documents.
n_lanes -- Lanes per round. None: determined by the number of documents, never by the cluster.
rounds_per_epoch : int | None with merge=mean -- Merges per epoch (more in the first). None: 4, or 1 with one lane.
merge : Literal["mean", "sum"] -- "mean": lanes run sdEM in parallel and are merged. "sum": a round is a single step,
    with the statistics of all its documents at the same theta.
batch_size : int | None with merge=sum -- Documents per round with ``merge="sum"``. None: 128.
steps : Literal["margin", "paper"] -- "margin": rho_0 is chosen so that the first step changes the margin of an average
    document by `step`, or by twice `step` with the hinge loss. "paper": rho_0 = 1, with a running correction for the
    prior (Masegosa 2014, section 4.1). In both cases, `step_decay` determines how step sizes decrease.
step_decay -- lambda: after t documents, the step size is ``rho_0 / (1 + step_decay * t)``.
alpha : Literal["laplace", "log"] | float in [0, 3e38] | p.Positives -- Pseudo-count of a word. "laplace": 1 (the
    paper's P1). "log": ln of the vocabulary size (P2). With ``loss="nll"``, a sequence has one number per word. With
    ``steps="margin"``, it is multiplied by a power (1/8 or 3/8) of the document frequency, and has little effect.
weighting : Literal["auto", "counts", "log", "binary", "tfidf"] -- Weight of a count x.
    "counts": x. "log": ln(1 + x). "binary": 1. "tfidf": sublinear tf-idf with scikit-learn's smooth idf. "auto":
    "tfidf" for integers; "counts" for other numbers, and with ``loss="nll"``.
norm : Literal["auto", None] | p.Positive -- Euclidean length to which each document is scaled. "auto": 10, or None with
    the weighting "counts". None: instead, one factor scales all documents to a root mean square length of 10 (no
    scaling with ``steps="paper"`` or ``loss="nll"``).
var_smoothing -- This fraction of the largest variance is added to all variances in the generative fit.
prior -- Weight of the prior, as a number of observations with the mean and variance of the column; unused by "nll".
min_df -- Ignore words that occur in fewer than `min_df` training documents.
ngram_range : orders | None -- Minimum and maximum length of the n-grams to use. None: all n-grams of the corpus.
validation_fraction : float in [0, 0.5] -- Fraction of the documents (at most 20,000) to hold out, to choose the number
    of epochs and the temperature. Training then starts again with all documents, unless at most 2 % were held out. If
    fewer than 200 would be held out, `MultinomialNB` trains on all documents for 6 epochs, and chooses the temperature
    on three folds. 0: no documents are held out.
calibrate -- Divide scores by the temperature that minimizes the log-loss on held-out documents.
n_blocks -- Parts of the vocabulary, merged separately (slightly changes the result). None: one per 256 MiB of counts.
components : Literal["gaussian", "exponential", "poisson", "bernoulli", "mixed", "multinomial"] --
    Family of the components. "bernoulli": columns of 0 and 1. "mixed": see `kinds`. "multinomial": counts, without NaN.
covariance_type : Literal["diag", "full"] with components=gaussian -- "full": correlated columns, no NaN.
kinds : mapping | None with components=mixed -- Families of columns, as in `MixedNB`.
em : Literal{list(FORMS)} -- How documents are assigned to components. "soft": by the posterior (exact EM). "hard": to
    the most probable (classification EM). "stochastic": sampled from the posterior. "generalised": with partial
    M-steps. "online": in mini-batches (stepwise EM). "variational": parameters also have posterior distributions.
output_rate : p.Positive -- Learning rate of U (mu_u in Algorithm 2); it decreases linearly to 0.
em_step : float in (0, 1] | None with em=generalised -- Relative M-step size (generalised). None: {defaults.GENERALISED_EM_STEP}.
annealing : float in [1, inf) -- Temperature of the first epoch, for deterministic annealing. It is multiplied by
    {COOLING} per epoch until it is 1. Posteriors are raised to the power of 1 / temperature. 1: no annealing.
""")
"""Meaning and type of parameters that several estimators share: these declare only a default."""


@dataclass_transform(eq_default=False)
def declare(cls: Any) -> Any:
    """Give a class the constructor of its parameters, and a numpydoc docstring; return the class.

    A parameter is an annotated default that has an entry, see `entries`, in the docstring, in `SHARED` or in a base,
    whose type goes before the annotation. Other entries and properties are what fitting adds. Positional parameters
    come first, and a class's own before what it inherits. Examples of a base are those of classes without, too.
    """
    text, arrows, examples = cleandoc(vars(cls).get("__doc__") or "").partition(">>> ")
    cls._learned, inherited = entries(text), dict[str, Field[Any]]()
    references, _ = cls._learned.pop("References", ("", ""))
    if arrows:
        cls._examples = arrows + examples, cls.__name__
    for base in reversed(cls.__mro__):
        inherited |= getattr(base, "__dataclass_fields__", {})
    for name, annotation in get_annotations(cls).items():
        if name not in vars(cls) or str(annotation).startswith("ClassVar"):
            continue
        described = inherited[name].metadata.values() if name in inherited else SHARED.get(name, ("", ""))
        meaning, allowed = cls._learned.pop(name, described)
        if not isinstance(allowed, Constraint):
            allowed = of_type(allowed or getattr(annotation, "__name__", str(annotation)))
        positional = name in ("n_components", "n_clusters", "estimator", "space")
        declared = field(kw_only=not positional, metadata={"meaning": meaning, "type": allowed})
        if not isinstance(vars(cls)[name], Field):  # that marks a parameter without default
            declared.default = vars(cls)[name]
        setattr(cls, name, declared)
    dataclass(eq=False, repr=False)(cls)
    of_name = {declared.name: declared for declared in fields(cls)}
    parameters, attributes = {}, dict[str, tuple[str, str]]()
    names = dict.fromkeys(name for base in cls.__mro__ for name in get_annotations(base) if name in of_name)
    for name in sorted(names, key=lambda name: bool(of_name[name].kw_only)):
        default, (meaning, allowed) = of_name[name].default, of_name[name].metadata.values()
        shown = f'"{default}"' if isinstance(default, str) else default
        parameters[name] = meaning, allowed.kind + ("" if default is MISSING else f", default={shown}")
    for base in cls.__mro__:
        attributes = vars(base).get("_learned", {}) | attributes
        for name, value in vars(base).items():
            if isinstance(value, property) and name.endswith("_") and base.__module__.startswith("sdem_dist."):
                kind = str(get_annotations(cast(Any, value.fget))["return"]).removeprefix("np.")
                attributes.setdefault(name, (cleandoc(value.__doc__ or ""), kind))
    example, of_class = getattr(cls, "_examples", ("", "?"))
    sections = {"Parameters": parameters, "Attributes": attributes, "References": {references: ("", "")}}
    sections["Examples"] = {example.replace(of_class, cls.__name__): ("", "")}
    cls.__doc__ = indent(numpydoc(text, sections), "    ").strip()
    return cls


def fitted(value: str | Callable[[Any], Any], meaning: str, kind: str = "ndarray") -> Any:
    """Return a property of fitted models: the value at a path of attributes, or a function of the model."""

    def get(model: object) -> Any:
        return attrgetter(value)(model) if isinstance(value, str) else value(model)

    get.__annotations__["return"] = kind
    return property(get, doc=meaning)


ARGUMENTS = entries("""
X : {array-like, sparse matrix} of shape (n_samples, n_features), texts, or Corpus --
collection : {array-like, sparse matrix, dask array or DataFrame} of shape (n_samples, n_features), texts, or Corpus --
    For a Dask collection, the result is lazy; the index of a DataFrame is kept. A corpus is read in parts, and the rows
    of the result are in the order of the corpus, see `sdem_dist.corpus.Corpus.ids`.
y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None -- Labels or targets; None for a corpus,
    which contains its own, and for clustering and topic models.
sample_weight : array-like of shape (n_samples,), default=None --
client : distributed.Client, default=None -- Dask client whose workers process a corpus. The result is in memory.
    """)
"""Arguments of the methods of many estimators; for predictions, X may be a "collection"."""


def document(of: _Documented) -> _Documented:
    """Write docstrings of a function, or of public methods of a class, in numpydoc form: entries become sections.

    Entries, see `entries`, are of parameters, of "Returns" or "Returns name", and of "Raises name". Arguments that have
    none are those of `ARGUMENTS`, and what is returned is said by the annotation.
    """
    for name, method in {of.__name__: of}.items() if isfunction(of) else vars(of).items():
        if not isfunction(method) or name.startswith("_") or "\n---" in (method.__doc__ or "\n---"):
            continue
        text, names = cleandoc(method.__doc__ or ""), [*signature(method).parameters]
        returned = str(get_annotations(method).get("return")).removeprefix("np.")
        predicts = "y" not in names and returned == "Any"  # lazy if rows are
        described = {n: ARGUMENTS["collection" if n == "X" and predicts else n] for n in names if n in ARGUMENTS}
        sections: dict[str, dict[str, tuple[str, str]]] = {"Parameters": {}, "Returns": {}, "Raises": {}}
        described |= entries(text)
        for entry in sorted(described, key=lambda entry: [*names, first := entry.split(",")[0]].index(first)):
            title, _, rest = entry.partition(" ")
            title, rest = (title, rest) if title in sections else ("Parameters", entry)
            sections[title][rest] = described[entry]
        if not sections["Returns"] and returned != "None":
            sections["Returns"][""] = "", {"Any": "ndarray or Dask collection", "Self": "self"}.get(returned, returned)
        method.__doc__ = numpydoc(text, sections).rstrip() + "\n"
    return of


def check(estimator: object) -> None:
    """Raise ValueError with the name of an invalid parameter, its value, and the allowed values."""
    for declared in fields(estimator):  # type: ignore[arg-type]
        name, value, allowed = declared.name, getattr(estimator, declared.name), declared.metadata["type"]
        if not allowed.allows(value):
            hint = nearest(value.strip(), map(str, allowed.choices)).strip() if isinstance(value, str) else ""
            if isinstance(value, type) and "Loss" in allowed.kind and hasattr(value, "weights"):
                hint = f"Pass an instance of {value.__name__}"
            elif "Loss" in allowed.kind and is_dataclass(value):
                hint = f"{type(value).__name__} has no weights() method"
            raise ValueError(f"{name} must be {allowed.words}, got {value!r}{hint and '. '}{hint}")
        other, needed = allowed.only_with or ("", "")
        if other and value != declared.default and getattr(estimator, other) != needed:
            raise ValueError(f"{name} needs {other}={needed!r}: set {other}, or set {name}={declared.default!r}")
