"""``sdem predict`` and ``sdem transform``: labels, numbers, clusters or topics of streamed documents."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import click
import numpy as np

import sdem_dist
from sdem_dist.cli import console
from sdem_dist.cli.cluster import cluster_options
from sdem_dist.cli.options import HOW_READ, Place, SourceCommand, format_option, option, reading_options, with_options
from sdem_dist.counted import joined, visible
from sdem_dist.errors import ModelError

BLOCK = 1 << 14  # most documents predicted at a time
MANY = 1_000  # with more classes, only the best one is shown unless an option asks for more
UNSURE = "unsure"  # the label of documents whose best class is less probable than the threshold


class PredictionFormatter:
    """Formats the predictions of a model, or the topics of documents.

    `coverage`: of prediction sets, which are then added. `top`: the number of best classes that are shown, the
    best first; None: all, in the model's order. `best_only`: the best one without its probability. `threshold`: pairs
    of a label (None for all labels) and its minimum probability; with one label per document, a smaller probability
    of the best class makes it `UNSURE`.
    """

    def __init__(self, estimator: Any, model: object, /, *, topics: bool = False, **options: Any) -> None:
        coverage, top, thresholds = options.get("coverage"), options.get("top"), dict(options.get("threshold", ()))
        kind, spec, best_only = type(estimator).__name__, estimator.spec, options.get("best_only", False)
        names: Any = None
        if best_only and top is not None:
            raise click.UsageError("choose either --no-proba or --top")
        self.rows: Any = getattr(estimator, "predict", None)  # topic models have no predict
        self.what, self.share = "prediction", "probability"
        self.set_thresholds = self.label_thresholds = None
        if topics:
            if spec.topics is None:
                raise ModelError(f"{model} is a {kind} and has no topics: use sdem predict")
            self.rows, self.what, self.share = estimator.transform, "topic", "share"
            names = range(int(estimator._n_features_out))
            if spec.topics == "classes":
                n_each = len(names) // len(estimator.classes_)
                names = [f"{label} {number}" for label in estimator.classes_.tolist() for number in range(n_each)]
        elif coverage is not None and spec.predicts != "class":
            raise ModelError(f"--coverage needs a classifier, but this is a {kind}")
        elif spec.predicts is None:
            raise ModelError(f"{model} is a {kind} and makes no predictions: use sdem transform")
        elif spec.predicts == "class":
            self.rows, names = estimator.predict_proba, estimator.classes_.tolist()
            if coverage is not None:
                self.set_thresholds = estimator.thresholds_of_sets(coverage)
            if estimator.several_labels:
                if None in thresholds:
                    estimator.thresholds_ = [thresholds.pop(None)] * len(names)
                labels = dict(zip(map(str, names), names, strict=True))
                estimator.thresholds_ = {labels.get(label, label): p for label, p in thresholds.items()}
                self.what, self.label_thresholds, thresholds = "labels", estimator.thresholds_, {}
            elif len(names) > MANY and not best_only:
                top = top or 1
        elif spec.predicts == "cluster":
            self.what = "cluster"
            if hasattr(estimator, "predict_proba"):
                self.rows, names = estimator.predict_proba, range(len(estimator.component_log_prior_))
        if names is None and (best_only or top is not None or thresholds):
            raise click.UsageError("--no-proba, --top and --threshold do not apply to models that predict numbers")
        if thresholds.keys() - {None}:
            raise click.UsageError("--threshold LABEL=P needs a model with several labels per document")
        if thresholds.get(None) and UNSURE in map(str, names or ()):
            raise click.UsageError(f"--threshold uses the label {UNSURE!r}, but this model has a class with that name")
        self.names: Sequence[Any] | None = names  # of the columns, in order; None: rows are numbers
        self.best_only, self.top, self.threshold = best_only, top, thresholds.get(None, 0.0)

    def columns(self, documents: Any) -> dict[str, Any]:
        """Return the columns of a table."""
        import pyarrow as pa

        def numbers(values: np.ndarray) -> Any:
            return pa.array(np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else np.int64))

        rows = self.rows(documents)
        if self.names is None:
            rows = rows.reshape(len(rows), -1)
            heads = [self.what] if rows.shape[1] == 1 else [f"{self.what}_{k}" for k in range(rows.shape[1])]
            return dict(zip(heads, map(numbers, rows.T), strict=True))
        table: dict[str, Any] = {}
        for head, (names, which) in self._chosen(rows).items():
            table[head] = _named(names, which)
            if which.dtype == bool:  # all lists of a block may be empty
                table[head] = pa.array(table[head], pa.list_(pa.array(list(names)).type))
        if self.best_only:
            return table
        best = self._best(rows)
        shares = np.take_along_axis(rows, best, axis=1).T
        table[self.share] = numbers(shares[0])
        if self.top is None:
            return table | {f"{self.share}_{name}": numbers(of) for name, of in zip(self.names, rows.T, strict=True)}
        for rank in range(1, len(shares)):
            table[f"{self.what}_{rank + 1}"] = _named(self.names, best[:, rank])
            table[f"{self.share}_{rank + 1}"] = numbers(shares[rank])
        return table

    def lines(self, documents: Any, ids: Sequence[object] | None = None) -> str:
        """Return a line for each document: its id, if it has one, its label, and NAME=SHARE pairs."""
        rows = self.rows(documents)
        cells: list[Iterable[str]] = [] if ids is None else [map(on_a_line, ids)]
        if self.names is None:
            numbers = rows.astype(np.float64).reshape(len(rows), -1).tolist()
            cells.append("\t".join(f"{value:.6g}" for value in row) for row in numbers)
        for head, (names, which) in self._chosen(rows).items():
            members = _named(list(map(on_a_line, names)), which)
            texts = map(joined, members) if which.dtype == bool else members
            cells.append((f"set={text}" for text in texts) if head == "set" else texts)
        names = list(map(on_a_line, self.names or ()))
        if self.top is not None:
            best = self._best(rows)
            ranked = zip(best.tolist(), np.take_along_axis(rows, best, axis=1).tolist(), strict=True)
            cells.append("\t".join(f"{names[k]}={p:.6g}" for k, p in zip(*both, strict=True)) for both in ranked)
        elif names and not self.best_only:
            pairs = "\t".join(f"{name.replace('%', '%%')}=%.6g" for name in names)
            cells.append(pairs % tuple(row) for row in rows.tolist())
        return "".join([f"{line}\n" for line in map("\t".join, zip(*cells, strict=True))])

    def _best(self, rows: np.ndarray) -> np.ndarray:
        """Return the columns to show for each row, the best first."""
        if self.top in (None, 1):
            return np.asarray(rows.argmax(axis=1)[:, None])
        return np.argsort(-rows, axis=1, kind="stable")[:, : self.top]

    def _chosen(self, rows: np.ndarray) -> dict[str, tuple[Sequence[Any], np.ndarray]]:
        """Return names, and for each row the position of its name, or booleans if it may have several."""
        if self.names is None:
            return {}
        if self.label_thresholds is not None:
            chosen = {self.what: (self.names, rows >= self.label_thresholds)}
        elif self.threshold:
            best = np.where(rows.max(axis=1, initial=0.0) >= self.threshold, rows.argmax(axis=1), len(self.names))
            chosen = {self.what: ([*map(str, self.names), UNSURE], best)}
        else:
            chosen = {self.what: (self.names, rows.argmax(axis=1))}
        if self.set_thresholds is not None:
            chosen["set"] = self.names, np.asarray(1.0 - rows <= self.set_thresholds)
        return chosen


def _named(names: Sequence[Any], which: np.ndarray) -> list[Any]:
    """Return the name of each row, or a list of its names."""
    if which.dtype == bool:
        return [[names[k] for k in np.flatnonzero(row).tolist()] for row in which]
    return [names[k] for k in which.tolist()]


def on_a_line(value: object) -> str:
    """Return a value as one field of a line: without TABs and line ends, and with control characters written out."""
    return visible(value).replace("\t", " ").replace("\n", " ")


def _threshold(text: str) -> tuple[str | None, float]:
    label, equals, number = text.rpartition("=")
    with suppress(ValueError):
        if 0.0 <= float(number) <= 1.0:
            return label if equals else None, float(number)
    raise click.BadParameter(f"{text!r} is neither a probability P nor LABEL=P")


_THRESHOLD = """Predict "unsure" if all classes have a probability below P. With several labels per document, P replaces
the thresholds of all labels, and LABEL=P (repeatable) the threshold of one label."""
_COVERAGE = "Add prediction sets that contain the true class with probability C (see sdem calibrate)."
_READING = (
    format_option("lines", "folder", "tsv", "csv", "jsonl", "parquet"),
    option("--text --text-column", "COLUMN", "Text column: a name, or a number for .tsv.  [default: text]"),
    option("--id", "COLUMN", "ID column, printed first."),
    *HOW_READ,
)
stream_options = with_options(
    click.argument("model", type=Place()),
    click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", type=Place(allow_dash=True)),
    option("-o --output", Place(), "Output table: .tsv, .csv, .jsonl or .parquet.", metavar="FILE"),
    console.overwrite_option,
    reading_options(_READING),
    option("--top", 1, "Show the K most probable classes or topics.", metavar="K"),
    option("--threshold", _threshold, _THRESHOLD, metavar="[LABEL=]P", multiple=True),
    option("--jobs", 1, "Number of threads.  [default: all cores; one for standard input]"),
    option("--quiet", None, "Suppress messages."),
    option("--verbose", None, "Report the fraction of words that are not in the vocabulary."),
    cluster_options,
)


@click.command(cls=SourceCommand, no_args_is_help=True)
@stream_options
@option("--coverage", click.FloatRange(0, 1, min_open=True, max_open=True), _COVERAGE, metavar="C")
@option("--no-proba best_only", None, "Print labels or clusters without probabilities.")
def predict(**options: Any) -> None:
    """Predict labels, numbers or clusters of the documents in each SOURCE.

    A SOURCE is a file with one document per line (also .gz, .xz or .zst; - for standard input), a folder of text files,
    a table (.tsv, .csv, .jsonl, .parquet), or a corpus.

    Labels in a SOURCE are ignored: if line 1 is label TAB text, only the text after the TAB is used. --format lines
    reads entire lines. Files are read in blocks, so they may be larger than memory.

    Prints one line per document: the label, then TAB and CLASS=PROBABILITY for every class. With several labels, all
    labels above their thresholds are printed, separated by |. Regressors predict numbers, and mixtures predict
    cluster numbers. IDs come first with --id, and always for a corpus (its documents are shuffled).

    -o FILE writes a table: the source's columns, then the predictions. FILE appears when complete. Columns of .csv and
    .tsv sources are kept as text. In .csv and .tsv output, control characters are escaped; in .tsv, TABs and line
    breaks become spaces. Spreadsheets read cells that begin with = + - or @ as formulas. Workers need access to SOURCE.
    """
    run(**options)


@click.command(cls=SourceCommand, no_args_is_help=True)
@stream_options
def transform(**options: Any) -> None:
    """Infer the topic proportions of the documents in each SOURCE with a topic MODEL.

    Prints one line per document: the main topic, then TAB and TOPIC=SHARE for every topic. Topics are numbered from 0;
    if each class has its own topics, the class precedes the number. SOURCE and -o FILE are as in sdem predict.
    """
    run(**options, topics=True)


def run(*, topics: bool = False, **options: Any) -> None:
    """Print predictions of the documents of sources, or write them as a table."""
    from sdem_dist.cli.ingest import is_source, refuse_for_a_corpus
    from sdem_dist.cli.streaming import jobs_of, predictions, transformer_of
    from sdem_dist.reports.table_files import SUFFIXES, part_of, write_table
    from sdem_dist.text.sources import source_format
    from sdem_dist.text.texts import RowValidator

    model, sources, source, cluster = (options[name] for name in ("model", "sources", "source", "cluster"))
    output, quiet, verbose, jobs = (options[name] for name in ("output", "quiet", "verbose", "jobs"))
    for name in (name for name in map(str, sources) if name != "-"):
        is_source(name)  # raises if nothing exists there
    if not cluster.is_local and (verbose or jobs is not None):
        flag = "--verbose" if verbose else "--jobs"
        raise click.UsageError(f"{flag} cannot be combined with --workers, --scheduler or --cluster")
    if output is not None:
        console.check_output(output, (model, *sources), options["overwrite"], SUFFIXES)
    estimator = sdem_dist.load_model(model)
    of_text = [path for path in sources if not (path / "zarr.json").exists()]
    for path in of_text:
        source_format(path, source.reading, predicted=True)  # raises if it is not a source of text
    if not of_text:
        refuse_for_a_corpus(("format", "text", "id", "encoding", "on_error", "verbose"))
    formatter = PredictionFormatter(estimator, model, topics=topics, **options)
    transformer = transformer_of(estimator) if of_text else None

    def render(documents: Any, ids: list[object] | None, beside: dict[str, Any]) -> Any:
        if output is None:
            return formatter.lines(documents, ids)
        columns = formatter.columns(documents)
        if twice := sorted(beside.keys() & columns.keys()):
            raise click.UsageError(f"the source already has a column {twice[0]!r}: rename that column")
        return part_of(output.suffix.lower(), beside | columns)

    gate, of_stdin = RowValidator(source.on_error), any(str(path) == "-" for path in sources)
    with cluster.client() as client:
        by_workers, keep = None if client is None else gate, output is not None
        work = jobs_of(sources, source.reading, estimator, BLOCK, by_workers, keep=keep)
        results = predictions(work, transformer, render, gate, jobs or (1 if of_stdin else None), client)
        if output is not None:
            write_table(output, results)
        else:
            lines = None
            for lines in results:
                sys.stdout.write(lines)
                if of_stdin:  # another program may wait for the lines of this block
                    sys.stdout.flush()
            if lines is None and not quiet:
                click.echo("the sources contain no documents", err=True)
    console.say_left_out(gate.skipped, gate.examples)
    if output is not None and not quiet:
        click.echo(f"wrote predictions to {output}", err=True)
    if verbose and transformer is not None:
        share = transformer.unknown_share
        known = "the model has no vocabulary" if share is None else f"{share:.1%} of the words are unknown to the model"
        click.echo(known, err=True)
