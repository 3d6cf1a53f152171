"""What a bucket refuses has a name, what may pass is tried again, and credentials are seen nowhere."""

import itertools
import traceback
import warnings
from collections import Counter

import numpy as np
import pytest
from buckets.needs import everywhere
from buckets.proxy import CUT, LOST
from buckets.servers import SECRET
from buckets.test_corpora import X, Y, parts_of, state

from sdem_dist import BucketError, CorpusError, ModelError, MultinomialNB, load_model, open_corpus, write_corpus
from sdem_dist.errors import SdemError, UnreadableError
from sdem_dist.storage import buckets
from sdem_dist.storage.buckets import refuse_url


def test_no_such_bucket(bucket):
    for act in (
        lambda: open_corpus("s3://nowhere/c"),
        lambda: write_corpus("s3://nowhere/c", X, Y),
        lambda: load_model("s3://nowhere/m"),
    ):
        with pytest.raises(BucketError, match="there is no bucket s3://nowhere"):
            act()


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, "AccessDenied", "access is denied"),
        (403, "InvalidAccessKeyId", "not known there, or wrong"),
        (403, "SignatureDoesNotMatch", "not known there, or wrong"),
        (400, "ExpiredToken", "the credentials have expired"),
    ],
)
def test_what_is_refused_is_not_tried_again(bucket, proxy, status, code, words):
    corpus = write_corpus(f"{bucket}/c", X, Y)
    model = MultinomialNB(n_epochs=1).fit(X, Y)
    proxy.fault, proxy.code = lambda method, path: status, code
    for act in (
        lambda: open_corpus(f"{bucket}/c"),
        lambda: corpus.read(0, 9),
        lambda: write_corpus(f"{bucket}/d", X, Y),
        lambda: load_model(f"{bucket}/m"),
        lambda: model.save(f"{bucket}/m"),
    ):
        before = len(proxy.requests)
        with pytest.raises(BucketError, match=words) as caught:
            act()
        assert "AKIDSECRET" not in "".join(traceback.format_exception(caught.value))
        assert len(proxy.requests) - before < 40


@pytest.mark.parametrize("missing", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_credentials_that_are_missing(bucket, monkeypatch, missing):
    monkeypatch.delenv(missing)
    if missing == "AWS_ACCESS_KEY_ID":
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

        def unreachable(*_, **__):
            raise OSError("no machine with a role")

        monkeypatch.setattr(buckets.socket, "create_connection", unreachable)
    with pytest.raises(BucketError, match="there are no credentials"):
        open_corpus(f"{bucket}/c")


@pytest.mark.parametrize(
    "url",
    [
        f"s3://AKIDSECRET:{SECRET}@bucket/c",
        f"s3://AKIDSECRET:{SECRET}/more@bucket/c",
        f"gs://{SECRET}@bucket/c",
        f"https://{SECRET}@bucket/c",
        f"abfs://AKIDSECRET:{SECRET}@bucket/c",
        f"az://bucket/c?sv=1&sig={SECRET}",
        f"s3://bucket/c?X-Amz-Signature={SECRET}",
        f"s3://bucket?{SECRET}",
    ],
)
def test_credentials_in_urls_are_refused_and_not_shown(url):
    for act in (lambda: open_corpus(url), lambda: load_model(url), lambda: write_corpus(url, X, Y)):
        with pytest.raises(BucketError, match="perhaps credentials") as caught:
            act()
        assert SECRET not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(SdemError) as told:
        refuse_url(url, "a table is a file")
    assert SECRET not in str(told.value)


def test_names_with_odd_letters():
    assert buckets.split("s3://bucket/a@b/c?d=e:f") == ("s3://bucket", "a@b/c?d=e:f")
    assert buckets.split("abfss://one@two.dfs.core.windows.net/c") == ("abfss://one@two.dfs.core.windows.net", "c")


def every(n, fault):
    """Return what fails each n-th request, but none of an object more than twice: it passes."""
    count, failed = itertools.count(1), Counter()

    def of(method, path):
        due = next(count) % n == 0 and failed[method, path] < 2
        failed[method, path] += due
        return fault if due else None

    return of


@everywhere
@pytest.mark.parametrize("fault", [500, 503, CUT, LOST])
def test_what_passes_is_tried_again(bucket, proxy, tmp_path, fault):
    here = write_corpus(tmp_path / "c", X, Y, shard_documents=90)
    proxy.fault = every(4, fault)
    there = write_corpus(f"{bucket}/c", X, Y, shard_documents=90)
    assert there.header.uid == here.header.uid
    for ours, theirs in zip(state(open_corpus(f"{bucket}/c")), state(here), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    proxy.forward()
    assert len(parts_of(f"{bucket}/c")) == 2


@everywhere
def test_a_published_root_whose_answer_is_lost_is_ours(bucket, proxy):
    lost = []

    def once(method, path):
        if method == "PUT" and path.endswith(("/x", "%2Fx")) and not lost:
            lost.append(path)
            return LOST
        return None

    proxy.fault = once
    tag = buckets.put_if(f"{bucket}/x", b"first", None)
    assert lost
    lost.clear()
    buckets.put_if(f"{bucket}/x", b"second", tag)
    assert lost
    assert buckets.get(f"{bucket}/x") == b"second"
    for stale in (None, tag):
        with pytest.raises(buckets.ChangedError):
            buckets.put_if(f"{bucket}/x", b"third", stale)


def test_a_server_that_stays_away(bucket, proxy):
    corpus = write_corpus(f"{bucket}/c", X, Y)
    proxy.fault = lambda method, path: 503
    for act, error in (
        (lambda: corpus.read(0, 9), UnreadableError),
        (lambda: open_corpus(f"{bucket}/c"), UnreadableError),
        (lambda: write_corpus(f"{bucket}/d", X, Y), CorpusError),
        (lambda: load_model(f"{bucket}/m"), ModelError),
    ):
        with pytest.raises(error, match="also when asked again"):
            act()


def test_credentials_are_stored_nowhere(bucket, caplog):
    with warnings.catch_warnings(record=True) as warned:
        corpus = write_corpus(f"{bucket}/c", X, Y)
        MultinomialNB(n_epochs=1).fit(corpus, checkpoint=f"{bucket}/run").save(f"{bucket}/m")
    for found in buckets.below(bucket):
        content = buckets.get(found)
        assert SECRET.encode() not in content
        assert b"AKIDSECRET" not in content
    assert SECRET not in caplog.text + repr(corpus) + str(vars(corpus)) + "".join(str(w.message) for w in warned)
