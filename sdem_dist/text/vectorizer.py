"""What words are: settings that travel with a corpus, scikit-learn's analyzer from them, and where terms stand."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_type_hints

import msgspec
import numpy as np

from sdem_dist.records import record
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.text.patterns import PATTERN_OF_WORDS, WORDS, WORDS_AND_SIGNS, is_of_kernels, token_spans

if TYPE_CHECKING:
    pass

Pattern = Annotated[str, msgspec.Meta(max_length=1000)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Fraction = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Length = Annotated[int, msgspec.Meta(ge=1, le=1000)]  # analyzers set memory aside for as many starts
_MEANINGS = {"Pattern": "a regular expression of 1000 characters at most", "Count": "a whole number from 1"}
_MEANINGS |= {"Fraction": "a fraction from 0.0 to 1.0", "tuple[Length, Length]": "two lengths from 1 to 1000"}
_MEANINGS |= {
    "tuple[str, ...]": "words",
    "Literal[": "one of [",
    " | ": " or ",
    "bool": "True or False",
    "str": "a text",
}
MAX_REPEATS = 10_000  # of counted repeats multiplied: regex writes them out when it compiles


@lru_cache(maxsize=1)
def _types() -> dict[str, Any]:
    return get_type_hints(VectorizerSettings, include_extras=True)


@record
class VectorizerSettings:
    r"""How text becomes a matrix; names have the meaning that they have in scikit-learn's ``CountVectorizer``.

    Attributes
    ----------
    kind : {"count", "hashing", "matrix"}
        "count" collects a vocabulary, "hashing" hashes words to `n_features` columns without one (no sign alternates),
        "matrix" stands for sources that are numbers already: no other setting applies.
    token_pattern : {"words+signs", "words"} or str
        What a token is. "words+signs": words of any length, numbers with their decimal point, and every other sign,
        such as ``!`` or an emoji; each letter of Chinese, Japanese and Thai; combining marks belong to the letter
        before. "words": ``(?u)\b\w\w+\b``, scikit-learn's. Or a regular expression: if it is not a run of ``\w`` or
        ``\S``, one of the library regex, whose ``\w`` takes in combining marks, with a time limit for each text.
    lowercase, analyzer, ngram_range, min_df, max_df, max_features, strip_accents
        As in ``CountVectorizer``.
    stop_words : "english", tuple of str, or None
        Words left out, compared before stemming.
    stem : str, or None
        A language of PyStemmer, such as "english" or "porter". Words are stemmed after they are split and after stop
        words are left out, before they are joined into n-grams.
    n_features : int, or None
        Number of columns of kind "hashing".
    """

    kind: Literal["count", "hashing", "matrix"] = "count"
    lowercase: bool = True
    token_pattern: Pattern = WORDS_AND_SIGNS
    stop_words: Literal["english"] | tuple[str, ...] | None = None
    analyzer: Literal["word", "char", "char_wb"] = "word"
    ngram_range: tuple[Length, Length] = (1, 1)
    min_df: Count | Fraction = 1
    max_df: Count | Fraction = 1.0
    max_features: Count | None = None
    n_features: Count | None = None
    stem: str | None = None
    strip_accents: Literal["ascii", "unicode"] | None = None

    def __post_init__(self) -> None:
        for name, kind in _types().items():
            value = getattr(self, name)
            value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            try:
                object.__setattr__(self, name, msgspec.convert(value, kind))
            except msgspec.ValidationError:
                rule = type(self).__annotations__[name]
                for word, meaning in _MEANINGS.items():
                    rule = rule.replace(word, meaning)
                raise ValueError(f"{name} is {rule}, not {value!r}") from None
        if self.ngram_range[0] > self.ngram_range[1]:
            raise ValueError(f"ngram_range is two lengths, the shorter first, not {self.ngram_range}")
        if self.token_pattern == WORDS:  # one form, for settings that are compared
            object.__setattr__(self, "token_pattern", PATTERN_OF_WORDS)
        pattern = self.token_pattern
        if math.prod(max(1, int(n)) for n in re.findall(r"\{(\d+)", pattern)) > MAX_REPEATS:
            raise ValueError(f"token_pattern {pattern!r} repeats parts more than {MAX_REPEATS:,} times together")
        if not is_of_kernels(pattern):
            import regex

            try:
                groups = regex.compile(pattern, regex.VERSION0).groups
            except (regex.error, OverflowError, RecursionError, MemoryError, ValueError) as error:
                raise ValueError(f"token_pattern {pattern!r} is not a regular expression: {error}") from error
            if groups > 1:
                raise ValueError(f"token_pattern {pattern!r} has {groups} groups; at most one is captured")
        stemming(self.stem)
        changed = [f.name for f in dataclasses.fields(self) if getattr(self, f.name) != f.default and f.name != "kind"]
        of_kind = {"matrix": changed, "hashing": ["min_df", "max_df", "max_features"], "count": ["n_features"]}
        of_analyzer = ["token_pattern", "stop_words", "stem"] if self.analyzer != "word" else []
        for what, names in (("kind", of_kind[self.kind]), ("analyzer", of_analyzer)):
            if useless := [name for name in changed if name in names]:
                raise ValueError(f"{', '.join(useless)} does not apply to {what} {getattr(self, what)!r}")
        if self.kind == "hashing" and self.n_features is None:
            raise ValueError("kind 'hashing' needs n_features, the number of columns to hash words to")

    @property
    def chooses_terms(self) -> bool:
        """Whether a term may be left out of the vocabulary because of its documents or occurrences."""
        least = self.min_df > 1 if isinstance(self.min_df, int) else self.min_df > 0
        return least or isinstance(self.max_df, int) or self.max_df < 1 or self.max_features is not None

    def to_json(self) -> JsonObject:
        """Return the settings as a dictionary that JSON can hold."""
        return dict(msgspec.json.decode(msgspec.json.encode(self)))  # pairs are lists, as in a file

    @classmethod
    def from_json(cls, values: JsonObject) -> VectorizerSettings:
        """Return the settings that `to_json` wrote; ValueError if one is unknown, or has no valid value."""
        if unknown := ", ".join(sorted(set(values) - {f.name for f in dataclasses.fields(cls)})):
            raise ValueError(f"unknown settings of text: {unknown}; a newer version may have written them")
        return cls(**values)


@lru_cache(maxsize=8)
def stopped_words(settings: VectorizerSettings) -> frozenset[str]:
    if settings.stop_words == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return frozenset(ENGLISH_STOP_WORDS)
    return frozenset(settings.stop_words or ())


@lru_cache(maxsize=8)
def stemming(language: str | None) -> Callable[[list[str]], list[str]] | None:
    """Return the function that stems words, None if they stay as they are; ValueError if there is none."""
    if language is None:
        return None
    try:
        import Stemmer

        stem = Stemmer.Stemmer(language).stemWords
        # a sign whose stem is empty, such as ' in Turkish, stays as it is
        return lambda words: [stemmed or word for stemmed, word in zip(stem(words), words, strict=True)]
    except ImportError as error:
        raise ValueError("stemming needs PyStemmer; install it with pip install 'sdem_dist[stem]'") from error
    except KeyError as error:
        raise ValueError(f"stem is one of {', '.join(Stemmer.algorithms())}, not {language!r}") from error


def build_analyzer(settings: VectorizerSettings) -> Callable[[str], list[str]]:
    """Return scikit-learn's function from a text to its terms, for these settings."""
    from sklearn.feature_extraction.text import CountVectorizer

    shared = {name: getattr(settings, name) for name in ("lowercase", "analyzer", "ngram_range", "strip_accents")}
    if settings.analyzer == "word":  # scikit-learn would compare stop words with stems
        shared |= {"tokenizer": lambda text: tokens_in(text, settings)[0], "token_pattern": None}
    return CountVectorizer(**shared).build_analyzer()


def tokens_in(text: str, settings: VectorizerSettings) -> tuple[list[str], list[tuple[int, int]]]:
    """Return the words of a text, stemmed, without stop words, and where they stand, see `token_spans`."""
    stopped, stem = stopped_words(settings), stemming(settings.stem)
    spans = [(a, b) for a, b in token_spans(settings.token_pattern, text) if text[a:b] not in stopped]
    words = [text[a:b] for a, b in spans]
    return words if stem is None else stem(words), spans


Occurrence = tuple[str, list[tuple[int, int]]]  # a term, and where its tokens, or characters, stand in the text


class Mark(NamedTuple):
    """A part of a text, ``text[start:stop]``, with its share of a sum."""

    start: int
    stop: int
    value: float


def marked(occurrences: Iterable[Occurrence], values: Mapping[str, float]) -> list[Mark]:
    """Return, of what `terms` yields, the tokens or characters in order; they share the values of terms found."""
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
        rewritten = "".join(letters)
        origins = [origin for origin, new in zip(origins, letters, strict=True) for _ in new]
    if settings.analyzer == "word":
        tokens, spans = tokens_in(rewritten, settings)
    else:  # runs of white space are one blank
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
