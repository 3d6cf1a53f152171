"""Which period is a speech from? sdEM used like any scikit-learn classifier: fit, compare, save, load."""

from __future__ import annotations

import argparse
import csv
import lzma
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from sdem_dist import MultinomialNB, load_model

DATA = Path(__file__).parents[1] / "sdem_dist/data"


def read(part: str) -> tuple[list[str], list[str]]:
    """Return the texts and the labels of a file."""
    with lzma.open(DATA / f"speeches-{part}.csv.xz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["label"] for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="folder for the model")
    parser.add_argument("--quick", action="store_true", help="train for three epochs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    (texts, labels), (test_texts, test_labels) = read("train"), read("test")
    print(f"{len(texts)} passages for training, {len(test_texts)} for testing\n")

    print("loss   test accuracy    NCLL   hinge  perplexity per word")
    for loss in ("nll", "ncll", "hinge"):  # nll is scikit-learn's naive Bayes, the other two are sdEM
        model = MultinomialNB(loss=loss, n_epochs=3 if options.quick and loss != "nll" else "auto")
        pipeline = make_pipeline(CountVectorizer(min_df=2), model).fit(texts, labels)
        scores = model.evaluate(pipeline[:-1].transform(test_texts), test_labels)
        print("{:5s} {accuracy:14.3f} {ncll:7.3f} {hinge:7.3f} {perplexity:18.0f}".format(loss, **scores))

    path = options.out / "speeches.model"
    model.save(path)  # the last model, trained with the hinge loss
    predicted = load_model(path).predict(pipeline[:-1].transform(test_texts))
    same = np.array_equal(predicted, pipeline.predict(test_texts))
    print(f"\n{path} predicts the same after loading: {same}")


if __name__ == "__main__":
    main()
