"""Mixtures whose posterior is trained directly by multiplicative updates (Saul and Lee 2001).

``p(y = i | x) = sum_j W_ij exp(theta_j x) / sum_kj W_kj exp(theta_j x)`` for rows x that are not negative.  Everything
is in logarithms: neither W nor the basis functions need be representable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.evaluation import Scored, scored
from sdem_dist.kernels.csr import add_scores, add_statistics
from sdem_dist.kernels.dense import add_transposed_products, normalise_rows, row_products
from sdem_dist.losses import marginal_log_likelihood
from sdem_dist.models.heads import Classes
from sdem_dist.models.nonnegative_rows import AS_IS, RowTransform
from sdem_dist.records import Field, record

LARGEST_RATIO = 30.0
"""Bound of the logarithms of the updates' ratios: a component without examples would have an infinite one."""
BLOCK = 1024
"""Documents that are worked on at once, so that their posteriors stay in cache."""
_ONES = np.empty(0)
"""No weights: each document has weight 1."""


class MixtureWeights(NamedTuple):
    """Parameters of the posterior."""

    log_weights: np.ndarray  # ln W, shape (n_classes, n_components), float64; -inf where a component is not the class's
    theta: np.ndarray  # shape (n_components, n_features), float64


class MixtureSums(NamedTuple):
    """What both updates need: sums over documents, all at one point (equations 11 to 14)."""

    clamped: np.ndarray
    """Sum of the posteriors of each component given the label, by label: shape (n_classes, n_components), float64."""
    free: np.ndarray  # sum of the posteriors of each component, the class not given: shape (n_components,), float64
    clamped_features: np.ndarray  # features times the former, shape (n_components, n_features), float64
    free_features: np.ndarray  # features times the latter
    log_likelihood: float  # conditional log-likelihood ``sum ln p(y | x)`` (equation 10)
    weight: float  # documents, by weight
    largest: float  # largest absolute value of the largest logit of a document


def columns_of(log_weights: np.ndarray) -> list[slice]:
    """Return the components that each class uses, as slices from its first to its last."""
    used = np.isfinite(log_weights)
    first, last = used.argmax(axis=1), used.shape[1] - used[:, ::-1].argmax(axis=1)
    return [slice(int(a), int(b)) for a, b in zip(first, last, strict=True)]


def log_totals(log_weights: np.ndarray) -> np.ndarray:
    """Return the logarithms of W's sums over classes, shape (n_components,)."""
    return np.asarray(np.logaddexp.reduce(log_weights, axis=0))


def class_scores(log_weights: np.ndarray, activations: np.ndarray) -> np.ndarray:
    """Return ``ln sum_j W_ij exp(activations_j)``, shape (n_rows, n_classes) (equation 7, the numerator)."""
    columns = columns_of(log_weights)
    scores = np.empty((len(activations), len(columns)))
    for i, own in enumerate(columns):
        logits, logs = activations[:, own].astype(np.float64, order="C"), np.empty(len(scores))
        normalise_rows(logits, log_weights[i, own], _ONES, logs)
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
    weights: MixtureWeights, table: np.ndarray | Documents, starts: np.ndarray, document_weights: np.ndarray | None
) -> MixtureSums:
    """Return the sums over transformed rows that are sorted by class.

    `starts`: shape (n_classes + 1,), int: rows ``starts[i]:starts[i + 1]`` have label i.
    `document_weights`: shape (n_documents,), or None for one each.
    """
    log_weights, theta = weights
    transposed = _transposed(theta, table)
    n_classes, n_components = log_weights.shape
    columns, totals = columns_of(log_weights), log_totals(log_weights)
    clamped, free = np.zeros((n_classes, n_components)), np.zeros(n_components)
    clamped_features, free_features = np.zeros(theta.shape), np.zeros(theta.shape)
    log_likelihood, largest, n = 0.0, 0.0, int(starts[-1])
    shares = _ONES if document_weights is None else document_weights
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
        log_likelihood += float((gain if document_weights is None else gain * shares[rows]).sum())
        free += logits.sum(axis=0, dtype=np.float64)
        _add_products(logits, table[rows], free_features)
    weight = float(n if document_weights is None else document_weights.sum())
    return MixtureSums(clamped, free, clamped_features, free_features, log_likelihood, weight, largest)


def multiplied(
    weights: MixtureWeights, sums: MixtureSums, weights_exponent: float, theta_exponent: float
) -> MixtureWeights:
    """Return the parameters after an update (equations 13 and 14), in logarithms.

    The likelihood cannot fall for the exponents (1, 0) and (0, 1 / eta), nor for (c, 1) / (eta + c) with any c > 0. The
    last is the update of theta where every component of every class has one more feature of its own: its value is c,
    and its parameter ln W / c. The proof of the appendix holds for it. The exponents (1, 1 / eta) have no such
    guarantee.
    """
    log_weights, theta = weights
    if weights_exponent:
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = np.log(sums.free) + log_weights - log_totals(log_weights)
            ratio = np.log(sums.clamped) - expected
        log_weights = log_weights + weights_exponent * _bounded(ratio)
    if theta_exponent:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(sums.clamped_features) - np.log(sums.free_features)
        theta = theta + theta_exponent * _bounded(ratio)
    return MixtureWeights(log_weights, theta)


