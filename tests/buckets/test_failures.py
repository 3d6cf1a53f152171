"""What a bucket refuses has a name, says nothing of credentials, and what passes is tried again."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from buckets.proxy import SECRET

from sdem_dist import open_corpus, write_corpus
from sdem_dist.errors import BucketError
from sdem_dist.storage import buckets

X, Y = np.eye(6, dtype=int), list("ababab")


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (404, "NoSuchBucket", "there is no bucket s3://bucket"),
        (403, "AccessDenied", "access is denied"),
        (403, "SignatureDoesNotMatch", "the credentials are not known there, or wrong"),
        (400, "ExpiredToken", "the credentials have expired"),
    ],
)
def test_refusals_have_names(bucket, proxy, status, code, message):
    proxy.code, proxy.fault = code, lambda method, path: status
    for ask in (lambda: open_corpus(f"{bucket}/c"), lambda: write_corpus(f"{bucket}/c", X, Y)):
        with pytest.raises(BucketError, match=message) as caught:
            ask()
        assert "AKIDSECRET" not in str(caught.value)
        assert SECRET not in str(caught.value)


def test_what_passes_is_tried_again(bucket, proxy):
    failures = iter([503, 500, 503])
    proxy.fault = lambda method, path: next(failures, None) if method == "PUT" else None
    there = write_corpus(f"{bucket}/c", X, Y)
    assert next(failures, None) is None
    assert open_corpus(f"{bucket}/c").header.uid == there.header.uid


def test_missing_credentials_are_missed(bucket, monkeypatch):
    def nobody(*args, **options):
        raise OSError

    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setattr(buckets.socket, "create_connection", nobody)
    with pytest.raises(BucketError, match="there are no credentials"):
        open_corpus(f"{bucket}/c")


def test_no_credentials_in_what_is_stored(bucket):
    write_corpus(f"{bucket}/c", X, Y)
    stored = b"".join(buckets.get(found.url) for found in buckets.below(f"{bucket}/c"))
    assert SECRET.encode() not in stored
    assert b"AKIDSECRET" not in stored


def test_without_obstore_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    monkeypatch.setattr(buckets, "_stores", {})
    with pytest.raises(BucketError, match=r'pip install "sdem_dist\[s3\]"'):
        open_corpus("memory://b/c")
