"""Regular expressions from a file: those that could run for ever are refused."""

import re
from collections.abc import Sequence

from sdem_dist.compat import PatternPart, parsed_pattern

LONGEST = 1000  # characters of a pattern; no way of splitting words needs more


def check_pattern(pattern: str) -> None:
    r"""Raise ValueError if a token pattern is none, or repeats a repeat, as ``(a+)+`` does.

    Such a pattern can cut the same letters up in exponentially many ways, and tries them all where it does not match. A
    repeat of something with a fixed part, as ``(?:\w+-)*\w+`` has, is fine. So this finds the usual trap, not all.
    """
    if len(pattern) > LONGEST:
        raise ValueError(f"token_pattern has {len(pattern)} characters; it may have {LONGEST}")
    try:
        groups, tree = re.compile(pattern).groups, parsed_pattern(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"token_pattern {pattern!r} is not a regular expression: {error}") from error
    if groups > 1:
        raise ValueError(f"token_pattern {pattern!r} has {groups} groups; at most one is captured")
    if _repeats_a_repeat(tree):
        raise ValueError(
            f"token_pattern {pattern!r} repeats a repeat, which can take for ever on some texts: write (a+)+ as a+"
        )


def _repeats_a_repeat(items: Sequence[PatternPart]) -> bool:
    """Say whether an unbounded repeat somewhere in a parsed pattern holds only repeats and what may be left out."""
    return any(
        (_is_repeat(item) and _varies(item.bodies[0])) or any(map(_repeats_a_repeat, item.bodies)) for item in items
    )


def _varies(items: Sequence[PatternPart]) -> bool:
    """Say whether a sequence has a repeat and no part that must be there once, so that repeating it is ambiguous."""
    loose = [_is_repeat(item) or any(map(_varies, item.bodies)) for item in items]
    return any(loose) and all(lo or item.least == 0 for lo, item in zip(loose, items, strict=True))


def _is_repeat(item: PatternPart) -> bool:
    return item.most > LONGEST
