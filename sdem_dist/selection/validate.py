"""How good an estimator is, by cross-validation: `cross_validate`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.selection.metrics import Metric
from sdem_dist.selection.search import CorpusSearchCV

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True, repr=False)
class CrossValidated:
    """What `cross_validate` found: it shows means; ``pandas.DataFrame`` takes it, a row for each fold."""

    scores: dict[str, np.ndarray]
    """Each metric of each fold, by name, as it is: a log-loss is positive."""
    proba: np.ndarray | None
    """Probabilities out of fold of classes, or of each of several labels, shape (n_documents, n_classes); None of
    estimators that are no classifiers."""
    folds: np.ndarray
    """The fold of each document."""
    seconds: float

    def __iter__(self) -> Iterator[dict[str, float]]:
        """Yield the metrics of each fold, by name."""
        for values in zip(*self.scores.values(), strict=True):
            yield dict(zip(self.scores, map(float, values), strict=True))

    def __repr__(self) -> str:
        said = "  ".join(f"{name} {values.mean():.4f} +- {values.std():.4f}" for name, values in self.scores.items())
        n = len(next(iter(self.scores.values())))
        return said + (f"  (+-: standard deviation over {n} folds)" if n > 1 else "")


def cross_validate(
    estimator: EngineEstimator,
    X: object,
    y: object = None,
    *,
    cv: object = 5,
    metric: Metric | None = None,
    groups: ArrayLike | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    client: Client | None = None,
) -> CrossValidated:
    """Return how good an estimator is on documents that its models have not seen.

    Parameters
    ----------
    estimator : estimator of this package
        Unfitted. It is trained without each fold as by `fit`.
    X : Corpus, matrix or texts
    y : array-like, default=None
        None with a corpus.
    cv : int, Corpus or tuple (X, y), default=5
    metric : str or callable, default=None
        Beside log-loss and accuracy, and micro-F1 of several labels, see `CorpusSearchCV`. None: these of classifiers;
        of others the one they have.
    groups : array-like of shape (n_documents,), default=None
        Documents of one group are in one fold, see `CorpusSearchCV.fit`.
    random_state : int, default=0
        Decides the folds.
    n_jobs : int, default=None
    client : distributed.Client, default=None

    Returns
    -------
    CrossValidated
    """
    search = CorpusSearchCV(
        estimator,
        {},
        cv=cv,
        metric=metric,
        refit=False,
        halving=False,
        random_state=random_state,
        n_jobs=n_jobs,
    ).fit(X, y, groups=groups, client=client)
    trial = search.trials_[0]
    return CrossValidated(trial.scores, getattr(search, "oof_proba_", None), search.oof_folds_, trial.seconds)
