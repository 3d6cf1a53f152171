"""Vowpal Wabbit and fastText with scikit-learn's methods, on counts of words; labels of the first are numbers from 0."""

import subprocess
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import TfidfTransformer


class VowpalWabbit:
    """Logistic loss on tf-idf, one against all, three passes over shuffled examples."""

    def fit(self, X: sp.csr_matrix, y: np.ndarray) -> None:
        from vowpalwabbit import Workspace

        self.weighting, self.classes_ = TfidfTransformer(sublinear_tf=True).fit(X), np.arange(int(y.max()) + 1)
        options = f"--oaa {len(self.classes_)} --loss_function logistic -b 22 --probabilities --quiet"
        self.model, examples = Workspace(options), list(self._lines(X))
        for seed in range(3):
            for d in np.random.default_rng(seed).permutation(len(y)):
                self.model.learn(f"{y[d] + 1} {examples[d]}")

    def _lines(self, X: sp.csr_matrix) -> Iterator[str]:
        weighted = self.weighting.transform(X)
        for start, stop in pairwise(weighted.indptr):
            words, values = weighted.indices[start:stop], weighted.data[start:stop]
            yield "| " + " ".join(f"{w}:{x:.4f}" for w, x in zip(words, values, strict=True))

    def predict_proba(self, X: sp.csr_matrix) -> np.ndarray:
        return np.array([self.model.predict(line) for line in self._lines(X)])


class FastText(ClassifierMixin, BaseEstimator):
    """The command ``fasttext`` on lines, or on counts, with one thread; as its tutorial ends up: 25 epochs, rate .5."""

    def __init__(self, options: tuple[str, ...] = ("-epoch", "25", "-lr", ".5")) -> None:
        self.options = options

    def fit(self, X: Any, y: np.ndarray) -> "FastText":
        self.classes_, labels = np.unique(y, return_inverse=True)
        self.folder, lines = tempfile.TemporaryDirectory(), self._lines(X)
        self.path = Path(self.folder.name, "train.txt")
        order = np.random.default_rng(0).permutation(len(lines))  # it takes documents as they stand: by class
        self.path.write_text("".join(f"__label__{labels[i]} {lines[i]}" for i in order), "utf-8")
        self._said("supervised", "-input", self.path, "-output", self.path.with_suffix(""), "-thread", 1, *self.options)
        return self

    def _said(self, *arguments: object, text: str = "") -> str:
        command = ["fasttext", *map(str, arguments)]
        return subprocess.run(command, input=text, encoding="utf-8", capture_output=True, check=True).stdout

    def _lines(self, X: Any) -> list[str]:
        if sp.issparse(X):
            X = [" ".join(np.repeat(X.indices[a:b], X.data[a:b]).astype(str)) for a, b in pairwise(X.indptr)]
        return [" ".join(text.split()) + "\n" for text in X]

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        lines, n_classes = self._lines(X), len(self.classes_)
        p = np.full((len(lines), n_classes), 1e-9)
        answers = self._said("predict-prob", self.path.with_suffix(".bin"), "-", n_classes, text="".join(lines))
        for d, answer in enumerate(answers.splitlines()):
            words = answer.replace("__label__", "").split()
            p[d, np.array(words[::2], int)] = np.maximum(np.array(words[1::2], float), 1e-9)
        return p / p.sum(axis=1, keepdims=True)
