"""Token patterns: words and signs, by kinds of code points; simple patterns by kernels, others by the library regex."""

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
emoji. Each letter of a script without spaces is a sign. Combining marks belong to the preceding letter."""
WORDS = "words"
PATTERN_OF_WORDS = r"(?u)\b\w\w+\b"  # scikit-learn's default: words of two letters or more
KERNEL_PATTERN = re.compile(r"(?:\(\?u\))?(?:(?:\\b)?(\\w)(\\w)?\+(?:\\b)?|(\\S)(\\S)?\+)")
"""Patterns that kernels support: runs of one kind of code points, with a least length of one or two."""
TEXT_SECONDS = 5.0  # time limit for splitting one text; longer texts get more time
CHARACTERS_PER_SECOND = 200_000  # a tenth of the speed of simple patterns
SURROGATES = "\ud800-\udfff"  # range of code points that valid UTF-8 cannot contain


class PatternError(IngestError):
    pattern = ""


def ranges(chosen: np.ndarray) -> str:
    """Return the mask `chosen` of code points as ranges for a character class of Python's re and RE2."""
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
    """Return the regular expression of a token pattern, or of its name."""
    if pattern == WORDS_AND_SIGNS:
        return expression_of_words_and_signs()
    return PATTERN_OF_WORDS if pattern == WORDS else pattern


def is_of_kernels(pattern: str) -> bool:
    """Whether kernels split by this pattern, with the results of Python's re; else the library regex does."""
    return pattern in (WORDS_AND_SIGNS, WORDS) or KERNEL_PATTERN.fullmatch(pattern) is not None


def token_spans(pattern: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each token of a text; (-1, -1) if the pattern's group did not match."""
    if is_of_kernels(pattern):  # kernels use the same tables of code points as re
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
        where = f"for a text of {len(text):,} characters, which begins with {text[:40]!r}"
        hint = "use repeats that match in only one way: for example, a+ instead of (a|aa)+"
        slow = PatternError(f"token_pattern {pattern!r} {problem} {where}", hint=hint)
        slow.pattern = pattern
        raise slow from None
