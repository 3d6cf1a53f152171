"""``sdem predict`` and ``sdem transform``: labels, numbers, clusters or topics of documents, streaming."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np

import sdem_dist
from sdem_dist.cli import console
from sdem_dist.cli.cluster import cluster_options
from sdem_dist.cli.options import (
    HOW_READ,
    Place,
    SourceCommand,
    format_option,
    option,
    reading_options,
    with_options,
)
from sdem_dist.counted import joined, visible
from sdem_dist.errors import ModelError

BLOCK = 1 << 14  # most documents predicted at a time
MANY = 1_000
"""Up to this many classes, all are shown with their probabilities unless options say otherwise; else the best one."""
UNSURE = "unsure"  # the label of documents whose best class is less probable than the threshold


@dataclass(frozen=True)
class PredictionFormatter:
    """How a model's rows of numbers are shown."""

    rows: Callable[[Any], np.ndarray]
    """From documents to an array with a row for each: shares of `names`, or numbers that stand for themselves."""
    names: Sequence[Any] | None  # classes, clusters or topics, in the order of the columns; None: the rows are numbers
    what: str = "prediction"
    share: str = "probability"  # `what` and `share`: what the best name and its share are called
    top: int | None = None  # how many of the best names are shown, the best first; None: all, in the model's order
    best_only: bool = False  # the best name without its share
    threshold: float = 0.0  # a smaller best share makes the name `UNSURE`
    set_thresholds: np.ndarray | None = None  # of `predict_sets`, which are then shown
    label_thresholds: np.ndarray | None = None
    """Shape (n_names,): a document gets every name whose share is at least this, perhaps none. None: the best one."""

    def columns(self, documents: Any) -> dict[str, Any]:
        rows = self.rows(documents)
        if self.names is None:
            rows = rows.reshape(len(rows), -1)
            heads = [self.what] if rows.shape[1] == 1 else [f"{self.what}_{k}" for k in range(rows.shape[1])]
            return dict(zip(heads, map(_numbers, rows.T), strict=True))
        table = {self.what: _column(*self._labels(rows))}
        if self.set_thresholds is not None:
            table["set"] = _column(self.names, self._sets(rows))
        if self.best_only:
            return table
        best = self._best(rows)
        shares = np.take_along_axis(rows, best, axis=1).T
        table[self.share] = _numbers(shares[0])
        if self.top is None:
            return table | {f"{self.share}_{name}": _numbers(of) for name, of in zip(self.names, rows.T, strict=True)}
        for rank in range(1, len(shares)):
            table[f"{self.what}_{rank + 1}"] = _column(self.names, best[:, rank])
            table[f"{self.share}_{rank + 1}"] = _numbers(shares[rank])
        return table

    def lines(self, documents: Any, ids: Sequence[object] | None = None) -> str:
        """Return a line for each document: its id, where there is one, its label, and NAME=SHARE pairs."""
        rows = self.rows(documents)
        cells: list[Iterable[str]] = [] if ids is None else [map(on_a_line, ids)]
        if self.names is None:
            numbers = rows.astype(np.float64).reshape(len(rows), -1).tolist()
            cells.append("\t".join(f"{value:.6g}" for value in row) for row in numbers)
        else:
            names = [on_a_line(name) for name in self.names]
            cells.append(_cells(*self._labels(rows)))
            if self.set_thresholds is not None:
                cells.append(f"set={members}" for members in _cells(names, self._sets(rows)))
            if self.top is None and not self.best_only:
                pairs = "\t".join(f"{name.replace('%', '%%')}=%.6g" for name in names)
                cells.append(pairs % tuple(row) for row in rows.tolist())
            elif not self.best_only:
                best = self._best(rows)
                ranked = zip(best.tolist(), np.take_along_axis(rows, best, axis=1).tolist(), strict=True)
                cells.append(
                    "\t".join(f"{names[k]}={p:.6g}" for k, p in zip(ranks, shares, strict=True))
                    for ranks, shares in ranked
                )
        return "".join([f"{line}\n" for line in map("\t".join, zip(*cells, strict=True))])

    def _sets(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(1.0 - rows <= np.asarray(self.set_thresholds))

    def _best(self, rows: np.ndarray) -> np.ndarray:
        """Return the columns of each row that are shown, the best first."""
        if self.top in (None, 1):
            return np.asarray(rows.argmax(axis=1)[:, None])
        return np.argsort(-rows, axis=1, kind="stable")[:, : self.top]

    def _labels(self, rows: np.ndarray) -> tuple[Sequence[Any], np.ndarray]:
        """Return names, and which of them each row gets: positions, or booleans where it may get several."""
        assert self.names is not None
        if self.label_thresholds is not None:
            return self.names, rows >= (self.threshold or self.label_thresholds)
        best = rows.argmax(axis=1)
        if not self.threshold:
            return self.names, best
        sure = rows.max(axis=1, initial=0.0) >= self.threshold
        return [*map(str, self.names), UNSURE], np.where(sure, best, len(self.names))


def _numbers(values: np.ndarray) -> Any:
    import pyarrow as pa

    return pa.array(np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else np.int64))


