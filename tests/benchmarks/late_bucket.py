"""Training from a bucket that answers late, against training from the local disk: both cold, in turns.

    python tests/benchmarks/late_bucket.py [--corpus 20ng] [--latency 0.02] [--repeats 5]

The corpus is one that corpora.py loads. The server is a process of its own that speaks S3's GET and HEAD on a folder,
and waits before each answer; checks of signatures are left out. Files are dropped from the system's cache before each
local run. The time is that of ``MultinomialNB().fit(open_corpus(...))``, kernels loaded before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

import harness
import numpy as np
from corpora import load
from scale import forget, forget_pages

from sdem_dist import MultinomialNB, open_corpus, write_corpus


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


def compare(corpus: str = "20ng", latency: float = 0.02, repeats: int = 5) -> None:
    """Print seconds from disk and from the bucket, and their ratio."""
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
    harness.run(__doc__, compare, serve)
