"""Checks of data in memory: recognition of texts, validation of values and labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.collect import canonical
from sdem_dist.corpus.labels import is_missing
from sdem_dist.corpus.manifest import VALUE_RULE, check_structure, first_invalid
from sdem_dist.documents import Documents
from sdem_dist.text.texts import is_text

if TYPE_CHECKING:
    from sdem_dist.inputs.spec import Estimator


def is_dask(X: object) -> bool:
    return hasattr(X, "__dask_graph__")


def begins_with_text(values: Iterable[object]) -> bool:
    return isinstance(next((v for v in values if not is_missing(v)), None), str)


def are_texts(X: Any) -> bool:
    """Return whether X is a column of texts: a list, array, pandas or Arrow column; first values may be missing."""
    if isinstance(X, np.ndarray) and (X.ndim != 1 or X.dtype != object):
        return X.ndim == 1 and len(X) > 0 and X.dtype.kind in "UT"
    if isinstance(X, list | tuple | np.ndarray) or (hasattr(X, "iloc") and getattr(X, "ndim", 0) == 1):
        return begins_with_text(X)
    return type(X).__module__.partition(".")[0] == "pyarrow" and not hasattr(X, "column_names")


def text_column(X: Any) -> object:
    """Return a column of texts as a list, array, pandas or Arrow column; return anything else unchanged."""
    if isinstance(X, str | list | tuple | np.ndarray | Corpus | Documents) or sp.issparse(X):
        return X
    X = X.collect() if type(X).__name__ == "LazyFrame" else X  # of polars
    n_axes, streams, columns = getattr(X, "ndim", 0), hasattr(X, "__arrow_c_stream__"), list[tuple[Any, Any]]()
    if is_dask(X):
        if n_axes == 2 and hasattr(X, "divisions") and len(X.columns) == 1:
            X, n_axes = X[X.columns[0]], 1
        if n_axes == 1 and hasattr(X, "divisions") and X.dtype.kind not in "biufcmM":
            columns = [("", X.compute())]
    elif hasattr(X, "iloc"):
        columns = [("", X)]
        if n_axes == 2:  # skips columns of numbers, of which there may be many
            kinds = enumerate(dtype.kind for dtype in X.dtypes)
            columns = [(X.columns[i], () if kind in "biufcmM" else X.iloc[:, i]) for i, kind in kinds]
    elif streams or hasattr(X, "__arrow_c_array__"):
        import pyarrow as pa

        try:
            X = X.read_all() if isinstance(X, pa.RecordBatchReader) else X  # it can be read only once
            rows = pa.chunked_array(X if streams else [pa.array(X)])
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise ValueError(f"X is a {type(X).__name__} that Arrow cannot read: {error}") from error
        is_table = pa.types.is_struct(rows.type)
        columns = list(zip(rows.type.names, rows.flatten(), strict=True)) if is_table else [("", rows)]
    elif isinstance(X, Iterator):
        first = next(X, None)
        return [first, *X] if isinstance(first, str) else X  # `refuse_no_documents` rejects other iterators
    elif isinstance(X, Sequence) or type(X).__module__.startswith("pandas"):  # a pandas Index is not a Sequence
        columns = [("", list(X))]

    def holds_texts(column: Any) -> bool:
        if hasattr(column, "type"):  # Arrow
            return is_text(getattr(column.type, "value_type", column.type))
        return begins_with_text(column)

    of_texts = [(name, column) for name, column in columns if holds_texts(column)]
    if of_texts and len(columns) > 1:
        # Suggest the column with the longest texts in the first rows: other columns may be labels.
        longest, _ = max(of_texts, key=lambda pair: sum(len(str(value)) for value in islice(pair[1], 100)))
        which = ("column " if len(of_texts) == 1 else "columns ") + ", ".join(repr(name) for name, _ in of_texts[:5])
        raise ValueError(f"X is a table with texts in {which}: pass one column, such as X[{longest!r}]")
    return of_texts[0][1] if of_texts else X


def refuse_no_documents(X: Any, *, counts: bool = False) -> None:
    """Raise ValueError if X contains no documents or is a path; with `counts`, also for lists of words."""
    has_items = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim > 0)
    word, problem = X if isinstance(X, str) and not any(map(str.isspace, X)) else "", ""
    if type(X).__name__ == "IngestReport":  # by name, since importing its module is slow
        problem = f"X is an ingest report: pass sdem_dist.open_corpus({X.path!r})"
    elif isinstance(X, Path) or "/" in word or Path(word).suffix or os.path.exists(word):
        problem = f"{X!s} is a path: pass sdem_dist.open_corpus(path); sdem_dist.ingest converts files to a corpus"
    elif isinstance(X, str):
        problem = f"X is a single text ({brief(X)}): put it in a list"
    elif X is None or (isinstance(X, list | tuple) and not X):
        problem = f"X contains no documents, got {X}"
    elif (isinstance(X, Iterator | set | frozenset | dict) and not sp.issparse(X)) or hasattr(X, "to_textfiles"):
        kind = type(X).__name__.replace("_", " ")  # sp.dok_matrix is a dict; to_textfiles: a Dask bag
        problem = f"X must be a list or an array, got a {kind}: pass list(X)"
    elif isinstance(X, bytes) or (has_items and any(isinstance(value, bytes) for value in X[:1])):
        problem = "X contains bytes, not texts: decode them, for example [text.decode('utf-8') for text in X]"
    elif not counts or is_dask(X):
        pass
    elif isinstance(X, list | tuple) or (getattr(X, "ndim", 0) == 1 and getattr(X, "dtype", None) in (object, None)):
        longer = next((v for v in X if not isinstance(v, list | tuple) or len(v) > 1), None)
        if isinstance(longer, list | tuple) and any(isinstance(word, str) for word in longer):
            problem = "documents are lists of words: join them, for example [' '.join(words) for words in X]"
    if problem:
        raise ValueError(problem)


def gathered(X: Any, sparse: bool) -> object:
    """Return a Dask collection in memory (arrays for sparse documents, block by block); anything else unchanged."""
    if not is_dask(X):
        return X
    if not sparse or not hasattr(X, "rechunk"):
        return X.compute()
    by_rows = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    return sp.vstack([sp.csr_matrix(block.compute()) for block in by_rows.to_delayed().ravel()], format="csr")


def validated(
    estimator: Estimator, X: Any, y: object = "no_validation", *, reset: bool, **accepted: object
) -> tuple[Any, np.ndarray | None]:
    """Return documents and `y` from `validate_data`; counts as canonical CSR, since bits depend on its order."""
    name, is_sparse, takes_counts = type(estimator).__name__, sp.issparse(X), estimator._layout == "sparse"
    X = X.collect() if type(X).__name__ == "LazyFrame" else X  # of polars
    if is_sparse:
        check_structure(X, "X")
    if takes_counts:
        accepted |= {"accept_sparse": "csr", "dtype": "numeric"}
    else:
        X = estimator._encoded(X, reset=reset)
        accepted |= {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    try:
        checked = validate_data(estimator, X, y, reset=reset, **accepted)
    except (TypeError, ValueError) as error:
        if "Input y contains" in str(error):
            rows = np.asarray(y, object).reshape(len(y), -1).tolist()  # type: ignore[arg-type]
            odd = (i for i, row in enumerate(rows) if any(is_missing(v) or v in (np.inf, -np.inf) for v in row))
            problem = f"{str(error).rstrip('.')}, in row {next(odd, '?')} (counting from 0)"
            raise ValueError(f"{problem}: drop such rows") from None
        values: Any = X if is_sparse else np.asarray(X, object if isinstance(X, list | tuple) else None)  # or ragged
        if takes_counts and values.ndim == 2 and values.dtype.kind == "f" and (values != values).sum():
            problem = f"Input X contains NaN, in row {(values != values).nonzero()[0].min()} (counting from 0)"
            raise ValueError(f"{problem}: {name} needs counts: replace NaN by 0, or drop the document") from None
        texts = [v for v in (values.ravel() if values.dtype.kind in "OU" else ()) if isinstance(v, str)][:1]
        if not (texts or (is_sparse and not takes_counts and hasattr(estimator, "components"))):
            raise
        advice = "needs numbers; for categories, use MixedNB with a pandas, polars or Arrow table"
        if takes_counts:
            advice = "needs word counts, or one column of texts: a list, an array or a Series, such as X[:, 0]"
        elif hasattr(estimator, "components"):
            takes = 'needs numeric tables; components="multinomial" accepts texts and sparse matrices, "mixed" accepts categories'
            advice = f"with {estimator.components} components {takes}"
        problem = f"X contains raw text ({brief(str(texts[0]))})" if texts else "X is a sparse matrix"
        raise ValueError(f"{problem}: {name} {advice}") from None
    X, y = (checked, None) if isinstance(y, str) and y == "no_validation" else checked
    if not takes_counts:
        return estimator._checked(np.asarray(X)), y
    if isinstance(X, np.ndarray):  # scipy.sparse supports neither float16 nor foreign byte orders
        own = X.dtype.newbyteorder("=")
        X = X.astype(np.float32 if own == np.float16 else own, copy=False)
    rows = sp.csr_matrix(X)
    if (invalid := first_invalid(rows.data, rows.indptr)) is not None:
        what = f"{'Negative' if invalid[1] < 0 else 'Too large'} values in data passed to {name} (input X)"
        raise ValueError(f"{what}: row {invalid[0]} (counting from 0) contains {invalid[1]}; {VALUE_RULE}")
    return canonical(rows), y


def checked_labels(estimator: Estimator, y: object) -> object:
    """Return labels for `validate_data`, so that NumPy does not convert numbers among strings to strings."""
    dtype, unlabelled, may_be_unlabelled = getattr(y, "dtype", None), estimator.unlabelled, estimator.spec.unlabelled
    if isinstance(dtype, np.dtypes.StringDType):
        y = np.asarray(y, object)  # scikit-learn does not support StringDType
    elif isinstance(dtype, np.dtype) and dtype.kind != "O" and (dtype.kind != "f" or not np.isnan(np.asarray(y)).any()):
        return y
    values = np.array(y, object)
    if values.ndim != 1 or {str, np.str_}.issuperset(map(type, values)):
        return y
    missing = np.flatnonzero([is_missing(label) for label in values])
    texts = np.array([isinstance(label, str) for label in values], bool)
    if len(missing):
        of_numbers = not texts.any() and len(missing) < len(values)
        if unlabelled is None or is_missing(unlabelled) or (of_numbers and isinstance(unlabelled, str)):
            advice = f"Drop it: {type(estimator).__name__} needs labels"
            if may_be_unlabelled:
                value = repr("" if texts.any() else -1)
                advice = f"Pass unlabelled={value} to train on it anyway, or drop it"
            raise ValueError(f"Row {missing[0]} (counting from 0) of y has no label ({values[missing[0]]}). {advice}")
        values[missing], texts[missing] = unlabelled, isinstance(unlabelled, str)
    if not texts.any():  # pandas columns may hold numbers as objects
        are_alike = {type(label) for label in values} in ({int}, {bool})
        return np.array(values.tolist()) if len(missing) or are_alike else y
    for i in np.flatnonzero(~texts):
        if unlabelled is None or values[i] != unlabelled:
            advice = ", or pass the value for missing labels as unlabelled" * may_be_unlabelled
            problem = f"y mixes strings with other types, such as {values[i]!r} at position {i} (counting from 0)"
            raise ValueError(f"{problem}: use one type{advice}")
    return values


def has_label(estimator: Estimator, labels: np.ndarray) -> np.ndarray:
    """Return which documents have a label, bool: all whose label is not the estimator's `unlabelled`."""
    if estimator.unlabelled is None:
        return np.ones(len(labels), bool)
    texts = all(isinstance(label, str) for label in labels.tolist())  # "-1" from a file equals the parameter -1
    return np.asarray(labels != (str(estimator.unlabelled) if texts else estimator.unlabelled))


def some(values: np.ndarray) -> str:
    examples = ", ".join(str(v) for v in values[:5].tolist())
    return examples + (", ..." if len(values) > 5 else "")


def classes_of_batches(known: np.ndarray | None, classes: object) -> np.ndarray:
    """Return the classes of a model that is fitted batch by batch; `known`: those of earlier batches, if any."""
    distinct = known if classes is None else np.unique(np.asarray(classes))
    if distinct is None:
        raise ValueError("classes must be passed on the first call to partial_fit.")
    if known is not None and not np.array_equal(known, distinct):
        raise ValueError(f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {known!r}")
    if len(distinct) < 2:
        raise ValueError(f"classes contains only one class ({some(distinct)}): a classifier needs at least two")
    return distinct


def seed_of(random_state: object) -> int:
    if isinstance(random_state, int | np.integer):
        if 0 <= random_state < 2**63:
            return int(random_state)
        raise ValueError(f"random_state must be between 0 and 2**63 - 1, got {random_state!r}")
    return int(check_random_state(random_state).randint(2**31 - 1))
