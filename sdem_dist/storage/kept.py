"""Work that is kept in folders until its whole is done, so that who comes after a kill does not do it again."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sdem_dist.errors import ClusterError, SdemError
from sdem_dist.storage.numbers import JsonObject

SUMMARY = "summary.json"


@contextmanager
def kept_folder(path: Path, purpose: str, identity: str) -> Iterator[Path]:
    """Yield the folder ``.NAME.PURPOSE-IDENTITY`` beside `path`, with what a killed process left in it.

    It is removed when the block succeeds or fails by its own fault; a kill, an interrupt and a lost cluster leave it.
    Folders of the same purpose and another identity that no process has locked are removed first.

    Raises
    ------
    SdemError
        Another process works in it.
    """
    prefix = f".{path.name}.{purpose}-"
    folder = path.parent / f"{prefix}{identity}"
    _clear_others(path.parent, prefix, folder.name)
    folder.mkdir(exist_ok=True, mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SdemError(f"another process makes {path} just now, from the same sources") from error
        except OSError:
            pass  # a file system without locks
        try:
            yield folder
        except ClusterError:
            raise
        except Exception:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def _clear_others(parent: Path, prefix: str, mine: str) -> None:
    ours = re.compile(re.escape(prefix) + "[0-9a-f]{32}")
    with suppress(OSError):
        for name in os.listdir(parent):
            if ours.fullmatch(name) and name != mine:
                with suppress(OSError):
                    descriptor = os.open(parent / name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(parent / name, ignore_errors=True)
                    finally:
                        os.close(descriptor)


def once(folder: Path, make: Callable[[Path], JsonObject]) -> JsonObject:
    """Return what ``make(folder)`` returned, now or in an earlier process, after it filled the folder.

    The folder appears whole. Where two processes make it at once, the first wins; both make the same.
    """
    summary = folder / SUMMARY
    if not summary.exists():
        partial = folder.with_name(f"{folder.name}.{secrets.token_hex(8)}")
        partial.mkdir(parents=True)
        try:
            (partial / SUMMARY).write_text(json.dumps(make(partial)), encoding="utf-8")
            try:
                partial.rename(folder)
            except OSError:
                if not summary.exists():
                    raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    found: JsonObject = json.loads(summary.read_text(encoding="utf-8"))
    return found
