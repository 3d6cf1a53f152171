"""Forms of EM; k-means, the hard EM of spherical Gaussians that share one variance; spherical k-means of unit rows."""

from collections.abc import Iterable
from dataclasses import field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.losses import Arrays, marginal_log_likelihood
from sdem_dist.models.heads import Model
from sdem_dist.records import Field, record

FORMS = ("soft", "hard", "stochastic", "generalised", "online", "variational")
COOLING = 0.8  # factor of the temperature of annealing after each epoch, until it is 1
DECAY = 0.7  # the steps of online EM are ``(rounds + 2) ** -DECAY``; stochastic approximation needs 1/2 < DECAY <= 1
TRIES = 10  # runs of k-means on a sample, each from its own start; the best run is used
ITERATIONS = 30  # maximal iterations of one run


@record
class EmForm:
    """A variant of EM."""

    kind: str = "soft"
    """"soft": the posterior of the components (Dempster, Laird and Rubin 1977). "hard": the most probable component,
    classification EM. "stochastic": a component drawn from the posterior (both Celeux and Govaert 1992).
    "generalised": the M-step goes part of the way to the maximum. "online": stepwise EM, one step per batch (Cappe and
    Moulines 2009). "variational": the parameters have a posterior too (Attias 2000)."""
    step: float = 1.0  # for "generalised": the fraction of the way to the maximum, above 0 and at most 1
    annealing: float = 1.0  # temperature t of the first epoch: posteriors to the power 1 / t (Ueda and Nakano 1998)

    def __post_init__(self) -> None:
        if self.kind not in FORMS:
            raise ValueError(f"em must be one of {FORMS}, got {self.kind!r}")

    @property
    def rises(self) -> bool:
        """Whether each iteration raises the objective or leaves it unchanged."""
        return self.kind not in ("stochastic", "online") and self.annealing == 1.0

    def temperature(self, epoch: int) -> float:
        return max(1.0, self.annealing * COOLING**epoch)

    def rho(self, n_documents: float, batch: float) -> float:
        """Return the step of online EM, given the numbers of documents seen so far and in a batch."""
        return float((n_documents / batch + 2.0) ** -DECAY)

    def responsibilities(self, scores: np.ndarray, temperature: float, keys: np.ndarray) -> Arrays:
        """Return the shares of the components in each document, and each document's term of the objective.

        `scores`: shape (n, n_components), ``ln p(component, document)``; -inf for an impossible component.
        `keys`: uint64 of shape (n,), random keys of the documents, from which "stochastic" draws components.
        The rows of the shares sum to 1; they are zeros if all components are impossible. The term of the objective is
        ln p(document); for "hard" the largest score; at a temperature t ``t ln sum exp(scores / t)``.
        """
        if self.kind == "hard":
            return np.eye(scores.shape[1])[scores.argmax(axis=1)], scores.max(axis=1)
        scores = scores / temperature
        total = marginal_log_likelihood(scores)
        shares = np.exp(scores - np.where(np.isneginf(total), 0.0, total)[:, None])
        if self.kind == "stochastic":
            below = np.cumsum(shares, axis=1)
            drawn = (keys >> np.uint64(11)) * 2.0**-53 * below[:, -1]
            shares = np.eye(scores.shape[1])[(below[:, :-1] <= drawn[:, None]).sum(axis=1)]
        return shares, temperature * total


EXACT = EmForm()  # plain EM


