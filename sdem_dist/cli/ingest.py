"""``sdem ingest``: text, tables or matrices become a corpus; also for the sources of other commands."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

import sdem_dist
from sdem_dist.cli import console
from sdem_dist.cli.cluster import ClusterOptions, cluster_options
from sdem_dist.cli.options import READING, WORDS, Place, Source, SourceCommand, option, typed_flags, word_options
from sdem_dist.counted import counted
from sdem_dist.errors import SdemError
from sdem_dist.storage.buckets import is_url, place
from sdem_dist.storage.jobs import kept_folder
from sdem_dist.storage.publish import hidden_folder, set_aside

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.corpus import Corpus
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.text import Reading, VectorizerSettings


def is_source(path: str) -> bool:
    """Whether a path is a file or a folder of documents, not a corpus; ClickException: it does not exist."""
    location = place(path)
    if not location.exists() and not is_url(path):
        hint = "".join(f"; a process died while replacing it: rename {old}" for old in set_aside(location)[-1:])
        raise click.ClickException(f"{path}: no such file or folder{hint}")
    return location.exists() and not (location / "zarr.json").exists()


def refuse_for_a_corpus(names: Sequence[str]) -> None:
    if typed := typed_flags(names):
        raise click.UsageError(f"{typed} applies to sources only, not to a corpus")


def refuse_far_sources(paths: Sequence[str | None], cluster: str | None) -> None:
    """Raise UsageError if a path is a source and workers on other machines could not read its temporary corpus."""
    for path in paths:
        if path is not None and is_source(path) and cluster is not None:
            raise click.UsageError(f"remote workers need a corpus, and {path} is a source: use sdem ingest")


def spool_stdin(paths: Sequence[str], form: str | None) -> list[str]:
    """Return paths with a temporary copy of standard input in place of "-": lines of label TAB text."""
    if "-" not in paths:
        return list(paths)
    folder = click.get_current_context().with_resource(TemporaryDirectory(prefix="sdem-"))
    spool = Path(folder, f"stdin.{form or 'tsv'}")
    with spool.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return [str(spool) if path == "-" else path for path in paths]


@contextmanager
def training_documents(
    paths: Sequence[str], held_out: str | None, *learns: Any, words: VectorizerSettings, **how: Any
) -> Iterator[tuple[Corpus, Corpus | None]]:
    """Yield the training and the held-out corpus, with one vocabulary; `learns`, `how`: see `documents_of`."""
    with documents_of(paths, *learns, words=words, also_read=[held_out or paths[0]], **how) as documents:
        if held_out is None:
            yield documents, None
        else:
            with documents_of([held_out], *learns, follows=documents, also_read=paths, **how) as validation:
                yield documents, validation


@contextmanager
def documents_of(
    paths: Sequence[str],
    source: Source,
    estimator: EngineEstimator | None,
    *,
    words: VectorizerSettings | None = None,
    follows: Corpus | None = None,
    also_read: Sequence[str] = (),
    beside: Path | None = None,
    client: Client | None = None,
    keep_text: bool = False,
    quiet: bool = True,
) -> Iterator[Corpus]:
    """Yield corpora as one, or the documents of sources as a temporary corpus in a hidden folder.

    `estimator`: is trained on the documents, or evaluated; None: labels are needed. `words`: tokenization of sources.
    None: that of the corpus `follows`, or else of the model. `also_read`: other paths of the command that reader
    options may be for. `beside`: path of the model; the folder is next to it. None: a temporary folder.
    `client`: its workers write the corpus, without the texts.
    """
    from sdem_dist.text import ingest
    from sdem_dist.text.patterns import PatternError
    from sdem_dist.text.sources import numeric_format
    from sdem_dist.text.texts import NoLabelError

    sources = list(filter(is_source, paths))
    if not sources:
        read = () if any(map(is_source, also_read)) else READING
        refuse_for_a_corpus((*read, *(WORDS if follows is None else ())))
        yield sdem_dist.concat([sdem_dist.open_corpus(path) for path in paths])
        return
    if len(sources) < len(paths):
        advice = f"ingest it (sdem ingest {sources[0]} NAME.zarr --vocabulary-from CORPUS), and pass the new corpus"
        raise click.UsageError(f"{sources[0]} is a source, but other inputs are corpora: {advice}")
    learns = "labels" if estimator is None else estimator.spec.target
    reading, how = source.reading, dict[str, Any](keep_text=keep_text)
    if not reading.labelled and learns != "nothing":
        raise click.UsageError("--no-labels and --format lines apply only to estimators that need no labels")
    examined = estimator if words is None and follows is None else None
    if examined is not None:
        _check_examined(examined, paths[0], reading)
    elif (
        estimator is not None
        and estimator.spec.layout == "dense"
        and not estimator.spec.either
        and not hasattr(estimator, "components")
    ):
        raise click.UsageError(
            f"{type(estimator).__name__} needs a table, but {paths[0]} is read as texts or counts. Convert a table to a "
            'corpus in Python: write_corpus("table.zarr", X, y, dense=True), where X is a DataFrame or an array'
        )
    elif learns == "nothing" and not typed_flags(("label", "label_separator", "unlabelled")):
        reading = replace(reading, labelled=False)
    if words is not None:
        numbers = numeric_format([place(path) for path in paths], reading) is not None
        how = {"settings": words, "targets": learns == "numbers", "keep_text": keep_text and not numbers}
    if beside is None:
        hidden: Any = TemporaryDirectory(prefix="sdem-")
    elif client is not None and is_url(beside):
        hidden = kept_folder(beside, "corpus", "0" * 32)
    else:
        hidden = hidden_folder(beside.absolute(), "corpus")
    with hidden as folder:
        target = place(str(folder)) / place(paths[0]).name  # for messages that contain a path
        if examined is not None:
            how["vocabulary_from"] = _words_of(examined, reading, target.with_name(".words"))
        elif follows is not None:
            how["vocabulary_from"] = follows.paths[0]
        how |= {"reading": reading, "on_error": source.on_error, "client": client}
        try:
            with console.ingest_progress(quiet=quiet) as progress:
                report = ingest(list(paths), target, overwrite=True, progress=progress, **how)
            console.say_left_out(report.n_skipped, report.skipped_examples)
            if examined is not None and report.n_empty:
                click.echo(f"documents without known words: {report.n_empty:,}", err=True)
            console.warn_of_single_labels(corpus := sdem_dist.open_corpus(target))
            yield corpus
        except SdemError as error:
            if isinstance(error, NoLabelError) and examined is not None:
                instead = "pass --no-labels" if learns == "nothing" else f"use sdem predict MODEL {paths[0]}"
                hints = [f"to skip such {error.unit}s, use --on-error skip"] * bool(error.hint)
                hints += [f"if no document has a label, {instead}"] * (not error.hint or "--no-labels" in error.hint)
                error.hint = "; ".join(hints)
            elif isinstance(error, PatternError):
                error.path = error.path or (None if examined is None else examined._lazy_parameters.owner)
            elif error.path == str(target):
                error.path = ", ".join(paths)
            raise


def _check_examined(model: EngineEstimator, path: str, reading: Reading) -> None:
    """Raise an error if options, or the format, do not match a trained model."""
    from sdem_dist.text.sources import numeric_format

    if reading.weight is not None:
        raise click.UsageError("--weight does not apply to this command: use it with sdem ingest, and pass the corpus")
    if numeric_format([place(path)], reading) is not None:
        advice = f"ingest it (sdem ingest {path} NAME.zarr --vocabulary-from TRAINING), and pass the new corpus"
        raise click.UsageError(f"{path} contains numbers: {advice}")
    if not model.several_labels and reading.label_separator is not None:
        raise click.UsageError("--label-separator needs a model with several labels per document")
    if model.several_labels and reading.unlabelled is not None:
        raise click.UsageError("--unlabelled needs a model with one label per document")
    model.vectorize([])  # raises for a model of numbers


def _words_of(model: EngineEstimator, reading: Reading, path: Path) -> str:
    """Write a corpus of one empty document with the vocabulary and classes of a model, for new documents to follow."""
    import scipy.sparse as sp

    how: dict[str, Any] = {"vocabulary": model.vocabulary_, "vectorizer": model.vectorizer_}
    if model.several_labels:
        separator = reading.label_separator or model.label_separator_ or ","
        how |= {"y": [model.classes_.tolist()], "made_by": {"label_separator": separator}}
    elif model.spec.target == "labels":
        how |= {"y": model.classes_[:1], "classes": model.classes_.tolist()}
    elif model.spec.target == "numbers":
        how["targets"] = [0.0]
    empty = sp.csr_matrix((1, model.n_features_in_), dtype="uint8")
    return sdem_dist.write_corpus(path, empty, overwrite=True, **how).path  # a killed command may have left one


EPILOG = """\b
Examples:
  sdem ingest reviews.tsv reviews.zarr
      lines of "label TAB text"
  sdem ingest news/ news.zarr --held-out 0.2 --stem english --min-df 2
      a folder with one subfolder of text files for each class;
      a fifth of the documents goes to news.zarr-held-out
  sdem ingest imdb-train.tsv.xz imdb.zarr --label 0 --text 3
      a table without a header: columns are numbered from 0
  sdem ingest imdb-test.tsv.xz imdb-test.zarr --label 0 --text 3 --vocabulary-from imdb.zarr
      the test documents, with the words of the training corpus
  sdem ingest posts.jsonl.zst posts.zarr --label topic --text body
      for JSON Lines, CSV and Parquet, columns are specified by name
