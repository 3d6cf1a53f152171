"""Objects in buckets by URL, also with the methods of a path: the only place that imports obstore."""

from __future__ import annotations

import errno
import io
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path, PosixPath
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, TypeAlias, TypeVar

from sdem_dist.errors import BucketError, SdemError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "abfs", "abfss", "az", "memory")  # ``memory`` is of one process, for tests and examples
SETTINGS: dict[str, Any] = {
    "client_options": {"connect_timeout": "10s", "timeout": "300s"},
    "retry_config": {
        "max_retries": 8,
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
        "retry_timeout": timedelta(seconds=90),
    },
}
REQUESTS = 16  # objects of a bucket that are read or written at once: each waits for answers
BLOCK = 4 << 20  # bytes that a reader of an object requests at once
TRIES = 5  # of what obstore does not retry itself
Meta: TypeAlias = Mapping[str, Any]  # of an object: ``e_tag`` changes with its content; Google writes by ``version``
Result = TypeVar("Result")
_CREDENTIALS, _SIGNED = re.compile(r"[:?]"), re.compile(r"[?&](sig|x-(amz|goog)-[\w-]+)=", re.IGNORECASE)
"""Text that cannot be a bucket's name, and the signature of a signed URL; abfs:// may have ``container@account``."""
_NO_NAME = re.compile(r"(?:^|/)\.\.?(?:/|$)|[\x00-\x1f\x7f]")
_S3_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SKIP_SIGNATURE", "AWS_METADATA_ENDPOINT")
_HOW_TO_AUTHENTICATE = (
    "no credentials found: set them in the environment (for s3:// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
    "run where the machine has a role; for gs:// GOOGLE_APPLICATION_CREDENTIALS; for abfs:// AZURE_STORAGE_ACCOUNT_NAME "
    "and AZURE_STORAGE_ACCOUNT_KEY)"
)
_CAUSES = {  # what to say of an error, by its kind, its code and its message
    "<Code>(NoSuchBucket|ContainerNotFound|InvalidBucketName)<": "bucket {bucket} does not exist: check the name",
    "<Code>(ExpiredToken|TokenRefreshRequired|RequestExpired|RequestTimeTooSkewed)<": (
        "{url}: the credentials have expired ({code}): renew them in the environment"
    ),
    # where machines ask for their role
    r"Missing (AccessKeyId|SecretAccessKey)|169\.254\.(169\.254|170\.2)|metadata\.google\.internal|metadata/identity": (
        f"{{bucket}}: {_HOW_TO_AUTHENTICATE}"
    ),
    "without LOCATION|<Code>PermanentRedirect<": "{bucket} is in another region: set AWS_REGION to that region",
    "<Code>(InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|AuthorizationHeaderMalformed)<": (
        "{url}: the credentials are unknown or wrong ({code}): check the credentials in the environment"
    ),
    "<Code>AccessDenied<|^(PermissionDenied|Unauthenticated)Error": (
        "{url}: access is denied ({code}): check the credentials in the environment"
    ),
}
_stores: dict[tuple[str, int], ObjectStore] = {}
_lock = threading.Lock()
os.register_at_fork(after_in_child=_stores.clear)


class ChangedError(Exception):
    """A conditional PUT failed: the object is there already, or is not the one that was read."""


def named(error: Exception, url: str) -> Exception:
    """Return what obstore raised about an object as an error of ours: an OSError may pass, a BucketError will not."""
    if not type(error).__module__.startswith("obstore") and not isinstance(error, FileNotFoundError):
        return error
    kind, text = type(error).__name__, f"{type(error).__name__}: {error}"
    code = match[1] if (match := re.search(r"<Code>(\w+)</Code>", text)) else kind
    if kind in ("AlreadyExistsError", "PreconditionError", "NotModifiedError") or code == "ConditionalRequestConflict":
        return ChangedError(url)
    scheme, _, rest = url.partition("://")
    not_found = isinstance(error, FileNotFoundError)
    for pattern, message in list(_CAUSES.items())[: 1 if not_found else None]:
        if re.search(pattern, text):
            return BucketError(message.format(bucket=f"{scheme}://{rest.partition('/')[0]}", url=url, code=code))
    if not_found:
        return FileNotFoundError(errno.ENOENT, "no such object", url)
    # The first words of the message: no body of an answer, no credentials of an address.
    first = " ".join(re.split(r"<\?xml|<Error>|Debug source", str(error), maxsplit=1)[0].split())
    reason = re.sub(r"//[^/@\s]*@", "//", first)[:300]
    return OSError(errno.EIO, f"the bucket fails repeatedly: {reason}", url)


