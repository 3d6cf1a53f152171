"""Compilation of kernels: all options and decorators."""

import fcntl
import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, update_wrapper
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

# Kernels are serial and release the GIL: the executor runs them in parallel, and numba's own threads would abort the
# process if two Dask threads entered them. Of fast-math only `contract` (fused multiply-add): `nnan` and `ninf` would
# break -inf scores of impossible classes, and with `reassoc` the bits would depend on the optimiser. Due to the disk
# cache a kernel is compiled once per machine, not in every worker process; NUMBA_CACHE_DIR moves the cache.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"contract"},
    "error_model": "numpy",
    "boundscheck": False,
    "no_cfunc_wrapper": True,  # an unused entry point for C, which takes time
}
_INLINED = _OPTIONS | {"forceinline": True, "no_cpython_wrapper": True}
BASELINE = "x86-64-v3"
"""Processors with AVX2 and FMA. If this one has them, kernels are compiled for these features only, so that all such
processors give equal bits and share compiled kernels. It costs up to 5 % of a fit on an EPYC with AVX2."""
_OF_BASELINE = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")


def _compile_for_baseline() -> None:
    """Set numba's processor to the baseline, here and in child processes, unless the user has set a processor."""
    features = get_host_cpu_features()
    if {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"}.isdisjoint(os.environ) and all(map(features.get, _OF_BASELINE)):
        os.environ |= {"NUMBA_CPU_NAME": BASELINE, "NUMBA_CPU_FEATURES": ""}
        numba.core.config.reload_config()


_compile_for_baseline()
_DISABLED: int = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
_log = logging.getLogger(__name__)


class Compilations(event.Listener):
    """Counts the functions that this process has compiled, and the seconds; long compilations are logged."""

    def __init__(self) -> None:
        self.n, self.seconds, self._depth, self._started, self._next = 0, 0.0, 0, 0.0, 0.5
        self._collects = False

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._started = time.perf_counter()
            _start_beside()
            self._collects = gc.isenabled()
            gc.disable()  # collections take a tenth of the time, and free little
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
    """Prepare a second process that compiles kernels for an estimator; start it now if the kernel cache is empty."""
    kernels.beside = kernels.TRAINING_OF_WORDS if estimator == "MultinomialNB" else kernels.TRAINING.format(estimator)
    with suppress(OSError):
        if _folders and not any(name.endswith(".nbi") for folder in _folders for name in os.listdir(folder)):
            _start_beside()


def _start_beside() -> None:
    """Run `kernels.beside` in a second process if there is a free core, and if no such process is running."""
    code, kernels.beside = kernels.beside, ""
    if any(other.poll() is None for other in _others):
        return
    if code and not _DISABLED and sys.executable and parent_process() is None and len(os.sched_getaffinity(0)) > 1:
        # The child exits when its standard input closes, that is, when this process ends for any reason.
        code = f"import os, _thread\n_thread.start_new_thread(lambda: os._exit(len(os.read(0, 1))), ())\n{code}"
        where = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with suppress(OSError):
            other = Popen([sys.executable, "-P", "-c", code], env=where, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL)
            # It leaves no zombie process and no open pipe.
            Thread(target=lambda: (other.wait(), other.stdin.close()), daemon=True).start()  # type: ignore[func-returns-value, union-attr]
            _others[:] = [other]


_folders, _others = set[str](), list[Popen[bytes]]()  # folders of compiled kernels; compiling processes
compilations = Compilations()
event.register("numba:compile", compilations)


def jit(function: Callable[..., Any]) -> Any:
    """Compile `function` in nopython mode; ``.py_func`` is the plain version for tests.

    Only one process of a machine compiles it; the other processes wait and load it from the disk cache.
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
    """Lock a byte of a file in the folder of compiled kernels, if possible; speed up numba meanwhile."""
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
    """Return the signature of a call, from a cache: numba would try a dozen templates for every ``+``, each time."""
    call = function, context, tuple(args), tuple(keywords.items()), ConfigStack.top_or_none()
    signature, implementation = _signatures.get(call, (None, None))
    if signature is None or function.get_impl_key(signature) is not implementation:  # or cached with other options
        signature = _resolve(function, context, args, keywords)
        _signatures[call] = signature, function.get_impl_key(signature)
    return signature


def _add_as_it_is(library: Any, module: Any) -> None:
    """Add a module to a library; do not optimise the module with the wrapper for calls from Python."""
    for function in module.functions if module.name == "wrapper" else ():
        if not function.is_declaration:
            function.attributes.add("noinline")
            function.attributes.add("optnone")
    _add(library, module)


_function: Any = types.BaseFunction
_library: Any = CPUCodeLibrary
_resolve, _signatures, _add = _function.get_call_type, dict[Any, Any](), _library.add_ir_module


@cache  # never closed: closing a file would release all locks in it
def _lock_file(folder: str) -> int:
    return os.open(os.path.join(folder, "sdem_dist.lock"), os.O_RDWR | os.O_CREAT, 0o666)


class Part:
    """A function that is compiled into the kernels that call it, without cache file; Python calls the plain version."""

    def __init__(self, plain: Callable[..., Any], compiled: Any) -> None:
        self.py_func, self.compiled = plain, compiled
        update_wrapper(self, plain)  # name and docstring

    def __call__(self, *args: Any) -> Any:
        return self.py_func(*args)


@typeof_impl.register(Part)
def _type_in_kernels(part: Part, context: Any) -> types.Type:
    return cpu_target.typing_context.resolve_value_type(part.compiled)


def jit_inline(function: Callable[..., Any]) -> Part:
    """Compile `function` for inlining into the kernels that call it."""
    return Part(_wrapping(function), numba.njit(**_INLINED)(function))


def jit_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Inline `function` into the one kernel that calls it, before types are inferred: no separate compilation."""
    return numba.njit(**_OPTIONS, inline="always")(_wrapping(function))


def _wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    """Suppress NumPy's overflow warnings if kernels run as Python, since hashes rely on integer overflow."""
    return np.errstate(over="ignore")(function) if _DISABLED else function


def intrinsic(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for numba intrinsics; Python calls `plain`, which computes the same."""
    return lambda function: plain if _DISABLED else Part(plain, numba_intrinsic(function))


def require_array(name: str, array: Any, kinds: tuple[type, ...] | types.Type, ndim: int = 1) -> None:
    """Raise TypingError if an argument of an intrinsic, which reads raw memory, is not such an array."""
    fits = isinstance(array, types.Array) and array.ndim == ndim and array.layout == "C"
    if not fits or not (isinstance(array.dtype, kinds) if isinstance(kinds, tuple) else array.dtype == kinds):
        wanted = kinds if isinstance(kinds, types.Type) else " or ".join(kind.__name__.lower() for kind in kinds)
        raise TypingError(f"{name} must be a C-contiguous {ndim}-dimensional array of {wanted}, not {array}")
