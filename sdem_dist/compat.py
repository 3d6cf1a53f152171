"""All uses of private parts of other packages, with the assumptions about them; tests/test_compat.py tests each."""

import logging
import multiprocessing
import sys
import time
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def scheduler_of(client: Any) -> Any:
    """Return the scheduler of a client (distributed: ``client.scheduler``); RuntimeError if the client was closed.

    Used: ``address``, and the calls ``ncores`` (threads by worker), ``ncores_running`` (if not paused), ``identity``.
    """
    if client.scheduler is None:
        raise RuntimeError("the client was closed: create a new one")
    return client.scheduler


def let_others_run(part_of_key: str, dask_scheduler: Any) -> None:
    """Let other workers run tasks that wait for a lost worker; Dask does not if no worker ran when they were submitted.

    Distributed: ``unrunnable``, ``loose_restrictions``, ``worker_restrictions``, ``transitions(recommendations, id)``.
    """
    waiting = [ts for ts in dask_scheduler.unrunnable if part_of_key in str(ts.key) and ts.loose_restrictions]
    for ts in waiting:
        ts.worker_restrictions = None
    dask_scheduler.transitions({ts.key: "processing" for ts in waiting}, f"let-others-run-{time.time()}")


def _is_other_failure(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, NameError) and "sync.<locals>.cancel" in record.getMessage())


def leave_out_failed_cancellations() -> None:
    """Filter a log record of distributed: its ``utils.sync`` raises NameError if there is nothing to cancel."""
    logging.getLogger("tornado.application").addFilter(_is_other_failure)  # repeated calls add it only once


def close_gateways_by_hand(gateway_class: type) -> None:
    """Prevent the garbage collector from closing gateways (dask-gateway: ``Gateway.__del__``)."""
    # It closes an event loop: in a thread that is starting one, it would deadlock on a lock that this thread holds.
    if "__del__" in vars(gateway_class):
        del gateway_class.__del__  # type: ignore[attr-defined]


def import_scikit_learn() -> None:
    """Import scikit-learn, but imports of its ``utils.fixes``, which take twice as long, only at first use."""
    names = ["pandas", "scipy.stats", "narwhals", "narwhals.stable", "narwhals.stable.v2"]
    names = [n for n in names if not {n, "sklearn"} & sys.modules.keys() and find_spec(n.partition(".")[0])]
    stand_ins = {name: ModuleType(name) for name in names}

    def from_real_module(name: str, attribute: str) -> Any:
        if sys.modules.get(name) is stand_ins[name]:
            del sys.modules[name]
        return getattr(import_module(name), attribute)

    for name, stand_in in stand_ins.items():
        vars(stand_in)["__getattr__"] = partial(from_real_module, name)
        vars(stand_ins.get(name.rpartition(".")[0], stand_in))[name.rpartition(".")[2]] = stand_in
    sys.modules.update(stand_ins)
    try:
        import_module("sklearn.utils.fixes")
    finally:
        for name in stand_ins:
            if sys.modules.get(name) is stand_ins[name]:
                del sys.modules[name]


def reruns_parent_script() -> bool:
    """Return whether this process is a worker importing its parent's script (multiprocessing: ``_inheriting``)."""
    return bool(getattr(multiprocessing.current_process(), "_inheriting", False))


@cache  # constant in a process, and every stage needs it
def compile_target() -> str:
    """Return the instructions used, such as ``"x86-64-v3 +numpy-avx512"``; others may round differently."""
    with suppress(ImportError):  # a worker that `sdem doctor` checks may lack the package
        import_module("sdem_dist.kernels.jit")  # sets the processor for numba
    codegen = import_module("numba.core.registry").cpu_target.target_context.codegen()
    _, name, features = codegen.magic_tuple()  # the key of numba's own cache
    numpy = import_module("numpy._core._multiarray_umath").__cpu_features__  # logarithms with AVX-512 differ
    wide = ["+numpy-avx512"] if numpy.get("AVX512_SKX") or numpy.get("X86_V4") else []
    return " ".join([name, *sorted(features.split(",")), *wide]).strip()


def empty_array(context: Any, builder: Any, array_type: Any, shape: Any) -> Any:
    """Emit code for an empty array, for which there is no public function (numba: ``np.arrayobj._empty_nd_impl``)."""
    return import_module("numba.np.arrayobj")._empty_nd_impl(context, builder, array_type, shape)