def split(url: str) -> tuple[str, str]:
    """Return a URL's bucket, with the scheme before it, and the object's name in it."""
    scheme, _, rest = url.partition("://")
    in_memory = scheme in ("memory", "memory:")
    bucket, _, key = ("", "", rest) if in_memory else rest.partition("/")
    if _CREDENTIALS.search(bucket) or ("@" in bucket and not scheme.startswith("abfs")) or _SIGNED.search(key):
        hint = "set credentials as environment variables, not in the URL"
        raise BucketError(f"a URL must be {scheme}://BUCKET/NAME and nothing more: {hint}")
    if _NO_NAME.search(key):
        raise BucketError(f"{url!r}: names of objects must not contain control characters, or '.' or '..' as a part")
    if in_memory:
        return "memory://", key.strip("/")
    if scheme not in SCHEMES or not bucket:
        raise BucketError(f"{url}: a URL must start with s3://, gs:// or abfs:// and a bucket name, or with memory://")
    return f"{scheme}://{bucket}", key.strip("/")


def _store(bucket: str) -> ObjectStore:
    """Return the connection of this process to a bucket, with the credentials of the environment as it is now."""
    relevant = sorted((k, v) for k, v in os.environ.items() if k.startswith(("AWS_", "GOOGLE_", "AZURE_")))
    key = bucket, 0 if bucket == "memory://" else hash(tuple(relevant))
    with _lock:
        if key in _stores:
            return _stores[key]
        try:
            from obstore.store import MemoryStore, from_url
        except ImportError as error:
            raise BucketError(
                f'{bucket}: corpora and files in buckets need the package obstore: pip install "sdem_dist[s3]"'
            ) from error
        options: dict[str, Any] = {**SETTINGS}
        if bucket.startswith("s3:"):
            if endpoint := os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"):
                options["endpoint"] = endpoint
                options["client_options"] = {**SETTINGS["client_options"], "allow_http": endpoint.startswith("http://")}
            if not {"AWS_REGION", "AWS_DEFAULT_REGION"} & set(os.environ):
                options["region"] = "us-east-1"
            # To ask a machine for its role would take minutes to fail.
            if not any(name in _S3_CREDENTIALS or name.startswith("AWS_CONTAINER_") for name in os.environ):
                try:
                    socket.create_connection(("169.254.169.254", 80), timeout=1).close()
                except OSError:
                    raise BucketError(f"{bucket}: {_HOW_TO_AUTHENTICATE}") from None
        _stores[key] = MemoryStore() if bucket == "memory://" else from_url(bucket, **options)
        return _stores[key]


def _request(url: str, send: Callable[[ModuleType, ObjectStore, str], Result], attempt: int = 1) -> Result:
    """Return what ``send(obstore, connection, name of the object)`` returns, its errors named."""
    bucket, key = split(url)
    try:
        connection = _store(bucket)
        import obstore

        return send(obstore, connection, key)
    except Exception as error:
        cut_short = type(error).__module__.startswith("obstore") and "body error" in str(error)
        if not cut_short or attempt == TRIES:  # obstore does not retry where an answer ends in the middle
            if (cause := named(error, url)) is error:
                raise
            raise cause from None  # obstore's may quote what the server said of the credentials
    time.sleep(0.1 * 2**attempt)
    return _request(url, send, attempt + 1)


