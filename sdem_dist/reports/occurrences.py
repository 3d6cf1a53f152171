"""Positions of the terms in a text, and their values as marks of the text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from sdem_dist.text.vectorizer import MARK, VectorizerSettings, tokens_in

Place = tuple[int, int]
Occurrence = tuple[str, list[Place]]  # a term, and the places of its tokens, or characters, in the text


class Mark(NamedTuple):
    """A segment of a text, ``text[start:stop]``, with its share of a sum."""

    start: int
    stop: int
    value: float


def marked(occurrences: Iterable[Occurrence], values: Mapping[str, float]) -> list[Mark]:
    """Return the places of `occurrences` (see `terms`) in order; the value of each term is divided among its places."""
    of_values = [(term, places) for term, places in occurrences if term in values]
    times = Counter(term for term, _ in of_values)
    shares: dict[Place, float] = {}
    for term, places in of_values:
        for place in places:
            shares[place] = shares.get(place, 0.0) + values[term] / times[term] / len(places)
    return [Mark(start, stop, value) for (start, stop), value in sorted(shares.items())]


def terms(text: str, settings: VectorizerSettings) -> Iterator[Occurrence]:
    """Yield every occurrence of a term, as spelled by the vectorizer, with the places of its tokens or characters.

    With "words+characters", the places of an n-gram of characters are those of the words that contain its characters.
    """
    words, *characters = settings.parts
    yield from _terms(text, words)
    for part in characters:
        places = words_of_characters(text, words)
        for term, of_term in _terms(text, part):
            yield MARK + term, [places[start] for start, _ in of_term]


def words_of_characters(text: str, settings: VectorizerSettings) -> list[Place]:
    """Return for each character of a text the place of its word; outside of words, its own place."""
    places = [(i, i + 1) for i in range(len(text))]
    for start, stop in _words(text, settings):
        places[start:stop] = [(start, stop)] * (stop - start)
    return places


def parts_of_words(text: str, settings: VectorizerSettings, values: Mapping[str, float]) -> dict[str, float]:
    """Return the sum of the values of n-grams of characters in each word, as spelled by the vectorizer."""
    names, sums = _words(text, settings.parts[0]), dict[str, float]()
    of_characters = ((term, places) for term, places in terms(text, settings) if term.startswith(MARK))
    for start, stop, value in marked(of_characters, values):
        name = names.get((start, stop), text[start:stop])
        sums[name] = sums.get(name, 0.0) + value
    return sums


def _words(text: str, settings: VectorizerSettings) -> dict[Place, str]:
    every = replace(settings, ngram_range=(1, 1), stop_words=None)
    return {place: word for word, (place,) in _terms(text, every)}


def _terms(text: str, settings: VectorizerSettings) -> Iterator[Occurrence]:
    """Yield every occurrence of a term of one kind of columns, see `terms`."""
    rewritten = text.lower() if settings.lowercase else text
    origins = [(i, i + 1) for i in range(len(text))]  # place of each rewritten character in `text`
    if len(rewritten) != len(text) or settings.strip_accents is not None:
        from sklearn.feature_extraction.text import strip_accents_ascii, strip_accents_unicode

        strip = {"ascii": strip_accents_ascii, "unicode": strip_accents_unicode, None: str}[settings.strip_accents]
        letters = [strip(character.lower() if settings.lowercase else character) for character in text]
        rewritten = "".join(letters)
        origins = [origin for origin, new in zip(origins, letters, strict=True) for _ in new]
    if settings.analyzer == "word":
        tokens, spans = tokens_in(rewritten, settings)
    else:  # a run of white space is one blank
        spans = [match.span() for match in re.finditer(r"\s\s+|.", rewritten, re.DOTALL)]
        tokens = [" " if b - a > 1 else rewritten[a] for a, b in spans]
    units = [(token, origins[a][0], origins[b - 1][1]) for token, (a, b) in zip(tokens, spans, strict=True) if a < b]
    sequences, of_words = [units], settings.analyzer == "char_wb"
    if of_words:
        words = [list(word) for is_blank, word in groupby(units, lambda unit: unit[0].isspace()) if not is_blank]
        sequences = [[(" ", w[0][1], w[0][1]), *w, (" ", w[-1][2], w[-1][2])] for w in words]
    between, (shortest, longest) = " " if settings.analyzer == "word" else "", settings.ngram_range
    for sequence in sequences:
        for n in range(shortest, longest + 1):
            size = min(n, len(sequence)) if of_words else n
            for i in range(len(sequence) - size + 1):
                run = sequence[i : i + size]
                yield between.join(token for token, _, _ in run), [(a, b) for _, a, b in run if a < b]
            if of_words and n >= len(sequence):  # a short word counts once
                break
