"""A table that numbers words, in the order in which they first come."""

from __future__ import annotations

import itertools

import numpy as np

from sdem_dist.kernels import words as kernels
from sdem_dist.kernels.code_points import PADDING
from sdem_dist.text.growing import Scratch, lengthened
from sdem_dist.text.texts import Texts

_SLOTS = 1 << 12


class WordTable:
    """Words and their numbers; finding the number of a word takes one look.

    `slots`: uint64 of shape (n_slots, 4). `spelled`: ndarray of uint8.
    `offsets`: ndarray of int64, word ``w`` is ``spelled[offsets[w]:offsets[w + 1]]``; behind the last one there is
    room.
    """

    def __init__(self) -> None:
        self.n_words = 0
        self.slots = np.zeros((_SLOTS, 4), np.uint64)
        self.spelled = np.zeros(8 * _SLOTS, np.uint8)
        self.offsets = np.zeros(_SLOTS, np.int64)
        self._scratch = Scratch()

    def view(self) -> WordTable:
        """Return a table of these words for another thread, which must not grow it: what calls overwrite is its own."""
        other = WordTable()
        other.n_words, other.slots, other.spelled, other.offsets = self.n_words, self.slots, self.spelled, self.offsets
        return other

    def split(
        self, texts: Texts, kinds: np.ndarray, inside: np.ndarray, shortest: int, *, grow: bool, ids: np.ndarray
    ) -> tuple[int, np.ndarray]:
        """Write the number of every word of the texts to `ids`, -1 for unknown ones if the table may not grow.

        Returns `offsets`, int64 of shape (n_texts + 1,): the words of text ``i`` are ``ids[offsets[i]:offsets[i +
        1]]``.
        """
        offsets, done = np.zeros(len(texts) + 1, np.int64), np.array([self.n_words, 0, 0, 0])
        longest = int((texts.stops - texts.starts).max(initial=0))
        marks = self._scratch.array("marks", longest + 2 * PADDING, np.uint8)
        splitting, found = kernels.Splitting(kinds, inside, shortest), (ids, offsets)
        while needed := kernels.words(texts.pieces, splitting, grow, self._table(), done, marks, found):
            self._make_room(done, needed)
        self.n_words = int(done[0])
        return int(done[1]), offsets

    def numbers(self, texts: Texts, *, grow: bool) -> np.ndarray:
        """Return the number of each text, taken as one word, int32; -1 for unknown ones if not to grow."""
        ids, done = np.empty(len(texts), np.int32), np.array([self.n_words, 0, 0, 0])
        while needed := kernels.intern(texts.pieces, grow, self._table(), done, ids):
            self._make_room(done, needed)
        self.n_words = int(done[0])
        return ids

    def words(self, first: int = 0) -> list[str]:
        """Return the words from the number `first` on."""
        spelled, bounds = self.spelled.tobytes(), self.offsets[first : self.n_words + 1].tolist()
        return [spelled[a:b].decode("utf-8", "surrogatepass") for a, b in itertools.pairwise(bounds)]

    def _table(self) -> kernels.Table:
        return kernels.Table(self.slots, self.spelled, self.offsets)

    def _make_room(self, done: np.ndarray, needed: int) -> None:
        n_words = int(done[0])
        if 4 * (n_words + 1) >= 3 * len(self.slots):
            slots = np.zeros((2 * len(self.slots), 4), np.uint64)
            kernels.rehash(self.slots, slots)
            self.slots = slots
        self.offsets = lengthened(self.offsets, n_words + 2)
        self.spelled = lengthened(self.spelled, int(self.offsets[n_words]) + needed + PADDING)
