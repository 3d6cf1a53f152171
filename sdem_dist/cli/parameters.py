"""Options, and the kinds of values that they take."""

import csv
import os
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from sdem_dist.errors import SdemError
from sdem_dist.storage.urls import is_url, place, refuse_url

Command = TypeVar("Command", bound=Callable[..., Any])


class Option(click.Option):
    """An option that decorates its command; many commands may have it."""

    def __call__(self, command: Command) -> Command:
        command.__click_params__ = [*getattr(command, "__click_params__", ()), self]  # type: ignore[attr-defined]
        return command


def option(flags: str, kind: object, text: str, default: object = None, **more: Any) -> Option:
    """Return an option; `kind`: a type, the least whole number, the name of a text, choices, or None for a flag."""
    if kind is None:
        more["is_flag"] = True
        if "/" in flags:
            more["default"] = None  # neither was said
    elif isinstance(kind, int):
        more = {"type": click.IntRange(kind), "metavar": "N", **more}
    elif isinstance(kind, str):
        more = {"metavar": kind, **more}
    else:
        more["type"] = click.Choice(kind) if isinstance(kind, list) else kind
    if default is not None:
        more |= {"default": default, "show_default": kind is not None}
    return Option(flags.split(), help=text, **more)


def with_options(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    def add(command: Any) -> Any:
        for decorate in reversed(options):
            command = decorate(command)
        return command

    return add


def filling(name: str, make: Callable[..., object], options: Sequence[Option]) -> Callable[[Command], Command]:
    """Add options, of which the command gets one object, as `name`: ``make(**values)``."""

    def add(command: Any) -> Any:
        @wraps(command)
        def with_object(*arguments: Any, **values: Any) -> Any:
            fields = {str(o.name): values.pop(str(o.name)) for o in options}
            return command(*arguments, **{name: make(**fields)}, **values)

        return with_options(*options)(with_object)

    return add


class Place(click.Path):
    """A path, or the URL of an object in a bucket; a `local` one is a path: of a URL `Path` would make a folder."""

    def __init__(self, *, local: bool = False, **how: bool) -> None:
        super().__init__(path_type=Path, **how)  # type: ignore[arg-type]
        self.local = local

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        try:
            if self.local:
                refuse_url(str(value), f"{param.opts[0] if isinstance(param, click.Option) else 'this'} takes none")
            elif is_url(str(value)):
                return place(str(value))
        except SdemError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


LocalPath = partial(Place, local=True)


def parse_share(text: str) -> int | float:
    """Return an int, a number of documents, for "2", and a float, a fraction of them, for "0.01"."""
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither a whole number of documents nor a fraction such as .01"
        ) from None


def parse_lengths(text: str) -> tuple[int, int]:
    """Return the shortest and the longest n-gram of "1,2"; one number stands for both."""
    try:
        first, last = [int(n) for n in (text if "," in text else f"{text},{text}").split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a pair of lengths such as 1,2") from None
    return first, last


def read_stop_words(text: str) -> str | tuple[str, ...]:
    try:
        return text if text == "english" else tuple(Path(text).read_text("utf-8").split())
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{text} is neither english nor a file of words: {error}") from error


def parse_alpha(text: str) -> str | float:
    try:
        return text if text in ("laplace", "log") else float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither laplace nor log nor a number") from None


LOSS_FORMS = "auto, ncll, hinge, nll, perceptron, hinge:MARGIN, blend:SHARE or blend:SHARE:LOSS"


def parse_loss(text: str) -> object:
    """Return the loss of "hinge", "perceptron", "hinge:2", "blend:.1" (with ncll) or "blend:.1:hinge:2"."""
    from sdem_dist.losses import Blend, Hinge, named

    name, _, rest = text.partition(":")
    problem = ""
    try:
        if name == "hinge" and rest:
            if not 0.0 <= float(rest) < float("inf"):
                raise ValueError("a margin is a finite number from 0 on")
            return Hinge(float(rest))
        if name == "blend":
            share, _, other = rest.partition(":")
            if other.startswith("blend"):
                raise ValueError("a blend is of nll and one loss that is no blend")
            return Blend(named(parse_loss(other or "ncll")), float(share))  # type: ignore[arg-type]
        if text == "perceptron":
            return Hinge(0.0)
        if text in ("auto", "ncll", "hinge", "nll"):
            return text
    except (TypeError, ValueError, KeyError) as error:
        problem = f" ({error})"
    raise click.BadParameter(
        f"{text!r} is not a loss{problem}; losses are {LOSS_FORMS}, and --costs FILE for costs of confusions"
    )


def read_costs(path: Path, classes: Sequence[object]) -> object:
    """Return the loss of a CSV file of costs: a row for each true class, a column for each predicted one, with names.

    Raises click.UsageError: it is not such a table, or its classes are not those of the documents.
    """
    from sdem_dist.losses import CostSensitiveHinge

    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
        columns, rows = rows[0][1:] if rows else [], rows[1:]
        names = [str(name) for name in classes]
        if not sorted(row[0] for row in rows) == sorted(columns) == sorted(names):
            raise ValueError(f"its first row and first column must name the classes {', '.join(names)}, each once")
        if short := [row[0] for row in rows if len(row) != len(columns) + 1]:
            raise ValueError(f"its row {short[0]} must have {len(columns)} costs, a number for each class")
        costs = {row[0]: dict(zip(columns, row[1:], strict=True)) for row in rows}
        return CostSensitiveHinge(tuple(tuple(float(costs[y][k]) for k in names) for y in names))
    except (OSError, ValueError, csv.Error) as error:
        raise click.UsageError(f"--costs {path}: {error}") from error
