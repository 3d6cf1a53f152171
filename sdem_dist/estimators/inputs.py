"""What users hand to an estimator, checked and brought to one shape."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from sdem_dist.corpus import Corpus, DenseMemoryCorpus, MemoryCorpus
from sdem_dist.corpus.entries import FIT, unfit_row
from sdem_dist.corpus.layout import DENSE, SPARSE
from sdem_dist.corpus.tables import numbering
from sdem_dist.documents import Documents
from sdem_dist.errors import CorpusError
from sdem_dist.estimators.labels import checked_labels
from sdem_dist.estimators.matching import check_compatible, some
from sdem_dist.estimators.validated import validated


@dataclass(frozen=True)
class Source:
    """Documents with labels, ready for the engine."""

    corpus: Corpus | MemoryCorpus | DenseMemoryCorpus
    classes: np.ndarray
    class_counts: tuple[float, ...]
    """Documents of each class, by weight."""
    n_features: int
    n_documents: int
    weight: float
    """Documents by weight."""
    identity: str
    """Hash of the content, for checkpoints."""
    weighted: bool
    """Entries are real weights rather than counts."""
    vocabulary_hash: str | None = None
    vocabulary: list[str] | None = None
    vectorizer: dict[str, Any] | None = None
    idf: np.ndarray | None = None


def is_dask_array(X: Any) -> bool:
    """Say whether `X` is a dask collection, without importing dask."""
    return hasattr(X, "__dask_graph__")


def refuse_path(X: Any) -> None:
    """Raise ValueError for the path of a corpus."""
    if isinstance(X, str | Path):
        raise ValueError(f"{X!s} is a path: open it with sdem_dist.open_corpus and pass what that returns")


def training_source(estimator: Any, X: Any, y: Any, sample_weight: Any, client: Any) -> Source:
    """Return what `fit` trains on."""
    refuse_path(X)
    if isinstance(X, Corpus):
        if y is not None or sample_weight is not None:
            raise ValueError("a corpus brings its labels and has no sample weights: leave y and sample_weight at None")
        return _more_than_one_class(corpus_source(X, estimator))
    if client is not None:
        raise ValueError(
            "a Dask cluster trains from a corpus that its workers can read: write one with sdem_dist.write_corpus "
            "and fit that"
        )
    X, y = matrix_and_labels(estimator, X, y, reset=True)
    return _more_than_one_class(_memory_source(estimator, X, y, None, sample_weight))


def partial_source(estimator: Any, X: Any, y: Any, classes: Any, sample_weight: Any, first: bool) -> Source:
    """Return what `partial_fit` trains on: some documents, with all classes."""
    if first and classes is None:
        raise ValueError("classes must be passed on the first call to partial_fit.")
    known = np.unique(classes) if first else estimator.classes_
    if not first and classes is not None and not np.array_equal(known, np.unique(classes)):
        raise ValueError(f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {known!r}")
    if len(known) < 2:
        raise ValueError(f"classes has one class only ({some(known)}): a classifier needs at least two classes")
    X, y = matrix_and_labels(estimator, X, y, reset=first)
    return _memory_source(estimator, X, y, known, sample_weight)


def evaluation_source(estimator: Any, X: Any, y: Any, client: Any) -> Source:
    """Return documents to score with a fitted estimator; their classes must be its own."""
    refuse_path(X)
    if isinstance(X, Corpus):
        if y is not None:
            raise ValueError("a corpus brings its labels: leave y at None")
        source = corpus_source(X, estimator)
        check_compatible(estimator, source)
        return _some_labelled(source)
    if client is not None:
        raise ValueError("a Dask cluster scores a corpus that its workers can read: write one first")
    X, y = matrix_and_labels(estimator, X, y, reset=False)
    return _some_labelled(_memory_source(estimator, X, y, estimator.classes_, None, shuffle=False))


def unlabelled_source(estimator: Any, X: Any, sample_weight: Any, client: Any, *, reset: bool) -> Source:
    """Return documents whose labels, if they have any, play no part; with `reset` to train on, else to score."""
    refuse_path(X)
    if isinstance(X, Corpus):
        if sample_weight is not None:
            raise ValueError("a corpus has no sample weights: leave sample_weight at None")
        source = replace(corpus_source(X, estimator, labelled=False), classes=np.empty(0), class_counts=())
        if not reset:
            check_compatible(estimator, source)
        return source
    if client is not None:
        raise ValueError("a Dask cluster reads a corpus that its workers can read: write one first")
    if is_dask_array(X):
        X = gather_blocks(X)
    X = non_negative_csr(estimator, validated(estimator, X, **_accepted(estimator), reset=reset))
    weights = None
    if sample_weight is not None:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    corpus = MemoryCorpus(X, np.zeros(X.shape[0], np.int32), (0,), weights=weights, shuffle=False)
    return Source(
        corpus=corpus,
        classes=np.empty(0),
        class_counts=(),
        n_features=X.shape[1],
        n_documents=X.shape[0],
        weight=float(X.shape[0] if weights is None else weights.sum()),
        identity=corpus.header.uid,
        weighted=bool(np.any(X.data != np.rint(X.data))),
    )


def corpus_source(corpus: Corpus, estimator: Any, *, labelled: bool = True) -> Source:
    """Return a corpus on disk as a source.

    Raises
    ------
    CorpusError
        It has no labels where it is to be `labelled`, or the estimator is not of documents of its layout.
    """
    header = corpus.header
    layout = SPARSE if estimator._sparse else DENSE
    if header.layout != layout:
        raise CorpusError(
            f"{corpus.path} holds {header.layout} documents, and {type(estimator).__name__} takes {layout} ones: "
            "write the corpus with dense=True for models of dense features, and without for models of counts"
        )
    if labelled and not header.classes:
        raise CorpusError(
            f"{corpus.path} has no labels, which {type(estimator).__name__} needs to train and to be evaluated; "
            "MultinomialMixture and LatentDirichletAllocation do without, SupervisedLDARegressor learns targets"
        )
    return Source(
        corpus=corpus,
        classes=np.array(header.classes),
        class_counts=tuple(float(c) for c in header.class_counts),
        n_features=header.n_features,
        n_documents=header.n_documents,
        weight=float(header.n_documents),
        identity=header.uid,
        weighted=header.weighted,
        vocabulary_hash=header.vocabulary_hash,
        vocabulary=corpus.vocabulary(),
        vectorizer=None if numbering(header.vectorizer) is not None else header.vectorizer,  # a table is no text
        idf=corpus.idf(),
    )


def matrix_and_labels(estimator: Any, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray]:
    """Return a checked CSR matrix, or a checked dense table, and checked labels."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    if is_dask_array(X):
        X = gather_blocks(X) if estimator._sparse else X.compute()
    if is_dask_array(y):
        y = y.compute()
    if not estimator._sparse:
        X = estimator._encoded(X, reset=reset)
    X, y = validated(estimator, X, checked_labels(estimator, y), **_accepted(estimator), reset=reset)
    check_classification_targets(y[_is_labelled(estimator, y)])
    return (non_negative_csr(estimator, X) if estimator._sparse else estimator._checked(X)), y


