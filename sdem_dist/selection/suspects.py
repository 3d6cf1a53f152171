"""Documents whose label the folds doubt most: `label_suspects` (confident learning, Northcutt et al. 2021)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.labels import are_label_sets, membership
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.multi_label_nb import MultiLabelNB
from sdem_dist.estimators.naive_bayes import MultinomialNB
from sdem_dist.inputs.validation import positions_of
from sdem_dist.inputs.weighted import coded, members_of
from sdem_dist.selection.search import CorpusSearchCV
from sdem_dist.table import Table

if TYPE_CHECKING:
    from distributed import Client


TABLE_ROWS = 20
"""Documents of the table of suspects."""


class Suspects(NamedTuple):
    """Documents of one label each, the most doubtful first.

    Attributes
    ----------
    documents : ndarray of shape (n_suspects,)
        Of a corpus the id, which is the position in the source unless documents had others; of a matrix the row.
    labels, others : ndarray of shape (n_suspects,)
        The label, and the most probable other class.
    label_proba, other_proba : ndarray of shape (n_suspects,)
        What models that have not seen the document say of both.
    doubt : ndarray of shape (n_suspects,)
        ``1 - p(label)``: the self-confidence of confident learning, the other way round.
    n_documents : int
        Of those that were looked at.
    positions : ndarray of shape (n_suspects,)
        Where each is stored in the corpus, as ``corpus.text(position)`` takes it; of a matrix the row.
    """

    documents: np.ndarray
    labels: np.ndarray
    others: np.ndarray
    label_proba: np.ndarray
    other_proba: np.ndarray
    doubt: np.ndarray
    n_documents: int
    positions: np.ndarray

    def __len__(self) -> int:
        return len(self.documents)

    def __repr__(self) -> str:
        heads = ("document", "label", "rather", "doubt", "p(label)", "p(other)")
        return _table(heads, self[:3], (self.doubt, self.label_proba, self.other_proba))


class LabelSuspects(NamedTuple):
    """Labels of documents that may have several: those present that folds doubt, and those absent that they believe.

    Attributes
    ----------
    documents : ndarray of shape (n_suspects,)
        As of `Suspects`; a document may come several times.
    labels : ndarray of shape (n_suspects,)
    present : ndarray of shape (n_suspects,), bool
        Whether the document has the label.
    label_proba : ndarray of shape (n_suspects,)
        Probability of the label by models that have not seen the document.
    doubt : ndarray of shape (n_suspects,)
        ``1 - p(label)`` of a label that is present, ``p(label)`` of one that is absent.
    n_documents : int
        Of those that were looked at.
    positions : ndarray of shape (n_suspects,)
        Where each is stored in the corpus, as ``corpus.text(position)`` takes it; of a matrix the row.
    """

    documents: np.ndarray
    labels: np.ndarray
    present: np.ndarray
    label_proba: np.ndarray
    doubt: np.ndarray
    n_documents: int
    positions: np.ndarray

    def __len__(self) -> int:
        return len(self.documents)

    def __repr__(self) -> str:
        heads = ("document", "label", "given", "doubt", "p(label)")
        return _table(heads, (self.documents, self.labels, self.said), (self.doubt, self.label_proba))

    @property
    def said(self) -> np.ndarray:
        """What the documents say: that the label "is there", or "is missing"; shape (n_suspects,)."""
        return np.where(self.present, "is there", "is missing")


def _table(heads: tuple[str, ...], names: tuple[np.ndarray, ...], numbers: tuple[np.ndarray, ...]) -> str:
    columns = [column[:TABLE_ROWS].tolist() for column in names]
    columns += [[f"{number:.3f}" for number in column[:TABLE_ROWS].tolist()] for column in numbers]
    n = len(names[0])
    more = f"\n... and {n - TABLE_ROWS:,} more" if n > TABLE_ROWS else ""
    return Table(heads, list(zip(*columns, strict=True)), widths=dict.fromkeys(range(len(names)), 24)).text() + more


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
) -> Suspects | LabelSuspects:
    """Return the documents whose label is doubted most by models that have not seen them.

    Of several labels per document each label is looked at by itself, also one that the document does not have.

    Parameters
    ----------
    X : Corpus, matrix or texts
    y : array-like, default=None
        None with a corpus.
    estimator : classifier, default=None
        None: `MultinomialNB`, of several labels `MultiLabelNB`, with the loss ``-ln p(y | d)``, which suffers less from
        wrong labels than the hinge loss.
    n : int or None, default=100
        Documents, or labels of documents, at most; None: all, of which most are not doubtful.
    cv : int, default=5
        Folds.
    random_state : int, default=0
    n_jobs : int, default=None
    client : distributed.Client, default=None

    Returns
    -------
    Suspects, or LabelSuspects where documents may have several labels
    """
    if n is not None and n < 1:
        raise ValueError(f"n must be positive or None, got {n!r}")
    how: dict[str, Any] = {"cv": cv, "refit": False, "halving": False, "random_state": random_state, "n_jobs": n_jobs}
    search = CorpusSearchCV(usual_estimator(X, y) if estimator is None else estimator, {}, **how)
    search.fit(X, y, client=client)
    proba, classes = search.oof_proba_, search.classes_
    inside = ~np.isnan(proba[:, 0])
    suspects: Suspects | LabelSuspects
    predictions = search.trials_[0].predictions
    if predictions is not None and predictions.members is not None:
        if isinstance(X, Corpus):
            codes, members = X.labels(), members_of(X, None)[0]
        else:
            codes, sets, names = coded(y, None)
            members = membership(sets, names)
        suspects = label_suspects_of(proba, members[codes].toarray(), classes, inside, n)
    else:
        labels = X.labels() if isinstance(X, Corpus) else positions_of(search.estimator, y, classes)
        assert labels is not None
        suspects = suspects_of(proba, np.where(inside, labels, -1), classes, n)
    if not isinstance(X, Corpus):
        return suspects
    ids = X.ids_at(suspects.positions.tolist())  # which their source knows
    return type(suspects)(np.array(ids), *suspects[1:])  # `_replace` asks for the number of columns by `len`


def usual_estimator(X: object, y: object = None) -> EngineEstimator:
    """Return the classifier that finds suspects where none is named."""
    several = X.header.label_sets is not None if isinstance(X, Corpus) else are_label_sets(y)
    return MultiLabelNB(loss="ncll") if several else MultinomialNB(loss="ncll")


def label_suspects_of(
    proba: np.ndarray, members: np.ndarray, classes: np.ndarray, inside: np.ndarray, n: int | None = None
) -> LabelSuspects:
    """Return the suspects among several labels by probabilities out of fold.

    `proba`: shape (n_documents, n_labels). `members`: shape (n_documents, n_labels), which document has which label.
    `classes`: shape (n_labels,). `inside`: bool of shape (n_documents,), which documents are looked at.
    """
    rows = np.flatnonzero(inside)
    proba, present = proba[rows], members[rows] > 0
    doubt = np.where(present, 1.0 - proba, proba).ravel()
    order = np.argsort(-doubt, kind="stable")[:n]
    documents, labels = np.divmod(order, proba.shape[1])
    columns = classes[labels], present.ravel()[order], proba.ravel()[order], doubt[order]
    return LabelSuspects(rows[documents], *columns, len(proba), rows[documents])


def suspects_of(proba: np.ndarray, labels: np.ndarray, classes: np.ndarray, n: int | None = None) -> Suspects:
    """Return the suspects by probabilities out of fold.

    `proba`: shape (n_documents, n_classes).
    `labels`: shape (n_documents,), integers, positions in `classes`; documents of label -1 are not looked at.
    `classes`: shape (n_classes,).
    """
    documents = np.flatnonzero(labels >= 0)
    labels, others, rows = labels[documents], proba[documents], np.arange(len(documents))
    own = others[rows, labels]
    others[rows, labels] = -1.0
    rivals = others.argmax(axis=1)
    order = np.argsort(own - 1.0, kind="stable")[:n]
    positions, names, rival_names = documents[order], classes[labels[order]], classes[rivals[order]]
    other_proba = others[order, rivals[order]]
    return Suspects(positions, names, rival_names, own[order], other_proba, 1.0 - own[order], len(labels), positions)
