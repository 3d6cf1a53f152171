"""Which period is a speech from? sdEM used like any scikit-learn classifier: fit, compare, save, load."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from sdem_dist import MultinomialNB, load_model

DATA = Path(__file__).parents[1] / "sdem_dist/data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="folder for the model")
    parser.add_argument("--quick", action="store_true", help="train for three epochs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    train, test = (pd.read_csv(DATA / f"speeches-{part}.csv.xz") for part in ("train", "test"))
    print(f"{len(train)} passages for training, {len(test)} for testing\n")

    print("loss   test accuracy    NCLL   hinge  perplexity per word")
    for loss in ("nll", "ncll", "hinge"):  # nll is scikit-learn's naive Bayes, the other two are sdEM
        model = MultinomialNB(loss=loss, n_epochs=3 if options.quick and loss != "nll" else "auto")
        pipeline = make_pipeline(CountVectorizer(min_df=2), model).fit(train["text"], train["label"])
        scores = model.evaluate(pipeline[:-1].transform(test["text"]), test["label"])
        print("{:5s} {accuracy:14.3f} {ncll:7.3f} {hinge:7.3f} {perplexity:18.0f}".format(loss, **scores))

    path = options.out / "speeches.model"
    model.save(path)  # the last model, trained with the hinge loss
    predicted = load_model(path).predict(pipeline[:-1].transform(test["text"]))
    same = np.array_equal(predicted, pipeline.predict(test["text"]))
    print(f"\n{path} predicts the same after loading: {same}")


if __name__ == "__main__":
    main()
