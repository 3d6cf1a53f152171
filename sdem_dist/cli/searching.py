"""What is shown while a search runs: a live table in a terminal, else plain lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from sdem_dist.cli.shown import visible

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from sdem_dist.selection.predicted import Metric
    from sdem_dist.selection.run import EpochOfSettings
    from sdem_dist.selection.trials import Trial

ROWS = 20  # settings of a table; the best are shown


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


def table(event: EpochOfSettings) -> Table:
    """Return the settings as a table, the best first."""
    from rich.table import Table
    from rich.text import Text

    from sdem_dist.selection.metrics import name_of
    from sdem_dist.selection.summary import described

    name = name_of(event.metric)
    columns = list(dict.fromkeys([name, "log-loss", "accuracy"]))
    shown = Table(title=f"{event.what} {event.epoch}, {event.seconds:.1f} s", title_justify="left")
    for column in (*columns, "epochs", "", "setting"):
        shown.add_column(column, justify="left" if column in ("", "setting") else "right")
    ranked = _ranked(event.trials, event.metric)
    for trial in ranked[:ROWS]:
        scores = [f"{trial.scores[column].mean():.4f}" if column in trial.scores else "" for column in columns]
        setting = Text(visible(trial.error or described(trial.params)), style="" if trial.alive else "dim")
        shown.add_row(*scores, str(trial.n_epochs), _state(trial), setting)
    if len(ranked) > ROWS:
        shown.caption = f"and {len(ranked) - ROWS} more"
    return shown


@contextmanager
def watched(quiet: bool, folder: object = None) -> Iterator[list[Callable[[EpochOfSettings], None]]]:
    """Yield the callbacks of a search that is kept in `folder`; a table is left as it was at the end."""
    if quiet:
        yield []
    elif not sys.stderr.isatty():
        yield [lambda event: click.echo(line(event, folder), err=True)]
    else:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), auto_refresh=False) as live:
            yield [_updating(live, folder)]


def _updating(live: Live, folder: object) -> Callable[[EpochOfSettings], None]:
    from rich.text import Text

    from sdem_dist.selection.run import LAST, NESTED, RESUMED

    def update(event: EpochOfSettings) -> None:
        if event.what in (RESUMED, NESTED, LAST):
            live.console.print(Text(line(event, folder)))
        if event.what in (NESTED, LAST):  # the table stays as it is
            return
        live.update(table(event), refresh=True)

    return update
