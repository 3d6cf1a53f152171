"""Tokenization to numbers of words or code points, and counting of their n-grams, with tables that grow."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import cast

import numpy as np

from sdem_dist.corpus.counts import CsrCounts, narrowed
from sdem_dist.documents import offsets_of
from sdem_dist.kernels import code_points, spelling
from sdem_dist.kernels import words as word_kernels
from sdem_dist.kernels.code_points import PADDING, Rules
from sdem_dist.kernels.csr import gather
from sdem_dist.kernels.kinds import BEYOND_ASCII, every_code_point, kinds_of_code_points, matching
from sdem_dist.kernels.spelling import Segments
from sdem_dist.text.patterns import KERNEL_PATTERN, WORDS_AND_SIGNS, expression_of, is_of_kernels
from sdem_dist.text.texts import Texts, pieces, texts_of_bytes, texts_of_strings
from sdem_dist.text.vectorizer import VectorizerSettings, build_analyzer, stemming, stopped_words

logger = logging.getLogger(__name__)
N_CODE_POINTS = 0x110000
CHANGING = 0x30000  # no code point from here on has a lower case or an accent, as a test checks
FINAL_SIGMA = "Σ"  # the only code point whose lower case depends on its neighbours
PIECE = 1 << 20  # bytes of text that are counted together: their data fit in the CPU's cache
_SLOTS = 1 << 12
_MOST_STEMS = 1 << 20
_LEFT_OUT = -2
MOST_KNOWN = 1 << 22  # most n-grams of characters in a counter's cache of words
NEW_WORDS = 1_024  # the cache of words is useless if a piece has more new words, and if these are more than half of it


@lru_cache(maxsize=6)
def _rewriting(lowercase: bool, strip_accents: str | None) -> tuple[Rules, float]:
    """Return rules for lower case and accents, as in scikit-learn, and the largest factor of growth of a text."""
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
                decomposed, ascii_only = unicodedata.normalize("NFKD", new), strip_accents == "ascii"
                new = "".join(c for c in decomposed if not (c > "\x7f" if ascii_only else unicodedata.combining(c)))
            if new != character:
                spelled = new.encode("utf-8", "surrogatepass")
                entry_of[point] = entries.setdefault(spelled, len(entries))
                growth = max(growth, len(spelled) / len(character.encode("utf-8", "surrogatepass")))
    replacements = np.frombuffer(b"".join(entries), np.uint8)
    return Rules(lowercase, entry_of, offsets_of([len(entry) for entry in entries]), replacements, sigma), growth


def grow_array(array: np.ndarray, needed: int) -> np.ndarray:
    if needed <= len(array):
        return array
    longer = np.empty((max(needed, 2 * len(array)), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


class Scratch(dict[str, np.ndarray]):
    def array(self, name: str, size: int, dtype: type) -> np.ndarray:
        array = self.get(name)
        if array is None or len(array) < size:
            array = self[name] = np.empty(max(size, 1024), dtype)
        return array


@dataclass
class Spelling:
    """Words in UTF-8: word ``w`` is ``spelled[offsets[w]:offsets[w + 1]]``; `PADDING` bytes follow the last word."""

    spelled: np.ndarray  # uint8
    offsets: np.ndarray  # int64
    n_words: int
    separator: bool  # the words of an n-gram are separated by spaces
    in_order: bool = False  # the words are sorted

    @property
    def words(self) -> Texts:
        return Texts(self.spelled, self.offsets[: self.n_words], self.offsets[1 : self.n_words + 1])

    @classmethod
    @lru_cache(maxsize=1)
    def of_code_points(cls) -> Spelling:
        offsets = offsets_of(np.repeat(np.arange(1, 5), np.diff([0, 0x80, 0x800, 0x10000, N_CODE_POINTS])))
        spelled = np.frombuffer(every_code_point().encode("utf-8", "surrogatepass") + bytes(PADDING), np.uint8)
        return cls(spelled, offsets, N_CODE_POINTS, separator=False, in_order=True)

    def take(self, numbers: np.ndarray) -> Spelling:
        begins, ends = self.offsets[numbers], self.offsets[numbers + 1]
        offsets = offsets_of(ends - begins)
        spelled = np.zeros(int(offsets[-1]) + PADDING, np.uint8)
        gather(self.spelled, begins, ends, offsets, spelled)
        return Spelling(spelled, offsets, len(numbers), self.separator)

    def texts(self, parents: np.ndarray, lasts: np.ndarray, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return the bytes of a trie's n-grams from node `first` on, followed by `PADDING` bytes, and their offsets."""
        sizes = np.empty(len(parents), np.int64)
        spelling.text_sizes(parents, lasts, self.offsets, int(self.separator), sizes)
        bounds = offsets_of(sizes[first:])
        out = np.empty(int(bounds[-1]) + PADDING, np.uint8)
        nodes, between = np.arange(first, len(parents)), 0x20 if self.separator else -1
        spelling.spell(nodes, (parents, lasts), (self.spelled, self.offsets), between, bounds, out)
        return out, bounds


