"""What is shown while a search runs: a line for each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from sdem_dist.cli.shown import visible
from sdem_dist.counted import counted

if TYPE_CHECKING:
    from sdem_dist.selection.search_run import SearchEvent


def line(event: SearchEvent, folder: object = None) -> str:
    """Return an event as a line for logs; `folder` is where the search is kept."""
    from sdem_dist.selection.metrics import name_of
    from sdem_dist.selection.search_run import FOLD, LAST, NESTED, RESUMED
    from sdem_dist.selection.trials import described, ranked

    best, name = ranked(event.trials, event.metric)[0], name_of(event.metric)
    score = f"{name} {best.scores[name].mean():.4f}" if name in best.scores else "no score yet"
    what = f"{event.what} {event.done}"
    if event.what == LAST:
        what = LAST
    elif event.what in (FOLD, NESTED):
        what += f" of {event.n_folds}"
    elif event.what == RESUMED:
        what = f"going on after {counted(event.done, 'fit')} of {folder}"
    if event.what == FOLD:
        n_left = sum(trial.goes_on for trial in event.trials)
        what += f": {n_left} of {counted(len(event.trials), 'setting')} go on"
    return visible(f"{what}; best {score} ({described(best.params)}); {event.seconds:.1f} s")


def callbacks_of(quiet: bool, folder: object = None) -> list[Callable[[SearchEvent], None]]:
    """Return what prints a line for each step of a search that is kept in `folder`."""
    return [] if quiet else [lambda event: click.echo(line(event, folder), err=True)]