def _bounded(log_ratio: np.ndarray) -> np.ndarray:
    """Return logarithms of ratios within bounds, 0 where there is nothing to compare.

    Any step on the way to the best one raises the bound of the likelihood too, as it is concave.
    """
    return np.clip(np.where(np.isnan(log_ratio), 0.0, log_ratio), -LARGEST_RATIO, LARGEST_RATIO)


POSTERIOR = ("accuracy", "ncll", "hinge", "macro_f1", "brier", "ece", "temperature", "tempered_log_loss")
"""Metrics of a model that has no p(x)."""


class MultiplicativeState(NamedTuple):
    """Where the run stands: a point whose likelihood the next pass finds, and the best one found."""

    log_weights: np.ndarray  # ln W, shape (n_classes, n_components)
    theta: np.ndarray  # shape (n_components, n_features)
    good_log_weights: np.ndarray  # of the point with the highest likelihood so far; the start before the first pass
    good_theta: np.ndarray
    plain_log_weights: np.ndarray  # the plain update of that point, which cannot be worse
    plain_theta: np.ndarray
    log_likelihood: float  # log-likelihood of the best point, summed over documents; -inf before the first pass
    factor: float  # factor of the exponents
    plain: float  # 1 if the point is a plain update
    n_good: float  # updates that were kept
    path: np.ndarray  # the highest log-likelihood per document after each pass