def get_with_meta(
    url: str, start: int = 0, stop: int | None = None, unchanged: Meta | None = None
) -> tuple[bytes, Meta]:
    """Return an object's bytes, or those of a range, and what it was; ChangedError if it is not the one `unchanged`."""
    options: dict[str, Any] = {"if_match": unchanged["e_tag"]} if unchanged and unchanged.get("e_tag") else {}
    if stop is not None or start:
        options["range"] = {"offset": start} if stop is None else (start, stop)

    def send(o: ModuleType, s: ObjectStore, key: str) -> tuple[bytes, Meta]:
        response = o.get(s, key, options=options)
        return bytes(response.bytes()), response.meta

    return _request(url, send)


def get(url: str, start: int = 0, stop: int | None = None) -> bytes:
    return get_with_meta(url, start, stop)[0]


def head(url: str) -> Meta:
    if not split(url)[1]:
        raise FileNotFoundError(errno.ENOENT, "a bucket is a folder, not an object", url)
    try:
        return _request(url, lambda o, s, key: o.head(s, key))
    except (BucketError, OSError) as error:
        if not isinstance(error, FileNotFoundError):
            get(url, 0, 1)  # which says why: answers to HEAD have no body
        raise


def put(url: str, content: bytes | Path) -> None:
    """Write an object whole, replacing what is there; of a Path the file's content."""
    _request(url, lambda o, s, key: o.put(s, key, content))


def put_new(url: str, content: bytes | Path) -> None:
    """Write an object where there is none; an existing one stays, since all writers write the same."""
    with suppress(ChangedError):
        _request(url, lambda o, s, key: o.put(s, key, content, mode="create", use_multipart=False))


def put_if(url: str, content: bytes, before: Meta | None, attempt: int = 1) -> Meta:
    """Write an object if nothing is there (`before` None), or what was before; ChangedError where it is something else.

    The content must not occur twice: after a lost answer it tells whether the object is ours.
    """
    tags = {name: before.get(name) for name in ("e_tag", "version")} if before is not None else {}
    mode = "create" if before is None else {name: tag for name, tag in tags.items() if tag is not None}
    try:
        return _request(url, lambda o, s, key: o.put(s, key, content, mode=mode, use_multipart=False))
    except (ChangedError, OSError) as error:
        with suppress(OSError):
            current, meta = get_with_meta(url)
            if current == content:
                return meta
        if isinstance(error, ChangedError) or attempt == TRIES:
            raise
    time.sleep(0.1 * 2**attempt)
    return put_if(url, content, before, attempt + 1)


def delete(url: str) -> None:
    with suppress(FileNotFoundError):
        _request(url, lambda o, s, key: o.delete(s, key))


def below(url: str) -> dict[str, Meta]:
    """Return all objects below a URL, by theirs, in order."""
    bucket, key = split(url)
    entries = _request(url, lambda o, s, _: [meta for part in o.list(s, prefix=key or None) for meta in part])
    root = bucket if bucket == "memory://" else f"{bucket}/"
    return {root + meta["path"]: meta for meta in sorted(entries, key=lambda meta: meta["path"])}


def children(url: str) -> tuple[list[str], list[str]]:
    """Return the names of the folders and of the objects in the folder `url`, in order."""
    _, key = split(url)
    response = _request(url, lambda o, s, _: o.list_with_delimiter(s, prefix=key or None))
    folders = [name.rstrip("/").rsplit("/", 1)[-1] for name in response["common_prefixes"]]
    return sorted(folders), sorted(meta["path"].rsplit("/", 1)[-1] for meta in response["objects"])


def remove(url: str) -> None:
    with ThreadPoolExecutor(REQUESTS) as pool:
        list(pool.map(delete, below(url)))


