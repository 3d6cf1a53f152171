"""Plots for a classifier of docstrings: training, confusions, probabilities, and the words of a class."""

from __future__ import annotations

import argparse
from pathlib import Path

from sklearn.model_selection import train_test_split

from sdem_dist import MultinomialNB, plots
from sdem_dist.reports.top_words import word_weights
from sdem_dist.text import collect_docstrings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="folder for the pictures")
    parser.add_argument("--quick", action="store_true", help="use every fifth docstring")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    texts, labels = (column[:: 5 if options.quick else 1] for column in collect_docstrings())
    texts, test_texts, labels, test_labels = train_test_split(texts, labels, test_size=0.3, random_state=0)
    test = (test_texts, test_labels)
    models = {
        loss: MultinomialNB(loss=loss, n_epochs=8).fit(texts, labels, validation=test) for loss in ("ncll", "hinge")
    }
    report = models["hinge"].report(*test)
    words = word_weights(models["hinge"], 15)
    package = next(iter(words))
    print(report)

    pictures = {
        "training": plots.history({loss: model.history_ for loss, model in models.items()}),
        "confusions": plots.confusion(report),
        "probabilities": plots.reliability(report),
        "words": plots.words(words[package], title=f"the words of {package}", unit="nats per word"),
    }
    for name, axes in pictures.items():
        axes.figure.savefig(options.out / f"{name}.png", dpi=90)


if __name__ == "__main__":
    main()
