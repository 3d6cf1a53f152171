"""Documents whose label the folds doubt most: `label_suspects` (confident learning, Northcutt et al. 2021)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.folds import Part, labels_of
from sdem_dist.inputs.validation import positions_of
from sdem_dist.selection.search import CorpusSearchCV
from sdem_dist.visible import columns, one_line

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.estimators.base import EngineEstimator

SHOWN = 20
"""Documents of the table of suspects."""


class Suspects(NamedTuple):
    """Documents, the most doubtful first.

    Attributes
    ----------
    documents : ndarray of shape (n_suspects,)
        Position in the corpus, or row of the matrix.
    labels, others : ndarray of shape (n_suspects,)
        The label, and the most probable other class.
    label_proba, other_proba : ndarray of shape (n_suspects,)
        What models that have not seen the document say of both.
    doubt : ndarray of shape (n_suspects,)
        ``1 - p(label)``: the self-confidence of confident learning, the other way round.
    n_documents : int
        Of those that were looked at.
    """

    documents: np.ndarray
    labels: np.ndarray
    others: np.ndarray
    label_proba: np.ndarray
    other_proba: np.ndarray
    doubt: np.ndarray
    n_documents: int

    def __len__(self) -> int:
        return len(self.documents)

    def __repr__(self) -> str:
        heads = ("document", "label", "rather", "doubt", "p(label)", "p(other)")
        found = zip(*(column[:SHOWN].tolist() for column in self[:3]), strict=True)
        numbers = zip(
            *(column[:SHOWN].tolist() for column in (self.doubt, self.label_proba, self.other_proba)), strict=True
        )
        rows = [
            (*(one_line(name, 24) for name in names), *(f"{n:.3f}" for n in of))
            for names, of in zip(found, numbers, strict=True)
        ]
        more = f"\n... and {len(self) - SHOWN:,} more" if len(self) > SHOWN else ""
        return columns(heads, rows) + more


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

    Parameters
    ----------
    X : Corpus, matrix or texts
    y : array-like, default=None
        None with a corpus.
    estimator : classifier, default=None
        None: `MultinomialNB` with the loss ``-ln p(y | d)``, which suffers less from wrong labels than the hinge loss.
    n : int or None, default=100
        Documents at most; None: all, of which most are not doubtful.
    cv : int, default=5
        Folds.
    random_state : int, default=0
    n_jobs : int, default=None
    client : distributed.Client, default=None

    Returns
    -------
    Suspects
    """
    from sdem_dist.estimators.naive_bayes import MultinomialNB

    if n is not None and n < 1:
        raise ValueError(f"n must be positive or None, got {n!r}")
    search = CorpusSearchCV(
        MultinomialNB(loss="ncll") if estimator is None else estimator,
        {},
        cv=cv,
        refit=False,
        halving=False,
        random_state=random_state,
        n_jobs=n_jobs,
    ).fit(X, y, client=client)
    labels = labels_of(X) if isinstance(X, Corpus) else positions_of(search.estimator, y, search.classes_)
    assert labels is not None
    labels = np.where(X.mask, labels, -1) if isinstance(X, Part) else labels
    return suspects_of(search.oof_proba_, labels, search.classes_, n)


def suspects_of(proba: np.ndarray, labels: np.ndarray, classes: np.ndarray, n: int | None = None) -> Suspects:
    """Return the suspects by probabilities out of fold.

    Parameters
    ----------
    proba : ndarray of shape (n_documents, n_classes)
    labels : ndarray of shape (n_documents,), integers
        Positions in `classes`; documents of label -1 are not looked at.
    classes : ndarray of shape (n_classes,)
    n : int or None
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
    )
