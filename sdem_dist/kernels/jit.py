"""The one place that decides how kernels are compiled."""

import fcntl
import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import parent_process
from subprocess import DEVNULL, PIPE, Popen
from threading import Thread
from typing import Any
from zlib import crc32

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import event
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import typeof_impl

from sdem_dist import kernels

# Serial and without the GIL: parallelism belongs to the executor, and numba's own threads abort the process when
# two Dask threads enter them.  Of fast-math only `contract` (fused multiply-add): `nnan` and `ninf` would break the
# -inf of impossible classes, `reassoc` would let the optimiser choose the bits.  The disk cache makes compilation
# an event of a machine, not of every worker process; NUMBA_CACHE_DIR moves it.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"contract"},
    "error_model": "numpy",
    "boundscheck": False,
    "no_cfunc_wrapper": True,  # an entry for C, which takes time and nobody uses
}
_INLINED = _OPTIONS | {"forceinline": True, "no_cpython_wrapper": True}
BASELINE = "x86-64-v3"
"""Processors with AVX2 and FMA: where this one has them, kernels are compiled for no more, so that models have the same
bits on all of them, and files of compiled kernels serve all. It costs up to 5 % of a fit on an EPYC with AVX2."""
_OF_BASELINE = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")


def _compile_for_baseline() -> None:
    """Tell numba, and processes that this one starts, to compile for the baseline; who has set a processor keeps it."""
    features = get_host_cpu_features()
    if {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"}.isdisjoint(os.environ) and all(map(features.get, _OF_BASELINE)):
        os.environ |= {"NUMBA_CPU_NAME": BASELINE, "NUMBA_CPU_FEATURES": ""}
        numba.core.config.reload_config()


_compile_for_baseline()
_DISABLED: int = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
_log = logging.getLogger(__name__)


class Compilations(event.Listener):
    """How many functions this process has compiled, and for how many seconds; the log says so where it takes long."""

    def __init__(self) -> None:
        self.n, self.seconds, self._depth, self._started, self._next = 0, 0.0, 0, 0.0, 0.5
        self._collects = False

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._started = time.perf_counter()
            _start_beside()
            self._collects = gc.isenabled()
            gc.disable()  # it takes a tenth of the time, and finds little
        self._depth += 1
        self._say()

    def on_end(self, event: Any) -> None:
        self.n, seconds, self._depth = self.n + 1, self._say(), self._depth - 1
        if self._depth == 0:
            self.seconds = seconds
            if self._collects:
                gc.enable()

    def _say(self) -> float:
        seconds = self.seconds + time.perf_counter() - self._started
        if seconds >= self._next:
            _log.info("compiling, once per machine: %.0f s so far", seconds)
            self._next = seconds + 3.0
        return seconds


def compile_beside(estimator: str) -> None:
    """Have another process compile what an estimator trains with, once this one compiles; now if it surely will."""
    kernels.beside = kernels.TRAINING_OF_WORDS if estimator == "MultinomialNB" else kernels.TRAINING.format(estimator)
    with suppress(OSError):
        if _folders and not any(name.endswith(".nbi") for folder in _folders for name in os.listdir(folder)):
            _start_beside()


def _start_beside() -> None:
    """Run `kernels.beside` in another process, one at a time, if there is a core for it."""
    code, kernels.beside = kernels.beside, ""
    if any(other.poll() is None for other in _others):
        return
    if code and not _DISABLED and sys.executable and parent_process() is None and len(os.sched_getaffinity(0)) > 1:
        # Its standard input ends with this process, however that ends.
        code = f"import os, _thread\n_thread.start_new_thread(lambda: os._exit(len(os.read(0, 1))), ())\n{code}"
        where = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with suppress(OSError):
            other = Popen([sys.executable, "-P", "-c", code], env=where, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL)
            Thread(target=other.wait, daemon=True).start()  # no process is left that has ended
            _others[:] = [other]


_folders, _others = set[str](), list[Popen[bytes]]()  # of compiled kernels; processes that compile
compilations = Compilations()
event.register("numba:compile", compilations)


def jit(function: Callable[..., Any]) -> Any:
    """Compile `function` for nopython mode; ``.py_func`` keeps the plain version for tests.

    Of the processes of a machine one compiles it, and the others wait and load what that one has kept.
    """
    kernel = numba.njit(**_OPTIONS, cache=True)(_wrapping(function))
    if compile_kernel := getattr(kernel, "compile", None):
        _folders.add(kernel.stats.cache_path)
        place = crc32(f"{function.__module__}.{function.__qualname__}".encode())

        def compile_once(signature: Any) -> Any:
            with global_compiler_lock, _compiling(kernel.stats.cache_path, place):
                return compile_kernel(signature)

        kernel.compile = compile_once
    return kernel


@contextmanager
def _compiling(folder: str, place: int) -> Iterator[None]:
    """Hold a byte of a file in the folder of compiled kernels, if it can be locked; meanwhile numba does less."""
    with suppress(OSError):
        fcntl.lockf(_lock_file(folder), fcntl.LOCK_EX, 1, place)
    before = _function.get_call_type, _library.add_ir_module
    _function.get_call_type, _library.add_ir_module = _resolved, _add_as_it_is
    try:
        yield
    finally:
        _function.get_call_type, _library.add_ir_module = before
        with suppress(OSError):
            fcntl.lockf(_lock_file(folder), fcntl.LOCK_UN, 1, place)


def _resolved(function: Any, context: Any, args: Any, keywords: Any) -> Any:
    """Find the types of a call of numba's functions: it tries a dozen templates for every ``+``, each time."""
    call = function, context, tuple(args), tuple(keywords.items()), ConfigStack.top_or_none()
    signature, implementation = _signatures.get(call, (None, None))
    if signature is None or function.get_impl_key(signature) is not implementation:  # that of other options
        signature = _resolve(function, context, args, keywords)
        _signatures[call] = signature, function.get_impl_key(signature)
    return signature


def _add_as_it_is(library: Any, module: Any) -> None:
    """Add a module to a library; that through which Python calls a kernel is not optimised."""
    for function in module.functions if module.name == "wrapper" else ():
        if not function.is_declaration:
            function.attributes.add("noinline")
            function.attributes.add("optnone")
    _add(library, module)


_function: Any = types.BaseFunction
_library: Any = CPUCodeLibrary
_resolve, _signatures, _add = _function.get_call_type, dict[Any, Any](), _library.add_ir_module


@cache  # open as long as the process runs: closing a file would free all locks in it
def _lock_file(folder: str) -> int:
    return os.open(os.path.join(folder, "sdem_dist.lock"), os.O_RDWR | os.O_CREAT, 0o666)


class Part:
    """What becomes part of the kernels that call it, and has no file; Python calls the plain version."""

    def __init__(self, plain: Callable[..., Any], compiled: Any) -> None:
        self.py_func, self.compiled = plain, compiled

    def __call__(self, *args: Any) -> Any:
        return self.py_func(*args)


@typeof_impl.register(Part)
def _type_in_kernels(part: Part, context: Any) -> types.Type:
    return cpu_target.typing_context.resolve_value_type(part.compiled)


def jit_inline(function: Callable[..., Any]) -> Part:
    """Compile `function` to be inlined where kernels call it."""
    return Part(_wrapping(function), numba.njit(**_INLINED)(function))


def jit_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make `function` a part of the one kernel that calls it, before its types are known: nothing else is compiled."""
    return numba.njit(**_OPTIONS, inline="always")(_wrapping(function))


def _wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let integers wrap around without NumPy's warning where kernels run as Python: hashes of words rely on it."""
    return np.errstate(over="ignore")(function) if _DISABLED else function


def intrinsic(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make an intrinsic of what writes its code; Python calls `plain`, which does the same."""
    return lambda function: plain if _DISABLED else Part(plain, numba_intrinsic(function))


def require_array(name: str, array: Any, kinds: tuple[type, ...] | types.Type, ndim: int = 1) -> None:
    """Raise TypingError where an argument of an intrinsic, which reads memory as it lies there, is no such array."""
    fits = isinstance(array, types.Array) and array.ndim == ndim and array.layout == "C"
    if not fits or not (isinstance(array.dtype, kinds) if isinstance(kinds, tuple) else array.dtype == kinds):
        wanted = kinds if isinstance(kinds, types.Type) else " or ".join(kind.__name__.lower() for kind in kinds)
        raise TypingError(f"{name} must be a C-contiguous array of {ndim} dimensions of {wanted}, not {array}")
