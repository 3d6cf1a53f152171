"""sdEM against stochastic gradient descent on IMDB: figures 7 and 8 of the sdEM paper (Masegosa 2014).

Test accuracy by epoch, on raw counts of all words. Naive Bayes is trained by sdEM: one lane, priors P1, P2, the paper's
rho = 1 / (1 + lambda t) with lambda = 1e-5. A linear classifier is trained by Bottou's SGD: L2 weight 1e-4,
rho = lambda / (1 + lambda 1e-4 t), five values of lambda. Reviews are those of Maas et al.
(2011) in their split of 25,000 and 25,000; the paper splits 47,000 and 3,000.
The paper's other corpus, Amazon12, is not in our collection.

SGD is scikit-learn's: its "optimal" schedule is 1 / (alpha (t0 + t - 1)), with a t0 of its own that is 1000 for
alpha = 1e-4, which is Bottou's with lambda = 10. Starting the counter `t_` later gives every smaller lambda exactly.
Unlike Bottou's, scikit-learn's intercept learns a hundredth as fast where documents are sparse.
"""

from __future__ import annotations

import argparse
import lzma
import os
import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC

from sdem_dist import MultinomialNB

L2, T0 = 1e-4, 1000  # T0: scikit-learn's t0 for this L2, whether with the logistic or the hinge loss
RATES = {"SGD": (1e-1, 1e-2, 1e-3, 1e-4, 1e-5), "P1": (1e-5,), "P2": (1e-5,)}
PAPER = {"steps": "paper", "weighting": "counts", "n_lanes": 1, "validation_fraction": 0.0, "evaluate_every": 1}
TITLES = {"SGD": "SGD", "P1": "sdEM, prior P1 (Laplace)", "P2": "sdEM, prior P2 (log)"}
ALPHAS = {"P1": "laplace", "P2": "log"}
STYLES = {1e-1: ("#E69F00", "s"), 1e-2: ("#56B4E9", "v"), 1e-3: ("#009E73", "o")}  # colours of Okabe and Ito
STYLES |= {1e-4: ("#0072B2", "^"), 1e-5: ("#CC79A7", "D"), 1e-6: ("#D55E00", "X")}


def read(path: Path, most: int | None) -> tuple[list[str], np.ndarray]:
    """Return texts and labels of `label<TAB>stars<TAB>id<TAB>text` lines; with `most` about so many, evenly spread."""
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        rows = [line.rstrip("\n").split("\t", 3) for line in lines]
    rows = rows[:: max(1, len(rows) // most) if most else 1]
    return [row[3] for row in rows], np.array([row[0] for row in rows])


def bottou(loss: str, rate: float) -> SGDClassifier:
    """Return scikit-learn's SGD with Bottou's schedule, to be trained by `partial_fit`."""
    model = SGDClassifier(loss=loss, alpha=L2, learning_rate="optimal", random_state=np.random.RandomState(0))
    model.t_ = 1 + 1 / (rate * L2) - T0
    return model


def sgd(loss: str, rate: float, n_epochs: int, train: tuple, test: tuple) -> list[float]:
    """Return the test accuracy after each epoch of SGD."""
    model, classes = bottou(loss, rate), np.unique(train[1])
    return [model.partial_fit(*train, classes=classes).score(*test) for _ in range(n_epochs)]


def sdem(loss: str, alpha: str, n_epochs: int, train: tuple, test: tuple) -> list[dict]:
    """Return the history of sdEM's sequential algorithm."""
    model = MultinomialNB(loss=loss, alpha=alpha, n_epochs=n_epochs, **PAPER)
    return model.fit(*train, validation=test).history_


def draw(curves: dict, linear: tuple[str, float], plain: dict[str, float], loss: str, path: Path) -> None:
    """Draw a panel each for SGD, P1 and P2."""
    figure = Figure(figsize=(15, 5), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    for axes, (method, rates) in zip(panels, RATES.items(), strict=True):
        for rate in rates:
            accuracy, (colour, marker) = curves[method, rate], STYLES[rate]
            epochs = range(1, len(accuracy) + 1)
            axes.plot(epochs, accuracy, color=colour, marker=marker, markersize=4, label=f"λ = {rate:g}")
        axes.axhline(linear[1], color="black", linewidth=1.2, label=f"{linear[0]} ({linear[1]:.3f})")
        prior = "P1" if method == "SGD" else method
        label = f"plain MNB, {prior} ({plain[prior]:.3f})"
        axes.axhline(plain[prior], color="black", linestyle="--", linewidth=1.2, label=label)
        axes.set(title=f"{'NCLL' if loss == 'ncll' else 'Hinge'}: {TITLES[method]}", xlabel="epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3)
    panels[0].set_ylabel("accuracy, IMDB test split")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, default=os.environ.get("SDEM_CORPORA"), help="folder above imdb/")
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="folder for the figures")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="some 300 reviews, three epochs")
    options = parser.parse_args()
    if options.corpora is None:
        parser.error("name the folder of the corpora with --corpora, or in the environment variable SDEM_CORPORA")
    options.out.mkdir(parents=True, exist_ok=True)
    most, n_epochs = (300, 3) if options.quick else (None, options.epochs)
    texts, y = read(options.corpora / "imdb" / "imdb-train.tsv.xz", most)
    test_texts, y_test = read(options.corpora / "imdb" / "imdb-test.tsv.xz", most)
    vectorizer = CountVectorizer()
    train, test = (vectorizer.fit_transform(texts), y), (vectorizer.transform(test_texts), y_test)
    plain = {p: MultinomialNB(loss="nll", alpha=alpha).fit(*train).score(*test) for p, alpha in ALPHAS.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # on raw counts the SVM ends at its limit of iterations
        linear = {"ncll": LogisticRegression(max_iter=1000), "hinge": LinearSVC(random_state=0)}
        scores = {loss: model.fit(*train).score(*test) for loss, model in linear.items()}
    print(f"plain MNB: P1 {plain['P1']:.4f}, P2 {plain['P2']:.4f}")
    for loss, sgd_loss, name in (("ncll", "log_loss", "logistic regression"), ("hinge", "hinge", "LinearSVC")):
        print(f"{loss}: {name} {scores[loss]:.4f}; after {n_epochs} epochs:")
        curves = {("SGD", rate): sgd(sgd_loss, rate, n_epochs, train, test) for rate in RATES["SGD"]}
        training = {}
        for prior, alpha in ALPHAS.items():
            for rate in RATES[prior]:
                history = sdem(loss, alpha, n_epochs, train, test)
                curves[prior, rate] = [h["validation_accuracy"] for h in history]
                losses = "  ".join(f"{m} {history[-1][m]:.4f}" for m in ("ncll", "hinge", "perplexity"))
                training[prior, rate] = f"  training: {losses}"
        for (method, rate), accuracy in curves.items():
            shown = f"accuracy {accuracy[-1]:.4f}, best {max(accuracy):.4f}"
            print(f"  {method:3s} lambda {rate:<6g} {shown}{training.get((method, rate), '')}")
        draw(curves, (name, scores[loss]), plain, loss, options.out / f"against-sgd-{loss}.png")


if __name__ == "__main__":
    main()