class SortedDocuments(NamedTuple):
    """Documents with a label, sorted by class."""

    rows: np.ndarray | Documents  # transformed: a table, or sparse documents without labels and weights
    starts: np.ndarray  # class i has the rows ``starts[i]:starts[i + 1]``
    weights: np.ndarray | None

    @property
    def labels(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.starts.nbytes + (0 if self.weights is None else self.weights.nbytes)


@record
@dataclass(frozen=True)
class PosteriorClasses(Classes):
    """One class for each document, by a model that has no p(x)."""

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        means = super().metrics(sums, held_out=held_out)
        return {name: means[name] for name in POSTERIOR}


@record
@dataclass(frozen=True)
class PosteriorMixture:
    """Classes that are mixtures of log-linear components, of which only p(y | x) is learned.

    `n_components`, `n_inputs`: components of all classes together; features after the transform.
    `owners`: the class of each component, ascending; empty: all classes share all components.
    `dtype`: "float64" or "float32": of products and posteriors; parameters and sums are float64.
    """

    head: PosteriorClasses
    n_components: int
    n_inputs: int
    owners: tuple[int, ...] = ()
    transform: RowTransform = AS_IS
    dtype: str = "float64"

    state_type = MultiplicativeState
    tempered = True

    def __post_init__(self) -> None:
        if self.owners and Classes(self.n_classes, self.owners).n_columns != self.n_components:
            raise ValueError(f"owners are of {len(self.owners)} components, and there are {self.n_components}")
        if self.dtype not in ("float64", "float32"):
            raise ValueError(f"the dtype {self.dtype!r} is not one that training allows")

    @property
    def n_classes(self) -> int:
        return self.head.n_classes

    @property
    def n_features(self) -> int:
        """Columns of the documents, before they are transformed."""
        return self.transform.n_columns(self.n_inputs)

    @cached_property
    def cache_key(self) -> str:
        return f"sorted {self.n_classes} {self.transform} {self.dtype}"

    def state_fields(self) -> dict[str, Field]:
        weights = Field((self.n_classes, self.n_components), finite=False)
        theta = Field((self.n_components, self.n_inputs))
        points = {
            f"{p}{name}": f for p in ("", "good_", "plain_") for name, f in (("log_weights", weights), ("theta", theta))
        }
        return {
            **points,
            "log_likelihood": Field((), finite=False),
            **dict.fromkeys(("factor", "plain", "n_good"), Field((), 0.0)),
            "path": Field((None,)),
        }

    def check_state(self, state: MultiplicativeState) -> None:
        """Raise ValueError unless every class has a component of positive weight."""
        for name in ("log_weights", "good_log_weights", "plain_log_weights"):
            values = getattr(state, name)
            if not ((values < np.inf).all() and np.isfinite(values).any(axis=1).all()):
                raise ValueError(f"array {name!r} does not hold the weights of the components")

    def init(self, n_documents: float = 0.0, seed: int = 0) -> MultiplicativeState:
        """Return W = 1 where a component is the class's, theta = 0: a start needs examples, see `start`."""
        log_weights = np.zeros((self.n_classes, self.n_components))
        if self.owners:
            log_weights[np.asarray(self.owners) != np.arange(self.n_classes)[:, None]] = -np.inf
        return self.start(MixtureWeights(log_weights, np.zeros((self.n_components, self.n_inputs))))

    def start(self, weights: MixtureWeights) -> MultiplicativeState:
        return MultiplicativeState(*weights, *weights, *weights, -np.inf, 1.0, 1.0, 0.0, np.empty(0))

    def prepare(self, documents: DenseDocuments | Documents, *, frequent_first: bool = False) -> SortedDocuments:
        """Sort labelled documents by class and transform them.

        Raises ValueError: there are no labels, or a table has a value that is negative or missing.
        """
        if documents.labels is None:
            raise ValueError("documents without labels cannot be prepared for training or evaluation")
        if isinstance(documents, DenseDocuments) and not (documents.values >= 0).all():
            raise ValueError("a value is negative or missing, and training='multiplicative' takes neither")
        order = np.argsort(documents.labels, kind="stable")
        order = order[documents.labels[order] >= 0]
        labels = documents.labels[order]
        weights = None if documents.weights is None else documents.weights[order]
        starts = np.searchsorted(labels, np.arange(self.n_classes + 1))
        if isinstance(documents, DenseDocuments):
            table = np.asarray(documents.values[order], self.dtype)
            return SortedDocuments(np.ascontiguousarray(self.transform.dense(table)), starts, weights)
        csr = documents.to_csr()[order]
        chosen = Documents(csr.data, csr.indices, csr.indptr.astype(np.int64), documents.n_features)
        return SortedDocuments(self.transform.sparse(chosen), starts, weights)

    def expected(self, state: MultiplicativeState, documents: SortedDocuments) -> MixtureSums:
        point = MixtureWeights(state.log_weights, state.theta)
        return posterior_sums(point, documents.rows, documents.starts, documents.weights)

    def add(self, parts: Sequence[MixtureSums]) -> MixtureSums:
        *sums, largest = zip(*parts, strict=True)
        return MixtureSums._make([*(sum(column[1:], start=column[0]) for column in sums), max(largest)])

    def parameters(self, state: MultiplicativeState) -> MixtureWeights:
        """Return the parameters of the highest likelihood found."""
        return MixtureWeights(state.good_log_weights, state.good_theta)

    def scores(self, parameters: MixtureWeights, rows: np.ndarray | Documents) -> np.ndarray:
        """Return ``ln sum_j W_ij exp(theta_j x)`` of transformed rows, shape (n, n_classes), float64."""
        return class_scores(parameters.log_weights, _products(rows, _transposed(parameters.theta, rows)))

    def scored(self, state: MultiplicativeState, documents: SortedDocuments, temperature: float, seed: int) -> Scored:
        labels = documents.labels
        ones = np.ones(len(labels))
        weights = ones if documents.weights is None else documents.weights
        return scored(self.scores(self.parameters(state), documents.rows) / temperature, labels, weights, ones)


FORMS = ("soft", "hard", "stochastic", "generalised", "online", "variational")
COOLING = 0.8
"""Factor of the temperature of annealing after each epoch, until it is 1."""
DECAY = 0.7
"""Steps of online EM are ``(rounds + 2) ** -DECAY``: between 1/2 and 1, as stochastic approximation asks for."""


@record
@dataclass(frozen=True)
class EmForm:
    """Which EM."""

    kind: str = "soft"
    """"soft": the posterior of the components (Dempster, Laird and Rubin 1977). "hard": the most probable one,
    classification EM. "stochastic": one drawn from the posterior (both Celeux and Govaert 1992). "generalised": the
    M-step goes some way to its maximum. "online": stepwise EM, a step for a batch (Cappe and Moulines 2009).
    "variational": parameters have a posterior too (Attias 2000)."""
    step: float = 1.0  # of "generalised": the share of the way, above 0 and at most 1
    annealing: float = 1.0
    """Temperature of the first epoch; posteriors are raised to one over it (Ueda and Nakano 1998)."""

    def __post_init__(self) -> None:
        if self.kind not in FORMS:
            raise ValueError(f"em must be one of {FORMS}, and is {self.kind!r}")

    @property
    def rises(self) -> bool:
        """Whether no iteration may lower the objective."""
        return self.kind not in ("stochastic", "online") and self.annealing == 1.0

    def temperature(self, epoch: int) -> float:
        return max(1.0, self.annealing * COOLING**epoch)

    def rho(self, n_documents: float, batch: float) -> float:
        """Return the step of online EM, from the documents seen and those of a batch."""
        return float((n_documents / batch + 2.0) ** -DECAY)

    def responsibilities(
        self, scores: np.ndarray, temperature: float, keys: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the shares of components in documents, and what the objective gains by each document.

        `scores`: shape (n, n_components), ``ln p(component, document)``; -inf where a component cannot be.
        `keys`: uint64 of shape (n,), random keys of the documents, of which "stochastic" makes its draws.
        Returns `shares`, shape (n, n_components): rows add up to 1; zeros where no component can be.
        Returns `values`, shape (n,): ``ln p(document)``; of "hard" the largest score; at a temperature t ``t ln sum
        exp(scores / t)``.
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


EXACT = EmForm()
"""Plain EM."""


class EStep(NamedTuple):
    """An E-step over the rows of a lane."""

    form: EmForm
    temperature: float
    keys: np.ndarray  # random keys of the rows, uint64
    unlabelled_weight: float = 1.0  # weight of a row without a label

    def shares(self, scores: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        return self.form.responsibilities(scores, self.temperature, self.keys[rows])
