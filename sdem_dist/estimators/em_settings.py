"""Which EM a mixture is fitted by: one setting for all mixtures, and what goes with it."""

from dataclasses import replace

from sdem_dist.engine.plan import Plan
from sdem_dist.estimators.parameters import estimator, integer, one_of, or_none, param, real
from sdem_dist.models.em_forms import COOLING, FORMS, EmForm

BATCH = 1024
"""Default documents of a step of online EM."""
STEP = 0.5
"""Default share of the way that generalised EM goes."""


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
        None, or_none(real(0, 1, above=True)), f'Of "generalised": the share of the way. None: {STEP}.'
    )
    batch_size: int | None = param(None, integer(optional=True), f'Of "online": documents of a step. None: {BATCH:,}.')
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
    """Return the form that the parameters ask for."""
    step = float(settings.em_step or STEP) if settings.em == "generalised" else 1.0
    return EmForm(settings.em, step, float(settings.annealing))


def em_plan(settings: EmSettings, plan: Plan) -> Plan:
    """Return the plan of EM: a round is a pass over all documents, or a batch."""
    if settings.em != "online":
        return plan
    return replace(plan, n_rounds=max(1, -(-plan.n_documents // (settings.batch_size or BATCH))), n_lanes=1)
