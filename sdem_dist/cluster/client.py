"""Dask clients of local processes, a scheduler or a Dask Gateway; certificates."""

import asyncio
import json
import logging
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from multiprocessing import resource_tracker
from pathlib import Path
from traceback import walk_stack
from typing import Any

import dask
import msgspec
from distributed import Client, LocalCluster, Security
from distributed.comm import connect, get_address_host_port

from sdem_dist import compat
from sdem_dist.engine.executor import LIBRARIES, LOADED, of_this_process
from sdem_dist.errors import ClusterError

CLUSTERS = "/clusters/"  # separates a gateway's address and a cluster's name, as in links to dashboards
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": str(64 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_ARENA_MAX": "2"}
"""Environment of worker processes. By default, Dask returns freed tables to the system, and the next lane allocates
them again, which takes a tenth to a quarter of a round. With more arenas, each would retain freed memory."""
QUIET = {"distributed.admin.tick.interval": "500ms", "distributed.worker.profile.enabled": False}
"""By default, Dask's checks of event loops and its profiler use 3 % of the CPU time. With Python 3.11, the profiler can
also block a worker forever (https://github.com/dask/distributed/issues/8616)."""
ENVIRONMENT = ALLOCATOR | {f"DASK_{name.replace('.', '__').upper()}": str(value) for name, value in QUIET.items()}
"""The settings above, for workers that are started elsewhere."""
CONFIGURATION = QUIET | {f"distributed.nanny.pre-spawn-environ.{k}": v for k, v in ALLOCATOR.items()}
"""All settings by dotted names, for a scheduler in this process and the workers that Dask starts with it."""
CONNECT_SECONDS = 1.0  # timeout of a plain connection, which tests why a scheduler does not answer
STARTS = 3  # attempts to start local workers: a system short of memory may kill one while it starts
_GUARD = "each new process runs the script again: put its code under if __name__ == '__main__':"
_log = logging.getLogger(__name__)


@contextmanager
def connected(
    scheduler: str | None = None, n_workers: int | None = None, timeout: float = 15.0
) -> Iterator[Client | None]:
    """Yield a client, or None if neither a scheduler nor workers are requested.

    Parameters
    ----------
    scheduler : str, optional
        Address of a running scheduler, such as ``tcp://10.0.0.1:8786``, or path of its scheduler file. Also the address
        of a Dask Gateway or one of its clusters, such as ``https://gateway.example.org``; see the user guide.
    n_workers : int, optional
        Start this many single-threaded worker processes on this machine, which listen on loopback only, and stop them
        at the end. With a gateway: number of workers of a new cluster.
    timeout : float
        Seconds to wait for the scheduler.

    Raises
    ------
    ClusterError
        The scheduler does not answer in time, or worker processes do not start after three attempts.
    ValueError
        Both arguments are set, but the address is not a gateway.
    """
    compat.leave_out_failed_cancellations()
    is_gateway = scheduler is not None and scheduler.startswith(("http://", "https://"))
    if n_workers is not None and not is_gateway:
        if compat.reruns_parent_script():
            raise SystemExit(f"a worker process tried to run the script that started it: {_GUARD}")
        if scheduler is not None:
            raise ValueError("pass either a scheduler address or a number of local workers, not both")
    if scheduler is not None:
        connection = _gateway_client(scheduler, n_workers) if is_gateway else _remote_client(scheduler, timeout)
    elif n_workers is not None:
        connection = _local_client(n_workers)
    else:
        yield None
        return
    with connection as client, client.as_current():
        yield client


