"""Speed of text: against CountVectorizer, from file to corpus, from file to labels, and two threads against one.

Run: ``SDEM_CORPORA=... python tests/benchmarks/text_speed.py [--repeats 5] [--small]``.  The raw reviews of IMDB's training
part.  In each repeat we and scikit-learn take turns; ratios are medians over repeats, so that a loaded machine harms both.
"Bytes to CSR" goes from a list of str to sorted counts and the list of terms, as ``fit_transform`` does.
"""

from __future__ import annotations

import argparse
import lzma
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from sdem_dist import MultinomialNB, load_model, open_corpus
from sdem_dist.cli.answers import answered, lines_of, predictions_of, transformer_of
from sdem_dist.storage.threads import in_threads
from sdem_dist.text import Reading, VectorizerSettings, count_texts, ingest
from sdem_dist.text.counters import LearningCounter, pieces
from sdem_dist.text.splits import predict_splits
from sdem_dist.text.texts import Texts, texts_of_strings
from sdem_dist.text.validation import RowValidator

ORDERS: dict[str, dict[str, Any]] = {
    "words": {},
    "1,2-grams": {"ngram_range": (1, 2)},
    "char 1,2": {"analyzer": "char", "ngram_range": (1, 2)},
}


def seconds(run: Callable[[], object]) -> float:
    """Return the wall time of a call; what it returns is forgotten before the clock of the next one starts."""
    started = time.perf_counter()
    kept = run()
    taken = time.perf_counter() - started
    del kept
    return taken


def against_count_vectorizer(texts: list[str], options: dict[str, Any], repeats: int) -> tuple[float, float, float]:
    """Return the median seconds of us and of scikit-learn, and the median of their ratios."""
    settings = VectorizerSettings(**options)
    count_texts(texts[:10], settings)  # compiles
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(seconds(lambda: count_texts(texts, settings)))
        theirs.append(seconds(lambda: CountVectorizer(**options).fit_transform(texts)))
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    return statistics.median(ours), statistics.median(theirs), statistics.median(ratios)


def counted_in_threads(texts: Texts, n_jobs: int, options: dict[str, Any]) -> int:
    """Count blocks of texts in threads, each with terms of its own; return the number of entries."""
    size = max(1, texts.n_bytes // 16)
    blocks = [texts.part(first, stop) for first, stop in pieces(texts, size)]

    def worker() -> Callable[[Texts], int]:
        counter = LearningCounter(VectorizerSettings(**options))
        return lambda block: len(counter.count(block, np.ones(len(block), bool)).nodes)

    return sum(in_threads(blocks, worker, n_jobs))


def two_against_one(run: Callable[[int], object], repeats: int) -> float:
    """Return the median, over repeats, of one thread's seconds by those of two."""
    return statistics.median(seconds(lambda: run(1)) / seconds(lambda: run(2)) for _ in range(repeats))


def file_speeds(
    lines: list[str], folder: Path, options: dict[str, Any], n_jobs: int, repeats: int
) -> tuple[float, float]:
    """Return the median MB/s of an ingest of ``label TAB text`` lines, and of predicting the same lines."""
    source, corpus, model = folder / "documents.tsv", folder / "corpus.zarr", folder / "documents.model"
    source.write_text("\n".join(lines), encoding="utf-8")
    megabytes = source.stat().st_size / 1e6

    def ingested() -> None:
        shutil.rmtree(corpus, ignore_errors=True)
        ingest(source, corpus, VectorizerSettings(**options), reading=Reading(label=0, text=1), n_jobs=n_jobs)

    taken = statistics.median(seconds(ingested) for _ in range(repeats))
    MultinomialNB(n_epochs=1).fit(open_corpus(corpus)).save(model)

    def predicted() -> int:
        estimator = load_model(model)
        counter, lines = transformer_of(estimator), lines_of(replace(predictions_of(estimator, model), alone=True))
        splits = predict_splits(source, Reading(text=1), 1 << 14, keep=False)
        records = (block for split in splits for block in split.read(RowValidator()))
        return sum(len(text) for text in answered(records, counter, lines, n_jobs))

    return megabytes / taken, megabytes / statistics.median(seconds(predicted) for _ in range(repeats))


def reviews(n: int | None) -> tuple[list[str], list[str]]:
    """Return the raw texts of IMDB's training part, and ``label TAB text`` lines."""
    with lzma.open(Path(os.environ["SDEM_CORPORA"], "imdb", "imdb-train.tsv.xz"), "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][:n]
    return [row[3] for row in rows], [f"{row[0]}\t{row[3]}" for row in rows]


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="2,000 reviews, two repeats")
    arguments = parser.parse_args()
    repeats = 2 if arguments.small else arguments.repeats
    texts, lines = reviews(2000 if arguments.small else None)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    for name, options in ORDERS.items():
        ours, theirs, ratio = against_count_vectorizer(texts, options, repeats)
        print(
            f"bytes to CSR, {name}: {ours:.3f} s, {megabytes / ours:.0f} MB/s; CountVectorizer {theirs:.2f} s; "
            f"ratio {ratio:.1f}",
            flush=True,
        )
    buffer = texts_of_strings(texts)
    for name, options in ORDERS.items():
        speedup = two_against_one(lambda n_jobs, o=options: counted_in_threads(buffer, n_jobs, o), repeats)
        print(f"counting in two threads against one, {name}: {speedup:.2f}", flush=True)
    for name in ("words", "1,2-grams"):
        for n_jobs in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                written, read = file_speeds(lines, Path(folder), ORDERS[name], n_jobs, repeats)
            print(f"{name}, {n_jobs} thread(s): ingest {written:.0f} MB/s, predict {read:.0f} MB/s", flush=True)


if __name__ == "__main__":
    main()
