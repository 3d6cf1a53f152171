"""Documents whose label the folds doubt most: `label_suspects` (confident learning, Northcutt et al. 2021)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.labels import are_label_sets, membership
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.label_naive_bayes import MultiLabelNB
from sdem_dist.estimators.naive_bayes import MultinomialNB
from sdem_dist.inputs.source import coded, members_of
from sdem_dist.inputs.validation import positions_of
from sdem_dist.selection.search import CorpusSearchCV
from sdem_dist.table import Table

if TYPE_CHECKING:
    from distributed import Client


TABLE_ROWS = 20  # documents of the table of suspects


class Suspects(NamedTuple):
    """Documents whose label is doubted, the most doubtful first.

    Where documents may have several labels, these are labels of documents: those present that folds doubt, and those
    absent that they believe. A document may then come several times.

    Attributes
    ----------
    documents : ndarray of shape (n_suspects,)
        Of a corpus the id, which is the position in the source unless documents had others; of a matrix the row.
    labels : ndarray of shape (n_suspects,)
    label_proba : ndarray of shape (n_suspects,)
        Probability of the label by models that have not seen the document.
    doubt : ndarray of shape (n_suspects,)
        ``1 - p(label)``: the self-confidence of confident learning, the other way round; ``p(label)`` of one that is
        absent.
    n_documents : int
        Of those that were looked at.
    positions : ndarray of shape (n_suspects,)
        Where each is stored in the corpus, as ``corpus.text(position)`` takes it; of a matrix the row.
    others, other_proba : ndarray of shape (n_suspects,), or None
        The most probable other class, and its probability; None where documents may have several labels.
    present : ndarray of shape (n_suspects,), bool, or None
        Whether the document has the label, where documents may have several.
    """

    documents: np.ndarray
    labels: np.ndarray
    label_proba: np.ndarray
    doubt: np.ndarray
    n_documents: int
    positions: np.ndarray
    others: np.ndarray | None = None
    other_proba: np.ndarray | None = None
    present: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def table(self) -> Table:
        """The first twenty."""
        columns: dict[str, np.ndarray] = {"document": self.documents, "label": self.labels}
        numbers = {"doubt": self.doubt, "p(label)": self.label_proba}
        if self.others is not None and self.other_proba is not None:
            columns, numbers = columns | {"rather": self.others}, numbers | {"p(other)": self.other_proba}
        else:
            columns["given"] = np.where(np.asarray(self.present), "is there", "is missing")
        texts = [column[:TABLE_ROWS].tolist() for column in columns.values()]
        texts += [[f"{number:.3f}" for number in column[:TABLE_ROWS]] for column in numbers.values()]
        more = f"... and {len(self) - TABLE_ROWS:,} more" if len(self) > TABLE_ROWS else ""
        rows = list(zip(*texts, strict=True))
        return Table([*columns, *numbers], rows, note=more, widths=dict.fromkeys(range(3), 24))

    def __repr__(self) -> str:
        return self.table.text()

    def _repr_html_(self) -> str:
        return self.table.html()


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
    Suspects
        Shows itself as a table.
    """
    if n is not None and n < 1:
        raise ValueError(f"n must be positive or None, got {n!r}")
    on_disk = X if isinstance(X, Corpus) else None
    if estimator is None:
        several = are_label_sets(y) if on_disk is None else on_disk.header.label_sets is not None
        estimator = MultiLabelNB(loss="ncll") if several else MultinomialNB(loss="ncll")
    how: dict[str, Any] = {"cv": cv, "refit": False, "halving": False, "random_state": random_state, "n_jobs": n_jobs}
    search = CorpusSearchCV(estimator, {}, **how).fit(X, y, client=client)
    proba, classes, predictions = search.oof_proba_, search.classes_, search.trials_[0].predictions
    members = None
    if predictions is not None and predictions.members is not None:
        if on_disk is not None:
            labels, members = on_disk.labels(), members_of(on_disk, None)[0]
        else:
            labels, sets, names = coded(y, None)
            members = membership(sets, names)
        members = members[labels].toarray() > 0
    else:
        labels = positions_of(search.estimator, y, classes) if on_disk is None else on_disk.labels()
    unscored, looked_at = np.isnan(proba[:, 0]), np.asarray(labels) if members is None else 0
    suspects = suspects_of(proba, np.where(unscored, -1, looked_at), classes, n, members)
    if on_disk is None:
        return suspects
    ids = on_disk.ids_at(suspects.positions.tolist())  # which their source knows
    return Suspects(np.array(ids), *suspects[1:])  # `_replace` asks for the number of columns by `len`


def suspects_of(
    proba: np.ndarray, labels: np.ndarray, classes: np.ndarray, n: int | None = None, members: np.ndarray | None = None
) -> Suspects:
    """Return the suspects by probabilities out of fold, shape (n_documents, n_classes).

    `labels`: shape (n_documents,), integers, positions in `classes`; documents of label -1 are not looked at.
    `members`: shape (n_documents, n_classes), bool: where documents may have several labels, which one has which.
    """
    rows = np.flatnonzero(labels >= 0)
    proba, labels = proba[rows], labels[rows]
    if members is None:
        doubt = 1.0 - proba[np.arange(len(rows)), labels]
        order = np.argsort(-doubt, kind="stable")[:n]
        documents, columns = order, labels[order]
    else:
        doubt = np.where(members[rows], 1.0 - proba, proba).ravel()
        order = np.argsort(-doubt, kind="stable")[:n]
        documents, columns = np.divmod(order, proba.shape[1])
    own, positions = proba[documents, columns], rows[documents]
    doubted = (positions, classes[columns], own, doubt[order], len(rows), positions)
    if members is not None:
        return Suspects(*doubted, present=members[positions, columns])
    proba, places = proba[documents], np.arange(len(documents))
    proba[places, columns] = -1.0
    rivals = proba.argmax(axis=1)
    return Suspects(*doubted, classes[rivals], proba[places, rivals])