def _column(names: Sequence[Any], which: np.ndarray) -> Any:
    """Return the name of each row, or its names, as an Arrow array; as a list where Arrow has no type for them."""
    import pyarrow as pa

    if which.dtype == bool:
        members = [[names[k] for k in np.flatnonzero(row).tolist()] for row in which]
        return pa.array(members, pa.list_(pa.array(list(names)).type))
    try:
        return pa.array(list(names)).take(pa.array(which))
    except (pa.ArrowException, UnicodeEncodeError):
        return [names[k] for k in which.tolist()]


def _cells(names: Sequence[Any], which: np.ndarray) -> list[str]:
    """Return the name of each row, or its names, for a line."""
    cells = list(map(on_a_line, names))
    if which.dtype == bool:
        return [joined(cells[k] for k in np.flatnonzero(row)) for row in which]
    return [cells[k] for k in which.tolist()]


def on_a_line(value: object) -> str:
    """Return a value as one field of a line: without TABs and line ends, and with control characters written out."""
    return visible(value).replace("\t", " ").replace("\n", " ")


def formatter_of(
    estimator: Any, name: object, *, topics: bool = False, coverage: float | None = None
) -> PredictionFormatter:
    """Return what a model predicts, or its topics of documents; with `coverage` also sets of classes.

    Raises ModelError where it has none of these; of sets `sdem calibrate` knows the limits.
    """
    kind, spec = type(estimator).__name__, estimator.spec
    if topics:
        if spec.topics is None:
            raise ModelError(f"{name} is a {kind}, which has no topics: sdem predict is for it")
        names: Sequence[Any] = range(int(estimator._n_features_out))
        if spec.topics == "classes":
            n_each = len(names) // len(estimator.classes_)
            names = [f"{label} {number}" for label in estimator.classes_.tolist() for number in range(n_each)]
        return PredictionFormatter(estimator.transform, names, what="topic", share="share")
    if coverage is not None and spec.predicts != "class":
        raise ModelError(f"--coverage is for classifiers, and this is a {kind}")
    if spec.predicts is None:
        raise ModelError(f"{name} is a {kind}, which predicts nothing: sdem transform gives the topics of documents")
    if spec.predicts == "number":
        return PredictionFormatter(estimator.predict, None)
    if spec.predicts == "class":
        names, several = estimator.classes_.tolist(), estimator.several_labels
        return PredictionFormatter(
            estimator.predict_proba,
            names,
            what="labels" if several else "prediction",
            top=1 if len(names) > MANY and not several else None,
            set_thresholds=None if coverage is None else estimator.set_thresholds(coverage),
            label_thresholds=estimator.thresholds_ if several else None,
        )
    if not hasattr(estimator, "predict_proba"):
        return PredictionFormatter(estimator.predict, None, what="cluster")
    return PredictionFormatter(estimator.predict_proba, range(len(estimator.component_log_prior_)), what="cluster")


_SHARE, _INNER = click.FloatRange(0, 1), click.FloatRange(0, 1, min_open=True, max_open=True)
_READING = (
    format_option("lines", "folder", "tsv", "csv", "jsonl", "parquet"),
    option("--text --text-column", "COLUMN", "Column of the text: a name, or of lines a number.  [default: text]"),
    option("--id", "COLUMN", "Column of ids, which begin the lines."),
    *HOW_READ,
)
stream_options = with_options(
    click.argument("model", type=Place()),
    click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", type=Place(allow_dash=True)),
    option("-o --output", Place(), "A table: .tsv, .csv, .jsonl or .parquet.", metavar="FILE"),
    console.overwrite_option,
    reading_options(_READING),
    option("--top", 1, "The K best with their numbers, best first.", metavar="K"),
    option("--threshold", _SHARE, 'Below P the label is "unsure"; of several labels, all of at least P.', metavar="P"),
    option("--jobs", 1, "Threads.  [default: all cores; for - one]"),
    option("--quiet", None, "Say nothing of what was written."),
    option("--verbose", None, "Say in the end how much of the text the model knows."),
    cluster_options,
)


