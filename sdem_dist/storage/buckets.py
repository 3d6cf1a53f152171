"""Objects in buckets, by URL: the only place that imports obstore."""

from __future__ import annotations

import errno
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sdem_dist.errors import BucketError

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
TRIES = 5  # of what obstore does not retry itself
Result = TypeVar("Result")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound", "InvalidBucketName"}
_EXPIRED = {"ExpiredToken", "TokenRefreshRequired", "RequestExpired", "RequestTimeTooSkewed"}
_UNKNOWN = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "AuthorizationHeaderMalformed"}
_METADATA_SERVERS = ("169.254.169.254", "169.254.170.2", "metadata.google.internal", "metadata/identity")
_NO_CREDENTIALS = ("Missing AccessKeyId", "Missing SecretAccessKey", *_METADATA_SERVERS)
_CREDENTIALS, _SIGNED = re.compile(r"[:?]"), re.compile(r"[?&](sig|x-(amz|goog)-[\w-]+)=", re.IGNORECASE)
"""Text that cannot be a bucket's name, and the signature of a signed URL; abfs:// may have ``container@account``."""
_NO_NAME = re.compile(r"(?:^|/)\.\.?(?:/|$)|[\x00-\x1f\x7f]")
_S3_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SKIP_SIGNATURE", "AWS_METADATA_ENDPOINT")
_HOW_TO_AUTHENTICATE = (
    "there are no credentials: set those of the environment (for s3:// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
    "run where the machine has a role; for gs:// GOOGLE_APPLICATION_CREDENTIALS; for abfs:// AZURE_STORAGE_ACCOUNT_NAME "
    "and AZURE_STORAGE_ACCOUNT_KEY)"
)
_stores: dict[tuple[str, int], ObjectStore] = {}
_lock = threading.Lock()
os.register_at_fork(after_in_child=_stores.clear)


class ChangedError(Exception):
    """A conditional PUT failed: the object is there already, or is not the one that was read."""


class Tag(NamedTuple):
    """Changes with an object's content; Google's conditional writes take the version alone."""

    e_tag: str
    version: str | None

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> Tag:
        return cls(meta.get("e_tag") or "", meta.get("version"))


class Object(NamedTuple):
    url: str
    size: int
    modified_ns: int
    tag: Tag

    @classmethod
    def of(cls, url: str, meta: Mapping[str, Any]) -> Object:
        return cls(url, meta["size"], int(meta["last_modified"].timestamp() * 1e9), Tag.of(meta))


def named(error: Exception, url: str) -> Exception:
    """Return what obstore raised about the object at `url` as an error of ours.

    BucketError will not pass: no such bucket, denied, missing, unknown or expired credentials, the wrong region.
    ChangedError: a condition of a PUT does not hold. FileNotFoundError: there is no such object. OSError is anything
    else, after the retries: it may pass.
    """
    if not type(error).__module__.startswith("obstore") and not isinstance(error, FileNotFoundError):
        return error
    text, kind = str(error), type(error).__name__
    code = match[1] if (match := _CODE.search(text)) else ""
    scheme, _, rest = url.partition("://")
    bucket = f"{scheme}://{rest.partition('/')[0]}"
    if kind in ("AlreadyExistsError", "PreconditionError", "NotModifiedError") or code == "ConditionalRequestConflict":
        return ChangedError(url)
    if code in _NO_BUCKET:
        return BucketError(f"there is no bucket {bucket}: check the name, or make the bucket first")
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "there is no such object", url)
    if code in _EXPIRED:
        return BucketError(f"{url}: the credentials have expired ({code}): renew those of the environment")
    if any(words in text for words in _NO_CREDENTIALS):
        return BucketError(f"{bucket}: {_HOW_TO_AUTHENTICATE}")
    if "without LOCATION" in text or code == "PermanentRedirect":
        return BucketError(f"{bucket} is in another region: set AWS_REGION to the one of the bucket")
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or code in (*_UNKNOWN, "AccessDenied"):
        what = "the credentials are not known there, or wrong" if code in _UNKNOWN else "access is denied"
        return BucketError(f"{url}: {what} ({code or kind}): check the credentials of the environment")
    # The first words of the message: no body of an answer, no credentials of an address.
    first = " ".join(re.split(r"<\?xml|<Error>|Debug source", text, maxsplit=1)[0].split())
    reason = re.sub(r"//[^/@\s]*@", "//", first)[:300]
    return OSError(errno.EIO, f"the bucket fails, also when asked again: {reason}", url)


def split(url: str) -> tuple[str, str]:
    """Return a URL's bucket, with the scheme before it, and the object's name in it."""
    scheme, _, rest = url.partition("://")
    in_memory = scheme in ("memory", "memory:")
    bucket, _, key = ("", "", rest) if in_memory else rest.partition("/")
    if _CREDENTIALS.search(bucket) or ("@" in bucket and not scheme.startswith("abfs")) or _SIGNED.search(key):
        raise BucketError(
            f"a URL of {scheme}:// has more than the names of a bucket and an object, perhaps credentials: these belong in "
            "the environment"
        )
    if _NO_NAME.search(key):
        raise BucketError(f"{url!r}: the name of an object has no part '.' or '..', and no control characters")
    if in_memory:
        return "memory://", key.strip("/")
    if scheme not in SCHEMES or not bucket:
        raise BucketError(f"{url}: URLs begin with s3://, gs:// or abfs:// and the name of a bucket, or with memory://")
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
        try:
            _stores[key] = MemoryStore() if bucket == "memory://" else from_url(bucket, **options)
        except Exception as error:
            if (cause := named(error, bucket)) is error:
                raise
            raise cause from None
        return _stores[key]


