"""Speed of text: against CountVectorizer, from file to corpus, from file to labels, and two threads against one.

Run: ``SDEM_CORPORA=... python tests/benchmarks/text_speed.py [--repeats 5] [--small]``.  The raw reviews of IMDB's training
part.  In each repeat we and scikit-learn take turns; ratios are medians over repeats, so that a loaded machine harms both.
"Bytes to CSR" goes from a list of str to sorted counts and the list of terms, as ``fit_transform`` does.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from statistics import median
from typing import Any

import harness
import numpy as np
from corpora import rows_of
from harness import seconds
from sklearn.feature_extraction.text import CountVectorizer

from sdem_dist import MultinomialNB, load_model, open_corpus
from sdem_dist.cli.answers import predictions_of
from sdem_dist.cli.streaming import answered, transformer_of
from sdem_dist.storage.threads import in_threads
from sdem_dist.text import Reading, VectorizerSettings, count_texts, ingest
from sdem_dist.text.counters import LearningCounter
from sdem_dist.text.splits import predict_splits
from sdem_dist.text.texts import Texts, pieces, texts_of_strings
from sdem_dist.text.validation import RowValidator

ORDERS: dict[str, dict[str, Any]] = {
    "words": {},
    "1,2-grams": {"ngram_range": (1, 2)},
    "char 1,2": {"analyzer": "char", "ngram_range": (1, 2)},
}


def against_count_vectorizer(texts: list[str], options: dict[str, Any], repeats: int) -> tuple[float, float, float]:
    """Return the median seconds of us and of scikit-learn, and the median of their ratios."""
    settings = VectorizerSettings(**options)
    count_texts(texts[:10], settings)  # compiles
    calls = {
        "ours": lambda: count_texts(texts, settings),
        "theirs": lambda: CountVectorizer(**options).fit_transform(texts),
    }
    ours, theirs = harness.in_turns(calls, repeats).values()
    return median(ours), median(theirs), harness.median_ratio(theirs, ours)


def counted_in_threads(texts: Texts, n_jobs: int, options: dict[str, Any]) -> int:
    """Count blocks of texts in threads, each with terms of its own; return the number of entries."""
    size = max(1, texts.n_bytes // 16)
    blocks = [texts.take(slice(first, stop)) for first, stop in pieces(texts.sizes, size)]

    def worker() -> Callable[[Texts], int]:
        counter = LearningCounter(VectorizerSettings(**options))
        return lambda block: sum(len(part.nodes) for part in counter.parts(block, np.ones(len(block), bool)))

    return sum(in_threads(blocks, worker, n_jobs))


def two_against_one(run: Callable[[int], object], repeats: int) -> float:
    """Return the median, over repeats, of one thread's seconds by those of two."""
    return median(seconds(lambda: run(1)) / seconds(lambda: run(2)) for _ in range(repeats))


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

    ingest_seconds = median(seconds(ingested) for _ in range(repeats))
    MultinomialNB(n_epochs=1).fit(open_corpus(corpus)).save(model)

    def predicted() -> int:
        estimator = load_model(model)
        counter, answers = transformer_of(estimator), replace(predictions_of(estimator, model), best_only=True)
        splits = predict_splits(source, Reading(text=1), 1 << 14, keep=False)
        texts = answered(splits, counter, lambda documents, *_: answers.lines(documents), RowValidator(), n_jobs)
        return sum(map(len, texts))

    return megabytes / ingest_seconds, megabytes / median(seconds(predicted) for _ in range(repeats))


def reviews(n: int | None) -> tuple[list[str], list[str]]:
    """Return the raw texts of IMDB's training part, and ``label TAB text`` lines."""
    rows = list(islice(rows_of("imdb/imdb-train.tsv.xz"), n))
    return [row[3] for row in rows], [f"{row[0]}\t{row[3]}" for row in rows]


def compare(repeats: int = 5, small: bool = False) -> None:
    """Print the lines; of 2,000 reviews and two repeats, if small."""
    repeats = 2 if small else repeats
    texts, lines = reviews(2000 if small else None)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    for name, options in ORDERS.items():
        ours, theirs, ratio = against_count_vectorizer(texts, options, repeats)
        rate = f"{ours:.3f} s, {megabytes / ours:.0f} MB/s"
        print(f"bytes to CSR, {name}: {rate}; CountVectorizer {theirs:.2f} s; ratio {ratio:.1f}", flush=True)
    buffer = texts_of_strings(texts)
    for name, options in ORDERS.items():
        speedup = two_against_one(lambda n_jobs, o=options: counted_in_threads(buffer, n_jobs, o), repeats)
        print(f"counting in two threads against one, {name}: {speedup:.2f}", flush=True)
    for name, n_jobs in product(("words", "1,2-grams"), (1, 2)):
        with tempfile.TemporaryDirectory() as folder:
            written, read = file_speeds(lines, Path(folder), ORDERS[name], n_jobs, repeats)
        print(f"{name}, {n_jobs} thread(s): ingest {written:.0f} MB/s, predict {read:.0f} MB/s", flush=True)


if __name__ == "__main__":
    harness.run(__doc__, compare)
