"""What a text is made of: accuracy, macro-F1 and log-loss of `MultinomialNB` on words and signs, and on other tokens.

Run: ``SDEM_CORPORA=... python tests/benchmarks/tokens.py``.  Raw texts of training parts: at most 4,000 train, others test.
"""

import corpora
import harness
import numpy as np
from sklearn.metrics import f1_score

from sdem_dist import MultinomialNB
from sdem_dist.text import VectorizerSettings

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


def quality(names: tuple = tuple(FILES), patterns: tuple = ("words", r"(?u)\w+", "words+signs")) -> None:
    harness.head("corpus", "tokens", "accuracy", "macro-F1", "log-loss")
    for name in names:
        texts, y = texts_of(name)
        n = min(4_000, int(0.6 * len(texts)))
        for pattern in patterns:
            model = MultinomialNB(vectorizer=VectorizerSettings(token_pattern=pattern)).fit(texts[:n], y[:n])
            accuracy, loss = harness.scores_of(model, texts[n:], y[n:])
            f1 = float(f1_score(y[n:], model.predict(texts[n:]), average="macro", labels=model.classes_))
            harness.row(name, pattern, accuracy, f1, loss)


if __name__ == "__main__":
    harness.run(__doc__, quality)
