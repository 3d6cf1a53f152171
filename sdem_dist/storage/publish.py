"""Files, directories and corpora in buckets that appear under their name complete, or not at all."""

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
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW  # opens a folder to lock it
FLUSHES_AT_A_TIME = 16
CONTENTS, WRITER = "sdem_contents", "sdem_writer"
REPLACE = "replace it with --overwrite, in Python overwrite=True"
_CONTENTS_NAME = re.compile(r"contents-[0-9a-f]{16}")


def exchange(a: Path, b: Path) -> bool:
    """Exchange what two paths of one file system name; return False where that cannot be done in one step."""
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
    """Yield an empty folder ``.NAME.PURPOSE-...`` beside `path`, of a URL a temporary one; remove it in the end.

    Its owner locks it, and the lock ends with the process, however that ends. So an earlier folder of the same name and
    purpose that can be locked belongs to nobody, and is removed first. Where the file system knows no locks, none is.
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
            os.close(descriptor)  # another process removed it as abandoned just before it was locked
    try:
        yield folder
    finally:
        for pause in (0.0, 0.01, 0.1, 1.0):  # threads that began to write before an error still put files there
            time.sleep(pause)
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
        os.close(descriptor)


def clear_abandoned(parent: Path, prefix: str, digits: int, but: str = "") -> None:
    """Remove folders named by a prefix and hexadecimal digits that no process has locked, except the one named."""
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
    """Have `write` make a file in a hidden folder beside `path`, flush it, then rename it to `path`, or put it there.

    An OSError of the file or its device is raised as `error`. Whatever fails, what was at `path` is untouched then.
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
    """Raise `error` if no file can be written to the folder of `path`: better before the work than after it."""
    path = _resolved(path)
    with _explained(path, error), hidden_folder(path, "probe"):
        if is_url(path):
            probe = path.with_name(f".{path.name}.probe")  # of one name: the next run removes what a killed one left
            probe.write_bytes(b"")
            probe.unlink(missing_ok=True)


