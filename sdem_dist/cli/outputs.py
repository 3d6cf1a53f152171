"""What commands leave: files, which replace others only with --overwrite, never inputs, models or corpora; messages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import click

from sdem_dist.cli.parameters import option
from sdem_dist.counted import counted, visible
from sdem_dist.table import Table

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator

overwrite_option = option("--overwrite", None, "Replace a FILE that exists.")
OF_WORDS = ("nll", "perplexity")
"""Metrics of p(document)."""


def check_output(
    output: Path,
    inputs: Iterable[str | Path],
    overwrite: bool,
    suffixes: Sequence[str] = (),
    *,
    folder_exists: bool = True,
) -> None:
    """Raise an error where a file cannot be written, or would replace what must stay.

    `inputs`: what the command reads; ``-`` and URLs may be among them.
    `folder_exists`: its folder has to be there; else the folder is made later.
    Raises click.UsageError: `output` is one of the inputs, or a file of a folder among them, a folder, within a corpus,
    or a model.
    Raises click.ClickException: it exists, is not empty, and `overwrite` is not set.
    Raises SdemError: its folder takes no file.
    """
    from sdem_dist.saving import KIND
    from sdem_dist.storage.archive import is_archive
    from sdem_dist.storage.publish import check_writable

    if suffixes and output.suffix.lower() not in suffixes:
        raise click.UsageError(f"{output}: the suffix says the format, one of {', '.join(suffixes)}")
    refuse_inputs(output, inputs)
    if output.is_dir():
        raise click.UsageError(f"{output} is a folder; name a file")
    for folder in output.absolute().parents:
        if (folder / "zarr.json").exists():
            raise click.UsageError(f"{output} is within the corpus {folder}; choose another name")
    if output.is_file() and is_archive(output, KIND):
        raise click.UsageError(f"{output} is a model: it is left alone; choose another name, or remove it")
    refuse_existing(output, overwrite)
    if folder_exists:
        check_writable(output)


def refuse_existing(output: Path, overwrite: bool) -> None:
    if not overwrite and output.is_file() and output.stat().st_size:
        raise click.ClickException(f"{output} exists already: choose another name, or replace it (--overwrite)")


def refuse_inputs(output: Path, inputs: Iterable[str | Path]) -> None:
    """Raise UsageError where an output is one of the inputs, by whatever name, or a file of a folder among them."""
    for path in inputs:
        same = str(path) == str(output)
        with suppress(OSError):  # one of them does not exist, or is not a file
            within = os.path.isdir(path) and Path(path).resolve() in output.resolve().parents
            same = same or os.path.samefile(path, output) or (within and output.exists())
        if same:
            what = f"a file of {path}" if os.path.isdir(path) else path
            raise click.UsageError(f"{output} would replace {what}, which this command reads; choose another name")


@contextmanager
def say_what_remains(remains: str) -> Iterator[None]:
    """Say of an interrupt what it leaves."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"Interrupted; {remains}.", err=True)
        raise SystemExit(130) from None


def explains_words(estimator: EngineEstimator) -> bool:
    """Whether p(document) means something: discriminative training of a classifier spoils it."""
    loss = getattr(estimator, "loss_", None) or getattr(estimator, "loss", "nll")
    return estimator.spec.predicts != "class" or loss == "nll"


def say(text: object) -> None:
    """Write a line that may hold parts of data."""
    click.echo(visible(text))


def table(title: str, rows: Iterable[Sequence[str]]) -> str:
    """Return rows as aligned columns below a title; long values, such as paths, stay in one piece."""
    rows = list(rows)
    return f"{visible(title)}\n{indent(Table((), rows, left=range(max(map(len, rows), default=0))).text(), '  ')}\n"


def say_left_out(n: int, examples: Sequence[str]) -> None:
    """Say on standard error how many lines of sources were left out, if any were, and why the first one was."""
    if n:
        click.echo(f"{counted(n, 'line')} left out, such as {examples[0]}", err=True)
