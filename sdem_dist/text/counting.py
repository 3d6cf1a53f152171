"""The first pass of an ingest: every source is read and counted once, block by block, onto disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.corpus.dealing import group_hashes
from sdem_dist.storage.threads import in_threads
from sdem_dist.text.counters import FixedCounter, HashingCounter, Vocabulary, pieces
from sdem_dist.text.gram_tree import NodeCounts
from sdem_dist.text.held_out import held_out_mask
from sdem_dist.text.kept_texts import KeptTexts
from sdem_dist.text.line_blocks import BLOCK_BYTES
from sdem_dist.text.runs import Runs
from sdem_dist.text.scripts import ScriptSample
from sdem_dist.text.sources import MatrixBlock
from sdem_dist.text.spill import MATRIX, CountedBlock, block_path, save_block
from sdem_dist.text.texts import Records, Texts, texts_of_strings
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    import scipy.sparse as sp


Progress = Callable[[str, int, int | None], None]  # takes a stage, documents done, and documents in all where known


def silent(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""


@dataclass
class Tally:
    """What a first pass has seen so far."""

    n_blocks: int = 0
    n_documents: int = 0
    n_held_out: int = 0
    classes: dict[str, int] = field(default_factory=dict)  # code of every class name, in the order in which they came
    n_columns: int = 0
    first_column: int = np.iinfo(np.int64).max
    """`n_columns` and `first_column`: of numbers: one past the highest column met, and the lowest; 0 and a large number
    before any. `n_columns` is that of hashing, too."""
    whole: bool = True  # all values are whole numbers
    scripts: ScriptSample = field(default_factory=ScriptSample)

    @property
    def n_training(self) -> int:
        """Number of documents that are not held out."""
        return self.n_documents - self.n_held_out

    def take(self, labels: list[str], held_out: float, random_state: int) -> tuple[np.ndarray, np.ndarray]:
        """Give the next documents their places; return their labels' codes, int32, and which are held out, bool."""
        for label in dict.fromkeys(labels):
            self.classes.setdefault(label, len(self.classes))
        codes = np.fromiter(map(self.classes.__getitem__, labels), np.int32, len(labels))
        mask = held_out_mask(self.n_documents, len(labels), held_out, random_state)
        self.n_documents += len(labels)
        self.n_held_out += int(mask.sum())
        return codes, mask

    def add_columns(self, counts: sp.csr_matrix) -> None:
        """Record the columns of numbers."""
        self.n_columns = max(self.n_columns, counts.shape[1])
        if counts.nnz:
            self.first_column = min(self.first_column, int(counts.indices.min()))


@dataclass(frozen=True)
class TextJob:
    """One block to count: its documents, and the file that is to hold the result."""

    path: Path
    texts: Texts
    labels: np.ndarray
    first: int
    held_out: np.ndarray
    weights: np.ndarray | None


def count_text(
    blocks: Iterable[Records],
    folder: Path,
    settings: VectorizerSettings,
    terms: Runs | Vocabulary | None,
    held_out: float,
    random_state: int,
    n_jobs: int | None,
    progress: Progress,
    kept: KeptTexts | None = None,
    kept_ids: KeptTexts | None = None,
    groups: list[np.ndarray] | None = None,
) -> Tally:
    """Count the terms of text into files in `folder`.

    `kept`, `kept_ids`: where texts, and ids, are kept.
    `groups`: where the hashes of groups are kept.
    `terms`: learns the terms, or holds given ones; None for hashing.
    """
    tally = Tally(n_columns=settings.n_features or 0)

    # what a block can add to the terms is bounded
    size = BLOCK_BYTES // (settings.ngram_range[1] - settings.ngram_range[0] + 1)

    def jobs() -> Iterator[TextJob]:
        parts = ((block, *part) for block in blocks for part in pieces(block.texts, size))
        for number, (block, first, stop) in enumerate(parts):
            before = tally.n_documents
            tally.scripts.add(block.texts.part(first, stop))
            codes, mask = tally.take(block.labels[first:stop], held_out, random_state)
            if kept is not None:
                kept.add(block.texts.part(first, stop))
            if kept_ids is not None:
                kept_ids.add(texts_of_strings((block.ids or [])[first:stop]))
            if groups is not None:
                groups.append(group_hashes((block.groups or [])[first:stop]))
            weights = None if block.weights is None else block.weights[first:stop]
            yield TextJob(block_path(folder, number), block.texts.part(first, stop), codes, before, mask, weights)

    def worker() -> Callable[[TextJob], int]:
        if isinstance(terms, Runs):
            return _Learning(terms)
        return _Fixed(HashingCounter(settings) if terms is None else FixedCounter(terms))

    done = 0
    # closed at once if anything fails, so that no thread writes into a folder that is being removed
    with closing(in_threads(jobs(), worker, n_jobs)) as counted:
        for n_documents in counted:
            done += n_documents
            tally.n_blocks += 1
            progress("counting", done, None)
    return tally


class _Learning:
    """Counts blocks with the counter of a run, and goes on with a new one when that is full."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._run, self._counter = runs.begin()

    def __call__(self, job: TextJob) -> int:
        if self._runs.is_full(self._run):
            self._runs.write(self._run)
            self._run, self._counter = self._runs.begin()
        counts = self._counter.count(job.texts, ~job.held_out)
        save_block(job.path, CountedBlock(counts, 0, self._run, job.labels, job.first, job.weights))
        return len(job.texts)


class _Fixed:
    """Counts blocks by columns that are known."""

    def __init__(self, counter: FixedCounter | HashingCounter) -> None:
        self._counter = counter

    def __call__(self, job: TextJob) -> int:
        counts = self._counter.count(job.texts)
        save_block(job.path, replace(block_of_matrix(counts, job.labels, job.first), weights=job.weights))
        return len(job.texts)


def block_of_matrix(counts: sp.csr_matrix, labels: np.ndarray, first: int) -> CountedBlock:
    """Return documents whose columns are known."""
    return CountedBlock(NodeCounts(counts.indptr, counts.indices, counts.data), counts.shape[1], MATRIX, labels, first)


def count_matrices(
    blocks: Iterable[MatrixBlock],
    folder: Path,
    held_out: float,
    random_state: int,
    progress: Progress,
) -> Tally:
    """Copy blocks of numbers into files in `folder`, without explicit zeros and repeated columns."""
    tally = Tally()
    for block in blocks:
        counts = block.matrix
        counts.sum_duplicates()
        counts.eliminate_zeros()
        before = tally.n_documents
        codes, _ = tally.take(block.labels, held_out, random_state)
        tally.whole = tally.whole and bool((counts.data == np.floor(counts.data)).all())
        tally.add_columns(counts)
        save_block(block_path(folder, tally.n_blocks), block_of_matrix(counts, codes, before))
        tally.n_blocks += 1
        progress("counting", tally.n_documents, None)
    return tally
