"""What commands say, and the files that they leave: tables, and what must not be replaced."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryFile
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click

from sdem_dist.cli.options import option
from sdem_dist.counted import UNSEEN, UNSHOWN, counted, joined, visible
from sdem_dist.table import Table

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus
    from sdem_dist.estimators.base import EngineEstimator

Columns = dict[str, Any]
"""Names and values of consecutive rows: lists, or Arrow arrays, which have a type even where all values are missing."""
Part = tuple[list[str], Any]
"""Consecutive rows of a table: names of the columns, and bytes in the format of the file; of Parquet an Arrow table."""
SUFFIXES = (".tsv", ".csv", ".jsonl", ".parquet")  # of tables
_UNSEEN = UNSEEN.pattern.removesuffix("\ud800-\udfff]") + "]"  # Arrow's texts have no halves of surrogate pairs
overwrite_option = option("--overwrite", None, "Replace a FILE that exists.")


def check_output(
    output: Path, inputs: Iterable[str | Path], overwrite: bool, suffixes: Sequence[str] = (), kind: str = "file"
) -> None:
    """Raise an error where a "file", "model" or "log" cannot be written, or would replace what must stay: `inputs`."""
    from sdem_dist.saving import KIND, check_destination
    from sdem_dist.storage.archive import is_archive
    from sdem_dist.storage.publish import check_writable

    if suffixes and output.suffix.lower() not in suffixes:
        raise click.UsageError(f"{output}: the suffix says the format, one of {', '.join(suffixes)}")
    for path in inputs:
        same = str(path) == str(output)
        with suppress(OSError):  # one of them does not exist, or is not a file
            within = os.path.isdir(path) and Path(path).resolve() in output.resolve().parents
            same = same or os.path.samefile(path, output) or (within and output.exists())
        if same:
            what = f"a file of {path}" if os.path.isdir(path) else path
            raise click.UsageError(f"{output} would replace {what}, which this command reads; choose another name")
    if kind == "model":
        check_destination(output)
    elif output.is_dir():
        raise click.UsageError(f"{output} is a folder; name a file")
    elif output.is_file() and is_archive(output, KIND):
        raise click.UsageError(f"{output} is a model: it is left alone; choose another name, or remove it")
    elif corpora := [folder for folder in output.absolute().parents if (folder / "zarr.json").exists()]:
        raise click.UsageError(f"{output} is within the corpus {corpora[0]}; choose another name")
    if not overwrite and output.is_file() and output.stat().st_size:
        raise click.ClickException(f"{output} exists already: choose another name, or replace it (--overwrite)")
    if kind == "file":  # the folder of a log is made later
        check_writable(output)


@contextmanager
def ingest_progress(*, quiet: bool = False) -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Yield a function that shows how far an ingest is: a bar on a terminal, some lines elsewhere; or nothing."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    console, numbers = Console(stderr=True), dict[str, int]()  # by stage: of its bar, or of documents in its last line
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
    """Return metrics that people are not shown: of p(document), too, which discriminative training spoils."""
    loss = getattr(estimator, "loss_", None) or getattr(estimator, "loss", "nll")
    spoiled = estimator.spec.predicts == "class" and loss != "nll"
    return (*UNSHOWN, "nll", "perplexity") if spoiled else UNSHOWN


def without_label(corpus: Corpus) -> int:
    """Return how many documents of a corpus have no label; 0 where a document may have none or several labels."""
    header = corpus.header
    return header.n_documents - sum(header.class_counts) if header.classes and header.label_sets is None else 0


def warn_of_many_classes(corpus: Corpus, column: str | int | None) -> None:
    """Warn where a corpus has so many classes that its labels may be something else, such as texts or ids."""
    from sdem_dist.inputs.validation import doubt

    header = corpus.header
    n_classes, n_documents = sum(n > 0 for n in header.class_counts), sum(header.class_counts)
    if header.label_sets is None and n_classes and (odd := doubt(n_classes, n_documents, header.classes[0])):
        where = "the column of the label" if column is None else f"column {column!r}"
        click.echo(f"Warning: {odd}: is {where} the right one? --label COLUMN chooses another", err=True)


def warn_of_single_labels(corpus: Corpus) -> None:
    """Warn where documents of a source may have several labels and none has: the separator may be wrong."""
    sets, separator = corpus.header.label_sets, corpus.header.label_separator
    follows = corpus.header.made_by.get("vocabulary_from") is not None  # a test set: the separator is another corpus's
    if sets is not None and separator is not None and not follows and max(map(len, sets)) == 1:
        single = f"no document has more than one label, such as {visible(max(sets)[0])!r}"
        question = f"does {separator!r} stand between labels? --label-separator says what does"
        click.echo(f"Warning: {single}: {question}", err=True)


def say(text: object) -> None:
    """Write a line that may hold parts of data."""
    click.echo(visible(text))


def say_left_out(n: int, examples: Sequence[str]) -> None:
    if n:
        click.echo(f"{counted(n, 'line')} left out, such as {examples[0]}", err=True)


def table(title: str, rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Return rows as aligned columns below a title; long values, such as paths, stay in one piece."""
    rows = list(rows)
    left = set(range(max(map(len, rows), default=0))) - set(numbers)
    return f"{visible(title)}\n{indent(Table((), rows, left=left).text(), '  ')}\n"


