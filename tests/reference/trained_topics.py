"""Train topic models on a corpus in a process of its own and print a hash of what came out.

``python -m reference.trained_topics CORPUS WHERE``, see `reference.trained_bits`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from reference.trained_bits import bits, place

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "classes, mean": ("SupervisedLDAClassifier", {"n_lanes": 5, "rounds_per_epoch": 2, "batch_size": 30}),
    "classes, sum": ("SupervisedLDAClassifier", {"merge": "sum", "n_lanes": 3, "batch_size": 700}),
    "targets, beta": ("SupervisedLDARegressor", {"n_lanes": 4, "beta": 1.01, "log_counts": True}),
    "words, searched": (
        "LatentDirichletAllocation",
        {"n_lanes": 20, "merge": "mean", "line_search": True, "n_layers": 3},
    ),
}


def main(path: str, where: str) -> None:
    """Print one JSON object: settings by name to hash."""
    import sdem_dist

    corpus = sdem_dist.open_corpus(path)
    found = {}
    with place(where) as (client, n_jobs):
        for name, (kind, settings) in SETTINGS.items():
            model = getattr(sdem_dist, kind)(n_components=5, n_epochs=2, n_jobs=n_jobs, random_state=5, **settings)
            found[name] = bits(model.fit(corpus, client=client))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
