"""Tables of answers that workers make: parts are kept beside the table until it is whole, and the next run goes on."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdem_dist.cli.streaming import sendable
from sdem_dist.cli.table_files import Part, write_parts
from sdem_dist.engine.ordered import in_order
from sdem_dist.storage.kept import kept_folder
from sdem_dist.text.formats.folder import files_below

if TYPE_CHECKING:
    from sdem_dist.cli.streaming import CorpusRange
    from sdem_dist.engine.executor import Executor
    from sdem_dist.text.records import Records

FORMAT = 1
"""Of what is kept."""
PART = ".part"


def write_kept_table(
    path: Path,
    identity: object,
    executor: Executor,
    task: Callable[..., Part],
    shared: object,
    blocks: Iterable[Records | CorpusRange],
    *,
    resume: bool,
) -> None:
    """Write the table of what a task makes of blocks; parts that an earlier run of the same identity kept are not made again.

    Parameters
    ----------
    path : Path
    identity : object
        All that parts depend on; its ``repr`` counts.
    executor : Executor
    task : callable
        From `shared` and a block to its part of the table.
    shared : handle of the executor
    blocks : iterable
    resume : bool
        Use what was kept; otherwise it is thrown away first.

    Raises
    ------
    click.ClickException
        There is no block.
    """
    content = repr((FORMAT, identity)).encode("utf-8", "surrogatepass")
    with kept_folder(path.absolute(), "predicted", hashlib.sha256(content).hexdigest()[:32]) as folder:
        if not resume:
            for old in folder.iterdir():
                if old.suffix == PART:
                    old.unlink()
        numbers, n_blocks = deque[int](), 0

        def missing() -> Iterator[tuple[object, object]]:
            nonlocal n_blocks
            for number, block in enumerate(blocks):
                n_blocks = number + 1
                if not _place(folder, number).is_file():
                    numbers.append(number)
                    yield shared, sendable(block)

        for part in in_order(executor, task, missing()):
            part.save(_place(folder, numbers.popleft()))
        if not n_blocks:
            raise click.ClickException("the sources hold no document, so no table is written")
        write_parts(path, (Part.load(_place(folder, number)) for number in range(n_blocks)))


def _place(folder: Path, number: int) -> Path:
    return folder / f"{number}{PART}"


def content_of(path: Path) -> object:
    """Return what tells a source or a model from another, or from itself before it was changed.

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
