"""LDA classifiers trained by sdEM: figure 9 of the sdEM paper (Masegosa 2014) on R8 and WebKB, and the topics.

Two topics a class, trained with NLL, NCLL and the hinge loss; NCLL, hinge loss and perplexity of the training documents
after each epoch. The second picture holds the topics of NLL-LDA on WebKB: discriminative training gives the
topics of a class little reason to differ, so the generative model is the one to read.
"""

from __future__ import annotations

import argparse
import lzma
import os
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.feature_extraction.text import CountVectorizer

from sdem_dist import LDAClassifier, plots
from sdem_dist.inspection.topics import coherence

CORPORA = {"r8": "Reuters R8", "webkb": "WebKB"}
LOSSES = {"nll": "NLL-LDA", "ncll": "NCLL-LDA", "hinge": "hinge-LDA"}
PANELS = ("ncll", "hinge", "perplexity")


def read(path: Path, most: int | None) -> tuple[list[str], np.ndarray]:
    """Return texts and labels of `label<TAB>text` lines; with `most` about so many of them, evenly spread."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t", 1) for line in lines]
    rows = rows[:: max(1, len(rows) // most) if most else 1]
    return [text for _, text in rows], np.array([label for label, _ in rows])


def fitted(folder: Path, name: str, n_epochs: int, most: int | None) -> tuple[dict, np.ndarray]:
    """Return models by loss, and the test documents' counts."""
    texts, y = read(folder / f"{name}-train-stemmed.txt.xz", most)
    test_texts, y_test = read(folder / f"{name}-test-stemmed.txt.xz", most)
    vectorizer = CountVectorizer(token_pattern=r"\S+", lowercase=False)
    X, X_test = vectorizer.fit_transform(texts), vectorizer.transform(test_texts)
    known = np.isin(y_test, y)
    models = {}
    for loss in LOSSES:
        models[loss] = LDAClassifier(loss=loss, n_epochs=n_epochs).fit(X, y, validation=(X_test[known], y_test[known]))
        models[loss].vocabulary_ = vectorizer.get_feature_names_out().tolist()  # names for `topics`
    return models, X_test


def draw(results: dict, path: Path) -> None:
    """Draw a row of panels for each corpus, a line for each loss."""
    figure = Figure(figsize=(13, 7), layout="constrained")
    for row, (name, models) in zip(figure.subplots(len(results), 3), results.items(), strict=True):
        for axes, metric in zip(row, PANELS, strict=True):
            plots.history({label: models[loss].history_ for loss, label in LOSSES.items()}, metric, axes)
            axes.set_yscale("log")
            axes.get_legend().remove()
        row[0].set_title(f"{CORPORA[name]}: {row[0].get_title()}", fontweight="bold")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, default=os.environ.get("SDEM_CORPORA"), help="folder above cachopo/")
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="folder for the figures")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="some 300 documents, three epochs")
    options = parser.parse_args()
    if options.corpora is None:
        parser.error("name the folder of the corpora with --corpora, or in the environment variable SDEM_CORPORA")
    options.out.mkdir(parents=True, exist_ok=True)
    most, n_epochs = (300, 3) if options.quick else (None, options.epochs)
    results = {}
    for name in CORPORA:
        results[name], X_test = fitted(options.corpora / "cachopo", name, n_epochs, most)
        for loss, model in results[name].items():
            last, npmi = model.history_[-1], coherence(model.components_, X_test).mean()
            shown = "  ".join(f"{m} {last[m]:.4g}" for m in ("validation_accuracy", *PANELS))
            print(f"{name:6s} {LOSSES[loss]:10s} {shown}  coherence of topics {npmi:.3f}")
    draw(results, options.out / "figure-9.png")
    plots.topics(results["webkb"]["nll"].topics()).savefig(options.out / "topics.png", dpi=110)


if __name__ == "__main__":
    main()