@contextmanager
def publish_directory(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield an empty hidden sibling of `path`; when the block succeeds, flush it and rename it to `path`.

    What is there is replaced in one step where the system can; elsewhere it is moved aside, and if the process dies in
    that moment, moved back by the next to write here. CorpusError where `path` is taken, or the device refuses; then,
    and if the block fails, what was at `path` is untouched.
    """
    path = _resolved(path)

    def refuse_existing() -> None:
        if path.exists() and not overwrite:
            raise CorpusError(f"{path} already exists", hint=REPLACE)

    def put_back(old: Path) -> None:
        if path.exists():  # another process was quicker
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(path)

    with _explained(path, CorpusError):
        for old in reversed(set_aside(path)):  # by a process that died while it replaced `path`
            put_back(old)
    refuse_existing()
    with _explained(path, CorpusError), hidden_folder(path, "partial") as partial:
        yield partial
        with ThreadPoolExecutor(FLUSHES_AT_A_TIME) as pool:  # each waits for the device
            below = list(partial.rglob("*"))
            for paths in ([p for p in below if p.is_file()], [partial, *(p for p in below if p.is_dir())]):
                list(pool.map(to_disk, paths))
        refuse_existing()
        while True:
            try:
                if not (overwrite and path.exists()):
                    partial.rename(path)
                elif exchange(partial, path):
                    shutil.rmtree(partial, ignore_errors=True)  # a failure must not undo what is in place
                else:
                    # Not in a folder that is cleared if this process dies: it is the only copy for a moment.
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
                # Another process wrote or moved the same path meanwhile.
                moved = cause.errno in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST)
                if not (overwrite and moved and partial.exists()):
                    raise
        to_disk(path.parent)


def set_aside(path: str | Path) -> list[Path]:
    """Return what processes had moved aside when they died while replacing `path`, the newest last."""
    path = _resolved(path)
    ours = re.compile(re.escape(f".{path.name}.old-") + "[0-9a-f]{16}")
    with suppress(OSError):
        return sorted((p for p in path.parent.iterdir() if ours.fullmatch(p.name)), key=lambda p: p.stat().st_mtime_ns)
    return []


@contextmanager
def _explained(path: Path, error: type[SdemError]) -> Iterator[None]:
    """Turn an OSError about the files being published into `error`; leave those about other files alone."""
    try:
        yield
    except OSError as cause:
        ours = (str(path), str(path.with_name(f".{path.name}.")))  # as `hidden_folder` names them
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
    """Follow symbolic links, so that what they point to is replaced and not the link."""
    return place(path) if is_url(path) else Path(os.path.realpath(path))


def to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def contents_of(attributes: JsonObject) -> str | None:
    """Return the name of the contents that the attributes of a root point to, or None: the root holds them itself."""
    name = attributes.get(CONTENTS)
    return name if isinstance(name, str) and _CONTENTS_NAME.fullmatch(name) else None


def open_contents(location: str) -> tuple[Path, JsonObject]:
    """Return the folder that the root at `location` points to, or the root itself, and its attributes."""
    root = place(location)
    while True:
        attributes = read_attributes(root)
        name = contents_of(attributes)
        if name is None:
            return root, attributes
        try:
            return root / name, read_attributes(root / name)
        except CorpusError:
            if contents_of(read_attributes(root)) == name:  # nobody replaced them meanwhile
                raise


@contextmanager
def publish_contents(url: str) -> Iterator[Path]:
    """Yield a new folder below `url`; when the block succeeds, make the root at `url` point to it, and remove the old.

    The root is one small object, replaced by a conditional PUT. A writer first puts its mark into it: then those that
    began earlier can no longer publish, and what they left is removed. So no clock and no lock is needed.
    CorpusError where another process began to write there, or the bucket fails; then what was there still is.
    """
    name, root = f"contents-{secrets.token_hex(8)}", f"{url}/zarr.json"
    try:
        while True:  # put a mark into the root
            # Contents that are listed before the root is read are of writers that began earlier, which can never be
            # published when the mark is there. Those of a writer that begins later are not in the list.
            listed = {child for child in buckets.children(url)[0] if _CONTENTS_NAME.fullmatch(child)}
            attributes, earlier = dict[str, Any](), None
            with suppress(FileNotFoundError):
                content, earlier = buckets.get_with_meta(root)
                attributes = _attributes(content)
            with suppress(ChangedError):  # another writer was quicker
                ours = buckets.put_if(root, group_json({**attributes, WRITER: name}), earlier)
                break
        current = contents_of(attributes)
        for old in listed - {current}:
            buckets.remove(f"{url}/{old}")
        is_new = set(attributes) <= {WRITER}  # only the mark of a dead writer was there, or nothing
        try:
            yield place(f"{url}/{name}")
            buckets.put_if(root, group_json({CONTENTS: name}), ours)
        except BaseException:
            with suppress(Exception):  # the first failure is the one to report
                if contents_of(_attributes(buckets.get(root))) != name:  # it is not published
                    buckets.remove(f"{url}/{name}")
                    if is_new and buckets.head(root)["e_tag"] == ours["e_tag"]:  # no other writer's mark is there
                        buckets.delete(root)
            raise
    except ChangedError:
        raise CorpusError(f"{url}: another process started to write there; this one removed its output") from None
    except OSError as cause:
        if not is_url(str(cause.filename)):
            raise
        raise CorpusError(f"cannot write {url}: {cause.strerror or cause}") from None
    # Without contents it is a corpus that was copied there as files.
    others = [current] if current else [] if is_new else ["shards", "vocabulary", "document_frequency"]
    with suppress(OSError, BucketError):  # the new one is in place; the next writer tries again
        for old in others:
            buckets.remove(f"{url}/{old}")


def _attributes(root: bytes) -> JsonObject:
    with suppress(ValueError, KeyError, TypeError):
        return dict(json.loads(root)["attributes"])
    return {}
