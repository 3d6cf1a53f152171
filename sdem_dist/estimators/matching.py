"""Whether documents on disk are such as a model was trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.errors import CorpusError

if TYPE_CHECKING:
    from sdem_dist.estimators.inputs import Source

CHOOSING = ("min_df", "max_df", "max_features")
"""Settings of text that only choose the vocabulary, which is compared itself."""


def check_compatible(estimator: Any, source: Source) -> None:
    """Check that a corpus numbers its words and its classes as a fitted model does.

    Raises
    ------
    CorpusError
    """
    check_words(estimator, source)
    if hasattr(estimator, "classes_") and source.classes.tolist() != estimator.classes_.tolist():
        where = getattr(source.corpus, "path", "these documents")
        raise CorpusError(
            f"the classes of {where} ({some(source.classes)}) are not the model's ({some(estimator.classes_)}); "
            "ingest it with those of the training corpus (sdem ingest --vocabulary-from)"
        )


def check_words(estimator: Any, source: Source) -> None:
    """Check that a corpus numbers its words as a fitted model does.

    Raises
    ------
    CorpusError
    """
    where = getattr(source.corpus, "path", "these documents")
    if source.n_features != estimator.n_features_in_:
        raise CorpusError(
            f"{where} has {source.n_features} words, the model {estimator.n_features_in_}; "
            "ingest it with the vocabulary of the training corpus (sdem ingest --vocabulary-from)"
        )
    theirs, ours = source.vocabulary, estimator.vocabulary_
    if theirs is not None and ours is not None and theirs != ours:
        raise CorpusError(
            f"the vocabulary of {where} does not match the model's; "
            "ingest it with the vocabulary of the training corpus (sdem ingest --vocabulary-from)"
        )
    _check_making(where, source, estimator)


def _check_making(where: str, source: Source, estimator: Any) -> None:
    """Check that text became numbers in one way, as far as both sides say."""
    made, trained = source.vectorizer, estimator.vectorizer_
    if made is None or trained is None or (made.get("kind") == "matrix") != (trained.get("kind") == "matrix"):
        return  # numbers that somebody else made from text do not say how
    odd = [name for name in trained if name not in CHOOSING and made.get(name) != trained[name]]
    if odd or (source.idf is not None and not np.array_equal(source.idf, estimator.idf_)):
        raise CorpusError(
            f"the numbers of {where} were made from text in another way than the model's ({', '.join(odd) or 'idf'}); "
            "ingest it with the settings of the training corpus (sdem ingest --vocabulary-from)"
        )


def some(values: np.ndarray) -> str:
    """Return the first few of some classes, for messages."""
    shown = ", ".join(str(v) for v in values[:5].tolist())
    return shown + (", ..." if len(values) > 5 else "")