@contextmanager
def _gateway_client(address: str, n_workers: int | None) -> Iterator[Client]:
    """Yield a client of a gateway's cluster: a new one, shut down at the end, or the one named in the address."""
    if "@" in address or "?" in address:  # messages contain the address, and are written to logs
        raise ClusterError("credentials belong in Dask's configuration (gateway.auth), not in a gateway's address")
    url, _, name = address.rstrip("/").partition(CLUSTERS)
    if bool(name) != (n_workers is None):
        hint = f"to use a running cluster, omit this number and add {CLUSTERS}NAME to the address"
        raise ClusterError(f"{address}: set the number of workers of the new cluster (--workers, n_workers); {hint}")
    try:
        import aiohttp  # installed with dask-gateway, an optional dependency
        from dask_gateway import Gateway, GatewayCluster, GatewayClusterError, GatewayServerError
    except ImportError as error:
        raise ClusterError('a Dask Gateway needs dask-gateway: pip install "sdem_dist[gateway]"') from error
    compat.close_gateways_by_hand(Gateway)
    with ended_by_signals(), ExitStack() as ends:
        try:
            cluster = GatewayCluster.from_name(name, address=url) if name else GatewayCluster(address=url)
            ends.enter_context(cluster)
            if n_workers is not None:
                cluster.scale(n_workers)
            client = ends.enter_context(cluster.get_client(set_as_default=False))
        except (GatewayClusterError, GatewayServerError, aiohttp.ClientError, OSError, ValueError) as error:
            hint = "check the address, the authentication (gateway.auth in Dask's configuration), and the gateway's log"
            why = f"{type(error).__name__}: {error}"
            raise ClusterError(f"the Dask Gateway at {url} did not start a cluster ({why}); {hint}") from error
        yield client


def _remote_client(scheduler: str, timeout: float) -> Client:
    address = scheduler
    try:
        if scheduler.endswith(".json"):  # distributed would wait forever for a missing file
            address = str(json.loads(Path(scheduler).read_bytes())["address"])
        get_address_host_port(address)  # if `Client` failed at this, closing it might block
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = "neither a scheduler address, such as tcp://10.0.0.1:8786, nor a scheduler file"
        raise ClusterError(f"{scheduler} is {what} ({type(error).__name__}: {error})") from error
    security = Security().get_connection_args("client")
    if address.startswith("tls://") and security["ssl_context"] is None:
        hint = "set DASK_CONFIG to the tls.yaml of the cluster's certificates"
        raise ClusterError(f"{address} needs an encrypted connection, but no certificate is configured: {hint}")

    async def probe() -> None:  # the timeouts of `connect` and of `Client` do not cover the handshake
        async with asyncio.timeout(timeout):
            await (await connect(address, timeout=timeout, **security)).close()

    try:
        with ThreadPoolExecutor(1) as thread:  # in a thread, since a notebook already runs an event loop
            thread.submit(asyncio.run, probe()).result()
        return Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError, RuntimeError, MemoryError) as error:
        # MemoryError: Dask reads the reply of a web server as a message of an absurd length.
        reason = "" if isinstance(error, TimeoutError | MemoryError) else f" ({error})"
        why = f"a server accepts connections there, but it does not respond like a scheduler{reason}"
        try:  # Dask's error describes its last attempt, perhaps cut short by its own timeout
            socket.create_connection(get_address_host_port(address), CONNECT_SECONDS).close()
        except OSError as failure:
            why = f"the connection failed ({failure.strerror or failure})"
        what = f"no Dask scheduler answered at {scheduler} within {timeout:g} s: {why}"
        raise ClusterError(f"{what}; check the address, and whether the scheduler is running") from error


@contextmanager
def _local_client(n_workers: int) -> Iterator[Client]:
    memory = worker_memory(n_workers)
    tight = memory < 4 * LIBRARIES  # Dask would pause workers because of the memory of kernels
    limits = {f"distributed.worker.memory.{name}": False for name in ("pause", "terminate") if tight}
    options: dict[str, Any] = {"host": "127.0.0.1", "threads_per_worker": 1, "memory_limit": memory}
    options["dashboard_address"] = "127.0.0.1:0"  # with None, Dask would use port 8787
    options["silence_logs"] = logging.CRITICAL  # no tracebacks of failed attempts: the last error is raised below
    hint = f"see the system log, or try fewer workers (each can use {memory / 2**30:.1f} GiB)"
    with dask.config.set(CONFIGURATION | limits), ExitStack() as ends:
        try:
            with held_back():
                for left in reversed(range(STARTS)):
                    try:
                        cluster = ends.enter_context(LocalCluster(n_workers=n_workers, **options))
                        break
                    except RuntimeError as error:  # from Dask: processes exited at startup
                        what, unguarded = f"worker processes on this machine exited at startup ({error})", False
                        with suppress(AttributeError, OSError):  # a notebook or a zipped application has no script
                            script = Path(sys.modules["__main__"].__file__ or "").read_text("utf-8", errors="replace")
                            unguarded = "__main__" not in script
                        if unguarded or not left:
                            raise ClusterError(f"{what}: {_GUARD if unguarded else hint}") from None
                        _log.warning("%s; restarting them", what)
                # Directly: results through the scheduler, which is in this process, would be sent twice.
                client = ends.enter_context(Client(cluster, direct_to_workers=True))
            yield client
        finally:
            with held_back():
                ends.close()


