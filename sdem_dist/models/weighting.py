"""Weighting of counts; a model stores these settings and uses them for prediction."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sdem_dist.documents import Documents, offsets_of
from sdem_dist.kernels.csr import unsigned
from sdem_dist.kernels.rows import FORMS, weigh
from sdem_dist.records import record


@record
class Weighting:
    """Weighting of counts, such as tf-idf."""

    # "counts": x; "log": ln(1 + x); "binary": 1; "tfidf": sublinear tf-idf, that is (1 + ln x) times the smooth idf of
    form: str = "counts"  # scikit-learn, ``ln((1 + n) / (1 + df)) + 1``
    norm: float = 0.0  # Euclidean length of each document; 0: not normalised
    scale: float = 1.0  # factor of every entry if documents are not normalised
    min_df: int = 1  # columns in fewer training documents are dropped
    orders: tuple[int, int] | None = None  # shortest and longest n-grams; None: all orders of the corpus
    of_characters: bool = False  # n-grams of characters, not of words
    n_documents: int = 0  # n, number of documents of the training corpus
    boundary: int = 0  # first column of n-grams of characters, which are normalised separately; 0: words only

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ValueError(f"unknown weighting {self.form!r}")
        if not (0 <= self.norm <= 1e30 and 0 < self.scale <= 1e30):  # entries are float32
            raise ValueError(f"the norm {self.norm} or the scale {self.scale} of the weighting is out of range")
        if not (0 <= self.n_documents < 1 << 62 and 0 <= self.boundary < 1 << 62):
            raise ValueError(f"n_documents={self.n_documents} or boundary={self.boundary} is out of range")

    @property
    def chooses(self) -> bool:
        return self.min_df > 1 or self.orders is not None

    @property
    def norm_of_a_kind(self) -> float:
        """Length of a document in the columns of words, and in those of characters; the total length is `norm`."""
        return self.norm / 2**0.5 if self.boundary else self.norm

    def factors(self, document_frequency: np.ndarray, vocabulary: Sequence[str] | None = None) -> np.ndarray:
        """Return the factor of each column, float32, by its document frequency; `orders` need the `vocabulary`."""
        idf = np.ones(len(document_frequency))
        if self.form == "tfidf":
            idf = np.log((1.0 + self.n_documents) / (1.0 + document_frequency)) + 1.0
        idf[document_frequency < self.min_df] = 0.0
        if self.orders is not None:
            assert vocabulary is not None
            lengths = [len(term) if self.of_characters else term.count(" ") + 1 for term in vocabulary]
            dropped = (np.array(lengths) < self.orders[0]) | (np.array(lengths) > self.orders[1])
            dropped[self.boundary or len(dropped) :] = False
            idf[dropped] = 0.0
        return idf.astype(np.float32)

    def apply(self, documents: Documents, factors: np.ndarray) -> Documents:
        data, indices, indptr = documents.data, unsigned(documents.indices), documents.indptr
        chosen = factors[indices] > 0 if self.chooses else None
        if chosen is not None and not chosen.all():
            data, indices = data[chosen], indices[chosen]
            indptr = offsets_of(chosen)[indptr]
        weights = np.empty(len(data), np.float32)
        how = FORMS[self.form], self.norm_of_a_kind, self.scale, self.boundary
        data = data.astype(np.uint16) if data.dtype == np.uint8 else data  # the kernel is not compiled for uint8
        weigh(data, indices, indptr, factors, *how, weights)
        return replace(documents, data=weights, indices=indices, indptr=indptr)
