"""Blocks of counted documents on disk, between the two passes of an ingest."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdem_dist.text.gram_tree import NodeCounts

MATRIX = -1  # stands for the run of a block whose columns are those of the corpus, or of its source of numbers


@dataclass(frozen=True)
class CountedBlock:
    """Consecutive documents, counted."""

    counts: NodeCounts  # columns are the terms of a run, or those of the corpus
    n_columns: int
    run: int  # `n_columns` and `run`: columns of the counts, and the number of the run, or `MATRIX`
    labels: np.ndarray  # shape (n_documents,), int32: codes of classes in the order in which the ingest met them
    first: int = 0  # position of the first document in what was counted together
    weights: np.ndarray | None = None  # shape (n_documents,), float64


def block_path(folder: Path, block: int) -> Path:
    """Return where the block number `block` lies."""
    return folder / f"block-{block:06d}"


def save_block(path: Path, block: CountedBlock) -> None:
    """Write a block, without pickle."""
    counts = block.counts
    save_arrays(
        path,
        np.array([block.n_columns, block.run, block.first]),
        counts.indptr,
        counts.nodes,
        _narrowed(counts.counts),
        block.labels,
        np.zeros(0) if block.weights is None else block.weights,
    )


def load_block(path: Path) -> CountedBlock:
    """Read the documents that `save_block` wrote."""
    (n_columns, run, first), indptr, nodes, counts, labels, weights = load_arrays(path, 6)
    given = weights if len(weights) else None
    return CountedBlock(NodeCounts(indptr, nodes, counts), int(n_columns), int(run), labels, int(first), given)


def save_arrays(path: Path, *arrays: np.ndarray) -> None:
    """Write arrays one after another, without pickle."""
    with path.open("wb") as file:
        for array in arrays:
            header = np.lib.format.header_data_from_array_1_0(array)
            np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(array).data)  # `tofile` would not say that the disk is full


def save_bytes(path: Path, array: np.ndarray) -> None:
    """Write the bytes of an array alone."""
    with path.open("wb") as file:
        file.write(np.ascontiguousarray(array).data)


def load_arrays(path: Path, n: int) -> list[np.ndarray]:
    """Read the first `n` arrays that `save_arrays` wrote."""
    with path.open("rb") as file:
        return [np.load(file, allow_pickle=False) for _ in range(n)]


def _narrowed(values: np.ndarray) -> np.ndarray:
    """Return whole numbers in the smallest unsigned dtype that holds them, which halves the spill or better."""
    if values.dtype.kind == "f" or len(values) == 0:
        return values
    return values.astype(np.min_scalar_type(int(values.max())))
