"""How sdEM converges with naive Bayes: figures 2, 3, 5 and 6 of the sdEM paper (Masegosa 2014), on 20NG and R52.

Naive Bayes trained with NCLL and with the hinge loss, priors P1 (Laplace) and P2 (log), lambda = 1e-5, by the paper's
sequential algorithm (one lane), against plain naive Bayes, logistic regression (liblinear, one against the rest) and
LinearSVC, all on raw counts. Losses and perplexity are those of the training documents. Epoch 0 is
where sdEM begins, the prior's uniform parameters. The paper divides perplexity by the number of documents; here it is
perplexity per word. The paper's third corpus, Cade, is not in our collection.
"""

from __future__ import annotations

import argparse
import itertools
import lzma
import os
import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from sdem_dist import MultinomialNB

PAPER = {"steps": "paper", "weighting": "counts", "n_lanes": 1, "validation_fraction": 0.0, "evaluate_every": 1}
CORPORA = {"20ng": "20 Newsgroups", "r52": "Reuters R52"}
PRIORS = {"P1": "laplace", "P2": "log"}
PANELS = {
    "ncll": "NCLL a training document, nats",
    "hinge": "hinge loss a training document",
    "perplexity": "perplexity per word, training documents",
    "validation_accuracy": "accuracy, test documents",
}
LINES = {"P1": ("#0072B2", "o"), "P2": ("#D55E00", "^")}  # colours of Okabe and Ito
FLAT = {"plain MNB, P1": ("black", "--"), "logistic regression": ("#009E73", "-."), "LinearSVC": ("#CC79A7", ":")}


def read(path: Path, most: int | None) -> tuple[list[str], np.ndarray]:
    """Return texts and labels of `label<TAB>text` lines; with `most` about so many of them, evenly spread."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t", 1) for line in lines]
    rows = rows[:: max(1, len(rows) // most) if most else 1]
    return [text for _, text in rows], np.array([label for label, _ in rows])


def run(folder: Path, name: str, n_epochs: int, most: int | None) -> tuple[dict, dict]:
    """Return histories by (loss, prior), and accuracies and histories of what is compared with."""
    texts, y = read(folder / f"{name}-train-stemmed.derived.txt.xz", most)
    test_texts, y_test = read(folder / f"{name}-test-stemmed.derived.txt.xz", most)
    vectorizer = CountVectorizer(token_pattern=r"\S+", lowercase=False)
    X, X_test = vectorizer.fit_transform(texts), vectorizer.transform(test_texts)
    known = np.isin(y_test, y)  # all of them, unless most of the corpus is left out
    test = X_test[known], y_test[known]
    # sdEM begins with the prior's parameters: every class and every word as probable as the next
    start = {"epoch": 0, "ncll": np.log(len(np.unique(y))), "hinge": 1.0, "perplexity": X.shape[1]}
    histories = {}
    for loss, (prior, alpha) in itertools.product(("ncll", "hinge"), PRIORS.items()):
        model = MultinomialNB(loss=loss, alpha=alpha, n_epochs=n_epochs, **PAPER)
        histories[loss, prior] = [start, *model.fit(X, y, validation=test).history_]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # on raw counts the SVM ends at its limit of iterations
        logistic = OneVsRestClassifier(LogisticRegression(solver="liblinear"), n_jobs=None if most else 2).fit(X, y)
        svm = LinearSVC(random_state=0).fit(X, y)
    flat = {
        "plain MNB, P1": MultinomialNB(loss="nll", evaluate_every=1).fit(X, y, validation=test).history_[-1],
        "logistic regression": {"validation_accuracy": logistic.score(*test)},
        "LinearSVC": {"validation_accuracy": svm.score(*test)},
    }
    return histories, flat


def draw(results: dict, loss: str, path: Path) -> None:
    """Draw a row of panels for each corpus."""
    figure = Figure(figsize=(15, 7), layout="constrained")
    for row, (name, (histories, flat)) in zip(figure.subplots(len(results), 4), results.items(), strict=True):
        for axes, (metric, title) in zip(row, PANELS.items(), strict=True):
            for prior, (colour, marker) in LINES.items():
                points = [(h["epoch"], h[metric]) for h in histories[loss, prior] if metric in h]
                label = f"{'NCLL' if loss == 'ncll' else 'Hinge'}-MNB, {prior} ({PRIORS[prior]})"
                axes.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=4, label=label)
            for label, (colour, style) in FLAT.items():
                if metric in flat[label]:
                    axes.axhline(flat[label][metric], color=colour, linestyle=style, linewidth=1.8, label=label)
            axes.set(xlabel="epoch", ylabel=title, xlim=(-0.05 * points[-1][0], 1.05 * points[-1][0]))
            if metric in ("ncll", "hinge", "perplexity"):
                axes.set_yscale("log")
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axes.yaxis.set_major_formatter("{x:,g}")
                axes.yaxis.set_minor_formatter(NullFormatter())
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.grid(alpha=0.3)
        row[0].set_title(CORPORA[name], loc="left", fontweight="bold")
    figure.legend(*figure.axes[3].get_legend_handles_labels(), loc="outside lower center", ncols=5)
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
    results = {name: run(options.corpora / "cachopo", name, n_epochs, most) for name in CORPORA}
    print(f"after {n_epochs} epochs: test accuracy; NCLL, hinge loss, perplexity of the training documents")
    for name, (histories, flat) in results.items():
        last = {f"{loss} {prior}": history[-1] for (loss, prior), history in histories.items()} | flat
        for label, at in last.items():
            shown = "  ".join(
                f"{at[m]:10.4f}" for m in ("validation_accuracy", "ncll", "hinge", "perplexity") if m in at
            )
            print(f"{name:5s} {label:20s} {shown}")
    for loss in ("ncll", "hinge"):
        draw(results, loss, options.out / f"naive-bayes-{loss}.png")


if __name__ == "__main__":
    main()
