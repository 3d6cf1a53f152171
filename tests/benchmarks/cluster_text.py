"""Text on workers: ingest and predictions of reviews by two workers against one and against this process, and memory.

Run: ``SDEM_CORPORA=... python tests/benchmarks/cluster_text.py [--documents N] [--repeats 3]``.  The reviews of NSMC (all
712,383 unless told), character n-grams of 1 and 2, workers of one thread, files on a local disk.  In each repeat all take
turns, and ratios are medians over the repeats.  Every cluster has done a small ingest before.

``--memory``: the peak memory of the driver, whose process holds the scheduler, and of two workers, with 1, 4 and 16 times the
documents; copies of reviews lack a tenth of the words.  ``--grams N``: the same once for word n-grams of 1 to N of IMDB's
25,000 training reviews, of which those in two documents or more are kept.  Each ingest has a driver of its own.
"""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import harness
import numpy as np
from corpora import rows_of
from harness import seconds
from scale import peak_memory
from text_speed import reviews

from sdem_dist import MultinomialNB, ingest, open_corpus
from sdem_dist.cli import main as sdem
from sdem_dist.cluster import connected
from sdem_dist.text import Reading, VectorizerSettings

CHARACTERS = VectorizerSettings(analyzer="char", ngram_range=(1, 2))
READING = Reading(label=0, text=1)


def write_reviews(path: Path, n: int | None, times: int = 1) -> int:
    """Write lines of stars TAB text, the copies after the first without a tenth of their words; return how many."""
    rows = [(row[0], row[3]) for row in rows_of("nsmc/nsmc-raw-ratings.tsv.xz") if row[3].strip()][:n]
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as written:
        for copy in range(times):
            for stars, text in rows:
                words = text.split(" ")
                others = [word for word, drawn in zip(words, rng.random(len(words)), strict=True) if drawn > 0.1]
                written.write(f"{stars}\t{' '.join(others) if copy and others else text}\n")
    return times * len(rows)


def ingested(source: Path, target: Path, settings: VectorizerSettings, **where: Any) -> float:
    """Return the seconds of an ingest."""
    shutil.rmtree(target, ignore_errors=True)
    return seconds(lambda: ingest(source, target, settings, reading=READING, **where))


def predicted(model: Path, source: Path, target: Path, *where: str) -> float:
    """Return the seconds of ``sdem predict`` to Parquet."""
    target.unlink(missing_ok=True)
    command = ["predict", str(model), str(source), "--text", "1", "-o", str(target), *where]
    return seconds(lambda: sdem(command, standalone_mode=False))


def compare(where: Path, n: int | None, repeats: int) -> None:
    """Print the seconds and the ratios."""
    source, small, model = where / "s.tsv", where / "small.tsv", where / "model"
    documents = write_reviews(source, n)
    write_reviews(small, 2000)
    with ExitStack() as ends:
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
        print(f"{work}, {documents:,} documents: {', '.join(f'{k} {median(v):.1f} s' for k, v in by_place.items())}")
        here, one, two = by_place.values()
        print(
            f"  two workers against one {harness.median_ratio(one, two):.2f}, against one thread of this process "
            f"{harness.median_ratio(here, two):.2f}; rate of one worker by that of the thread "
            f"{harness.median_ratio(here, one):.2f}"
        )


def _peaks(source: Path, target: Path, settings: VectorizerSettings) -> tuple[float, int, int]:
    with connected(n_workers=2) as client:
        duration = ingested(source, target, settings, client=client)
        return duration, peak_memory(), max(client.run(peak_memory).values())


def measured(source: Path, target: Path, settings: VectorizerSettings) -> str:
    """Ingest in a new process by two workers; return what it took, for a line."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        duration, driver, worker = process.submit(_peaks, source, target, settings).result()
    terms = open_corpus(target).header.n_features
    return f"{terms:,} terms kept, driver {driver >> 20:,} MiB, worker {worker >> 20:,} MiB, {duration:.0f} s"


def text(documents: int | None = None, repeats: int = 3, memory: bool = False, grams: int | None = None) -> None:
    """Print the lines."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        source, corpus = where / "s.tsv", where / "c"
        if grams:
            source.write_text("\n".join(reviews(documents)[1]), encoding="utf-8")
            settings = VectorizerSettings(ngram_range=(1, grams), min_df=2)
            print(f"IMDB, 1 to {grams}-grams: {measured(source, corpus, settings)}", flush=True)
        elif memory:
            for times in (1, 4, 16):
                n = write_reviews(source, documents, times)
                print(f"{times:2d}x, {n:,} documents: {measured(source, corpus, CHARACTERS)}", flush=True)
        else:
            compare(where, documents, repeats)


if __name__ == "__main__":
    harness.run(__doc__, text)