def _request(url: str, send: Callable[[ModuleType, ObjectStore, str], Result]) -> Result:
    """Return what ``send(obstore, connection, name of the object)`` returns, its errors named.

    It is sent again where the connection ended in the middle of an answer, after which obstore does not retry.
    """
    bucket, key = split(url)
    connection = _store(bucket)
    import obstore

    for attempt in range(TRIES):
        try:
            return send(obstore, connection, key)
        except Exception as error:
            cut_short = type(error).__module__.startswith("obstore") and "body error" in str(error)
            if cut_short and attempt + 1 < TRIES:
                time.sleep(0.2 * 2**attempt)
                continue
            if (cause := named(error, url)) is error:
                raise
            raise cause from None  # obstore's may quote what the server said of the credentials
    raise AssertionError("unreachable")


def get(url: str, start: int = 0, stop: int | None = None, tag: Tag | None = None) -> bytes:
    """Return an object's bytes, or those of a range; with `tag`, ChangedError if it is another by now."""
    options: dict[str, Any] = {} if tag is None or not tag.e_tag else {"if_match": tag.e_tag}
    if stop is not None or start:
        options["range"] = {"offset": start} if stop is None else (start, stop)
    return _request(url, lambda o, s, key: bytes(o.get(s, key, options=options).bytes()))


def head(url: str) -> Object:
    """Return what a bucket tells of the object at `url`; FileNotFoundError without one."""
    if not split(url)[1]:
        raise FileNotFoundError(errno.ENOENT, "a bucket is a folder, not an object", url)
    try:
        return Object.of(url, _request(url, lambda o, s, key: o.head(s, key)))
    except FileNotFoundError:
        raise
    except (BucketError, OSError):
        get(url, 0, 1)  # which says why: answers to HEAD have no body
        raise


def get_with_tag(url: str) -> tuple[bytes, Tag]:
    """Return an object's bytes and its tag, of the same moment."""

    def send(o: ModuleType, s: ObjectStore, key: str) -> tuple[bytes, Tag]:
        answer = o.get(s, key)
        return bytes(answer.bytes()), Tag.of(answer.meta)

    return _request(url, send)


def put(url: str, content: bytes | Path) -> None:
    """Write an object whole, replacing what is there; of a Path the file's content."""
    _request(url, lambda o, s, key: o.put(s, key, content))


def put_new(url: str, content: bytes | Path) -> None:
    """Write an object where there is none; an existing one stays, since all writers write the same."""
    with suppress(ChangedError):
        _request(url, lambda o, s, key: o.put(s, key, content, mode="create", use_multipart=False))


def put_if(url: str, content: bytes, tag: Tag | None) -> Tag:
    """Write an object if nothing is there (`tag` None), or what has the tag; return the new tag.

    The content must not occur twice: after a lost answer it tells whether the object is ours.

    Raises ChangedError: something else is there.
    """
    mode = "create" if tag is None else {name: value for name, value in tag._asdict().items() if value is not None}
    for attempt in range(TRIES):
        try:
            return Tag.of(_request(url, lambda o, s, key: o.put(s, key, content, mode=mode, use_multipart=False)))
        except (ChangedError, OSError) as error:
            with suppress(OSError):
                current, current_tag = get_with_tag(url)
                if current == content:
                    return current_tag
            if isinstance(error, ChangedError) or attempt + 1 == TRIES:
                raise
            time.sleep(0.2 * 2**attempt)
    raise AssertionError("unreachable")


def delete(url: str) -> None:
    with suppress(FileNotFoundError):
        _request(url, lambda o, s, key: o.delete(s, key))


def below(url: str) -> list[Object]:
    bucket, key = split(url)
    entries = _request(url, lambda o, s, _: [meta for part in o.list(s, prefix=key or None) for meta in part])
    root = bucket if bucket == "memory://" else f"{bucket}/"
    return [Object.of(root + meta["path"], meta) for meta in sorted(entries, key=lambda meta: meta["path"])]


def children(url: str) -> tuple[list[str], list[str]]:
    """Return the names of the folders and of the objects in the folder `url`, in order."""
    _, key = split(url)
    answer = _request(url, lambda o, s, _: o.list_with_delimiter(s, prefix=key or None))
    folders = [name.rstrip("/").rsplit("/", 1)[-1] for name in answer["common_prefixes"]]
    return sorted(folders), sorted(meta["path"].rsplit("/", 1)[-1] for meta in answer["objects"])


def remove(url: str) -> None:
    urls = [entry.url for entry in below(url)]
    for first in range(0, len(urls), 1000):
        some = urls[first : first + 1000]
        names = [split(one)[1] for one in some]
        try:
            _request(url, lambda o, s, _, names=names: o.delete(s, names))  # type: ignore[misc]
        except OSError:
            # obstore does not repeat this request. And where another process removes some of these, Azure and Google
            # end it in the middle.
            for one in some:
                delete(one)
