"""What a text is made of: accuracy, macro-F1 and log-loss of `MultinomialNB` on words and signs, on other tokens, and on
words and characters; and CPU seconds of the whole way, from training texts to their probabilities, with those of text.

Run: ``SDEM_CORPORA=... python tests/benchmarks/tokens.py [quality|cost|peers]``.  Raw texts of training parts: at most 4,000
train, others test.  peers: standard splits; neighbours on tf-idf of the same features, together of length 1; fastText,
where it is installed, with bigrams and subwords of 2 to 5 characters.
"""

import time
from collections.abc import Iterator
from shutil import which
from typing import Any

import corpora
import guests
import harness
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from sdem_dist import MultinomialNB
from sdem_dist.text import VectorizerSettings, count_texts
from sdem_dist.text.patterns import expression_of

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
            harness.row(name, way, *scores_of(model, texts[n:], y[n:]))


def scores_of(model: Any, texts: list[str], y: np.ndarray) -> tuple[float, float, float]:
    """Return accuracy, macro-F1 and log-loss."""
    accuracy, loss = harness.scores_of(model, texts, y)
    return accuracy, float(f1_score(y, model.predict(texts), average="macro", labels=model.classes_)), loss


def models() -> Iterator[tuple[str, Any]]:
    """Yield `MultinomialNB` in each way but one, and neighbours on the same features."""
    for way in ("words", "words+signs", "words+characters"):
        yield f"MultinomialNB, {way}", MultinomialNB(vectorizer=WAYS[way])
    words = {"token_pattern": expression_of("words+signs"), "sublinear_tf": True}
    of_both = TfidfVectorizer(**words, ngram_range=(1, 2), min_df=2)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 4), min_df=2, sublinear_tf=True)
    both = FeatureUnion([("words", of_both), ("characters", characters)])
    both.set_params(transformer_weights=dict.fromkeys(("words", "characters"), 0.5**0.5))
    for way, features in (("words+signs", TfidfVectorizer(**words)), ("words+characters", both)):
        yield f"LinearSVC, {way}", make_pipeline(features, LinearSVC())
        for c in (1, 10):
            yield f"LogisticRegression, C = {c}, {way}", make_pipeline(features, LogisticRegression(C=c, max_iter=200))
    if which("fasttext"):
        options = ("-wordNgrams", "2", "-minn", "2", "-maxn", "5", "-epoch", "25", "-lr", ".5")
        tokens = TfidfVectorizer(**words).build_analyzer()
        for what, lines in (("text", str.lower), ("our tokens", lambda text: " ".join(tokens(text)))):
            spelled = FunctionTransformer(lambda texts, lines=lines: [*map(lines, texts)])
            yield f"fastText, {what}", make_pipeline(spelled, guests.FastText(options))


def split_of(name: str) -> list[Any]:
    """Return texts and labels of the training part and of the test part."""
    rows = [list(corpora.rows_of(f"several/{name}-{part}.tsv.xz", 1)) for part in ("train", "test")]
    return [column for part in rows for column in ([text for _, text in part], np.array([y for y, _ in part]))]


def peers(names: tuple = ("trec", "hotel_zh", "smsa_id", "clinc150")) -> None:
    harness.head("corpus", "model", "accuracy", "macro-F1", "log-loss")
    for name in names:
        texts, y, texts_test, y_test = split_of(name)
        for model_name, model in models():
            harness.row(name, model_name, *scores_of(model.fit(texts, y), texts_test, y_test))


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
    harness.run(__doc__, quality, cost, peers)
