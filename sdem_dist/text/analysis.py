"""Counts the words of blocks of text, in this process or in several, with the same result."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.text.spill import BlockTerms, CountedBlock, save_block
from sdem_dist.text.transform import transform_texts
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    import scipy.sparse as sp

# Starting processes takes seconds, which pay from some ten thousands of documents on: fewer blocks stay in this process.
BLOCKS_WORTH_PROCESSES = 24
TRIES = 3
"""How often the same blocks are begun if processes die meanwhile."""


@dataclass(frozen=True)
class TextJob:
    """One block to count: its documents, and the file that is to hold the result."""

    path: Path
    settings: VectorizerSettings
    texts: list[str]
    labels: np.ndarray
    held_out: np.ndarray


def count_block(job: TextJob) -> Path:
    """Count the words of one block, write the result to its file and return the file's name."""
    if job.settings.kind == "hashing":
        counts, terms = transform_texts(job.texts, job.settings), None
    else:
        counts, names = _count_with_terms(job.texts, job.settings)
        training = counts[~job.held_out]
        frequency = np.bincount(training.indices, minlength=len(names)).astype(np.int64)
        total = np.asarray(training.sum(axis=0), np.int64).ravel()
        terms = BlockTerms(names, frequency, total)
    save_block(job.path, CountedBlock(counts, job.labels, job.held_out), terms)
    return job.path


def _count_with_terms(texts: list[str], settings: VectorizerSettings) -> tuple[sp.csr_matrix, list[str]]:
    import scipy.sparse as sp

    vectorizer = build_vectorizer(settings)
    try:
        counts = sp.csr_matrix(vectorizer.fit_transform(texts))
    except ValueError:
        # scikit-learn refuses documents without any term; here other blocks may have some
        analyze = vectorizer.build_analyzer()
        if any(analyze(text) for text in texts):
            raise
        return sp.csr_matrix((len(texts), 0), dtype=np.int64), []
    return counts, vectorizer.get_feature_names_out().tolist()


def count_blocks(jobs: Iterable[TextJob], n_jobs: int | None) -> Generator[Path, None, None]:
    """Count the words of every block; yield the files in the order of the blocks.

    Parameters
    ----------
    jobs : iterable of TextJob
        Taken only as fast as blocks are counted: no more than two a process are in memory.
    n_jobs : int, or None
        Number of processes; None takes one a core. 1 counts in this process, as do corpora of a few blocks.

    Raises
    ------
    IngestError
        If a process dies before the first block is counted, or again and again; otherwise its blocks are counted anew.
    """
    jobs, n_jobs = iter(jobs), n_jobs or n_cores()
    if n_jobs > 1:
        first = list(islice(jobs, BLOCKS_WORTH_PROCESSES))
        if len(first) == BLOCKS_WORTH_PROCESSES:
            yield from _count_in_processes(chain(first, jobs), n_jobs)
            return
        jobs = iter(first)
    yield from map(count_block, jobs)


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _count_in_processes(jobs: Iterator[TextJob], n_jobs: int) -> Iterator[Path]:
    methods = multiprocessing.get_all_start_methods()
    # never "fork": the caller may have threads, and a forked lock stays locked
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    waiting: deque[TextJob] = deque()
    counted = deaths = 0
    while True:
        pool = ProcessPoolExecutor(n_jobs, mp_context=context, initializer=_prepare_process)
        try:
            futures: deque[Future[Path]] = deque(pool.submit(count_block, job) for job in waiting)
            while True:
                for job in islice(jobs, 2 * n_jobs - len(waiting)):
                    waiting.append(job)
                    futures.append(pool.submit(count_block, job))
                if not waiting:
                    return
                path = futures[0].result()
                futures.popleft()
                waiting.popleft()
                counted, deaths = counted + 1, 0
                yield path
        except BrokenProcessPool as error:
            deaths += 1
            # Before the first block is counted, it is rather that processes cannot start.
            if deaths == TRIES or not counted:
                raise IngestError(
                    f"a process that counts words died while it was at blocks {counted + 1} to {counted + len(waiting)}, "
                    f"{deaths} time(s) in turn, perhaps for want of memory; nothing was written. Try fewer processes "
                    "(n_jobs=1, or --jobs 1). In a script, call ingest under if __name__ == '__main__':"
                ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _prepare_process() -> None:
    """Leave Ctrl-C to the parent, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()
