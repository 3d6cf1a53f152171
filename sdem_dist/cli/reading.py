"""Options of how sources are read and how their text becomes words: `sdem help reading` explains them once."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import click

from sdem_dist.cli.parameters import Option, filling, option, parse_lengths, parse_share, read_stop_words
from sdem_dist.compat import import_scikit_learn

if TYPE_CHECKING:
    from sdem_dist.text import Reading, VectorizerSettings

HELP = """How sources are read, for all commands that take a SOURCE or CORPUS.

A source is a folder of text files by class, or a file: .txt or .tsv (label TAB text), .csv, .jsonl, .parquet, or .svm
(svmlight); text also as .gz, .xz or .zst. A column of .csv, .jsonl and .parquet is a name, of .tsv a number from 0.

Options of labels are for commands that read labels, options of words for those that count words: ingest, train, tune
and suspects. Other commands count words as the model does."""
_option = partial(option, hidden=True)  # one that `sdem help reading` explains


def format_option(*names: str) -> Option:
    return _option("--format", list(names), "Format of the sources.  [default: by suffix]")


HOW_READ = (
    _option(
        "--delimiter",
        "TEXT",
        r"What stands between columns of .csv, or of .tsv with a header; \t is a TAB.  [default: by the header]",
        callback=lambda context, option, value: value and value.replace("\\t", "\t"),
    ),
    _option(
        "--header/--no-header",
        None,
        "Whether the first line names the columns; without names they are numbers from 0.  [default: of .csv alone]",
    ),
    _option("--encoding", "TEXT", "Encoding of text.", "utf-8"),
    _option("--on-error", ["raise", "skip"], "Stop at a bad line, or leave it out and count it.", "raise"),
)
"""Options of every command that reads sources."""
_READING = (
    format_option("lines", "folder", "tsv", "csv", "jsonl", "parquet", "svmlight"),
    _option("--label", "COLUMN", "Column of the label.  [default: label, or 0]"),
    _option(
        "--label-separator", "TEXT", "What stands between the labels of a document, if it may have several or none."
    ),
    _option(
        "--unlabelled",
        "LABEL",
        "The label that means none, '' for an empty one. Such documents, and those whose label is empty or null, are "
        "unlabelled.",
    ),
    _option("--no-labels labelled", None, "Documents have no labels, as lines have none.", True, flag_value=False),
    _option("--text", "COLUMN", "Column of the text, or several: title,body.  [default: text, or 1]"),
    _option("--id", "COLUMN", "Column of the documents' ids.  [default: their positions]"),
    _option("--group", "COLUMN", "Column of what folds keep together, such as an author."),
    _option("--weight", "COLUMN", "Column of the documents' weights in training."),
    _option(
        "--first-column zero_based",
        ["auto", "0", "1"],
        "Number of the first column of svmlight.",
        "auto",
        callback=lambda context, option, value: {"0": True, "1": False}.get(value, value),
    ),
    *HOW_READ,
)
_WORDS = (
    _option(
        "--analyzer", ["word", "char", "char_wb"], "Count words, n-grams of characters, or such within words.", "word"
    ),
    _option("--token-pattern", "REGEX", r"What a word is.  [default: two or more of \w]"),
    _option("--ngrams ngram_range", parse_lengths, "Lengths of n-grams.", "1,1", metavar="MIN,MAX"),
    _option("--stem", "LANGUAGE", "Stem words: english, porter, german, ... (needs PyStemmer)."),
    _option(
        "--stop-words", read_stop_words, "Words to leave out: a list of English, or a file.", metavar="english|FILE"
    ),
    _option("--strip-accents", ["ascii", "unicode"], "Remove accents."),
    _option("--keep-case lowercase", None, "Do not turn text to lower case.", True, flag_value=False),
    _option("--min-df", parse_share, "Leave out words in fewer documents.", "1", metavar="NUMBER"),
    _option("--max-df", parse_share, "Leave out words in more documents.", "1.0", metavar="NUMBER"),
    _option("--max-features", 1, "Keep the N most frequent words."),
    _option("--hashing n_features", 1, "Hash words to N columns; keeps no vocabulary."),
)
READING, WORDS = ([str(o.name) for o in options] for options in (_READING, _WORDS))
"""Names of options: fields of `sdem_dist.text.Reading`, and ``on_error``; fields of `VectorizerSettings`."""


@dataclass(frozen=True)
class Source:
    """How sources are read."""

    reading: Reading
    on_error: Literal["raise", "skip"]


def _source(on_error: Literal["raise", "skip"], **fields: Any) -> Source:
    import_scikit_learn()  # before text imports scipy, which would import more
    from sdem_dist.text import Reading

    return Source(Reading(**fields), on_error)


def _words(**fields: Any) -> VectorizerSettings:
    import_scikit_learn()
    from sdem_dist.text import VectorizerSettings

    fields = {name: value for name, value in fields.items() if value is not None}
    fields["kind"] = "hashing" if "n_features" in fields else "count"
    return VectorizerSettings(**fields)


reading_options = partial(filling, "source", _source)
"""Add options of reading, of which the command gets a `Source`."""
source_options, words_options = reading_options(_READING), filling("words", _words, _WORDS)


class SourceCommand(click.Command):
    """A command whose help names the options of sources; `sdem help reading` explains them."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        flags = [p.opts[0] for p in self.params if isinstance(p, click.Option) and p.hidden]
        with formatter.section("How sources are read (sdem help reading)"):
            formatter.write_text(", ".join(flags))


def typed_options(names: Iterable[str]) -> str:
    """Return those of some options that were typed, with commas between them."""
    context, source = click.get_current_context(), click.core.ParameterSource.COMMANDLINE
    options = {p.name: p.opts[0] for p in context.command.params if context.get_parameter_source(str(p.name)) is source}
    return ", ".join(options[name] for name in names if name in options)


@click.command()
@click.argument("topic", required=False)
@click.pass_context
def help_command(ctx: click.Context, topic: str | None) -> None:
    """Explain TOPIC: a command, or reading, the options of sources."""
    if topic == "reading":
        formatter = ctx.make_formatter()
        formatter.write_text(HELP)
        for title, options in (("Reading", _READING), ("Words", _WORDS)):
            records = []
            for hidden in options:
                explained = copy(hidden)
                explained.hidden = False
                records.append(explained.get_help_record(ctx) or ("", ""))
            with formatter.section(title):
                formatter.write_dl(records)
        click.echo(formatter.getvalue(), nl=False)
        return
    parent: Any = ctx.parent
    command = parent.command if topic is None else parent.command.get_command(parent, topic)
    if command is None:
        raise click.UsageError(f"{topic!r} is neither a command nor reading")
    click.echo(command.get_help(parent if topic is None else click.Context(command, info_name=topic, parent=parent)))
