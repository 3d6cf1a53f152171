"""``sdem ingest``: from text, tables or matrices to a corpus."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdem_dist.cli.ingest_report import show_report, shown_progress
from sdem_dist.cli.parameters import Lengths, LocalPath, Share
from sdem_dist.errors import SdemError
from sdem_dist.storage.numbers import JsonObject

if TYPE_CHECKING:
    from sdem_dist.text import VectorizerSettings

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

SECTIONS = {
    "Reading": ("form", "label", "text", "labels_file", "targets", "first_column", "encoding", "on_error"),
    "From text to words": ("analyzer", "token_pattern", "ngrams", "stem", "stop_words", "strip_accents", "keep_case"),
    "Which words": ("min_df", "max_df", "max_features", "hashing", "vocabulary_from"),
    "Writing": ("held_out", "shard_documents", "seed", "jobs", "overwrite", "help"),
}


RENAMED = {"ngrams": "ngram_range", "keep_case": "lowercase"}
"""Options whose settings have other names."""


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
    "form",
    type=click.Choice(["folder", "tsv", "csv", "jsonl", "parquet", "svmlight", "npz"]),
    help="Format of the sources.  [default: by suffix]",
)
@click.option("--label", metavar="COLUMN", help="Column of the label: a name, or a number from 0 in a .tsv or .txt.")
@click.option("--text", metavar="COLUMN", help="Column of the text, likewise.  [default: label and text, or 0 and 1]")
@click.option("--labels-file", type=LocalPath(), help="Labels of an .npz matrix, one a line, or .npy.")
@click.option(
    "--first-column",
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
@click.option("--ngrams", type=Lengths(), default="1,1", show_default=True, help="Lengths of sequences to count.")
@click.option("--stem", metavar="LANGUAGE", help="Stem words: english, porter, german, ... (needs PyStemmer).")
@click.option("--stop-words", metavar="english|FILE", help="Words to leave out: a list of English, or a file of words.")
@click.option("--strip-accents", type=click.Choice(["ascii", "unicode"]), help="Remove accents.")
@click.option("--keep-case", is_flag=True, help="Do not turn text to lower case.")
@click.option("--min-df", type=Share(), default="1", show_default=True, help="Words in fewer documents are left out.")
@click.option("--max-df", type=Share(), default="1.0", show_default=True, help="Words in more documents are left out.")
@click.option("--max-features", type=click.IntRange(1), metavar="N", help="Keep the N most frequent words.")
@click.option("--hashing", type=click.IntRange(1), metavar="N", help="Hash words to N columns; keeps no vocabulary.")
@click.option(
    "--vocabulary-from",
    metavar="CORPUS",
    help="For test sets: settings, words and classes of another corpus. Documents keep their order.",
)
@click.option("--targets", is_flag=True, help="The labels are numbers to be predicted, such as ratings.")
@click.option("--held-out", type=float, metavar="FRACTION", help="Put so many documents into CORPUS-held-out.")
@click.option("--shard-documents", type=click.IntRange(1), metavar="N", help="Documents in a shard.")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides the order and what is held out.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes that count words.  [default: all cores]")
@click.option("--overwrite", is_flag=True, help="Replace a corpus that exists.")
def ingest(sources: tuple[Path, ...], corpus: str, **options: Any) -> None:
    """Read SOURCES and write them as one CORPUS.

    A source is a folder of text files by class, or a file: .txt or .tsv (label TAB text), .csv, .jsonl, .parquet,
    .svm (svmlight) or .npz (a SciPy CSR matrix); text also as .gz, .xz or .zst. Nothing is written until all is read.
    """
    from sdem_dist import text

    reference, fraction = options["vocabulary_from"], options["held_out"] or 0.0
    beside = f"{corpus.rstrip('/')}-held-out"
    if not fraction and Path(beside).exists():
        raise click.ClickException(
            f"{beside} was held out from an earlier {corpus}, and its documents may be in the new one: remove it, hold "
            "documents out anew with --held-out, or choose another name"
        )
    try:
        if reference is not None:
            _refuse_settings()
        settings = _settings(options) if reference is None else None
        reading = text.Reading(
            format=options["form"],
            label=options["label"],
            text=options["text"],
            encoding=options["encoding"],
            labels_file=options["labels_file"],
            zero_based="auto" if options["first_column"] == "auto" else options["first_column"] == "0",
        )
        with shown_progress() as progress:
            report = text.ingest(
                list(sources),
                corpus,
                settings,
                reading=reading,
                held_out=fraction,
                vocabulary_from=reference,
                targets=options["targets"],
                on_error=options["on_error"],
                n_jobs=options["jobs"],
                random_state=options["seed"],
                shard_documents=options["shard_documents"],
                overwrite=options["overwrite"],
                progress=progress,
            )
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
        setting = RENAMED.get(parameter.name or "", parameter.name)
        found = rf"\b{setting}\b" if "_" in str(setting) else rf"^{setting}\b"
        message = re.sub(found, parameter.opts[0], message)
    return message


def _settings(options: JsonObject) -> VectorizerSettings:
    from sdem_dist.text import VectorizerSettings

    alike = ["analyzer", "stem", "strip_accents", "min_df", "max_df", "max_features"]
    given: JsonObject = {name: options[name] for name in alike}
    if options["token_pattern"] is not None:
        given["token_pattern"] = options["token_pattern"]
    if options["hashing"] is not None:
        given |= {"kind": "hashing", "n_features": options["hashing"]}
    stop_words = options["stop_words"]
    if stop_words is not None and stop_words != "english":
        try:
            stop_words = tuple(Path(stop_words).read_text("utf-8").split())
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                f"--stop-words is english or a file of words, and {stop_words} is not one: {error}"
            ) from error
    return VectorizerSettings(
        lowercase=not options["keep_case"], ngram_range=options["ngrams"], stop_words=stop_words, **given
    )


def _refuse_settings() -> None:
    """Refuse options that --vocabulary-from decides."""
    context = click.get_current_context()
    of_words = (*SECTIONS["From text to words"], *SECTIONS["Which words"])
    decided = {"held_out", *of_words} - {"vocabulary_from"}
    given = [
        p.opts[0]
        for p in context.command.params
        if p.name in decided and context.get_parameter_source(p.name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise ValueError(
            f"--vocabulary-from takes over the settings of that corpus, so {', '.join(given)} cannot be given"
        )
