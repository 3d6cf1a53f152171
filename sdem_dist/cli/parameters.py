"""Kinds of values that options take."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sdem_dist.errors import SdemError
from sdem_dist.storage import buckets
from sdem_dist.storage.places import is_url, place, refuse_url

if TYPE_CHECKING:
    ParamType = click.ParamType[object]
else:
    ParamType = click.ParamType


class Place(click.Path):
    """A path, or the URL of an object in a bucket."""

    def __init__(self, *, allow_dash: bool = False, file_okay: bool = True, exists: bool = False) -> None:
        super().__init__(path_type=Path, allow_dash=allow_dash, file_okay=file_okay, exists=exists)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the path, with the methods of one also where it is a URL."""
        if not is_url(str(value)):
            return super().convert(value, param, ctx)
        try:
            buckets.split(str(value))
        except SdemError as error:
            self.fail(str(error), param, ctx)
        return place(str(value))


class LocalPath(Place):
    """A path of this machine: of a URL, `Path` would make a local folder."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the path."""
        try:
            refuse_url(str(value), f"{param.opts[0] if isinstance(param, click.Option) else 'this'} takes none")
        except SdemError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


class Share(ParamType):
    """A whole number of documents, or a fraction of them if written with a point."""

    name = "number"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        """Return an int for "2" and a float for "0.01"."""
        if isinstance(value, int | float):
            return value
        try:
            return float(value) if "." in value else int(value)
        except ValueError:
            self.fail(f"{value!r} is neither a whole number of documents nor a fraction such as 0.01", param, ctx)


class Lengths(ParamType):
    """The shortest and the longest n-gram: "1,2"."""

    name = "min,max"

    def convert(
        self, value: str | tuple[int, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return the two lengths; one number stands for both."""
        if isinstance(value, tuple):
            return value
        try:
            first, last = [int(n) for n in (value if "," in value else f"{value},{value}").split(",")]
        except ValueError:
            self.fail(f"{value!r} is not a pair of lengths such as 1,2", param, ctx)
        return first, last


class StopWords(ParamType):
    """english, or a file of words."""

    name = "english|FILE"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | tuple[str, ...]:
        """Return "english", or the words of the file."""
        if value == "english" or isinstance(value, tuple):
            return value
        try:
            return tuple(Path(value).read_text("utf-8").split())
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            self.fail(f"it is english or a file of words, and {value} is not one: {why}", param, ctx)


class Alpha(ParamType):
    """A word prior: laplace, log, or a number."""

    name = "laplace|log|number"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> str | float:
        """Return the name or the number."""
        if value in ("laplace", "log") or isinstance(value, float):
            return value
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither laplace nor log nor a number", param, ctx)
