"""Nonnegative features of a corpus that fits no memory: scikit-learn's MiniBatchNMF, a block of documents at a time.

MiniBatchNMF keeps the basis and two sums of its size, whatever the number of documents, and a block of documents is
solved on its own: so passes over blocks of a corpus are all that it needs, and the features are written as a dense
corpus, block by block, for `MultiplicativeMixtureClassifier` to train on, on a Dask cluster or not.

    python examples/nmf_of_a_corpus.py --quick
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import MiniBatchNMF

import sdem_dist as sd


def blocks(corpus: Any, size: int) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield rows and labels of a sparse or dense corpus."""
    classes = np.array(corpus.header.classes)
    for start in range(0, corpus.n_documents, size):
        documents = corpus.read(start, min(start + size, corpus.n_documents))
        rows = documents.values if hasattr(documents, "values") else documents.to_csr().astype(np.float64)
        yield rows, classes[documents.labels]


def learn(corpus: Any, n_features: int, n_passes: int = 3, block: int = 4096) -> MiniBatchNMF:
    """Learn a basis in a few passes over the corpus; its rows have unit length."""
    model = MiniBatchNMF(n_features, batch_size=block, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that one block is not convergence is known
        for _ in range(n_passes):
            for rows, _labels in blocks(corpus, block):
                model.partial_fit(rows)
    model.components_ /= np.maximum(np.linalg.norm(model.components_, axis=1, keepdims=True), 1e-12)
    return model


def write_features(model: MiniBatchNMF, corpus: Any, path: Path, block: int = 4096) -> Any:
    """Write the features of a corpus as a dense corpus, in a stream."""
    stream = ((model.transform(rows), labels) for rows, labels in blocks(corpus, block))
    return sd.write_corpus(path, stream, dense=True, overwrite=True)


def main() -> None:
    """Train on features of a corpus, and on those of held-out documents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer documents")
    parser.add_argument("--out", default="examples-out", help="folder for corpora")
    arguments = parser.parse_args()
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    n = 1_500 if arguments.quick else 20_000
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(300, 0.05), 12)  # each class is about two of four topics at a time
    y = rng.integers(0, 3, n)
    shares = rng.dirichlet(np.full(4, 0.3), n)
    mixed = np.einsum("nk,nkw->nw", shares, topics[4 * y[:, None] + np.arange(4)])
    X = sp.csr_matrix(np.array([rng.multinomial(60, p / p.sum()) for p in mixed]))
    held = n // 5
    corpus = sd.write_corpus(out / "nmf-counts", X[held:], y[held:], overwrite=True)
    test = sd.write_corpus(out / "nmf-counts-test", X[:held], y[:held], overwrite=True)
    model = learn(corpus, 16)
    features = write_features(model, corpus, out / "nmf-features")
    test_features = write_features(model, test, out / "nmf-features-test")
    for m in (1, 4):
        classifier = sd.MultiplicativeMixtureClassifier(m, n_epochs=100, evaluate_every=0).fit(features)
        print(f"{m} components a class: accuracy {classifier.score(test_features):.3f} on held-out documents")


if __name__ == "__main__":
    main()
