"""Checks that documents on disk match those that a model was trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.errors import CorpusError
from sdem_dist.inputs.validation import some

if TYPE_CHECKING:
    from sdem_dist.inputs.spec import Estimator, Source

CHOOSING = ("min_df", "max_df", "max_features")
"""Settings of text that only choose the vocabulary, which is compared itself."""
_AGAIN = "ingest it with the {} of the training corpus (sdem ingest --vocabulary-from)"


def check_classes(classes: np.ndarray, source: Source) -> None:
    """Raise CorpusError if a corpus numbers its classes in another way than a model does."""
    if source.classes.tolist() != classes.tolist():
        raise CorpusError(
            f"the classes of {source.name} ({some(source.classes)}) are not the model's ({some(classes)}); "
            "ingest it with those of the training corpus (sdem ingest --vocabulary-from)"
        )


def check_words(estimator: Estimator, source: Source) -> None:
    """Raise CorpusError if a corpus numbers its words, or makes numbers of text, in another way than a model does."""
    if source.n_features != estimator._n_columns:
        raise CorpusError(
            f"{source.name} has {source.n_features} words, the model {estimator._n_columns}; {_AGAIN.format('vocabulary')}"
        )
    theirs, ours = source.vocabulary, estimator.vocabulary_
    if theirs is not None and ours is not None and theirs != ours:
        raise CorpusError(f"the vocabulary of {source.name} does not match the model's; {_AGAIN.format('vocabulary')}")
    made, trained = source.vectorizer, estimator.vectorizer_
    if made is None or trained is None or (made.get("kind") == "matrix") != (trained.get("kind") == "matrix"):
        return  # numbers that others made from text do not tell how
    odd = [name for name in trained if name not in CHOOSING and made.get(name) != trained[name]]
    if odd:
        raise CorpusError(
            f"the numbers of {source.name} were made from text in another way than the model's "
            f"({', '.join(odd)}); {_AGAIN.format('settings')}"
        )
