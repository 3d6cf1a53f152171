"""Where the terms of a model occur in a text."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from sdem_dist.text.vectorizer import VectorizerSettings, stemming, stopped_words, token_spans

Occurrence = tuple[str, list[tuple[int, int]]]  # a term, and where its tokens, or characters, stand in the text


class Mark(NamedTuple):
    """A stretch ``text[start:stop]`` with its part of a sum."""

    start: int
    stop: int
    value: float


def marked(occurrences: Iterable[Occurrence], values: Mapping[str, float]) -> list[Mark]:
    """Return the tokens, or characters, with their shares of the values of terms, in the order of the text.

    A term's value is divided among its occurrences, and an occurrence's among its tokens. So the marks sum to the
    values of the terms that were found.

    `occurrences`: what `terms` yields of the text.
    `values`: of terms in this text, as the vocabulary spells them.
    """
    of_values = [(term, places) for term, places in occurrences if term in values]
    times = Counter(term for term, _ in of_values)
    shares: dict[tuple[int, int], float] = {}
    for term, places in of_values:
        for place in places:
            shares[place] = shares.get(place, 0.0) + values[term] / times[term] / len(places)
    return [Mark(start, stop, value) for (start, stop), value in sorted(shares.items())]


def terms(text: str, settings: VectorizerSettings) -> Iterator[Occurrence]:
    """Yield every occurrence of a term as the vectorizer spells it, with where its tokens, or characters, stand."""
    rewritten = text.lower() if settings.lowercase else text
    origins = [(i, i + 1) for i in range(len(text))]  # where each character came from
    if len(rewritten) != len(text) or settings.strip_accents is not None:
        from sklearn.feature_extraction.text import strip_accents_ascii, strip_accents_unicode

        strip = {"ascii": strip_accents_ascii, "unicode": strip_accents_unicode, None: str}[settings.strip_accents]
        letters = [strip(character.lower() if settings.lowercase else character) for character in text]
        rewritten, origins = (
            "".join(letters),
            [origin for origin, new in zip(origins, letters, strict=True) for _ in new],
        )
    if settings.analyzer == "word":
        stopped, stem = stopped_words(settings), stemming(settings.stem)
        every = token_spans(settings.token_pattern, rewritten)
        spans = [(a, b) for a, b in every if a < b and rewritten[a:b] not in stopped]
        tokens = [rewritten[a:b] for a, b in spans]
        tokens = tokens if stem is None else stem(tokens)
    else:  # runs of white space are one blank
        spans = [match.span() for match in re.finditer(r"\s\s+|.", rewritten, re.DOTALL)]
        tokens = [" " if b - a > 1 else rewritten[a] for a, b in spans]
    units = [(token, origins[a][0], origins[b - 1][1]) for token, (a, b) in zip(tokens, spans, strict=True)]
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
