"""Where the terms of a model occur in a text, and tables of code points."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import offsets_of, offsets_of_lengths
from sdem_dist.kernels.code_points import PADDING
from sdem_dist.text.vectorizer import VectorizerSettings, stemming, stopped_words, token_spans

Occurrence = tuple[str, list[tuple[int, int]]]  # a term, and where its tokens, or characters, stand in the text


class Mark(NamedTuple):
    """A stretch ``text[start:stop]`` with its part of a sum."""

    start: int
    stop: int
    value: float


class Spelled(NamedTuple):
    """A token, or a character, as the vectorizer sees it, and where it stands in the text."""

    token: str
    start: int
    stop: int


def marked(occurrences: Iterable[Occurrence], values: Mapping[str, float]) -> list[Mark]:
    """Return the tokens, or characters, with their shares of the values of terms, in the order of the text.

    A term's value is divided among its occurrences, and an occurrence's among its tokens. So the marks sum to the
    values of the terms that were found.

    `occurrences`: what `terms` yields of the text.
    `values`: of terms in this text, as the vocabulary spells them.
    """
    found = [(term, places) for term, places in occurrences if term in values]
    times = Counter(term for term, _ in found)
    said: dict[tuple[int, int], float] = {}
    for term, places in found:
        for place in places:
            said[place] = said.get(place, 0.0) + values[term] / times[term] / len(places)
    return [Mark(start, stop, value) for (start, stop), value in sorted(said.items())]


def terms(text: str, settings: VectorizerSettings) -> Iterator[Occurrence]:
    """Yield every occurrence of a term as the vectorizer spells it, with where its tokens, or characters, stand."""
    shortest, longest = settings.ngram_range
    if settings.analyzer == "char_wb":
        for word in _padded_words(_characters(text, settings)):
            for n in range(shortest, longest + 1):
                yield from _runs(word, min(n, len(word)), "")
                if n >= len(word):  # a short word counts once
                    break
        return
    units, between = (_characters(text, settings), "") if settings.analyzer == "char" else (_words(text, settings), " ")
    for n in range(shortest, longest + 1):
        yield from _runs(units, n, between)


def _runs(units: Sequence[Spelled], n: int, between: str) -> Iterator[Occurrence]:
    for i in range(len(units) - n + 1):
        run = units[i : i + n]
        yield between.join(u.token for u in run), [(u.start, u.stop) for u in run if u.stop > u.start]


def _words(text: str, settings: VectorizerSettings) -> list[Spelled]:
    stopped, stem = stopped_words(settings), stemming(settings)
    found = []
    whole, origins = _rewritten(text, settings)
    for first, last in token_spans(settings.token_pattern, whole):
        token = whole[first:last]
        if token not in stopped and first < last:
            found.append(Spelled(token, origins[first][0], origins[last - 1][1]))
    if stem is None:
        return found
    stems = stem([word.token for word in found])
    return [word._replace(token=stemmed) for word, stemmed in zip(found, stems, strict=True)]


def _characters(text: str, settings: VectorizerSettings) -> list[Spelled]:
    """Return characters, runs of white space as one blank."""
    whole, origins = _rewritten(text, settings)
    found = [Spelled(c, *origin) for c, origin in zip(whole, origins, strict=True)]
    kept: list[Spelled] = []
    for match in re.finditer(r"\s\s+|.", whole, re.DOTALL):
        first, last = match.span()
        run = last - first > 1
        kept.append(Spelled(" ", found[first].start, found[last - 1].stop) if run else found[first])
    return kept


def _padded_words(characters: Sequence[Spelled]) -> Iterator[list[Spelled]]:
    """Yield words with a blank at either end, as the analyzer "char_wb" has them."""
    word: list[Spelled] = []
    for character in [*characters, Spelled(" ", 0, 0)]:
        if not character.token.isspace():
            word.append(character)
        elif word:
            first, last = word[0].start, word[-1].stop
            yield [Spelled(" ", first, first), *word, Spelled(" ", last, last)]
            word = []


def _rewritten(text: str, settings: VectorizerSettings) -> tuple[str, list[tuple[int, int]]]:
    """Return a text in lower case and without accents, as the settings say, and where each character came from."""
    whole = text.lower() if settings.lowercase else text
    if len(whole) == len(text) and settings.strip_accents is None:
        return whole, [(i, i + 1) for i in range(len(text))]
    pieces = [_rewritten_character(c, settings) for c in text]
    return "".join(pieces), [(i, i + 1) for i, piece in enumerate(pieces) for _ in piece]


def _rewritten_character(character: str, settings: VectorizerSettings) -> str:
    from sklearn.feature_extraction.text import strip_accents_ascii, strip_accents_unicode

    strip = {"ascii": strip_accents_ascii, "unicode": strip_accents_unicode, None: str}[settings.strip_accents]
    return str(strip(character.lower() if settings.lowercase else character))


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
