"""Which package is a docstring from? sdEM used like any scikit-learn classifier: fit, compare, save, load."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from sdem_dist import MultinomialNB, load_model
from sdem_dist.text import collect_docstrings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="folder for the model")
    parser.add_argument("--quick", action="store_true", help="use every tenth docstring and three epochs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    texts, labels = (column[:: 10 if options.quick else 1] for column in collect_docstrings())
    texts, test_texts, labels, test_labels = train_test_split(texts, labels, test_size=0.2, random_state=0)
    print(f"{len(texts)} docstrings for training, {len(test_texts)} for testing\n")

    print("loss   test accuracy    NCLL   hinge  perplexity per word")
    for loss in ("nll", "ncll", "hinge"):  # nll is scikit-learn's naive Bayes, the other two are sdEM
        model = MultinomialNB(loss=loss, n_epochs=3 if options.quick else 15)
        pipeline = make_pipeline(CountVectorizer(min_df=2), model).fit(texts, labels)
        scores = model.evaluate(pipeline[:-1].transform(test_texts), test_labels)
        print("{:5s} {accuracy:14.3f} {ncll:7.3f} {hinge:7.3f} {perplexity:18.0f}".format(loss, **scores))

    model.save(options.out / "docstrings.model")  # the last model, trained with the hinge loss
    counts = pipeline[:-1].transform(test_texts)
    same = np.array_equal(load_model(options.out / "docstrings.model").predict(counts), pipeline.predict(test_texts))
    print(f"\n{options.out / 'docstrings.model'} predicts the same after loading: {same}")


if __name__ == "__main__":
    main()
