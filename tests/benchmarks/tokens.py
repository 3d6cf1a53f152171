"""What a text is made of: accuracy, macro-F1 and log-loss of `MultinomialNB` on words and signs, on other tokens, and on
words and characters; and CPU seconds of the whole way, from training texts to their probabilities, with those of text.

Run: ``SDEM_CORPORA=... python tests/benchmarks/tokens.py [quality|cost]``.  Raw texts of training parts: at most 4,000
train, others test.
"""

import time

import corpora
import harness
import numpy as np
from sklearn.metrics import f1_score

from sdem_dist import MultinomialNB
from sdem_dist.text import VectorizerSettings, count_texts

FILES = {name: (f"several/{name}-train.tsv.xz", 0, 1) for name in ("trec", "hotel_zh", "smsa_id", "clinc150")} | {
    "imdb": ("imdb/imdb-train.tsv.xz", 0, 3),
    "r8": ("cachopo/r8-train-all-terms.txt.xz", 0, 1),
    "20ng": ("cachopo/20ng-train-all-terms.txt.xz", 0, 1),
    "blitzer": ("blitzer/blitzer-mds-labeled.tsv.xz", 0, 4),
    "polarity": ("panglee/sentence_polarity.tsv.xz", 0, -1),
    "scale": ("scale/scale_data.tsv.xz", 1, -1),
}
"""Of each corpus the file, and the columns of the label and of the text."""


def texts_of(name: str) -> tuple[list[str], np.ndarray]:
    """Return at most 10,000 texts of a training part and their labels, in an order that a seed draws."""
    path, label, text = FILES[name]
    rows = [(row[label], row[text]) for row in corpora.rows_of(path)]
    order = np.random.default_rng(1).permutation(len(rows))[:10_000]
    return [rows[i][1] for i in order], np.array([rows[i][0] for i in order])


WAYS = {name: VectorizerSettings(token_pattern=name) for name in ("words", r"(?u)\w+", "words+signs")}
WAYS |= {"words+characters": VectorizerSettings(features="words+characters")}


def quality(names: tuple = tuple(FILES)) -> None:
    harness.head("corpus", "tokens", "accuracy", "macro-F1", "log-loss")
    for name in names:
        texts, y = texts_of(name)
        n = min(4_000, int(0.6 * len(texts)))
        for way, settings in WAYS.items():
            model = MultinomialNB(vectorizer=settings).fit(texts[:n], y[:n])
            accuracy, loss = harness.scores_of(model, texts[n:], y[n:])
            f1 = float(f1_score(y[n:], model.predict(texts[n:]), average="macro", labels=model.classes_))
            harness.row(name, way, accuracy, f1, loss)


def seconds_of(settings: VectorizerSettings, texts: list[str], y: np.ndarray, turns: int) -> tuple[float, float]:
    """Return the least CPU seconds of counting, and of the whole way."""

    def whole() -> None:
        MultinomialNB(vectorizer=settings, n_jobs=1).fit(texts, y).predict_proba(texts)

    whole()  # compiles
    of_text = min(harness.seconds(lambda: count_texts(texts, settings), time.process_time) for _ in range(turns))
    return of_text, min(harness.seconds(whole, time.process_time) for _ in range(turns))


def cost(names: tuple = tuple(FILES), turns: int = 3) -> None:
    harness.head("corpus", "features", "text", "whole", "times", "entries a document")
    for name in names:
        texts, y = (column[:4_000] for column in texts_of(name))
        of_words = 0.0
        for features in ("words", "words+characters"):
            settings = VectorizerSettings(features=features)
            of_text, seconds = seconds_of(settings, texts, y, turns)
            of_words = of_words or seconds
            harness.row(
                name, features, of_text, seconds, seconds / of_words, count_texts(texts, settings)[0].nnz / len(texts)
            )


if __name__ == "__main__":
    harness.run(__doc__, quality, cost)
