"""Where the terms of a model occur in a text."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

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
    shares: dict[tuple[int, int], float] = {}
    for term, places in found:
        for place in places:
            shares[place] = shares.get(place, 0.0) + values[term] / times[term] / len(places)
    return [Mark(start, stop, value) for (start, stop), value in sorted(shares.items())]


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
    from sklearn.feature_extraction.text import strip_accents_ascii, strip_accents_unicode

    strip = {"ascii": strip_accents_ascii, "unicode": strip_accents_unicode, None: str}[settings.strip_accents]
    pieces = [strip(character.lower() if settings.lowercase else character) for character in text]
    return "".join(pieces), [(i, i + 1) for i, piece in enumerate(pieces) for _ in piece]
