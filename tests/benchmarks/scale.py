"""A million documents from disk: two Dask workers against the in-process kernel on one core, cached and cold.

Run: ``SDEM_CORPORA=... python tests/benchmarks/scale.py --folder FOLDER``.  The corpus is made once in FOLDER: all
reviews of NSMC (three classes: ratings 1-4, 5-8, 9-10), then copies of some with every tenth word dropped at random,
up to a million; character 1- and 2-grams.  Rates are documents a second and core, medians over epochs.
"""

from __future__ import annotations

import argparse
import lzma
import os
import resource
import statistics
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from corpora import folder

from sdem_dist import MultinomialNB, ingest, open_corpus
from sdem_dist.cluster import connected
from sdem_dist.engine.tasks import process_cache
from sdem_dist.estimators.warm_up import warm_up
from sdem_dist.text import VectorizerSettings

DROPPED = 0.1


def reviews() -> Iterator[tuple[str, str]]:
    """Yield (class, text) of every review."""
    with lzma.open(folder() / "nsmc" / "nsmc-raw-ratings.tsv.xz", "rt", encoding="utf-8", newline="\n") as stream:
        for line in stream:
            rating, _, _, text = line.rstrip("\n").split("\t", 3)
            yield (
                ("negative" if int(rating) <= 4 else "neutral" if int(rating) <= 8 else "positive"),
                text.replace("\t", " "),
            )


def write_source(path: Path, n_documents: int) -> int:
    """Write the reviews, then perturbed copies, until there are `n_documents`; return how many are unperturbed."""
    rng = np.random.default_rng(0)
    originals = list(islice(reviews(), n_documents))
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(f"{label}\t{text}\n" for label, text in originals)
        for label, text in islice(cycle(originals), n_documents - len(originals)):
            words = text.split()
            kept = [w for w, keep in zip(words, rng.random(len(words)) >= DROPPED, strict=True) if keep]
            out.write(f"{label}\t{' '.join(kept)}\n")
    return len(originals)


def corpus_in(where: Path, n_documents: int) -> Any:
    """Return the corpus in a folder, made where it is absent."""
    path = where / f"nsmc-{n_documents}.zarr"
    if not path.exists():
        source = where / f"nsmc-{n_documents}.tsv"
        unique = write_source(source, n_documents)
        settings = VectorizerSettings(analyzer="char", ngram_range=(1, 2), min_df=5)
        report = ingest([source], path, settings)
        source.unlink()
        print(
            f"{report.n_documents:,} documents, {unique:,} of them as written and the rest with words dropped; ingested in {report.seconds:.0f} s"
        )
    return open_corpus(path)


def forget_pages(path: Path) -> None:
    """Ask the system to drop a corpus's files from its page cache."""
    for file in path.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def rates(corpus: Any, n_epochs: int, client: Any = None, n_jobs: int = 1) -> list[float]:
    """Return documents a second of each epoch."""
    model = MultinomialNB(n_epochs=n_epochs, evaluate_every=0, n_jobs=n_jobs).fit(corpus, client=client)
    return [corpus.n_documents / h["seconds"] for h in model.history_]


def peak_memory() -> int:
    """Return the peak resident bytes of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Print the rates, their ratios, and peak memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    o = parser.parse_args()
    o.folder.mkdir(parents=True, exist_ok=True)
    corpus = corpus_in(o.folder, o.documents)
    header = corpus.header
    print(
        f"{header.n_documents:,} documents, {header.n_features:,} words, {header.n_nonzeros:,} nonzeros, {len(header.shards)} shards"
    )
    warm_up()
    process_cache.clear()
    inside = statistics.median(rates(corpus, o.epochs)[1:])
    process_cache.clear()
    print(f"in-process, one core, cached: {inside:,.0f} documents/s")
    with connected(n_workers=o.workers) as client:
        client.run(warm_up)
        forget_pages(Path(corpus.path))
        started = time.perf_counter()
        cluster = [r / o.workers for r in rates(corpus, o.epochs, client)]
        total = time.perf_counter() - started
        peaks = [p / 2**20 for p in client.run(peak_memory).values()]
    cached = statistics.median(cluster[1:])
    print(
        f"{o.workers} Dask workers, a core each: cold {cluster[0]:,.0f}, cached {cached:,.0f} documents/s and core; {total:.1f} s in all"
    )
    print(
        f"ratios to in-process: cold {cluster[0] / inside:.2f}, cached {cached / inside:.2f}; speed-up cached {o.workers * cached / inside:.2f}"
    )
    print("peak memory of the workers: " + ", ".join(f"{p:,.0f} MiB" for p in peaks))


if __name__ == "__main__":
    main()
