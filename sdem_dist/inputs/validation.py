"""What is in memory, checked: values, labels, and whether a corpus has the classes and words of a model."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from sdem_dist.corpus.labels import is_missing, plain_label
from sdem_dist.corpus.manifest import VALUE_RULE, check_structure, first_invalid
from sdem_dist.counted import counted, one_line
from sdem_dist.documents import Documents
from sdem_dist.errors import CorpusError

if TYPE_CHECKING:
    from sdem_dist.inputs.spec import Estimator, Source

FEW_CLASSES = 10
"""Up to this many classes labels are not doubted, however few the documents."""
ONLY_CHOOSING = ("min_df", "max_df", "max_features")
"""Settings of text that only choose the vocabulary, which is compared itself."""


def is_dask(X: object) -> bool:
    return hasattr(X, "__dask_graph__")


def kind_of(value: object) -> str:
    return f"a {type(value).__name__.replace('_', ' ')}"


def refuse_address(client: object) -> None:
    if isinstance(client, str):
        raise ValueError(f"client is the address {client!r}: pass a distributed.Client of it")


def begins_with_text(values: Iterable[object]) -> bool:
    """Say whether the first value that is not missing is a text."""
    return isinstance(next((v for v in values if not is_missing(v)), None), str)


def refuse_no_documents(X: Any, *, counts: bool = False) -> None:
    """Raise ValueError for what has no documents: paths, texts, bytes, bags, generators, `ingest` reports, nothing.

    `counts`: or none of counts: lists of words, and a DataFrame with columns of texts.
    """
    has_items = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim > 0)
    first = X[:1] if has_items else ()
    word = X if isinstance(X, str) and not any(c.isspace() for c in X) else ""
    problem = ""
    if type(X).__name__ == "IngestReport":  # importing its module takes long
        problem = f"X is the report of an ingest: pass sdem_dist.open_corpus({X.path!r})"
    elif isinstance(X, Path) or "/" in word or Path(word).suffix or os.path.exists(word):
        problem = (
            f"{X!s} is a path: open a corpus with sdem_dist.open_corpus and pass what that returns; "
            "sdem_dist.ingest makes a corpus of a file of documents"
        )
    elif type(X).__module__.startswith("dask.bag"):
        problem = (
            "X is a Dask bag, whose documents are Python objects: pass X.compute(), or make a corpus of their files, which "
            "workers read (sdem_dist.ingest)"
        )
    elif isinstance(X, str):
        problem = f"X is one text ({brief(X)}): put it in a list"
    elif X is None:
        problem = "X is None: pass the documents"
    elif isinstance(X, Iterator | set | frozenset | dict) and not sp.issparse(X):  # some sparse matrices are dicts
        problem = f"X is {kind_of(X)}, not a list or an array: pass list(...) of the documents"
    elif isinstance(X, list | tuple) and not X:
        problem = "X holds no documents"
    elif isinstance(X, bytes) or any(isinstance(value, bytes) for value in first):
        problem = "X holds bytes, not texts: decode them, such as [text.decode('utf-8') for text in X]"
    elif not counts or is_dask(X):
        pass
    elif hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2:
        names = [name for name in X.columns if X[name].ndim == 1 and begins_with_text(X[name])]
        if names:
            columns = f"column {names[0]!r}" if len(names) == 1 else f"columns {', '.join(map(repr, names[:5]))}"
            # The column with the longest texts among the first rows: the others may be labels.
            longest = max(names, key=lambda name: sum(len(v) for v in X[name].head(100) if isinstance(v, str)))
            problem = f"X is a DataFrame with texts in {columns}: pass one column, such as df[{longest!r}]"
    elif isinstance(X, list | tuple) or (getattr(X, "ndim", 0) == 1 and getattr(X, "dtype", None) in (object, None)):
        longer = next((v for v in X if not isinstance(v, list | tuple) or len(v) > 1), None)
        if isinstance(longer, list | tuple) and any(isinstance(word, str) for word in longer):
            problem = "documents are lists of words: join them, such as [' '.join(words) for words in X]"
    if problem:
        raise ValueError(problem)


def gathered(X: object, sparse: bool) -> object:
    """Return a Dask collection in memory, an array of sparse rows a block at a time; anything else as it is."""
    if not is_dask(X):
        return X
    array: sp.csr_matrix = X
    if not sparse or not hasattr(array, "rechunk"):
        return array.compute()
    by_rows = array.rechunk({1: -1}) if array.numblocks[1] > 1 else array
    blocks = [sp.csr_matrix(block.compute()) for block in by_rows.to_delayed().ravel()]
    return sp.vstack(blocks, format="csr")


def validated(
    estimator: Estimator, X: object, y: object = "no_validation", *, reset: bool, **accepted: object
) -> tuple[Any, np.ndarray | None]:
    """Return `X` and `y` as scikit-learn's `validate_data` does; of texts the message says what to do."""
    name, is_sparse, takes_counts = type(estimator).__name__, sp.issparse(X), estimator._layout == "sparse"
    if is_sparse:
        check_structure(X, "X")
    how: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    if takes_counts:
        how = {"accept_sparse": "csr", "dtype": "numeric"}
    try:
        checked = validate_data(estimator, X, y, reset=reset, **how, **accepted)
    except (TypeError, ValueError):
        if takes_counts and (row := _nan_row(X)) is not None:
            raise ValueError(
                f"Input X contains NaN, in row {row} (from 0): {name} takes counts, so put 0 there, or leave the document out"
            ) from None
        advice = f"{name} takes counts of words, or one column of texts: a list, an array or a Series, such as X[:, 0]"
        if not takes_counts:
            advice = f"{name} takes tables of numbers: make numbers of it first (MixedNB takes pandas tables with categories)"
        if not takes_counts and hasattr(estimator, "components"):
            takes = 'takes tables of numbers; components="multinomial" takes texts'
            advice = f"{name} of {estimator.components} components {takes}"
        if is_sparse and hasattr(estimator, "components"):
            raise ValueError(f"X is a sparse matrix: {advice}, and sparse matrices") from None
        values = np.asarray(X, object if isinstance(X, list | tuple) else None)  # a list may be ragged
        texts = (v for v in (values.ravel() if values.dtype.kind in "OU" else ()) if isinstance(v, str))
        if (text := next(texts, None)) is None:
            raise
        raise ValueError(f"X holds raw text ({brief(str(text))}): {advice}") from None
    return (checked, None) if isinstance(y, str) and y == "no_validation" else checked


