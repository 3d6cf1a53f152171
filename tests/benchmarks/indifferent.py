"""What should hardly matter to the default: the norm of weighted rows, and alpha.

Run: ``SDEM_CORPORA=... python tests/benchmarks/indifferent.py [NAME...]``.  Accuracy and log-loss of test documents, and how
far the accuracies of a row are apart: at most .003 for the norm, .005 for alpha.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from corpora import Split, splits_of, tfidf

from sdem_dist import MultinomialNB

NAMES = ("webkb", "r8", "r52", "20ng", "imdb words")
NORMS = (1.0, 3.0, 10.0, 100.0)
ALPHAS = (0.1, 0.3, 1.0, 3.0)


def reached(split: Split, **settings: object) -> tuple[float, float]:
    """Return accuracy and log-loss on test documents."""
    found = MultinomialNB(n_jobs=1, **settings).fit(split.X, split.y).evaluate(split.X_test, split.y_test)
    return found["accuracy"], found["ncll"]


def rows(split: Split) -> dict[str, Mapping[object, tuple[float, float]]]:
    """Return what is reached by each setting."""
    return {
        "norm": {norm: reached(tfidf(split, norm)) for norm in NORMS},
        "alpha": {alpha: reached(split, alpha=alpha) for alpha in ALPHAS},
    }


def line(name: str, of_setting: Mapping[object, tuple[float, float]]) -> str:
    """Return a row for people."""
    said = "  ".join(f"{value:g}: {accuracy:.4f}/{loss:.3f}" for value, (accuracy, loss) in of_setting.items())
    accuracies = [accuracy for accuracy, _ in of_setting.values()]
    return f"  {name:6} {said}  apart {max(accuracies) - min(accuracies):.4f}"


def main() -> None:
    """Print two rows a corpus."""
    for name in sys.argv[1:] or NAMES:
        print(name)
        for setting, found in rows(splits_of(name)[0]).items():
            print(line(setting, found), flush=True)


if __name__ == "__main__":
    main()
