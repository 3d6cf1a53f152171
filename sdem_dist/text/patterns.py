"""What a token is: words and signs, by kinds of code points; or a pattern, by kernels, or by the library regex."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.kernels.kinds import EXTENDS, FLAG, INSIDE, JOINER, SEPARATES, kinds_of_code_points

WORDS_AND_SIGNS = "words+signs"
"""The default: words of any length, numbers with their decimal point, and every other sign, such as ``!``, ``%`` and an
emoji.  Each letter of a script without spaces is a sign.  Combining marks belong to the letter before."""
WORDS = "words"
PATTERN_OF_WORDS = r"(?u)\b\w\w+\b"  # scikit-learn's: words of two letters and more
KERNEL_PATTERN = re.compile(r"(?:\(\?u\))?(?:(?:\\b)?(\\w)(\\w)?\+(?:\\b)?|(\\S)(\\S)?\+)")
"""Patterns of runs of one kind of code points, of one at least or two: kernels find these."""
TEXT_SECONDS = 5.0  # to split one text; more of a long one
CHARACTERS_PER_SECOND = 200_000  # a tenth of what simple patterns do
SURROGATES = "\ud800-\udfff"  # halves of code points, as a range: no UTF-8 has them


class PatternError(IngestError):
    pattern = ""


def ranges(chosen: np.ndarray) -> str:
    """Return code points as the ranges of a class of a regular expression, which Python and RE2 read alike."""
    runs = (list(run) for _, run in groupby(enumerate(np.flatnonzero(chosen)), lambda pair: pair[1] - pair[0]))
    return "".join(f"{re.escape(chr(run[0][1]))}-{re.escape(chr(run[-1][1]))}" for run in runs)


@lru_cache(maxsize=1)
def expression_of_words_and_signs() -> str:
    """Return the regular expression of `WORDS_AND_SIGNS`, for Python and RE2."""
    kinds, digits = kinds_of_code_points(), np.zeros(sys.maxunicode + 1, bool)
    digits[48:58] = True
    letters, spaces = ranges((kinds == INSIDE) & ~digits), ranges(kinds == SEPARATES)
    marks, joiner = ranges((kinds == EXTENDS) & (np.arange(len(kinds)) != JOINER)), chr(JOINER)
    extends, flag, sign = f"[{marks}{joiner}]*", f"[{ranges(kinds == FLAG)}]", f"[^0-9{letters}{spaces}]"
    words = f"(?:[0-9](?:[.,][0-9])*{extends}|[{letters}]{extends})+"
    return f"{words}|(?:{flag}{flag}|{joiner}+{sign}?|{sign})(?:[{marks}]|{joiner}+{sign}?)*"


def expression_of(pattern: str) -> str:
    """Return the regular expression of a token pattern, which may have a name."""
    if pattern == WORDS_AND_SIGNS:
        return expression_of_words_and_signs()
    return PATTERN_OF_WORDS if pattern == WORDS else pattern


def is_of_kernels(pattern: str) -> bool:
    """Whether kernels split by a pattern as Python's re does; others are of the library regex."""
    return pattern in (WORDS_AND_SIGNS, WORDS) or KERNEL_PATTERN.fullmatch(pattern) is not None


def token_spans(pattern: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where the tokens of a text begin and end; (-1, -1) for a group that took no part in a match."""
    if is_of_kernels(pattern):  # kernels have Python's tables of code points
        compiled = re.compile(expression_of(pattern))
        yield from (match.span(compiled.groups) for match in compiled.finditer(text))
        return
    import regex

    searched, seconds = regex.compile(pattern, regex.VERSION0), TEXT_SECONDS + len(text) / CHARACTERS_PER_SECOND
    try:
        for match in searched.finditer(text, timeout=seconds):
            yield match.span(searched.groups)
    except (TimeoutError, MemoryError) as error:
        problem = "needs too much memory" if isinstance(error, MemoryError) else f"takes longer than {seconds:.1f} s"
        where = f"on the text of {len(text):,} characters that begins with {text[:40]!r}"
        hint = "it may have exponentially many ways to match: write (a|aa)+ as a+"
        slow = PatternError(f"token_pattern {pattern!r} {problem} {where}", hint=hint)
        slow.pattern = pattern
        raise slow from None
