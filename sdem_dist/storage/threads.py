"""Jobs in this thread or in several, with the same result."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from queue import SimpleQueue
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def in_threads(
    jobs: Iterable[Job], make_worker: Callable[[], Callable[[Job], Result]], n_jobs: int | None
) -> Generator[Result, None, None]:
    """Yield the results of jobs, in their order; no two threads call the same worker, nor hold more than two jobs."""
    jobs, n_jobs = iter(jobs), n_jobs or n_cores()
    if n_jobs == 1:
        yield from map(make_worker(), jobs)
        return
    workers: SimpleQueue[Callable[[Job], Result]] = SimpleQueue()
    for _ in range(n_jobs):
        workers.put(make_worker())

    def work(job: Job) -> Result:
        worker = workers.get()
        try:
            return worker(job)
        finally:
            workers.put(worker)

    waiting: deque[Future[Result]] = deque()
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
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
