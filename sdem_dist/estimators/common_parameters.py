"""Parameters that several estimators have, with the same meaning."""

from __future__ import annotations

from sdem_dist.estimators.parameters import (
    checked_later,
    either,
    estimator,
    integer,
    one_of,
    param,
    real,
    truth,
)

CLASS_WEIGHT = checked_later('dict, "balanced" or None')


@estimator
class Running:
    """How a fit is run and watched."""

    evaluate_every: int = param(1, integer(0), "Record metrics after every so many epochs and after the last; 0 never.")
    n_jobs: int | None = param(
        None, integer(optional=True), "Threads where there is no client; None: all cores. No bit depends on it."
    )
    verbose: bool = param(False, truth(), "Show progress on standard error.")


@estimator
class Seeded(Running):
    """A fit that may stop early, and whose random numbers have a seed."""

    patience: int | None = param(
        None,
        integer(optional=True),
        "Stop after so many evaluations without a new best on `validation`; keep the best.",
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
class Unlabelled:
    """Documents in memory whose class is not known."""

    unlabelled: object = param(
        None, checked_later("label"), "The label, such as -1, of documents whose class is hidden."
    )
    unlabelled_weight: float = param(1.0, real(), "Weight of each of them; they count through ``-ln p(x)``.")


@estimator
class PaperSteps:
    """The step size of Masegosa 2014, and how lanes are averaged."""

    n_lanes: int | None = param(
        None, integer(optional=True), "Lanes of a round. None: by the number of documents, never by the cluster."
    )
    rounds_per_epoch: int | None = param(
        None, integer(optional=True), 'Merges an epoch, for "mean". None: 8, down to 1 for half a million documents.'
    )
    merge: str = param(
        "mean",
        one_of("mean", "sum"),
        '"mean": lanes run sdEM and their expectation parameters are averaged, each word\'s over the lanes that met it.\n'
        '"sum": the statistics of all lanes at one theta are added for one step a round.',
    )
    batch_size: int | None = param(None, integer(optional=True), 'Documents of a round for ``merge="sum"``. None: 128.')
    step_decay: float = param(1e-5, real(), "lambda of the step size ``1 / (1 + lambda t)``, t counting documents.")
    tolerance: float = param(
        1e-6, real(), "A document whose largest loss weight is not above it asks for no step. The paper has 0."
    )
    prior_scale: float = param(1.0, real(), "Multiplies the running prior correction gamma. The paper has 1.")
    absence: float | str = param(
        "auto",
        either(one_of("auto"), real(0, 1)),
        'For "mean": how much a lane that did not meet a word counts for keeping its row: 0 not at all, 1 as any other\n'
        'lane. "auto": 3 / n_classes for counts, 10 / n_classes for weights such as tf-idf, at most 1.',
    )
