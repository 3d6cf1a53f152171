"""Options and their values; reader options, which `sdem help reading` explains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial, reduce, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from sdem_dist.compat import import_scikit_learn
from sdem_dist.counted import nearest
from sdem_dist.errors import SdemError
from sdem_dist.storage.buckets import is_url, place, refuse_url

if TYPE_CHECKING:
    from sdem_dist.text import Reading, VectorizerSettings

HELP = """Reader options, for all commands that read a SOURCE or CORPUS.

A source is a folder (with a subfolder per class) or a file: .txt or .tsv (label TAB text), .csv, .jsonl, .parquet, or
.svm (svmlight). Text files may be compressed (.gz, .xz, .zst). Specify columns by name; without a header, by number (0, ...).

Label options apply to commands that read labels, and word options to ingest, train, tune and suspects. Other commands
use the tokenization of the model."""


class Option(click.Option):
    """A decorator that adds an option to a command; several commands may share it."""

    def __call__(self, command: Any) -> Any:
        command.__click_params__ = [*getattr(command, "__click_params__", ()), self]
        return command


class Choice(click.Choice[str]):
    """Choices; the error for another value suggests similar ones."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return f"{value!r} is not one of {', '.join(map(repr, self.choices))}. {nearest(value, self.choices)}".rstrip()


def option(flags: str, kind: object, text: str, default: object = None, **more: Any) -> Option:
    """Return an option; `kind`: a type, the least whole number, the name of a text, choices, or None for a flag."""
    if kind is None:
        more["is_flag"] = True
        if "/" in flags:
            more["default"] = None  # neither flag was given
    elif isinstance(kind, int):
        more = {"type": click.IntRange(kind), "metavar": "N", **more}
    elif isinstance(kind, str):
        more = {"metavar": kind, **more}
    else:
        more["type"] = Choice(kind, case_sensitive=False) if isinstance(kind, list) else kind
    if default is not None:
        more |= {"default": default, "show_default": kind is not None}
    return Option(flags.split(), help=text, **more)


def with_options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda command: reduce(lambda inner, decorate: decorate(inner), reversed(options), command)


def filling(name: str, make: Callable[..., object], options: Sequence[Option]) -> Callable[[Any], Any]:
    """Add options that reach the command as one argument, `name`, with the value ``make(**values)``."""

    def add(command: Any) -> Any:
        @wraps(command)
        def with_object(*arguments: Any, **values: Any) -> Any:
            fields = {str(o.name): values.pop(str(o.name)) for o in options}
            return command(*arguments, **{name: make(**fields)}, **values)

        return with_options(*options)(with_object)

    return add


class Place(click.Path):
    """A path, or the URL of an object in a bucket; if `local`, a path only: `Path` would make a folder of a URL."""

    def __init__(self, *, local: bool = False, **how: bool) -> None:
        super().__init__(path_type=Path, **how)  # type: ignore[arg-type]
        self.local = local

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            if self.local:
                refuse_url(str(value), f"{param.opts[0] if isinstance(param, click.Option) else 'this'} needs a path")
            elif is_url(str(value)):
                return place(str(value))
        except SdemError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


LocalPath = partial(Place, local=True)


def parsed(read: Callable[[str], Any], problem: str) -> Callable[[str], Any]:
    """Return `read` for values of options; if it fails, the error is the text followed by `problem`."""

    def convert(text: str) -> Any:
        try:
            return read(text)
        except (ValueError, OSError) as error:
            raise click.BadParameter(f"{text!r} {problem}") from error

    return convert


_hidden = partial(option, hidden=True)  # `sdem help reading` explains them
_number = "is neither an integer nor a fraction such as 0.01"
_share = parsed(lambda text: float(text) if "." in text else int(text), _number)
_sizes = parsed(lambda t: tuple(map(int, (t if "," in t else f"{t},{t}").split(",", 1))), "is neither N nor MIN,MAX")
_words_file = "is neither english nor a readable UTF-8 file of words"
_stopped = parsed(lambda text: text if text == "english" else tuple(Path(text).read_text("utf-8").split()), _words_file)


def format_option(*names: str) -> Option:
    return _hidden("--format", list(names), "Format of the sources.  [default: from the suffix]")


