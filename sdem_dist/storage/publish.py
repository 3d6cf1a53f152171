"""Atomic publication: files, directories and corpora in buckets appear complete under their name, or not at all."""

import ctypes
import errno
import fcntl
import json
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sdem_dist.errors import BucketError, CorpusError, SdemError
from sdem_dist.storage import buckets
from sdem_dist.storage.arrays import group_json, read_attributes
from sdem_dist.storage.buckets import ChangedError, is_url, place
from sdem_dist.storage.encoding import JsonObject

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NOT_HERE = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM})
_DEVICE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO})
"""Errors of the device, for any file; other OSErrors are turned into ours only if they name one of our paths."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW  # flags to open a folder for a lock
FLUSHES_AT_A_TIME = 16
CONTENTS, WRITER = "sdem_contents", "sdem_writer"
REPLACE = "use --overwrite, or overwrite=True in Python"
_CONTENTS_NAME = re.compile(r"contents-[0-9a-f]{16}")


def exchange(a: Path, b: Path) -> bool:
    """Exchange two paths of one file system atomically; return False if the system does not support it."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    if renameat2(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), ctypes.c_uint(_RENAME_EXCHANGE)) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_HERE:
        return False
    raise OSError(code, os.strerror(code), str(a), None, str(b))


@contextmanager
def hidden_folder(path: Path, purpose: str) -> Iterator[Path]:
    """Yield an empty folder ``.NAME.PURPOSE-...`` beside `path` (for a URL, a temporary one); remove it at the end.

    Its process locks it, and the lock ends with the process, even if killed. So an earlier folder of the same name and
    purpose that can be locked is abandoned, and is removed first. Without locks in the file system, none is removed.
    """
    if is_url(path):
        path = Path(tempfile.gettempdir(), path.name)
    prefix = f".{path.name}.{purpose}-"
    clear_abandoned(path.parent, prefix, 16)
    while True:
        folder = path.parent / f"{prefix}{secrets.token_hex(8)}"
        folder.mkdir()
        with suppress(FileNotFoundError):
            descriptor = os.open(folder, FOLDER)
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if folder.exists():
                break
            os.close(descriptor)  # another process removed it as abandoned before the lock
    try:
        yield folder
    finally:
        for pause in (0.0, 0.01, 0.1, 1.0):  # after an error, threads may still be writing files
            time.sleep(pause)
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
        os.close(descriptor)


def clear_abandoned(parent: Path, prefix: str, digits: int, but: str = "") -> None:
    """Remove unlocked folders whose name is `prefix` and hexadecimal digits, except the folder `but`."""
    ours = re.compile(re.escape(prefix) + f"[0-9a-f]{{{digits}}}")
    names = os.listdir(parent) if parent.is_dir() else []
    for folder in (parent / name for name in names if ours.fullmatch(name) and name != but):
        with suppress(OSError):
            descriptor = os.open(folder, FOLDER)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def publish_file(path: str | Path, write: Callable[[Path], object], *, error: type[SdemError] = SdemError) -> None:
    """Let `write` make a file in a hidden folder, flush it, and rename it to `path` (for a URL, upload it).

    An OSError of the file or its device is raised as `error`. If anything fails, `path` is unchanged.
    """
    path = _resolved(path)
    with _explained(path, error), hidden_folder(path, "partial") as folder:
        partial = folder / path.name
        write(partial)
        if is_url(path):
            buckets.put(str(path), partial)
            return
        to_disk(partial)
        os.replace(partial, path)
        to_disk(path.parent)


def check_writable(path: str | Path, *, error: type[SdemError] = SdemError) -> None:
    """Raise `error` if no file can be written to the folder of `path`, to fail before the work, not after it."""
    path = _resolved(path)
    with _explained(path, error), hidden_folder(path, "probe"):
        if is_url(path):
            probe = path.with_name(f".{path.name}.probe")  # fixed name: the next run removes it after a kill
            probe.write_bytes(b"")
            probe.unlink(missing_ok=True)


