"""``sdem predict`` and ``sdem transform``: labels, numbers, clusters or topics of documents, streaming."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sdem_dist
from sdem_dist.cli.console import check_output, overwrite_option, say_left_out
from sdem_dist.cli.options import (
    HOW_READ,
    Place,
    Source,
    SourceCommand,
    format_option,
    option,
    reading_options,
    with_options,
)
from sdem_dist.cli.where import Where, where_options

if TYPE_CHECKING:
    from sdem_dist.cli.answers import Answers
    from sdem_dist.estimators.base import EngineEstimator

BLOCK = 1 << 14  # most documents predicted at a time
_SHARE = click.FloatRange(0, 1)
_READING = (
    format_option("lines", "folder", "tsv", "csv", "jsonl", "parquet"),
    option("--text --text-column", "COLUMN", "Column of the text: a name; in lines with TABs a number from 0."),
    option("--id", "COLUMN", "Column of ids, which begin the lines."),
    *HOW_READ,
)
stream_options = with_options(
    click.argument("model", type=Place()),
    click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", type=Place(allow_dash=True)),
    option("-o --output", Place(), "A table: .tsv, .csv, .jsonl or .parquet.", metavar="FILE"),
    overwrite_option,
    reading_options(_READING),
    option("--top", 1, "The K best with their numbers, best first.", metavar="K"),
    option("--threshold", _SHARE, 'Below P the label is "unsure"; of several labels, all of at least P.', metavar="P"),
    option("--jobs", 1, "Threads.  [default: all cores; for - one]"),
    option("--quiet", None, "Say nothing of what was written."),
    option("--verbose", None, "Say in the end how much of the text the model knows."),
    where_options,
)


@click.command(cls=SourceCommand, no_args_is_help=True)
@stream_options
@option(
    "--coverage",
    click.FloatRange(0, 1, min_open=True, max_open=True),
    "Add the set of classes that has the right one with probability C, class by class; after sdem calibrate.",
    metavar="C",
)
@option("--no-proba", None, "Give the label or the cluster only.")
def predict(no_proba: bool, coverage: float | None, **options: Any) -> None:
    """Predict the documents of every SOURCE with MODEL.

    A SOURCE is a file of one document a line (plain, .gz, .xz or .zst; - for standard input), a folder of text files,
    a table (.tsv, .csv, .jsonl, .parquet), for a MODEL that was trained on text; or a corpus.

    Labels of a SOURCE are not read as text: where the first line is label TAB text, as in training, what follows the
    TAB is the text of each line. --format lines takes whole lines.

    Writes one line for each document: the label, then TAB and CLASS=PROBABILITY for every class, in the model's order
    of classes. With several labels these are all that reach their thresholds, with | between them; regressors write
    numbers alone, mixtures the clusters by number. Ids come before labels with --id, and always for a corpus, whose
    documents are shuffled. Only a few blocks are in memory.

    With -o FILE it writes a table, which appears complete or not at all. Workers read the sources, so all of them have
    to see these.

    In the table the columns of the source come first. Those of a .csv or .tsv source are text, also in Parquet. In a
    .csv or .tsv FILE control characters are written out (such as ESC), and in .tsv TABs and line ends become blanks;
    .jsonl and .parquet keep texts as they are. Cells that begin with = + - or @ are left as they are, and a spreadsheet
    takes them for formulas: open a FILE of strangers' texts with care.
    """
    from sdem_dist.cli.answers import predictions_of

    _run(partial(predictions_of, coverage=coverage), best_only=no_proba, **options)


@click.command(cls=SourceCommand, no_args_is_help=True)
@stream_options
def transform(**options: Any) -> None:
    """Find the topics of the documents of every SOURCE with a topic MODEL.

    Writes one line for each document: the topic of the largest share, then TAB and TOPIC=SHARE for every topic, counted
    from 0; topics of classes have the class before their number. A SOURCE, and -o FILE, are as for sdem predict.
    """
    from sdem_dist.cli.answers import topics_of

    _run(topics_of, best_only=False, **options)


def _run(
    answers_of: Callable[[EngineEstimator, object], Answers],
    *,
    model: Path,
    sources: tuple[Path, ...],
    source: Source,
    where: Where,
    output: Path | None,
    overwrite: bool,
    jobs: int | None,
    verbose: bool,
    quiet: bool,
    **form: Any,
) -> None:
    """Print answers to the documents of sources, or write them as a table; `form`: as of `chosen_answers`."""
    from sdem_dist.cli.answers import chosen_answers
    from sdem_dist.cli.sources import is_source, refuse_for_a_corpus
    from sdem_dist.cli.streaming import answered, answered_by_workers, jobs_of, tasks_of, transformer_of
    from sdem_dist.cli.tables import SUFFIXES, part_of, write_parts
    from sdem_dist.saving import KIND
    from sdem_dist.storage.archive import is_archive
    from sdem_dist.text.sources import source_format
    from sdem_dist.text.validation import RowValidator

    of_stdin, gate = any(str(path) == "-" for path in sources), RowValidator(source.on_error)
    for path in sources:
        if path.is_file() and is_archive(path, KIND) and not is_archive(model, KIND):
            raise click.UsageError(f"the model comes first: sdem predict {path} {model}")
        if str(path) != "-":
            is_source(str(path))  # raises where there is nothing
    if not where.here and (verbose or jobs is not None):
        flag = "--verbose" if verbose else "--jobs"
        raise click.UsageError(f"{flag} is for threads of this process, not for workers")
    if output is not None:
        check_output(output, (model, *sources), overwrite, SUFFIXES)
    of_text = [path for path in sources if not (path / "zarr.json").exists()]
    for path in of_text:
        source_format(path, source.reading, predicted=True)  # says what is no source of text
    if not of_text:
        refuse_for_a_corpus(("format", "text", "id", "encoding", "on_error", "verbose"))
    estimator = sdem_dist.load_model(model)
    answers = chosen_answers(answers_of(estimator, model), **form)
    transformer = transformer_of(estimator) if of_text else None

    def answer(documents: Any, ids: list[object] | None, beside: dict[str, Any]) -> Any:
        if output is None:
            return answers.lines(documents, ids)
        columns = answers.columns(documents)
        if twice := sorted(beside.keys() & columns.keys()):
            raise click.UsageError(f"the source has a column {twice[0]!r} already: rename it")
        return part_of(output.suffix.lower(), beside | columns)

    work = jobs_of(sources, source.reading, estimator, BLOCK, keep=output is not None)
    with where.client() as client:
        if client is None:
            results = answered(work, transformer, answer, gate, jobs or (1 if of_stdin else None))
        else:
            results = answered_by_workers(tasks_of(work, gate, len(sources)), transformer, answer, gate, client)
        if output is not None:
            write_parts(output, results)
        else:
            empty = True
            for lines in results:
                empty = False
                sys.stdout.write(lines)
                if of_stdin:  # somebody may be waiting for the lines of this block
                    sys.stdout.flush()
            if empty and not quiet:
                click.echo("the sources hold no document", err=True)
    say_left_out(gate.skipped, gate.examples)
    if output is not None and not quiet:
        click.echo(f"wrote the predictions to {output}", err=True)
    if verbose and transformer is not None:
        share = transformer.unknown_share
        known = (
            "there is no vocabulary to look words up in" if share is None else f"{share:.1%} of the words are unknown"
        )
        click.echo(f"{known} to the model", err=True)
