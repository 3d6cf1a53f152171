"""A corpus in a bucket is the corpus on disk, appears whole, and is replaced whole."""

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist import CorpusError, MultinomialNB, open_corpus, write_corpus
from sdem_dist.storage import buckets, publish

RNG = np.random.default_rng(0)
X = sp.random(300, 40, density=0.2, random_state=0, format="csr", data_rvs=lambda n: RNG.integers(1, 9, n))
Y, WORDS = RNG.integers(0, 3, 300), [f"w{i}" for i in range(40)]
only_s3 = pytest.mark.parametrize("scheme", ["s3"], indirect=True)


@pytest.fixture(params=["s3", "gs", "abfs", "memory"])
def scheme(request):
    return request.param


@pytest.fixture
def url(bucket):
    return f"{bucket}/deep/er/c"


def names(url):
    return [found.removeprefix(f"{url}/") for found in buckets.below(url)]


def parts_of(url):
    """Return the first parts of the names below a URL; a corpus has two."""
    return {name.partition("/")[0] for name in names(url)}


def same_states(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def state(corpus):
    return MultinomialNB(n_epochs=2, random_state=0).fit(corpus).state_


def test_same_corpus_same_bits(url, tmp_path, bucket, scheme):
    there = write_corpus(url, X, Y, vocabulary=WORDS, shard_documents=90)
    here = write_corpus(tmp_path / "c", X, Y, vocabulary=WORDS, shard_documents=90)
    assert there.header.uid == here.header.uid and there.vocabulary() == WORDS
    assert list(there.ids(1)) == list(here.ids(1))
    np.testing.assert_array_equal(there.document_frequency, here.document_frequency)
    same_states(state(open_corpus(url)), state(here))
    assert all(found.startswith(f"{url}/") for found in buckets.below(bucket)), "nothing is written outside"
    assert "zarr.json" not in buckets.children(f"{scheme}://bucket")[1]


def then(act, n=None):
    """Yield documents, and act while the corpus is written."""
    yield X[:n], Y[:n]
    act()


def test_replaced_whole(url):
    old = write_corpus(url, X, Y)
    np.testing.assert_raises_regex(CorpusError, "already exists", write_corpus, url, X[:9], Y[:9])

    def look():
        assert open_corpus(url).read(0, 300).n_documents == 300
        assert old.read(0, 300).n_documents == 300

    write_corpus(url, then(look, 9), overwrite=True)
    assert open_corpus(url).n_documents == 9
    assert names(url)[-1] == "zarr.json" and len(parts_of(url)) == 2  # the old one is gone


def test_a_writer_that_fails_leaves_what_was_there(url):
    def fail():
        raise RuntimeError("here")

    for there in (False, True):
        np.testing.assert_raises_regex(RuntimeError, "here", write_corpus, url, then(fail), overwrite=True)
        if there:
            assert open_corpus(url).read(0, 9).n_documents == 9
        else:
            assert names(url) == []
        write_corpus(url, X[:9], Y[:9], overwrite=True)


def test_of_two_writers_the_one_that_began_last_publishes(url):
    write_corpus(url, X, Y)

    def write_another():
        write_corpus(url, X[:20], Y[:20], overwrite=True)

    with pytest.raises(CorpusError) as refused:
        write_corpus(url, then(write_another, 9), overwrite=True)
    assert (
        str(refused.value) == f"{url}: another process started writing there, so the output of this process was removed"
    )
    assert open_corpus(url).read(0, 20).n_documents == 20 and len(parts_of(url)) == 2


def test_many_writers_at_once_leave_one_whole_corpus(url):
    ready, outcomes = threading.Barrier(4), []

    def write(n):
        ready.wait()
        try:
            write_corpus(url, X[:n], Y[:n], overwrite=True)
            outcomes.append(n)
        except CorpusError as error:
            outcomes.append(str(error))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, (10, 20, 30, 40)))
    corpus = open_corpus(url)
    assert corpus.n_documents in outcomes
    assert corpus.read(0, corpus.n_documents).n_documents == corpus.n_documents
    assert all(isinstance(what, int) or "another process" in what for what in outcomes)
    write_corpus(url, X, Y, overwrite=True)
    assert len(parts_of(url)) == 2  # nobody's parts are left


