"""How good an estimator is by how many documents it learns from: `learning_curve`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from sdem_dist.corpus.folds import Folds
from sdem_dist.corpus.memory import InMemory
from sdem_dist.inputs.source import source_of
from sdem_dist.inputs.validation import some
from sdem_dist.visible import columns

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.estimators.base import EngineEstimator

SHARES = (0.1, 0.2, 0.4, 0.7, 1.0)


class LearningCurve(NamedTuple):
    """What `learning_curve` found.

    Attributes
    ----------
    n_documents : ndarray of shape (n_sizes,)
        Documents trained on.
    accuracy, log_loss : ndarray of shape (n_sizes, n_folds)
        On the fold that is left out; log-loss at the best temperature. Of several labels a document: the share of documents
        all of whose labels are right, and the mean log-loss over labels.
    micro_f1 : ndarray of shape (n_sizes, n_folds), or None
        Of several labels a document.
    """

    n_documents: np.ndarray
    accuracy: np.ndarray
    log_loss: np.ndarray
    micro_f1: np.ndarray | None = None

    def __repr__(self) -> str:
        named = {"accuracy": self.accuracy, "log-loss": self.log_loss, "micro-F1": self.micro_f1}
        scores = {name: of for name, of in named.items() if of is not None}
        rows = [
            [f"{n:,}", *(f"{of[i].mean():.4f} +- {of[i].std():.4f}" for of in scores.values())]
            for i, n in enumerate(self.n_documents.tolist())
        ]
        n_folds = self.accuracy.shape[1]
        note = f"\n(means +- standard deviations over {n_folds} folds)" if n_folds > 1 else ""
        return columns(("documents", *scores), rows, left=0) + note


def learning_curve(
    estimator: EngineEstimator,
    X: object,
    y: object = None,
    *,
    shares: Sequence[float] = SHARES,
    cv: int = 5,
    n_folds: int | None = None,
    random_state: int = 0,
    client: Client | None = None,
) -> LearningCurve:
    """Return how good an estimator is by how many documents it is trained on.

    Parameters
    ----------
    estimator : classifier
        Unfitted.
    X : Corpus, matrix or texts
    y : array-like, default=None
        None with a corpus.
    shares : sequence of float
        Of the documents that are not in the fold, from above 0 to 1; rarer classes are rarer in a share, too.
    cv : int, default=5
        Folds that the documents are cut into.
    n_folds : int or None, default=None
        How many of them are used; None: all.
    random_state : int, default=0
    client : distributed.Client, default=None

    Returns
    -------
    LearningCurve
        Shows itself as a table; `sdem_dist.plots.learning_curve` draws it.

    Raises
    ------
    ValueError
        A share is not above 0 and at most 1, the estimator is not a classifier, or documents do not go with it.
    """
    if estimator.spec.target != "labels":
        raise ValueError(f"a learning curve shows accuracies, and {type(estimator).__name__} is not a classifier")
    if not shares or not all(0.0 < share <= 1.0 for share in shares):
        raise ValueError(f"shares must be above 0 and at most 1, got {shares!r}")
    unfitted = clone(estimator)
    unfitted._look_at(X)
    source = source_of(unfitted, X, y, client=client)
    corpus, members = source.corpus, source.members
    whole = Folds(corpus, cv, random_state)
    used = whole.k if n_folds is None else min(n_folds, cv)
    sizes, found, missing = list[int](), [], dict[int, str]()
    of_all = np.add(whole.train(0).class_weights, whole.test(0).class_weights)
    for share in sorted(shares):
        folds = Folds(corpus, cv, random_state, share)
        parts = [folds.train(fold) for fold in range(used)]
        sizes.append(round(float(np.mean([part.weight for part in parts]))))
        counts = np.array([of_all, *(part.class_weights for part in parts)])
        counts = counts if members is None else counts @ members
        lacks = np.any(counts[1:] == 0, axis=0) & (counts[0] > 0)
        if lacks.any():
            missing[sizes[-1]] = some(source.classes[lacks])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* without a document of a weight above zero", UserWarning)
            found.append([_scored(estimator, X, y, folds, fold, client) for fold in range(used)])
    if missing:
        where = "; ".join(f"with {size:,} documents {classes}" for size, classes in missing.items())
        warnings.warn(f"points of the curve where some fold trains without a class: {where}", stacklevel=2)
    of = np.moveaxis(np.array(found), 2, 0)
    return LearningCurve(np.array(sizes, np.int64), *of)


def _scored(
    estimator: EngineEstimator, X: object, y: object, folds: Folds, fold: int, client: Client | None
) -> tuple[float, ...]:
    model: Any = clone(estimator)
    if isinstance(folds.corpus, InMemory):  # documents of no concern have weight 0, so that all labels are known
        n, order = folds.corpus.n_documents, folds.corpus.order
        rows, weights = np.arange(n) if order is None else order, np.zeros(n)
        weights[rows[folds.mask(fold, False, 0, n)]] = 1.0
        scored = np.sort(rows[folds.mask(fold, True, 0, n)])
        of = model.fit(X, y, weights).evaluate(*(_safe_indexing(part, scored) for part in (X, y)))
    else:
        of = model.fit(folds.train(fold), client=client).evaluate(folds.test(fold), client=client)
    if model.several_labels:
        return of["accuracy"], of["label_log_loss"], of["micro_f1"]
    return of["accuracy"], of.get("tempered_log_loss", of["ncll"])
