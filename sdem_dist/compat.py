"""Private parts of other packages, each with what is relied on; tests/test_compat.py names each, nothing else does."""

from __future__ import annotations

import logging
import multiprocessing
import sys
import time
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import numpy as np
    from distributed import Client


def scheduler_address(client: Client) -> str:
    """Return where a client's scheduler is: distributed, ``client.scheduler.address``; it may be closed."""
    if client.scheduler is None:
        raise RuntimeError("the client was closed")
    return str(client.scheduler.address)


async def ask_scheduler(client: Client, call: str, **arguments: object) -> Any:
    """Return what a client's scheduler says: distributed, ``client.scheduler``, None once closed (RuntimeError).

    Its calls by address: ``ncores``, threads, ``ncores_running``, of workers not paused, ``identity(n_workers=-1)``.
    """
    scheduler_address(client)
    return await getattr(client.scheduler, call)(**arguments)


def let_others_run(part_of_key: str, dask_scheduler: Any) -> None:
    """Free tasks that wait for a worker which is lost; Dask does not, where no worker was running as they came up.

    Distributed: ``unrunnable``, ``loose_restrictions``, ``worker_restrictions``, ``transitions(recommendations, id)``.
    """
    waiting = [ts for ts in dask_scheduler.unrunnable if part_of_key in str(ts.key) and ts.loose_restrictions]
    for ts in waiting:
        ts.worker_restrictions = None
    dask_scheduler.transitions({ts.key: "processing" for ts in waiting}, f"let-others-run-{time.time()}")


async def probe(address: str, seconds: float) -> None:
    """Connect to a scheduler and leave again: distributed, ``comm.connect``, which ends when it is cancelled."""
    # Its own deadline, and a client's, do not cover the handshake: a scheduler that never answers hangs both.
    import asyncio

    from distributed import Security
    from distributed.comm import connect

    security = Security().get_connection_args("client")
    try:
        comm = await asyncio.wait_for(connect(address, timeout=seconds, **security), seconds)
    except TimeoutError as error:
        raise TimeoutError("it does not answer") from error
    await comm.close()


def leave_out_failed_cancellations() -> None:
    """Keep out of the log that distributed had nothing to cancel, which its ``utils.sync`` says by a NameError."""

    def is_other_failure(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not (isinstance(error, NameError) and "sync.<locals>.cancel" in record.getMessage())

    logging.getLogger("tornado.application").addFilter(is_other_failure)


def close_gateways_by_hand(gateway_class: type) -> None:
    """Keep the garbage collector from closing gateways: dask-gateway, ``Gateway.__del__``."""
    # It closes an event loop: in a thread that is about to start one it waits for a lock of its own, forever.
    if "__del__" in vars(gateway_class):
        del gateway_class.__del__  # type: ignore[attr-defined]


class _Later(ModuleType):
    """Stands for a module that is imported when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def import_scikit_learn() -> None:
    """Import scikit-learn, and what its ``utils.fixes`` imports, which takes twice as long, when it is asked for."""
    if "sklearn" in sys.modules:
        return
    absent = [name for name in ("pandas", "scipy.stats") if name not in sys.modules and find_spec(name) is not None]
    stand_ins = {name: _Later(name) for name in absent}
    sys.modules.update(stand_ins)
    try:
        import_module("sklearn.utils.fixes")
    finally:
        for name, module in stand_ins.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


def check_sample_weight(sample_weight: Any, X: Any) -> np.ndarray:
    """Return weights, one per document and none negative: scikit-learn, ``utils.validation._check_sample_weight``."""
    from sklearn.utils.validation import _check_sample_weight

    return cast("np.ndarray", _check_sample_weight(sample_weight, X, dtype=float, ensure_non_negative=True))


def reruns_parent_script() -> bool:
    """Whether this process is a worker and still imports what its parent ran: multiprocessing, ``_inheriting``."""
    return bool(getattr(multiprocessing.current_process(), "_inheriting", False))


@cache  # it does not change while a process runs, and every stage asks
def compile_target() -> str:
    """Return what numba compiles for, such as ``"znver3 +avx -avx512f"``: ``CPU_NAME``, ``CPU_FEATURES``, or LLVM's.

    Other targets round otherwise, in the last bits.
    """
    config, llvm = import_module("numba.core.config"), import_module("llvmlite.binding")
    name = llvm.get_host_cpu_name() if config.CPU_NAME is None else config.CPU_NAME
    features = llvm.get_host_cpu_features().flatten() if config.CPU_FEATURES is None else config.CPU_FEATURES
    return " ".join([name, *sorted(features.split(","))]).strip()


def target_difference(one: str, other: str) -> str:
    """Return in words where two compile targets differ, the first few parts; empty where they are the same."""
    if one == other:
        return ""
    (name, *features), (other_name, *other_features) = one.split(" "), other.split(" ")
    parts = [f"{name} and {other_name}"] * (name != other_name) + sorted(set(features) - set(other_features))
    return ", ".join(parts[:4] + ["..."] * (len(parts) > 4))
