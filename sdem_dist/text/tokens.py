"""Texts become numbers of words, or code points: by kernels for the named analyzers, by scikit-learn for all others."""

from __future__ import annotations

import itertools
import logging
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sdem_dist.documents import offsets_of, offsets_of_lengths
from sdem_dist.kernels import code_points as code_point_kernels
from sdem_dist.kernels import spelling
from sdem_dist.kernels import words as word_kernels
from sdem_dist.kernels.code_points import PADDING, Pieces, Rules
from sdem_dist.kernels.csr import gather
from sdem_dist.kernels.spelling import Segments
from sdem_dist.text.texts import Texts, texts_of_bytes, texts_of_strings
from sdem_dist.text.vectorizer import KERNEL_PATTERN, VectorizerSettings, build_analyzer, stemming, stopped_words

logger = logging.getLogger(__name__)
N_CODE_POINTS = 0x110000
CHANGING = 0x30000  # beyond these code points none has a lower case or an accent; a test looks
FINAL_SIGMA = "Σ"  # the one code point whose lower case depends on its neighbours
_SLOTS = 1 << 12
_MOST_STEMS = 1 << 20
_LEFT_OUT = -2


@lru_cache(maxsize=1)
def every_code_point() -> str:
    """Return all code points, surrogates among them, as one text."""
    return np.arange(N_CODE_POINTS, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@lru_cache(maxsize=4)
def _matching(pattern: str) -> np.ndarray:
    r"""Return which code points a pattern of one code point, such as ``\w``, matches: bool of shape (1114112,)."""
    table = np.zeros(N_CODE_POINTS, bool)
    for run in re.finditer(f"(?:{pattern})+", every_code_point()):
        table[run.start() : run.end()] = True
    return table


@lru_cache(maxsize=6)
def _rewriting(lowercase: bool, strip_accents: str | None) -> tuple[Rules, float]:
    """Return rules for lower case and accents, as scikit-learn has them, and how many times a text can grow."""
    sigma = ord(FINAL_SIGMA) if lowercase else -1
    entry_of = np.zeros(N_CODE_POINTS if strip_accents == "ascii" else CHANGING, np.uint16)
    entry_of[CHANGING:] = 1
    if not lowercase and not strip_accents:
        entry_of = entry_of[:0]
    entries: dict[bytes, int] = {b"unchanged": 0, b"": 1}
    growth, points = 1.0, every_code_point()
    for start in range(128, CHANGING if len(entry_of) else 0, 128):
        chunk = points[start : start + 128]
        if not strip_accents and chunk == chunk.lower():
            continue
        for point, character in enumerate(chunk, start):
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


def grow_array(array: np.ndarray, needed: int) -> np.ndarray:
    """Return an array of at least `needed` rows that begins with those of `array`: itself if it is long enough."""
    if needed <= len(array):
        return array
    longer = np.empty((max(needed, 2 * len(array)), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


class Scratch:
    """Temporary arrays, kept so that memory is allocated once."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}

    def array(self, name: str, size: int, dtype: type) -> np.ndarray:
        """Return an array of `size` elements or more; the one of the same name returned before is overwritten."""
        array = self._arrays.get(name)
        if array is None or len(array) < size:
            array = self._arrays[name] = np.empty(max(size, 1024), dtype)
        return array


def _rewritten(texts: Texts, settings: VectorizerSettings, scratch: Scratch) -> Texts:
    """Return texts in lower case and without accents, as the settings say, in memory that the next call overwrites."""
    rules, growth = _rewriting(settings.lowercase, settings.strip_accents)
    out = scratch.array("texts", int(texts.n_bytes * growth) + len(texts) + PADDING, np.uint8)
    starts, stops = np.empty(len(texts), np.int64), np.empty(len(texts), np.int64)
    if code_point_kernels.rewrite(texts.pieces, rules, Pieces(out, starts, stops)):
        return Texts(out, starts, stops)
    # the lower case of this letter depends on its neighbours, so that Python is to say it
    encoded, letter = [texts.bytes_of(i) for i in range(len(texts))], FINAL_SIGMA.encode()
    for i, text in enumerate(encoded):
        if letter in text:
            encoded[i] = text.decode("utf-8", "surrogatepass").lower().encode("utf-8", "surrogatepass")
    return _rewritten(texts_of_bytes(encoded), settings, scratch)


class TokenInterner:
    """Words and their numbers; finding the number of a word takes one look.

    Word ``w`` is ``spelled[offsets[w]:offsets[w + 1]]``; behind the last one there is room.
    """

    def __init__(self, words: frozenset[str] = frozenset()) -> None:
        self.n_words = 0
        self.slots = np.zeros((_SLOTS, 4), np.uint64)
        self.spelled = np.zeros(8 * _SLOTS, np.uint8)
        self.offsets = np.zeros(_SLOTS, np.int64)
        self._scratch = Scratch()
        if words:
            self.numbers(texts_of_strings(sorted(words)), grow=True)

    def view(self) -> TokenInterner:
        """Return a table of these words for another thread, which must not grow it: what calls overwrite is its own."""
        other = TokenInterner()
        other.n_words, other.slots, other.spelled, other.offsets = self.n_words, self.slots, self.spelled, self.offsets
        return other

    def split(
        self, texts: Texts, kinds: np.ndarray, inside: np.ndarray, shortest: int, *, grow: bool, ids: np.ndarray
    ) -> tuple[int, np.ndarray]:
        """Write the number of every word of the texts to `ids`, -1 for unknown ones if the table may not grow.

        Returns how many they are, and where those of each text begin and the last end, int64.
        """
        offsets, done = np.zeros(len(texts) + 1, np.int64), np.array([self.n_words, 0, 0, 0])
        marks = self._scratch.array("marks", int(texts.sizes.max(initial=0)) + 2 * PADDING, np.uint8)
        splitting, out = word_kernels.Splitting(kinds, inside, shortest), (ids, offsets)
        while needed := word_kernels.words(texts.pieces, splitting, grow, self._table(), done, marks, out):
            self._make_room(done, needed)
        self.n_words = int(done[0])
        return int(done[1]), offsets

    def numbers(self, texts: Texts, *, grow: bool) -> np.ndarray:
        """Return the number of each text, taken as one word, int32; -1 for unknown ones if not to grow."""
        ids, done = np.empty(len(texts), np.int32), np.array([self.n_words, 0, 0, 0])
        while needed := word_kernels.intern(texts.pieces, grow, self._table(), done, ids):
            self._make_room(done, needed)
        self.n_words = int(done[0])
        return ids

    def words(self, first: int = 0) -> list[str]:
        spelled, bounds = self.spelled.tobytes(), self.offsets[first : self.n_words + 1].tolist()
        return [spelled[a:b].decode("utf-8", "surrogatepass") for a, b in itertools.pairwise(bounds)]

    def spelling(self, *, separator: bool) -> Spelling:
        return Spelling(self.spelled, self.offsets, self.n_words, separator)

    def _table(self) -> word_kernels.Table:
        return word_kernels.Table(self.slots, self.spelled, self.offsets)

    def _make_room(self, done: np.ndarray, needed: int) -> None:
        n_words = int(done[0])
        if 4 * (n_words + 1) >= 3 * len(self.slots):
            slots = np.zeros((2 * len(self.slots), 4), np.uint64)
            word_kernels.rehash(self.slots, slots)
            self.slots = slots
        self.offsets = grow_array(self.offsets, n_words + 2)
        self.spelled = grow_array(self.spelled, int(self.offsets[n_words]) + needed + PADDING)


@dataclass(frozen=True)
class Spelling:
    spelled: np.ndarray  # uint8
    offsets: np.ndarray  # int64: word ``w`` is ``spelled[offsets[w]:offsets[w + 1]]``; `PADDING` more bytes may be read
    n_words: int
    separator: bool  # a space stands between words
    in_order: bool = False  # the words are sorted already

    @property
    def words(self) -> Texts:
        return Texts(self.spelled, self.offsets[: self.n_words], self.offsets[1 : self.n_words + 1])

    @classmethod
    @lru_cache(maxsize=1)
    def of_code_points(cls) -> Spelling:
        offsets = offsets_of(np.repeat(np.arange(1, 5), np.diff([0, 0x80, 0x800, 0x10000, N_CODE_POINTS])))
        spelled = np.frombuffer(every_code_point().encode("utf-8", "surrogatepass") + bytes(PADDING), np.uint8)
        return cls(spelled, offsets, N_CODE_POINTS, separator=False, in_order=True)

    def take(self, words: np.ndarray) -> Spelling:
        """Return some of the words, in the order of their given numbers."""
        offsets = offsets_of(self.offsets[words + 1] - self.offsets[words])
        spelled = np.zeros(int(offsets[-1]) + PADDING, np.uint8)
        gather(self.spelled, self.offsets, words, 1, offsets, spelled)
        return Spelling(spelled, offsets, len(words), self.separator)

    def texts(self, parents: np.ndarray, lasts: np.ndarray, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return the bytes of n-grams from the node `first` on, and `PADDING` more, and where each begins and ends.

        `parents`, `lasts`: int32, parent, -1 for none, and last word of every node.
        """
        sizes = np.empty(len(parents), np.int64)
        spelling.text_sizes(parents, lasts, self.offsets, int(self.separator), sizes)
        bounds = offsets_of(sizes[first:])
        out = np.empty(int(bounds[-1]) + PADDING, np.uint8)
        words, separator = (self.spelled, self.offsets), 0x20 if self.separator else -1
        spelling.spell(np.arange(first, len(parents)), (parents, lasts), words, separator, bounds, out)
        return out, bounds


def tokenizer_of(settings: VectorizerSettings) -> Words | Characters | Analyzed:
    """Return the fastest tokenizer for these settings; the log says if it is the slow one."""
    if settings.analyzer != "word":
        return Characters(settings)
    pattern = KERNEL_PATTERN.fullmatch(settings.token_pattern)
    if pattern is None:
        logger.info("the token pattern %r is not one that kernels know, which is slow", settings.token_pattern)
        return Analyzed(settings)
    return Words(settings, pattern[1] or pattern[3], 2 if pattern[2] or pattern[4] else 1)


class Words:
    """Runs of code points of a `kind`, from a length on; stop words are left out, and the rest may be stemmed."""

    whole_if_short = False

    def __init__(self, settings: VectorizerSettings, kind: str, shortest: int) -> None:
        self.lengths = settings.ngram_range
        self._settings, self._kind, self._shortest, self._scratch = settings, kind, shortest, Scratch()
        self._inside = _matching(kind)
        self._kinds = self._inside[:256].astype(np.uint8)
        self._kinds[128:] = 2
        self._unstemmed = TokenInterner(stopped_words(settings))
        self._n_stopped, self._grows = self._unstemmed.n_words, True
        self._stem = stemming(settings)
        self._stems = self._unstemmed if self._stem is None else TokenInterner()
        self._stem_of = np.full(self._n_stopped, _LEFT_OUT, np.int32)

    @property
    def spelling(self) -> Spelling:
        """How the words met so far are written."""
        return self._stems.spelling(separator=True)

    def tokens(self, texts: Texts) -> Segments:
        """Return the tokens of texts, in memory that the next call overwrites; unknown words are -1."""
        texts = _rewritten(texts, self._settings, self._scratch)
        ids = self._scratch.array("ids", texts.n_bytes // (self._shortest + 1) + len(texts) + 1, np.int32)
        grow = self._grows or self._stem is not None
        n_ids, offsets = self._unstemmed.split(texts, self._kinds, self._inside, self._shortest, grow=grow, ids=ids)
        ids = ids[:n_ids]
        if self._stem is not None:
            if (n_stems := len(self._stem_of)) < self._unstemmed.n_words:
                stems = texts_of_strings(self._stem(self._unstemmed.words(n_stems)))
                self._stem_of = np.concatenate([self._stem_of, self._stems.numbers(stems, grow=self._grows)])
            ids = self._stem_of[ids]
            if self._unstemmed.n_words > _MOST_STEMS:  # unstemmed words need not be remembered
                self._unstemmed = TokenInterner(stopped_words(self._settings))
                self._stem_of = self._stem_of[: self._n_stopped]
        if self._n_stopped:
            chosen = (ids < 0) | (ids >= self._n_stopped) if self._stem is None else ids != _LEFT_OUT
            ids, offsets = ids[chosen], offsets_of(chosen)[offsets]
        return Segments(ids, offsets, np.arange(len(texts) + 1))

    def parts_of(self, terms: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens of given n-grams, int32, and where each n-gram begins and the last ends, int64."""
        texts = texts_of_strings(terms)
        spaces = np.flatnonzero(texts.data == 0x20)
        starts = np.sort(np.concatenate([texts.starts, spaces + 1]), kind="stable")  # it merges what is sorted
        stops = np.sort(np.concatenate([spaces, texts.stops]), kind="stable")
        ids = self._stems.numbers(Texts(texts.data, starts, stops), grow=True)
        n_spaces = np.concatenate([np.zeros(1, np.int64), np.searchsorted(spaces, texts.stops)])
        return ids, n_spaces + np.arange(len(terms) + 1)

    def fixed(self) -> Words:
        """Return a tokenizer that learns no more words, for one thread."""
        other = Words(self._settings, self._kind, self._shortest)
        other._grows, other._stems = False, self._stems
        if self._stem is None:
            other._unstemmed = self._stems.view()
        return other


class Characters:
    """Code points; spaces that follow each other are one, or every word stands alone between two spaces ("char_wb")."""

    def __init__(self, settings: VectorizerSettings) -> None:
        self.lengths, self.spelling = settings.ngram_range, Spelling.of_code_points()
        self.whole_if_short = settings.analyzer == "char_wb"
        self._settings, self._scratch = settings, Scratch()

    def tokens(self, texts: Texts) -> Segments:
        texts = _rewritten(texts, self._settings, self._scratch)
        most = 2 * (texts.n_bytes + len(texts)) if self.whole_if_short else texts.n_bytes
        ids = self._scratch.array("ids", most, np.int32)
        segments = self._scratch.array("segments", most // 2 + len(texts) + 1, np.int64)
        segments[0] = 0
        documents, blank = np.zeros(len(texts) + 1, np.int64), _matching(r"\s")
        n_ids, n_segments = code_point_kernels.characters(
            *texts.pieces, blank, self.whole_if_short, ids, segments, documents
        )
        return Segments(ids[:n_ids], segments[: n_segments + 1], documents)

    def parts_of(self, terms: list[str]) -> tuple[np.ndarray, np.ndarray]:
        joined = "".join(terms).encode("utf-32-le", "surrogatepass")
        return np.frombuffer(joined, np.int32), offsets_of_lengths(terms)

    def fixed(self) -> Characters:
        return Characters(self._settings)


class Analyzed:
    """The terms of scikit-learn's analyzer, n-grams included: the slow way, for all other settings."""

    lengths = (1, 1)
    whole_if_short = False

    def __init__(self, settings: VectorizerSettings, table: TokenInterner | None = None) -> None:
        self._settings, self._analyze = settings, build_analyzer(settings)
        self._grows, self._table = table is None, table or TokenInterner()

    @property
    def spelling(self) -> Spelling:
        return self._table.spelling(separator=False)

    def tokens(self, texts: Texts) -> Segments:
        terms = [self._analyze(text) for text in texts]
        ids = self._table.numbers(texts_of_strings(list(itertools.chain(*terms))), grow=self._grows)
        return Segments(ids, offsets_of_lengths(terms), np.arange(len(terms) + 1))

    def parts_of(self, terms: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return self._table.numbers(texts_of_strings(terms), grow=True), np.arange(len(terms) + 1)

    def fixed(self) -> Analyzed:
        return Analyzed(self._settings, self._table)
