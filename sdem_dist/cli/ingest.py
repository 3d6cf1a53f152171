"""``sdem ingest``: from text, tables or matrices to a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sdem_dist
from sdem_dist.cli import console
from sdem_dist.cli.cluster import ClusterOptions, cluster_options
from sdem_dist.cli.options import WORDS, Place, Source, SourceCommand, option, source_options, typed_flags, word_options
from sdem_dist.cli.sources import spool_stdin
from sdem_dist.counted import counted, visible
from sdem_dist.storage.buckets import place

if TYPE_CHECKING:
    pass

EPILOG = """\b
Examples:
  sdem ingest reviews.tsv reviews.zarr
      lines of "label TAB text"
  sdem ingest news/ news.zarr --held-out 0.2 --stem english --min-df 2
      a folder with one sub-folder of text files for each class;
      a fifth of the documents goes to news.zarr-held-out
  sdem ingest imdb-train.tsv.xz imdb.zarr --label 0 --text 3
      a table without header: columns are numbers from 0
  sdem ingest imdb-test.tsv.xz imdb-test.zarr --label 0 --text 3 --vocabulary-from imdb.zarr
      the test documents, with the words of the training corpus
  sdem ingest posts.jsonl.zst posts.zarr --label topic --text body
      JSON Lines, CSV and Parquet: columns are names
"""


@click.command(cls=SourceCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", type=Place(allow_dash=True))
@click.argument("corpus", metavar="CORPUS")
@source_options
@word_options
@option("--vocabulary-from", "CORPUS", "For test sets: settings, words and classes of another corpus, in their order.")
@option("--targets", None, "The labels are numbers to be predicted, such as ratings.")
@option("--held-out", float, "Put this share of the documents into CORPUS-held-out.", default=0.0, metavar="FRACTION")
@option("--shard-documents", 1, "Documents in a shard.")
@option("--seed random_state", int, "Decides the order and what is held out.", default=0)
@option("--jobs n_jobs", 1, "Threads that count words.  [default: all cores]")
@option("--keep-text", None, "Store the texts, too, compressed.")
@option("--quiet", None, "No progress.")
@option("--overwrite", None, "Replace a corpus that exists.")
@cluster_options
def ingest(sources: tuple[Path, ...], corpus: str, source: Source, cluster: ClusterOptions, **options: Any) -> None:
    """Read SOURCES and write them as one CORPUS.

    A source is a folder of text files by class, or a file: .txt or .tsv (label TAB text), .csv, .jsonl, .parquet,
    or .svm (svmlight); text also as .gz, .xz or .zst. Nothing is written until all is read.
    """
    paths = spool_stdin(list(map(str, sources)), source.reading.format)
    for name, flag in (("keep_text", "--keep-text"), ("n_jobs", "--jobs")):
        if options[name] and not cluster.is_local:
            raise click.UsageError(f"{flag} is for threads of this process, not for workers")
    beside = f"{corpus.rstrip('/')}-held-out"
    if not options["held_out"] and place(beside).exists():
        raise click.ClickException(
            f"{beside} was held out from an earlier {corpus}, and its documents may be in the new one: remove it, hold "
            "documents out anew with --held-out, or choose another name"
        )
    follows = options["vocabulary_from"] is not None
    if follows and (typed := typed_flags(("held_out", *WORDS))):
        raise click.UsageError(f"--vocabulary-from takes over the settings of that corpus, so {typed} cannot be given")
    words = options.pop("words")
    options |= {"settings": None if follows else words, "reading": source.reading, "on_error": source.on_error}
    resume_hint = "" if cluster.is_local else "; the same command goes on with what was counted"
    with (
        console.say_what_remains(f"nothing was written{resume_hint}"),
        cluster.client() as client,
        console.ingest_progress(quiet=options.pop("quiet")) as progress,
    ):
        report = sdem_dist.ingest(list(map(place, paths)), corpus, progress=progress, client=client, **options)
    written = sdem_dist.open_corpus(report.path)
    console.warn_of_single_labels(written)
    sets = written.header.label_sets
    if not report.classes:
        labels = "targets" if written.header.n_targets else "no labels"
    elif sets is None:
        labels = counted(len(report.classes), "class", "classes")
    else:
        labels = f"{counted(len({x for members in sets for x in members}), 'label')} in {counted(len(sets), 'set')}"
    if hidden := console.without_label(written):
        labels += f", {counted(hidden, 'document')} without a label"
    terms = f"{counted(report.n_features, 'feature')}, {counted(report.n_nonzeros, 'nonzero')}"
    console.say(f"{report.path}: {counted(report.n_documents, 'document')}, {labels}, {terms} ({report.seconds:.1f} s)")
    if report.held_out_path is not None:
        console.say(f"{report.held_out_path}: {counted(report.n_held_out, 'document')} held out")
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
    if not follows:  # a test set may have one document of each class
        console.warn_of_many_classes(written, source.reading.label)
