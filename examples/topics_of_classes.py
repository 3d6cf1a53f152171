"""LDA classifiers trained by sdEM: figures 4 and 9 of the sdEM paper (Masegosa 2014) on R8 and WebKB, and the topics.

Two topics a class, trained with NLL, NCLL and the hinge loss. Figure 4 has the test accuracy after each epoch, mean and
range over random starts, beside sLDA with 50 topics from three starts (tomotopy's, where it is installed): the solid
line is its mean, the dashed ones its best and worst start. Figure 9 has NCLL, hinge loss and perplexity of the training
documents after each epoch. The last picture holds the topics of NLL-LDA on WebKB: discriminative training gives the
topics of a class little reason to differ, so the generative model is the one to read.
"""

from __future__ import annotations

import argparse
import lzma
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.feature_extraction.text import CountVectorizer

from sdem_dist import LDAClassifier, plots
from sdem_dist.reports.top_words import coherence

CORPORA = {"r8": "Reuters R8", "webkb": "WebKB"}
LOSSES = {"nll": "NLL-LDA", "ncll": "NCLL-LDA", "hinge": "hinge-LDA"}
PANELS = ("ncll", "hinge", "perplexity")
SLDA_STARTS = 3
"""Random starts of sLDA at most: each takes longer than all of ours."""


def read(path: Path, most: int | None) -> tuple[list[str], np.ndarray]:
    """Return texts and labels of `label<TAB>text` lines; with `most` about so many of them, evenly spread."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t", 1) for line in lines]
    rows = rows[:: max(1, len(rows) // most) if most else 1]
    return [text for _, text in rows], np.array([label for label, _ in rows])


def counted(folder: Path, name: str, most: int | None) -> tuple:
    """Return counts and labels of the training and the test documents, and the words."""
    texts, y = read(folder / f"{name}-train-stemmed.txt.xz", most)
    test_texts, y_test = read(folder / f"{name}-test-stemmed.txt.xz", most)
    vectorizer = CountVectorizer(token_pattern=r"\S+", lowercase=False)
    X, X_test = vectorizer.fit_transform(texts), vectorizer.transform(test_texts)
    known = np.isin(y_test, y)
    return X, y, X_test[known], y_test[known], vectorizer.get_feature_names_out().tolist()


def fitted(parts: tuple, loss: str, n_epochs: int, start: int) -> LDAClassifier:
    """Return a model, evaluated on test documents after each epoch; the first start on the training documents, too."""
    X, y, X_test, y_test, words = parts
    model = LDAClassifier(loss=loss, n_epochs=n_epochs, random_state=start, evaluate_every=int(start == 0))
    model.fit(X, y, validation=(X_test, y_test))
    model.vocabulary_ = words  # names for `topics`
    return model


def slda(parts: tuple, start: int, n_topics: int, iterations: int) -> float:
    """Return the test accuracy of tomotopy's supervised LDA, a logistic output for each class."""
    import tomotopy

    X, y, X_test, y_test, _ = parts
    classes = np.unique(y)

    def words(rows: object) -> list[list[str]]:
        return [[str(w) for w, c in zip(r.indices, r.data, strict=True) for _ in range(int(c))] for r in rows]

    model = tomotopy.SLDAModel(k=n_topics, vars="b" * len(classes), seed=start)
    for document, label in zip(words(X), y, strict=True):
        if document:
            model.add_doc(document, y=(classes == label).astype(float).tolist())
    model.train(iterations, workers=1)
    unknown = [float("nan")] * len(classes)
    documents = [model.make_doc(document or ["0"], y=unknown) for document in words(X_test)]
    model.infer(documents, workers=1)
    found = np.array([model.estimate(document) for document in documents])
    return float((classes[found.argmax(axis=1)] == y_test).mean())


def draw_starts(results: dict, peers: dict, path: Path) -> None:
    """Draw figure 4: a panel for each corpus, for each loss the mean over starts, and what lies between them."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    for axes, (name, models) in zip(figure.subplots(1, len(results)), results.items(), strict=True):
        for loss, label in LOSSES.items():
            runs = np.array([[entry["validation_accuracy"] for entry in m.history_] for m in models[loss]])
            epochs = np.arange(1, runs.shape[1] + 1)
            (line,) = axes.plot(epochs, runs.mean(axis=0), label=label)
            axes.fill_between(epochs, runs.min(axis=0), runs.max(axis=0), color=line.get_color(), alpha=0.2)
        for value, style in zip(peers.get(name, ()), ("-", "--", "--"), strict=False):
            axes.axhline(value, color="black", linestyle=style, label="sLDA" if style == "-" else None)
        axes.set(title=CORPORA[name], xlabel="epoch", ylabel="test accuracy")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend()
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def draw(results: dict, path: Path) -> None:
    """Draw a row of panels for each corpus, a line for each loss."""
    figure = Figure(figsize=(13, 7), layout="constrained")
    for row, (name, models) in zip(figure.subplots(len(results), 3), results.items(), strict=True):
        for axes, metric in zip(row, PANELS, strict=True):
            plots.history({label: models[loss][0].history_ for loss, label in LOSSES.items()}, metric, axes)
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
    parser.add_argument("--starts", type=int, default=10, help="random starts of figure 4; the paper has 10")
    parser.add_argument("--iterations", type=int, default=500, help="of Gibbs sampling for sLDA")
    parser.add_argument("--quick", action="store_true", help="some 300 documents, three epochs")
    options = parser.parse_args()
    if options.corpora is None:
        parser.error("name the folder of the corpora with --corpora, or in the environment variable SDEM_CORPORA")
    options.out.mkdir(parents=True, exist_ok=True)
    most, n_epochs, starts = (300, 3, 2) if options.quick else (None, options.epochs, options.starts)
    results: dict = {}
    peers = {}
    for name in CORPORA:
        parts = counted(options.corpora / "cachopo", name, most)
        results[name] = {loss: [fitted(parts, loss, n_epochs, start) for start in range(starts)] for loss in LOSSES}
        for loss, models in results[name].items():
            last, npmi = models[0].history_[-1], coherence(models[0].components_, parts[2]).mean()
            ends = [model.history_[-1]["validation_accuracy"] for model in models]
            shown = "  ".join(f"{m} {last[m]:.4g}" for m in PANELS)
            print(
                f"{name:6s} {LOSSES[loss]:10s} accuracy {np.mean(ends):.4f} ({min(ends):.4f} to {max(ends):.4f})  {shown}  "
                f"coherence of topics {npmi:.3f}",
                flush=True,
            )
        if find_spec("tomotopy") is None:
            print('the lines of sLDA need tomotopy: pip install "sdem_dist[benchmark]"')
            continue
        found = [
            slda(parts, start, *((5, 20) if options.quick else (50, options.iterations)))
            for start in range(min(starts, SLDA_STARTS))
        ]
        peers[name] = np.mean(found), min(found), max(found)
        print("{:6s} sLDA       accuracy {:.4f} ({:.4f} to {:.4f})".format(name, *peers[name]), flush=True)
    draw_starts(results, peers, options.out / "figure-4.png")
    draw(results, options.out / "figure-9.png")
    plots.topics(results["webkb"]["nll"][0].topics()).savefig(options.out / "topics.png", dpi=110)


if __name__ == "__main__":
    main()