def _nan_row(X: object) -> int | None:
    if sp.issparse(X):
        rows = sp.coo_matrix(X)
        nan_rows = rows.row[rows.data != rows.data]
        return int(nan_rows.min()) if len(nan_rows) else None
    values = np.asarray(X) if hasattr(X, "dtype") else np.empty(0)
    if values.dtype.kind != "f" or values.ndim != 2:
        return None
    return next(iter(np.flatnonzero(np.isnan(values).any(axis=1)).tolist()), None)


def checked_csr(estimator: Estimator, X: object) -> sp.csr_matrix:
    """Return a matrix as CSR with distinct ascending indices and without stored zeros; random numbers depend on it."""
    if isinstance(X, np.ndarray) and X.dtype == np.float16:
        X = X.astype(np.float32)  # scipy.sparse has no half floats
    rows = sp.csr_matrix(X)
    if (row := first_invalid(rows.data, rows.indptr)) is not None:
        what = "Negative values" if row[1] < 0 else "Too large values"
        raise ValueError(
            f"{what} in data passed to {type(estimator).__name__} (input X): row {row[0]} (from 0) holds {row[1]}; {VALUE_RULE}"
        )
    if not (rows.has_canonical_format and rows.data.all()):
        rows = rows.astype(np.int64) if rows.data.dtype.kind in "ui" else rows.copy()  # sums may need more bytes
        rows.sum_duplicates()
        rows.eliminate_zeros()
    return rows


