"""Dask workers beside one process: rates, sizes, batches, a lost worker, memory; a bucket that answers late.

Run: ``SDEM_CORPORA=... python tests/benchmarks/scale.py [PART] --folder FOLDER``.  Corpora of any size are all reviews of NSMC
(three classes, character 1- and 2-grams of five reviews or more), then copies that lack every tenth nonzero; they are written
once to FOLDER.  Kernels are compiled before, on a cluster that runs already.

speed: a million documents from disk, two workers against the in-process kernel on one core, cached and cold.  Documents a
second and core, medians over epochs and repetitions, which alternate.  The overhead of a round is its wall time without a
worker's share of the tasks' own time for reading, mapping, merging and updating;
sizes: from a thousand documents to ten million: equal bits, and wall seconds of a whole training from disk (evaluation left
out), with as many threads in this process as workers on the cluster;
batches: ``merge="sum"`` on workers beside the default merge (no folder): what they reach, and what a round costs.  Each corpus of
`corpora.py` is written to disk; test documents, defaults but for the merge.  A round's milliseconds are medians, with and
without what workers read, compute and merge (each its share: where one of two works alone, half of that is left).  The aim: at
most .003 below the mean's accuracy;
recovery: what losing one of two workers costs: seconds with and without a SIGKILL in the middle, and the same bits.  The
nanny's restart is the time from the kill until the scheduler has two workers again; the killed worker's lanes and cached
documents are lost with it;
memory: peaks of workers under an enforced limit (MiB), on corpora of 1, 4 and 16 times the size.  Workers above it are killed by
Dask's nanny; the size of a corpus is that of its decoded arrays;
wide: a model of 100 classes and a million words on two workers: peak memory and seconds a round, in one block and cut.
Documents are drawn from a Zipf law over hashed words.  With ``--checkpoints`` the driver, whose process has Dask's scheduler,
too, writes one after every round; its peak counts all lines so far: for a figure of its own, ask for one number of blocks;
bucket: training from a bucket that answers late, against training from the local disk: both cold, in turns (no folder). The
server is a process of its own that speaks S3's GET and HEAD on a folder, and waits before each answer; checks of signatures are
left out. Files are dropped from the system's cache before each local run.
"""

import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import harness
import numpy as np
import scipy.sparse as sp
from corpora import Split, corpus_of, load, splits_of

from sdem_dist import MultinomialNB, open_corpus, write_corpus
from sdem_dist.cluster import configuration, connected
from sdem_dist.engine.events import EpochEnded, Event, LanesEnded, RoundEnded


class Rounds:
    """Collects, of every round after the first epoch, wall time, time beyond kernels, reading and merging, and merging."""

    def __init__(self, n_workers: int) -> None:
        self.seconds: list[float] = []
        self.beyond: list[float] = []
        self.merging: list[float] = []
        self._n_workers, self._busy, self._merge = n_workers, 0.0, 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, LanesEnded):
            self._busy += event.map + event.read + event.prepare
            self._merge += event.merge
        elif isinstance(event, RoundEnded):
            if event.epoch:
                self.seconds.append(event.seconds)
                self.merging.append((self._merge + event.merge) / self._n_workers)
                self.beyond.append(event.seconds - self._busy / self._n_workers - self.merging[-1])
            self._busy = self._merge = 0.0


def rates(corpus: Any, n_epochs: int, client: Any = None, callbacks: Any = ()) -> list[float]:
    model = MultinomialNB(n_epochs=n_epochs, validation_fraction=0.0, n_jobs=1)
    model.fit(corpus, client=client, callbacks=callbacks)
    return [corpus.n_documents / h["seconds"] for h in model.history_]


def forget() -> None:
    """Empty the caches of this process."""
    from sdem_dist import byte_cache  # here: a function of a script travels with the globals it names

    byte_cache.prepared_cache.clear()
    byte_cache.shard_cache.clear()


def forget_pages(path: str | Path) -> None:
    """Ask the system to drop the files of a folder from its page cache."""
    for file in filter(Path.is_file, Path(path).rglob("*")):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def peak_memory() -> int:
    # Not ru_maxrss: a process that was forked from a large one starts with the peak of that.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def peaks_of(client: Any) -> str:
    return ", ".join(f"{bytes_ / 2**20:,.0f}" for bytes_ in client.run(peak_memory).values())


