"""k-means: hard EM of spherical Gaussians of one variance; rows of length 1 make it spherical k-means."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.models.em_forms import EmForm, EStep
from sdem_dist.models.fields import Field
from sdem_dist.models.k_means_start import means, squared_distances, squared_lengths, sums_by_label
from sdem_dist.records import record


class KMeansState(NamedTuple):
    """Where the centres are."""

    centres: np.ndarray  # shape (n_clusters, n_features), float64; of a table less its `location`
    counts: np.ndarray  # documents of each cluster, by weight, in the last iteration, shape (n_clusters,)
    t: float  # documents seen, by weight


class KMeansStatistics(NamedTuple):
    """Sums over documents by their nearest centre."""

    sums: np.ndarray  # shape (n_clusters, n_features)
    class_counts: np.ndarray  # shape (n_clusters,)
    weight: float


class Distances(NamedTuple):
    """Weights of documents, and their squared distances to the nearest centre."""

    weights: np.ndarray
    squared: np.ndarray


@record
@dataclass(frozen=True)
class Nearest:
    """The nearest centre of each document."""

    n_classes: ClassVar[int] = 0  # labels play no part

    def sums(self, batches: Iterable[Distances], *, held_out: bool = False, tempered: bool = True) -> np.ndarray:
        """Return the documents, by weight, and the sum of their squared distances."""
        return np.sum([[w.sum(), (w * squared).sum()] for w, squared in batches], axis=0)

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        """Return the mean squared distance of a document to the nearest centre."""
        return {"distance": float(sums[1] / sums[0]) if sums[0] else float("nan")}


@record
@dataclass(frozen=True)
class Centres:
    """Clusters by their centres.

    `spherical`: rows and centres have length 1 (Dhillon and Modha 2001).
    `location`: subtracted from the columns of a table, so that squares do not cancel; empty: 0.
    """

    n_clusters: int
    n_features: int
    spherical: bool = False
    location: tuple[float, ...] = ()
    head: Nearest = field(default_factory=Nearest)

    state_type = KMeansState
    n_classes = 0
    tempered = False

    @property
    def cache_key(self) -> str:
        """Prepared documents depend on what is done to rows."""
        return f"k-means {self.spherical} {self.location}"

    def state_fields(self) -> dict[str, Field]:
        """Return what each array of a state is."""
        k = self.n_clusters
        return {"centres": Field((k, self.n_features)), "counts": Field((k,), 0.0), "t": Field((), 0.0)}

    def check_state(self, state: KMeansState) -> None:
        """Raise ValueError unless the location has a number for each column."""
        if len(self.location) not in (0, self.n_features):
            raise ValueError("the location does not match the columns")

    def init(self, n_documents: float, seed: int) -> KMeansState:
        """Return all centres at 0."""
        return self.start(np.zeros((self.n_clusters, self.n_features)))

    def start(self, centres: np.ndarray) -> KMeansState:
        """Return the state at some centres."""
        return KMeansState(centres, np.zeros(self.n_clusters), 0.0)

    def prepare(self, documents: Documents | DenseDocuments, *, frequent_first: bool = False) -> Documents:
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
        weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
        return Documents(data, documents.indices, documents.indptr, self.n_features, weights=weights)

    def distances(self, state: KMeansState, documents: Documents) -> np.ndarray:
        """Return the squared distances of prepared documents from the centres, shape (n_documents, n_clusters)."""
        X = documents.to_csr()
        return squared_distances(X, squared_lengths(X), state.centres)

    def posterior(self, state: KMeansState, documents: Any, step: EStep) -> KMeansStatistics:
        """Return the sums of documents by their nearest centre."""
        labels, weights = self.distances(state, documents).argmin(axis=1), documents.weights
        sums = sums_by_label(documents.to_csr(), labels, weights, self.n_clusters)
        return KMeansStatistics(sums, np.bincount(labels, weights, self.n_clusters), float(weights.sum()))

    def add(self, parts: Sequence[KMeansStatistics]) -> KMeansStatistics:
        """Add sets of lanes, from first to last."""
        return KMeansStatistics._make(sum(column[1:], start=column[0]) for column in zip(*parts, strict=True))

    def maximum(self, state: KMeansState, s: KMeansStatistics, n_documents: float, form: EmForm) -> KMeansState:
        """Return the means of the clusters as centres; an empty cluster keeps its own."""
        centres = means(s.sums, s.class_counts, state.centres, self.spherical)
        return KMeansState(centres, s.class_counts, state.t + s.weight)

    def scored(self, state: KMeansState, documents: Any, temperature: float, seed: int) -> Distances:
        """Return how far documents are from the nearest centre."""
        return Distances(documents.weights, self.distances(state, documents).min(axis=1, initial=np.inf))

    def parameters(self, state: KMeansState) -> KMeansState:
        """Return the state: its centres are the model."""
        return state

    def sampled(self, parts: list[Documents | DenseDocuments]) -> tuple[sp.csr_matrix, Any]:
        """Return rows of a sample as k-means sees them, and their weights."""
        documents = Documents.concatenate([self.prepare(part) for part in parts])
        return documents.to_csr(), documents.weights
