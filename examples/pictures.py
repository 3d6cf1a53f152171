"""Plots for a classifier of speeches: training, confusions, probabilities, and the words of a class."""

from __future__ import annotations

import argparse
import csv
import lzma
from pathlib import Path

from sdem_dist import MultinomialNB, plots
from sdem_dist.reports.top_words import word_weights

DATA = Path(__file__).parents[1] / "sdem_dist/data"


def read(part: str) -> tuple[list[str], list[str]]:
    """Return the texts and the labels of a file."""
    with lzma.open(DATA / f"speeches-{part}.csv.xz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["label"] for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="folder for the pictures")
    parser.add_argument("--quick", action="store_true", help="train for three epochs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    train, test = read("train"), read("test")
    n_epochs = 3 if options.quick else 8
    models = {
        loss: MultinomialNB(loss=loss, n_epochs=n_epochs).fit(*train, validation=test) for loss in ("ncll", "hinge")
    }
    report = models["hinge"].report(*test)
    words = word_weights(models["hinge"], 15)
    period = next(iter(words))
    print(report)

    pictures = {
        "training": plots.history({loss: model.history_ for loss, model in models.items()}),
        "confusions": plots.confusion(report),
        "probabilities": plots.reliability(report),
        "words": plots.words(words[period], title=f"the words of {period}", unit="nats per word"),
    }
    for name, axes in pictures.items():
        axes.figure.savefig(options.out / f"{name}.png", dpi=90)


if __name__ == "__main__":
    main()
