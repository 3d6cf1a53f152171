"""Shuffling documents into a corpus: validated rows are sorted by keys in bounded memory and written as shards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sdem_dist.corpus.manifest import Classes, ShardInfo, index_dtype
from sdem_dist.documents import offsets_of
from sdem_dist.storage import arrays
from sdem_dist.storage.buckets import REQUESTS, is_url
from sdem_dist.storage.encoding import JsonObject, crc32c
from sdem_dist.storage.jobs import SUMMARY, in_threads, load_array, read_values, save_array

if TYPE_CHECKING:
    from sdem_dist.engine.executor import Executor

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
KEYS_AT_A_TIME = 1 << 20
PIECE_BYTES = 1 << 18  # approximate size of a piece, the unit of reading; a shard reads a few pieces of each sorted run
TASK_ENTRIES = 1 << 22  # approximate number of entries in the shards of one task
ROWS = "rows"
Rows = dict[str, np.ndarray]
"""Documents before they are in shards: sort keys "keys", uint64, and arrays under their stored names.

The dtype of the entries is provisional; the final dtype is chosen for each shard when it is written.
"""
RAGGED = {"indptr": ("data", "indices"), "ids_offsets": ("ids_bytes",)}  # offsets, and the arrays that they divide
Texts = Callable[[Rows], tuple[np.ndarray, np.ndarray]]
"""Maps rows to the joined bytes of their texts, and the offsets of the texts."""
Job = tuple[int, list[int], tuple[int, int]]
"""Consecutive shards: number of the first shard, sizes, and the range of their keys."""
Shards = tuple[tuple[ShardInfo, ...], "np.ndarray | None"]
"""Entries of all shards in the manifest, and document frequencies (None for dense corpora)."""


class Kind(NamedTuple):
    """Properties that are equal for all documents of a corpus."""

    features: int
    targets: int = 0
    weights: bool = False
    labels: bool = False
    groups: bool = False
    ids: str = "positions"  # or "integers", "strings"


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the parts joined; empty the parts, so that only one column is in memory twice."""
    rows: Rows = {}
    for name in list(parts[0]):
        columns = [np.diff(part.pop(name)) if name in RAGGED else part.pop(name) for part in parts]
        rows[name] = offsets_of(np.concatenate(columns)) if name in RAGGED else np.concatenate(columns)
    return rows


def taken(rows: Rows, order: np.ndarray) -> Rows:
    """Return copies of the documents at the positions `order`."""
    from sdem_dist.kernels.csr import gather  # imports numba

    chosen: Rows = {}
    for offsets in RAGGED.keys() & rows.keys():
        starts = chosen[offsets] = offsets_of(np.diff(rows[offsets])[order])
        for name in RAGGED[offsets]:
            values, out = rows[name], np.empty(int(starts[-1]), rows[name].dtype)
            bounds, places = rows[offsets] * values.itemsize, starts[:-1] * values.itemsize
            gather(values.view(np.uint8), bounds[order], bounds[order + 1], places, out.view(np.uint8))
            chosen[name] = out
    return chosen | {name: column[order] for name, column in rows.items() if name not in chosen}


def shuffle_keys(seed: int, start: int, stop: int) -> np.ndarray:
    """Return distinct uint64 keys of the documents `start` to `stop` of the input; `seed`: modulo 2**64."""
    seed_hash = mixed((np.array([seed % 2**64], np.uint64) + np.uint64(1)) * GOLDEN)
    return mixed((np.arange(start, stop, dtype=np.uint64) + seed_hash + np.uint64(1)) * GOLDEN)


