"""Kinds of code points, for splitting texts into words and signs."""

import re
import sys
import unicodedata
from functools import lru_cache

import numpy as np

SEPARATES, INSIDE, BEYOND_ASCII, SIGN, EXTENDS, FLAG = range(6)
"""Kinds of code points. SEPARATES: between tokens. INSIDE: of a word. BEYOND_ASCII: (of a byte) not ASCII.
SIGN: a token. EXTENDS: belongs to the preceding word or sign, else it is a sign. FLAG: half of a flag."""
JOINER = 0x200D  # joins the following sign to the preceding one, as in emoji of families
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3040-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
"""Scripts without spaces, as ranges of a character class: Thai, Lao, Burmese, Khmer, Japanese, Chinese; not Korean."""
_SKIN_TONES, _FLAGS = slice(0x1F3FB, 0x1F400), slice(0x1F1E6, 0x1F200)


@lru_cache(maxsize=1)
def every_code_point() -> str:
    return np.arange(sys.maxunicode + 1, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@lru_cache(maxsize=5)
def matching(pattern: str) -> np.ndarray:
    r"""Return the mask of code points that match a pattern such as ``\w``, bool of shape (1114112,)."""
    table = np.zeros(sys.maxunicode + 1, bool)
    for run in re.finditer(f"(?:{pattern})+", every_code_point()):
        table[slice(*run.span())] = True
    return table


@lru_cache(maxsize=1)
def kinds_of_code_points() -> np.ndarray:
    """Return the kind of each code point for `WORDS_AND_SIGNS`, uint8 of shape (1114112,)."""
    kinds = np.full(sys.maxunicode + 1, SIGN, np.uint8)
    kinds[matching(r"\s")] = SEPARATES
    kinds[matching(r"\w") & ~matching(f"[{UNSPACED}]")] = INSIDE
    of_category = {"Mn": EXTENDS, "Mc": EXTENDS, "Me": EXTENDS, "Cf": EXTENDS, "Cc": SEPARATES, "Cs": SEPARATES}
    for planes in (slice(0x20000), slice(0xE0000, 0xE0200)):  # other planes have none of these categories
        for point in np.flatnonzero(kinds[planes] == SIGN) + (planes.start or 0):
            kinds[point] = of_category.get(unicodedata.category(chr(point)), SIGN)
    kinds[_SKIN_TONES], kinds[_FLAGS] = EXTENDS, FLAG
    return kinds
