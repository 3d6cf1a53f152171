"""Train cases of the catalogue in a process of its own and print a hash of what came out.

``python -m reference.trained_bits FOLDER WHERE [NAME...]``, of all cases by default. `WHERE`: ``threads-N``, ``cluster-N``,
``cluster-threads``, or ``killed``: two worker processes, each of which is killed once between rounds.
"""

import hashlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from reference.catalogue_cases import CASES

from sdem_dist import load_model


def bits(model: Any) -> str:
    """Hash the state and the losses on the way there, times left out."""
    digest = hashlib.sha256()
    for value in model.state_:
        digest.update(np.ascontiguousarray(value, np.float64).tobytes())
    history = [{k: v.hex() for k, v in h.items() if k != "epoch" and not k.endswith("seconds")} for h in model.history_]
    digest.update(json.dumps(history).encode())
    return digest.hexdigest()


def kept(model: Any, path: Path) -> Any:
    model.save(path)
    return load_model(path)


@contextmanager
def local_cluster(n_workers: int, **more: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a cluster of workers of one thread each, and a client."""
    from distributed import Client, LocalCluster

    settings = {"threads_per_worker": 1, "dashboard_address": None, **more}
    with LocalCluster(n_workers=n_workers, **settings) as cluster, Client(cluster) as client:
        yield cluster, client


@contextmanager
def place(where: str) -> Iterator[tuple[Any, int | None]]:
    kind, _, number = where.partition("-")  # a number of workers, or "threads"
    if kind == "threads":
        yield None, int(number)
        return
    shape: dict[str, Any] = {"n_workers": 2, "processes": False}
    if where != "cluster-threads":
        shape = {"n_workers": int(number or 2), "host": "127.0.0.1"}
    with local_cluster(silence_logs=50, **shape) as (_, client):
        yield client, None


class Stop(Exception):
    """What a callback raises to end a run midway."""


class Killer:
    """A callback that kills a worker at the end of the second round, and the other at the end of the fourth."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.rounds = 0
        self.killed: list[int] = []

    def __call__(self, event: Any) -> None:
        if type(event).__name__ != "RoundEnded":
            return
        self.rounds += 1
        if self.rounds in (2, 4):
            alive = sorted(pid for pid in self.client.run(os.getpid).values() if pid not in self.killed)
            self.killed.append(alive[0])
            os.kill(alive[0], signal.SIGKILL)


def is_gone(pid: int) -> bool:
    """Say whether a process has ended, reaped or not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def main(folder: str, where: str, *names: str) -> None:
    """Print one JSON object: cases by name to hash, and the processes killed."""
    import sdem_dist

    found: dict[str, Any] = {"killed": 0}
    with place(where) as (client, n_jobs):
        for name in names or CASES:
            case, killer = CASES[name], Killer(client)
            callbacks = [killer] if where == "killed" and name == "ncll mean" else []
            corpus = sdem_dist.open_corpus(f"{folder}/{case.corpus}")
            found[name] = bits(case.made(n_jobs=n_jobs).fit(corpus, client=client, callbacks=callbacks))
            found["killed"] += sum(is_gone(pid) for pid in killer.killed)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
