"""Private parts of other packages, each with what is relied on; tests/test_compat.py names each, nothing else does."""

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
    """Return a client's scheduler: distributed, ``client.scheduler``, None once the client is closed (RuntimeError).

    Its ``address``, and calls: ``ncores``, threads, ``ncores_running``, of workers not paused, ``identity``.
    """
    if client.scheduler is None:
        raise RuntimeError("the client was closed")
    return client.scheduler


def let_others_run(part_of_key: str, dask_scheduler: Any) -> None:
    """Free tasks that wait for a worker which is lost; Dask does not, where no worker was running as they came up.

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
    """Keep out of the log that distributed had nothing to cancel, which its ``utils.sync`` says by a NameError."""
    logging.getLogger("tornado.application").addFilter(_is_other_failure)  # the same one another time is none


def close_gateways_by_hand(gateway_class: type) -> None:
    """Keep the garbage collector from closing gateways: dask-gateway, ``Gateway.__del__``."""
    # It closes an event loop: in a thread that is about to start one it waits for a lock of its own, forever.
    if "__del__" in vars(gateway_class):
        del gateway_class.__del__  # type: ignore[attr-defined]


def import_scikit_learn() -> None:
    """Import scikit-learn, and what its ``utils.fixes`` imports, which takes twice as long, when it is asked for."""
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
    """Whether this process is a worker and still imports what its parent ran: multiprocessing, ``_inheriting``."""
    return bool(getattr(multiprocessing.current_process(), "_inheriting", False))


@cache  # it does not change while a process runs, and every stage asks
def compile_target() -> str:
    """Return what numba and NumPy compute with, such as ``"x86-64-v3 +numpy-avx512"``; others round otherwise."""
    with suppress(ImportError):  # a worker that `sdem doctor` looks at may have no package
        import_module("sdem_dist.kernels.jit")  # which says for what processor
    codegen = import_module("numba.core.registry").cpu_target.target_context.codegen()
    _, name, features = codegen.magic_tuple()  # which numba's own cache goes by
    numpy = import_module("numpy._core._multiarray_umath").__cpu_features__  # logarithms of AVX-512 differ from others
    wide = ["+numpy-avx512"] if numpy.get("AVX512_SKX") or numpy.get("X86_V4") else []
    return " ".join([name, *sorted(features.split(",")), *wide]).strip()


def empty_array(context: Any, builder: Any, array_type: Any, shape: Any) -> Any:
    """Write the code that makes an array, which has no public form: numba, ``np.arrayobj._empty_nd_impl``."""
    return import_module("numba.np.arrayobj")._empty_nd_impl(context, builder, array_type, shape)
