"""What a corpus holds besides documents: words of columns, in how many documents they occur, and all labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.corpus.layout import DOCUMENT_FREQUENCY, VOCABULARY, Header, vocabulary_hash
from sdem_dist.corpus.shards import Expected, read_arrays
from sdem_dist.errors import CorpusError
from sdem_dist.storage.strings import decode_strings

if TYPE_CHECKING:
    from sdem_dist.storage.arrays import Group


def read_vocabulary(group: Group, header: Header, path: str) -> list[str] | None:
    """Read the words of the corpus at `path` in the order of their indices; None if it has none (hashed words)."""
    from sdem_dist.storage.arrays import read_array

    if not header.has_vocabulary:
        return None
    try:
        offsets = read_array(group, f"{VOCABULARY}/offsets", shape=(header.n_features + 1,))
        encoded = read_array(group, f"{VOCABULARY}/bytes", shape=(int(offsets[-1]),)), offsets
        if vocabulary_hash(header.n_features, encoded) != header.vocabulary_hash:
            raise CorpusError("it does not match the manifest's vocabulary_hash: a file is damaged or missing")
        return decode_strings(*encoded)
    except ValueError as error:
        raise CorpusError(f"{path}: the vocabulary cannot be read: {error}") from error


def read_document_frequency(group: Group, header: Header, path: str) -> np.ndarray:
    """Read in how many documents each column of the sparse corpus at `path` occurs."""
    from sdem_dist.storage.arrays import read_array
    from sdem_dist.storage.checksum import crc32c

    if header.document_frequency_checksum is None:
        raise CorpusError(f"{path} is dense: its columns have no document frequencies")
    try:
        found = read_array(group, DOCUMENT_FREQUENCY, shape=(header.n_features,))
    except CorpusError as error:
        raise CorpusError(f"{path}: {error}") from error
    if found.dtype != np.int64 or crc32c(found) != header.document_frequency_checksum:
        raise CorpusError(
            f"{path}: array {DOCUMENT_FREQUENCY!r} does not match its checksum: a file is damaged or missing, or the corpus was "
            "replaced since it was opened: open it again"
        )
    return found


def read_column(
    group: Group, header: Header, stored: Callable[[int], int], path: str, name: str, kind: str
) -> np.ndarray:
    """Read an array of all documents and nothing else; `stored` gives the number of a shard on disk."""
    parts = []
    for shard, info in enumerate(header.shards):
        expected: dict[str, Expected] = {name: ((info.n_documents,), kind)}
        parts.append(read_arrays(group, info, stored(shard), expected, path)[name])
    return np.concatenate(parts)
