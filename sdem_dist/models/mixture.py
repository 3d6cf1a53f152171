"""Mixtures whose posterior is trained directly, by multiplicative updates (Saul and Lee 2001), in logarithms."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.evaluation import Scored, scored
from sdem_dist.kernels.csr import add_scores, add_statistics
from sdem_dist.kernels.csr import row_sums as sums_of_rows
from sdem_dist.kernels.rows import add_transposed_products, normalise_rows, row_products
from sdem_dist.models.heads import Classes, Model
from sdem_dist.records import Field, record

INNER_PRODUCT = 2.0  # mean inner product of two scaled rows: the size of the logits if theta starts from examples
LARGEST_RATIO = 30.0  # bound of ln of the updates' ratios, which is infinite for a component without examples
BLOCK = 1024  # documents per block; their posteriors fit in the CPU's cache
POSTERIOR = ("accuracy", "ncll", "hinge", "macro_f1", "brier", "ece", "temperature", "tempered_log_loss")
"""Metrics of a model without p(x)."""


@record
class RowTransform:
    """Transformation of the rows before a model."""

    scale: float = 0.0  # rows are divided by their sums and multiplied by `scale`; 0: unchanged
    expand: bool = False  # expand dense rows quadratically (Saul and Lee 2001, equation 9), after scaling

    def n_features(self, n_columns: int) -> int:
        return 1 + n_columns + n_columns * (n_columns + 1) // 2 if self.expand else n_columns

    def n_columns(self, n_features: int) -> int:
        """Return the inverse of `n_features`; -1 if no number of columns gives `n_features`."""
        n = int(np.sqrt(2 * n_features)) - 1 if self.expand else n_features
        return n if self.n_features(n) == n_features else -1

    def dense(self, X: np.ndarray) -> np.ndarray:
        """Return transformed rows; expanded: ``[1, x_1, ..., x_d, x_1 x_1, x_1 x_2, ..., x_d x_d]`` (equation 9)."""
        if self.scale:
            sums = X.sum(axis=1, dtype=np.float64)
            X = X * (self.scale / np.where(sums > 0, sums, 1.0)).astype(X.dtype)[:, None]
        if not self.expand:
            return X
        first, second = np.triu_indices(X.shape[1])
        return np.concatenate([np.ones((len(X), 1), X.dtype), X, X[:, first] * X[:, second]], axis=1)

    def sparse(self, documents: Documents) -> Documents:
        data = documents.data.astype(np.float64)
        if self.scale:
            sums = row_sums(documents)
            data *= np.repeat(self.scale / np.where(sums > 0, sums, 1.0), np.diff(documents.indptr))
        return replace(documents, data=data)


AS_IS = RowTransform()


def row_sums(documents: DenseDocuments | Documents) -> np.ndarray:
    if isinstance(documents, Documents):
        return np.asarray(sums_of_rows(documents.data, documents.indptr))
    return np.asarray(documents.values.sum(axis=1, dtype=np.float64))


def scale_of(mean_row: np.ndarray) -> float:
    """Return the scale that gives two rows a mean product of `INNER_PRODUCT`; `mean_row`: of rows with sum 1."""
    length = float(np.sqrt((mean_row**2).sum()))
    return float(np.sqrt(INNER_PRODUCT)) / length if length > 0 else 1.0


class MixtureWeights(NamedTuple):
    """Parameters of ``p(y = i | x) = sum_j W_ij exp(theta_j x) / sum_kj W_kj exp(theta_j x)`` of nonnegative rows x."""

    log_weights: np.ndarray  # ln W, shape (n_classes, n_components), float64; -inf if a component is not of the class
    theta: np.ndarray  # shape (n_components, n_features), float64


class MixtureSums(NamedTuple):
    """Sums over documents for both updates, at one point (equations 11 to 14)."""

    clamped: np.ndarray  # sums of p(component | label, x), by label: shape (n_classes, n_components), float64
    free: np.ndarray  # sums of p(component | x): shape (n_components,), float64
    clamped_features: np.ndarray  # sums of p(component | label, x) x, shape (n_components, n_features), float64
    free_features: np.ndarray  # sums of p(component | x) x, the same shape
    log_likelihood: float  # conditional log-likelihood ``sum ln p(y | x)`` (equation 10)
    weight: float  # weight of the documents
    largest: float  # largest absolute value of a document's log-normaliser, ``ln sum exp(logits)``


def columns_of(log_weights: np.ndarray) -> list[slice]:
    used = np.isfinite(log_weights)
    first, last = used.argmax(axis=1), used.shape[1] - used[:, ::-1].argmax(axis=1)
    return [slice(int(a), int(b)) for a, b in zip(first, last, strict=True)]


def class_scores(log_weights: np.ndarray, activations: np.ndarray) -> np.ndarray:
    """Return ``ln sum_j W_ij exp(activations_j)``, shape (n_rows, n_classes) (equation 7, the numerator)."""
    columns = columns_of(log_weights)
    scores = np.empty((len(activations), len(columns)))
    for i, own in enumerate(columns):
        logits, logs = activations[:, own].astype(np.float64, order="C"), np.empty(len(scores))
        normalise_rows(logits, log_weights[i, own], np.ones(len(scores)), logs)
        scores[:, i] = logs
    return scores


def _transposed(theta: np.ndarray, rows: np.ndarray | Documents) -> np.ndarray:
    return np.ascontiguousarray(theta.T, dtype=rows.dtype if isinstance(rows, np.ndarray) else np.float64)


def _products(rows: np.ndarray | Documents, table: np.ndarray) -> np.ndarray:
    if isinstance(rows, Documents):
        out = np.zeros((rows.n_documents, table.shape[1]))
        add_scores(rows.data, rows.indices, rows.indptr, table, out)
        return out
    out = np.empty((len(rows), table.shape[1]), rows.dtype)
    row_products(rows, table, out)
    return out


def _add_products(posteriors: np.ndarray, rows: np.ndarray | Documents, out: np.ndarray) -> None:
    if isinstance(rows, Documents):
        sums = np.zeros(out.shape[::-1])
        add_statistics(rows.data, rows.indices, rows.indptr, np.ascontiguousarray(posteriors), sums)
        out += sums.T
    else:
        add_transposed_products(posteriors, rows, out)


def posterior_sums(
    weights: MixtureWeights, table: np.ndarray | Documents, starts: np.ndarray, shares: np.ndarray
) -> MixtureSums:
    """Return the sums over transformed rows, sorted by class; `shares`: weights of the rows.

    `starts`: shape (n_classes + 1,), int: rows ``starts[i]:starts[i + 1]`` have label i.
    """
    log_weights, theta = weights
    transposed = _transposed(theta, table)
    n_classes, n_components = log_weights.shape
    columns, totals = columns_of(log_weights), np.logaddexp.reduce(log_weights, axis=0)
    clamped, free = np.zeros((n_classes, n_components)), np.zeros(n_components)
    clamped_features, free_features = np.zeros(theta.shape), np.zeros(theta.shape)
    log_likelihood, largest, n = 0.0, 0.0, int(starts[-1])
    for first in range(0, n, BLOCK):
        rows = slice(first, min(first + BLOCK, n))
        logits = _products(table[rows], transposed)
        gain, logs = np.empty((2, len(logits)))
        for i in np.flatnonzero((starts[1:] > rows.start) & (starts[:-1] < rows.stop)):
            mine = slice(max(int(starts[i]), rows.start), min(int(starts[i + 1]), rows.stop))
            own, here = columns[i], slice(mine.start - first, mine.stop - first)
            posterior = logits[here, own].copy()
            normalise_rows(posterior, log_weights[i, own], shares[mine], gain[here])
            clamped[i, own] += posterior.sum(axis=0, dtype=np.float64)
            _add_products(posterior, table[mine], clamped_features[own])
        normalise_rows(logits, totals, shares[rows], logs)
        gain -= logs
        largest = max(largest, float(np.abs(logs).max()))
        log_likelihood += float((gain * shares[rows]).sum())
        free += logits.sum(axis=0, dtype=np.float64)
        _add_products(logits, table[rows], free_features)
    weight = float(shares.sum())
    return MixtureSums(clamped, free, clamped_features, free_features, log_likelihood, weight, largest)


def multiplied(
    weights: MixtureWeights, sums: MixtureSums, weights_exponent: float, theta_exponent: float
) -> MixtureWeights:
    """Return the parameters after an update (equations 13 and 14), in logarithms.

    The likelihood cannot fall with the exponents (1, 0) and (0, 1 / eta), nor with (c, 1) / (eta + c) for any c > 0.
    The last is the update of theta with one more feature per component and class, of value c and parameter ln W / c,
    so the proof of the appendix holds. The exponents (1, 1 / eta) have no such guarantee.
    """

    def bounded(log_ratio: np.ndarray) -> np.ndarray:  # 0 for 0 / 0
        # The bound of the likelihood is concave, so a shorter step raises it too.
        return np.clip(np.where(np.isnan(log_ratio), 0.0, log_ratio), -LARGEST_RATIO, LARGEST_RATIO)

    log_weights, theta = weights
    if weights_exponent:
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = np.log(sums.free) + log_weights - np.logaddexp.reduce(log_weights, axis=0)
            ratio = np.log(sums.clamped) - expected
        log_weights = log_weights + weights_exponent * bounded(ratio)
    if theta_exponent:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(sums.clamped_features) - np.log(sums.free_features)
        theta = theta + theta_exponent * bounded(ratio)
    return MixtureWeights(log_weights, theta)


class MultiplicativeState(NamedTuple):
    """The current point, whose likelihood the next pass computes, and the best point so far."""

    log_weights: np.ndarray  # ln W, shape (n_classes, n_components)
    theta: np.ndarray  # shape (n_components, n_features)
    good_log_weights: np.ndarray  # point of the highest likelihood so far; before the first pass the start
    good_theta: np.ndarray
    plain_log_weights: np.ndarray  # the plain update of the best point, which cannot lower the likelihood
    plain_theta: np.ndarray
    log_likelihood: float  # log-likelihood of the best point, summed over documents; -inf before the first pass
    factor: float  # factor of the exponents
    plain: float  # 1 if the current point is a plain update
    n_good: float  # number of accepted updates
    path: np.ndarray  # highest log-likelihood per document after each pass


class SortedDocuments(NamedTuple):
    """Documents with a label, sorted by class."""

    rows: np.ndarray | Documents  # transformed rows: a table, or sparse documents without labels and weights
    starts: np.ndarray  # class i has the rows ``starts[i]:starts[i + 1]``
    weights: np.ndarray

    @property
    def labels(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.starts.nbytes + self.weights.nbytes


@record
class PosteriorClasses(Classes):
    """One class per document, by a model without p(x)."""

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        means = super().metrics(sums, held_out=held_out)
        return {name: means[name] for name in POSTERIOR}


@record
class PosteriorMixture(Model):
    """Classes that are mixtures of log-linear components; only p(y | x) is learned."""

    head: PosteriorClasses
    n_components: int  # components of all classes together
    n_inputs: int  # features after the transform
    component_class: tuple[int, ...] = ()  # class of each component, ascending; empty: classes share all components
    transform: RowTransform = AS_IS
    dtype: str = "float64"  # or "float32": dtype of products and posteriors; parameters and sums are float64
    state_type = MultiplicativeState
    tempered = True

    def __post_init__(self) -> None:
        if self.component_class and Classes(self.n_classes, self.component_class).n_columns != self.n_components:
            raise ValueError(f"component_class must have {self.n_components} entries, got {len(self.component_class)}")
        if self.dtype not in ("float64", "float32"):
            raise ValueError(f"training does not support the dtype {self.dtype!r}")

    @property
    def n_features(self) -> int:
        """Number of columns of the documents before the transform."""
        return self.transform.n_columns(self.n_inputs)

    @cached_property
    def cache_key(self) -> str:
        return f"sorted {self.n_classes} {self.transform} {self.dtype}"

    def state_fields(self) -> dict[str, Field]:
        weights = Field((self.n_classes, self.n_components), finite=False)
        theta, number = Field((self.n_components, self.n_inputs)), Field((), 0.0)
        each = (weights, theta) * 3 + (Field((), finite=False), number, number, number, Field((None,)))
        return dict(zip(MultiplicativeState._fields, each, strict=True))

    def check_state(self, state: MultiplicativeState) -> None:
        for name in ("log_weights", "good_log_weights", "plain_log_weights"):
            values = getattr(state, name)
            if not ((values < np.inf).all() and np.isfinite(values).any(axis=1).all()):
                raise ValueError(f"array {name!r} does not match the components")

    def init(self, n_documents: float = 0.0, seed: int = 0) -> MultiplicativeState:
        return self.start_at(np.zeros((self.n_components, self.n_inputs)))

    def start_at(self, theta: np.ndarray) -> MultiplicativeState:
        """Return a state with W = 1 for the components of each class; `theta`: transformed examples (section 6)."""
        log_weights = np.zeros((self.n_classes, self.n_components))
        if self.component_class:
            log_weights[np.asarray(self.component_class) != np.arange(self.n_classes)[:, None]] = -np.inf
        return self.start(MixtureWeights(log_weights, theta))

    def start(self, weights: MixtureWeights) -> MultiplicativeState:
        return MultiplicativeState(*weights, *weights, *weights, -np.inf, 1.0, 1.0, 0.0, np.empty(0))

    def prepare(self, documents: DenseDocuments | Documents, *, frequent_first: bool = False) -> SortedDocuments:
        """Return labelled documents, transformed and sorted by class; values must be nonnegative, not missing."""
        if documents.labels is None:
            raise ValueError("training and evaluation need documents with labels")
        if isinstance(documents, DenseDocuments) and not (documents.values >= 0).all():
            raise ValueError("training='multiplicative' does not support negative or missing values")
        order = np.argsort(documents.labels, kind="stable")
        order = order[documents.labels[order] >= 0]
        labels = documents.labels[order]
        weights = np.ones(len(order)) if documents.weights is None else documents.weights[order]
        starts, by_class = np.searchsorted(labels, np.arange(self.n_classes + 1)), documents[order]
        if isinstance(by_class, DenseDocuments):
            table = np.asarray(by_class.values, self.dtype)
            return SortedDocuments(np.ascontiguousarray(self.transform.dense(table)), starts, weights)
        rows = Documents(by_class.data, by_class.indices.astype(np.int32), by_class.indptr, documents.n_features)
        return SortedDocuments(self.transform.sparse(rows), starts, weights)

    def expected(self, state: MultiplicativeState, documents: SortedDocuments) -> MixtureSums:
        return posterior_sums(MixtureWeights(state.log_weights, state.theta), *documents)

    def add(self, parts: Sequence[MixtureSums]) -> MixtureSums:
        *sums, largest = zip(*parts, strict=True)
        return MixtureSums._make([*(sum(column[1:], start=column[0]) for column in sums), max(largest)])

    def parameters(self, state: MultiplicativeState) -> MixtureWeights:
        """Return the parameters of the highest likelihood so far."""
        return MixtureWeights(state.good_log_weights, state.good_theta)

    def scores(self, parameters: MixtureWeights, rows: np.ndarray | Documents) -> np.ndarray:
        """Return ``ln sum_j W_ij exp(theta_j x)`` of transformed rows, shape (n, n_classes), float64."""
        return class_scores(parameters.log_weights, _products(rows, _transposed(parameters.theta, rows)))

    def scored(self, state: MultiplicativeState, documents: SortedDocuments, temperature: float, seed: int) -> Scored:
        scores = self.scores(self.parameters(state), documents.rows) / temperature
        return scored(scores, documents.labels, documents.weights, np.ones(len(scores)), scores)
