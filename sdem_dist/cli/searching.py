"""What is shown while a search runs: a line for each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from sdem_dist.cli.shown import visible

if TYPE_CHECKING:
    from sdem_dist.selection.predicted import Metric
    from sdem_dist.selection.run import EpochOfSettings
    from sdem_dist.selection.trials import Trial


def _ranked(trials: list[Trial], metric: Metric) -> list[Trial]:
    return sorted(trials, key=lambda trial: (-trial.score(metric), trial.number))


def line(event: EpochOfSettings, folder: object = None) -> str:
    """Return an epoch as a line for logs; `folder` is where the search is kept."""
    from sdem_dist.selection.metrics import name_of
    from sdem_dist.selection.run import LAST, NESTED, RESUMED
    from sdem_dist.selection.summary import described

    best, name = _ranked(event.trials, event.metric)[0], name_of(event.metric)
    score = f"{name} {best.scores[name].mean():.4f}" if name in best.scores else "no score yet"
    if event.what == LAST:
        going = LAST
    elif event.what in ("setting", NESTED):
        going = f"{event.what} {event.epoch} of {event.most}"
    elif event.what == RESUMED:
        going = f"going on after epoch {event.epoch} of {folder}: {_counts(event.trials)}"
    else:
        going = f"{event.what} {event.epoch}: {_counts(event.trials)}"
    return visible(f"{going}; best {score} ({described(best.params)}); {event.seconds:.1f} s")


def _counts(trials: list[Trial]) -> str:
    """Return how many settings go on, and why the others do not."""
    ended = {state: sum(_state(trial) == state for trial in trials) for state in ("done", "dropped", "error")}
    alive = sum(trial.alive for trial in trials)
    return ", ".join([f"{alive} of {len(trials)} settings go on", *(f"{n} {state}" for state, n in ended.items() if n)])


def _state(trial: Trial) -> str:
    if trial.alive:
        return "learns" if trial.n_epochs else "waits"
    return "error" if trial.error else "dropped" if trial.dropped and trial.number else "done"


def callbacks_of(quiet: bool, folder: object = None) -> list[Callable[[EpochOfSettings], None]]:
    """Return what prints a line for each step of a search that is kept in `folder`."""
    return [] if quiet else [lambda event: click.echo(line(event, folder), err=True)]
