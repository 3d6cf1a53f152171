"""Vowpal Wabbit and fastText with scikit-learn's methods, on counts of words; labels are numbers from 0."""

import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
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


class FastText:
    """As its tutorial ends up (25 epochs, rate .5; as it comes it learns little from these), on one thread."""

    def fit(self, X: sp.csr_matrix, y: np.ndarray) -> None:
        from fasttext import train_supervised

        self.classes_ = np.arange(int(y.max()) + 1)
        order = np.random.default_rng(0).permutation(len(y))  # it takes documents as they stand: by class
        lines = zip(y[order], self._lines(X[order]), strict=True)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "train.txt")
            path.write_text("".join(f"__label__{k} {line}\n" for k, line in lines))
            self.model = train_supervised(str(path), epoch=25, lr=0.5, thread=1, verbose=0)

    def _lines(self, X: sp.csr_matrix) -> list[str]:
        return [" ".join(np.repeat(X.indices[a:b], X.data[a:b]).astype(str)) for a, b in pairwise(X.indptr)]

    def predict_proba(self, X: sp.csr_matrix) -> np.ndarray:
        return probabilities(self.model, self._lines(X), len(self.classes_))


def probabilities(model: Any, lines: list[str], n_classes: int) -> np.ndarray:
    """Return fastText's probabilities of labels that are numbers, shape (n_lines, n_classes)."""
    p = np.full((len(lines), n_classes), 1e-9)
    # Its own predict fails on one string with NumPy 2, and gives all labels of one in a list the first one's share.
    for d, line in enumerate(lines):
        for share, label in model.f.predict(f"{line}\n", n_classes, 0.0, "strict"):
            p[d, int(label.removeprefix("__label__"))] = max(share, 1e-9)
    return p / p.sum(axis=1, keepdims=True)
