"""Kinds of values that options take."""

from __future__ import annotations

from typing import Any

import click


class Share(click.ParamType):  # type: ignore[type-arg]
    """A whole number of documents, or a fraction of them if written with a point."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        """Return an int for "2" and a float for "0.01"."""
        if isinstance(value, int | float):
            return value
        try:
            return float(value) if "." in value else int(value)
        except ValueError:
            self.fail(f"{value!r} is neither a whole number of documents nor a fraction such as 0.01", param, ctx)


class Lengths(click.ParamType):  # type: ignore[type-arg]
    """The shortest and the longest n-gram: "1,2"."""

    name = "min,max"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Return the two lengths; one number stands for both."""
        if isinstance(value, tuple):
            return value
        try:
            first, last = [int(n) for n in (value if "," in value else f"{value},{value}").split(",")]
        except ValueError:
            self.fail(f"{value!r} is not a pair of lengths such as 1,2", param, ctx)
        return first, last


class Alpha(click.ParamType):  # type: ignore[type-arg]
    """A word prior: laplace, log, or a number."""

    name = "laplace|log|number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | float:
        """Return the name or the number."""
        if value in ("laplace", "log") or isinstance(value, float):
            return value  # type: ignore[no-any-return]
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither laplace nor log nor a number", param, ctx)
