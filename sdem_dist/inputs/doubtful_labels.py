"""Labels with so many classes that they may be something else: texts, ids, or the targets of a regression."""

import warnings

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from sdem_dist.corpus.labels import plain_label
from sdem_dist.counted import counted
from sdem_dist.visible import one_line

FEW_CLASSES = 10
"""Up to this many classes labels are not doubted, however few the documents."""


def doubt(n_classes: int, n_documents: int, example: object) -> str:
    """Return what is odd about labels with more than half as many classes as documents; else nothing."""
    if n_classes <= max(n_documents / 2, FEW_CLASSES):
        return ""
    return f"{counted(n_classes, 'distinct label')} of {counted(n_documents, 'document')}, such as {one_line(example, 40)!r}"


def check_labels(labels: np.ndarray, *, training: bool) -> np.ndarray:
    """Return the distinct labels, sorted.

    `labels`: shape (n_documents,).
    `training`: warn where they are doubtful.
    Raises ValueError, CorpusError: they are no labels, such as numbers with a fraction, or dates.
    """
    if labels.dtype.kind not in "biuU":  # other dtypes are classes: a check takes long
        _check_kind(labels)
    found = np.unique(labels)
    if training and len(found) and (odd := doubt(len(found), len(labels), found[0])):
        warnings.warn(f"{odd}: is y the labels, and X the documents? fit(X, y) takes documents first", stacklevel=4)
    return found


def _check_kind(labels: np.ndarray) -> None:
    with warnings.catch_warnings():
        # Ours says more, and comes where scikit-learn's does, or with fewer documents.
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%", UserWarning)
        try:
            check_classification_targets(labels)
        except ValueError:
            if labels.dtype != object:
                raise
            for label in labels:  # such as datetime.date; the message says what can be done
                plain_label(label)
            raise
