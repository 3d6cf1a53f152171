"""Hidden folders beside a file that is being made; the next process that makes it removes those of dead ones."""

import fcntl
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sdem_dist.storage.places import is_url


@contextmanager
def hidden_folder(path: Path, purpose: str) -> Iterator[Path]:
    """Yield an empty folder ``.NAME.PURPOSE-...`` beside `path`; remove it in the end, if it still exists.

    Beside a URL there are no folders: then it is in the system's temporary folder.

    Its owner locks it, and the lock ends with the process, however that ends. So an earlier folder of the same name and
    purpose that can be locked belongs to nobody, and is removed first. Where the file system knows no locks, none is.

    Raises OSError: the folder cannot be made.
    """
    if is_url(path):
        path = Path(tempfile.gettempdir(), path.name)
    prefix = f".{path.name}.{purpose}-"
    clear_abandoned(path.parent, prefix, 16)
    folder, descriptor = _made_and_locked(path.parent, prefix)
    try:
        yield folder
    finally:
        _removed(folder)
        os.close(descriptor)


def _removed(folder: Path) -> None:
    """Remove a folder; repeat this while threads that began to write before an error still put files there."""
    for pause in (0.0, 0.01, 0.1, 1.0):
        time.sleep(pause)
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return


def _made_and_locked(parent: Path, prefix: str) -> tuple[Path, int]:
    while True:
        folder = parent / f"{prefix}{secrets.token_hex(8)}"
        folder.mkdir()
        try:
            descriptor = opened(folder)
        except FileNotFoundError:
            continue
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if folder.exists():
            return folder, descriptor
        os.close(descriptor)  # another process removed it as abandoned just before it was locked


def clear_abandoned(parent: Path, prefix: str, digits: int, but: str = "") -> None:
    """Remove folders named by a prefix and hexadecimal digits that no process has locked, except the one named."""
    ours = re.compile(re.escape(prefix) + f"[0-9a-f]{{{digits}}}")
    with suppress(OSError):
        for name in os.listdir(parent):
            if ours.fullmatch(name) and name != but:
                _clear_if_abandoned(parent / name)


def _clear_if_abandoned(folder: Path) -> None:
    with suppress(OSError):
        descriptor = opened(folder)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


def opened(folder: Path) -> int:
    """Return a descriptor of a folder, by which it can be locked."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