def as_documents(rows: sp.csr_matrix | Documents) -> Documents:
    """Return a checked CSR matrix, or what a corpus returned, as unlabelled documents of floats."""
    data = rows.data if rows.data.dtype in (np.float32, np.float64) else rows.data.astype(np.float64)
    n_features = rows.n_features if isinstance(rows, Documents) else rows.shape[1]
    indices, writeable = rows.indices, rows.indices.dtype == np.int32 and rows.indices.flags.writeable
    indices = indices.view(np.uint32) if writeable else indices.astype(np.uint32)
    return Documents(data, indices, rows.indptr.astype(np.int64), n_features)


def checked_labels(estimator: Estimator, y: object) -> object:
    """Return labels that `validate_data` takes, such that none is changed: NumPy makes texts of numbers among texts."""
    dtype, unlabelled, may_be_unlabelled = getattr(y, "dtype", None), estimator.unlabelled, estimator.spec.unlabelled
    if isinstance(dtype, np.dtypes.StringDType):
        y = np.asarray(y, object)  # scikit-learn does not know it
    elif isinstance(dtype, np.dtype) and dtype.kind != "O" and (dtype.kind != "f" or not np.isnan(np.asarray(y)).any()):
        return y
    values = np.asarray(y, object)
    if values.ndim != 1:
        return y
    texts = np.array([isinstance(label, str) for label in values], bool)
    missing = np.flatnonzero([is_missing(label) for label in values])
    if len(missing):
        of_texts = bool(texts.any())
        numbers = not of_texts and len(missing) < len(values)
        if unlabelled is None or is_missing(unlabelled) or (numbers and isinstance(unlabelled, str)):
            advice = f"leave such documents out: {type(estimator).__name__} takes labelled ones"
            if may_be_unlabelled:
                example = "" if of_texts else -1
                advice = f"set unlabelled={example!r}, and None and NaN count as no label; or leave such documents out"
            raise ValueError(f"y has no label at position {missing[0]} (from 0) but {values[missing[0]]}: {advice}")
        values = values.copy()
        values[missing], texts[missing] = unlabelled, isinstance(unlabelled, str)
        y = values = values if of_texts else np.array(values.tolist())
    others = np.flatnonzero(~texts)
    if len(others) == len(values) and {type(label) for label in values} in ({int}, {bool}):
        return np.array(values.tolist())  # as a column of pandas has them after some steps
    if not 0 < len(others) < len(values):
        return y
    odd = next((i for i in others if unlabelled is None or values[i] != unlabelled), None)
    if odd is not None:
        raise ValueError(
            f"y mixes texts with others, first {values[odd]!r} at position {odd} (from 0): make all of one kind"
            + (", or name what stands for no label with unlabelled" if may_be_unlabelled else "")
        )
    return values


def has_label(estimator: Estimator, labels: np.ndarray) -> np.ndarray:
    """Return which documents have a label, bool: the others have what the estimator's `unlabelled` names."""
    if estimator.unlabelled is None:
        return np.ones(len(labels), bool)
    texts = all(isinstance(label, str) for label in labels.tolist())  # "-1" of a file is the -1 of a parameter
    return np.asarray(labels != (str(estimator.unlabelled) if texts else estimator.unlabelled))


def positions_of(estimator: Estimator, y: object, classes: np.ndarray) -> np.ndarray:
    """Return the positions of labels in memory among sorted classes; -1 where there is no label, or another."""
    labels = np.asarray(checked_labels(estimator, y)).ravel()
    labelled = np.flatnonzero(has_label(estimator, labels))
    places = np.minimum(np.searchsorted(classes, labels[labelled]), len(classes) - 1)
    positions = np.full(len(labels), -1)
    positions[labelled] = np.where(classes[places] == labels[labelled], places, -1)
    return positions