@click.command(cls=SourceCommand, no_args_is_help=True)
@stream_options
@option("--coverage", _INNER, "Add a set of classes with the right one at probability C (sdem calibrate).", metavar="C")
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

    With -o FILE it writes a table, which appears complete or not at all; the columns of the source come first. Those of
    a .csv or .tsv source are text, also in Parquet. In a .csv or .tsv FILE control characters are written out (such as
    ESC), and in .tsv TABs and line ends become blanks; .jsonl and .parquet keep texts as they are. Cells that begin
    with = + - or @ are left as they are, and a spreadsheet takes them for formulas: open a FILE of strangers' texts
    with care. Workers read the sources, so all of them have to see these.
    """
    _run(options, best_only=no_proba, coverage=coverage)


@click.command(cls=SourceCommand, no_args_is_help=True)
@stream_options
def transform(**options: Any) -> None:
    """Find the topics of the documents of every SOURCE with a topic MODEL.

    Writes one line for each document: the topic of the largest share, then TAB and TOPIC=SHARE for every topic, counted
    from 0; topics of classes have the class before their number. A SOURCE, and -o FILE, are as for sdem predict.
    """
    _run(options, topics=True)


def _with_choices(
    formatter: PredictionFormatter, best_only: bool, top: int | None, threshold: float | None
) -> PredictionFormatter:
    """Return a formatter with the options of classes; UsageError where they do not fit each other or the model."""
    if best_only and top is not None:
        raise click.UsageError("--no-proba gives the best one alone, and --top several with their numbers: choose one")
    if formatter.names is None and (best_only or top is not None or threshold is not None):
        raise click.UsageError(
            "--no-proba, --top and --threshold are for classes, clusters and topics, and this model predicts numbers"
        )
    if threshold and formatter.label_thresholds is None and UNSURE in map(str, formatter.names or ()):
        raise click.UsageError(f"--threshold labels documents {UNSURE!r}, which is the name of a class here")
    top = formatter.top if top is None and not best_only else top
    return replace(formatter, top=top, best_only=best_only, threshold=threshold or 0.0)


def _run(
    options: dict[str, Any], *, topics: bool = False, best_only: bool = False, coverage: float | None = None
) -> None:
    """Print predictions of the documents of sources, or write them as a table."""
    from sdem_dist.cli.ingest import is_source, refuse_for_a_corpus
    from sdem_dist.cli.streaming import jobs_of, predictions, transformer_of
    from sdem_dist.saving import KIND
    from sdem_dist.storage.archive import is_archive
    from sdem_dist.text.sources import source_format
    from sdem_dist.text.texts import RowValidator

    model, sources, source, cluster = (options[name] for name in ("model", "sources", "source", "cluster"))
    output, quiet, top, threshold = (options[name] for name in ("output", "quiet", "top", "threshold"))
    for path in sources:
        if path.is_file() and is_archive(path, KIND) and not is_archive(model, KIND):
            raise click.UsageError(f"the model comes first: sdem predict {path} {model}")
        if str(path) != "-":
            is_source(str(path))  # raises where there is nothing
    if not cluster.is_local and (options["verbose"] or options["jobs"] is not None):
        flag = "--verbose" if options["verbose"] else "--jobs"
        raise click.UsageError(f"{flag} is for threads of this process, not for workers")
    if output is not None:
        console.check_output(output, (model, *sources), options["overwrite"], console.SUFFIXES)
    of_text = [path for path in sources if not (path / "zarr.json").exists()]
    for path in of_text:
        source_format(path, source.reading, predicted=True)  # says what is no source of text
    if not of_text:
        refuse_for_a_corpus(("format", "text", "id", "encoding", "on_error", "verbose"))
    estimator = sdem_dist.load_model(model)
    formatter = formatter_of(estimator, model, topics=topics, coverage=coverage)
    formatter = _with_choices(formatter, best_only, top, threshold)
    transformer = transformer_of(estimator) if of_text else None

    def render(documents: Any, ids: list[object] | None, beside: dict[str, Any]) -> Any:
        if output is None:
            return formatter.lines(documents, ids)
        columns = formatter.columns(documents)
        if twice := sorted(beside.keys() & columns.keys()):
            raise click.UsageError(f"the source has a column {twice[0]!r} already: rename it")
        return console.part_of(output.suffix.lower(), beside | columns)

    gate, of_stdin = RowValidator(source.on_error), any(str(path) == "-" for path in sources)
    with cluster.client() as client:
        by_workers, keep = None if client is None else gate, output is not None
        work = jobs_of(sources, source.reading, estimator, BLOCK, by_workers, keep=keep)
        threads = options["jobs"] or (1 if of_stdin else None)
        results = predictions(work, transformer, render, gate, threads, client)
        if output is not None:
            console.write_table(output, results)
        else:
            empty = True
            for lines in results:
                empty = False
                sys.stdout.write(lines)
                if of_stdin:  # somebody may be waiting for the lines of this block
                    sys.stdout.flush()
            if empty and not quiet:
                click.echo("the sources hold no document", err=True)
    console.say_left_out(gate.skipped, gate.examples)
    if output is not None and not quiet:
        click.echo(f"wrote the predictions to {output}", err=True)
    if options["verbose"] and transformer is not None:
        share = transformer.unknown_share
        known = (
            "there is no vocabulary to look words up in" if share is None else f"{share:.1%} of the words are unknown"
        )
        click.echo(f"{known} to the model", err=True)
