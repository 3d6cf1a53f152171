"""A corpus in a bucket: its root is one small object, which names the folder of the contents.

The root is replaced by a conditional PUT when the contents are complete, so that readers see the old or the new. A
writer first puts its mark into the root: then writers that began earlier can no longer publish, and what they left is
removed. So no clock and no lock is needed.
"""

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sdem_dist.errors import BucketError, CorpusError
from sdem_dist.storage import buckets
from sdem_dist.storage.arrays import group_json, read_attributes
from sdem_dist.storage.buckets import ChangedError, Tag
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.urls import is_url, place

CONTENTS, WRITER = "sdem_contents", "sdem_writer"
_NAME = re.compile(r"contents-[0-9a-f]{16}")


def contents_of(attributes: JsonObject) -> str | None:
    """Return the name of the contents that the attributes of a root point to, or None: the root holds them itself."""
    name = attributes.get(CONTENTS)
    return name if isinstance(name, str) and _NAME.fullmatch(name) else None


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
    """Yield a new folder below `url`; when the block succeeds, make the root at `url` point to it.

    What the root pointed to is removed then, and not before.
    Raises CorpusError: another process began to write to `url`, or the bucket fails. Whatever else the block raises
    passes through. In every case what was at `url` is still there, and the new folder is not.
    """
    name, root = f"contents-{secrets.token_hex(8)}", f"{url}/zarr.json"
    try:
        before, tag, others = _claim(url, root, name)
        try:
            yield place(f"{url}/{name}")
            buckets.put_if(root, group_json({CONTENTS: name}), tag)
        except BaseException:
            with suppress(Exception):  # the first failure is the one to report
                if contents_of(_attributes(buckets.get(root))) != name:  # it is not published
                    buckets.remove(f"{url}/{name}")
                    # Put the root back, unless another writer has put its mark there.
                    if before is not None:
                        attributes = {k: v for k, v in _attributes(before).items() if k != WRITER}
                        buckets.put_if(root, group_json(attributes), tag)
                    elif buckets.head(root).tag.e_tag == tag.e_tag:
                        buckets.delete(root)
            raise
    except ChangedError:
        raise CorpusError(
            f"{url}: another process began to write there in the meantime, and what this one wrote is removed"
        ) from None
    except OSError as cause:
        if not is_url(str(cause.filename)):
            raise
        raise CorpusError(f"cannot write {url}: {cause.strerror or cause}") from None
    if before is not None and contents_of(_attributes(before)) is None:  # a corpus that was copied there as files
        others += ["shards", "vocabulary", "document_frequency"]
    with suppress(OSError, BucketError):  # the new one is in place; the next writer tries again
        for old in others:
            buckets.remove(f"{url}/{old}")


def _claim(url: str, root: str, name: str) -> tuple[bytes | None, Tag, list[str]]:
    """Put a mark into the root; return the root as it was, the tag it has now, and which contents it pointed to.

    Contents that are listed before the root is read are of writers that began earlier, and so can never be published
    when the mark is there. Those of a writer that begins later are not in the list.
    """
    while True:
        listed = {child for child in buckets.children(url)[0] if _NAME.fullmatch(child)}
        before, old_tag = None, None
        with suppress(FileNotFoundError):
            before, old_tag = buckets.get_with_tag(root)
        attributes = {} if before is None else _attributes(before)
        try:
            tag = buckets.put_if(root, group_json({**attributes, WRITER: name}), old_tag)
        except ChangedError:
            continue  # another writer was quicker
        if set(attributes) <= {WRITER}:
            before = None  # only the mark of a dead writer was there, or nothing
        current = contents_of(attributes)
        for old in listed - {current}:
            buckets.remove(f"{url}/{old}")
        return before, tag, [] if current is None else [current]


def _attributes(root: bytes) -> JsonObject:
    with suppress(ValueError, KeyError, TypeError):
        attributes = json.loads(root)["attributes"]
        return attributes if isinstance(attributes, dict) else {}
    return {}
