"""The first pass of an ingest: every source is read and counted once, block by block, onto disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.text.analysis import TextJob, count_blocks
from sdem_dist.text.held_out import held_out_mask
from sdem_dist.text.sources import MatrixBlock, TextBlock
from sdem_dist.text.spill import CountedBlock, block_path, load_terms, save_block
from sdem_dist.text.vectorizer import VectorizerSettings
from sdem_dist.text.vocabulary import FixedTerms, TermTotals

if TYPE_CHECKING:
    import scipy.sparse as sp


@dataclass
class Tally:
    """What a first pass has seen so far.

    Attributes
    ----------
    n_blocks, n_documents, n_held_out : int
    classes : dict of str to int
        Code of every class name, in the order in which they came.
    n_columns, first_column : int
        Of numbers: one past the highest column met, and the lowest; 0 and a large number before any. `n_columns` is that of
        hashing, too.
    whole : bool
        All values are whole numbers.
    """

    n_blocks: int = 0
    n_documents: int = 0
    n_held_out: int = 0
    classes: dict[str, int] = field(default_factory=dict)
    n_columns: int = 0
    first_column: int = np.iinfo(np.int64).max
    whole: bool = True

    @property
    def n_training(self) -> int:
        """Number of documents that are not held out."""
        return self.n_documents - self.n_held_out

    def take(self, labels: list[str], held_out: float, random_state: int) -> tuple[np.ndarray, np.ndarray]:
        """Number the next documents; return the codes of their labels, int32, and which of them are held out, bool."""
        codes = np.array([self.classes.setdefault(label, len(self.classes)) for label in labels], np.int32)
        mask = held_out_mask(self.n_documents, len(labels), held_out, random_state)
        self.n_documents += len(labels)
        self.n_held_out += int(mask.sum())
        return codes, mask

    def add_columns(self, counts: sp.csr_matrix) -> None:
        """Take note of the columns of numbers."""
        self.n_columns = max(self.n_columns, counts.shape[1])
        if counts.nnz:
            self.first_column = min(self.first_column, int(counts.indices.min()))


def numbers_path(folder: Path, block: int) -> Path:
    """Return where the numbers of a block's terms lie, which `TermTotals.add` or `FixedTerms.add` gave them."""
    return folder / f"numbers-{block:06d}.npy"


def count_text(
    blocks: Iterable[TextBlock],
    folder: Path,
    settings: VectorizerSettings,
    terms: TermTotals | FixedTerms,
    held_out: float,
    random_state: int,
    n_jobs: int | None,
    progress: Callable[[str, int, int | None], None],
) -> Tally:
    """Count the words of text into files in `folder`; `terms` learns the terms of every block, in order."""
    tally, sizes = Tally(n_columns=settings.n_features or 0), []

    def jobs() -> Iterator[TextJob]:
        for number, block in enumerate(blocks):
            codes, mask = tally.take(block.labels, held_out, random_state)
            sizes.append(len(codes))
            yield TextJob(block_path(folder, number), settings, block.texts, codes, mask)

    done = 0
    # closed at once if anything fails, so that no process writes into a folder that is being removed
    with closing(count_blocks(jobs(), n_jobs)) as counted:
        for path in counted:
            if settings.kind != "hashing":
                np.save(numbers_path(folder, tally.n_blocks), terms.add(load_terms(path)))
            done += sizes[tally.n_blocks]
            tally.n_blocks += 1
            progress("counting", done, None)
    return tally


def count_matrices(
    blocks: Iterable[MatrixBlock],
    folder: Path,
    held_out: float,
    random_state: int,
    progress: Callable[[str, int, int | None], None],
) -> Tally:
    """Copy blocks of numbers into files in `folder`, without explicit zeros and repeated columns."""
    tally = Tally()
    for block in blocks:
        counts = block.matrix
        counts.sum_duplicates()
        counts.eliminate_zeros()
        codes, mask = tally.take(block.labels, held_out, random_state)
        tally.whole = tally.whole and bool((counts.data == np.floor(counts.data)).all())
        tally.add_columns(counts)
        save_block(block_path(folder, tally.n_blocks), CountedBlock(counts, codes, mask), None)
        tally.n_blocks += 1
        progress("counting", tally.n_documents, None)
    return tally
