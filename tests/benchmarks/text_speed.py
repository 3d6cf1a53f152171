"""Speed of text: against CountVectorizer, from file to corpus and to labels, from raw text to predictions, on workers.

Run: ``SDEM_CORPORA=... OMP_NUM_THREADS=1 python tests/benchmarks/text_speed.py [compare|whole|workers] [--repeats 5]``. In each
repeat all take turns; ratios are medians over repeats, so that a loaded machine harms all.

compare: the raw reviews of IMDB's training part (2,000 with ``--small``); "bytes to CSR" goes from a list of str to sorted counts
and the list of terms, as ``fit_transform`` does; ingest and predictions by one thread and by two;
whole: words and pairs of words of IMDB, standard split, in one process on one core (``taskset -c 0``): us and the neighbours.
Everyone begins with a list of texts, which fastText writes into a file. Nothing is tuned: fastText has the settings that its
tutorial ends with;
workers: ingest and predictions of NSMC's reviews (all 712,383 unless told), character n-grams of 1 and 2, by two workers of one
thread against one and against this process, files on a local disk. Every cluster has done a small ingest before. With
``--memory`` the peak memory of the driver, whose process holds the scheduler, and of two workers, with 1, 4 and 16 times the
documents; copies of reviews lack a tenth of the words. ``--grams N``: the same once for word n-grams of 1 to N of IMDB's 25,000
training reviews, of which those in two documents or more are kept. Each ingest has a driver of its own.
"""

import multiprocessing
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import islice, product
from pathlib import Path
from shutil import which
from statistics import median
from typing import Any

import harness
import numpy as np
from corpora import Split, rows_of
from guests import FastText
from harness import seconds
from scale import peak_memory
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from sdem_dist import MultinomialNB, ingest, open_corpus
from sdem_dist.cli import main as sdem
from sdem_dist.cluster import connected
from sdem_dist.text import Reading, VectorizerSettings, count_texts
from sdem_dist.text.patterns import expression_of

PAIRS, OF_CHARACTERS = {"ngram_range": (1, 2)}, {"analyzer": "char", "ngram_range": (1, 2)}
ORDERS: dict[str, dict[str, Any]] = {"words": {}, "1,2-grams": PAIRS, "char 1,2": OF_CHARACTERS}
CHARACTERS = VectorizerSettings(**OF_CHARACTERS)


def ingested(source: Path, target: Path, settings: VectorizerSettings, **where: Any) -> float:
    shutil.rmtree(target, ignore_errors=True)
    return seconds(lambda: ingest(source, target, settings, reading=Reading(label=0, text=1), **where))


def predicted(model: Path, source: Path, target: Path, *where: str) -> float:
    target.unlink(missing_ok=True)
    command = ["predict", str(model), str(source), "--text", "1", "-o", str(target), *where]
    return seconds(lambda: sdem(command, standalone_mode=False))


def reviews(n: int | None) -> tuple[list[str], list[str]]:
    rows = list(islice(rows_of("imdb/imdb-train.tsv.xz"), n))
    return [row[3] for row in rows], [f"{row[0]}\t{row[3]}" for row in rows]


