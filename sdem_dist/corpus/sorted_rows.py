"""Documents in files by ascending key, of which any range is read, and shards made of them by tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.corpus.manifest import SHARDS, CorpusStats, ShardInfo
from sdem_dist.corpus.rows import KeyedRows, cut
from sdem_dist.corpus.shards import write_shard
from sdem_dist.corpus.spill import keys_of_ranks
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.kept import REQUESTS, load_array, read_values, save_array
from sdem_dist.storage.urls import is_url

if TYPE_CHECKING:
    from sdem_dist.corpus.collect import Collected
    from sdem_dist.engine.executor import Executor
    from sdem_dist.storage.arrays import Group


ROWS = "rows"
PIECE_BYTES = 1 << 20
"""Of what is read together, about: a task that writes shards needs some of the documents of each file."""

Pieces = list[list[Any]]
"""Of each piece of a file: where it begins, its first and last key, and the layout of its arrays; as JSON has them."""


def write_pieces(folder: Path, parts: Iterable[KeyedRows]) -> Pieces:
    """Write documents, which come by ascending key, to a file in pieces of about `PIECE_BYTES`; return these."""
    pieces: Pieces = []
    with (folder / ROWS).open("wb") as file:
        for rows in (piece for part in parts for piece in _small(part)):
            place = file.tell()
            keys = int(rows.keys[0]), int(rows.keys[-1])
            rows.write(file)
            pieces.append([place, *keys, [list(part) for part in rows.layout]])
    return pieces


def _small(rows: KeyedRows) -> Iterator[KeyedRows]:
    step = max(1, rows.n_documents * PIECE_BYTES // max(1, rows.nbytes))
    return (rows.slice(i, min(i + step, rows.n_documents)) for i in range(0, rows.n_documents, step))


def rows_between(folder: Path, pieces: Pieces, first: int, stop: int) -> list[KeyedRows]:
    """Return the documents of `write_pieces` with keys from `first` up to `stop`."""
    found = []
    for place, low, high, layout in pieces:
        if low < stop and high >= first:
            size = sum(np.dtype(kind).itemsize * n for kind, n in layout)
            piece = read_values(folder / ROWS, np.uint8, place, place + size)
            rows = KeyedRows.read(BytesIO(piece.data), tuple((kind, n) for kind, n in layout))
            start = int(np.searchsorted(rows.keys, np.uint64(first)))
            end = rows.n_documents if stop > high else int(np.searchsorted(rows.keys, np.uint64(stop)))
            found.append(rows.slice(start, end))
    return found


GROUPS = "groups.npy"
TASK_ENTRIES = 1 << 22  # entries of the shards that one task writes, about


def write_rows(folder: Path, collected: Collected) -> JsonObject:
    """Write documents to a file by ascending key; return what is known of them, as JSON."""
    return {
        "pieces": write_pieces(folder, collected.rows()),
        "n_documents": collected.n_documents,
        "n_nonzeros": collected.n_nonzeros,
        "class_counts": list(collected.class_counts),
        "n_targets": collected.n_targets,
        "has_weights": collected.has_weights,
    }


def write_groups(folder: Path, keys: np.ndarray, hashes: np.ndarray) -> None:
    """Write the hashes of the groups of documents with these keys beside their rows."""
    order = np.argsort(keys)
    np.save(folder / GROUPS, np.stack([keys[order], hashes[order]]))


def groups_between(folders: Iterable[Path], first: int, stop: int) -> np.ndarray | None:
    """Return hashes of `write_groups` of documents with keys from `first` up to `stop`, by key; None without any."""
    files = [folder / GROUPS for folder in folders if (folder / GROUPS).is_file()]
    parts = [load_array(file) if is_url(file) else np.load(file, mmap_mode="r") for file in files]
    if not parts:
        return None
    last = np.uint64(stop - 1)
    inside = [
        part[:, np.searchsorted(part[0], np.uint64(first)) : np.searchsorted(part[0], last, "right")] for part in parts
    ]
    keys, hashes = np.concatenate(inside, axis=1)
    return np.asarray(hashes[np.argsort(keys)])


@dataclass(frozen=True)
class SortedDocuments(CorpusStats):
    """Documents in files of sorted rows."""

    folders: Sequence[Path]  # one for each task
    seed: int | None  # of their order; None: that of the input
    scratch: Path  # for intermediate files

    def write_shards(
        self, executor: Executor, place: Path, parent: Group, sizes: list[int]
    ) -> tuple[tuple[ShardInfo, ...], np.ndarray | None]:
        """Write the shards of the group at ``place/shards`` in tasks; see `sdem_dist.corpus.writer.WriteShards`."""
        from sdem_dist.engine.executor import in_order

        ends = np.cumsum(sizes)
        step = max(1, TASK_ENTRIES * len(sizes) // max(1, self.n_nonzeros))
        groups = [range(i, min(i + step, len(sizes))) for i in range(0, len(sizes), step)]
        ranks = [int(ends[group[-1]]) for group in groups[:-1]]
        keys = ranks if self.seed is None else keys_of_ranks(self.seed, self.n_documents, ranks)
        bounds = [0, *keys, 1 << 64]
        kind = {
            "n_features": self.n_features,
            "dense": self.dense,
            "labelled": bool(self.classes),
            "weights": self.has_weights,
        }
        jobs = (
            (place / SHARDS, self.scratch, list(self.folders), between, group[0], sizes[group[0] : group[-1] + 1], kind)
            for group, between in zip(groups, pairwise(bounds), strict=True)
        )
        frequency = None if self.dense else np.zeros(self.n_features, np.int64)
        shards: list[ShardInfo] = []
        for number, written in enumerate(in_order(executor, write_some_shards, jobs)):
            shards += [ShardInfo(**info) for info in written]
            if frequency is not None:
                words, documents = load_array(_frequencies(self.scratch, groups[number][0]))
                frequency[words] += documents
        return tuple(shards), frequency


def write_some_shards(
    place: Path,
    scratch: Path,
    folders: list[Path],
    between: tuple[int, int],
    first: int,
    sizes: list[int],
    kind: dict[str, object],
) -> list[JsonObject]:
    """Write consecutive shards from number `first` on; return their entries in the manifest.

    Their document frequencies are left in a file of `scratch`.
    """
    import json

    from sdem_dist.storage import arrays
    from sdem_dist.storage.kept import SUMMARY

    def found(folder: Path) -> list[KeyedRows]:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        return rows_between(folder, summary["pieces"], *between)

    with ThreadPoolExecutor(REQUESTS if is_url(scratch) else 1) as pool:
        rows = KeyedRows.concatenate([part for parts in pool.map(found, folders) for part in parts])
    rows = rows.take(np.argsort(rows.keys))
    groups = groups_between(folders, *between)
    parent = arrays.group_to_fill(place)
    n_features, dense, labelled = int(str(kind["n_features"])), bool(kind["dense"]), bool(kind["labelled"])
    weights = bool(kind["weights"])
    infos, ends = [], np.cumsum(sizes)
    for number, part in enumerate(cut([rows], sizes)):
        own = None if groups is None else groups[ends[number] - sizes[number] : ends[number]]
        info = write_shard(
            parent,
            first + number,
            part,
            n_features,
            dense=dense,
            labelled=labelled,
            weights=weights,
            groups=own,
            overwrite=True,
        )
        infos.append({**vars(info), "checksums": dict(info.checksums)})
    if not dense:
        save_array(_frequencies(scratch, first), _frequency(rows.counted_words(weights), n_features))
    return infos


def _frequency(words: np.ndarray, n_features: int) -> np.ndarray:
    """Return the words that occur, and how often each does."""
    if n_features > 4 * len(words):
        return np.stack(np.unique(words.astype(np.int64), return_counts=True))
    often = np.bincount(words, minlength=n_features)
    present = np.flatnonzero(often)
    return np.stack([present, often[present]])


def _frequencies(scratch: Path, first: int) -> Path:
    return scratch / f"frequencies-{first}.npy"