def part_of(suffix: str, block: Columns) -> Part:
    """Return consecutive rows in the format of a suffix, one of `SUFFIXES`."""
    names = list(block)
    if suffix == ".parquet":
        import pyarrow as pa

        return names, pa.table([_column(values) for values in block.values()], names=names)
    if suffix != ".jsonl":
        return names, _text_rows(block, suffix)
    import orjson

    from sdem_dist.text.texts import listed

    lines = []
    for values in zip(*map(listed, block.values()), strict=True):
        row = dict(zip(names, values, strict=True))
        try:
            lines.append(orjson.dumps(row, default=str, option=orjson.OPT_APPEND_NEWLINE))
        except TypeError:  # numbers beyond 64 bits, halves of surrogate pairs
            text = json.dumps(row, default=str, ensure_ascii=False)
            lines.append(text.encode(errors="backslashreplace") + b"\n")  # as JSON writes half of a pair, too
    return names, b"".join(lines)


def write_table(path: Path, parts: Iterable[Part]) -> None:
    """Write a table of parts that were made for its suffix; it appears whole, or not at all."""
    from sdem_dist.storage.publish import publish_file

    suffix, names = path.suffix.lower(), list[str]()

    def checked() -> Iterator[Any]:
        for columns, rows in parts:
            if names and columns != names:
                odd, earlier = (", ".join(map(repr, some)) for some in (columns, names))
                raise click.UsageError(
                    f"a source has the columns {odd}, and one before {earlier}: write a table of each"
                )
            if not names and suffix in (".csv", ".tsv"):
                yield _text_rows({name: [name] for name in columns}, suffix)
            names[:] = columns
            yield rows
        if not names:
            raise click.ClickException("the sources hold no document, so no table is written")

    def write(partial: Path) -> None:
        if suffix != ".parquet":
            with partial.open("wb") as file:
                file.writelines(checked())
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        schemas = []  # a later part may need a wider type of a column, so all wait in a file of Arrow's
        with TemporaryFile(dir=partial.parent) as spool:
            for rows in checked():
                schemas.append(rows.schema)
                with pa.ipc.new_stream(spool, rows.schema) as stream:
                    stream.write_table(rows)
            spool.seek(0)
            try:
                fields = pa.unify_schemas(schemas, promote_options="permissive")
            except pa.ArrowException as error:
                raise click.ClickException(
                    f"a column changes from one kind of value to another ({error}): write .jsonl, where it may"
                ) from error
            schema = pa.schema([(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in fields])
            with pq.ParquetWriter(partial, schema) as writer:
                for _ in schemas:
                    writer.write_table(pa.ipc.open_stream(spool).read_all().cast(schema))

    publish_file(path, write)


def _as_text(value: object) -> str | None:
    """Return a value as a field of a table of text; control characters are written out."""
    if value is None:
        return None
    if isinstance(value, list) and all(isinstance(member, str | int | float) for member in value):
        return visible(joined(value))
    return visible(json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value)


def _text_rows(block: Columns, suffix: str) -> bytes:
    """Return rows of CSV, or of cells that TABs separate, in which TABs and line ends become blanks."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv, types

    from sdem_dist.text.texts import listed

    columns = []
    for values in block.values():  # numbers, or texts whose control characters are written out
        kinds = set() if isinstance(values, pa.Array) else set(map(type, values)) - {type(None)}
        column = _column(values) if len(kinds) < 2 else pa.nulls(0)
        is_number = types.is_integer(column.type) or types.is_floating(column.type)
        is_text = types.is_string(column.type) or types.is_large_string(column.type)
        if is_text:
            column = column.cast(pa.large_string())
            is_text = not pc.any(pc.match_substring_regex(column, _UNSEEN)).as_py()
        if not is_number and not is_text:
            column = pa.array(map(_as_text, listed(values)), pa.large_string())
        if suffix == ".tsv":
            column = column if is_number else pc.replace_substring_regex(column, "[\t\n]", " ")
            column = column.cast(pa.large_string()).fill_null("")
        columns.append(column)
    if suffix == ".csv":
        sink = io.BytesIO()
        how = csv.WriteOptions(include_header=False, quoting_style="needed")
        csv.write_csv(pa.table(columns, names=[str(k) for k in range(len(columns))]), sink, how)
        return sink.getvalue()
    rows = pc.binary_join_element_wise(*columns, pa.scalar("\t", pa.large_string())).to_pylist()
    return "".join(f"{row}\n" for row in rows).encode()


def _column(values: Any) -> Any:
    """Return values as an Arrow column; of mixed kinds, or with numbers or texts that Arrow has not, it is text."""
    import pyarrow as pa

    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return pa.array(map(_as_text, values), pa.string())
