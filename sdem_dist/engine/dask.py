"""Running tasks on a Dask cluster, through `distributed.Client` alone: submit, wait, gather."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from distributed import Client, Future, KilledWorker, wait
from distributed.comm import CommClosedError

from sdem_dist.errors import ClusterError

RETRIES = 2


class DaskExecutor:
    """A connected client as an executor.

    Tasks are pure and refer to the corpus by path and to the model by a future, so that Dask recomputes what a lost
    worker held.  Nothing is pinned: affinity only asks for the worker that probably has a range cached.

    Parameters
    ----------
    client : distributed.Client
        Synchronous; stays open.
    wait_for_workers : float
        Seconds to wait for the first worker.

    Raises
    ------
    ClusterError
        No worker arrived in time.
    """

    def __init__(self, client: Client, wait_for_workers: float = 60.0) -> None:
        self._client = client
        self._run = uuid.uuid4().hex[:8]  # keys of two runs on one cluster must differ
        self._count = 0
        try:
            client.wait_for_workers(1, timeout=wait_for_workers)
        except TimeoutError as error:
            raise ClusterError(
                f"the scheduler at {client.scheduler_info()['address']} has had no worker for {wait_for_workers:g} s; "
                "start workers or ask whoever runs the cluster"
            ) from error
        self._workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
        self.n_workers = len(self._workers)

    def submit(self, function: Callable[..., Any], *args: Any, affinity: int | None = None) -> Future:
        """Submit ``function(*args)`` under a key of its own."""
        self._count += 1
        where: dict[str, Any] = {}
        if affinity is not None and self._workers:
            where = {"workers": [self._workers[affinity % len(self._workers)]], "allow_other_workers": True}
        key = f"sdem-{self._run}-{function.__name__}-{self._count}"
        return self._client.submit(function, *args, key=key, pure=False, retries=RETRIES, **where)

    def result(self, handle: Future) -> Any:
        """Wait for a future and return its value.

        Raises
        ------
        ClusterError
            The task killed several workers in turn, or its future was lost with the scheduler.
        """
        with _named_losses(handle):
            return handle.result()

    def wait(self, handle: Future) -> None:
        """Wait for a future, leaving its value on its worker; raises as `result` does."""
        with _named_losses(handle):
            wait(handle)
            if handle.status != "finished":
                handle.result()

    def put(self, value: Any) -> Future:
        """Submit a value as a task of its own, so that Dask can restore it where a scattered copy would be lost."""
        return self.submit(_identity, value)


def _identity(value: Any) -> Any:
    return value


@contextmanager
def _named_losses(handle: Future) -> Iterator[None]:
    try:
        yield
    except KilledWorker as error:
        raise ClusterError(f"task {handle.key} was running on several workers when they died: {error}") from error
    except (CancelledError, CommClosedError) as error:
        raise ClusterError(f"the scheduler was lost while task {handle.key} was under way: {error}") from error
