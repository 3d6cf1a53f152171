"""Raw text becomes exactly what a corpus holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.text.vectorizer import VectorizerSettings, build_vectorizer

if TYPE_CHECKING:
    import scipy.sparse as sp


def transform_texts(
    texts: Sequence[str], settings: VectorizerSettings, vocabulary: Sequence[str] | None = None
) -> sp.csr_matrix:
    """Return the documents `texts` as a corpus of these settings would hold them.

    Parameters
    ----------
    texts : sequence of str
    settings : VectorizerSettings
        Of the corpus or model; its kind is not "matrix".
    vocabulary : sequence of str, or None
        The words of kind "count"; other words are passed over.

    Returns
    -------
    csr_matrix of shape (n_documents, n_features), int64 counts, indices sorted.

    Raises
    ------
    ValueError
        If the settings need a vocabulary that is not given, or something is no text.
    """
    import scipy.sparse as sp

    if isinstance(texts, str):
        raise ValueError("one text is given, where a list of texts belongs")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"text {row} (from 0) is {text!r:.60}, not a text: leave it out, or put '' in its place")
    if settings.kind == "count" and vocabulary is None:
        raise ValueError("text of kind 'count' needs the vocabulary of the corpus")
    words = None if settings.kind == "hashing" or vocabulary is None else list(vocabulary)
    counts = sp.csr_matrix(build_vectorizer(settings, words).transform(texts))
    counts.data = counts.data.astype(np.int64)
    counts.sort_indices()
    return counts
