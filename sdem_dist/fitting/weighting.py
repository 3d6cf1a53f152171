"""Documents with the weighting that they are trained with, and the unit of steps over a sample of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from sdem_dist.corpus import DenseMemoryCorpus
from sdem_dist.documents import Documents
from sdem_dist.fitting.defaults import NORM, SAMPLE_DOCUMENTS
from sdem_dist.models.unit import unit_of
from sdem_dist.models.weighting import Weighting

if TYPE_CHECKING:
    from sdem_dist.inputs.spec import Source


def with_frequencies(source: Source, weighting: Weighting) -> Source:
    """Return training documents with the weighting that their document frequencies make."""
    assert not isinstance(source.corpus, DenseMemoryCorpus)
    corpus = source.corpus
    # Documents of weight 0, which those outside of a fold have, count nowhere.
    n_documents = source.n_documents if corpus.weights is None else int(np.count_nonzero(corpus.weights))
    # Frequencies count the documents of damaged shards that training leaves out, too.
    counted = max(n_documents, int(corpus.document_frequency.max(initial=0)))
    return replace(source, weighting=replace(weighting, n_documents=counted), trained_on=source.corpus)


def sample(source: Source) -> Documents:
    """Return the first documents of a source, as they are weighed: those of a corpus are in random order."""
    return cast("Documents", source.documents.read(0, min(SAMPLE_DOCUMENTS, source.n_documents)))


def scaled(source: Source) -> Source:
    """Return documents with the factor that gives them a mean squared length of `NORM` squared."""
    documents = sample(source)
    mean = unit_of(documents, np.ones(documents.n_features)).mean_square
    assert source.weighting is not None
    return replace(source, weighting=replace(source.weighting, scale=NORM / mean**0.5))
