"""Raw text where documents go in: lists, arrays, pandas and Arrow columns of texts become counts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp

from sdem_dist.corpus import Corpus
from sdem_dist.documents import Documents
from sdem_dist.inputs.validation import begins_with_text, is_dask
from sdem_dist.text.texts import is_text
from sdem_dist.text.transform import count_texts, learned_texts
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from sdem_dist.inputs.spec import Estimator


def are_texts(X: object) -> bool:
    """Whether documents are a column of texts: a list, an array, a pandas or Arrow column; the first may be missing."""
    if isinstance(X, np.ndarray):
        return X.ndim == 1 and len(X) > 0 and (X.dtype.kind in "UT" or (X.dtype == object and begins_with_text(X)))
    if isinstance(X, list | tuple) or (hasattr(X, "iloc") and getattr(X, "ndim", 0) == 1):
        return begins_with_text(X)  # type: ignore[arg-type]
    return type(X).__module__.partition(".")[0] == "pyarrow" and not hasattr(X, "column_names")


def text_column(X: Any) -> object:
    """Return any column of texts as a list, an array, or a pandas or Arrow column; what is no such column as it is.

    It may be a sequence, a generator, a frame of one column, a Dask column, or a column by Arrow's interface.
    """
    if isinstance(X, str | list | tuple | np.ndarray) or sp.issparse(X) or isinstance(X, Corpus | Documents):
        return X
    if is_dask(X):
        is_column = getattr(X, "ndim", 0) == 1 and hasattr(X, "to_delayed") and hasattr(X, "divisions")
        column: Any = X.compute() if is_column and X.dtype.kind not in "biufcmM" else None
        return column if column is not None and begins_with_text(column) else X
    if hasattr(X, "iloc"):
        column = X.iloc[:, 0] if getattr(X, "ndim", 0) == 2 and X.shape[1] == 1 else X
        return column if getattr(column, "ndim", 0) == 1 and begins_with_text(column) else X
    if hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__"):
        return _column_of_arrow(X)
    if isinstance(X, Iterator):
        first = next(X, None)
        return [first, *X] if isinstance(first, str) else X  # refused by name
    if isinstance(X, Sequence) or type(X).__module__.startswith("pandas"):  # of pandas an index
        return list(X) if begins_with_text(X) else X
    return X


def _column_of_arrow(X: Any) -> object:
    """Return the column of strings, or the only one of a table, that an object hands over by Arrow's interface."""
    import pyarrow as pa

    def holds_texts(kind: pa.DataType) -> bool:
        return is_text(getattr(kind, "value_type", kind))

    if isinstance(X, pa.RecordBatchReader):  # it can be read once
        X = X.read_all()
    for read in (pa.chunked_array, pa.table) if hasattr(X, "__arrow_c_stream__") else (pa.array, pa.record_batch):
        try:
            column = read(X)
        except (pa.ArrowException, TypeError, ValueError):
            continue
        if hasattr(column, "column_names"):
            names = [field.name for field in column.schema if holds_texts(field.type)]
            if names and len(column.column_names) > 1:
                raise ValueError(
                    f"X is a table with texts in columns {names[:5]}: pass one column, such as X[{names[0]!r}]"
                )
            column = column.column(0) if names else None
        if column is not None and holds_texts(column.type):  # a struct holds the rows of a table
            if not pa.types.is_dictionary(column.type):
                return column
            return column.cast(pa.dictionary(column.type.index_type, pa.large_string())).cast(pa.large_string())
    return X


def learned_counts(
    estimator: Estimator, X: object, sample_weight: object, batches: bool
) -> tuple[sp.csr_matrix, dict[str, Any]]:
    """Return the counts of training texts, and what a `Source` keeps of these: vocabulary, vectorizer, transformer.

    No word is learned of documents of weight 0. `batches`: the texts are the first batch of `partial_fit`.
    """
    settings = estimator.vectorizer or VectorizerSettings()
    if batches and settings.kind == "count":
        warnings.warn(
            "partial_fit takes the words of its first batch as the vocabulary, and leaves out words that come later. "
            "vectorizer=sdem_dist.text.VectorizerSettings(kind='hashing', n_features=2**18) takes any words",
            stacklevel=4,
        )
    if sample_weight is not None:
        weights, values = np.asarray(sample_weight), np.asarray(X, object)
        if weights.shape == values.shape and not weights.all():  # what is wrong is said where weights are checked
            X = np.where(weights == 0, "", values)
    texts, of_texts = cast("Sequence[str]", X), dict[str, Any](vectorizer=dict(settings.to_json()))
    if settings.kind == "count":
        counts, of_texts["vocabulary"], of_texts["transformer"] = learned_texts(texts, settings)
    else:
        counts, _ = count_texts(texts, settings)
    if counts.shape[1] == 0:
        raise ValueError(
            "none of the texts holds a word: the vectorizer's token_pattern and stop_words decide what one is"
        )
    return counts, of_texts