def mixed(z: np.ndarray) -> np.ndarray:
    """Mix the bits of uint64 numbers by a bijection (the finaliser of Steele, Lea and Flood's SplitMix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def stored_keys(seed: int | None, start: int, stop: int) -> np.ndarray:
    """Return the sort keys of the documents `start` to `stop`; without a seed, their positions."""
    return np.arange(start, stop, dtype=np.uint64) if seed is None else shuffle_keys(seed, start, stop)


class SortedRows:
    """Documents by key, in memory up to `memory_limit` bytes, the rest in the file `path`.

    When the memory is full, its documents are sorted and appended to the file, each once. A range of keys is then read
    from a few pieces. `pieces`: for each, start and end in the file, first and last key.
    """

    def __init__(self, path: Path, memory_limit: int = 0, pieces: Sequence[tuple[int, int, int, int]] = ()) -> None:
        self._path, self._memory_limit, self.pieces = path, memory_limit, list(pieces)
        self._in_memory: list[Rows] = []
        self._n_bytes = 0
        self._sorted: tuple[Rows, np.ndarray, np.ndarray] | None = (
            None  # (rows, order, sorted keys) of the rows in memory
        )
        self._lock = Lock()

    def add(self, rows: Rows) -> None:
        self._in_memory.append(rows)
        self._n_bytes += sum(column.nbytes for column in rows.values())
        if self._n_bytes > self._memory_limit:
            self.flush()

    def flush(self) -> None:
        from safetensors.numpy import save

        if not self._in_memory:
            return
        rows, n_bytes = joined(self._in_memory), self._n_bytes
        self._in_memory, self._n_bytes = [], 0
        order = np.argsort(rows["keys"])
        step = max(1, len(order) * PIECE_BYTES // max(1, n_bytes))
        with self._path.open("ab") as file:
            for first in range(0, len(order), step):
                piece, start = taken(rows, order[first : first + step]), file.tell()
                file.write(save(piece))
                self.pieces.append((start, file.tell(), int(piece["keys"][0]), int(piece["keys"][-1])))

    def between(self, first: int, stop: int) -> list[Rows]:
        """Return the documents with keys in ``first:stop``, in several parts, each of them sorted."""
        from safetensors.numpy import load

        parts = []

        def choose(rows: Rows, order: np.ndarray, keys: np.ndarray) -> None:
            end = len(keys) if stop >= 1 << 64 else np.searchsorted(keys, np.uint64(stop))
            chosen = order[np.searchsorted(keys, np.uint64(first)) : end]
            if len(chosen):
                parts.append(taken(rows, chosen))

        for start, end, low, high in self.pieces:
            if low < stop and high >= first:
                rows = load(read_values(self._path, np.uint8, start, end).tobytes())
                choose(rows, np.arange(len(rows["keys"])), rows["keys"])
        if self._in_memory:
            with self._lock:
                if self._sorted is None:
                    self._in_memory = [joined(self._in_memory)]
                    order = np.argsort(self._in_memory[0]["keys"])
                    self._sorted = self._in_memory[0], order, self._in_memory[0]["keys"][order]
            choose(*self._sorted)
        return parts


@dataclass(frozen=True)
class SortedDocuments:
    """Validated documents, ready to be written as shards."""

    kind: Kind
    n_documents: int
    n_nonzeros: int
    classes: Classes
    class_counts: tuple[int, ...]
    weighted: bool  # entries are real weights
    dense: bool
    seed: int | None  # seed of the order; None: the order of the input
    memory: SortedRows | None = None  # the rows, in this process; None: they are in `folders` of tasks, see `scratch`
    positions: np.ndarray | None = None  # position of each label's code among the classes; None: codes are positions
    folders: Sequence[Path] = ()
    scratch: Path | None = None

    def _between(self, first: int, stop: int) -> list[Rows]:
        """Return the documents of a range of keys with final labels, and weights as float32."""
        assert self.memory is not None
        parts = self.memory.between(first, stop)
        for rows in parts:
            if self.weighted and not self.dense:
                rows["data"] = rows["data"].astype(np.float32, copy=False)
            if self.positions is not None and self.kind.labels:
                rows["labels"] = np.where(rows["labels"] < 0, np.int32(-1), self.positions[rows["labels"]])
        return parts

    def write_rows(self, folder: Path, first: int | None = None) -> JsonObject:
        """Write the documents of a task to a file; `first`: position of its first document, if keys are positions."""
        rows = SortedRows(folder / ROWS, 1 << 62)
        for part in self._between(0, 1 << 64):
            if first is not None:
                part["keys"] = stored_keys(self.seed, first, first + self.n_documents)[part["keys"].astype(np.int64)]
                if self.kind.ids == "positions":
                    part["ids"] += first
            rows.add(part)
        rows.flush()
        names = ("kind", "n_documents", "n_nonzeros", "class_counts", "classes", "weighted")
        return {"pieces": rows.pieces, **{name: getattr(self, name) for name in names}}

    def _jobs(self, sizes: list[int], step: int) -> Iterator[Job]:
        firsts = range(0, len(sizes), step)
        bounds = np.cumsum(sizes)[[first - 1 for first in firsts[1:]]]
        if self.seed is not None and len(bounds):  # replace ranks by the keys of these ranks
            starts = range(0, self.n_documents, KEYS_AT_A_TIME)
            ends = (min(start + KEYS_AT_A_TIME, self.n_documents) for start in starts)
            keys = np.concatenate([shuffle_keys(self.seed, *part) for part in zip(starts, ends, strict=True)])
            keys.partition(bounds)
            bounds = keys[bounds]
        for first, between in zip(firsts, pairwise([0, *bounds.tolist(), 1 << 64]), strict=True):
            yield first, sizes[first : first + step], between

    def write(
        self,
        parent: Path,
        sizes: list[int],
        executor: Executor | None = None,
        n_jobs: int | None = None,
        texts: Texts | None = None,
    ) -> Shards:
        """Write all documents as shards of the given sizes to a folder, in threads, or in tasks of `executor`."""
        frequency, shards = np.zeros(self.kind.features, np.int64), list[ShardInfo]()
        if executor is None:

            def write(job: Job) -> tuple[list[ShardInfo], np.ndarray]:
                return _write(parent, job, self._between(*job[2]), self.kind, texts)

            with closing(in_threads(write, self._jobs(sizes, 1), n_jobs)) as written:
                for infos, words in written:
                    shards += infos
                    np.add.at(frequency, words, 1)
        else:
            from sdem_dist.engine.executor import in_order

            assert self.scratch is not None
            step = max(1, TASK_ENTRIES * len(sizes) // max(1, self.n_nonzeros))
            tasks = ((parent, self.scratch, self.folders, self.kind, job) for job in self._jobs(sizes, step))
            for infos, file in in_order(executor, write_shards, tasks):
                shards += infos
                words, documents = load_array(file)
                frequency[words] += documents
        return tuple(shards), None if self.dense else frequency


def write_shards(
    parent: Path, scratch: Path, folders: Sequence[Path], kind: Kind, job: Job
) -> tuple[list[ShardInfo], Path]:
    """Task: write the shards of a job; return their manifest entries, and a file of words and document frequencies."""
    with ThreadPoolExecutor(REQUESTS if is_url(scratch) else 1) as pool:
        parts = [
            part
            for of_folder in pool.map(lambda folder: rows_of(folder).between(*job[2]), folders)
            for part in of_folder
        ]
    infos, words = _write(parent, job, parts, kind, None)
    file = scratch / f"frequencies-{job[0]}.npy"
    save_array(file, np.stack(np.unique(words.astype(np.int64), return_counts=True)))
    return infos, file


def rows_of(folder: Path) -> SortedRows:
    """Return the documents that `SortedDocuments.write_rows` wrote."""
    return SortedRows(folder / ROWS, pieces=json.loads((folder / SUMMARY).read_bytes())["pieces"])


def _write(
    parent: Path, job: Job, parts: list[Rows], kind: Kind, texts: Texts | None
) -> tuple[list[ShardInfo], np.ndarray]:
    """Write consecutive shards; return their manifest entries, and the words of documents, for document frequencies."""
    number, sizes, _ = job
    rows, infos, words = joined(parts), list[ShardInfo](), [np.zeros(0, index_dtype(kind.features))]
    order = np.argsort(rows["keys"])
    for shard, (start, stop) in enumerate(pairwise(offsets_of(sizes).tolist()), number):
        contents, attributes = taken(rows, order[start:stop]), {}
        if texts is not None:
            contents["texts_bytes"], contents["texts_offsets"] = texts(contents)
        del contents["keys"]
        # The dtype depends only on the shard's entries, not on the batches of the input.
        if "values" in contents:
            entries = contents["values"] = narrowed(contents["values"])
        else:
            entries, indices = contents["data"], contents["indices"]
            if entries.dtype.kind == "u":
                entries = entries.astype(np.min_scalar_type(int(entries.max(initial=0))), copy=False)
            contents["data"] = entries
            shape = [stop - start, kind.features]  # anndata reads the group as a sparse matrix
            attributes = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": shape}
            counts = entries != 0  # entries that count for document frequencies; not those of weight 0
            if kind.weights:
                counts &= np.repeat(contents["weights"] > 0, np.diff(contents["indptr"]))
            words.append(indices if counts.all() else indices[counts])
        folder = parent / f"{shard:05d}"
        arrays.write_group(folder, attributes, contents)
        checksums = {name: crc32c(contents[name]) for name in sorted(contents)}
        infos.append(ShardInfo(stop - start, entries.size, str(entries.dtype), checksums))
    return infos, np.concatenate(words)


def narrowed(values: np.ndarray) -> np.ndarray:
    """Return float64 values as float32 if all are exact in it; return other arrays unchanged."""
    if values.dtype != np.float64:
        return values
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return narrow if np.array_equal(narrow, values, equal_nan=True) else values