def prepared() -> None:
    """Compile, and import what reading needs."""
    import sdem_dist.storage.arrays  # noqa: F401

    X, y = np.eye(8, dtype=np.uint8), np.arange(8) % 2
    for merge in ("mean", "sum"):
        MultinomialNB(n_epochs=1, merge=merge, validation_fraction=0.0).fit(X, y)


def speed(folder: Path, documents: int = 1_000_000, epochs: int = 6, repeat: int = 3, workers: int = 2) -> None:
    corpus = corpus_of(folder, documents)
    h = corpus.header
    print(f"{h.n_documents:,} documents, {h.n_features:,} words, {h.n_nonzeros:,} nonzeros, {len(h.shards)} shards")
    prepared()
    inside, cold, cached = list[float](), list[float](), list[float]()
    rounds = Rounds(workers)
    with connected(n_workers=workers) as client:
        client.run(prepared)
        for _ in range(repeat):
            forget()
            inside += rates(corpus, epochs)[1:]
            client.run(forget)
            forget_pages(corpus.path)
            first, *others = (r / workers for r in rates(corpus, epochs, client, [rounds]))
            cold.append(first)
            cached += others
        peaks = peaks_of(client)
    one, two, first = (median(values) for values in (inside, cached, cold))
    print(f"in-process, one core, cached: {one:,.0f} documents/s")
    print(f"{workers} Dask workers, a core each: cold {first:,.0f}, cached {two:,.0f} documents/s and core")
    ratios = f"cold {first / one:.2f}, cached {two / one:.2f}; speed-up cached {workers * two / one:.2f}"
    print(f"ratios to in-process: {ratios}")
    print(
        f"overhead a round: {1e3 * median(rounds.beyond):.0f} ms, {harness.median_ratio(rounds.beyond, rounds.seconds):.1%} "
        f"of it; merging and updating: {1e3 * median(rounds.merging):.0f} ms"
    )
    print(f"peak memory of the workers: {peaks} MiB")


def sizes(
    folder: Path, sizes: tuple = (1_000, 10_000, 100_000, 1_000_000, 10_000_000), epochs: int = 5, workers: int = 2
) -> None:
    prepared()
    print(f"documents, seconds in process ({workers} threads), seconds on Dask ({workers} workers), same bits")
    with connected(n_workers=workers) as client:
        client.run(prepared)
        for size in sizes:
            corpus = corpus_of(folder, size)
            corpus.read(0, 1)  # the manifest and the first shard, for both
            times, models = [], []
            for n_jobs, of_cluster in ((workers, None), (1, client)):
                forget()
                client.run(forget)
                model = MultinomialNB(n_epochs=epochs, validation_fraction=0.0, n_jobs=n_jobs)
                times.append(harness.seconds(lambda m=model, c=corpus, client=of_cluster: m.fit(c, client=client)))
                models.append(model.feature_log_prob_)
            print(f"{size:10,}  {times[0]:8.2f}  {times[1]:8.2f}  {np.array_equal(*models)}", flush=True)


def batch_line(split: Split, corpus: Any, client: Any, n_workers: int, **settings: Any) -> str:
    """Return accuracy, log-loss and the cost of rounds of one training by workers."""
    rounds = Rounds(n_workers)
    model = MultinomialNB(**settings).fit(corpus, client=client, callbacks=[rounds])
    metrics = model.evaluate(split.X_test, split.y_test)
    name = f"sum, {settings['batch_size']:,} documents" if settings else "mean"
    return (
        f"  {name:24} accuracy {metrics['accuracy']:.4f}  log-loss {metrics['ncll']:.4f}  "
        f"{len(rounds.seconds):,} rounds after the first epoch, {1e3 * median(rounds.seconds):.0f} ms each, "
        f"{1e3 * median(rounds.beyond):.0f} beyond the work"
    )


