"""How good a whole search is: it is repeated without each fold, and its winner scored on that fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.folds import Folds
from sdem_dist.inputs.validation import seed_of
from sdem_dist.selection.metrics import greater_is_better
from sdem_dist.selection.one_by_one import parts, rows_of, score_of

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.selection.settings import Search


def nested_scores(
    search: Search, X: Any, y: Any, numbers: np.ndarray, groups: ArrayLike | None, client: Client | None
) -> np.ndarray:
    """Return the score on each fold of a search that has not seen it; more is better, as in `best_score_`.

    `X`, `y`: several labels as an indicator matrix. `numbers`: shape (n_documents,), the fold of each document.
    """
    sign = 1.0 if greater_is_better(search.metric_) else -1.0
    folds = None
    if isinstance(X, Corpus):
        folds = Folds(X, cast(int, search.cv), seed_of(search.random_state), groups=groups)
    found = []
    for fold in np.unique(numbers).tolist():
        training, scored = parts(X, y, numbers, folds, None, fold)
        of_groups = groups
        if folds is None:  # a search takes no weights
            training = rows_of(X, y, numbers != fold)
            of_groups = None if groups is None else np.asarray(groups)[numbers != fold]
        inner: Any = clone(search).set_params(nested=False, refit=True, callbacks=())
        inner.fit(*training, groups=of_groups, client=client)
        of = inner.best_estimator_, scored, numbers, fold, search.classes_, search.metric_, client
        found.append(sign * score_of(*of))
    return np.array(found)
