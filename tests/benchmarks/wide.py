"""A model of 100 classes and a million words on two workers: peak memory and seconds a round, in one block and cut.

With ``--checkpoints`` the driver writes one after every round; its process has Dask's scheduler, too.  Its peak counts all
lines so far: for a figure of its own, ask for one number of blocks.

Run: ``python tests/benchmarks/wide.py --folder FOLDER``.  Documents are drawn from a Zipf law over hashed words.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp
from scale import peak_memory

from sdem_dist import MultinomialNB, open_corpus, write_corpus
from sdem_dist.cluster import connected
from sdem_dist.engine.events import RoundEnded


def batches(n_documents: int, n_words: int, n_classes: int, length: int = 100) -> Iterator[tuple[Any, np.ndarray]]:
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


def main() -> None:
    """Print a line for each number of blocks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--blocks", default="1,4,16")
    parser.add_argument("--checkpoints", action="store_true")
    o = parser.parse_args()
    path = o.folder / f"wide-{o.documents}-{o.words}-{o.classes}.zarr"
    if not path.exists():
        o.folder.mkdir(parents=True, exist_ok=True)
        write_corpus(path, batches(o.documents, o.words, o.classes))
    corpus = open_corpus(path)
    print(f"mu takes {8 * o.words * o.classes / 2**20:,.0f} MiB")
    for n_blocks in map(int, o.blocks.split(",")):
        seconds: list[float] = []

        def listen(event: Any, seconds: list[float] = seconds) -> None:
            if isinstance(event, RoundEnded) and (event.epoch, event.round) > (0, 0):
                seconds.append(event.seconds)

        with connected(n_workers=2) as client, TemporaryDirectory(dir=o.folder) as kept:
            before = peak_memory()
            model = MultinomialNB(
                n_epochs=2, rounds_per_epoch=2, n_lanes=32, n_blocks=n_blocks, evaluate_every=2, validation_fraction=0.0
            )
            saving = {"checkpoint": kept, "checkpoint_rounds": 1} if o.checkpoints else {}
            model.fit(corpus, client=client, callbacks=[listen], **saving)
            peaks = [p / 2**20 for p in client.run(peak_memory).values()]
        print(
            f"{n_blocks:3d} block(s): {statistics.median(seconds):.2f} s a round, peaks {', '.join(f'{p:,.0f}' for p in peaks)} "
            f"MiB; the driver's {peak_memory() / 2**20:,.0f} from {before / 2**20:,.0f} MiB; "
            f"training accuracy {model.history_[-1]['accuracy']:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
