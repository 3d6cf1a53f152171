"""Weighting of counts; a model stores these settings and predicts with them."""

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

    # x, ln(1 + x), 1, or sublinear tf-idf: (1 + ln x) times scikit-learn's smooth idf, ``ln((1 + n) / (1 + df)) + 1``
    form: str = "counts"  # or "log", "binary", "tfidf"
    norm: float = 0.0  # Euclidean length of each document; 0 leaves it as it is
    scale: float = 1.0  # multiplies every entry where documents keep their length
    min_df: int = 1  # columns that occur in fewer training documents are left out
    orders: tuple[int, int] | None = None  # shortest and longest n-grams; None: all that the corpus has
    of_characters: bool = False  # n-grams are of characters, not of words
    n_documents: int = 0  # n of the training corpus
    boundary: int = 0  # the first column of n-grams of characters, which have their own length; 0: words alone

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ValueError(f"unknown weighting {self.form!r}")
        if not (0 <= self.norm <= 1e30 and 0 < self.scale <= 1e30):  # entries become float32
            raise ValueError(f"the norm {self.norm} or the scale {self.scale} of the weighting is out of range")
        if not (0 <= self.n_documents < 1 << 62 and 0 <= self.boundary < 1 << 62):
            raise ValueError(f"the weighting has n_documents={self.n_documents}")

    @property
    def chooses(self) -> bool:
        return self.min_df > 1 or self.orders is not None

    @property
    def norm_of_a_kind(self) -> float:
        """Length of a document in the columns of each kind, such that the total length is `norm`."""
        return self.norm / 2**0.5 if self.boundary else self.norm

    def factors(self, document_frequency: np.ndarray, vocabulary: Sequence[str] | None = None) -> np.ndarray:
        """Return the factor of each column, float32, from its document frequency; `vocabulary`: for `orders`."""
        idf = np.ones(len(document_frequency))
        if self.form == "tfidf":
            idf = np.log((1.0 + self.n_documents) / (1.0 + document_frequency)) + 1.0
        idf[document_frequency < self.min_df] = 0.0
        if self.orders is not None:
            assert vocabulary is not None
            lengths = [len(term) if self.of_characters else term.count(" ") + 1 for term in vocabulary]
            others = (np.array(lengths) < self.orders[0]) | (np.array(lengths) > self.orders[1])
            others[self.boundary or len(others) :] = False
            idf[others] = 0.0
        return idf.astype(np.float32)

    def apply(self, documents: Documents, factors: np.ndarray) -> Documents:
        data, indices, indptr = documents.data, unsigned(documents.indices), documents.indptr
        chosen = factors[indices] > 0 if self.chooses else None
        if chosen is not None and not chosen.all():
            data, indices = data[chosen], indices[chosen]
            indptr = offsets_of(chosen)[indptr]
        weights = np.empty(len(data), np.float32)
        how = FORMS[self.form], self.norm_of_a_kind, self.scale, self.boundary
        data = data.astype(np.uint16) if data.dtype == np.uint8 else data  # one dtype of small counts is compiled
        weigh(data, indices, indptr, factors, *how, weights)
        return replace(documents, data=weights, indices=indices, indptr=indptr)
