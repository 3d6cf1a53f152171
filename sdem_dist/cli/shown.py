"""Output for people: what comes from data shows its control characters."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: object) -> str:
    r"""Return a text with its control characters written out, ESC as ``\x1b``; line ends and TABs stay.

    A terminal obeys the others, which may come from anybody's documents: it moves, hides or rewrites what is shown.
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), str(text))


def say(text: object) -> None:
    """Write a line that may hold parts of data."""
    click.echo(visible(text))


def table(title: str, rows: Iterable[tuple[str, ...]]) -> str:
    """Return rows as aligned columns below a title; long values, such as paths, stay in one piece."""
    rows = [tuple(" ".join(visible(cell).split()) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    lines = ["  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]]) for row in rows]
    return "\n".join([visible(title), *(f"  {line}" for line in lines), ""])