@contextmanager
def publish_directory(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield an empty hidden sibling of `path`; when the block succeeds, flush it and rename it to `path`.

    An existing `path` is replaced atomically if the system supports it. Otherwise it is moved aside first; if the
    process dies at this moment, the next writer moves it back. CorpusError if `path` exists without `overwrite`, or on
    errors of the device; in this case, or if the block fails, `path` is unchanged.
    """
    path = _resolved(path)

    def refuse_existing() -> None:
        if path.exists() and not overwrite:
            raise CorpusError(f"{path} already exists", hint=REPLACE)

    def put_back(old: Path) -> None:
        if path.exists():  # another process already wrote it
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(path)

    with _explained(path, CorpusError):
        for old in reversed(set_aside(path)):  # by a process that died while replacing `path`
            put_back(old)
    refuse_existing()
    with _explained(path, CorpusError), hidden_folder(path, "partial") as partial:
        yield partial
        with ThreadPoolExecutor(FLUSHES_AT_A_TIME) as pool:  # flushes mostly wait for the device
            below = list(partial.rglob("*"))
            for paths in ([p for p in below if p.is_file()], [partial, *(p for p in below if p.is_dir())]):
                list(pool.map(to_disk, paths))
        refuse_existing()
        while True:
            try:
                if not (overwrite and path.exists()):
                    partial.rename(path)
                elif exchange(partial, path):
                    shutil.rmtree(partial, ignore_errors=True)  # `path` is published: ignore errors
                else:
                    # For a moment, `old` is the only copy: so it is not in a folder that `clear_abandoned` removes.
                    old = path.with_name(f".{path.name}.old-{secrets.token_hex(8)}")
                    path.rename(old)
                    try:
                        partial.rename(path)
                    except BaseException:
                        put_back(old)
                        raise
                    shutil.rmtree(old, ignore_errors=True)
                break
            except OSError as cause:
                # Another process wrote or moved `path` meanwhile: retry.
                moved = cause.errno in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST)
                if not (overwrite and moved and partial.exists()):
                    raise
        to_disk(path.parent)


def set_aside(path: str | Path) -> list[Path]:
    """Return the paths moved aside by processes that died while replacing `path`, newest last."""
    path = _resolved(path)
    ours = re.compile(re.escape(f".{path.name}.old-") + "[0-9a-f]{16}")
    with suppress(OSError):
        return sorted((p for p in path.parent.iterdir() if ours.fullmatch(p.name)), key=lambda p: p.stat().st_mtime_ns)
    return []


@contextmanager
def _explained(path: Path, error: type[SdemError]) -> Iterator[None]:
    """Raise an OSError about the files being published as `error`; leave errors about other files unchanged."""
    try:
        yield
    except OSError as cause:
        ours = (str(path), str(path.with_name(f".{path.name}.")))  # prefixes of names by `hidden_folder`
        if cause.errno not in _DEVICE_ERRORS and not str(cause.filename).startswith(ours):
            raise
        room = "" if is_url(path) else free_space(path.parent)
        raise error(f"cannot write {path}: {cause.strerror or cause}{room}") from cause


def free_space(folder: Path) -> str:
    try:
        return f" ({shutil.disk_usage(folder).free / 1e6:,.0f} MB free in {folder})"
    except OSError:
        problem = "cannot be read" if os.path.exists(folder) else "does not exist: create it first"
        return f" (the folder {folder} {problem})"


def _resolved(path: str | Path) -> Path:
    """Follow symbolic links, so that the target is replaced, not the link."""
    return place(path) if is_url(path) else Path(os.path.realpath(path))


def to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def contents_of(attributes: JsonObject) -> str | None:
    """Return the name of the contents to which the attributes of a root point; None if the root holds them itself."""
    name = attributes.get(CONTENTS)
    return name if isinstance(name, str) and _CONTENTS_NAME.fullmatch(name) else None


def open_contents(location: str) -> tuple[Path, JsonObject]:
    """Return the folder to which the root at `location` points, or the root itself; and its attributes."""
    root = place(location)
    while True:
        attributes = read_attributes(root)
        name = contents_of(attributes)
        if name is None:
            return root, attributes
        try:
            return root / name, read_attributes(root / name)
        except CorpusError:
            if contents_of(read_attributes(root)) == name:  # not replaced meanwhile
                raise


@contextmanager
def publish_contents(url: str) -> Iterator[Path]:
    """Yield a new folder below `url`; when the block succeeds, let the root at `url` point to it; remove the old one.

    The root is one small object, replaced by a conditional PUT. A writer first puts its mark into the root: then
    earlier writers can no longer publish, and their files are removed. This needs no clock and no lock.
    CorpusError if another process began to write there, or the bucket fails; then the old contents remain.
    """
    name, root = f"contents-{secrets.token_hex(8)}", f"{url}/zarr.json"
    try:
        while True:  # put a mark into the root
            # Contents listed before the root is read belong to earlier writers, which cannot publish them once the
            # mark is written. The list contains no folder of a later writer.
            listed = {child for child in buckets.children(url)[0] if _CONTENTS_NAME.fullmatch(child)}
            attributes, earlier = dict[str, Any](), None
            with suppress(FileNotFoundError):
                content, earlier = buckets.get_with_meta(root)
                attributes = _attributes(content)
            with suppress(ChangedError):  # another writer came first: retry
                ours = buckets.put_if(root, group_json({**attributes, WRITER: name}), earlier)
                break
        current = contents_of(attributes)
        for old in listed - {current}:
            buckets.remove(f"{url}/{old}")
        is_new = set(attributes) <= {WRITER}  # nothing was there but perhaps the mark of a dead writer
        try:
            yield place(f"{url}/{name}")
            buckets.put_if(root, group_json({CONTENTS: name}), ours)
        except BaseException:
            with suppress(Exception):  # report the original error
                if contents_of(_attributes(buckets.get(root))) != name:  # not published
                    buckets.remove(f"{url}/{name}")
                    if is_new and buckets.head(root)["e_tag"] == ours["e_tag"]:  # no later writer
                        buckets.delete(root)
            raise
    except ChangedError:
        raise CorpusError(
            f"{url}: another process started writing there, so the output of this process was removed"
        ) from None
    except OSError as cause:
        if not is_url(str(cause.filename)):
            raise
        raise CorpusError(f"cannot write {url}: {cause.strerror or cause}") from None
    # Without a pointer to contents, the old corpus was copied there as files.
    obsolete = [current] if current else [] if is_new else ["shards", "vocabulary", "document_frequency"]
    with suppress(OSError, BucketError):  # the new corpus is published; the next writer retries
        for old in obsolete:
            buckets.remove(f"{url}/{old}")


def _attributes(root: bytes) -> JsonObject:
    with suppress(ValueError, KeyError, TypeError):
        return dict(json.loads(root)["attributes"])
    return {}
