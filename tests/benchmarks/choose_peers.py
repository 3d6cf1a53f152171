"""What peers of the search reach: grids over C of LinearSVC and LogisticRegression, and fastText's autotune.

    SDEM_CORPORA=FOLDER python tests/benchmarks/choose_peers.py FIGURES.json [linearsvc] [logisticregression] [fasttext] NAME...

Grids take minutes: each C is kept in FIGURES.json as soon as it is done, and an interrupted run goes on from there.
A grid's C is chosen by the folds' mean accuracy, as GridSearchCV does, and once more by their mean log-loss.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from corpora import Split, splits_of, texts_of
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

C = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SECONDS = 300
"""Of fastText's autotune."""
Figures = dict[str, float]


class Kept:
    """Figures by name, in a file of JSON; without a file in memory only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.figures: dict[str, Figures] = (
            json.loads(path.read_text("utf-8")) if path is not None and path.exists() else {}
        )

    def put(self, name: str, figures: Figures) -> Figures:
        """Keep figures, and say them."""
        self.figures[name] = figures
        if self._path is not None:
            self._path.write_text(json.dumps(self.figures, indent=1), "utf-8")
            print(f"{name}: " + "  ".join(f"{key} {value:.4f}" for key, value in figures.items()), flush=True)
        return figures


def _pipeline(peer: str, c: float) -> Pipeline:
    model = LinearSVC(C=c) if peer == "LinearSVC" else LogisticRegression(C=c, max_iter=1000)
    return make_pipeline(TfidfTransformer(sublinear_tf=True), model)


def neg_log_loss(model: Pipeline, X: sp.csr_matrix, y: np.ndarray) -> float:
    """Return the mean of ln p(y | d); a class that a fold's training part lacks has the least probability there is."""
    known = {label: k for k, label in enumerate(model.classes_)}
    p = np.clip(model.predict_proba(X), 1e-15, 1.0)
    return float(np.mean([np.log(p[d, known[label]] if label in known else 1e-15) for d, label in enumerate(y)]))


def _refitted(split: Split, peer: str, c: float) -> Figures:
    started = time.process_time()
    model = _pipeline(peer, c).fit(split.X, split.y)
    found = {
        "C": c,
        "seconds": time.process_time() - started,
        "accuracy": float(model.score(split.X_test, split.y_test)),
    }
    if peer != "LinearSVC":
        p = model.predict_proba(split.X_test)
        found["log-loss"] = float(log_loss(split.y_test, p, labels=model.classes_))
    return found


def grid(split: Split, peer: str, kept: Kept, name: str = "", cs: tuple[float, ...] = C, cv: int = 5) -> Figures:
    """Return accuracy and log-loss of test documents, and the CPU seconds of the whole grid with its last fit.

    Parameters
    ----------
    split : Split
        Of counts.
    peer : {"LinearSVC", "LogisticRegression"}
    kept : Kept
        Where each C goes, and where those that are there are taken from.
    name : str
        Of the corpus.
    """
    scores: dict[str, object] = {"accuracy": "accuracy"}
    if peer != "LinearSVC":
        scores["neg_log_loss"] = neg_log_loss
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for c in cs:
            key = f"{name} {peer} C={c:g}"
            if key not in kept.figures:
                started = time.process_time()
                found = cross_validate(_pipeline(peer, c), split.X, split.y, cv=cv, scoring=scores)
                seconds = time.process_time() - started
                kept.put(key, {"seconds": seconds, **{s: float(found[f"test_{s}"].mean()) for s in scores}})
            rows.append(kept.figures[key])
        seconds = sum(row["seconds"] for row in rows)
        chosen = {s: cs[int(np.argmax([row[s] for row in rows]))] for s in scores}
        found = {}
        for score, c in chosen.items():
            key = f"{name} {peer} by {score}, test documents"
            found[score] = kept.figures.get(key) or kept.put(key, _refitted(split, peer, c))
    result = {**found["accuracy"], "seconds": seconds + found["accuracy"]["seconds"]}
    if peer != "LinearSVC":
        by_loss = found["neg_log_loss"]
        result |= {"accuracy by log-loss": by_loss["accuracy"], "log-loss by log-loss": by_loss["log-loss"]}
    return kept.put(f"{name} {peer}", result)


def fasttext(name: str, kept: Kept, seconds: int = SECONDS) -> Figures:
    """Return accuracy and log-loss of fastText after its autotune on a tenth of the training documents, on one thread."""
    from fasttext import train_supervised

    (train, y), (test, y_test) = texts_of(name)
    classes, labels = np.unique(y, return_inverse=True)
    order = np.random.default_rng(0).permutation(len(train))
    lines = [f"__label__{labels[i]} {' '.join(train[i].split())}\n" for i in order]
    tenth = len(lines) // 10
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, "held-out.txt"), Path(folder, "train.txt")]
        for path, part in zip(paths, (lines[:tenth], lines[tenth:]), strict=True):
            path.write_text("".join(part), "utf-8")
        started, wall = time.process_time(), time.perf_counter()
        model = train_supervised(
            str(paths[1]),
            autotuneValidationFile=str(paths[0]),
            autotuneDuration=seconds,
            thread=1,
            verbose=0,
        )
        figures = {"seconds": time.process_time() - started, "wall": time.perf_counter() - wall}
    p = np.full((len(test), len(classes)), 1e-9)
    for d, text in enumerate(test):
        for share, label in model.f.predict(" ".join(text.split()) + "\n", len(classes), 0.0, "strict"):
            p[d, int(label.removeprefix("__label__"))] = max(share, 1e-9)
    p /= p.sum(axis=1, keepdims=True)
    figures["accuracy"] = float(np.mean(classes[p.argmax(axis=1)] == np.asarray(y_test)))
    figures["log-loss"] = float(log_loss(y_test, p, labels=classes))
    return kept.put(f"{name} fastText, autotune", figures)


def main(words: list[str]) -> None:
    peers = {"linearsvc": "LinearSVC", "logisticregression": "LogisticRegression", "fasttext": "fastText"}
    chosen = [peers[word] for word in words[1:] if word in peers] or list(peers.values())
    kept = Kept(Path(words[0]))
    for name in (word for word in words[1:] if word not in peers):
        split = None if chosen == ["fastText"] else splits_of(name)[0]
        for peer in chosen:
            if peer == "fastText":
                fasttext(name, kept)
            else:
                assert split is not None
                grid(split, peer, kept, name)


if __name__ == "__main__":
    main(sys.argv[1:])
