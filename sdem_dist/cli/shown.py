"""Output for people: what comes from data shows its control characters."""

from __future__ import annotations

from collections.abc import Iterable

import click

from sdem_dist.visible import visible as visible


def say(text: object) -> None:
    """Write a line that may hold parts of data."""
    click.echo(visible(text))


def table(title: str, rows: Iterable[tuple[str, ...]]) -> str:
    """Return rows as aligned columns below a title; long values, such as paths, stay in one piece."""
    rows = [tuple(" ".join(visible(cell).split()) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    lines = ["  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]]) for row in rows]
    return "\n".join([visible(title), *(f"  {line}" for line in lines), ""])