def _accepted(estimator: Any) -> dict[str, Any]:
    """Return what `validate_data` is to let through."""
    if estimator._sparse:
        return {"accept_sparse": "csr", "dtype": "numeric"}
    return {"dtype": np.float64, "ensure_all_finite": "allow-nan"}


def non_negative_csr(estimator: Any, X: Any) -> sp.csr_matrix:
    """Return `X` as CSR with distinct ascending indices and without stored zeros.

    What is random depends on what a document holds, and a stored zero is nothing.

    Raises
    ------
    ValueError
        A count is negative or beyond float32; the message names the row.
    """
    X = sp.csr_matrix(X)
    if (row := unfit_row(X.data, X.indptr)) is not None:
        what = "Negative values" if row[1] < 0 else "Too large values"
        raise ValueError(
            f"{what} in data passed to {type(estimator).__name__} (input X): row {row[0]} (from 0) holds {row[1]}; {FIT}"
        )
    if not X.has_canonical_format or (X.data == 0).any():
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def gather_blocks(X: Any) -> sp.csr_matrix:
    """Return a dask array of rows as one CSR matrix, computed a block at a time."""
    blocks = X.rechunk({1: -1}).to_delayed().ravel() if X.numblocks[1] > 1 else X.to_delayed().ravel()
    return sp.vstack([sp.csr_matrix(block.compute()) for block in blocks], format="csr")


