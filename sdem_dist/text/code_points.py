"""Python's properties of every code point, as tables for the kernels: part of a word or not, and its lower case."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sdem_dist.kernels.code_points import PADDING
from sdem_dist.offsets import offsets_of, offsets_of_lengths

N_CODE_POINTS = 0x110000
CHANGING = 0x30000  # beyond these code points none has a lower case or an accent; a test looks
FINAL_SIGMA = "Σ"  # the one code point whose lower case depends on its neighbours


@lru_cache(maxsize=1)
def every_code_point() -> str:
    """Return all code points, surrogates among them, as one text."""
    return np.arange(N_CODE_POINTS, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@lru_cache(maxsize=4)
def matching(pattern: str) -> np.ndarray:
    r"""Return which code points a pattern of one code point, such as ``\w``, matches: bool of shape (1114112,)."""
    table = np.zeros(N_CODE_POINTS, bool)
    for run in re.finditer(f"(?:{pattern})+", every_code_point()):
        table[run.start() : run.end()] = True
    return table


@lru_cache(maxsize=1)
def spelled_code_points() -> tuple[np.ndarray, np.ndarray]:
    """Return the UTF-8 bytes of all code points, one after another, and where each begins, int64."""
    offsets = offsets_of(np.repeat(np.arange(1, 5), np.diff([0, 0x80, 0x800, 0x10000, N_CODE_POINTS])))
    return np.frombuffer(every_code_point().encode("utf-8", "surrogatepass") + bytes(PADDING), np.uint8), offsets


@dataclass(frozen=True)
class Rewriting:
    """What becomes of every code point before a text is split."""

    lower: bool  # ASCII is turned to lower case
    entry_of: np.ndarray
    """uint16: the number of the entry that replaces a code point, 0 for those that stay; empty if all stay."""
    entry_offsets: np.ndarray  # int64
    entries: np.ndarray  # uint8: entry ``e`` is ``entries[entry_offsets[e]:entry_offsets[e + 1]]``
    growth: float  # how many times as long a text can become


def _may_change(accents: bool) -> Iterator[tuple[int, str]]:
    """Yield code points beyond ASCII, except stretches without a lower case and, if asked, without accents."""
    whole = every_code_point()
    for start in range(128, CHANGING, 128):
        stretch = whole[start : start + 128]
        if accents or stretch != stretch.lower():
            yield from enumerate(stretch, start)


@lru_cache(maxsize=6)
def rewriting(lowercase: bool, strip_accents: str | None) -> Rewriting:
    """Return a table for lower case, then without accents as scikit-learn removes them ("ascii", "unicode" or None)."""
    entry_of = np.zeros(N_CODE_POINTS if strip_accents == "ascii" else CHANGING, np.uint16)
    if not lowercase and not strip_accents:
        entry_of = entry_of[:0]
    entries: dict[bytes, int] = {b"unchanged": 0, b"": 1}
    entry_of[CHANGING:] = 1
    growth = 1.0
    for point, character in _may_change(strip_accents is not None) if len(entry_of) else ():
        new = character.lower() if lowercase else character
        if strip_accents:
            new = unicodedata.normalize("NFKD", new)
            if strip_accents == "ascii":
                new = new.encode("ascii", "ignore").decode()
            else:
                new = "".join(c for c in new if not unicodedata.combining(c))
        if new != character:
            spelled = new.encode("utf-8", "surrogatepass")
            entry_of[point] = entries.setdefault(spelled, len(entries))
            growth = max(growth, len(spelled) / len(character.encode("utf-8", "surrogatepass")))
    joined = np.frombuffer(b"".join(entries), np.uint8)
    return Rewriting(lowercase, entry_of, offsets_of_lengths(list(entries)), joined, growth)
