"""What mixtures reach: clusters of 20 Newsgroups, and components on sparse text.

Run: ``SDEM_CORPORA=... python tests/benchmarks/mixtures.py [clusters|text]``. ``examples/mixtures_table_1.py`` prints the table
of errors of digits.
"""

import time
from typing import Any

import corpora
import harness
import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.feature_extraction.text import TfidfTransformer

from sdem_dist import MultinomialMixture, MultinomialNB, SdemMixtureClassifier, cluster_scores


def cluster_lines(split: corpora.Split, n_clusters: int, n_init: int, seeds: int = 3) -> list[str]:
    """Return NMI, adjusted Rand index and purity of clusters of the training documents, each kind over some seeds."""
    weighted = TfidfTransformer().fit_transform(split.X)
    kinds: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "MiniBatchKMeans on tf-idf": (MiniBatchKMeans, weighted, {}),
        "MultinomialMixture": (MultinomialMixture, split.X, {}),
        "MultinomialMixture, online": (MultinomialMixture, split.X, {"em": "online"}),
        "MultinomialMixture, from examples": (MultinomialMixture, split.X, {"init": "examples"}),
    }
    lines = []
    for name, (cls, X, settings) in kinds.items():
        started = time.perf_counter()
        models = [cls(n_clusters, n_init=n_init, random_state=seed, **settings).fit(X) for seed in range(seeds)]
        scores = [cluster_scores(split.y, model.labels_) for model in models]
        means = ", ".join(f"{np.mean([of[kind] for of in scores]):.3f}" for kind in ("nmi", "ari", "purity"))
        lines.append(f"{name}: NMI, ARI, purity {means} ({(time.perf_counter() - started) / seeds:.1f} s)")
    return lines


def clusters() -> None:
    print("\n".join(cluster_lines(corpora.load("20ng"), 20, 10)))


def text_accuracies(split: corpora.Split, components: tuple[int, ...], seeds: int = 2) -> list[float]:
    """Return test accuracies of multinomial mixtures beside naive Bayes, counted and discriminative."""

    def mean_accuracy(cls: Any, *arguments: Any, **settings: Any) -> float:
        models = [cls(*arguments, random_state=s, evaluate_every=0, **settings) for s in range(seeds)]
        return float(np.mean([m.fit(split.X, split.y).score(split.X_test, split.y_test) for m in models]))

    accuracies = [float(MultinomialNB(loss="nll").fit(split.X, split.y).score(split.X_test, split.y_test))]
    for loss in ("ncll", "hinge"):
        accuracies.append(mean_accuracy(MultinomialNB, loss=loss))
        accuracies += [mean_accuracy(SdemMixtureClassifier, m, components="multinomial", loss=loss) for m in components]
    return accuracies


def text(components: tuple = (2, 4)) -> None:
    harness.head("corpus", "counted", *(f"{loss}, {m}" for loss in ("ncll", "hinge") for m in (1, *components)))
    for name in corpora.STEMMED:
        harness.row(name, *text_accuracies(corpora.load(name), components))


if __name__ == "__main__":
    harness.run(__doc__, clusters, text)
