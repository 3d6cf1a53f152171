"""Sets of labels: what the classes of a corpus are where a document may have several labels, or none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus.labels import plain_label
from sdem_dist.corpus.manifest import ClassLabel, LabelSet
from sdem_dist.errors import CorpusError

if TYPE_CHECKING:
    import scipy.sparse as sp


def label_set(labels: Iterable[object]) -> LabelSet:
    """Return labels as a set: sorted, each once; raise CorpusError for what is not a label, or cannot be sorted."""
    try:
        return tuple(sorted({plain_label(label) for label in labels}))  # type: ignore[type-var]
    except TypeError as error:
        raise CorpusError(f"the labels of a document are of kinds that cannot be sorted together: {error}") from error


def are_label_sets(y: object) -> bool:
    """Say whether labels are several a document: an indicator matrix, dense or sparse, or collections of labels."""
    from scipy.sparse import issparse

    if issparse(y):
        return True
    if (shape := getattr(y, "shape", None)) is not None and len(shape) == 2:
        return bool(shape[1] > 1)
    dtype = getattr(y, "dtype", np.dtype(object))
    if dtype != np.dtype(object) or isinstance(y, str) or not isinstance(y, Iterable):
        return False
    first: Any = next(iter(y), None)
    first = first.as_py() if hasattr(first, "as_py") else first  # of an Arrow array
    return isinstance(first, tuple | set | frozenset | list) or np.shape(cast(ArrayLike, first))[:1] > (1,)


def indicator_of(y: Any) -> sp.csr_matrix | None:
    """Return an indicator matrix as CSR, or None where `y` holds collections of labels.

    A list of lists of equal length that hold zeros and ones is an indicator matrix, as for scikit-learn.

    Raises ValueError: a matrix holds other numbers than zeros and ones.
    """
    from scipy.sparse import csr_matrix, issparse

    if not issparse(y):
        kinds = {type(row) for row in y} if isinstance(y, list) else set()
        if (kinds and not kinds <= {list, np.ndarray}) or (isinstance(y, np.ndarray | Sequence) and _ragged(y)):
            return None
        table = np.asarray(y)
        if table.ndim != 2 or table.dtype.kind not in "buif":
            return None
        if not np.isin(table, (0, 1)).all():
            if isinstance(y, list):
                return None
            raise ValueError("y is a matrix of several columns but not an indicator matrix: its values must be 0 and 1")
        y = table
    found = csr_matrix(y)
    if (found.data != 1).any():
        found.eliminate_zeros()
        if (found.data != 1).any():
            raise ValueError("y is a sparse matrix but not an indicator matrix: its values must be 0 and 1")
    found.sort_indices()
    return found


def _ragged(rows: Any) -> bool:
    return len({np.size(row) if not isinstance(row, str | set | frozenset) else -1 for row in rows}) != 1


def sets_of(y: Any, names: Sequence[ClassLabel] | None = None) -> list[LabelSet]:
    """Return the labels of each document as a set.

    `y`: indicator matrix of shape (n_documents, n_labels), dense or sparse, or sequence of collections of labels.
    `names`: of the columns of an indicator matrix; None: their numbers, from 0.
    Raises CorpusError: something is not a label; the message names the document.
    Raises ValueError: a matrix is not an indicator matrix, or has not a column for each name.
    """
    indicator = indicator_of(y)
    if indicator is not None:
        n = indicator.shape[1]
        if names is not None and len(names) != n:
            raise ValueError(f"y has {n} columns, and there are {len(names)} labels: give a column for each")
        named = range(n) if names is None else names
        places, bounds = indicator.indices.tolist(), indicator.indptr.tolist()
        return [tuple(named[k] for k in places[a:b]) for a, b in pairwise(bounds)]
    found = []
    for i, labels in enumerate(y):
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            raise CorpusError(f"document {i} has the label {labels!r}, and others have collections of labels")
        try:
            found.append(label_set(labels))
        except CorpusError as error:
            raise CorpusError(f"document {i}: {error}") from error
    return found


def as_column(y: object) -> object:
    """Return labels as one value per document: sets as an array of tuples, lists as an array, all else as it is."""
    if not are_label_sets(y):
        if isinstance(y, list | tuple) and 0 < sum(isinstance(label, str) for label in y) < len(y):
            return np.asarray(y, object)  # otherwise NumPy turns NaN and numbers among texts into texts
        return y
    return column_of(sets_of(y))


def column_of(sets: Sequence[object]) -> np.ndarray:
    """Return values, tuples among them, as an array of objects of shape (n,)."""
    column = np.empty(len(sets), object)
    for i, labels in enumerate(sets):
        column[i] = labels
    return column


def all_labels(sets: Iterable[LabelSet]) -> tuple[ClassLabel, ...]:
    """Return the labels that occur in sets, sorted."""
    return label_set(label for labels in sets for label in labels)


def membership(sets: Sequence[LabelSet], labels: Sequence[ClassLabel]) -> sp.csr_matrix:
    """Return which label is in which set, uint8 of shape (n_sets, n_labels).

    Raises KeyError: a set has a label that is not among `labels`.
    """
    from scipy.sparse import csr_matrix

    place = {label: i for i, label in enumerate(labels)}
    indices = [place[label] for found in sets for label in found]
    indptr = np.cumsum([0, *map(len, sets)])
    return csr_matrix((np.ones(len(indices), np.uint8), indices, indptr), shape=(len(sets), len(labels)))


def name_of(labels: LabelSet) -> str:
    """Return the name of a set of labels while texts are read: a JSON array."""
    return json.dumps(labels, ensure_ascii=False, separators=(",", ":"))


def set_named(name: str) -> LabelSet:
    """Return the set of a name."""
    return tuple(json.loads(name))