def squared_distances(X: sp.csr_matrix, norms: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the squared distances of rows from centres, (n_rows, n_centres); `norms`: squared lengths of the rows."""
    products = X @ np.ascontiguousarray(centres.T)  # by SciPy, not BLAS: the bits do not depend on the threads
    products *= -2.0
    products += norms[:, None]
    products += (centres**2).sum(axis=1)
    return np.asarray(np.maximum(products, 0.0, out=products))


def squared_lengths(X: sp.csr_matrix) -> np.ndarray:
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.bincount(rows, np.square(X.data, dtype=np.float64), X.shape[0])


def sums_by_label(X: sp.csr_matrix, labels: np.ndarray, weights: np.ndarray, n_clusters: int) -> Arrays:
    """Return for each label the weighted sum of its rows, shape (n_clusters, n_columns), and the sum of the weights."""
    members = sp.csr_matrix((weights, (labels, np.arange(len(labels)))), shape=(n_clusters, len(labels)))
    return np.asarray((members @ X).toarray()), np.bincount(labels, weights, n_clusters)


def means(sums: np.ndarray, counts: np.ndarray, before: np.ndarray, spherical: bool) -> np.ndarray:
    """Return the centres of clusters, of length 1 if `spherical`; an empty cluster keeps its centre from `before`."""
    centres = sums / np.where(counts > 0, counts, 1.0)[:, None]
    if spherical:
        lengths = np.sqrt((centres**2).sum(axis=1, keepdims=True))
        centres = centres / np.where(lengths > 0, lengths, 1.0)
    return np.where((counts > 0)[:, None], centres, before)


class Clustered(NamedTuple):
    centres: np.ndarray  # shape (n_clusters, n_columns), float64
    labels: np.ndarray  # shape (n_rows,), int64: index of the nearest centre of each row
    inertia: float  # weighted sum of the squared distances to the nearest centres


def k_means(
    X: sp.csr_matrix, weights: np.ndarray, n_clusters: int, seed: int, *, tries: int = TRIES, spherical: bool = False
) -> Clustered:
    """Return the best of several runs of k-means over float64 rows in memory; `spherical`: the rows have length 1."""
    norms, n_drawn = squared_lengths(X), 2 + int(np.log(n_clusters))
    best: Clustered | None = None
    for number in range(tries):
        rng = np.random.default_rng([seed, number])

        def drawn(masses: np.ndarray, n: int, rng: np.random.Generator = rng) -> np.ndarray:  # uniform if all are 0
            total = np.cumsum(masses if masses.any() else np.ones(len(masses)))
            return np.minimum(np.searchsorted(total, rng.random(n) * total[-1], side="right"), len(masses) - 1)

        # Greedy k-means++: each new centre is the best of a few rows, drawn in proportion to their squared distances.
        chosen = [drawn(weights, 1)[0]]
        nearest = squared_distances(X, norms, X[chosen].toarray())[:, 0]
        while len(chosen) < n_clusters:
            tried = drawn(weights * nearest, n_drawn)
            distances = np.minimum(squared_distances(X, norms, X[tried].toarray()), nearest[:, None])
            which = int((weights[:, None] * distances).sum(axis=0).argmin())
            chosen.append(tried[which])
            nearest = distances[:, which]
        centres, labels = np.asarray(X[chosen].toarray()), np.full(X.shape[0], -1)
        for _ in range(ITERATIONS):
            before, labels = labels, squared_distances(X, norms, centres).argmin(axis=1)
            if (labels == before).all():
                break
            sums, counts = sums_by_label(X, labels, weights, n_clusters)
            centres = means(sums, counts, centres, spherical)
        distances = squared_distances(X, norms, centres)
        labels = distances.argmin(axis=1)
        inertia = float((weights * distances[np.arange(len(labels)), labels]).sum())
        if best is None or inertia < best.inertia:
            best = Clustered(centres, labels, inertia)
    assert best is not None
    return best


class KMeansState(NamedTuple):
    centres: np.ndarray  # shape (n_clusters, n_features), float64; for tables relative to `Centres.location`
    counts: np.ndarray  # weight of the documents of each cluster in the last iteration, shape (n_clusters,)
    t: float  # weight of the documents seen


class KMeansStatistics(NamedTuple):
    sums: np.ndarray  # sums of the documents nearest to each centre, shape (n_clusters, n_features)
    class_counts: np.ndarray  # weight of these documents, shape (n_clusters,)
    weight: float


@record
class Nearest:
    n_classes: ClassVar[int] = 0  # labels are not used

    def sums(self, batches: Iterable[Any], *, held_out: bool = False, tempered: bool = True) -> np.ndarray:
        return np.sum([[w.sum(), (w * squared).sum()] for w, squared in batches], axis=0)

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        return {"distance": float(sums[1] / sums[0]) if sums[0] else float("nan")}


@record
class Centres(Model):
    n_clusters: int
    n_features: int
    spherical: bool = False  # rows and centres have length 1 (Dhillon and Modha 2001)
    location: tuple[float, ...] = ()  # subtracted from a table's columns, to avoid cancellation in squares; empty: 0
    head: Nearest = field(default_factory=Nearest)
    state_type = KMeansState

    @property
    def cache_key(self) -> str:
        return f"k-means {self.spherical} {self.location}"

    def state_fields(self) -> dict[str, Field]:
        k = self.n_clusters
        return {"centres": Field((k, self.n_features)), "counts": Field((k,), 0.0), "t": Field((), 0.0)}

    def check_state(self, state: KMeansState) -> None:
        if len(self.location) not in (0, self.n_features):
            raise ValueError("the location does not match the columns")

    def init(self, n_documents: float, seed: int) -> KMeansState:
        return self.start(np.zeros((self.n_clusters, self.n_features)))

    def start(self, centres: np.ndarray) -> KMeansState:
        return KMeansState(centres, np.zeros(self.n_clusters), 0.0)

    def prepare(self, documents: Documents | DenseDocuments, *, frequent_first: bool = False) -> Documents:
        if isinstance(documents, DenseDocuments):
            values = np.asarray(documents.values, np.float64)
            if np.isnan(values).any():
                row = int(np.isnan(values).any(axis=1).argmax())
                raise ValueError(f"row {row} (counting from 0) has a missing value (NaN): impute it")
            table = sp.csr_matrix(values - np.asarray(self.location) if self.location else values)
            documents = Documents(table.data, table.indices, table.indptr, self.n_features, weights=documents.weights)
        data = documents.data.astype(np.float64)
        if self.spherical:
            lengths = np.sqrt(squared_lengths(documents.to_csr()))
            data /= np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(documents.indptr))
        weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
        return Documents(data, documents.indices, documents.indptr, self.n_features, weights=weights)

    def distances(self, state: KMeansState, documents: Documents) -> np.ndarray:
        """Return the squared distances of prepared documents from the centres, shape (n_documents, n_clusters)."""
        X = documents.to_csr()
        return squared_distances(X, squared_lengths(X), state.centres)

    def posterior(self, state: KMeansState, documents: Any, form: EmForm, at: Any, unlabelled: float) -> Any:
        """Return the sums of the documents nearest to each centre (E-step)."""
        labels, weights = self.distances(state, documents).argmin(axis=1), documents.weights
        sums, counts = sums_by_label(documents.to_csr(), labels, weights, self.n_clusters)
        return KMeansStatistics(sums, counts, float(weights.sum()))

    def maximum(self, state: KMeansState, s: KMeansStatistics, n_documents: float, form: EmForm) -> KMeansState:
        centres = means(s.sums, s.class_counts, state.centres, self.spherical)
        return KMeansState(centres, s.class_counts, state.t + s.weight)

    def scored(self, state: KMeansState, documents: Any, temperature: float, seed: int) -> Any:
        """Return the weights of documents and their squared distances to the nearest centres."""
        return documents.weights, self.distances(state, documents).min(axis=1, initial=np.inf)

    def parameters(self, state: KMeansState) -> KMeansState:
        return state
