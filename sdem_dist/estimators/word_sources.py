"""Documents of words that have real targets, or nothing to be predicted, checked and brought to one shape."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from sdem_dist.corpus import Corpus, MemoryCorpus
from sdem_dist.corpus.layout import SPARSE
from sdem_dist.errors import CorpusError
from sdem_dist.estimators import inputs
from sdem_dist.estimators.inputs import Source
from sdem_dist.estimators.matching import check_compatible
from sdem_dist.estimators.settings import seed_of
from sdem_dist.estimators.validated import refuse_targets_of_text, validated


def word_source(
    estimator: Any, X: Any, y: Any, sample_weight: Any, client: Any, *, reset: bool, targets: bool
) -> Source:
    """Return documents as a source: to train on with `reset`, else to score with the fitted estimator.

    With `reset` the estimator takes note of the features, as `validate_data` does, and of whether a target is `_single`.

    Parameters
    ----------
    targets : bool
        Whether `y`, or the corpus, has to bring targets; `y` is ignored if not.
    """
    inputs.refuse_path(X)
    if isinstance(X, Corpus):
        if sample_weight is not None or (targets and y is not None):
            raise ValueError("a corpus brings its targets and has no sample weights: leave y and sample_weight at None")
        source = _of_corpus(estimator, X, targets)
        if reset:
            estimator._single = X.header.n_targets == 1
        else:
            check_compatible(estimator, source)
        return source
    if client is not None:
        raise ValueError(
            "a Dask cluster needs a corpus that its workers can read: write one with sdem_dist.write_corpus"
        )
    X = inputs.gather_blocks(X) if inputs.is_dask_array(X) else X
    if targets:
        if y is None:
            raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
        y = y.compute() if inputs.is_dask_array(y) else y
        refuse_targets_of_text(y)
        X, y = validated(
            estimator, X, y, accept_sparse="csr", dtype="numeric", multi_output=True, y_numeric=True, reset=reset
        )
        if reset:
            estimator._single = y.ndim == 1  # as with scikit-learn, a column in is a column out
    else:
        X, y = validated(estimator, X, accept_sparse="csr", dtype="numeric", reset=reset), None
    X = inputs.non_negative_csr(estimator, X)
    weights = None
    if sample_weight is not None:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    seed = seed_of(estimator.random_state) if reset else 0
    corpus = MemoryCorpus(X, None, (), weights=weights, targets=y, random_state=seed, shuffle=reset)
    weight = float(X.shape[0] if weights is None else weights.sum())
    return _source(corpus, corpus.header.weighted, weight)


def _of_corpus(estimator: Any, corpus: Corpus, targets: bool) -> Source:
    header = corpus.header
    name = type(estimator).__name__
    if header.layout != SPARSE:
        raise CorpusError(f"{corpus.path} holds {header.layout} documents, and {name} takes {SPARSE} ones")
    if targets and not header.n_targets:
        raise CorpusError(
            f"{corpus.path} has no targets, which {name} needs: ingest it with --targets, or write it with "
            "write_corpus(targets=)"
        )
    return replace(
        _source(corpus, header.weighted, float(header.n_documents)),
        vocabulary_hash=header.vocabulary_hash,
        vocabulary=corpus.vocabulary(),
        vectorizer=header.vectorizer,
        idf=corpus.idf(),
    )


def _source(corpus: Any, weighted: bool, weight: float) -> Source:
    header = corpus.header
    return Source(
        corpus=corpus,
        classes=np.empty(0),
        class_counts=(),
        n_features=header.n_features,
        n_documents=header.n_documents,
        weight=weight,
        identity=header.uid,
        weighted=weighted,
    )
