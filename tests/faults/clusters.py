"""Clusters of processes that can be killed, the training that runs on them, and waiting with a deadline."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from reference.trained_bits import is_gone

from sdem_dist import MultinomialNB
from sdem_dist.engine.events import RoundEnded

SETTINGS: dict[str, Any] = {"n_epochs": 2, "rounds_per_epoch": 3, "n_lanes": 20, "random_state": 4}
SETTINGS |= {"validation_fraction": 0.0, "evaluate_every": 1}
"""20 lanes: a bundle of 16 and one of 4, so that there is something to reduce."""


def model(**more: Any) -> MultinomialNB:
    return MultinomialNB(**{**SETTINGS, **more})


@contextlib.contextmanager
def local_cluster(n_workers: int, **more: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a cluster of worker processes that nannies replace, and a client."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0",
            silence_logs=50, **more,
        ) as cluster,
        Client(cluster, direct_to_workers=True) as client,  # as `sdem_dist.cluster.connected` makes it
    ):  # fmt: skip
        yield cluster, client


def pids(client: Any) -> list[int]:
    return sorted(client.run(os.getpid, on_error="ignore").values())


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"after {seconds:g} s still not so: {what}")
        time.sleep(0.02)


def is_end_of(event: Any, epoch: int, round_: int) -> bool:
    """Say whether an event is the end of that round."""
    return isinstance(event, RoundEnded) and (event.epoch, event.round) == (epoch, round_)


def all_gone(processes: list[int]) -> bool:
    return all(is_gone(pid) for pid in processes)