def compare(repeats: int = 5, small: bool = False) -> None:
    repeats = 2 if small else repeats
    texts, lines = reviews(2000 if small else None)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    for name, options in ORDERS.items():
        settings = VectorizerSettings(**options)
        ours, pattern = partial(count_texts, settings=settings), expression_of(settings.token_pattern)
        theirs = CountVectorizer(**{**options, "token_pattern": pattern})
        ours(texts[:10])  # compiles
        calls = {"ours": lambda ours=ours: ours(texts), "theirs": lambda theirs=theirs: theirs.fit_transform(texts)}
        a, b = harness.in_turns(calls, repeats).values()
        rate = f"{median(a):.3f} s, {megabytes / median(a):.0f} MB/s; CountVectorizer {median(b):.2f} s"
        print(f"bytes to CSR, {name}: {rate}; ratio {harness.median_ratio(b, a):.1f}", flush=True)
    for name, n_jobs in product(("words", "1,2-grams"), (1, 2)):
        with tempfile.TemporaryDirectory() as folder:
            source, corpus, model, answers = (Path(folder, each) for each in ("s.tsv", "c", "m", "a.tsv"))
            source.write_text("\n".join(lines), encoding="utf-8")
            settings, size = VectorizerSettings(**ORDERS[name]), source.stat().st_size / 1e6
            write = median(ingested(source, corpus, settings, n_jobs=n_jobs) for _ in range(repeats))
            MultinomialNB(n_epochs=1).fit(open_corpus(corpus)).save(model)
            read = median(predicted(model, source, answers, "--jobs", str(n_jobs)) for _ in range(repeats))
        print(f"{name}, {n_jobs} thread(s): ingest {size / write:.0f} MB/s, predict {size / read:.0f} MB/s", flush=True)


def split_of_reviews(most: int | None) -> Split:
    """Return the reviews of IMDB in an order of chance; with `most` about so many of each part."""
    parts: list[tuple[list[str], np.ndarray]] = []
    for part in ("train", "test"):
        rows = list(rows_of(f"imdb/imdb-{part}.tsv.xz", 3))
        order = np.random.default_rng(0).permutation(len(rows))[:most]
        parts.append(([rows[i][3] for i in order], np.array([rows[i][0] == "pos" for i in order], int)))
    return Split(*parts[0], *parts[1])


FASTTEXT = ("-epoch", "25", "-lr", ".5", "-wordNgrams", "2")
PAIRS_OF_WORDS = VectorizerSettings(ngram_range=(1, 2))
CONTENDERS: dict[str, Callable[[], Any]] = {
    "ours": lambda: MultinomialNB(vectorizer=PAIRS_OF_WORDS, n_jobs=1),
    "TfidfVectorizer, LinearSVC": lambda: make_pipeline(TfidfVectorizer(**PAIRS, sublinear_tf=True), LinearSVC()),
    **({"fastText": lambda: FastText(FASTTEXT)} if which("fasttext") else {}),
}


def whole(small: bool = False, repeats: int = 3) -> None:
    """Print accuracy, seconds, and seconds as a multiple of ours; of some hundred reviews, if small."""
    split = split_of_reviews(300 if small else None)
    CONTENDERS["ours"]().fit(split.X[:200], split.y[:200]).predict(split.X_test[:50])  # compiles
    accuracy: dict[str, float] = {}

    def run(name: str) -> None:
        labels = CONTENDERS[name]().fit(split.X, split.y).predict(split.X_test)
        accuracy[name] = float((labels == split.y_test).mean())

    times = harness.in_turns({name: partial(run, name) for name in CONTENDERS}, repeats)
    print(f"{'':28}{'accuracy':>9}{'seconds':>9}{'to ours':>9}")
    for name, of_one in times.items():
        ratio = median(of_one) / median(times["ours"])
        print(f"{name:28}{accuracy[name]:>9.4f}{median(of_one):>9.2f}{ratio:>9.2f}", flush=True)


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


def by_workers(where: Path, n: int | None, repeats: int) -> None:
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
        return ingested(source, target, settings, client=client), peak_memory(), max(client.run(peak_memory).values())


def measured(source: Path, target: Path, settings: VectorizerSettings) -> str:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        duration, driver, worker = process.submit(_peaks, source, target, settings).result()
    terms = open_corpus(target).header.n_features
    return f"{terms:,} terms kept, driver {driver >> 20:,} MiB, worker {worker >> 20:,} MiB, {duration:.0f} s"


def workers(documents: int | None = None, repeats: int = 3, memory: bool = False, grams: int | None = None) -> None:
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
            by_workers(where, documents, repeats)


if __name__ == "__main__":
    harness.run(__doc__, compare, whole, workers)
