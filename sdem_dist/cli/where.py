"""The options that say where a command runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def where_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--scheduler`` and ``--workers`` to a command."""
    command = click.option(
        "--workers",
        type=click.IntRange(1),
        metavar="N",
        help="Run on N Dask worker processes of this machine.  [default: threads of this process]",
    )(command)
    return click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Run on the Dask cluster of this scheduler (tcp://host:port, or its scheduler file).",
    )(command)


def check_where(scheduler: str | None, workers: int | None) -> None:
    """Refuse both options at once."""
    if scheduler is not None and workers is not None:
        raise click.UsageError("give --scheduler or --workers, not both")