class TokenInterner(Spelling):
    """A hash table from words to numbers; each word is found in one lookup. The arrays have room for more words."""

    def __init__(self, stopped: frozenset[str] = frozenset(), *, separator: bool = True) -> None:
        super().__init__(np.zeros(8 * _SLOTS, np.uint8), np.zeros(_SLOTS, np.int64), 0, separator)
        self.slots = np.zeros((_SLOTS, 4), np.uint64)
        # also without stop words: this compiles the kernel, which predictions need
        self.numbers(texts_of_strings(sorted(stopped)), grow=True)

    def fill(self, kernel: Callable[[word_kernels.Table, np.ndarray], int]) -> int:
        """Call a kernel until the table has room for all words; return the number of words that the kernel found."""
        done = np.array([self.n_words, 0, 0, 0])
        while needed := kernel(word_kernels.Table(self.slots, self.spelled, self.offsets), done):
            n_words = int(done[0])
            if 4 * (n_words + 1) >= 3 * len(self.slots):
                slots = np.zeros((2 * len(self.slots), 4), np.uint64)
                word_kernels.rehash(self.slots, slots)
                self.slots = slots
            self.offsets = grow_array(self.offsets, n_words + 2)
            self.spelled = grow_array(self.spelled, int(self.offsets[n_words]) + needed + PADDING)
        self.n_words = int(done[0])
        return int(done[1])

    def numbers(self, texts: Texts, *, grow: bool) -> np.ndarray:
        """Return the number of each text as a word, int32; `grow`: add unknown words, else their number is -1."""
        ids = np.empty(len(texts), np.int32)
        source = texts.pieces._replace(data=np.require(texts.data, requirements="W"))  # as compiled
        self.fill(lambda table, done: word_kernels.intern(source, grow, table, done, ids))
        return ids


def _splitting(points: np.ndarray, shortest: int) -> word_kernels.Splitting:
    kinds = points[:256].copy()
    kinds[128:] = BEYOND_ASCII
    return word_kernels.Splitting(kinds, points, shortest)


