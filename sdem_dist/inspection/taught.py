"""Whether a model was trained on the documents that it is shown."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.checks import document_frequency
from sdem_dist.corpus.memory import MemoryCorpus
from sdem_dist.storage.checksum import crc32c


def taught(model: Any, documents: Any) -> bool:
    """Return whether a model was trained on documents, by how many of them have each word.

    This can be told for models that weigh words by these numbers; for others the answer is False.

    `model`: fitted estimator.
    `documents`: Corpus, MemoryCorpus or CSR matrix: all that it was trained on, or, if it learned from documents
    without a label, those with one. Of anything else the answer is False: parts of a corpus share its frequencies.
    """
    frequency = model.document_frequency_
    known = isinstance(documents, Corpus | MemoryCorpus) and documents.mask is None
    if frequency is None or not (known or isinstance(documents, sp.csr_matrix)):
        return False
    if isinstance(documents, Corpus):
        if documents.header.document_frequency_checksum == crc32c(frequency):
            return True
    elif np.array_equal(_frequency(documents), frequency):
        return True
    if model.kept_.get("unlabelled_weight") is None:
        return False
    # Words were weighed by the labelled documents; those that only others have count as words of one of them.
    labelled = documents if isinstance(documents, sp.csr_matrix) else documents.labelled()
    n_documents = labelled.shape[0] if isinstance(labelled, sp.csr_matrix) else labelled.n_documents
    if n_documents != model.weighting_.n_documents:
        return False
    return np.array_equal(np.where(frequency > 0, np.maximum(_frequency(labelled), 1), 0), frequency)


def _frequency(documents: Any) -> np.ndarray:
    """Return in how many documents each column occurs."""
    if isinstance(documents, sp.csr_matrix):
        return document_frequency(documents.indices, documents.data, documents.shape[1])
    return np.asarray(documents.document_frequency)
