"""What commands say of documents while they are ingested, and of the corpus that they became."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from sdem_dist.cli.outputs import say
from sdem_dist.counted import counted, visible

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus
    from sdem_dist.text import IngestReport


@contextmanager
def shown_progress(*, quiet: bool = False) -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Yield a function that shows how far an ingest is: a bar on a terminal, some lines elsewhere, or nothing."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bars, tasks, counts = Progress(*columns, console=console, transient=True), dict[str, TaskID](), dict[str, int]()

    def bar(stage: str, done: int, total: int | None) -> None:
        if stage not in tasks:
            tasks[stage] = bars.add_task(f"{stage} documents", total=total)
        bars.update(tasks[stage], completed=done, total=total)

    def line(stage: str, done: int, total: int | None) -> None:
        if done >= 2 * counts.get(stage, 5000) or (done == total and stage in counts):
            counts[stage] = done
            click.echo(f"{stage}: {done:,}{'' if total is None else f' of {total:,}'} documents", err=True)

    if not console.is_terminal:
        yield line
        return
    with bars:
        yield bar


def without_label(corpus: Corpus) -> int:
    """Return how many documents of a corpus have no label; 0 where a document may have none or several labels."""
    header = corpus.header
    return header.n_documents - sum(header.class_counts) if header.classes and header.label_sets is None else 0


def warn_of_many_classes(corpus: Corpus, column: str | int | None) -> None:
    """Warn where a corpus has so many classes that its labels may be something else, such as texts or ids."""
    from sdem_dist.inputs.validation import doubt

    header = corpus.header
    if not header.classes or header.label_sets is not None:
        return
    n_classes, n_documents = sum(n > 0 for n in header.class_counts), sum(header.class_counts)
    if odd := doubt(n_classes, n_documents, header.classes[0]):
        where = "the column of the label" if column is None else f"column {column!r}"
        click.echo(f"Warning: {odd}: is {where} the right one? --label COLUMN chooses another", err=True)


def warn_of_single_labels(corpus: Corpus) -> None:
    """Warn where documents of a source may have several labels and none has: the separator may be wrong."""
    sets, separator = corpus.header.label_sets, corpus.header.label_separator
    if corpus.header.made_by.get("vocabulary_from") is not None:  # a test set takes the separator of another corpus
        return
    if sets is not None and separator is not None and max(map(len, sets)) == 1:
        click.echo(
            f"Warning: no document has more than one label, such as {visible(max(sets)[0])!r}: does {separator!r} stand "
            "between labels? --label-separator says what does",
            err=True,
        )


def show_report(report: IngestReport, corpus: Corpus) -> None:
    sets = corpus.header.label_sets
    warn_of_single_labels(corpus)
    if not report.classes:
        labelled = "targets" if corpus.header.n_targets else "no labels"
    elif sets is None:
        labelled = counted(len(report.classes), "class", "classes")
    else:
        labelled = f"{counted(len({x for labels in sets for x in labels}), 'label')} in {counted(len(sets), 'set')}"
    if hidden := without_label(corpus):
        labelled += f", {counted(hidden, 'document')} without a label"
    words = f"{counted(report.n_features, 'feature')}, {counted(report.n_nonzeros, 'nonzero')}"
    say(f"{report.path}: {counted(report.n_documents, 'document')}, {labelled}, {words} ({report.seconds:.1f} s)")
    if report.held_out_path is not None:
        say(f"{report.held_out_path}: {counted(report.n_held_out, 'document')} held out")
    if report.n_empty == report.n_documents:
        click.echo(
            "Warning: no document has a known word, so nothing can be learned or predicted from this corpus; "
            "check the column of the text, and that --vocabulary-from names the right corpus",
            err=True,
        )
    elif report.n_empty:
        click.echo(f"{counted(report.n_empty, 'document')} without a word, kept")
    if report.first_column is not None:
        other = ", since none is 0; if 0 is an empty column, --first-column 0" if report.first_column else ""
        click.echo(f"columns counted from {report.first_column}{other}")
    if report.n_skipped:
        click.echo(f"{counted(report.n_skipped, 'bad line')} left out, such as", err=True)
        for example in report.skipped_examples:
            click.echo(f"  {visible(example)}", err=True)
