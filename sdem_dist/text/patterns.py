"""What a word is: a pattern that the kernels know, or any other of the library regex, with a time limit a text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from sdem_dist.errors import IngestError

if TYPE_CHECKING:
    import regex

KERNEL_PATTERN = re.compile(r"(?:\(\?u\))?(?:(?:\\b)?(\\w)(\\w)?\+(?:\\b)?|(\\S)(\\S)?\+)")
"""Patterns of runs of one kind of code points, of one at least or two: kernels find these."""
MAX_LENGTH = 1000  # characters of a pattern
MAX_REPEATS = 10_000  # of counted repeats multiplied: regex writes them out when it compiles
TEXT_SECONDS = 5.0  # to split one text; more of a long one
CHARACTERS_PER_SECOND = 200_000  # a tenth of what simple patterns do


class PatternError(IngestError):
    """A token pattern takes too long, or too much memory, on a text."""

    def __init__(self, pattern: str, problem: str, owner: str = "") -> None:
        super().__init__(pattern, problem, owner)
        self.pattern, self.problem, self.owner = pattern, problem, owner

    def __str__(self) -> str:
        return (
            f"{self.owner}{': ' if self.owner else ''}token_pattern {self.pattern!r} {self.problem}; it may try "
            "exponentially many ways to match: write (a|aa)+ as a+"
        )


def check_pattern(pattern: str) -> None:
    """Raise ValueError if a token pattern is not a regular expression with at most one group."""
    if KERNEL_PATTERN.fullmatch(pattern):
        return
    if len(pattern) > MAX_LENGTH:
        raise ValueError(f"token_pattern has {len(pattern)} characters; it may have {MAX_LENGTH}")
    if math.prod(max(1, int(n)) for n in re.findall(r"\{(\d+)", pattern)) > MAX_REPEATS:
        raise ValueError(f"token_pattern {pattern!r} repeats parts more than {MAX_REPEATS:,} times together")
    import regex

    try:
        groups = _compiled(pattern).groups
    except (regex.error, OverflowError, RecursionError, MemoryError, ValueError) as error:
        raise ValueError(f"token_pattern {pattern!r} is not a regular expression: {error}") from error
    if groups > 1:
        raise ValueError(f"token_pattern {pattern!r} has {groups} groups; at most one is captured")


@lru_cache(maxsize=8)
def _compiled(pattern: str) -> regex.Pattern[str]:
    import regex

    return regex.compile(pattern, regex.VERSION0)


def token_spans(pattern: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where the tokens of a text begin and end; (-1, -1) for a group that took no part in a match.

    Raises PatternError: it takes too long.
    """
    if KERNEL_PATTERN.fullmatch(pattern):  # kernels have Python's tables of code points
        group = re.compile(pattern).groups
        yield from (match.span(group) for match in re.finditer(pattern, text))
        return
    compiled = _compiled(pattern)
    try:
        for match in compiled.finditer(text, timeout=_seconds(text)):
            yield match.span(compiled.groups)
    except (TimeoutError, MemoryError) as error:
        raise _failed(pattern, text, error) from None


def find_tokens(pattern: str, text: str) -> list[str]:
    """Return the tokens of a text as ``re.findall`` does.

    Raises PatternError: it takes too long.
    """
    if KERNEL_PATTERN.fullmatch(pattern):
        return re.findall(pattern, text)
    compiled = _compiled(pattern)
    try:
        if compiled.groups:  # findall of regex gives tuples for a repeated group
            tokens = [match[1] or "" for match in compiled.finditer(text, timeout=_seconds(text))]
        else:
            tokens = compiled.findall(text, timeout=_seconds(text))
    except (TimeoutError, MemoryError) as error:
        raise _failed(pattern, text, error) from None
    return list(tokens)


def _seconds(text: str) -> float:
    return TEXT_SECONDS + len(text) / CHARACTERS_PER_SECOND


def _failed(pattern: str, text: str, error: Exception) -> PatternError:
    problem = "needs too much memory" if isinstance(error, MemoryError) else f"takes longer than {_seconds(text):.1f} s"
    return PatternError(pattern, f"{problem} on the text {text!r:.40} of {len(text):,} characters")
