"""What a token is: words and signs, by kinds of code points; or a pattern, by kernels, or by the library regex."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

import numpy as np

from sdem_dist.errors import IngestError

WORDS_AND_SIGNS = "words+signs"
"""The default: words of any length, numbers with their decimal point, and every other sign, such as ``!``, ``%`` and an
emoji.  Each letter of a script without spaces is a sign.  Combining marks belong to the letter before."""
WORDS = "words"
PATTERN_OF_WORDS = r"(?u)\b\w\w+\b"  # scikit-learn's: words of two letters and more
KERNEL_PATTERN = re.compile(r"(?:\(\?u\))?(?:(?:\\b)?(\\w)(\\w)?\+(?:\\b)?|(\\S)(\\S)?\+)")
"""Patterns of runs of one kind of code points, of one at least or two: kernels find these."""
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3040-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese, as ranges of a class; Korean has spaces."""
TEXT_SECONDS = 5.0  # to split one text; more of a long one
CHARACTERS_PER_SECOND = 200_000  # a tenth of what simple patterns do
SURROGATES = "\ud800-\udfff"  # halves of code points, as a range: no UTF-8 has them
_JOINER = 0x200D  # joins two emoji to one
_SKIN_TONES, _FLAGS = slice(0x1F3FB, 0x1F400), slice(0x1F1E6, 0x1F200)


class PatternError(IngestError):
    pattern = ""


@lru_cache(maxsize=1)
def every_code_point() -> str:
    return np.arange(sys.maxunicode + 1, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@lru_cache(maxsize=5)
def matching(pattern: str) -> np.ndarray:
    r"""Return which code points a pattern of one, such as ``\w``, matches: bool of shape (1114112,)."""
    table = np.zeros(sys.maxunicode + 1, bool)
    for run in re.finditer(f"(?:{pattern})+", every_code_point()):
        table[slice(*run.span())] = True
    return table


@lru_cache(maxsize=1)
def kinds_of_code_points() -> np.ndarray:
    """Return what each code point is to `WORDS_AND_SIGNS`, see `sdem_dist.kernels.words`: uint8 of shape (1114112,)."""
    from sdem_dist.kernels.words import EXTENDS, FLAG, INSIDE, SEPARATES, SIGN  # they import numba

    kinds = np.full(sys.maxunicode + 1, SIGN, np.uint8)
    kinds[matching(r"\s")] = SEPARATES
    kinds[matching(r"\w") & ~matching(f"[{UNSPACED}]")] = INSIDE
    of_category = {"Mn": EXTENDS, "Mc": EXTENDS, "Me": EXTENDS, "Cf": EXTENDS, "Cc": SEPARATES, "Cs": SEPARATES}
    for planes in (slice(0x20000), slice(0xE0000, 0xE0200)):  # others have none of these
        for point in np.flatnonzero(kinds[planes] == SIGN) + (planes.start or 0):
            kinds[point] = of_category.get(unicodedata.category(chr(point)), SIGN)
    kinds[_SKIN_TONES], kinds[_FLAGS] = EXTENDS, FLAG
    return kinds


def ranges(chosen: np.ndarray) -> str:
    """Return code points as the ranges of a class of a regular expression, which Python and RE2 read alike."""
    runs = (list(run) for _, run in groupby(enumerate(np.flatnonzero(chosen)), lambda pair: pair[1] - pair[0]))
    return "".join(f"{re.escape(chr(run[0][1]))}-{re.escape(chr(run[-1][1]))}" for run in runs)


@lru_cache(maxsize=1)
def expression_of_words_and_signs() -> str:
    """Return the regular expression of `WORDS_AND_SIGNS`, for Python and RE2."""
    from sdem_dist.kernels.words import EXTENDS, FLAG, INSIDE, SEPARATES

    kinds, digits = kinds_of_code_points(), np.zeros(sys.maxunicode + 1, bool)
    digits[48:58] = True
    letters, spaces = ranges((kinds == INSIDE) & ~digits), ranges(kinds == SEPARATES)
    marks, joiner = ranges((kinds == EXTENDS) & (np.arange(len(kinds)) != _JOINER)), chr(_JOINER)
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
        hint = "it may try exponentially many ways to match: write (a|aa)+ as a+"
        slow = PatternError(f"token_pattern {pattern!r} {problem} {where}", hint=hint)
        slow.pattern = pattern
        raise slow from None
