"""Suggestions for an option that a command does not have."""

from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise

import click

from sdem_dist.catalogue import ESTIMATORS, estimator_class

OF_LABELS = ("--label", "--label-separator", "--unlabelled", "--group", "--weight")
"""Options of commands that read labels."""
SAME = {
    "learning_rate": "step",
    "lr": "step",
    "step_size": "step",
    "iterations": "n_epochs",
    "max_iter": "n_epochs",
    "smoothing": "alpha",
    "random_seed": "random_state",
    "topics": "n_components",
    "n_topics": "n_components",
}
"""Names of parameters elsewhere, and what estimators here call them."""


def better(error: click.NoSuchOption) -> str:
    """Return the message of an option that does not exist, with what was probably meant."""
    command = None if error.ctx is None else error.ctx.command
    if command is not None and command.name in ("predict", "transform") and error.option_name in OF_LABELS:
        return f"{error.message} It says how labels are read, and sdem {command.name} reads none: leave it out."
    name = error.option_name.lstrip("-")
    options = get_close_matches(name, [option.lstrip("-") for option in error.possibilities or ()], n=1)
    meant = f"--{options[0]}" if options else ""
    if command is not None and any(p.name == "settings" for p in command.params):
        typed = () if error.ctx is None else error.ctx.meta.get("typed", ())
        words = [word for arg in typed for word in arg.split("=", 1)]
        named = [after for word, after in pairwise(words) if word == "--estimator" and after in ESTIMATORS]
        meant = _parameter(name.replace("-", "_"), command.name, named or ESTIMATORS, exact=bool(meant)) or meant
    return f"{error.message} Did you mean {meant}?" if meant else error.message


def _parameter(name: str, command: str | None, estimators: Sequence[str], *, exact: bool) -> str:
    """Return how a parameter of estimators is given that an option is named after; nothing where none is like it."""
    from sdem_dist.cli.train import PARAMETERS

    parameters = {p: p for estimator in estimators for p in estimator_class(estimator)().get_params(deep=False)}
    parameters |= {other: p for other, p in SAME.items() if p in parameters}
    flags = {p: f"--{of.replace('_', '-')}" for of, p in PARAMETERS.items()} if command == "train" else {}
    for match in [name] if name in parameters else get_close_matches(name, () if exact else parameters, n=1):
        return flags.get(parameters[match], f"--set {parameters[match]}=VALUE")
    return ""
