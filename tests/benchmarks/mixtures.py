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


def clusters(n_clusters: int = 20, n_init: int = 10, seeds: int = 3) -> None:
    """Print NMI, adjusted Rand index and purity of clusters of the training documents, each kind over some seeds."""
    split = corpora.load("20ng")
    kinds: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "MiniBatchKMeans on tf-idf": (MiniBatchKMeans, TfidfTransformer().fit_transform(split.X), {}),
        "MultinomialMixture": (MultinomialMixture, split.X, {}),
        "MultinomialMixture, online": (MultinomialMixture, split.X, {"em": "online"}),
    }
    for name, (cls, X, settings) in kinds.items():
        started = time.perf_counter()
        models = [cls(n_clusters, n_init=n_init, random_state=seed, **settings).fit(X) for seed in range(seeds)]
        scores = [cluster_scores(split.y, model.labels_) for model in models]
        means = ", ".join(f"{np.mean([of[kind] for of in scores]):.3f}" for kind in ("nmi", "ari", "purity"))
        print(f"{name}: NMI, ARI, purity {means} ({(time.perf_counter() - started) / seeds:.1f} s)", flush=True)


def text(components: tuple = (2, 4), seeds: int = 2) -> None:
    """Print test accuracies of multinomial mixtures beside naive Bayes, counted and discriminative."""
    harness.head("corpus", "counted", *(f"{loss}, {m}" for loss in ("ncll", "hinge") for m in (1, *components)))
    for name in corpora.STEMMED:
        X, y, X_test, y_test = corpora.load(name)

        def mean_accuracy(cls: Any, *arguments: Any, X=X, y=y, X_test=X_test, y_test=y_test, **settings: Any) -> float:
            models = [cls(*arguments, random_state=s, evaluate_every=0, **settings) for s in range(seeds)]
            return float(np.mean([m.fit(X, y).score(X_test, y_test) for m in models]))

        accuracies = [float(MultinomialNB(loss="nll").fit(X, y).score(X_test, y_test))]
        for loss in ("ncll", "hinge"):
            how = {"components": "multinomial", "loss": loss}
            accuracies.append(mean_accuracy(MultinomialNB, loss=loss))
            accuracies += [mean_accuracy(SdemMixtureClassifier, m, **how) for m in components]
        harness.row(name, *accuracies)


if __name__ == "__main__":
    harness.run(__doc__, clusters, text)
