"""Tables of answers that workers make: parts stay beside it until it is complete; after a kill the next run goes on."""

import hashlib
import json
import shutil
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from sdem_dist.cli.streaming import Job, Shared, answered_blocks
from sdem_dist.cli.table_files import Part, write_parts
from sdem_dist.counted import counted
from sdem_dist.engine.executor import Executor, Handle, in_order
from sdem_dist.errors import ClusterError, IngestError
from sdem_dist.storage import buckets
from sdem_dist.storage.kept import SUMMARY, kept_folder, once
from sdem_dist.storage.numbers import JsonObject
from sdem_dist.storage.places import is_url
from sdem_dist.text.formats.folder import files_below
from sdem_dist.text.validation import RowValidator

PART = ".part"
FORMAT = 4  # of what is kept


def write_kept_table(
    path: Path,
    identity: object,
    executor: Executor,
    shared: Shared[Part],
    jobs: Iterable[Job],
    gate: RowValidator,
    *,
    resume: bool,
    quiet: bool,
) -> int:
    """Write the table of the tasks' answers; those kept by an earlier run of the same identity are not made again.

    It returns what `write_parts` does.

    `identity`: all that parts depend on; its ``repr`` counts.
    `executor`: its tasks read sources, and see the folder of `path`.
    `shared`: see `sdem_dist.cli.streaming.Shared`.
    `gate`: learns how many lines were left out.
    `resume`: use what was kept; otherwise it is thrown away first.
    `quiet`: do not say how much was kept.
    Raises click.ClickException: there is no document.
    """
    content = repr((FORMAT, identity)).encode("utf-8", "surrogatepass")
    with kept_folder(path.absolute(), "predicted", hashlib.sha256(content).hexdigest()[:32]) as folder:
        if not resume:
            _clear(folder)
        elif not quiet and (n := _n_kept(folder)):
            click.echo(
                f"going on: {counted(n, 'part')} of the table {'was' if n == 1 else 'were'} made before", err=True
            )
        parts = _parts(folder, executor, executor.put(shared), jobs, gate)
        try:
            return write_parts(path, parts)
        except ClusterError:
            raise
        except Exception as error:
            parts.throw(error)  # running tasks end first, since they might still write here
            raise


def _parts(
    folder: Path, executor: Executor, shared: Handle[Shared[Part]], jobs: Iterable[Job], gate: RowValidator
) -> Generator[Part, None, None]:
    """Yield the parts of a table in order, while tasks make others."""
    numbers, n_jobs, ended = deque[int](), 0, False

    def missing() -> Iterator[tuple[object, ...]]:
        nonlocal n_jobs
        for number, job in enumerate(jobs):
            if ended:
                return
            if not (folder / str(number) / SUMMARY).is_file():
                numbers.append(number)
                yield shared, job, folder / str(number)
            n_jobs = number + 1

    taken, results = 0, in_order(executor, kept_task, missing())
    try:
        for _ in results:
            stop = numbers.popleft() + 1
            for number in range(taken, stop):
                yield from _loaded(folder / str(number), gate)
            taken = stop
    except Exception:
        ended = True
        with suppress(Exception):
            deque(results)
        raise
    for number in range(taken, n_jobs):
        yield from _loaded(folder / str(number), gate)


def kept_task(shared: Shared[Part], job: Job, folder: Path) -> IngestError | None:
    """Write the answers to a job into a folder, which appears whole: a task of workers. A mistake in it is returned."""

    def made(partial_folder: Path) -> JsonObject:
        gate, names, altered = RowValidator(shared[2]), list[list[str]](), list[int]()
        for part in answered_blocks(shared, job, gate):
            (partial_folder / f"{len(names)}{PART}").write_bytes(part.body)
            names.append(part.names)
            altered.append(part.n_altered)
        return {"names": names, "altered": altered, "skipped": gate.skipped, "examples": gate.examples}

    try:
        once(folder, made)
    except IngestError as error:
        return error
    return None


def _loaded(folder: Path, gate: RowValidator) -> Iterator[Part]:
    summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    gate.merge(summary["skipped"], summary["examples"])
    for number, (names, n_altered) in enumerate(zip(summary["names"], summary["altered"], strict=True)):
        yield Part(names, (folder / f"{number}{PART}").read_bytes(), n_altered)


def _n_kept(folder: Path) -> int:
    names = buckets.children(str(folder))[0] if is_url(folder) else [file.name for file in folder.iterdir()]
    return sum(name.isdigit() and (folder / name / SUMMARY).is_file() for name in names)


def _clear(folder: Path) -> None:
    if is_url(folder):
        for name in buckets.children(str(folder))[0]:
            buckets.remove(str(folder / name))
    else:
        for old in folder.iterdir():
            if old.is_dir():
                shutil.rmtree(old)
            else:  # such as the file that NFS keeps for one removed while it is open
                with suppress(OSError):
                    old.unlink()


def content_of(path: Path) -> object:
    """Return an identity of a source or a model, which changes with its content.

    It is the identity of a corpus, and the sizes and times of files.
    """
    if (path / "zarr.json").exists():
        from sdem_dist.corpus import open_corpus

        return open_corpus(path).header.uid
    files = [path]
    if path.is_dir():
        files = list(files_below(path, hidden=True))
    stats: list[Any] = [file.stat() for file in files]
    return [(str(file.absolute()), there.st_size, there.st_mtime_ns) for file, there in zip(files, stats, strict=True)]
