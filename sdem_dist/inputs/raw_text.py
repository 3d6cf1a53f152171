"""Raw text where documents go in: lists, arrays, pandas and Arrow columns of texts become counts."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.labels import is_missing
from sdem_dist.documents import Documents
from sdem_dist.inputs.validation import is_dask
from sdem_dist.text.texts import is_text
from sdem_dist.text.transform import TextTransformer, count_texts, learned_texts
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from sdem_dist.inputs.spec import Estimator


def are_texts(X: object) -> bool:
    """Whether documents are a column of texts: a list, an array, a pandas or Arrow column; the first may be missing."""
    if isinstance(X, np.ndarray):
        return X.ndim == 1 and len(X) > 0 and (X.dtype.kind in "UT" or (X.dtype == object and _begins_with_text(X)))
    if isinstance(X, list | tuple) or (hasattr(X, "iloc") and getattr(X, "ndim", 0) == 1):
        return _begins_with_text(X)  # type: ignore[arg-type]
    return type(X).__module__.partition(".")[0] == "pyarrow" and not hasattr(X, "column_names")


def text_column(X: Any) -> object:
    """Return any column of texts as a list, an array, or a pandas or Arrow column; what is no such column as it is.

    Such columns are sequences and generators of texts, frames of one column, a Dask column, and all that hands over one
    column of strings by Arrow's interface: polars, pyarrow, Hugging Face, DuckDB.
    """
    if isinstance(X, str | list | tuple | np.ndarray) or sp.issparse(X) or isinstance(X, Corpus | Documents):
        return X
    if is_dask(X):
        is_column = getattr(X, "ndim", 0) == 1 and hasattr(X, "to_delayed") and hasattr(X, "divisions")
        column: Any = X.compute() if is_column and X.dtype.kind not in "biufcmM" else None
        return column if column is not None and _begins_with_text(column) else X
    if hasattr(X, "iloc"):
        column = X.iloc[:, 0] if getattr(X, "ndim", 0) == 2 and X.shape[1] == 1 else X
        return column if getattr(column, "ndim", 0) == 1 and _begins_with_text(column) else X
    if hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__"):
        return _column_of_arrow(X)
    if isinstance(X, Iterator):
        first = next(X, None)
        return [first, *X] if isinstance(first, str) else X  # refused by name
    if isinstance(X, Sequence) or type(X).__module__.startswith("pandas"):  # of pandas an index
        return list(X) if _begins_with_text(X) else X
    return X


def _column_of_arrow(X: Any) -> object:
    """Return a column of strings, or the only one of a table, that an object hands over by Arrow's interface.

    Raises ValueError: there are several columns, and texts among them.
    """
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


def _begins_with_text(values: Iterable[object]) -> bool:
    return isinstance(next((v for v in values if not is_missing(v)), None), str)


def refuse_other_texts(X: Any) -> None:
    """Raise ValueError for lists of words, and for a DataFrame with columns of texts."""
    if is_dask(X):
        return
    if hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2:
        names = [name for name in X.columns if X[name].ndim == 1 and _begins_with_text(X[name])]
        if names:
            what = f"column {names[0]!r}" if len(names) == 1 else f"columns {', '.join(map(repr, names[:5]))}"
            # The column with the longest texts among the first rows: the others may be labels.
            longest = max(names, key=lambda name: sum(len(v) for v in X[name].head(100) if isinstance(v, str)))
            raise ValueError(f"X is a DataFrame with texts in {what}: pass one column, such as df[{longest!r}]")
    elif isinstance(X, list | tuple) or (getattr(X, "ndim", 0) == 1 and getattr(X, "dtype", None) in (object, None)):
        first = next((v for v in X if not isinstance(v, list | tuple) or len(v) > 1), None)
        if isinstance(first, list | tuple) and any(isinstance(word, str) for word in first):
            raise ValueError("documents are lists of words: join them, such as [' '.join(words) for words in X]")


def learned_counts(
    estimator: Estimator, X: object, sample_weight: object, batches: bool
) -> tuple[sp.csr_matrix, list[str] | None, dict[str, object], TextTransformer | None]:
    """Return the counts of training texts, their vocabulary, the settings, and a counter of other texts.

    Where words are hashed there is neither a vocabulary nor the last. No word is learned of documents of weight 0.

    `batches`: the texts are the first batch of `partial_fit`.
    Raises ValueError: something is not text, or there are no words at all.
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
    texts = cast("Sequence[str]", X)
    words: list[str] | None = None
    transformer: TextTransformer | None = None
    if settings.kind == "count":
        counts, words, transformer = learned_texts(texts, settings)
    else:
        counts, _ = count_texts(texts, settings)
    if counts.shape[1] == 0:
        raise ValueError(
            "none of the texts holds a word: the vectorizer's token_pattern and stop_words decide what one is"
        )
    return counts, words, dict(settings.to_json()), transformer
