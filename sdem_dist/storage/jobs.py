"""Jobs in several threads, and folders for their finished parts, which the next run reuses if a run was killed."""

import fcntl
import io
import json
import os
import re
import secrets
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from sdem_dist.errors import BucketError, ClusterError, SdemError
from sdem_dist.storage import buckets
from sdem_dist.storage.arrays import map_requests
from sdem_dist.storage.buckets import is_url, place
from sdem_dist.storage.encoding import JsonObject, crc32c
from sdem_dist.storage.publish import FOLDER, clear_abandoned, to_disk

SUMMARY, OWNER = "summary.json", "owner"
CHECKSUMS = "checksums"  # key in the summary of a folder: checksums of its files, by name
Job = TypeVar("Job")
Result = TypeVar("Result")


def n_cores() -> int:
    return len(os.sched_getaffinity(0))


def in_threads(work: Callable[[Job], Result], jobs: Iterable[Job], n_jobs: int | None) -> Generator[Result, None, None]:
    """Yield the results of jobs, in order; at most two jobs per thread are submitted or waiting to be yielded."""
    jobs, n_jobs = iter(jobs), n_jobs or n_cores()
    if n_jobs == 1:
        yield from map(work, jobs)
        return
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(n_jobs, thread_name_prefix="text")
    try:
        while True:
            waiting.extend(pool.submit(work, job) for job in islice(jobs, 2 * n_jobs - len(waiting)))
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def driver_folder(folder: Path) -> Iterator[Path]:
    """Yield `folder` itself, or for a URL a temporary local folder with copies of the objects."""
    if not is_url(folder):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="sdem-") as here:
        names = buckets.children(str(folder))[1]
        map_requests(lambda name: Path(here, name).write_bytes((folder / name).read_bytes()), names, folder)
        yield Path(here)


def read_values(path: Path, dtype: np.dtype | type, start: int, stop: int | None = None) -> np.ndarray:
    """Return the values from `start` to `stop` (None: the end) of a raw binary file."""
    size = np.dtype(dtype).itemsize
    if not is_url(path):
        return np.fromfile(path, dtype, -1 if stop is None else stop - start, offset=start * size)
    if start == stop:
        return np.zeros(0, dtype)  # buckets reject empty ranges
    return np.frombuffer(buckets.get(str(path), start * size, None if stop is None else stop * size), dtype)


def save_array(path: Path, array: np.ndarray) -> None:
    """Write an array to a file atomically, without pickle."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    partial = path if is_url(path) else _unique(path)
    partial.write_bytes(stream.getbuffer())
    if partial != path:
        partial.replace(path)


def load_array(path: Path) -> np.ndarray:
    return np.asarray(np.load(io.BytesIO(path.read_bytes()), allow_pickle=False))


def _unique(path: Path) -> Path:
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}")


@contextmanager
def kept_folder(path: Path, purpose: str, identity: str) -> Iterator[Path]:
    """Yield the folder ``.NAME.PURPOSE-IDENTITY`` beside `path`, with the files that a killed process left there.

    The folder is removed when the block succeeds or fails; it stays after a kill, an interrupt or a lost cluster.
    Other folders of the same purpose that no process has locked are removed first. Buckets have no locks: the last
    process to begin owns the folder, and earlier ones fail, or leave the folder to its owner.
    """
    prefix = f".{path.name}.{purpose}-"
    path = place(path)
    folder, mark = path.with_name(f"{prefix}{identity}"), secrets.token_hex(8).encode()
    with ExitStack() as stack:
        if is_url(path):
            for name in buckets.children(str(path.parent))[0]:
                if re.fullmatch(re.escape(prefix) + "[0-9a-f]{32}", name) and name != folder.name:
                    buckets.remove(str(folder.with_name(name)))
            buckets.put(str(folder / OWNER), mark)
        else:
            clear_abandoned(path.parent, prefix, 32, folder.name)
            folder.mkdir(exist_ok=True, mode=0o700)
            stack.callback(os.close, descriptor := os.open(folder, FOLDER))
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise SdemError(f"another process is writing {path} from the same sources") from error
            except OSError:  # a file system without locks
                pass
        is_done = True
        try:
            yield folder
        except BaseException as error:
            is_done = isinstance(error, Exception) and not isinstance(error, ClusterError)
            raise
        finally:
            with suppress(OSError, BucketError):
                if is_done and not is_url(path):
                    shutil.rmtree(folder, ignore_errors=True)
                elif is_done and buckets.get(str(folder / OWNER)) == mark:
                    buckets.remove(str(folder))


def once(folder: Path, make: Callable[[Path], JsonObject]) -> JsonObject:
    """Return the summary from ``make(folder)``, which fills the folder, now or in an earlier process.

    The folder appears atomically (in a bucket, by its summary, which is written last). If a file has changed, it is
    made again. If two processes make the same folder concurrently, the first wins.
    """

    def sum_of(summary: JsonObject) -> int:
        own = json.dumps({name: value for name, value in summary.items() if name != CHECKSUMS})
        return crc32c(np.frombuffer(own.encode(), np.uint8))

    def checksum(file: Path) -> int:
        return crc32c(np.memmap(file, np.uint8, "r")) if file.stat().st_size else 0

    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        summary: JsonObject = json.loads((folder / SUMMARY).read_bytes())
        sums = summary[CHECKSUMS]
        sound = sums[SUMMARY] == sum_of(summary)
        if sound and (is_url(folder) or all(checksum(folder / n) == sums[n] for n in sums if n != SUMMARY)):
            return summary
    if is_url(folder):
        here = Path(tempfile.mkdtemp(prefix="sdem-"))
    else:
        with suppress(FileNotFoundError):
            damaged = folder.rename(_unique(folder))  # renamed first: another process may be checking it
            shutil.rmtree(damaged, ignore_errors=True)
        here = _unique(folder)
        here.mkdir(parents=True)
    try:
        summary = make(here)
        files = sorted(file for file in here.iterdir() if file.is_file())
        sums = {file.name: checksum(file) for file in files}
        summary = {**summary, CHECKSUMS: {**sums, SUMMARY: sum_of(summary)}}
        (here / SUMMARY).write_text(json.dumps(summary), encoding="utf-8")
        if is_url(folder):
            map_requests(lambda file: buckets.put_new(str(folder / file.name), file), files, folder)
            buckets.put_new(str(folder / SUMMARY), here / SUMMARY)
            return summary
        for file in [*files, here / SUMMARY, here]:  # else a loss of power may leave names without contents
            to_disk(file)
        try:
            here.rename(folder)
        except OSError:
            if not (folder / SUMMARY).exists():
                raise
        return summary
    finally:
        shutil.rmtree(here, ignore_errors=True)