def prediction_documents(estimator: Any, X: Any) -> Any:
    """Return unlabelled documents in memory, or a dense table, checked against a fitted estimator.

    Raises
    ------
    ValueError
        They are a corpus, a path or raw text, or unfit numbers.
    """
    refuse_path(X)
    if isinstance(X, Corpus):
        rows = "to_csr()" if estimator._sparse else "values"
        raise ValueError(
            f"{X!r} is predicted piece by piece: pass X.read(start, stop).{rows} for documents start to stop; "
            "evaluate(X) and score(X) take it whole"
        )
    if not estimator._sparse:
        X = estimator._encoded(X, reset=False)
    X = validated(estimator, X, **_accepted(estimator), reset=False)
    if not estimator._sparse:
        return estimator._checked(X)
    X = non_negative_csr(estimator, X)
    data = X.data if X.dtype in (np.float32, np.float64) else X.data.astype(np.float64)
    return Documents(data, X.indices.astype(np.uint32), X.indptr.astype(np.int64), X.shape[1])


def _is_labelled(estimator: Any, y: np.ndarray) -> np.ndarray:
    unlabelled = getattr(estimator, "unlabelled", None)
    return np.ones(len(y), bool) if unlabelled is None else np.asarray(y != unlabelled)


def _memory_source(
    estimator: Any,
    X: Any,
    y: np.ndarray,
    classes: np.ndarray | None,
    sample_weight: Any,
    shuffle: bool = True,
) -> Source:
    labelled = _is_labelled(estimator, y)
    found = np.unique(y[labelled])
    if classes is None:
        classes = found
    else:
        unknown = np.setdiff1d(found, classes)
        if len(unknown):
            raise ValueError(f"y has labels that are not among the classes: {some(unknown)}")
    positions = np.full(len(y), -1)
    positions[labelled] = np.searchsorted(classes, y[labelled])
    weights = (
        None
        if sample_weight is None
        else _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    )
    from sdem_dist.estimators.settings import seed_of

    corpus_type = MemoryCorpus if estimator._sparse else DenseMemoryCorpus
    corpus = corpus_type(
        X,
        positions.astype(np.int32),
        tuple(classes.tolist()),
        weights=weights,
        random_state=seed_of(estimator.random_state) if shuffle else 0,
        shuffle=shuffle,
    )
    counts = np.bincount(positions[labelled], None if weights is None else weights[labelled], len(classes))
    return Source(
        corpus=corpus,
        classes=classes,
        class_counts=tuple(counts.tolist()),
        n_features=X.shape[1],
        n_documents=X.shape[0],
        weight=float(X.shape[0] if weights is None else weights.sum()),
        identity=corpus.header.uid,
        weighted=bool(np.any(X.data != np.rint(X.data))) if estimator._sparse else True,
    )


def _some_labelled(source: Source) -> Source:
    if not any(source.class_counts):
        raise ValueError("none of the documents to be scored has a label: accuracy and losses need some that have")
    return source


def _more_than_one_class(source: Source) -> Source:
    present = np.count_nonzero(source.class_counts)
    if present < 2:
        where = getattr(source.corpus, "path", None)
        what = f"{where} has" if where else "y has"
        found = some(source.classes[np.flatnonzero(source.class_counts)])
        raise ValueError(f"{what} one class only ({found}): a classifier needs at least two classes")
    return source