def batches(names: tuple = ("r52", "20ng"), batches: tuple = (128, 512, 2048), workers: int = 2) -> None:
    with TemporaryDirectory() as folder, connected(n_workers=workers) as client:
        client.run(prepared)
        for name in names:
            split = splits_of(name)[0]
            corpus = write_corpus(Path(folder, f"{name}.zarr"), split.X, split.y)
            print(f"{name}: {split.X.shape[0]:,} documents", flush=True)
            for settings in ({}, *({"merge": "sum", "batch_size": batch} for batch in batches)):
                print(batch_line(split, corpus, client, workers, **settings), flush=True)


def trained(corpus: Any, client: Any, n_epochs: int, kill_after: int | None) -> tuple[float, list[float], np.ndarray]:
    """Return the seconds of a training, of its epochs, and its parameters; kill a worker after an epoch."""
    epochs: list[float] = []

    def listen(event: Any) -> None:
        if isinstance(event, EpochEnded):
            epochs.append(event.seconds)
            if event.epoch == kill_after:
                worker, pid = next(iter(client.run(os.getpid).items()))
                threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()  # in the middle of the next epoch
                print(f"killing {worker}", flush=True)

    model = MultinomialNB(n_epochs=n_epochs, validation_fraction=0.0)
    seconds = harness.seconds(lambda: model.fit(corpus, client=client, callbacks=[listen]))
    return seconds, epochs, model.feature_log_prob_


def restart_seconds(client: Any) -> float:
    before = set(client.ncores())
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    started = time.perf_counter()
    while len(set(client.ncores()) - before) < 1:
        if time.perf_counter() - started > 60:
            raise TimeoutError("no new worker within 60 s")
        time.sleep(0.05)
    return time.perf_counter() - started


def recovery(folder: Path, documents: int = 1_000_000, epochs: int = 8) -> None:
    corpus = corpus_of(folder, documents)
    with connected(n_workers=2) as client:
        client.run(prepared)
        whole, seconds, undisturbed = trained(corpus, client, epochs, None)
        disturbed, _, after = trained(corpus, client, epochs, 2)
        restart = restart_seconds(client)
    epoch = median(seconds[1:])
    print(f"undisturbed {whole:.2f} s ({epoch:.2f} s an epoch), one worker of two killed {disturbed:.2f} s")
    print(f"the nanny takes {restart:.2f} s to replace a worker; same bits: {np.array_equal(undisturbed, after)}")


def decoded_bytes(header: Any) -> int:
    dtypes = header.shards[0].data_dtype, "uint16" if header.n_features <= 1 << 16 else "uint32"
    return header.n_nonzeros * sum(np.dtype(d).itemsize for d in dtypes) + 12 * header.n_documents


def memory(folder: Path, smallest: int = 500_000, limit: int = 660, workers: int = 2, epochs: int = 2) -> None:
    import dask
    from distributed import Client, LocalCluster

    quiet = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.ERROR}
    for times in (1, 4, 16):
        corpus = corpus_of(folder, times * smallest)
        with (
            dask.config.set(configuration()),
            LocalCluster(n_workers=workers, threads_per_worker=1, memory_limit=limit << 20, **quiet) as cluster,
            Client(cluster) as client,
        ):
            before = set(client.scheduler_info(n_workers=-1)["workers"])
            model = MultinomialNB(n_epochs=epochs, validation_fraction=0.0).fit(corpus, client=client)
            peaks = peaks_of(client)
            lost = len(before - set(client.scheduler_info(n_workers=-1)["workers"]))
        size = decoded_bytes(corpus.header) / 2**20
        print(
            f"{times:2d}x: {corpus.n_documents:9,} documents, {size:6,.0f} MiB decoded ({size / limit:.1f} times the limit of "
            f"{limit} MiB); peaks {peaks} MiB; {lost} workers lost; "
            f"{corpus.n_documents / model.history_[-1]['seconds']:,.0f} documents/s in the last epoch",
            flush=True,
        )


