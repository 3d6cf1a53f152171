"""Jobs in this thread or in several, with the same result."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from queue import SimpleQueue
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")
Worker = Callable[[Given], Made]


def in_threads(
    jobs: Iterable[Given], make_worker: Callable[[], Worker[Given, Made]], n_jobs: int | None
) -> Generator[Made, None, None]:
    """Yield the results of jobs, in their order.

    `jobs`: taken only as fast as they are done: no more than two a thread are in memory.
    `make_worker`: makes a function of one job; no two threads call the same one at a time.
    `n_jobs`: number of threads; None takes one per core. 1 works in this thread.
    """
    jobs, n_jobs = iter(jobs), n_jobs or n_cores()
    if n_jobs == 1:
        yield from map(make_worker(), jobs)
        return
    free: SimpleQueue[Worker[Given, Made]] = SimpleQueue()
    for _ in range(n_jobs):
        free.put(make_worker())

    def work(job: Given) -> Made:
        worker = free.get()
        try:
            return worker(job)
        finally:
            free.put(worker)

    waiting: deque[Future[Made]] = deque()
    pool = ThreadPoolExecutor(n_jobs, thread_name_prefix="text")
    try:
        while True:
            waiting.extend(pool.submit(work, job) for job in islice(jobs, 2 * n_jobs - len(waiting)))
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
