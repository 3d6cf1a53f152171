"""What a bucket refuses has a name, what may pass is tried again, and credentials are seen nowhere."""

import errno
import threading
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from buckets.proxy import LOST
from buckets.servers import SECRET, everywhere, seaweedfs
from buckets.test_corpora import X, Y

from sdem_dist import BucketError, CorpusError, ModelError, MultinomialNB, load_model, open_corpus, write_corpus
from sdem_dist.errors import SdemError, UnreadableError
from sdem_dist.storage import buckets
from sdem_dist.storage.buckets import refuse_url

N_WRITERS, N_ROUNDS = 8, 20


def test_no_such_bucket(bucket):
    for act in (open_corpus, lambda url: write_corpus(url, X, Y), load_model):
        np.testing.assert_raises(BucketError, act, "s3://nowhere/c")


@pytest.mark.parametrize("code", ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"])
def test_what_is_refused_is_not_tried_again(bucket, proxy, code):
    corpus = write_corpus(f"{bucket}/c", X, Y)
    model = MultinomialNB(n_epochs=1).fit(X, Y)
    proxy.fault, proxy.code = lambda method, path: 400 if code == "ExpiredToken" else 403, code
    for act in (open_corpus, lambda _: corpus.read(0, 9), lambda url: write_corpus(url, X, Y), load_model, model.save):
        before = len(proxy.requests)
        with pytest.raises(BucketError) as caught:
            act(f"{bucket}/c")
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
    np.testing.assert_raises(BucketError, open_corpus, f"{bucket}/c")


OWN = f"AKIDSECRET:{SECRET}"
URLS = [
    *(f"{scheme}://{own}@bucket/c" for scheme, own in (("s3", OWN), ("s3", f"{OWN}/more"), ("gs", SECRET), ("https", SECRET),
                                                     ("abfs", OWN))),
    f"az://bucket/c?sv=1&sig={SECRET}", f"s3://bucket/c?X-Amz-Signature={SECRET}", f"s3://bucket?{SECRET}",
]  # fmt: skip


@pytest.mark.parametrize("url", URLS)
def test_credentials_in_urls_are_refused_and_not_shown(url):
    for act in (lambda: open_corpus(url), lambda: load_model(url), lambda: write_corpus(url, X, Y)):
        with pytest.raises(BucketError) as caught:
            act()
        assert SECRET not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(SdemError) as told:
        refuse_url(url, "a table is a file")
    assert SECRET not in str(told.value)


def test_names_with_odd_letters():
    assert buckets.split("s3://bucket/a@b/c?d=e:f") == ("s3://bucket", "a@b/c?d=e:f")
    assert buckets.split("abfss://one@two.dfs.core.windows.net/c") == ("abfss://one@two.dfs.core.windows.net", "c")


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
        with pytest.raises(error) as caught:
            act()
        assert error is UnreadableError or caught.value.__cause__.errno == errno.EIO


def test_credentials_are_stored_nowhere(bucket, caplog):
    with warnings.catch_warnings(record=True) as warned:
        corpus = write_corpus(f"{bucket}/c", X, Y)
        MultinomialNB(n_epochs=1).fit(corpus, checkpoint=f"{bucket}/run").save(f"{bucket}/m")
    for found in buckets.below(bucket):
        content = buckets.get(found)
        assert SECRET.encode() not in content and b"AKIDSECRET" not in content
    assert SECRET not in caplog.text + repr(corpus) + str(vars(corpus)) + "".join(str(w.message) for w in warned)


@pytest.fixture(scope="module")
def threaded(tmp_path_factory):
    pytest.importorskip("obstore")
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as started:
        yield started


@pytest.fixture
def contended(threaded, monkeypatch, tmp_path):
    for name, value in threaded.environment("http://{}:{}".format(*threaded.address), tmp_path).items():
        monkeypatch.setenv(name, value)
    return f"s3://bucket/{tmp_path.name}"


def at_once(act):
    """Return what ``act(n)`` returns, or raises, of `N_WRITERS` threads that begin together."""
    ready = threading.Barrier(N_WRITERS)

    def one(n):
        ready.wait()
        try:
            return act(n)
        except (buckets.ChangedError, CorpusError) as error:
            return error

    with ThreadPoolExecutor(N_WRITERS) as threads:
        return list(threads.map(one, range(N_WRITERS)))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_writer_of_many_makes_an_object_and_one_replaces_it(contended):
    for number in range(N_ROUNDS):
        url, tag = f"{contended}/{number}", None
        for turn in ("made", "replaced"):
            before = tag
            answers = at_once(lambda n: buckets.put_if(url, f"{turn} by {n}".encode(), before))  # noqa: B023
            (winner,) = [n for n, answer in enumerate(answers) if not isinstance(answer, Exception)]
            assert buckets.get(url) == f"{turn} by {winner}".encode()
            tag = answers[winner]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_parts_of_a_job_that_two_processes_make_are_written_once(contended):
    for number in range(N_ROUNDS):
        url = f"{contended}/part-{number}"
        assert at_once(lambda n: buckets.put_new(url, b"%d" % n)) == [None] * N_WRITERS  # noqa: B023
        first = buckets.get(url)
        buckets.put_new(url, b"later")
        assert buckets.get(url) == first
