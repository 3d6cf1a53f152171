"""Writers at the same moment, against a server of S3 that has threads: of two conditional PUTs one fails."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from buckets.servers import seaweedfs
from buckets.test_corpora import X, Y, parts_of

from sdem_dist import CorpusError, open_corpus, write_corpus
from sdem_dist.storage import buckets

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
N_WRITERS, N_ROUNDS = 8, 20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    pytest.importorskip("obstore")
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as started:
        yield started


@pytest.fixture
def bucket(server, monkeypatch, tmp_path):
    for name, value in server.environment("http://{}:{}".format(*server.address), tmp_path).items():
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


def test_one_writer_of_many_makes_an_object_and_one_replaces_it(bucket):
    for number in range(N_ROUNDS):
        url, tag = f"{bucket}/{number}", None
        for turn in ("made", "replaced"):
            before = tag
            answers = at_once(lambda n: buckets.put_if(url, f"{turn} by {n}".encode(), before))  # noqa: B023
            (winner,) = [n for n, answer in enumerate(answers) if not isinstance(answer, Exception)]
            assert buckets.get(url) == f"{turn} by {winner}".encode()
            tag = answers[winner]


def test_parts_of_a_job_that_two_processes_make_are_written_once(bucket):
    for number in range(N_ROUNDS):
        url = f"{bucket}/part-{number}"
        assert at_once(lambda n: buckets.put_new(url, b"%d" % n)) == [None] * N_WRITERS  # noqa: B023
        first = buckets.get(url)
        buckets.put_new(url, b"later")
        assert buckets.get(url) == first


def test_many_writers_of_a_corpus_leave_one_that_is_whole(bucket):
    url = f"{bucket}/c"
    for _ in range(3):
        answers = at_once(lambda n: write_corpus(url, X[: 10 + n], Y[: 10 + n], overwrite=True).n_documents)
        corpus = open_corpus(url)
        assert corpus.n_documents in answers
        assert corpus.read(0, corpus.n_documents).n_documents == corpus.n_documents
    write_corpus(url, X[:9], Y[:9], overwrite=True)  # and clears what others left
    assert len(parts_of(url)) == 2