HOW_READ = (
    _hidden("--delimiter", "TEXT", r"Delimiter of .csv, and of .tsv with a header (\t: TAB).  [default: detected]"),
    _hidden("--header/--no-header", None, "Whether line 1 contains column names.  [default: yes for .csv]"),
    _hidden("--encoding", "TEXT", "Text encoding.", "utf-8"),
    _hidden("--on-error", ["raise", "skip"], "Stop at the first bad record, or skip and count bad records.", "raise"),
)
"""Options of every command that reads sources."""
_READING = (
    format_option("lines", "folder", "tsv", "csv", "jsonl", "parquet", "svmlight"),
    _hidden("--label", "COLUMN", "Label column.  [default: label; without a header, 0]"),
    _hidden("--label-separator", "TEXT", "Separator between labels, for documents with several labels."),
    _hidden("--unlabelled", "LABEL", "Treat documents as unlabelled if their label is LABEL, empty or null."),
    _hidden("--no-labels labelled", None, "The documents have no labels.", True, flag_value=False),
    _hidden("--text", "COLUMN", "Text column, or several: title,body.  [default: text; without a header, 1]"),
    _hidden("--id", "COLUMN", "ID column.  [default: document positions]"),
    _hidden("--group", "COLUMN", "Group column, such as the author; folds keep groups together."),
    _hidden("--weight", "COLUMN", "Column of document weights."),
    _hidden("--first-column zero_based", ["auto", "0", "1"], "Index of the first column in svmlight files.", "auto"),
    *HOW_READ,
)
_MIN_DF = "Minimum document frequency.  [default: 1; words+characters: 2]"
_WORDS = (
    _hidden("--features", ["words", "words+characters"], "Features: words, or words and character n-grams.", "words"),
    _hidden("--analyzer", ["word", "char", "char_wb"], "Words or character n-grams (char_wb: within words).", "word"),
    _hidden("--token-pattern", "NAME|REGEX", "Tokens: words+signs (default; with symbols), words, or a regex."),
    _hidden("--ngrams ngram_range", _sizes, "N-gram sizes.  [default: 1,1; words+characters: 1,2]", metavar="MIN,MAX"),
    _hidden("--stem", "LANGUAGE", "Stemmer: english, porter, german, ... (needs PyStemmer)."),
    _hidden("--stop-words", _stopped, "Stop words to remove: the English list, or a file.", metavar="english|FILE"),
    _hidden("--strip-accents", ["ascii", "unicode"], "Remove accents."),
    _hidden("--keep-case lowercase", None, "Do not convert text to lower case.", True, flag_value=False),
    _hidden("--min-df", _share, _MIN_DF, metavar="COUNT|FRACTION"),
    _hidden("--max-df", _share, "Maximum document frequency.", "1.0", metavar="COUNT|FRACTION"),
    _hidden("--max-features", 1, "Keep the N most frequent words."),
    _hidden("--hashing n_features", 1, "Hash words to N columns, without a vocabulary."),
)
READING, WORDS = ([str(o.name) for o in options] for options in (_READING, _WORDS))
"""Names of options: fields of `sdem_dist.text.Reading`, and ``on_error``; fields of `VectorizerSettings`."""


class Source(NamedTuple):
    reading: Reading
    on_error: Literal["raise", "skip"]


def _source(on_error: Literal["raise", "skip"], **fields: Any) -> Source:
    import_scikit_learn()  # before text imports scipy, which would import more
    from sdem_dist.text import Reading

    fields["delimiter"] = fields["delimiter"] and fields["delimiter"].replace("\\t", "\t")
    fields["zero_based"] = {"0": True, "1": False}.get(fields.get("zero_based", ""), "auto")
    return Source(Reading(**fields), on_error)


def _words(**fields: Any) -> VectorizerSettings:
    import_scikit_learn()
    from sdem_dist.kernels.jit import compile_beside
    from sdem_dist.text import VectorizerSettings

    compile_beside("MultinomialNB")
    fields = {name: value for name, value in fields.items() if value is not None}
    return VectorizerSettings(kind="hashing" if "n_features" in fields else "count", **fields)


reading_options = partial(filling, "source", _source)  # passes a `Source` to the command
source_options = reading_options(_READING)
word_options = with_options(source_options, filling("words", _words, _WORDS))


class SourceCommand(click.Command):
    """A command whose help lists reader options; `sdem help reading` explains them."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        with formatter.section("Reader options (see sdem help reading)"):
            flags = [p.opts[0] for p in self.params if isinstance(p, click.Option) and p.hidden]
            formatter.write_text(", ".join(flags))


def typed_flags(names: Iterable[str]) -> str:
    """Return the options of `names` that the user typed, separated by commas."""
    context, source = click.get_current_context(), click.core.ParameterSource.COMMANDLINE
    options = {p.name: p.opts[0] for p in context.command.params if context.get_parameter_source(str(p.name)) is source}
    return ", ".join(options[name] for name in names if name in options)


@click.command()
@click.argument("topic", required=False)
@click.pass_context
def help_command(ctx: click.Context, topic: str | None) -> None:
    """Explain TOPIC: a command, or "reading" for reader options."""
    parent: Any = ctx.parent
    if topic is None:
        click.echo(parent.get_help())
    elif topic == "reading":
        formatter = ctx.make_formatter()
        formatter.write_text(HELP)
        for title, options in (("Reading", _READING), ("Words", _WORDS)):
            with formatter.section(title):
                copies = list(map(copy, options))
                for each in copies:
                    each.hidden = False
                formatter.write_dl([each.get_help_record(ctx) or ("", "") for each in copies])
        click.echo(formatter.getvalue(), nl=False)
    elif topic not in parent.command.list_commands(parent):
        raise click.UsageError(f"{topic!r} is not a command: see sdem --help, or sdem help reading")
    else:
        command = parent.command.get_command(parent, topic)
        click.echo(command.get_help(click.Context(command, info_name=topic, parent=parent)))