def some(values: np.ndarray) -> str:
    examples = ", ".join(str(v) for v in values[:5].tolist())
    return examples + (", ..." if len(values) > 5 else "")


def classes_of_batches(known: np.ndarray | None, classes: object) -> np.ndarray:
    """Return the classes of a model that is fitted batch by batch; `known` are those of the batches before, if any."""
    if known is None:
        if classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        known = np.unique(np.asarray(classes))
    elif classes is not None and not np.array_equal(known, np.unique(np.asarray(classes))):
        raise ValueError(f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {known!r}")
    if len(known) < 2:
        raise ValueError(f"classes has one class only ({some(known)}): a classifier needs at least two classes")
    return known


def seed_of(random_state: object) -> int:
    """Return an integer seed from what scikit-learn accepts as ``random_state``, or raise ValueError."""
    if isinstance(random_state, int | np.integer):
        if 0 <= random_state < 2**63:
            return int(random_state)
        raise ValueError(f"random_state must be between 0 and 2**63 - 1, got {random_state!r}")
    return int(check_random_state(random_state).randint(2**31 - 1))


def doubt(n_classes: int, n_documents: int, example: object) -> str:
    """Return what is odd about labels with more than half as many classes as documents; else nothing."""
    if n_classes <= max(n_documents / 2, FEW_CLASSES):
        return ""
    return f"{counted(n_classes, 'distinct label')} of {counted(n_documents, 'document')}, such as {one_line(example, 40)!r}"


def check_labels(labels: np.ndarray, *, training: bool) -> np.ndarray:
    """Return the distinct labels, sorted; ValueError: they are none. In training warn where they are doubtful."""
    if labels.dtype.kind not in "biuU":  # other dtypes are classes: a check takes long
        with warnings.catch_warnings():
            # Ours says more, and comes where scikit-learn's does, or with fewer documents.
            warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%", UserWarning)
            try:
                check_classification_targets(labels)
            except ValueError:
                for label in labels if labels.dtype == object else ():  # such as datetime.date: says what can be done
                    plain_label(label)
                raise
    classes = np.unique(labels)
    if training and len(classes) and (odd := doubt(len(classes), len(labels), classes[0])):
        warnings.warn(f"{odd}: is y the labels, and X the documents? fit(X, y) takes documents first", stacklevel=4)
    return classes


def check_classes(classes: np.ndarray, source: Source) -> None:
    """Raise CorpusError if a corpus numbers its classes in another way than a model does."""
    if source.classes.tolist() != classes.tolist():
        raise CorpusError(
            f"the classes of {source.name} ({some(source.classes)}) are not the model's ({some(classes)}); ingest it with the "
            "classes of the training corpus (sdem ingest --vocabulary-from)"
        )


def check_words(estimator: Estimator, source: Source) -> None:
    """Raise CorpusError if a corpus numbers its words, or makes numbers of text, in another way than a model does."""
    theirs, ours, what, problem = source.vocabulary, estimator.vocabulary_, "vocabulary", ""
    if source.n_features != estimator._n_columns:
        problem = f"{source.name} has {source.n_features} words, the model {estimator._n_columns}"
    elif theirs is not None and ours is not None and theirs != ours:
        problem = f"the vocabulary of {source.name} does not match the model's"
    elif (settings := source.vectorizer) is not None and (trained := estimator.vectorizer_) is not None:
        odd = [name for name in trained if name not in ONLY_CHOOSING and settings.get(name) != trained[name]]
        # numbers that others made from text do not tell how
        if odd and (settings.get("kind") == "matrix") == (trained.get("kind") == "matrix"):
            way, what = f"in another way than the model's ({', '.join(odd)})", "settings"
            problem = f"the numbers of {source.name} were made from text {way}"
    if problem:
        advice = f"ingest it with the {what} of the training corpus (sdem ingest --vocabulary-from)"
        raise CorpusError(f"{problem}; {advice}")
