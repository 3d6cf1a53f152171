"""What a text is made of: tokens by words and signs beside other patterns, and how fast they are counted.

Run: ``SDEM_CORPORA=... python tests/benchmarks/tokens.py [quality|speed]``.

quality: accuracy, macro-F1 and log-loss of `MultinomialNB` on raw texts of the training part that it has not seen; at most
4,000 train it;
speed: from texts to CSR, beside scikit-learn's `CountVectorizer` with the same expression.
"""

from functools import partial

import corpora
import harness
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import f1_score

from sdem_dist import MultinomialNB
from sdem_dist.text import VectorizerSettings, count_texts
from sdem_dist.text.patterns import expression_of

MOST = 4_000
"""Documents that train."""
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
        n = min(MOST, int(0.6 * len(texts)))
        for pattern in patterns:
            model = MultinomialNB(vectorizer=VectorizerSettings(token_pattern=pattern)).fit(texts[:n], y[:n])
            accuracy, loss = harness.scores_of(model, texts[n:], y[n:])
            f1 = float(f1_score(y[n:], model.predict(texts[n:]), average="macro", labels=model.classes_))
            harness.row(name, pattern, accuracy, f1, loss)


def speed(names: tuple = ("imdb", "hotel_zh"), patterns: tuple = ("words", "words+signs"), repeats: int = 5) -> None:
    harness.head("corpus", "tokens", "MB/s", "nonzeros", "CountVectorizer's time to ours")
    for name in names:
        texts = texts_of(name)[0]
        megabytes = sum(len(text.encode()) for text in texts) / 1e6
        for pattern in patterns:
            settings = VectorizerSettings(token_pattern=pattern)
            peer = CountVectorizer(token_pattern=expression_of(pattern))
            counts = count_texts(texts, settings)[0]  # compiles
            calls = {"ours": partial(count_texts, texts, settings), "peer": partial(peer.fit_transform, texts)}
            times = harness.in_turns(calls, repeats)
            speed_of = megabytes / float(np.median(times["ours"]))
            harness.row(name, pattern, speed_of, counts.nnz, harness.median_ratio(times["peer"], times["ours"]))


if __name__ == "__main__":
    harness.run(__doc__, quality, speed)
