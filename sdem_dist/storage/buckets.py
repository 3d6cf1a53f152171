"""Objects in buckets by URL, also with the methods of a path. No other module imports obstore."""

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

SCHEMES = ("s3", "gs", "abfs", "abfss", "az", "memory")  # ``memory``: in this process only, for tests and examples
SETTINGS: dict[str, Any] = {
    "client_options": {"connect_timeout": "10s", "timeout": "300s"},
    "retry_config": {
        "max_retries": 8,
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
        "retry_timeout": timedelta(seconds=90),
    },
}
REQUESTS = 16  # concurrent requests: each mostly waits for the reply
BLOCK = 4 << 20  # bytes per request of a reader of an object
TRIES = 5  # attempts for errors that obstore does not retry
Meta: TypeAlias = Mapping[str, Any]  # of an object: ``e_tag`` changes with its content; Google's PUT needs ``version``
Result = TypeVar("Result")
_CREDENTIALS, _SIGNED = re.compile(r"[:?]"), re.compile(r"[?&](sig|x-(amz|goog)-[\w-]+)=", re.IGNORECASE)
"""Text that cannot be a bucket's name, and the signature of a signed URL; abfs:// may have ``container@account``."""
_NO_NAME = re.compile(r"(?:^|/)\.\.?(?:/|$)|[\x00-\x1f\x7f]")
_S3_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SKIP_SIGNATURE", "AWS_METADATA_ENDPOINT")
_HOW_TO_AUTHENTICATE = (
    "no credentials found: set environment variables (for s3://, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for gs://, "
    "GOOGLE_APPLICATION_CREDENTIALS; for abfs://, AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY), or use a "
    "machine with a role"
)
_CAUSES = {  # messages by pattern of the error's type, code and text; the first match wins
    "<Code>(NoSuchBucket|ContainerNotFound|InvalidBucketName)<": "bucket {bucket} does not exist: check the name",
    "<Code>(ExpiredToken|TokenRefreshRequired|RequestExpired|RequestTimeTooSkewed)<": (
        "{url}: the credentials have expired ({code}): renew them in the environment"
    ),
    # addresses where machines ask for their role
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
    """A conditional request failed: the object already exists, or has changed since it was read."""


def named(error: Exception, url: str) -> Exception:
    """Return an error of obstore as one of ours: an OSError may be temporary, a BucketError is not."""
    if not type(error).__module__.startswith("obstore") and not isinstance(error, FileNotFoundError):
        return error
    kind, text = type(error).__name__, f"{type(error).__name__}: {error}"
    code = match[1] if (match := re.search(r"<Code>(\w+)</Code>", text)) else kind
    if kind in ("AlreadyExistsError", "PreconditionError", "NotModifiedError") or code == "ConditionalRequestConflict":
        return ChangedError(url)
    scheme, _, location = url.partition("://")
    not_found = isinstance(error, FileNotFoundError)
    for pattern, message in list(_CAUSES.items())[: 1 if not_found else None]:
        if re.search(pattern, text):
            return BucketError(message.format(bucket=f"{scheme}://{location.partition('/')[0]}", url=url, code=code))
    if not_found:
        return FileNotFoundError(errno.ENOENT, "no such object", url)
    # Only the start of the message, without the body of a reply and credentials in an address.
    first = " ".join(re.split(r"<\?xml|<Error>|Debug source", str(error), maxsplit=1)[0].split())
    reason = re.sub(r"//[^/@\s]*@", "//", first)[:300]
    return OSError(errno.EIO, f"requests to the bucket failed repeatedly: {reason}", url)


def split(url: str) -> tuple[str, str]:
    """Return the bucket of a URL, with its scheme, and the name of the object in the bucket."""
    scheme, _, location = url.partition("://")
    in_memory = scheme in ("memory", "memory:")
    bucket, _, key = ("", "", location) if in_memory else location.partition("/")
    if _CREDENTIALS.search(bucket) or ("@" in bucket and not scheme.startswith("abfs")) or _SIGNED.search(key):
        hint = "set credentials as environment variables, not in the URL"
        raise BucketError(f"a URL must be {scheme}://BUCKET/NAME and nothing more: {hint}")
    if _NO_NAME.search(key):
        raise BucketError(f"{url!r}: object names must not contain control characters, or parts that are '.' or '..'")
    if in_memory:
        return "memory://", key.strip("/")
    if scheme not in SCHEMES or not bucket:
        raise BucketError(f"{url}: a URL must start with s3://, gs:// or abfs:// and a bucket name, or with memory://")
    return f"{scheme}://{bucket}", key.strip("/")


def _store(bucket: str) -> ObjectStore:
    """Return this process's connection to a bucket, with the current credentials in the environment."""
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
            # Without credentials, obstore would ask for the machine's role, and take minutes to fail.
            if not any(name in _S3_CREDENTIALS or name.startswith("AWS_CONTAINER_") for name in os.environ):
                try:
                    socket.create_connection(("169.254.169.254", 80), timeout=1).close()
                except OSError:
                    raise BucketError(f"{bucket}: {_HOW_TO_AUTHENTICATE}") from None
        _stores[key] = MemoryStore() if bucket == "memory://" else from_url(bucket, **options)
        return _stores[key]


def _request(url: str, send: Callable[[ModuleType, ObjectStore, str], Result], attempt: int = 1) -> Result:
    """Return ``send(obstore, connection, name of the object)``; errors are translated by `named`."""
    bucket, key = split(url)
    try:
        connection = _store(bucket)
        import obstore

        return send(obstore, connection, key)
    except Exception as error:
        cut_short = type(error).__module__.startswith("obstore") and "body error" in str(error)
        if not cut_short or attempt == TRIES:  # obstore does not retry a truncated reply
            if (cause := named(error, url)) is error:
                raise
            raise cause from None  # obstore's error may quote credentials in the reply
    time.sleep(0.1 * 2**attempt)
    return _request(url, send, attempt + 1)


def get_with_meta(
    url: str, start: int = 0, stop: int | None = None, unchanged: Meta | None = None
) -> tuple[bytes, Meta]:
    """Return the bytes of an object or range, and its metadata; ChangedError if it differs from `unchanged`."""
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
            get(url, 0, 1)  # raises the reason: replies to HEAD have no body
        raise


def put(url: str, content: bytes | Path) -> None:
    """Write an object, replacing any existing one; for a Path, the content of the file."""
    _request(url, lambda o, s, key: o.put(s, key, content))


def put_new(url: str, content: bytes | Path) -> None:
    """Write an object unless it exists: all writers write the same content."""
    with suppress(ChangedError):
        _request(url, lambda o, s, key: o.put(s, key, content, mode="create", use_multipart=False))


def put_if(url: str, content: bytes, before: Meta | None, attempt: int = 1) -> Meta:
    """Write an object if it is unchanged since `before`, or does not exist (None); otherwise raise ChangedError.

    The content must be unique: if a reply is lost, it shows whether the object is ours.
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
    """Return the metadata of all objects below a URL, by their URLs, sorted."""
    bucket, key = split(url)
    entries = _request(url, lambda o, s, _: [meta for part in o.list(s, prefix=key or None) for meta in part])
    root = bucket if bucket == "memory://" else f"{bucket}/"
    return {root + meta["path"]: meta for meta in sorted(entries, key=lambda meta: meta["path"])}


def children(url: str) -> tuple[list[str], list[str]]:
    """Return the names of folders and of objects in the folder `url`, sorted."""
    _, key = split(url)
    response = _request(url, lambda o, s, _: o.list_with_delimiter(s, prefix=key or None))
    folders = [name.rstrip("/").rsplit("/", 1)[-1] for name in response["common_prefixes"]]
    return sorted(folders), sorted(meta["path"].rsplit("/", 1)[-1] for meta in response["objects"])


def remove(url: str) -> None:
    with ThreadPoolExecutor(REQUESTS) as pool:
        list(pool.map(delete, below(url)))


class Url(PosixPath):
    """The URL of an object or folder, ``s3://bucket/name``, as a path. Objects can only be written as a whole."""

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
        """Do nothing: a folder exists if it contains an object."""

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
    """Reads an object by ranges. Unlike obstore's reader, it notices a replaced object, and retries."""

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


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a single slash, since Path merges two


def is_url(location: str | Path) -> bool:
    """Return whether `location` is a URL such as ``s3://bucket/name``, not a path on this machine."""
    return "://" in str(location) if isinstance(location, str) else bool(_URL.match(str(location)))


def place(location: str | Path) -> Path:
    """Return a location as a path, or as a `Url` if it is a URL, even one converted to a Path."""
    if not is_url(location):
        return Path(location)
    if isinstance(location, str):
        split(location)
    return location if isinstance(location, Url) else Url(str(location))


def for_a_reader(path: Path) -> Path | IO[Any]:
    """Return an argument for readers of other packages: the path of a file, or the opened object at a URL."""
    return path.open("rb") if is_url(path) else path


def refuse_url(path: str | Path, what: str) -> None:
    """Raise SdemError if `path` is a URL, even one converted to a Path: as a path, it would name a local folder."""
    if _URL.match(str(path)):
        url = re.sub(":/+", "://", str(path), count=1)
        url = re.sub(r"(?<=//).*@|\?.*", "", url)  # removes possible credentials
        raise SdemError(f"{url} is a URL, but {what}: use a path on this machine or on a mounted filesystem")
