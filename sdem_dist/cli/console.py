"""Output of commands, and checks of the files that they write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import click

from sdem_dist.cli.options import option
from sdem_dist.counted import UNSHOWN, counted, visible
from sdem_dist.table import Table

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus
    from sdem_dist.estimators.base import EngineEstimator

RESUME = "; --resume continues from the latest checkpoint, if there is one"
NO_CHECKPOINT = "; no checkpoint was saved: to be able to resume, use --checkpoint FOLDER"
overwrite_option = option("--overwrite", None, "Replace an existing FILE.")


def check_output(
    output: Path, inputs: Iterable[str | Path], overwrite: bool, suffixes: Sequence[str] = (), kind: str = "file"
) -> None:
    """Raise an error if a "file", "model" or "log" cannot be written, or would replace one of `inputs`."""
    from sdem_dist.saving import KIND, check_destination
    from sdem_dist.storage.archive import is_archive
    from sdem_dist.storage.publish import check_writable

    if suffixes and output.suffix.lower() not in suffixes:
        raise click.UsageError(f"{output}: unknown suffix; use one of {', '.join(suffixes)}")
    for path in inputs:
        same = str(path) == str(output)
        with suppress(OSError):  # one of them does not exist, or is not a file
            within = os.path.isdir(path) and Path(path).resolve() in output.resolve().parents
            same = same or os.path.samefile(path, output) or (within and output.exists())
        if same:
            what = f"a file in {path}" if os.path.isdir(path) else path
            raise click.UsageError(f"{output} would overwrite {what}, which this command reads; choose another name")
    if kind == "model":
        check_destination(output)
    elif output.is_dir():
        raise click.UsageError(f"{output} is a folder; pass a file name")
    elif output.is_file() and is_archive(output, KIND):
        raise click.UsageError(f"{output} is a model, which --overwrite does not replace; choose another name")
    elif corpora := [folder for folder in output.absolute().parents if (folder / "zarr.json").exists()]:
        raise click.UsageError(f"{output} is inside the corpus {corpora[0]}; choose another name")
    if not overwrite and output.is_file() and output.stat().st_size:
        raise click.ClickException(f"{output} already exists: choose another name, or pass --overwrite")
    if kind == "file":  # the folder of a log is created later
        check_writable(output)


@contextmanager
def ingest_progress(*, quiet: bool = False) -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Yield a function that shows the progress of an ingest: a bar on a terminal, lines elsewhere; or nothing."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    console, numbers = Console(stderr=True), dict[str, int]()  # by stage: id of its bar, or documents in its last line
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bars = Progress(*columns, console=console, transient=True)

    def show(stage: str, done: int, total: int | None) -> None:
        if console.is_terminal:
            if stage not in numbers:
                numbers[stage] = bars.add_task(f"{stage} documents", total=total)
            bars.update(TaskID(numbers[stage]), completed=done, total=total)
        elif done >= 2 * numbers.get(stage, 5000) or (done == total and stage in numbers):
            numbers[stage] = done
            click.echo(f"{stage}: {done:,}{'' if total is None else f' of {total:,}'} documents", err=True)

    with bars if console.is_terminal else nullcontext():
        yield show


def unshown_metrics(estimator: EngineEstimator) -> tuple[str, ...]:
    """Return metrics to hide, such as those of p(document), which are meaningless after discriminative training."""
    loss = getattr(estimator, "loss_", None) or getattr(estimator, "loss", "nll")
    spoiled = estimator.spec.predicts == "class" and loss != "nll"
    return (*UNSHOWN, "nll", "perplexity") if spoiled else UNSHOWN


def without_label(corpus: Corpus) -> int:
    """Return the number of documents without a label; 0 if documents may have no label or several."""
    header = corpus.header
    return header.n_documents - sum(header.class_counts) if header.classes and header.label_sets is None else 0


def warn_of_many_classes(corpus: Corpus, column: str | int | None) -> None:
    """Warn if a corpus has so many classes that its labels may be other values, such as texts or ids."""
    from sdem_dist.corpus.labels import too_many_classes

    header = corpus.header
    n_classes, n_documents = sum(n > 0 for n in header.class_counts), sum(header.class_counts)
    if header.label_sets is None and n_classes and (odd := too_many_classes(n_classes, n_documents, header.classes[0])):
        where = "the label column" if column is None else f"column {column!r}"
        click.echo(f"Warning: {odd}: is {where} the right column? Use --label COLUMN to choose another", err=True)


def warn_of_single_labels(corpus: Corpus) -> None:
    """Warn if documents may have several labels and none has: the separator may be wrong."""
    sets, separator = corpus.header.label_sets, corpus.header.label_separator
    follows = corpus.header.made_by.get("vocabulary_from") is not None  # it has the separator of its training set
    if sets is not None and separator is not None and not follows and max(map(len, sets)) == 1:
        single = f"no document has more than one label (example: {visible(max(sets)[0])!r})"
        question = f"is {separator!r} the label separator? Set it with --label-separator"
        click.echo(f"Warning: {single}: {question}", err=True)


def say(text: object) -> None:
    """Write a line that may contain parts of the data."""
    click.echo(visible(text))


def say_left_out(n: int, examples: Sequence[str]) -> None:
    if n:
        lines = "".join(f"\n  {visible(example)}" for example in examples)
        click.echo(f"skipped {counted(n, 'record')}, for example{lines}", err=True)


def table(title: str, rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Return rows as aligned columns below a title; long values, such as paths, are not wrapped."""
    rows = list(rows)
    left = set(range(max(map(len, rows), default=0))) - set(numbers)
    return f"{visible(title)}\n{indent(Table((), rows, left=left).text(), '  ')}\n"
