"""Folds are scored by one label a document: several are refused here, before anything is read."""

from __future__ import annotations

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.label_sets import are_label_sets
from sdem_dist.inputs.validation import is_dask

INSTEAD = (
    "cross-validation, searches, learning curves and suspects take one label a document. For several, train MultiLabelNB or "
    "SupervisedLDAClassifier and call evaluate on held-out documents (sdem train, sdem evaluate)"
)
"""What folds are for, and what to do with several labels."""


def refuse_several_labels(X: object, y: object = None) -> None:
    """Raise ValueError if documents have several labels each: folds would take a set's number for a label's.

    Parameters
    ----------
    X : Corpus, matrix or texts
    y : labels, indicator matrix, collections of labels or None
        None with a corpus.
    """
    if isinstance(X, Corpus):
        if X.header.label_sets is not None:
            raise ValueError(f"{X.path} has several labels a document: {INSTEAD}")
    elif y is not None and has_several(y):
        raise ValueError(f"y has several labels a document, or lists of labels: {INSTEAD}")


def has_several(y: object) -> bool:
    """Say whether labels are several a document; of a Dask collection by its shape alone."""
    if is_dask(y):
        return getattr(y, "ndim", 1) == 2
    return are_label_sets(y)
