"""Options of how sources are read and how their text becomes words: `sdem help reading` explains them once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sdem_dist.cli.parameters import LENGTHS, SHARE, STOP_WORDS, option, with_options
from sdem_dist.compat import import_scikit_learn
from sdem_dist.errors import SdemError

if TYPE_CHECKING:
    from sdem_dist.text import Reading, VectorizerSettings


Command = TypeVar("Command", bound=Callable[..., Any])
FORMATS = ("folder", "tsv", "csv", "jsonl", "parquet", "svmlight")
HELP = """How sources are read, for all commands that take a SOURCE or CORPUS.

A source is a folder of text files by class, or a file: .txt or .tsv (label TAB text), .csv, .jsonl, .parquet, or .svm
(svmlight); text also as .gz, .xz or .zst. A column of .csv, .jsonl and .parquet is a name, of .tsv a number from 0.

Options of labels are for commands that read labels, options of words for those that count words: ingest, train, tune
and suspects. Other commands count words as the model does."""


_option = partial(option, hidden=True)  # one that `sdem help reading` explains


def format_option(*names: str) -> Callable[[Command], Command]:
    decorate: Callable[[Command], Command] = _option(
        "--format", list(names), "Format of the sources.  [default: by suffix]"
    )
    return decorate


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
    format_option("lines", *FORMATS),
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
    _option("--ngrams ngram_range", LENGTHS, "Lengths of n-grams.", "1,1"),
    _option("--stem", "LANGUAGE", "Stem words: english, porter, german, ... (needs PyStemmer)."),
    _option("--stop-words", STOP_WORDS, "Words to leave out: a list of English, or a file."),
    _option("--strip-accents", ["ascii", "unicode"], "Remove accents."),
    _option("--keep-case lowercase", None, "Do not turn text to lower case.", True, flag_value=False),
    _option("--min-df", SHARE, "Leave out words in fewer documents.", "1"),
    _option("--max-df", SHARE, "Leave out words in more documents.", "1.0"),
    _option("--max-features", 1, "Keep the N most frequent words."),
    _option("--hashing n_features", 1, "Hash words to N columns; keeps no vocabulary."),
)


reading_options, text_options = with_options(_READING), with_options(_WORDS)


READING, WORDS = (
    tuple(p.name for p in reversed(with_options(rows)(lambda: None).__click_params__) if p.name != "on_error")  # type: ignore[attr-defined]
    for rows in (_READING, _WORDS)
)
"""Names of settings: the fields of `sdem_dist.text.Reading`, and those of `sdem_dist.text.VectorizerSettings`."""


class SourceCommand(click.Command):
    """A command whose help names the options of sources; `sdem help reading` explains them."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        flags = [p.opts[0] for p in self.params if isinstance(p, click.Option) and p.hidden]
        with formatter.section("How sources are read (sdem help reading)"):
            formatter.write_text(", ".join(flags))


def reading_help(ctx: click.Context) -> str:
    """Return what `sdem help reading` prints."""
    formatter = ctx.make_formatter()
    formatter.write_text(HELP)
    for title, options in (("Reading", _READING), ("Words", _WORDS)):
        command: Any = with_options(options)(lambda: None)
        records = []
        for parameter in reversed(command.__click_params__):
            parameter.hidden = False
            records.append(parameter.get_help_record(ctx))
        with formatter.section(title):
            formatter.write_dl(records)
    return formatter.getvalue()


def pop_reading(options: dict[str, Any]) -> Reading:
    """Take the options of `reading_options` but ``on_error`` out of others, and return their settings."""
    import_scikit_learn()  # before text imports scipy, which would import more
    from sdem_dist.text import Reading

    return Reading(**{name: options.pop(name) for name in READING})


def pop_words(options: dict[str, Any]) -> VectorizerSettings:
    """Take the options of `text_options` out of others, and return their settings; ValueError if they conflict."""
    from sdem_dist.text import VectorizerSettings

    settings = {name: value for name in WORDS if (value := options.pop(name)) is not None}
    kind: dict[str, Any] = {"kind": "hashing"} if "n_features" in settings else {}
    return VectorizerSettings(**settings, **kind)


def typed_options(names: Iterable[str | None]) -> list[str]:
    context, names = click.get_current_context(), set(names)
    source = click.core.ParameterSource.COMMANDLINE
    return [
        p.opts[0] for p in context.command.params if p.name in names and context.get_parameter_source(p.name) is source
    ]


@contextmanager
def option_errors() -> Iterator[None]:
    """Turn mistakes in settings into ones in options."""
    try:
        yield
    except SdemError:  # of the documents
        raise
    except ValueError as error:
        raise click.UsageError(by_options(str(error))) from error


def by_options(message: str) -> str:
    """Return a message about settings with the names of options; settings of one word are named first in it."""
    for parameter in click.get_current_context().command.params:
        setting = str(parameter.name)
        pattern = rf"\b{setting}\b" if "_" in setting else rf"^{setting}\b"
        message = re.sub(pattern, parameter.opts[0], message)
    return message


@click.command()
@click.argument("topic", required=False)
@click.pass_context
def help_command(ctx: click.Context, topic: str | None) -> None:
    """Explain TOPIC: a command, or reading, the options of sources."""
    if topic == "reading":
        click.echo(reading_help(ctx), nl=False)
        return
    parent = ctx.parent
    assert parent is not None
    assert isinstance(parent.command, click.Group)
    command = parent.command if topic is None else parent.command.get_command(parent, topic)
    if command is None:
        raise click.UsageError(f"{topic!r} is neither a command nor reading")
    click.echo(command.get_help(parent if topic is None else click.Context(command, info_name=topic, parent=parent)))