def wide_batches(n_documents: int, n_words: int, n_classes: int, length: int = 100) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield documents of about `length` words, a fifth of them from their class's own part of the vocabulary."""
    rng = np.random.default_rng(0)
    for first in range(0, n_documents, 5000):
        n = min(5000, n_documents - first)
        y = rng.integers(n_classes, size=n)
        words = (rng.zipf(1.3, (n, length)) * 7919) % n_words
        own = rng.random((n, length)) < 0.2
        words[own] = ((words + y[:, None] * (n_words // n_classes)) % n_words)[own]
        rows = np.repeat(np.arange(n), length)
        yield sp.csr_matrix((np.ones(n * length, np.int64), (rows, words.ravel())), shape=(n, n_words)), y


def wide(
    folder: Path,
    documents: int = 50_000,
    words: int = 1_000_000,
    classes: int = 100,
    blocks: tuple = (1, 4, 16),
    checkpoints: bool = False,
) -> None:
    path = folder / f"wide-{documents}-{words}-{classes}.zarr"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_corpus(path, wide_batches(documents, words, classes))
    corpus = open_corpus(path)
    print(f"mu takes {8 * words * classes / 2**20:,.0f} MiB")
    settings: dict[str, Any] = {"n_epochs": 2, "rounds_per_epoch": 2, "n_lanes": 32, "evaluate_every": 2}
    for n_blocks in blocks:
        seconds: list[float] = []

        def listen(event: Any, seconds: list[float] = seconds) -> None:
            if isinstance(event, RoundEnded) and (event.epoch, event.round) > (0, 0):
                seconds.append(event.seconds)

        with connected(n_workers=2) as client, TemporaryDirectory(dir=folder) as checkpoint:
            before = peak_memory()
            saving = {"checkpoint": checkpoint, "checkpoint_rounds": 1} if checkpoints else {}
            model = MultinomialNB(n_blocks=n_blocks, validation_fraction=0.0, **settings)
            model.fit(corpus, client=client, callbacks=[listen], **saving)
            peaks = peaks_of(client)
        print(
            f"{n_blocks:3d} block(s): {median(seconds):.2f} s a round, peaks {peaks} MiB; the driver's "
            f"{peak_memory() / 2**20:,.0f} from {before / 2**20:,.0f} MiB; "
            f"training accuracy {model.history_[-1]['accuracy']:.3f}",
            flush=True,
        )


def serve(folder: str, latency: float = 0.02) -> None:
    """Answer requests for files of a folder; the first line of the output is the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            time.sleep(latency)
            file = Path(folder, self.path.partition("?")[0].lstrip("/"))
            exists = file.is_file()
            content = file.read_bytes() if exists else b"<Error><Code>NoSuchKey</Code></Error>"
            self.send_response(200 if exists else 404)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)
            self.wfile.flush()

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


def bucket(corpus: str = "20ng", latency: float = 0.02, repeats: int = 5) -> None:
    split = load(corpus)
    with tempfile.TemporaryDirectory() as folder:
        disk = Path(folder, "bucket", "c")
        disk.parent.mkdir()
        written = write_corpus(disk, split.X, split.y)
        print(f"{corpus}: {written.n_documents:,} documents, {len(written.header.shards)} shards")
        MultinomialNB().fit(split.X, split.y)
        command = [sys.executable, __file__, "serve", "--folder", folder, "--latency", str(latency)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        os.environ |= {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.stdout.readline().strip()}", "AWS_REGION": "x"}
        os.environ["AWS_SKIP_SIGNATURE"] = "true"
        times: dict[str, list[float]] = {"disk": [], "bucket": []}
        try:
            for _ in range(repeats):
                for place, path in (("disk", disk), ("bucket", "s3://bucket/c")):
                    forget_pages(folder)
                    forget()
                    model = MultinomialNB()
                    times[place].append(harness.seconds(lambda m=model, path=path: m.fit(open_corpus(path))))
                    np.testing.assert_array_equal(model.classes_, written.header.classes)
        finally:
            server.kill()
            server.wait()
    for place, seconds in times.items():
        print(f"{place:<7} median {median(seconds):.3f} s, each {', '.join(f'{t:.3f}' for t in seconds)}")
    print(f"speed from the bucket, of that from disk: {median(times['disk']) / median(times['bucket']):.2f}")


if __name__ == "__main__":
    harness.run(__doc__, speed, sizes, batches, recovery, memory, wide, bucket, serve)
