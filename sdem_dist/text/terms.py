"""How words and n-grams are written, and words in sorted order."""

from dataclasses import dataclass

import numpy as np

from sdem_dist.kernels import spelling
from sdem_dist.kernels.code_points import PADDING
from sdem_dist.offsets import offsets_of
from sdem_dist.text.gram_tree import GramTree
from sdem_dist.text.texts import Texts

_ROUNDS = 8  # of eight bytes, after which words are compared one by one


@dataclass(frozen=True)
class Spelling:
    """How the words of n-grams are written."""

    spelled: np.ndarray  # uint8
    offsets: np.ndarray  # int64: word ``w`` is ``spelled[offsets[w]:offsets[w + 1]]``; `PADDING` more bytes may be read
    n_words: int
    separator: bool  # a space stands between words
    in_order: bool = False  # the words are sorted already

    @property
    def words(self) -> Texts:
        """All words, in the order of their numbers."""
        return Texts(self.spelled, self.offsets[: self.n_words], self.offsets[1 : self.n_words + 1])

    def sizes(self, tree: GramTree) -> np.ndarray:
        """Return the number of bytes of every node of a tree, int64."""
        sizes = np.empty(tree.n_nodes, np.int64)
        spelling.text_sizes(tree.parents, tree.lasts, self.offsets, int(self.separator), sizes)
        return sizes

    def texts(self, tree: GramTree, nodes: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return nodes' texts: bytes, `PADDING` more among them, and where each begins and the last ends, int64."""
        bounds = offsets_of(sizes[nodes])
        out = np.empty(int(bounds[-1]) + PADDING, np.uint8)
        words, separator = (self.spelled, self.offsets), 0x20 if self.separator else -1
        spelling.spell(nodes, (tree.parents, tree.lasts), words, separator, bounds, out)
        return out, bounds


def sorted_words(spelled: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the numbers of words sorted by their bytes, int64: eight bytes at a time, as long as words are alike."""
    starts, sizes = offsets[:-1], np.diff(offsets)
    groups, members = np.zeros(len(starts), np.int64), np.arange(len(starts))
    order = members.copy()
    places = members.copy()  # of the terms that are equal so far, ascending
    for depth in range(0, 8 * _ROUNDS, 8):
        keys = _eight_bytes(spelled, starts[members] + depth, sizes[members] - depth)
        ends = np.minimum(sizes[members] - depth, 9)  # a zero byte sorts after the end of a term
        by_key = np.lexsort((ends, keys, groups)) if depth else np.lexsort((ends, keys))
        members, keys, ends, groups = members[by_key], keys[by_key], ends[by_key], groups[by_key]
        order[places] = members
        starts_new = np.ones(len(members), bool)
        starts_new[1:] = (keys[1:] != keys[:-1]) | (groups[1:] != groups[:-1]) | (ends[1:] != ends[:-1])
        groups = np.cumsum(starts_new)
        alike = ~starts_new
        alike[:-1] |= ~starts_new[1:]
        alike &= ends == 9
        if not alike.any():
            return order
        members, groups, places = members[alike], groups[alike], places[alike]
    whole = spelled.tobytes()
    of_bytes = sorted(
        range(len(members)),
        key=lambda i: (groups[i], whole[starts[members[i]] : starts[members[i]] + sizes[members[i]]]),
    )
    order[places] = members[of_bytes]
    return order


def _eight_bytes(spelled: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the next eight bytes of words as numbers that sort as the bytes do; zeros follow the end."""
    keys = np.zeros(len(starts), np.uint64)
    for byte in range(8):
        inside = sizes > byte
        keys <<= np.uint64(8)
        keys[inside] |= spelled[starts[inside] + byte].astype(np.uint64)
    return keys
