"""Tables of code points: what a pattern matches, how they are spelled, and what becomes of them in lower case."""

import re
import unicodedata
from functools import lru_cache

import numpy as np

from sdem_dist.documents import offsets_of, offsets_of_lengths
from sdem_dist.kernels.code_points import PADDING, Rules

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


@lru_cache(maxsize=6)
def rewriting(lowercase: bool, strip_accents: str | None) -> tuple[Rules, float]:
    """Return the rules for lower case, then without accents as scikit-learn removes them ("ascii", "unicode" or None).

    And how many times as long a text can become.
    """
    sigma = ord(FINAL_SIGMA) if lowercase else -1
    entry_of = np.zeros(N_CODE_POINTS if strip_accents == "ascii" else CHANGING, np.uint16)
    entry_of[CHANGING:] = 1
    if not lowercase and not strip_accents:
        entry_of = entry_of[:0]
    entries: dict[bytes, int] = {b"unchanged": 0, b"": 1}
    growth, points = 1.0, every_code_point()
    for start in range(128, CHANGING if len(entry_of) else 0, 128):
        stretch = points[start : start + 128]
        if not strip_accents and stretch == stretch.lower():
            continue
        for point, character in enumerate(stretch, start):
            new = character.lower() if lowercase else character
            if strip_accents:
                new = unicodedata.normalize("NFKD", new)
            if strip_accents == "ascii":
                new = new.encode("ascii", "ignore").decode()
            elif strip_accents:
                new = "".join(c for c in new if not unicodedata.combining(c))
            if new != character:
                spelled = new.encode("utf-8", "surrogatepass")
                entry_of[point] = entries.setdefault(spelled, len(entries))
                growth = max(growth, len(spelled) / len(character.encode("utf-8", "surrogatepass")))
    replacements = np.frombuffer(b"".join(entries), np.uint8)
    return Rules(lowercase, entry_of, offsets_of_lengths(list(entries)), replacements, sigma), growth
