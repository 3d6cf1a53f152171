"""``sdem ingest``: from text, tables or matrices to a corpus."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from sdem_dist.cli.ingest_report import show_report, shown_progress
from sdem_dist.cli.parameters import Lengths, LocalPath, Share, StopWords
from sdem_dist.errors import SdemError
from sdem_dist.storage.numbers import JsonObject

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

READING = ("format", "label", "text", "labels_file", "zero_based", "encoding")
SPLITTING = ("analyzer", "token_pattern", "ngram_range", "stem", "stop_words", "strip_accents", "lowercase")
CHOOSING = ("min_df", "max_df", "max_features", "n_features")
SECTIONS = {
    "Reading": (*READING, "targets", "on_error"),
    "From text to words": SPLITTING,
    "Which words": (*CHOOSING, "vocabulary_from"),
    "Writing": ("held_out", "shard_documents", "random_state", "n_jobs", "keep_text", "overwrite", "help"),
}


class SectionedCommand(click.Command):
    """A command whose help shows its options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        records = {p.name: p.get_help_record(ctx) for p in self.get_params(ctx)}
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([record for name in names if (record := records.get(name)) is not None])


@click.command(cls=SectionedCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", type=LocalPath())
@click.argument("corpus", metavar="CORPUS")
@click.option(
    "--format",
    "format",
    type=click.Choice(["folder", "tsv", "csv", "jsonl", "parquet", "svmlight", "npz"]),
    help="Format of the sources.  [default: by suffix]",
)
@click.option("--label", metavar="COLUMN", help="Column of the label: a name, or a number from 0 in a .tsv or .txt.")
@click.option("--text", metavar="COLUMN", help="Column of the text, likewise.  [default: label and text, or 0 and 1]")
@click.option("--labels-file", type=LocalPath(), help="Labels of an .npz matrix, one a line, or .npy.")
@click.option(
    "--first-column",
    "zero_based",
    callback=lambda context, option, value: {"0": True, "1": False}.get(value, value),
    type=click.Choice(["auto", "0", "1"]),
    default="auto",
    show_default=True,
    help="Number of the first column of svmlight.",
)
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of text.")
@click.option(
    "--on-error",
    type=click.Choice(["raise", "skip"]),
    default="raise",
    show_default=True,
    help="Stop at a line that is no document, or leave it out and count it.",
)
@click.option(
    "--analyzer",
    type=click.Choice(["word", "char", "char_wb"]),
    default="word",
    show_default=True,
    help="Count words, pieces of characters, or pieces within words.",
)
@click.option("--token-pattern", metavar="REGEX", help=r"What a word is.  [default: two or more of \w]")
@click.option(
    "--ngrams", "ngram_range", type=Lengths(), default="1,1", show_default=True, help="Lengths of sequences to count."
)
@click.option("--stem", metavar="LANGUAGE", help="Stem words: english, porter, german, ... (needs PyStemmer).")
@click.option(
    "--stop-words",
    type=StopWords(),
    help="Words to leave out: a list of English, or a file.",
)
@click.option("--strip-accents", type=click.Choice(["ascii", "unicode"]), help="Remove accents.")
@click.option("--keep-case", "lowercase", flag_value=False, default=True, help="Do not turn text to lower case.")
@click.option("--min-df", type=Share(), default="1", show_default=True, help="Words in fewer documents are left out.")
@click.option("--max-df", type=Share(), default="1.0", show_default=True, help="Words in more documents are left out.")
@click.option("--max-features", type=click.IntRange(1), metavar="N", help="Keep the N most frequent words.")
@click.option(
    "--hashing", "n_features", type=click.IntRange(1), metavar="N", help="Hash words to N columns; keeps no vocabulary."
)
@click.option(
    "--vocabulary-from",
    metavar="CORPUS",
    help="For test sets: settings, words and classes of another corpus. Documents keep their order.",
)
@click.option("--targets", is_flag=True, help="The labels are numbers to be predicted, such as ratings.")
@click.option(
    "--held-out", type=float, default=0.0, metavar="FRACTION", help="Put so many documents into CORPUS-held-out."
)
@click.option("--shard-documents", type=click.IntRange(1), metavar="N", help="Documents in a shard.")
@click.option(
    "--seed", "random_state", type=int, default=0, show_default=True, help="Decides the order and what is held out."
)
@click.option(
    "--jobs", "n_jobs", type=click.IntRange(1), metavar="N", help="Threads that count words.  [default: all cores]"
)
@click.option("--keep-text", is_flag=True, help="Store the texts, too, compressed.")
@click.option("--overwrite", is_flag=True, help="Replace a corpus that exists.")
def ingest(sources: tuple[Path, ...], corpus: str, **options: Any) -> None:
    """Read SOURCES and write them as one CORPUS.

    A source is a folder of text files by class, or a file: .txt or .tsv (label TAB text), .csv, .jsonl, .parquet,
    .svm (svmlight) or .npz (a SciPy CSR matrix); text also as .gz, .xz or .zst. Nothing is written until all is read.
    """
    from sdem_dist import text

    beside = f"{corpus.rstrip('/')}-held-out"
    if not options["held_out"] and Path(beside).exists():
        raise click.ClickException(
            f"{beside} was held out from an earlier {corpus}, and its documents may be in the new one: remove it, hold "
            "documents out anew with --held-out, or choose another name"
        )
    try:
        if options["vocabulary_from"] is not None:
            _refuse_settings()
        reading = text.Reading(**{name: options.pop(name) for name in READING})
        given = {name: value for name in (*SPLITTING, *CHOOSING) if (value := options.pop(name)) is not None}
        kind: JsonObject = {"kind": "hashing"} if "n_features" in given else {}
        settings = text.VectorizerSettings(**given, **kind) if options["vocabulary_from"] is None else None
        with shown_progress() as progress:
            report = text.ingest(list(sources), corpus, settings, reading=reading, progress=progress, **options)
    except SdemError:
        raise
    except ValueError as error:
        raise click.UsageError(_by_options(str(error))) from error
    except KeyboardInterrupt:
        click.echo("Interrupted; nothing was written.", err=True)
        raise SystemExit(130) from None
    show_report(report)


def _by_options(message: str) -> str:
    """Return a message about settings with the names of options; settings of one word are named first in it."""
    for parameter in click.get_current_context().command.params:
        setting = str(parameter.name)
        found = rf"\b{setting}\b" if "_" in setting else rf"^{setting}\b"
        message = re.sub(found, parameter.opts[0], message)
    return message


def _refuse_settings() -> None:
    """Refuse options that --vocabulary-from decides."""
    context = click.get_current_context()
    given = [
        p.opts[0]
        for p in context.command.params
        if p.name in ("held_out", *SPLITTING, *CHOOSING)
        and context.get_parameter_source(p.name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise ValueError(
            f"--vocabulary-from takes over the settings of that corpus, so {', '.join(given)} cannot be given"
        )
