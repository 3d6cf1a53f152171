"""Tokenization settings, which are stored with a corpus, and scikit-learn's analyzer with these settings."""

from __future__ import annotations

import dataclasses
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
import numpy as np

from sdem_dist.records import record
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.text.patterns import PATTERN_OF_WORDS, WORDS, WORDS_AND_SIGNS, is_of_kernels, token_spans

Pattern = Annotated[str, msgspec.Meta(max_length=1000)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Fraction = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Length = Annotated[int, msgspec.Meta(ge=1, le=1000)]  # counters allocate memory in proportion to this
_MEANINGS = {"Pattern": "a regular expression of at most 1000 characters", "Count": "an integer of at least 1"}
_MEANINGS |= {"Fraction": "a fraction between 0.0 and 1.0", "tuple[Length, Length]": "two integers between 1 and 1000"}
_MEANINGS |= {
    "tuple[str, ...]": "words",
    "Literal[": "one of [",
    " | ": " or ",
    "bool": "True or False",
    "str": "a text",
}
MAX_REPEATS = 10_000  # limit of the product of counted repeats, which regex expands when it compiles a pattern
CHARACTERS = 3, 4  # lengths of the n-grams of characters for "words+characters"
MARK = " "  # prefix of these n-grams in a vocabulary; no word begins with it


@lru_cache(maxsize=1)
def _types() -> dict[str, Any]:
    return get_type_hints(VectorizerSettings, include_extras=True)


@record
class VectorizerSettings:
    r"""Tokenization settings, named as in scikit-learn's ``CountVectorizer``.

    Attributes
    ----------
    kind : {"count", "hashing", "matrix"}
        "count" builds a vocabulary, "hashing" hashes words to `n_features` columns (without alternating signs),
        "matrix" is for numeric sources, where no other setting applies.
    features : {"words", "words+characters"}
        Type of features. "words+characters": words, and n-grams of 3 or 4 characters within words (as with `analyzer`
        "char_wb"), which begin with a blank in the vocabulary. Limits apply to each type of feature; hashing uses half
        of the columns for each.
    token_pattern : {"words+signs", "words"} or str
        Tokens. "words+signs": words of any length, numbers with their decimal point, and every other character, such as
        ``!`` or an emoji; each character of Chinese, Japanese and Thai; combining marks belong to the previous letter.
        "words": scikit-learn's ``(?u)\b\w\w+\b``. Or a regular expression. ``\w+`` and ``\S+`` run in compiled code,
        others in the library regex, whose ``\w`` includes combining marks, with a time limit per text.
    lowercase, analyzer, ngram_range, min_df, max_df, max_features, strip_accents
        As in ``CountVectorizer``. None: `ngram_range` (1, 1), `min_df` 1; with "words+characters", (1, 2) and 2.
    stop_words : "english", tuple of str, or None
        Words to remove, before stemming.
    stem : str, or None
        A PyStemmer language, such as "english" or "porter". Words are stemmed after removing stop words and before
        making n-grams.
    n_features : int, or None
        Number of columns of kind "hashing".
    """

    kind: Literal["count", "hashing", "matrix"] = "count"
    features: Literal["words", "words+characters"] = "words"
    lowercase: bool = True
    token_pattern: Pattern = WORDS_AND_SIGNS
    stop_words: Literal["english"] | tuple[str, ...] | None = None
    analyzer: Literal["word", "char", "char_wb"] = "word"
    ngram_range: tuple[Length, Length] = None  # type: ignore[assignment]  # the default depends on `features`
    min_df: Count | Fraction = None  # type: ignore[assignment]
    max_df: Count | Fraction = 1.0
    max_features: Count | None = None
    n_features: Count | None = None
    stem: str | None = None
    strip_accents: Literal["ascii", "unicode"] | None = None

    def __post_init__(self) -> None:
        both = self.features == "words+characters"
        least = 2 if both and self.kind != "hashing" else 1
        usual: dict[str, Any] = {"ngram_range": (1, 2) if both else (1, 1), "min_df": least}
        for name, value in usual.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        for name, kind in _types().items():
            value = getattr(self, name)
            value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            try:
                object.__setattr__(self, name, msgspec.convert(value, kind))
            except msgspec.ValidationError:
                rule = type(self).__annotations__[name]
                for word, meaning in _MEANINGS.items():
                    rule = rule.replace(word, meaning)
                raise ValueError(f"{name} must be {rule}, got {value!r}") from None
        if self.ngram_range[0] > self.ngram_range[1]:
            raise ValueError(f"ngram_range must be (min_n, max_n) with min_n <= max_n, got {self.ngram_range}")
        if self.token_pattern == WORDS:  # equal settings compare equal
            object.__setattr__(self, "token_pattern", PATTERN_OF_WORDS)
        pattern = self.token_pattern
        if math.prod(max(1, int(n)) for n in re.findall(r"\{(\d+)", pattern)) > MAX_REPEATS:
            raise ValueError(f"token_pattern {pattern!r} repeats parts more than {MAX_REPEATS:,} times in total")
        if not is_of_kernels(pattern):
            import regex

            try:
                groups = regex.compile(pattern, regex.VERSION0).groups
            except (regex.error, OverflowError, RecursionError, MemoryError, ValueError) as error:
                raise ValueError(f"token_pattern {pattern!r} is not a regular expression: {error}") from error
            if groups > 1:
                raise ValueError(f"token_pattern {pattern!r} has {groups} groups; at most one is allowed")
        stemming(self.stem)
        others = (f for f in dataclasses.fields(self) if f.name not in ("kind", *usual))
        usual |= {f.name: f.default for f in others}
        changed = [name for name, value in usual.items() if getattr(self, name) != value]
        of_kind = {"matrix": changed, "hashing": ["min_df", "max_df", "max_features"], "count": ["n_features"]}
        of_analyzer = ["token_pattern", "stop_words", "stem", "features"] if self.analyzer != "word" else []
        for what, names in (("kind", of_kind[self.kind]), ("analyzer", of_analyzer)):
            if useless := [name for name in changed if name in names]:
                raise ValueError(f"{', '.join(useless)} does not apply to {what} {getattr(self, what)!r}")
        if self.kind == "hashing" and self.n_features is None:
            raise ValueError("kind 'hashing' needs n_features, the number of columns to hash words to")
        if both and not is_of_kernels(pattern):
            raise ValueError(f"features='words+characters' needs words+signs, words, \\w+ or \\S+, got {pattern!r}")
        if both and self.n_features == 1:
            raise ValueError(
                "features='words+characters' needs n_features of at least 2: one for words, one for characters"
            )

    def __repr__(self) -> str:
        usual = type(self)(kind=self.kind, features=self.features, n_features=self.n_features)
        fields = [(f.name, getattr(self, f.name)) for f in dataclasses.fields(self)]
        set_ = [f"{name}={value!r}" for name, value in fields if value != getattr(usual, name)]
        first = [f"{name}={value!r}" for name, value in fields[:2] if value != getattr(type(self), name)]
        columns = [] if self.n_features is None else [f"n_features={self.n_features}"]
        return f"{type(self).__name__}({', '.join([*first, *columns, *set_])})"

    @property
    def chooses_terms(self) -> bool:
        """Whether terms may be dropped from the vocabulary because of their numbers of documents or occurrences."""
        least = self.min_df > 1 if isinstance(self.min_df, int) else self.min_df > 0
        return least or isinstance(self.max_df, int) or self.max_df < 1 or self.max_features is not None

    @property
    def parts(self) -> tuple[VectorizerSettings, ...]:
        """The settings for each kind of columns, in the order of columns."""
        if self.features == "words":
            return (self,)
        n, of_words = self.n_features, {"token_pattern": WORDS_AND_SIGNS, "stop_words": None, "stem": None}
        words = dataclasses.replace(self, features="words", n_features=n and n // 2)
        characters: dict[str, Any] = {"ngram_range": CHARACTERS, "n_features": n and n - n // 2, **of_words}
        return words, dataclasses.replace(words, analyzer="char_wb", **characters)

    def boundary(self, vocabulary: Sequence[str] | None) -> int:
        """Return the first column of character n-grams after words; 0 if all columns are of one kind."""
        if self.features == "words":
            return 0
        if self.kind == "hashing":
            return (self.n_features or 0) // 2
        return bisect_left(vocabulary or (), True, key=lambda term: term.startswith(MARK))

    def to_json(self) -> JsonObject:
        """Return the settings as a JSON object."""
        values = dict(msgspec.json.decode(msgspec.json.encode(self)))  # tuples become lists, as in a file
        if self.features == "words":
            del values["features"]  # as in files that are older than this setting
        return values

    @classmethod
    def from_json(cls, values: JsonObject) -> VectorizerSettings:
        """Return the settings from the object of `to_json`; ValueError for unknown settings and invalid values."""
        if unknown := ", ".join(sorted(set(values) - {f.name for f in dataclasses.fields(cls)})):
            raise ValueError(f"unknown text settings: {unknown}; a newer version may have written them")
        return cls(**values)


@lru_cache(maxsize=8)
def stopped_words(settings: VectorizerSettings) -> frozenset[str]:
    if settings.stop_words == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return frozenset(ENGLISH_STOP_WORDS)
    return frozenset(settings.stop_words or ())


@lru_cache(maxsize=8)
def stemming(language: str | None) -> Callable[[list[str]], list[str]] | None:
    """Return a function that stems a list of words; None without a language; ValueError if the stemmer is missing."""
    if language is None:
        return None
    try:
        import Stemmer

        stem = Stemmer.Stemmer(language).stemWords
        # a word with an empty stem, such as ' in Turkish, remains unchanged
        return lambda words: [stemmed or word for stemmed, word in zip(stem(words), words, strict=True)]
    except ImportError as error:
        raise ValueError("stemming needs PyStemmer; install it with pip install 'sdem_dist[stem]'") from error
    except KeyError as error:
        raise ValueError(f"stem must be one of {', '.join(Stemmer.algorithms())}, got {language!r}") from error


def build_analyzer(settings: VectorizerSettings) -> Callable[[str], list[str]]:
    """Return scikit-learn's analyzer, a function from a text to its terms, with these settings."""
    from sklearn.feature_extraction.text import CountVectorizer

    shared = {name: getattr(settings, name) for name in ("lowercase", "analyzer", "ngram_range", "strip_accents")}
    if settings.analyzer == "word":  # scikit-learn would compare stop words with stems
        shared |= {"tokenizer": lambda text: tokens_in(text, settings)[0], "token_pattern": None}
    return CountVectorizer(**shared).build_analyzer()


def tokens_in(text: str, settings: VectorizerSettings) -> tuple[list[str], list[tuple[int, int]]]:
    """Return the stemmed words of a text without stop words, and their spans, see `token_spans`."""
    stopped, stem = stopped_words(settings), stemming(settings.stem)
    spans = [(a, b) for a, b in token_spans(settings.token_pattern, text) if text[a:b] not in stopped]
    words = [text[a:b] for a, b in spans]
    return words if stem is None else stem(words), spans
