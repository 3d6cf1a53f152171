"""Speed of text: against CountVectorizer, from file to corpus and to labels, on workers.

Run: ``SDEM_CORPORA=... OMP_NUM_THREADS=1 python tests/benchmarks/text_speed.py [compare|workers] [--repeats 5]``. In each
repeat all take turns; ratios are medians over repeats, so that a loaded machine harms all.

compare: the raw reviews of IMDB's training part (2,000 with ``--small``); "bytes to CSR" goes from a list of str to sorted counts
and the list of terms, as ``fit_transform`` does; ingest, predictions, and two threads against one;
workers: ingest and predictions of NSMC's reviews (all 712,383 unless told), character n-grams of 1 and 2, by two workers of one
thread against one and against this process, files on a local disk. Every cluster has done a small ingest before.
"""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
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

from sdem_dist import MultinomialNB, ingest, load_model, open_corpus
from sdem_dist.cli import main as sdem
from sdem_dist.cli.predict import formatter_of
from sdem_dist.cli.streaming import predictions, transformer_of
from sdem_dist.cluster import connected
from sdem_dist.storage.threads import in_threads
from sdem_dist.text import Reading, VectorizerSettings, count_texts
from sdem_dist.text.splits import predict_splits
from sdem_dist.text.texts import Texts, pieces, texts_of_strings
from sdem_dist.text.tokens import NgramCounter
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
        counter = NgramCounter(VectorizerSettings(**options))
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
        counter, answers = transformer_of(estimator), replace(formatter_of(estimator, model), best_only=True)
        splits = predict_splits(source, Reading(text=1), 1 << 14, keep=False)
        texts = predictions(splits, counter, lambda documents, *_: answers.lines(documents), RowValidator(), n_jobs)
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


CHARACTERS = VectorizerSettings(analyzer="char", ngram_range=(1, 2))
READING = Reading(label=0, text=1)


def write_reviews(path: Path, n: int | None) -> int:
    """Write lines of stars TAB text; return how many."""
    rows = [(row[0], row[3]) for row in rows_of("nsmc/nsmc-raw-ratings.tsv.xz") if row[3].strip()][:n]
    path.write_text("".join(f"{stars}\t{text}\n" for stars, text in rows), encoding="utf-8")
    return len(rows)


def ingested(source: Path, target: Path, settings: VectorizerSettings, **where: Any) -> float:
    shutil.rmtree(target, ignore_errors=True)
    return seconds(lambda: ingest(source, target, settings, reading=READING, **where))


def predicted(model: Path, source: Path, target: Path, *where: str) -> float:
    target.unlink(missing_ok=True)
    command = ["predict", str(model), str(source), "--text", "1", "-o", str(target), *where]
    return seconds(lambda: sdem(command, standalone_mode=False))


def workers(documents: int | None = None, repeats: int = 3) -> None:
    with ExitStack() as ends:
        where = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        source, small, model = where / "s.tsv", where / "small.tsv", where / "model"
        n = write_reviews(source, documents)
        write_reviews(small, 2000)
        clients = {f"{k} worker(s)": ends.enter_context(connected(n_workers=k)) for k in (1, 2)}
        for client in clients.values():
            ingested(small, where / "c", CHARACTERS, client=client)
        ingested(small, where / "c", CHARACTERS, n_jobs=1)
        MultinomialNB(n_epochs=1, verbose=False).fit(open_corpus(where / "c")).save(model)
        places: dict[str, Any] = {"this process": ({"n_jobs": 1}, ["--jobs", "1"])}
        for name, client in clients.items():
            places[name] = {"client": client}, ["--scheduler", client.scheduler.address]
        times: dict[str, dict[str, list[float]]] = {"ingest": {}, "predict": {}}
        for _ in range(repeats):
            for name, (options, _) in places.items():
                times["ingest"].setdefault(name, []).append(ingested(source, where / "c", CHARACTERS, **options))
            for name, (_, words) in places.items():
                times["predict"].setdefault(name, []).append(predicted(model, source, where / "t.parquet", *words))
    for work, by_place in times.items():
        print(f"{work}, {n:,} documents: {', '.join(f'{k} {median(v):.1f} s' for k, v in by_place.items())}")
        here, one, two = by_place.values()
        print(
            f"  two workers against one {harness.median_ratio(one, two):.2f}, against one thread of this process "
            f"{harness.median_ratio(here, two):.2f}; rate of one worker by that of the thread "
            f"{harness.median_ratio(here, one):.2f}"
        )


if __name__ == "__main__":
    harness.run(__doc__, compare, workers)
