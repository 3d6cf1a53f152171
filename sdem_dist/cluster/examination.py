"""Asking the client, the scheduler and the workers of a cluster how they are."""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdem_dist import compat
from sdem_dist.cluster import facts, verdicts
from sdem_dist.cluster.verdicts import Line
from sdem_dist.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client

PAYLOAD = 8 << 20
SECONDS = 60.0  # how long a worker may take for an answer


def examine_here() -> list[Line]:
    """Look at this machine alone."""
    here = {"this process": facts.facts()}
    return verdicts.versions(here) + verdicts.scratch(here)


def examine(client: Client, folder: Path, n_features: int | None = None, n_classes: int | None = None) -> list[Line]:
    """Look at a whole cluster.

    `folder`: where corpora are; a small file is written here, read by every worker, and removed.
    `n_features`, `n_classes`: size of the model that the workers' memory is compared with.
    Raises ClusterError: there is no worker, or one does not answer.
    """
    import cloudpickle

    modules = [sys.modules[facts.__name__], sys.modules[compat.__name__]]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        info = client.scheduler_info(n_workers=-1)
        workers = list(info["workers"])
        if not workers:
            raise ClusterError(f"the scheduler at {info['address']} has no workers to look at")
        # The first call opens connections, which a round trip should not count.
        _ask(client, facts.length, b"")
        found, trips, speeds, offsets = {}, {}, {}, {}
        for worker in workers:
            started = time.time()
            found[worker] = _ask(client, facts.worker_facts, workers=[worker])[worker]
            offsets[worker] = found[worker]["time"] - (started + time.time()) / 2
            trips[worker] = _seconds(client, worker, b"")
            speeds[worker] = PAYLOAD / max(_seconds(client, worker, bytes(PAYLOAD)) - trips[worker], 1e-9)
        scheduler = {"the scheduler": client.run_on_scheduler(facts.facts)}
        missing = _not_shared(client, folder)
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    everywhere = {"the client": facts.facts(), **scheduler, **found}
    return [
        *verdicts.versions(everywhere),
        *verdicts.cpu({"the client": everywhere["the client"], **found}),
        *verdicts.shared(str(folder), missing, len(workers)),
        *verdicts.network(trips, speeds),
        *verdicts.memory(found, n_features, n_classes),
        *verdicts.threads(found),
        *verdicts.scratch(found),
        *verdicts.clocks(offsets),
        *verdicts.encryption([info["address"], *workers]),
    ]


def _ask(client: Client, function: Any, *args: Any, workers: list[str] | None = None) -> Any:
    async def within_deadline() -> Any:
        run = client.run(function, *args, workers=workers, on_error="return", asynchronous=True)
        return await asyncio.wait_for(run, SECONDS)

    try:
        answers = client.sync(within_deadline)
    except TimeoutError as error:
        asked = ", ".join(workers or client.scheduler_info(n_workers=-1)["workers"])
        raise ClusterError(f"no answer within {SECONDS:g} s from all of: {asked}") from error
    for worker, answer in answers.items():
        if isinstance(answer, Exception):
            raise ClusterError(f"the worker {worker} did not answer: {type(answer).__name__}: {answer}") from answer
    return answers


def _seconds(client: Client, worker: str, payload: bytes) -> float:
    started = time.perf_counter()
    _ask(client, facts.length, payload, workers=[worker])
    return time.perf_counter() - started


def _not_shared(client: Client, folder: Path) -> list[str]:
    word = uuid.uuid4().hex
    path = folder.absolute() / f".sdem-doctor-{word}"
    try:
        path.write_text(word, encoding="utf-8")
    except OSError as error:
        raise ClusterError(f"cannot write in {folder}: {error.strerror}; choose another --folder") from error
    try:
        answers = _ask(client, facts.content_of, str(path))
        return [worker for worker, content in answers.items() if content != word]
    finally:
        path.unlink(missing_ok=True)
