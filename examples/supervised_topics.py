"""Supervised topic models of film reviews: figures 3 and 4 of Chen et al. (2015), on IMDB.

AUC of the polarity and predictive R2 of the stars over the number of topics, beside linear models and an MLP with two
layers of 200 units on the same words, linear models on the topics of LDA by Gibbs sampling, and sLDA (both from
tomotopy, where it is installed); R2 over the layers of inference; how many topics hold 90 % of a review; the likelihood
of held-out words for several alpha. IMDB is for the paper's Amazon and multi-domain reviews. All reviews take hours;
``--documents 1000 --topics 5,20 --iterations 60`` takes 3 minutes.
"""

from __future__ import annotations

import argparse
import lzma
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.neural_network import MLPClassifier, MLPRegressor

from sdem_dist import LatentDirichletAllocation, SupervisedLDAClassifier, SupervisedLDARegressor, plots

ALPHAS = (1.001, 0.5, 0.1)


def read(path: Path, most: int | None) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return texts, polarity and stars; with `most` about so many of them, evenly spread."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t", 3) for line in lines]
    rows = rows[:: max(1, len(rows) // most) if most else 1]
    polarity, stars, _, texts = zip(*rows, strict=True)
    return [t.replace("<br />", " ") for t in texts], np.array(polarity) == "pos", np.array(stars, float)


def sampled(parts: tuple, n_topics: int, iterations: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return topics of LDA by Gibbs sampling of training and test reviews, and what sLDA estimates of the test reviews.

    sLDA has two outputs, the polarity (logistic) and the stars (Gaussian, standardised).
    """
    import tomotopy

    X, X_test, y, stars = parts

    def words(rows: object) -> list[list[str]]:
        found = [[str(w) for w, c in zip(r.indices, r.data, strict=True) for _ in range(int(c))] for r in rows]
        return [document or ["0"] for document in found]

    train, test = words(X), words(X_test)
    lda = tomotopy.LDAModel(k=n_topics, seed=0)
    slda = tomotopy.SLDAModel(k=n_topics, vars="bl", seed=0)
    units = (stars - stars.mean()) / stars.std()
    for document, polarity, value in zip(train, y, units, strict=True):
        lda.add_doc(document)
        slda.add_doc(document, y=[float(polarity), float(value)])
    for model in (lda, slda):
        model.train(iterations, workers=1)
    theta = np.array([document.get_topic_dist() for document in lda.docs])
    theta_test = np.array(lda.infer([lda.make_doc(document) for document in test], workers=1)[0])
    documents = [slda.make_doc(document, y=[float("nan")] * 2) for document in test]
    slda.infer(documents, workers=1)
    return theta, theta_test, np.array([slda.estimate(document) for document in documents])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, default=os.environ.get("SDEM_CORPORA"), help="folder above imdb/")
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="folder for the figure")
    parser.add_argument("--quick", action="store_true", help="some 500 reviews and few settings")
    parser.add_argument("--documents", type=int, help="about so many reviews to train on, and to test; default: all")
    parser.add_argument("--topics", default="5,10,20,50,100", help="numbers of topics")
    parser.add_argument("--iterations", type=int, default=500, help="of Gibbs sampling")
    options = parser.parse_args()
    if options.corpora is None:
        parser.error("name the folder of the corpora with --corpora, or in the environment variable SDEM_CORPORA")
    options.out.mkdir(parents=True, exist_ok=True)
    most = 500 if options.quick else options.documents
    texts, y, stars = read(options.corpora / "imdb/imdb-train.tsv.xz", most)
    test_texts, y_test, stars_test = read(options.corpora / "imdb/imdb-test.tsv.xz", most)
    vectorizer = CountVectorizer(max_features=5000)
    X, X_test = vectorizer.fit_transform(texts), vectorizer.transform(test_texts)
    figure = Figure(figsize=(14, 7), layout="constrained")
    panels = figure.subplots(2, 3).ravel()

    def line(panel: int, title: str, x: tuple, values: list[float], label: str) -> None:
        panels[panel].plot(x, values, marker="o", label=label)
        panels[panel].set(title=title, xlabel="layers" if "layers" in title else "topics")
        print(f"{title}, {label}: {dict(zip(x, np.round(values, 4).tolist(), strict=True))}", flush=True)

    def auc(model: SupervisedLDAClassifier | LogisticRegression | MLPClassifier) -> float:
        return roc_auc_score(y_test, model.fit(X, y).predict_proba(X_test)[:, 1])

    def r2(model: SupervisedLDARegressor | Ridge | MLPRegressor) -> float:
        return r2_score(stars_test, model.fit(X, stars).predict(X_test))

    topics = (5, 20) if options.quick else tuple(map(int, options.topics.split(",")))
    line(0, "AUC over topics", topics, [auc(SupervisedLDAClassifier(n_components=k)) for k in topics], "BP-sLDA")
    flat = auc(LogisticRegression(C=0.03, solver="liblinear"))
    line(0, "AUC over topics", topics, [flat] * len(topics), "logistic regression")
    line(1, "R2 over topics", topics, [r2(SupervisedLDARegressor(n_components=k)) for k in topics], "BP-sLDA")
    flat = r2(Ridge(1000.0, solver="sparse_cg"))
    line(1, "R2 over topics", topics, [flat] * len(topics), "ridge regression")
    network = {"hidden_layer_sizes": (200, 200), "early_stopping": True, "random_state": 0}
    flat = auc(MLPClassifier(**network))
    line(0, "AUC over topics", topics, [flat] * len(topics), "MLP 200 x 200")
    flat = r2(MLPRegressor(**network))
    line(1, "R2 over topics", topics, [flat] * len(topics), "MLP 200 x 200")
    if find_spec("tomotopy") is None:
        print('the lines of Gibbs-LDA and sLDA need tomotopy: pip install "sdem_dist[benchmark]"')
    else:
        of_lda, of_slda = [], []
        for k in topics:
            a, b, estimates = sampled((X, X_test, y, stars), k, 20 if options.quick else options.iterations)
            polarity = LogisticRegression(C=10.0, max_iter=1000).fit(a, y).predict_proba(b)[:, 1]
            of_lda.append((roc_auc_score(y_test, polarity), r2_score(stars_test, Ridge(0.1).fit(a, stars).predict(b))))
            predicted = stars.mean() + stars.std() * estimates[:, 1]
            of_slda.append((roc_auc_score(y_test, estimates[:, 0]), r2_score(stars_test, predicted)))
        for label, found in (("Gibbs-LDA, linear", of_lda), ("sLDA", of_slda)):
            for panel, title in ((0, "AUC over topics"), (1, "R2 over topics")):
                line(panel, title, topics, [pair[panel] for pair in found], label)
    layers = (1, 10) if options.quick else (1, 2, 5, 10, 20)
    for k in topics[:1] if options.quick else sorted({topics[0], 20, topics[-1]}):
        found = [r2(SupervisedLDARegressor(n_components=k, n_layers=n)) for n in layers]
        line(2, "R2 over layers", layers, found, f"{k} topics")
    short = X_test[np.flatnonzero(np.asarray(X_test.sum(axis=1)).ravel() <= 200)[: 10 if options.quick else 100]]
    for alpha in ALPHAS[:1] if options.quick else ALPHAS:
        shares, likelihoods = [], []
        for k in topics:
            theta = SupervisedLDARegressor(n_components=k, alpha=alpha).fit(X, stars).transform(X_test)
            largest = -np.sort(-theta, axis=1)
            shares.append(100 * ((largest.cumsum(axis=1) < 0.9).sum(axis=1) + 1).mean() / k)
            likelihoods.append(LatentDirichletAllocation(n_components=k, alpha=alpha).fit(X).score(short))
        line(3, "% of topics that hold 90 % of a review", topics, shares, f"alpha {alpha}")
        line(4, "log-likelihood of a held-out word, BP-LDA", topics, likelihoods, f"alpha {alpha}")
    for panel in panels[:5]:
        panel.legend()
        panel.grid(alpha=0.3)
    panels[5].axis("off")
    model = SupervisedLDARegressor().fit(X, stars)
    names = vectorizer.get_feature_names_out()
    model.vocabulary_ = names.tolist()
    topics = sorted(model.topics(8))  # by their stars
    for topic in (topics[0], topics[-1]):
        print(f"topic of {topic.label:.1f} stars: {' '.join(topic.distinctive)}")
    plots.topics([*topics[:4], *topics[-4:]]).savefig(options.out / "supervised-topics-words.png", dpi=110)
    figure.savefig(options.out / "supervised-topics.png", dpi=110)


if __name__ == "__main__":
    main()
