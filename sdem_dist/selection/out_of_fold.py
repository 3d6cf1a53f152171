"""Cross-validation, learning curves, and suspected labels.

Doubts are those of confident learning (Northcutt et al. 2021).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.folds import Folds
from sdem_dist.corpus.labels import are_label_sets
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.naive_bayes import MultiLabelNB, MultinomialNB
from sdem_dist.fitting.running import evaluate_source, forgetting, one_blas_thread
from sdem_dist.inputs.source import source_of
from sdem_dist.inputs.validation import some
from sdem_dist.selection.fold_fits import FoldFits
from sdem_dist.selection.search import CorpusSearchCV
from sdem_dist.selection.trials import Metric
from sdem_dist.table import Table

if TYPE_CHECKING:
    from distributed import Client

TABLE_ROWS = 20  # documents of the table of suspects


class LearningCurve(NamedTuple):
    """Scores by number of training documents, on the folds left out of training, from `learning_curve`.

    With several labels per document, `accuracy` is the fraction of documents with all labels correct, and `log_loss` is
    the mean over labels.
    """

    n_documents: np.ndarray  #: Shape (n_sizes,): number of training documents.
    accuracy: np.ndarray  #: Shape (n_sizes, n_folds).
    log_loss: np.ndarray  #: Same shape; at the best temperature, NaN for a classifier without log-loss.
    micro_f1: np.ndarray | None = None  #: Same shape; with several labels per document.

    def __repr__(self) -> str:
        return self.table.text()

    def _repr_html_(self) -> str:
        return self.table.html()

    @property
    def table(self) -> Table:
        columns = {"accuracy": self.accuracy, "log-loss": self.log_loss, "micro-F1": self.micro_f1}
        scores = {name: of for name, of in columns.items() if of is not None and not np.isnan(of).all()}
        rows = [
            [f"{n:,}", *(f"{of[i].mean():.4f} +- {of[i].std():.4f}" for of in scores.values())]
            for i, n in enumerate(self.n_documents.tolist())
        ]
        n_folds = self.accuracy.shape[1]
        note = f"(means +- standard deviations over {n_folds} folds)" if n_folds > 1 else ""
        return Table(["documents", *scores], rows, note=note, left=())


@p.document
def learning_curve(
    estimator: EngineEstimator,
    X: object,
    y: object = None,
    *,
    shares: Sequence[float] = (0.1, 0.2, 0.4, 0.7, 1.0),
    cv: int = 5,
    n_folds: int | None = None,
    random_state: int = 0,
    client: Client | None = None,
) -> LearningCurve:
    """Return scores of an estimator by number of training documents.

    estimator : classifier -- Unfitted.
    shares : sequence of float -- Fractions of the training folds to use. Small training sets
        may lack rare classes.
    cv, n_folds : int -- Number of folds, and number of folds to score. None: all.
    random_state -- As in `CorpusSearchCV`.
    Returns : LearningCurve -- Displays as a table; `sdem_dist.plots.learning_curve` plots it.
    Raises ValueError -- A share is out of range, the estimator is not a classifier, or it does not support the
        documents.
    """
    if estimator.spec.target != "labels":
        raise ValueError(f"learning curves need a classifier, but {type(estimator).__name__} is not one")
    if not shares or not all(0.0 < share <= 1.0 for share in shares):
        raise ValueError(f"shares must be positive and at most 1, got {shares!r}")
    fits = FoldFits(clone(estimator), X, y, cv=cv, seed=random_state, client=client)
    n_folds = cv if n_folds is None else min(n_folds, cv)
    sizes, missing, scores = list[int](), list[str](), list[list[tuple[float, ...]]]()

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
                missing.append(f"{some(fits.source.classes[empty])} (at {sizes[-1]:,} documents)")
            scores.append(list(threads.map(scores_of, range(n_folds))))
    if missing:
        warnings.warn(f"some folds have no training documents of these classes: {'; '.join(missing)}", stacklevel=2)
    return LearningCurve(np.array(sizes, np.int64), *np.moveaxis(np.array(scores), 2, 0))


@dataclass(frozen=True, repr=False)
class CrossValidated:
    """Scores of folds, displayed as means; ``pandas.DataFrame`` converts them to a row per fold."""

    scores: dict[str, np.ndarray]  #: Each metric by name, an entry per fold, unchanged: a log-loss is positive.
    proba: np.ndarray | None  #: Out-of-fold probabilities of classes or labels, (n_documents, n_classes), or None.
    folds: np.ndarray  #: The fold of each document.
    seconds: float

    def __iter__(self) -> Iterator[dict[str, float]]:
        """Yield the metrics of each fold, by name."""
        for values in zip(*self.scores.values(), strict=True):
            yield dict(zip(self.scores, map(float, values), strict=True))

    def __repr__(self) -> str:
        means = "  ".join(f"{name} {values.mean():.4f} +- {values.std():.4f}" for name, values in self.scores.items())
        n = len(next(iter(self.scores.values())))
        return means + (f"  (+-: standard deviation over {n} folds)" if n > 1 else "")


@p.document
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
    """Return cross-validated scores of an estimator.

    estimator : estimator of this package -- Unfitted. For each fold, a copy is trained on the other folds.
    metric : str or callable, default=None -- Metric in addition to log-loss and accuracy (and micro-F1 for several
        labels), see `CorpusSearchCV`. None: only these or, if `estimator` is not a classifier, its default metric.
    cv, groups, random_state, n_jobs -- As in `CorpusSearchCV` and its `fit`.
    """
    how = {"cv": cv, "metric": metric, "random_state": random_state, "n_jobs": n_jobs}
    search = CorpusSearchCV(estimator, {}, refit=False, halving=False, **how)  # type: ignore[arg-type]
    search.fit(X, y, groups=groups, client=client)
    trial = search.trials_[0]
    return CrossValidated(trial.scores, getattr(search, "oof_proba_", None), search.oof_folds_, trial.seconds)


class Suspects(NamedTuple):
    """Documents that may be mislabelled, most doubtful first: arrays of shape (n_suspects,).

    With several labels per document, each entry is a label of a document that is probably wrong, or a label that is
    probably missing. A document may then appear several times.
    """

    documents: np.ndarray  #: IDs of a corpus (by default, positions in the source), or rows of a matrix.
    labels: np.ndarray
    label_proba: np.ndarray  #: Probability of the label, from models that were not trained on the document.
    doubt: np.ndarray  #: ``1 - p(label)``, as in confident learning; ``p(label)`` if the document lacks the label.
    n_documents: int  #: Number of documents checked.
    positions: np.ndarray  #: Positions in the corpus, for ``corpus.text(position)``, or rows of a matrix.
    others: np.ndarray | None = None  #: The most probable other class; None with several labels per document.
    other_proba: np.ndarray | None = None  #: Probability of that class.
    present: np.ndarray | None = None  #: With several labels per document: whether the document has the label.

    def __len__(self) -> int:
        return len(self.documents)

    def cells(self, n: int) -> dict[str, list[str]]:
        """Return the columns of a table of the first `n` suspects, by heading."""
        columns: dict[str, Any] = {"document": self.documents, "label": self.labels}
        if self.present is not None:
            columns["status"] = np.where(self.present, "present", "missing")
        else:
            columns["suggested label"] = self.others
        numbers = {"doubt": self.doubt, "p(label)": self.label_proba, "p(suggested)": self.other_proba}
        cells = {head: list(map(str, of[:n].tolist())) for head, of in columns.items()}
        return cells | {head: [f"{p:.3f}" for p in of[:n]] for head, of in numbers.items() if of is not None}

    @property
    def table(self) -> Table:
        """A table of the first twenty suspects."""
        more = f"... and {len(self) - TABLE_ROWS:,} more" if len(self) > TABLE_ROWS else ""
        columns = self.cells(TABLE_ROWS)
        rows = list(zip(*columns.values(), strict=True))
        return Table(list(columns), rows, note=more, widths=dict.fromkeys(range(3), 24))

    def __repr__(self) -> str:
        return self.table.text()

    def _repr_html_(self) -> str:
        return self.table.html()


@p.document
def label_suspects(
    X: object,
    y: object = None,
    *,
    estimator: EngineEstimator | None = None,
    n: int | None = 100,
    cv: int = 5,
    random_state: int = 0,
    n_jobs: int | None = None,
    client: Client | None = None,
) -> Suspects:
    """Return the documents that are most likely mislabelled, according to models that were not trained on them.

    With several labels per document, each label is checked separately, including absent ones.

    estimator : classifier, default=None -- None: `MultinomialNB`, or `MultiLabelNB` for several labels, with the loss
        ``-ln p(y | d)``, which is less sensitive to wrong labels than the hinge loss.
    n : int or None, default=100 -- Maximum number of documents (or of labels, with several per document).
        None: all, doubtful or not.
    cv, random_state, n_jobs -- As in `CorpusSearchCV` and its `fit`; `cv` is a number of folds.
    Returns : Suspects -- Displays as a table.
    """
    if n is not None and n < 1:
        raise ValueError(f"n must be positive or None, got {n!r}")
    if estimator is None:
        several = X.header.label_sets is not None if isinstance(X, Corpus) else are_label_sets(y)
        estimator = MultiLabelNB(loss="ncll") if several else MultinomialNB(loss="ncll")
    options: Any = {"cv": cv, "refit": False, "halving": False, "random_state": random_state, "n_jobs": n_jobs}
    search = CorpusSearchCV(estimator, {}, **options).fit(X, y, client=client)
    predictions: Any = search.trials_[0].predictions
    if (members := predictions.members) is None:
        predictions = predictions.taken(np.flatnonzero(predictions.labels >= 0))
        proba, labels = predictions.proba, predictions.labels
        doubt = 1.0 - proba[np.arange(len(proba)), labels]
        documents = order = np.argsort(-doubt, kind="stable")[:n]
        columns = labels[order]
    else:
        proba = predictions.proba
        doubt = np.where(members, 1.0 - proba, proba).ravel()
        order = np.argsort(-doubt, kind="stable")[:n]
        documents, columns = np.divmod(order, proba.shape[1])
    positions, own, places = predictions.rows[documents], proba[documents, columns], np.arange(len(documents))
    ids = np.array(X.ids_at(positions.tolist())) if isinstance(X, Corpus) else positions  # ids of the source
    doubted = (ids, search.classes_[columns], own, doubt[order], len(proba), positions)
    if members is not None:
        return Suspects(*doubted, present=members[documents, columns])
    proba = proba[documents]
    proba[places, columns] = -1.0
    rivals = proba.argmax(axis=1)
    return Suspects(*doubted, search.classes_[rivals], proba[places, rivals])
