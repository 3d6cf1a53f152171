"""Folds of one estimator: how good it is (`cross_validate`), and by how many documents (`learning_curve`)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from sdem_dist.corpus.folds import Folds
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.fitting.running import evaluate_source, forgetting
from sdem_dist.fitting.scoring import one_blas_thread
from sdem_dist.inputs.source import source_of
from sdem_dist.inputs.validation import some
from sdem_dist.selection.search import CorpusSearchCV
from sdem_dist.selection.search_run import fits_on
from sdem_dist.selection.trials import Metric
from sdem_dist.table import Table

if TYPE_CHECKING:
    from distributed import Client


SHARES = (0.1, 0.2, 0.4, 0.7, 1.0)


class LearningCurve(NamedTuple):
    """Scores by number of documents, as `learning_curve` returns them.

    Attributes
    ----------
    n_documents : ndarray of shape (n_sizes,)
        Documents trained on.
    accuracy, log_loss : ndarray of shape (n_sizes, n_folds)
        On the fold that is left out; log-loss at the best temperature, NaN of a classifier that does not measure it. Of
        several labels per document: the share of documents all of whose labels are right, and the mean log-loss over
        labels.
    micro_f1 : ndarray of shape (n_sizes, n_folds), or None
        Of several labels per document.
    """

    n_documents: np.ndarray
    accuracy: np.ndarray
    log_loss: np.ndarray
    micro_f1: np.ndarray | None = None

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> Table:
        columns = {"accuracy": self.accuracy, "log-loss": self.log_loss, "micro-F1": self.micro_f1}
        scores = {name: of for name, of in columns.items() if of is not None and not np.isnan(of).all()}
        rows = [
            [f"{n:,}", *(f"{of[i].mean():.4f} +- {of[i].std():.4f}" for of in scores.values())]
            for i, n in enumerate(self.n_documents.tolist())
        ]
        n_folds = self.accuracy.shape[1]
        note = f"(means +- standard deviations over {n_folds} folds)" if n_folds > 1 else ""
        return Table(["documents", *scores], rows, note=note, left=())


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
    fits = fits_on(clone(estimator), X, y, cv=cv, seed=random_state, client=client)
    n_folds, sizes, missing = cv if n_folds is None else min(n_folds, cv), list[int](), list[str]()
    scores = []

    def scores_of(fold: int) -> tuple[float, ...]:
        model = fits.fitted({}, fold)
        of = evaluate_source(model, source_of(model, fits.scored(fold), use="score"), client)
        if model.several_labels:
            return of["accuracy"], of["label_log_loss"], of["micro_f1"]
        return of["accuracy"], of.get("tempered_log_loss", of.get("ncll", np.nan))

    with one_blas_thread(), forgetting(fits.source), ThreadPoolExecutor(fits.n_at_once(n_folds)) as threads:
        for share in sorted(shares):
            fits.folds = Folds(fits.source.corpus, cv, random_state, share)
            training = [fits.training(fold) for fold in range(n_folds)]
            sizes.append(round(float(np.mean([part.weight for part in training]))))
            empty = np.any([np.array(part.class_counts) == 0 for part in training], axis=0)
            empty &= np.array(fits.source.class_counts) > 0
            if empty.any():
                missing.append(f"with {sizes[-1]:,} documents {some(fits.source.classes[empty])}")
            scores.append(list(threads.map(scores_of, range(n_folds))))
    if missing:
        warnings.warn(f"points of the curve where some fold trains without a class: {'; '.join(missing)}", stacklevel=2)
    return LearningCurve(np.array(sizes, np.int64), *np.moveaxis(np.array(scores), 2, 0))


@dataclass(frozen=True, repr=False)
class CrossValidated:
    """Scores of folds, which show themselves as means; ``pandas.DataFrame`` takes them, a row for each fold."""

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
        means = "  ".join(f"{name} {values.mean():.4f} +- {values.std():.4f}" for name, values in self.scores.items())
        n = len(next(iter(self.scores.values())))
        return means + (f"  (+-: standard deviation over {n} folds)" if n > 1 else "")


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
    how = {"cv": cv, "metric": metric, "random_state": random_state, "n_jobs": n_jobs}
    search = CorpusSearchCV(estimator, {}, refit=False, halving=False, **how)  # type: ignore[arg-type]
    search.fit(X, y, groups=groups, client=client)
    trial = search.trials_[0]
    return CrossValidated(trial.scores, getattr(search, "oof_proba_", None), search.oof_folds_, trial.seconds)
