"""Lloyd's k-means over all documents, a pass an iteration; spherical k-means where rows have length 1."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.learners.k_means_start import means, squared_distances, squared_lengths, sums_by_label
from sdem_dist.learners.protocol import Lane
from sdem_dist.models.fields import Field
from sdem_dist.records import record


class KMeansState(NamedTuple):
    """Where the centres are."""

    centres: np.ndarray  # shape (n_clusters, n_features), float64; of a table less its `location`
    counts: np.ndarray  # documents of each cluster, by weight, in the last iteration, shape (n_clusters,)
    t: float  # documents seen, by weight


class KMeansStatistics(NamedTuple):
    """Sums over documents by their nearest centre."""

    sums: np.ndarray  # shape (n_clusters, n_features)
    counts: np.ndarray  # shape (n_clusters,)
    weight: float


@record
@dataclass(frozen=True)
class KMeansLearner:
    """The learner of k-means."""

    n_clusters: int
    n_features: int
    spherical: bool = False  # rows and centres have length 1 (Dhillon and Modha 2001)
    location: tuple[float, ...] = ()  # subtracted from the columns of a table, so that squares do not cancel; empty: 0

    state_type = KMeansState
    n_labels = 0  # labels play no part

    @property
    def cache_key(self) -> str:
        """Prepared documents depend on what is done to rows."""
        return f"k-means {self.spherical} {self.location}"

    @property
    def width(self) -> int:
        """Columns of the documents."""
        return self.n_features

    def state_fields(self) -> dict[str, Field]:
        """Return what each array of a state is."""
        k = self.n_clusters
        return {"centres": Field((k, self.n_features)), "counts": Field((k,), 0.0), "t": Field((), 0.0)}

    def check_state(self, state: KMeansState) -> None:
        """Raise ValueError unless the location has a number for each column."""
        if len(self.location) not in (0, self.n_features):
            raise ValueError("the location does not match the columns")

    def init(self) -> KMeansState:
        """Return all centres at 0."""
        return self.start(np.zeros((self.n_clusters, self.n_features)))

    def start(self, centres: np.ndarray) -> KMeansState:
        """Return the state at some centres."""
        return KMeansState(centres, np.zeros(self.n_clusters), 0.0)

    def prepare(self, documents: Documents | DenseDocuments) -> Documents:
        """Return rows as k-means sees them: sparse, float64, of length 1 if it is spherical.

        Raises ValueError: a value is missing.
        """
        if isinstance(documents, DenseDocuments):
            values = np.asarray(documents.values, np.float64)
            if np.isnan(values).any():
                row = int(np.isnan(values).any(axis=1).argmax())
                raise ValueError(f"row {row} (from 0) has a missing value (NaN), and k-means takes none: fill it in")
            table = sp.csr_matrix(values - np.asarray(self.location) if self.location else values)
            documents = Documents(table.data, table.indices, table.indptr, self.n_features, weights=documents.weights)
        data = documents.data.astype(np.float64)
        if self.spherical:
            rows = np.repeat(np.arange(documents.n_documents), np.diff(documents.indptr))
            lengths = np.sqrt(np.bincount(rows, data**2, documents.n_documents))
            data /= np.where(lengths > 0, lengths, 1.0)[rows]
        return Documents(data, documents.indices, documents.indptr, self.n_features, weights=documents.weights)

    def distances(self, state: KMeansState, documents: Documents) -> np.ndarray:
        """Return the squared distances of prepared documents from the centres, shape (n_documents, n_clusters)."""
        X = documents.to_csr()
        return squared_distances(X, squared_lengths(X), state.centres)

    def map(self, state: KMeansState, documents: Documents, lane: Lane) -> KMeansStatistics:
        """Return the sums of one lane by the nearest centre."""
        labels, weights = self.distances(state, documents).argmin(axis=1), _weights(documents)
        sums = sums_by_label(documents.to_csr(), labels, weights, self.n_clusters)
        return KMeansStatistics(sums, np.bincount(labels, weights, self.n_clusters), float(weights.sum()))

    def combine(self, parts: Sequence[KMeansStatistics]) -> KMeansStatistics:
        """Add sets of lanes, from first to last."""
        whole = parts[0]
        for part in parts[1:]:
            whole = KMeansStatistics(whole.sums + part.sums, whole.counts + part.counts, whole.weight + part.weight)
        return whole

    def update(self, state: KMeansState, statistics: KMeansStatistics) -> KMeansState:
        """Return the means of the clusters as centres; an empty cluster keeps its own."""
        s = statistics
        if s.weight == 0.0:
            return state
        return KMeansState(means(s.sums, s.counts, state.centres, self.spherical), s.counts, state.t + s.weight)

    def evaluate(self, state: KMeansState, batches: Iterable[Documents]) -> np.ndarray:
        """Return the documents, by weight, and the sum of their squared distances to the nearest centre."""
        sums = np.zeros(2)
        for documents in batches:
            weights = _weights(documents)
            sums += weights.sum(), (weights * self.distances(state, documents).min(axis=1, initial=np.inf)).sum()
        return sums

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return the mean squared distance of a document to the nearest centre."""
        return {"distance": float(sums[1] / sums[0]) if sums[0] else float("nan")}

    def parameters(self, state: KMeansState) -> KMeansState:
        """Return the state: its centres are the model."""
        return state


def sampled(learner: KMeansLearner, parts: list[Documents | DenseDocuments]) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return rows of a sample as k-means sees them, and their weights."""
    documents = Documents.concatenate([learner.prepare(part) for part in parts])
    return documents.to_csr(), _weights(documents)


def _weights(documents: Documents) -> np.ndarray:
    return np.ones(documents.n_documents) if documents.weights is None else documents.weights