"""


@click.command(cls=SourceCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", type=Place(allow_dash=True))
@click.argument("corpus", metavar="CORPUS")
@word_options
@option("--vocabulary-from", "CORPUS", "Use the settings, vocabulary and classes of this corpus (for test sets).")
@option("--targets", None, "Treat labels as numeric targets, such as ratings.")
@option("--held-out", float, "Fraction of the documents to write to CORPUS-held-out.", default=0.0, metavar="FRACTION")
@option("--shard-documents", 1, "Documents per shard.")
@option("--seed random_state", int, "Random seed for shuffling and for the choice of held-out documents.", default=0)
@option("--jobs n_jobs", 1, "Number of threads.  [default: all cores]")
@option("--keep-text", None, "Also store the texts, compressed.")
@option("--quiet", None, "Do not show progress.")
@option("--overwrite", None, "Replace an existing corpus.")
@cluster_options
def ingest(sources: tuple[Path, ...], corpus: str, source: Source, cluster: ClusterOptions, **options: Any) -> None:
    """Read SOURCES and write them as one CORPUS.

    A source is a folder (with a subfolder per class) or a file: .txt or .tsv (label TAB text), .csv, .jsonl, .parquet,
    or .svm (svmlight). Text files may be compressed (.gz, .xz, .zst). CORPUS appears when it is complete.
    """
    paths = spool_stdin(list(map(str, sources)), source.reading.format)
    if not cluster.is_local and (typed := typed_flags(("keep_text", "n_jobs"))):
        raise click.UsageError(f"{typed} cannot be combined with --workers, --scheduler or --cluster")
    beside = f"{corpus.rstrip('/')}-held-out"
    if not options["held_out"] and place(beside).exists():
        earlier = f"{beside} was held out from an earlier {corpus}; its documents may be in the new corpus"
        raise click.ClickException(f"{earlier}: remove it, use --held-out again, or choose another name")
    follows, words = options["vocabulary_from"] is not None, options.pop("words")
    if follows and (typed := typed_flags(("held_out", *WORDS))):
        raise click.UsageError(f"--vocabulary-from uses the settings of that corpus: remove {typed}")
    options |= {"settings": None if follows else words, "reading": source.reading, "on_error": source.on_error}
    context, resume_hint = click.get_current_context(), "; run the same command to continue"
    context.meta["remains"] = f"; nothing was written{'' if cluster.is_local else resume_hint}"
    with cluster.client() as client, console.ingest_progress(quiet=options.pop("quiet")) as progress:
        report = sdem_dist.ingest(list(map(place, paths)), corpus, progress=progress, client=client, **options)
    del context.meta["remains"]
    written = sdem_dist.open_corpus(report.path)
    console.warn_of_single_labels(written)
    sets, labels = written.header.label_sets, counted(len(report.classes), "class", "classes")
    if not report.classes:
        labels = "targets" if written.header.n_targets else "no labels"
    elif sets is not None:
        labels = f"{counted(len(set().union(*sets)), 'label')} in {counted(len(sets), 'label set')}"
    if hidden := console.without_label(written):
        labels += f", {counted(hidden, 'document')} without a label"
    terms = f"{counted(report.n_features, 'feature')}, {counted(report.n_nonzeros, 'nonzero')}"
    console.say(f"{report.path}: {counted(report.n_documents, 'document')}, {labels}, {terms} ({report.seconds:.1f} s)")
    if report.held_out_path is not None:
        console.say(f"{report.held_out_path}: {counted(report.n_held_out, 'held-out document')}")
    if report.n_empty == report.n_documents:
        click.echo("Warning: no document contains a known word: check the text column and --vocabulary-from", err=True)
    elif report.n_empty:
        click.echo(f"documents without words: {report.n_empty:,}")
    if report.first_column is not None:
        other = ", since no column is 0; if column 0 is empty, use --first-column 0" if report.first_column else ""
        click.echo(f"columns are numbered from {report.first_column}{other}")
    console.say_left_out(report.n_skipped, report.skipped_examples)
    if not follows:  # a test set may have a single document per class
        console.warn_of_many_classes(written, source.reading.label)
