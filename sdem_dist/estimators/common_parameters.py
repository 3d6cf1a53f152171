"""Parameters that several estimators have, with the same meaning."""

from collections.abc import Mapping
from typing import ClassVar

from sdem_dist.counted import counted
from sdem_dist.engine.plan import Plan
from sdem_dist.estimators.parameters import (
    Constraint,
    checked_later,
    either,
    estimator,
    integer,
    one_of,
    or_none,
    param,
    real,
    truth,
)
from sdem_dist.fitting import plans
from sdem_dist.fitting.defaults import SHORT_LANE, SUM_BATCH
from sdem_dist.text.vectorizer import VectorizerSettings

CLASS_WEIGHT = checked_later('dict, "balanced" or None')
EVALUATE_EVERY = (
    integer(0),
    "Record metrics whenever this many epochs have passed, and after the last; 0: of `validation` documents alone, after each.",
)


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
        "with the documents seen: ``rho = rho_0 / (1 + 1e-5 t)``.",
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


def plan_of(lanes: Lanes, n_documents: int, n_epochs: int, seed: int) -> Plan:
    """Return the plan of a run of a discriminative loss."""
    if lanes.merge == "sum":
        return plans.batches(n_documents, n_epochs, seed, lanes.batch_size or SUM_BATCH, lanes.n_lanes)
    return plans.sequential(n_documents, n_epochs, seed, lanes.n_lanes, lanes.rounds_per_epoch)


def short_lanes(plan: Plan) -> list[str]:
    """Return a warning where lanes of weighted documents are so short that they may lose accuracy."""
    of_a_lane = plan.n_documents // (plan.n_lanes * plan.n_rounds)
    if plan.n_lanes == 1 or of_a_lane >= SHORT_LANE:
        return []
    found = counted(of_a_lane, "document") if of_a_lane else "at most one document"
    asked = f"n_lanes={plan.n_lanes:,} leaves {found} to a lane in a round"
    fewer = "may lose accuracy: leave n_lanes at None, or take fewer"
    return [f"{asked}. Lanes of fewer than {SHORT_LANE} {fewer}"]
