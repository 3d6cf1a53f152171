"""From raw text to a model to predictions, words and pairs of words, in one process on one core: us and the neighbours.

Run: ``SDEM_CORPORA=... OMP_NUM_THREADS=1 taskset -c 0 python tests/benchmarks/whole_way.py [--small] [--repeats 3]``.  The
reviews of IMDB, standard split.  Everyone begins with a list of texts; who reads files writes them first, and that time
(cleaning the text for Vowpal Wabbit, too) stands apart.  Nothing is tuned: fastText has the settings that its tutorial ends
with, Vowpal Wabbit three passes.  Medians over repeats, in which all take turns.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

import harness
import numpy as np
from corpora import rows_of
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from sdem_dist import MultinomialNB
from sdem_dist.text import VectorizerSettings


class Split(NamedTuple):
    """Texts with labels 0 and 1, and those to predict."""

    texts: list[str]
    y: np.ndarray
    new_texts: list[str]
    y_new: np.ndarray


def reviews(most: int | None) -> Split:
    """Return the reviews of IMDB in an order of chance; with `most` about so many of each part."""
    parts: list[tuple[list[str], np.ndarray]] = []
    for part in ("train", "test"):
        rows = list(rows_of(f"imdb/imdb-{part}.tsv.xz", 3))
        order = np.random.default_rng(0).permutation(len(rows))[:most]
        parts.append(([rows[i][3] for i in order], np.array([rows[i][0] == "pos" for i in order], int)))
    return Split(*parts[0], *parts[1])


def ours(split: Split, work: Path) -> tuple[np.ndarray, float]:
    model = MultinomialNB(vectorizer=VectorizerSettings(ngram_range=(1, 2)), n_jobs=1)
    return model.fit(split.texts, split.y).predict(split.new_texts), 0.0


def scikit_learn(split: Split, work: Path) -> tuple[np.ndarray, float]:
    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LinearSVC())
    return model.fit(split.texts, split.y).predict(split.new_texts), 0.0


def fasttext(split: Split, work: Path) -> tuple[np.ndarray, float]:
    from fasttext import train_supervised

    started = time.perf_counter()
    path, new_texts = work / "fasttext", [text.replace("\n", " ") for text in split.new_texts]
    lines = (f"__label__{k} {text}".replace("\n", " ") for k, text in zip(split.y, split.texts, strict=True))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    apart = time.perf_counter() - started
    model = train_supervised(str(path), epoch=25, lr=0.5, wordNgrams=2, thread=1, verbose=0)
    return np.array([int(labels[0][-1]) for labels in model.predict(new_texts)[0]]), apart


def vowpal_wabbit(split: Split, work: Path) -> tuple[np.ndarray, float]:
    from vowpalwabbit import Workspace

    started = time.perf_counter()
    train, new = work / "train.vw", work / "new.vw"
    old_words, new_words = (
        [" ".join(re.findall(r"\w\w+", text.lower())) for text in texts] for texts in (split.texts, split.new_texts)
    )
    train.write_text("".join(f"{2 * k - 1} | {text}\n" for k, text in zip(split.y, old_words, strict=True)), "utf-8")
    new.write_text("".join(f"| {text}\n" for text in new_words), encoding="utf-8")
    apart = time.perf_counter() - started
    # The objects run over the files as the command would.
    model, cache = work / "model.vw", work / "cache.vw"
    how = f"--ngram 2 -b 22 --loss_function logistic --passes 3 --cache_file {cache} -k --holdout_off --quiet"
    Workspace(f"-d {train} {how} -f {model}").finish()
    Workspace(f"-d {new} -i {model} -t -p {work / 'scores'} --quiet").finish()
    return (np.loadtxt(work / "scores") > 0).astype(int), apart


CONTENDERS: dict[str, Callable[[Split, Path], tuple[np.ndarray, float]]] = {
    "ours": ours,
    "TfidfVectorizer, LinearSVC": scikit_learn,
}
GUESTS = {"fastText": ("fasttext", fasttext), "Vowpal Wabbit": ("vowpalwabbit", vowpal_wabbit)}
CONTENDERS |= {name: run for name, (package, run) in GUESTS.items() if find_spec(package)}


def compare(small: bool = False, repeats: int = 3) -> None:
    """Print accuracy, seconds, and seconds as a multiple of ours; of some hundred reviews, if small."""
    split = reviews(300 if small else None)
    ours(Split(split.texts[:200], split.y[:200], split.new_texts[:50], split.y_new[:50]), Path())  # compiles
    seconds: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    files: dict[str, float] = {}
    accuracy: dict[str, float] = {}
    for _ in range(repeats):
        for name, run in CONTENDERS.items():
            with tempfile.TemporaryDirectory() as work:
                started = time.perf_counter()
                labels, files[name] = run(split, Path(work))
                seconds[name].append(time.perf_counter() - started - files[name])
                accuracy[name] = float((labels == split.y_new).mean())
    print(f"{'':28}{'accuracy':>9}{'seconds':>9}{'to ours':>9}{'files':>9}")
    for name, times in seconds.items():
        middle, ratio = median(times), median(times) / median(seconds["ours"])
        print(f"{name:28}{accuracy[name]:>9.4f}{middle:>9.2f}{ratio:>9.2f}{files[name]:>9.2f}", flush=True)


if __name__ == "__main__":
    harness.run(__doc__, compare)