class Tokenizer:
    """Cuts texts into code points or words, in one thread; `learned`: a tokenizer whose words are all known words."""

    def __init__(self, settings: VectorizerSettings, learned: Tokenizer | None = None) -> None:
        self.settings, self._scratch, self._grows = settings, Scratch(), learned is None
        self.lengths, self._stem, self._n_stopped = settings.ngram_range, stemming(settings.stem), 0
        self._analyze: Callable[[str], list[str]] | None = None
        if settings.analyzer != "word":
            self.spelling = Spelling.of_code_points()
            return
        pattern, stopped = settings.token_pattern, stopped_words(settings)
        if not is_of_kernels(pattern):  # scikit-learn's analyzer returns terms, including n-grams
            if learned is None:
                logger.info("the token pattern %r has no compiled kernel, so counting is slow", pattern)
            self._analyze, self._stem, self.lengths = build_analyzer(settings), None, (1, 1)
            stopped = frozenset()
        elif pattern == WORDS_AND_SIGNS:
            self._splitting = _splitting(kinds_of_code_points(), 0)
        elif (run := KERNEL_PATTERN.fullmatch(expression_of(pattern))) is not None:
            letter, second, other, next_one = run.groups()
            self._splitting = _splitting(matching(letter or other).astype(np.uint8), 2 if second or next_one else 1)
        self._n_stopped = len(stopped)
        self._stem_of = np.full(self._n_stopped, _LEFT_OUT, np.int32)
        self._unstemmed = TokenInterner(stopped, separator=self._analyze is None)
        self._stems: TokenInterner = self._unstemmed if self._stem is None else TokenInterner()
        if learned is not None:
            self._stems = learned._stems
            self._unstemmed = self._stems if self._stem is None else self._unstemmed
        self.spelling = self._stems

    def tokens(self, texts: Texts) -> Segments:
        """Return the tokens of texts; unknown words are -1. The next call overwrites their memory."""
        scratch, n_texts = self._scratch, len(texts)
        if self._analyze is not None:
            terms = [self._analyze(text) for text in texts]
            ids = self._stems.numbers(texts_of_strings(list(chain(*terms))), grow=self._grows)
            return Segments(ids, offsets_of([*map(len, terms)]), np.arange(n_texts + 1))
        rules, growth = _rewriting(self.settings.lowercase, self.settings.strip_accents)
        out = scratch.array("texts", int(texts.n_bytes * growth) + n_texts + PADDING, np.uint8)
        rewritten = Texts(out, np.empty(n_texts, np.int64), np.empty(n_texts, np.int64))
        source = texts.data.view()
        source.flags.writeable = False  # some sources are read-only: one compilation for all
        if not code_points.rewrite(texts.pieces._replace(data=source), rules, rewritten.pieces):
            # the lower case of FINAL_SIGMA depends on its neighbours: leave such texts to Python
            encoded, letter = texts.encoded(), FINAL_SIGMA.encode()
            for i, text in enumerate(encoded):
                if letter in text:
                    encoded[i] = text.decode("utf-8", "surrogatepass").lower().encode("utf-8", "surrogatepass")
            return self.tokens(texts_of_bytes(encoded))
        n_bytes = rewritten.n_bytes
        offsets = np.zeros(n_texts + 1, np.int64)
        if self.settings.analyzer != "word":
            around_words = self.settings.analyzer == "char_wb"
            most = 2 * (n_bytes + n_texts) if around_words else n_bytes
            ids = scratch.array("ids", most, np.int32)
            segments = scratch.array("segments", most // 2 + n_texts + 1, np.int64)
            segments[0], is_space = 0, matching(r"\s")
            n_ids, n_segments = code_points.characters(
                *rewritten.pieces, is_space, around_words, ids, segments, offsets
            )
            return Segments(ids[:n_ids], segments[: n_segments + 1], offsets)
        ids = scratch.array("ids", n_bytes // (self._splitting.shortest + 1) + n_texts + 1, np.int32)
        marks = scratch.array("marks", int(rewritten.sizes.max(initial=0)) + 2 * PADDING, np.uint8)
        arguments, buffers = (rewritten.pieces, self._splitting, self._grows or self._stem is not None), (ids, offsets)
        n_ids = self._unstemmed.fill(lambda table, done: word_kernels.words(*arguments, table, done, marks, buffers))
        ids = ids[:n_ids]
        if self._stem is not None:
            if (n_stems := len(self._stem_of)) < self._unstemmed.n_words:
                stems = texts_of_strings(self._stem(list(self._unstemmed.words.take(slice(n_stems, None)))))
                self._stem_of = np.concatenate([self._stem_of, self._stems.numbers(stems, grow=self._grows)])
            ids = self._stem_of[ids]
            if self._unstemmed.n_words > _MOST_STEMS:  # clear the cache of unstemmed words
                self._unstemmed = TokenInterner(stopped_words(self.settings))
                self._stem_of = self._stem_of[: self._n_stopped]
        if self._n_stopped:
            chosen = (ids < 0) | (ids >= self._n_stopped) if self._stem is None else ids != _LEFT_OUT
            ids, offsets = ids[chosen], offsets_of(chosen)[offsets]
        return Segments(ids, offsets, np.arange(n_texts + 1))

    def forget(self) -> None:
        """Start an empty table of words, without stop words and stems."""
        self.spelling = self._stems = self._unstemmed = TokenInterner()

    def parts_of(self, terms: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens of all n-grams in `terms`, int32, and the offsets of the n-grams, int64."""
        if self.settings.analyzer != "word":
            characters = "".join(terms).encode("utf-32-le", "surrogatepass")
            return np.frombuffer(characters, np.int32).copy(), offsets_of([*map(len, terms)])
        texts, bounds = texts_of_strings(terms), np.arange(len(terms) + 1)
        if self._analyze is None:
            spaces = np.flatnonzero(texts.data == 0x20)
            bounds[1:] += np.searchsorted(spaces, texts.stops)
            starts = np.sort(np.concatenate([texts.starts, spaces + 1]), kind="stable")  # merges two sorted arrays
            texts = Texts(texts.data, starts, np.sort(np.concatenate([spaces, texts.stops]), kind="stable"))
        return self._stems.numbers(texts, grow=True), bounds


NO_COUNTS = CsrCounts(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))


class NgramCounter:
    """Counts n-grams as nodes of a `Trie`, in one thread; `learned`: a counter whose n-grams are the only ones."""

    def __init__(
        self, settings: VectorizerSettings, *, tallies: bool = True, learned: NgramCounter | None = None
    ) -> None:
        self._known, self._words, self._settings = NO_COUNTS, cast("Tokenizer | None", None), settings
        if settings.analyzer == "char_wb" and (learned is None or learned._words is not None):
            # these n-grams lie within words, and most words recur, so counts are cached by word
            self._words = Tokenizer(replace(settings, analyzer="word", token_pattern=r"\S+", ngram_range=(1, 1)))
            settings = replace(settings, lowercase=False, strip_accents=None)
        self.tokenizer: Tokenizer = Tokenizer(settings, None if learned is None else learned.tokenizer)
        self.n_words = self.n_unknown = 0  # tokens so far, and unknown tokens, if terms are fixed
        self.n_nodes, self._n_entries, self._scratch, self._grows = 0, 0, Scratch(), learned is None
        self.parents, self.lasts = np.empty(_SLOTS, np.int32), np.empty(_SLOTS, np.int32)
        self.tally = np.empty((_SLOTS, 3 if tallies else 1), np.int64)
        self._slots, self._node_of_word = np.zeros((_SLOTS, 2), np.int64), np.full(_SLOTS, -1, np.int32)
        if learned is not None:
            for name in ("n_nodes", "parents", "lasts", "_slots", "_node_of_word"):
                setattr(self, name, getattr(learned, name))
            self.tally = np.full((self.n_nodes, 1), -1, np.int64)

    def parts(self, texts: Texts, tallied: np.ndarray | None = None) -> list[CsrCounts]:
        """Count texts in pieces; only texts in the mask `tallied` add to the tally of documents and occurrences."""
        tallied = np.zeros(len(texts), bool) if tallied is None else tallied
        return [self.count(texts.take(slice(a, b)), tallied[a:b]) for a, b in pieces(texts.sizes, PIECE)]

    def count(self, texts: Texts, tallied: np.ndarray) -> CsrCounts:
        if self._words is not None:
            return self._count_by_words(self._words, texts, tallied)
        tokens = self.tokenizer.tokens(texts)
        if not self._grows:
            self.n_words += len(tokens.ids)
            self.n_unknown += int(np.count_nonzero(tokens.ids < 0))
        sizes, (shortest, longest) = np.diff(tokens.bounds), self.tokenizer.lengths
        most = int(tokens.bounds[-1]) * (longest - shortest + 1) + len(sizes)
        nodes, counts = (self._scratch.array(name, most, np.int32) for name in ("nodes", "counts"))
        level = self._scratch.array("level", int(sizes.max(initial=0)), np.int32)
        if self.tally.shape[1] == 1:
            tallied = np.zeros(len(texts), bool)
        indptr, whole_if_short = np.zeros(len(texts) + 1, np.int64), self.tokenizer.settings.analyzer == "char_wb"
        form = spelling.Form(shortest, longest, whole_if_short, self._grows, self._n_entries)
        entries = CsrCounts(indptr, nodes, counts)
        n = self._fill(lambda tree, done: spelling.count(tokens, tallied, form, tree, done, level, entries))
        self._n_entries += n
        return narrowed(CsrCounts(indptr, nodes[:n].copy(), counts[:n]))  # the next call overwrites these

    def _count_by_words(self, tokenizer: Tokenizer, texts: Texts, tallied: np.ndarray) -> CsrCounts:
        """Count n-grams of characters within words, from cached counts of each distinct word."""
        if len(self._known.nodes) > MOST_KNOWN:
            tokenizer.forget()
            self._known = NO_COUNTS
        ids, offsets, _ = tokenizer.tokens(texts)
        known, words, self._words = self._known, tokenizer.spelling, None
        if (n_known := len(known.indptr) - 1) < words.n_words:
            new = self.parts(words.words.take(slice(n_known, None)))
            ends = np.cumsum([len(known.nodes), *(len(part.nodes) for part in new)])
            indptr = [known.indptr, *(part.indptr[1:] + end for part, end in zip(new, ends, strict=False))]
            nodes, counts = (np.concatenate([known[i], *(part[i] for part in new)]) for i in (1, 2))
            self._known = known = CsrCounts(np.concatenate(indptr), nodes, counts.astype(np.int32, copy=False))
        if words.n_words - n_known > max(NEW_WORDS, len(ids) // 2):  # Chinese has no spaces between words
            self.tokenizer, self._known = Tokenizer(self._settings), NO_COUNTS
        else:
            self._words = tokenizer
        sizes = np.diff(known.indptr)
        most = int(sizes[ids].sum()) + 1
        nodes, counts = (self._scratch.array(name, most, np.int32) for name in ("nodes", "counts"))
        tallied = tallied & (self.tally.shape[1] > 1)
        entries = CsrCounts(np.zeros(len(texts) + 1, np.int64), nodes, counts)
        arguments = tallied, self.tally, (np.zeros(len(sizes), np.int32), np.zeros(self.n_nodes, np.int32))
        n = spelling.count_by_words((ids, offsets), known, *arguments, entries)
        return narrowed(CsrCounts(entries.indptr, nodes[:n].copy(), counts[:n]))

    @classmethod
    def of(cls, settings: VectorizerSettings, terms: Sequence[str], first: int) -> tuple[NgramCounter, np.ndarray]:
        """Return a counter of the given terms, and the column of each node; `first`: the first column."""
        counter, n = cls(settings, tallies=False), len(terms)
        ids, offsets = counter.tokenizer.parts_of(list(terms))
        longest, segments = int(np.diff(offsets).max(initial=1)), Segments(ids, offsets, np.arange(n + 1))
        form = spelling.Form(longest, longest, True, True, 0)  # each term is a text of one n-gram
        entries, tallied = CsrCounts(np.zeros(n + 1, int), *np.empty((2, n), np.int32)), np.zeros(n, bool)
        buffers = np.empty(longest, np.int32), entries
        counter._fill(lambda tree, done: spelling.count(segments, tallied, form, tree, done, *buffers))
        columns = np.full(counter.n_nodes, -1, np.int32)
        columns[entries.nodes[: entries.indptr[-1]]] = np.flatnonzero(np.diff(entries.indptr)) + first
        return counter, columns

    def close(self) -> None:
        """Free the memory for counting; only the nodes may be used afterwards."""
        self._slots, self._scratch = self._slots[:0].copy(), Scratch()

    def _fill(self, kernel: Callable[[spelling.Tree, np.ndarray], int]) -> int:
        """Call a kernel until the trie has room for all nodes; return the number of entries that the kernel wrote."""
        done, n_before = np.array([self.n_nodes, 0, 0, 0]), len(self._node_of_word)
        if self._grows and (n_words := self.tokenizer.spelling.n_words) > n_before:
            self._node_of_word = grow_array(self._node_of_word, n_words)
            self._node_of_word[n_before:] = -1
        while True:
            tree = spelling.Tree(self._node_of_word, self._slots, self.parents, self.lasts, self.tally)
            if not (needed := kernel(tree, done)):
                break
            while 4 * needed > 3 * len(self._slots):
                slots = np.zeros((2 * len(self._slots), 2), np.int64)
                word_kernels.rehash(self._slots.view(np.uint64), slots.view(np.uint64))
                self._slots = slots
            self.parents, self.lasts, self.tally = (grow_array(array, needed) for array in tree[2:])
        self.n_nodes = int(done[0])
        return int(done[1])
