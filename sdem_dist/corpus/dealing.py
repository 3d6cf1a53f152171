"""Documents dealt to folds: evenly in each class, those of one group together."""

import hashlib
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus.layout import Header
from sdem_dist.corpus.shards import GroupsAt
from sdem_dist.corpus.shuffle import shuffle_keys
from sdem_dist.counted import counted
from sdem_dist.errors import CorpusError

FOLDS = (1 << 32) - 2  # stands where an epoch would in the keys that decide which fold a document is in


def dealt(
    labels: np.ndarray | None, n_documents: int, k: int, seed: int, groups: ArrayLike | None = None
) -> np.ndarray:
    """Return the fold of each document: those of a class, in the order of their hashes, are dealt in turn.

    With groups, the largest come first; each goes into the fold that has fewest documents of its classes.
    """
    from sdem_dist.kernels.randomness import document_keys  # numba comes with it

    keys = document_keys(seed, FOLDS, 0, n_documents)
    if groups is not None:
        return _dealt_groups(labels, group_codes(groups, n_documents), k, keys)
    order = np.argsort(keys, kind="stable") if labels is None else np.lexsort((keys, labels))
    numbers = np.empty(n_documents, np.int16)
    numbers[order] = np.arange(n_documents) % k
    return numbers


def group_codes(groups: ArrayLike, n_documents: int) -> np.ndarray:
    """Return groups numbered from 0, int64 of shape (n_documents,); ValueError where there is not one per document."""
    found = np.asarray(groups)
    if found.shape != (n_documents,):
        raise ValueError(f"there are {n_documents:,} documents, and groups have shape {found.shape}")
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def _dealt_groups(labels: np.ndarray | None, codes: np.ndarray, k: int, keys: np.ndarray) -> np.ndarray:
    from sdem_dist.kernels.groups import deal_groups

    n = int(codes.max(initial=-1)) + 1
    if n < k:
        raise ValueError(f"{counted(n, 'group')} cannot be cut into {k} folds: a group is in one fold")
    classes = np.zeros(len(codes), np.int64) if labels is None else labels.astype(np.int64) + 1
    n_classes = int(classes.max()) + 1
    pairs, counts = np.unique(codes * n_classes + classes, return_counts=True)
    sizes, least = np.bincount(codes, minlength=n), np.full(n, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(least, codes, keys)
    order = np.lexsort((least, -sizes))
    starts = np.searchsorted(pairs // n_classes, np.arange(n + 1))
    of_groups = deal_groups(order, starts, pairs % n_classes, counts, np.bincount(classes, minlength=n_classes), k)
    return of_groups[codes]


def group_hashes(groups: ArrayLike) -> np.ndarray:
    """Return 64 bits for the name of each group, uint64: equal for names that are the same text."""
    names, codes = np.unique(np.asarray(groups).astype(str), return_inverse=True)
    hashed = [hashlib.blake2b(str(name).encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(hashed), "<u8").astype(np.uint64)[codes]


def groups_of_shards(header: Header, groups: Callable[[int], np.ndarray]) -> np.ndarray | None:
    """Return a hash of the group of each document, uint64 of shape (n_documents,); None where no shard keeps groups.

    Where only some corpora of those that were joined keep groups, each document of the others is a group of its own.
    """
    kept = ["groups" in shard.checksums for shard in header.shards]
    if not any(kept):
        return None
    borders = pairwise(header.shard_starts.tolist())
    found = (groups(i) if kept[i] else shuffle_keys(0, *between) for i, between in enumerate(borders))
    return np.concatenate(list(found))


def groups_at(
    groups: ArrayLike | GroupsAt | None, ids: Sequence[int | str] | np.ndarray | None, n_documents: int
) -> GroupsAt | None:
    """Return what finds the groups of documents by their ids, as `write_corpus` is given both.

    Raises CorpusError: there is not one group per document, or two documents of one id are in different groups.
    """
    if groups is None or callable(groups):
        return groups
    hashes = group_hashes(groups)
    if hashes.shape != (n_documents,):
        raise CorpusError(f"there are {n_documents:,} documents, and groups have shape {hashes.shape}")
    if ids is None:
        return lambda found: hashes[np.asarray(found)]
    named: dict[int | str, np.uint64] = {}
    for name, group in zip(ids, hashes, strict=True):
        if named.setdefault(name, group) != group:
            raise CorpusError(
                f"two documents have the id {name!r} and different groups: with groups, ids have to differ"
            )
    return lambda found: np.array([named[name] for name in found], np.uint64)