class Url(PosixPath):
    """The URL of an object, or of a folder of objects: ``s3://bucket/name``. An object is written whole."""

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    def __fspath__(self) -> str:
        return str(self)

    def absolute(self) -> Url:
        return self

    resolve = absolute  # type: ignore[assignment]

    @property
    def parents(self) -> tuple[Url, ...]:  # type: ignore[override]
        bucket, key = split(str(self))
        return tuple(type(self)(bucket, *key.split("/")[:n]) for n in range(key.count("/"), -1, -1)) if key else ()

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        try:
            meta = head(str(self))
        except FileNotFoundError:
            if not self.is_dir():
                raise
            return os.stat_result((stat.S_IFDIR | 0o755, *[0] * 9))
        modified = meta["last_modified"].timestamp()
        values = (stat.S_IFREG | 0o644, 0, 0, 0, 0, 0, meta["size"], *[int(modified)] * 3)
        return os.stat_result(values, {"st_mtime_ns": int(modified * 1e9)})

    def is_file(self) -> bool:
        with suppress(FileNotFoundError):
            return bool(head(str(self)))
        return False

    def is_dir(self) -> bool:
        return any(children(str(self)))

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        return self.is_file() or self.is_dir()

    def iterdir(self) -> Generator[Url, None, None]:
        folders, objects = children(str(self))
        yield from (self / name for name in sorted([*folders, *objects]))

    def walk(self, *arguments: Any, **options: Any) -> Generator[tuple[Url, list[str], list[str]], None, None]:
        folders, objects = children(str(self))
        yield self, folders, objects
        for name in folders:
            yield from (self / name).walk()

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a folder is there when something is in it."""

    def read_bytes(self) -> bytes:
        return get(str(self))

    def write_bytes(self, data: Any) -> int:
        put(str(self), bytes(data))
        return len(data)

    def unlink(self, missing_ok: bool = False) -> None:
        delete(str(self))

    def open(self, mode: str = "r", *arguments: Any, **options: Any) -> IO[Any]:  # type: ignore[override]
        if mode != "rb":
            raise io.UnsupportedOperation(
                f"{self}: objects in buckets can only be written as a whole, not opened with {mode!r}"
            )
        return io.BufferedReader(_RangeReader(str(self)), BLOCK)


class _RangeReader(io.RawIOBase):
    """Reads an object by ranges. Unlike obstore's reader it sees that the object was replaced, and retries."""

    def __init__(self, url: str) -> None:
        self._url, self._at, self._meta = url, 0, head(url)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._meta["size"]}[whence]
        if self._at < 0:
            raise OSError(22, "a negative position", self._url)
        return self._at

    def readinto(self, buffer: Any) -> int:
        stop = min(self._at + len(buffer), self._meta["size"])
        if self._at >= stop:
            return 0
        try:
            part, _ = get_with_meta(self._url, self._at, stop, self._meta)
        except ChangedError:
            raise OSError(5, "it was replaced while it was being read: read it again", self._url) from None
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a Path makes one slash of two


def is_url(location: str | Path) -> bool:
    """Whether `location` is a URL such as ``s3://bucket/name``, rather than a path of this machine."""
    return "://" in str(location) if isinstance(location, str) else bool(_URL.match(str(location)))


def place(location: str | Path) -> Path:
    """Return a location as a path, or as a `Url` where it is a URL, also one that was made a Path."""
    if not is_url(location):
        return Path(location)
    if isinstance(location, str):
        split(location)
    return location if isinstance(location, Url) else Url(str(location))


def for_a_reader(path: Path) -> Path | IO[Any]:
    """Return what a reader of another package opens: the path of a file, or the open object at a URL."""
    return path.open("rb") if is_url(path) else path


def refuse_url(path: str | Path, what: str) -> None:
    """Raise SdemError if `path` is a URL, also one that was made a Path: as a path it would name a local folder."""
    if _URL.match(str(path)):
        url = re.sub(":/+", "://", str(path), count=1)
        url = re.sub(r"(?<=//).*@|\?.*", "", url)  # these may be credentials
        raise SdemError(f"{url} is a URL, but {what}: use a path on this machine or on a mounted filesystem")
