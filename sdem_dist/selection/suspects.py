"""Documents whose label the folds doubt most: `label_suspects` (confident learning, Northcutt et al. 2021)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.base import BaseCorpus
from sdem_dist.corpus.labels import are_label_sets
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.multi_label_nb import MultiLabelNB
from sdem_dist.estimators.naive_bayes import MultinomialNB
from sdem_dist.inputs.validation import positions_of
from sdem_dist.inputs.weighted import indicator_of_labels, members_of
from sdem_dist.reports.report import Table
from sdem_dist.selection.search import CorpusSearchCV

if TYPE_CHECKING:
    from distributed import Client


SHOWN = 20
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


AnySuspects = TypeVar("AnySuspects", Suspects, LabelSuspects)


def _table(heads: tuple[str, ...], named: tuple[np.ndarray, ...], numbers: tuple[np.ndarray, ...]) -> str:
    """Return the first suspects as a table: columns of names, then of numbers."""
    texts = [column[:SHOWN].tolist() for column in named]
    texts += [[f"{number:.3f}" for number in column[:SHOWN].tolist()] for column in numbers]
    n = len(named[0])
    more = f"\n... and {n - SHOWN:,} more" if n > SHOWN else ""
    widths = dict.fromkeys(range(len(named)), 24)
    return Table(heads, list(zip(*texts, strict=True)), widths=widths).text() + more


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
    search = CorpusSearchCV(
        usual_estimator(X, y) if estimator is None else estimator,
        {},
        cv=cv,
        refit=False,
        halving=False,
        random_state=random_state,
        n_jobs=n_jobs,
    ).fit(X, y, client=client)
    out_of_fold, inside = search.trials_[0].predictions, np.ones(len(search.oof_proba_), bool)
    if isinstance(X, BaseCorpus) and X.mask is not None:
        inside = X.mask
    if out_of_fold is not None and out_of_fold.members is not None:
        members = members_of(X, None)[0][X.labels()] if isinstance(X, Corpus) else indicator_of_labels(y, None)
        return _named(label_suspects_of(search.oof_proba_, members.toarray(), search.classes_, inside, n), X)
    labels = X.labels() if isinstance(X, Corpus) else positions_of(search.estimator, y, search.classes_)
    assert labels is not None
    return _named(suspects_of(search.oof_proba_, np.where(inside, labels, -1), search.classes_, n), X)


def _named(found: AnySuspects, X: object) -> AnySuspects:
    """Return suspects with the ids of the documents of a corpus, which their source knows."""
    if not isinstance(X, Corpus):
        return found
    return type(found)(np.array(X.ids_at(found.positions.tolist())), *found[1:])


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
    looked_at = np.flatnonzero(inside)
    proba, present = proba[looked_at], members[looked_at] > 0
    doubt = np.where(present, 1.0 - proba, proba).ravel()
    order = np.argsort(-doubt, kind="stable")[:n]
    documents, labels = np.divmod(order, proba.shape[1])
    columns = classes[labels], present.ravel()[order], proba.ravel()[order], doubt[order]
    positions = looked_at[documents]
    return LabelSuspects(positions, *columns, len(proba), positions)


def suspects_of(proba: np.ndarray, labels: np.ndarray, classes: np.ndarray, n: int | None = None) -> Suspects:
    """Return the suspects by probabilities out of fold.

    `proba`: shape (n_documents, n_classes).
    `labels`: shape (n_documents,), integers, positions in `classes`; documents of label -1 are not looked at.
    `classes`: shape (n_classes,).
    """
    looked_at = np.flatnonzero(labels >= 0)
    labels, proba = labels[looked_at], proba[looked_at]
    rows = np.arange(len(labels))
    own, others = proba[rows, labels], proba.copy()
    others[rows, labels] = -1.0
    rival = others.argmax(axis=1)
    doubt = 1.0 - own
    order = np.argsort(-doubt, kind="stable")[:n]
    return Suspects(
        looked_at[order],
        classes[labels[order]],
        classes[rival[order]],
        own[order],
        others[order, rival[order]],
        doubt[order],
        len(labels),
        looked_at[order],
    )
