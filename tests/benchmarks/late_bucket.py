"""Training from a bucket that answers late, against training from the local disk: both cold, in turns.

    python tests/benchmarks/late_bucket.py [CORPUS] [--latency 0.02] [--repeats 5]

CORPUS is a name that corpora.py knows. The server is a process of its own that speaks S3's GET and HEAD on a folder,
and waits before each answer; checks of signatures are left out. Files are dropped from the system's cache before each
local run. The time is that of ``MultinomialNB().fit(open_corpus(...))``, kernels loaded before.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np


def serve(folder: str, latency: float) -> None:
    """Answer requests for files of a folder; the first line of the output is the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            time.sleep(latency)
            file = Path(folder, self.path.partition("?")[0].lstrip("/"))
            found = file.is_file()
            content = file.read_bytes() if found else b"<Error><Code>NoSuchKey</Code></Error>"
            self.send_response(200 if found else 404)
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


def forget(folder: Path) -> None:
    """Drop files from the system's cache."""
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?", default="20ng")
    parser.add_argument("--latency", type=float, default=0.02)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--serve")
    chosen = parser.parse_args()
    if chosen.serve:
        serve(chosen.serve, chosen.latency)
        return
    from benchmarks.corpora import load

    from sdem_dist import MultinomialNB, open_corpus, write_corpus
    from sdem_dist.byte_cache import prepared_cache, shard_cache

    split = load(chosen.corpus)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bucket").mkdir()
        here = write_corpus(folder / "bucket" / "c", split.X, split.y)
        print(f"{chosen.corpus}: {here.n_documents:,} documents, {len(here.header.shards)} shards")
        MultinomialNB().fit(split.X, split.y)
        command = [sys.executable, __file__, "--serve", name, "--latency", str(chosen.latency)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        os.environ |= {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.stdout.readline().strip()}", "AWS_REGION": "x"}
        os.environ["AWS_SKIP_SIGNATURE"] = "true"
        try:
            times: dict[str, list[float]] = {"disk": [], "bucket": []}
            for _ in range(chosen.repeats):
                for where, path in (("disk", folder / "bucket" / "c"), ("bucket", "s3://bucket/c")):
                    forget(folder)
                    prepared_cache.clear()
                    shard_cache.clear()
                    start = time.perf_counter()
                    model = MultinomialNB().fit(open_corpus(path))
                    times[where].append(time.perf_counter() - start)
                    np.testing.assert_array_equal(model.classes_, here.header.classes)
        finally:
            server.kill()
            server.wait()
    for where, found in times.items():
        print(f"{where:<7} median {np.median(found):.3f} s, each {', '.join(f'{t:.3f}' for t in found)}")
    print(f"speed from the bucket, of that from disk: {np.median(times['disk']) / np.median(times['bucket']):.2f}")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    main()