def test_who_opens_while_it_is_replaced_gets_the_new_one(url, monkeypatch):
    write_corpus(url, X, Y)
    reads, replaced = publish.contents_of, []

    def replaced_meanwhile(attributes):
        found = reads(attributes)
        if not replaced:
            replaced.append(True)
            write_corpus(url, X[:9], Y[:9], overwrite=True)
        return found

    monkeypatch.setattr(publish, "contents_of", replaced_meanwhile)
    assert open_corpus(url).n_documents == 9


def test_a_folder_copied_into_a_bucket_is_a_corpus(url, tmp_path):
    here = write_corpus(tmp_path / "c", X, Y)
    for file in (tmp_path / "c").rglob("*"):
        if file.is_file():
            buckets.put(f"{url}/{file.relative_to(tmp_path / 'c')}", file.read_bytes())
    assert open_corpus(url).header.uid == here.header.uid and open_corpus(url).read(0, 300).n_documents == 300
    write_corpus(url, X[:9], Y[:9], overwrite=True)
    assert {name.split("-")[0] for name in parts_of(url)} == {"contents", "zarr.json"}


def test_other_things_are_left_alone(url):
    buckets.put(f"{url}/zarr.json", json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}).encode())
    np.testing.assert_raises(CorpusError, write_corpus, url, X, Y, overwrite=True)
    assert names(url) == ["zarr.json"]


@pytest.mark.parametrize("pointer", ["../c", "contents-0123456789abcdef/../../x", 7])
def test_a_root_points_nowhere_else(url, pointer):
    root = {"zarr_format": 3, "node_type": "group", "attributes": {publish.CONTENTS: pointer}}
    buckets.put(f"{url}/zarr.json", json.dumps(root).encode())
    np.testing.assert_raises_regex(CorpusError, "no manifest found", open_corpus, url)


def test_a_missing_part_is_named(url):
    corpus = write_corpus(url, X, Y)
    for name in names(url):
        if "/shards/00000/data/" in name:
            buckets.delete(f"{url}/{name}")
    np.testing.assert_raises_regex(CorpusError, "shard 0.*data", corpus.read, 0, 300)


def check_what_a_dead_writer_leaves(url, old, uid):
    """It is the old corpus or the new one, whole; the next writer clears up."""
    try:
        found = open_corpus(url)
    except CorpusError:
        assert not old
    else:
        assert found.header.uid == uid or (old and found.n_documents == 300)
        assert found.read(0, found.n_documents).n_documents == found.n_documents
    write_corpus(url, X[:9], Y[:9], overwrite=True)
    assert len(parts_of(url)) == 2 and open_corpus(url).n_documents == 9


@only_s3
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_writer_that_says_no_more_leaves_the_old_corpus_or_the_new(bucket, proxy, monkeypatch, old, step, tmp_path):
    """For the bucket, a process that is killed is one that says no more; here that is tried at PUTs and DELETEs."""
    uid = write_corpus(tmp_path / "new", X[:200], Y[:200]).header.uid
    monkeypatch.setitem(buckets.SETTINGS, "retry_config", {"max_retries": 0})
    monkeypatch.setattr(buckets, "TRIES", 1)
    last, ends = 0, False
    while not ends:
        url = f"{bucket}/{last}"
        if old:
            write_corpus(url, X, Y)
        said = proxy.fall_silent_after(last)
        try:
            write_corpus(url, X[:200], Y[:200], overwrite=True)
            ends = len(said) <= last
        except CorpusError:
            pass
        proxy.forward()
        check_what_a_dead_writer_leaves(url, old, uid)
        last += step
    assert last > 10


WRITER = """
import sys
from buckets.test_corpora import X, Y, write_corpus
print(flush=True)
write_corpus(sys.argv[1], X[:200], Y[:200], overwrite=True)
"""


@only_s3
@pytest.mark.parametrize("puts", [9, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 13, 16))])
def test_a_writer_that_is_killed_leaves_the_old_corpus_or_the_new_one(bucket, proxy, puts, tmp_path):
    uid = write_corpus(tmp_path / "new", X[:200], Y[:200]).header.uid
    write_corpus(f"{bucket}/c", X, Y)
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command, seen = [sys.executable, "-c", WRITER, f"{bucket}/c"], []
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path})
    assert writer.stdout.readline() == b"\n"

    def kill(method, path):
        seen.extend([path] if method == "PUT" else [])
        if len(seen) == puts:
            writer.kill()

    proxy.fault = kill
    assert writer.wait(120) == -signal.SIGKILL, "the writer got so far"
    proxy.forward()
    check_what_a_dead_writer_leaves(f"{bucket}/c", True, uid)