def worker_memory(n_workers: int) -> int:
    """Return the memory of each local worker, in bytes; ClusterError if it is too little to start."""
    memory = of_this_process()
    share = (memory - min(LIBRARIES, memory // (n_workers + 1))) // n_workers
    if share < LOADED:
        room = f"this process can use {memory / 2**30:.2f} GiB, or {share >> 20} MiB for each of {n_workers} workers"
        raise ClusterError(f"{room}. A worker needs {LOADED >> 20} MiB to start: use fewer workers or more memory")
    return share


@contextmanager
def held_back() -> Iterator[None]:
    """Delay interrupts until the block ends: Dask cannot stop workers that are still starting.

    A terminal sends Ctrl-C to all processes, but only this one may stop the others: they inherit its signal mask.
    """
    usual, came = signal.getsignal(signal.SIGINT), list[int]()
    if threading.current_thread() is not threading.main_thread() or usual is None:  # None: set outside Python
        yield
        return
    resource_tracker.ensure_running()  # before the mask: starting it unblocks interrupts in this thread
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, usual)
        if came:
            signal.raise_signal(came[0])


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exit that also stops remote processes, such as batch jobs."""

    def leave(number: int, frame: Any) -> None:
        if {"__del__", "_remove", "remove", "_gc_callback"} & {f.f_code.co_name for f, _ in walk_stack(frame)}:
            threading.Timer(0.05, signal.raise_signal, [number]).start()  # later: Python drops exceptions of these
            return
        for each in before:  # a second signal would interrupt the clean-up
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    ours = (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, leave) for number in ours}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def make_certificates(folder: str | Path, days: int = 365) -> Path:
    """Create a certificate authority, and a key and certificate for each role, with `trustme`; return ``tls.yaml``.

    This file is the Dask configuration that uses them and requires encryption. The authority's key is never written,
    so that nobody can issue another certificate. `folder` must not exist; only its owner can read it.
    """
    try:
        import trustme
    except ImportError as error:
        raise ClusterError("certificates need trustme: pip install 'sdem_dist[tls]'") from error
    folder, authority = Path(folder).absolute(), trustme.CA(organization_name="sdem_dist cluster")

    def write(name: str, content: bytes) -> str:
        path = folder / name
        path.touch(0o600)
        path.write_bytes(content)
        return str(path)

    try:
        folder.mkdir(0o700)
        tls: dict[str, object] = {"ca-file": write("ca.pem", authority.cert_pem.bytes())}
        for role in ("scheduler", "worker", "client"):  # the roles whose connections are encrypted
            until = datetime.now(UTC) + timedelta(days=days)
            issued = authority.issue_cert(f"{role}.sdem-dist.invalid", common_name=role, not_after=until)
            certificate = write(f"{role}.pem", b"".join(pem.bytes() for pem in issued.cert_chain_pems))
            tls[role] = {"cert": certificate, "key": write(f"{role}-key.pem", issued.private_key_pem.bytes())}
        comm = {"default-scheme": "tls", "require-encryption": True, "tls": tls}
        return Path(write("tls.yaml", msgspec.yaml.encode({"distributed": {"comm": comm}})))
    except FileExistsError as error:
        raise ClusterError(f"{folder} already exists: choose a new folder for new certificates") from error
    except OSError as error:
        raise ClusterError(f"{folder} cannot be created: {error.strerror}") from error
