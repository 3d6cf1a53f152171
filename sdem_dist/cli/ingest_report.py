"""What ``sdem ingest`` says while it runs and in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sdem_dist.text import IngestReport


@contextmanager
def shown_progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """Yield a function that shows how far an ingest is: a bar on a terminal, some lines elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        said: dict[str, int] = {}

        def line(stage: str, done: int, total: int | None) -> None:
            if done >= 2 * said.get(stage, 5000) or (done == total and stage in said):
                said[stage] = done
                click.echo(f"{stage}: {done:,}{'' if total is None else f' of {total:,}'} documents", err=True)

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def bar(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(f"{stage} documents", total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield bar


def show_report(report: IngestReport) -> None:
    """Say in a few lines what an ingest did."""
    labelled = f"{len(report.classes)} classes" if report.classes else "targets"
    words = f"{report.n_features:,} features, {report.n_nonzeros:,} nonzeros"
    click.echo(f"{report.path}: {report.n_documents:,} documents, {labelled}, {words} ({report.seconds:.1f} s)")
    if report.held_out_path is not None:
        click.echo(f"{report.held_out_path}: {report.n_held_out:,} documents held out")
    if report.n_empty == report.n_documents:
        click.echo(
            "Warning: no document has a known word, so nothing can be learned or predicted from this corpus; "
            "check the column of the text, and that --vocabulary-from names the right corpus",
            err=True,
        )
    elif report.n_empty:
        click.echo(f"{report.n_empty:,} documents have no word; they are kept")
    if report.n_skipped:
        click.echo(f"{report.n_skipped:,} bad lines were left out, such as", err=True)
        for example in report.skipped_examples:
            click.echo(f"  {example}", err=True)
