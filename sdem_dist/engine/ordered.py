"""Results of many tasks, in the order of what they were made from, with a bounded number under way."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

from sdem_dist.engine.executor import Executor, Handle
from sdem_dist.errors import ClusterError, SdemError

Made = TypeVar("Made")
AHEAD = 3  # tasks a worker that are submitted before the first of them is asked for


def in_order(
    executor: Executor, function: Callable[..., Made | SdemError], jobs: Iterable[tuple[object, ...]]
) -> Iterator[Made]:
    """Yield ``function(*job)`` of every job, in their order.

    Jobs are taken, and results held, only as fast as they are asked for. If one fails, those already running end first.

    `function`: as `Executor.submit` takes it. It may return an error of ours, which is then raised here. (Of an error
    that is raised on it, a worker prints the traceback.)
    `jobs`: arguments; one that is a handle of the executor stands for its result.
    """
    waiting: deque[Handle[Made | SdemError]] = deque()
    try:
        for job in jobs:
            waiting.append(executor.submit(function, *job))
            if len(waiting) >= AHEAD * executor.n_workers:
                yield _right(executor.result(waiting.popleft()))
        while waiting:
            yield _right(executor.result(waiting.popleft()))
    except ClusterError:
        raise
    except Exception:
        for handle in waiting:  # or they might still write where the caller clears up
            with suppress(Exception):
                executor.wait(handle)
        raise


def _right(result: Made | SdemError) -> Made:
    if isinstance(result, SdemError):
        raise result
    return result
