"""Options of sources and of text, which commands that read sources share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import click

from sdem_dist.cli.parameters import Lengths, Share, StopWords
from sdem_dist.storage.numbers import JsonObject

if TYPE_CHECKING:
    from sdem_dist.text import Reading, VectorizerSettings

Command = TypeVar("Command", bound=Callable[..., Any])

READING = (
    "format",
    "label",
    "label_separator",
    "unlabelled",
    "text",
    "id",
    "group",
    "weight",
    "zero_based",
    "encoding",
)
SPLITTING = ("analyzer", "token_pattern", "ngram_range", "stem", "stop_words", "strip_accents", "lowercase")
CHOOSING = ("min_df", "max_df", "max_features", "n_features")


def format_option(*names: str) -> Callable[[Command], Command]:
    """Return the option that names the format of sources, of those that a command reads."""
    return click.option(
        "--format", "format", type=click.Choice(names), help="Format of the sources.  [default: by suffix]"
    )


HOW_READ = (
    click.option("--encoding", default="utf-8", show_default=True, help="Encoding of text."),
    click.option(
        "--on-error",
        type=click.Choice(["raise", "skip"]),
        default="raise",
        show_default=True,
        help="Stop at a line that is not a document, or leave it out and count it.",
    ),
)
"""Options of every command that reads sources."""
_READING = (
    format_option("folder", "tsv", "csv", "jsonl", "parquet", "svmlight"),
    click.option(
        "--label", metavar="COLUMN", help="Column of the label: a name, or a number from 0 in a .tsv or .txt."
    ),
    click.option(
        "--label-separator",
        metavar="TEXT",
        help="What stands between the labels of a document, which may have several or none. Give it for lists in JSON, too.",
    ),
    click.option(
        "--unlabelled",
        metavar="LABEL",
        help="The label that stands for none, '' for an empty one: such documents, and those whose label is empty or null, "
        "have no label.",
    ),
    click.option(
        "--text",
        metavar="COLUMN",
        help="Column of the text: a name, or a number.  [default: label and text, or 0 and 1]",
    ),
    click.option("--id", metavar="COLUMN", help="Column of the documents' ids.  [default: their positions]"),
    click.option("--group", metavar="COLUMN", help="Column of what folds keep together, such as an author."),
    click.option("--weight", metavar="COLUMN", help="Column of the documents' weights in training."),
    click.option(
        "--first-column",
        "zero_based",
        callback=lambda context, option, value: {"0": True, "1": False}.get(value, value),
        type=click.Choice(["auto", "0", "1"]),
        default="auto",
        show_default=True,
        help="Number of the first column of svmlight.",
    ),
    *HOW_READ,
)
_WORDS = (
    click.option(
        "--analyzer",
        type=click.Choice(["word", "char", "char_wb"]),
        default="word",
        show_default=True,
        help="Count words, pieces of characters, or pieces within words.",
    ),
    click.option("--token-pattern", metavar="REGEX", help=r"What a word is.  [default: two or more of \w]"),
    click.option(
        "--ngrams",
        "ngram_range",
        type=Lengths(),
        default="1,1",
        show_default=True,
        help="Lengths of sequences to count.",
    ),
    click.option("--stem", metavar="LANGUAGE", help="Stem words: english, porter, german, ... (needs PyStemmer)."),
    click.option(
        "--stop-words",
        type=StopWords(),
        help="Words to leave out: a list of English, or a file.",
    ),
    click.option("--strip-accents", type=click.Choice(["ascii", "unicode"]), help="Remove accents."),
    click.option("--keep-case", "lowercase", flag_value=False, default=True, help="Do not turn text to lower case."),
    click.option(
        "--min-df", type=Share(), default="1", show_default=True, help="Words in fewer documents are left out."
    ),
    click.option(
        "--max-df", type=Share(), default="1.0", show_default=True, help="Words in more documents are left out."
    ),
    click.option("--max-features", type=click.IntRange(1), metavar="N", help="Keep the N most frequent words."),
    click.option(
        "--hashing",
        "n_features",
        type=click.IntRange(1),
        metavar="N",
        help="Hash words to N columns; keeps no vocabulary.",
    ),
)


class SectionedCommand(click.Command):
    """A command whose help shows its options in sections."""

    sections: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Titles, and the options under them by name; those that are named nowhere come first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        records = {p.name: p.get_help_record(ctx) for p in self.get_params(ctx)}
        named = {name for names in self.sections.values() for name in names}
        rest = tuple(str(name) for name in records if name not in named)
        for title, names in {"Options": rest, **self.sections}.items():
            found = [record for name in names if (record := records.get(name)) is not None]
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)


def reading_options(command: Command) -> Command:
    """Add the options of sources."""
    for option in reversed(_READING):
        command = option(command)
    return command


def text_options(command: Command) -> Command:
    """Add the options of how text becomes words, and which words count."""
    for option in reversed(_WORDS):
        command = option(command)
    return command


def taken_reading(options: dict[str, Any]) -> Reading:
    """Take the options of `reading_options` but ``on_error`` out of others, and return their settings."""
    from sdem_dist.text import Reading

    return Reading(**{name: options.pop(name) for name in READING})


def taken_settings(options: dict[str, Any]) -> VectorizerSettings:
    """Take the options of `text_options` out of others, and return their settings; ValueError if they conflict."""
    from sdem_dist.text import VectorizerSettings

    given = {name: value for name in (*SPLITTING, *CHOOSING) if (value := options.pop(name)) is not None}
    kind: JsonObject = {"kind": "hashing"} if "n_features" in given else {}
    return VectorizerSettings(**given, **kind)


def given_options(names: tuple[str, ...]) -> list[str]:
    """Return those of some options that were given on the command line, as they are written."""
    context = click.get_current_context()
    return [
        p.opts[0]
        for p in context.command.params
        if p.name in names and context.get_parameter_source(p.name) is click.core.ParameterSource.COMMANDLINE
    ]


def by_options(message: str) -> str:
    """Return a message about settings with the names of options; settings of one word are named first in it."""
    for parameter in click.get_current_context().command.params:
        setting = str(parameter.name)
        found = rf"\b{setting}\b" if "_" in setting else rf"^{setting}\b"
        message = re.sub(found, parameter.opts[0], message)
    return message
