"""A writer that dies between two requests leaves the old corpus or the new one, and the next writer clears up."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from buckets.test_corpora import X, Y, parts_of

from sdem_dist import CorpusError, open_corpus, write_corpus
from sdem_dist.storage import buckets

TESTS = Path(__file__).parent.parent
WRITER = (
    "import sys; from buckets.test_corpora import X, Y; from sdem_dist import write_corpus; "
    "print(flush=True); write_corpus(sys.argv[1], X[:200], Y[:200], overwrite=True)"
)


def check(url, old, uid_new):
    """One of the two is there, whole; then another writer leaves itself alone."""
    try:
        found = open_corpus(url)
    except CorpusError:
        assert not old
    else:
        assert found.header.uid == uid_new or (old and found.n_documents == 300)
        assert found.read(0, found.n_documents).n_documents == found.n_documents
    write_corpus(url, X[:9], Y[:9], overwrite=True)
    assert len(parts_of(url)) == 2
    assert open_corpus(url).n_documents == 9


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_the_server_hears_no_more_after_any_put(bucket, proxy, monkeypatch, old, step, tmp_path):
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
        check(url, old, uid)
        last += step
    assert last > 10


@pytest.mark.slow
@pytest.mark.parametrize("puts", [1, 2, 9, 16, 23])
def test_a_writer_is_killed(bucket, proxy, puts, tmp_path):
    uid = write_corpus(tmp_path / "new", X[:200], Y[:200]).header.uid
    write_corpus(f"{bucket}/c", X, Y)
    path = f"{TESTS}:{os.environ.get('PYTHONPATH', '')}"
    command = [sys.executable, "-c", WRITER, f"{bucket}/c"]
    writer = subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path})
    assert writer.stdout is not None
    writer.stdout.readline()
    seen = []

    def kill(method, path):
        if method == "PUT":
            seen.append(path)
            if len(seen) == puts:
                os.kill(writer.pid, signal.SIGKILL)
        return

    proxy.fault = kill
    writer.wait(120)
    proxy.forward()
    assert len(seen) >= puts, "the writer did not get so far"
    check(f"{bucket}/c", True, uid)
