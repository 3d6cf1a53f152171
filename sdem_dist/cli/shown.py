"""Output for people; control characters in data are made visible."""

from collections.abc import Iterable, Sequence
from textwrap import indent

import click

from sdem_dist.counted import counted
from sdem_dist.reports.table import Table
from sdem_dist.visible import visible as visible


def say(text: object) -> None:
    """Write a line that may hold parts of data."""
    click.echo(visible(text))


def table(title: str, rows: Iterable[tuple[str, ...]]) -> str:
    """Return rows as aligned columns below a title; long values, such as paths, stay in one piece."""
    rows = list(rows)
    return f"{visible(title)}\n{indent(Table((), rows, left=range(max(map(len, rows), default=0))).text(), '  ')}\n"


def say_left_out(n: int, examples: Sequence[str]) -> None:
    """Say on standard error how many lines of sources were left out, if any were, and why the first one was."""
    if n:
        click.echo(f"{counted(n, 'line')} left out, such as {examples[0]}", err=True)
