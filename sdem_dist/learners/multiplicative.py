"""Saul and Lee's multiplicative updates as the engine wants them: a full pass, sums, one update (2001, section 4)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.errors import TrainingError
from sdem_dist.evaluation import Scored, classifier_metrics, classifier_sums, joined, scored
from sdem_dist.kernels.csr import add_scores, add_statistics
from sdem_dist.kernels.dense import add_transposed_products, row_products
from sdem_dist.learners.protocol import Lane
from sdem_dist.models.class_weight import weighted
from sdem_dist.models.fields import Field
from sdem_dist.models.heads import Classes
from sdem_dist.models.mixture import MixtureSums, MixtureWeights, class_scores, multiplied, posterior_sums
from sdem_dist.models.nonnegative_rows import AS_IS, RowTransform
from sdem_dist.records import record

GROWTH = 1.2
"""Factor of the exponents after a pass in which the likelihood did not fall."""
LARGEST_OF_WEIGHTS = 1.9
"""Bound of the factor of W's exponent, which is near 1 by itself."""
WEIGHTS_SHARE = 0.1
"""c / eta of joint updates: W has the exponent c / (eta + c)."""
ROUNDING = 1e-12
"""How much the likelihood per document may fall."""
EVALUATED = ("accuracy", "ncll", "hinge", "macro_f1", "brier", "ece", "temperature", "tempered_log_loss")


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
    def nbytes(self) -> int:
        """Bytes held."""
        return self.rows.nbytes + self.starts.nbytes + (0 if self.weights is None else self.weights.nbytes)


@record
@dataclass(frozen=True)
class Multiplicative:
    """Settings and pure functions of the multiplicative updates."""

    n_classes: int
    n_components: int
    n_features: int
    """`n_classes`, `n_components`, `n_features`: components of all classes together; features after the
    transform."""
    eta: float  # largest sum of a row of features
    owners: tuple[int, ...] = ()  # the class of each component, ascending; empty: all classes share all components
    transform: RowTransform = AS_IS
    schedule: str = "joint"
    """"joint" or "alternate": update W and theta together with shared exponents, or in turn, see
    `sdem_dist.models.mixture.multiplied`."""
    accelerate: bool = True
    """Multiply the exponents by a factor that grows while the likelihood does not fall; on a fall go to the plain
    update of the best point."""
    dtype: str = "float64"  # "float64" or "float32": of products and posteriors; parameters and sums are float64
    class_weight: tuple[float, ...] | None = None  # multiplies the weights of the documents of each class
    temperature: float = 1.0  # scores are divided by it for probabilities

    @cached_property
    def cache_key(self) -> str:
        """Prepared documents depend on the transform and the dtype."""
        return f"sorted {self.n_classes} {self.transform} {self.dtype}"

    state_type = MultiplicativeState

    @property
    def width(self) -> int:
        """Columns of the documents, before they are transformed."""
        return self.transform.n_columns(self.n_features)

    @property
    def n_labels(self) -> int:
        """Classes that documents are labelled with."""
        return self.n_classes

    def state_fields(self) -> dict[str, Field]:
        """Return what each array of a state is."""
        weights = Field((self.n_classes, self.n_components), finite=False)
        theta = Field((self.n_components, self.n_features))
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
        """Raise ValueError unless every class has a component of positive weight, and the settings can train."""
        if self.owners and Classes(self.n_classes, self.owners).n_columns != self.n_components:
            raise ValueError(f"owners are of {len(self.owners)} components, and there are {self.n_components}")
        for name in ("log_weights", "good_log_weights", "plain_log_weights"):
            values = getattr(state, name)
            if not ((values < np.inf).all() and np.isfinite(values).any(axis=1).all()):
                raise ValueError(f"array {name!r} does not hold the weights of the components")
        if self.dtype not in ("float64", "float32") or not 0.0 < self.eta < np.inf:
            raise ValueError(f"the dtype {self.dtype!r} or eta {self.eta!r} is not one that training allows")

    def init(self) -> MultiplicativeState:
        """Return W = 1 where a component is the class's, theta = 0: a start needs examples, see `start`."""
        log_weights = np.zeros((self.n_classes, self.n_components))
        if self.owners:
            log_weights[np.asarray(self.owners) != np.arange(self.n_classes)[:, None]] = -np.inf
        return self.start(MixtureWeights(log_weights, np.zeros((self.n_components, self.n_features))))

    def start(self, weights: MixtureWeights) -> MultiplicativeState:
        """Return the state that begins at some parameters."""
        return MultiplicativeState(*weights, *weights, *weights, -np.inf, 1.0, 1.0, 0.0, np.empty(0))

    def prepare(self, documents: DenseDocuments | Documents) -> SortedDocuments:
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

    def map(self, state: MultiplicativeState, documents: SortedDocuments, lane: Lane) -> MixtureSums:
        """Return the sums of one lane at the point of the state."""
        point = MixtureWeights(state.log_weights, state.theta)
        rows, weights = documents.rows, documents.weights
        if self.class_weight is not None:
            labels = np.repeat(np.arange(self.n_classes), np.diff(documents.starts))
            weights = weighted(np.ones(len(labels)) if weights is None else weights, labels, self.class_weight)
        if isinstance(rows, Documents):
            table = np.ascontiguousarray(point.theta.T)

            def add(part: slice, posterior: np.ndarray, out: np.ndarray) -> None:
                sums = np.zeros(out.shape[::-1])
                d = rows[part]
                add_statistics(d.data, d.indices, d.indptr, np.ascontiguousarray(posterior), sums)
                out += sums.T

            return posterior_sums(point, documents.starts, weights, lambda p: _products(rows[p], table), add)
        transposed = np.ascontiguousarray(point.theta.T, dtype=rows.dtype)

        def add_dense(part: slice, posterior: np.ndarray, out: np.ndarray) -> None:
            add_transposed_products(posterior, rows[part], out)

        return posterior_sums(
            point, documents.starts, weights, lambda part: _dense_products(rows[part], transposed), add_dense
        )

    def combine(self, parts: Sequence[MixtureSums]) -> MixtureSums:
        """Add sets of lanes, from first to last."""
        if len(parts) == 1:
            return parts[0]
        *sums, largest = zip(*parts, strict=True)
        added = (sum(column[1:], start=column[0]) for column in sums)
        return MixtureSums._make([*added, max(largest)])

    def update(self, state: MultiplicativeState, sums: MixtureSums) -> MultiplicativeState:
        """Keep the point if its likelihood is no lower, and go on from there; else take the plain update of the best.

        Raises TrainingError: the likelihood fell after a plain update, by more than rounding.
        """
        if sums.weight == 0.0:
            return state
        fall, number = state.log_likelihood - sums.log_likelihood, len(state.path) + 1
        if not np.isfinite(sums.log_likelihood) or (state.plain and fall > self.rounding(sums)):
            raise TrainingError(
                f"the conditional log-likelihood went from {state.log_likelihood:.17g} to {sums.log_likelihood:.17g} in "
                f"pass {number}, which the updates cannot do but by rounding: are the features finite and not negative, "
                f"and is no row's sum above eta = {self.eta:.17g}?"
            )
        if fall > 0 and not state.plain:
            path = np.append(state.path, state.log_likelihood / sums.weight)
            return state._replace(
                log_weights=state.plain_log_weights, theta=state.plain_theta, factor=1.0, plain=1.0, path=path
            )
        good = MixtureWeights(state.log_weights, state.theta)
        of_weights, of_theta = self.exponents(int(state.n_good))
        plain = multiplied(good, sums, of_weights, of_theta)
        factor, new = 1.0, plain
        if self.accelerate:
            factor = state.factor * GROWTH
            new = multiplied(good, sums, of_weights * min(factor, LARGEST_OF_WEIGHTS), of_theta * factor)
        path = np.append(state.path, sums.log_likelihood / sums.weight)
        return MultiplicativeState(
            *new, *good, *plain, sums.log_likelihood, factor, float(not self.accelerate), state.n_good + 1.0, path
        )

    def rounding(self, sums: MixtureSums) -> float:
        """Return by how much the likelihood may fall: 1e-12 a document, more where logits or their dtype are coarse."""
        return sums.weight * max(ROUNDING, 16.0 * float(np.finfo(self.dtype).eps) * sums.largest)

    def exponents(self, number: int) -> tuple[float, float]:
        """Return the exponents of W and of theta of one plain update."""
        if self.schedule == "alternate":
            return (1.0, 0.0) if number % 2 == 0 else (0.0, 1.0 / self.eta)
        return WEIGHTS_SHARE / (1.0 + WEIGHTS_SHARE), 1.0 / (self.eta * (1.0 + WEIGHTS_SHARE))

    def parameters(self, state: MultiplicativeState) -> MixtureWeights:
        """Return the parameters of the highest likelihood found."""
        return MixtureWeights(state.good_log_weights, state.good_theta)

    def scores(self, parameters: MixtureWeights, rows: np.ndarray | Documents) -> np.ndarray:
        """Return ``ln sum_j W_ij exp(theta_j x)`` of transformed rows, shape (n, n_classes), float64."""
        if isinstance(rows, Documents):
            return class_scores(parameters.log_weights, _products(rows, np.ascontiguousarray(parameters.theta.T)))
        table = np.ascontiguousarray(parameters.theta.T, dtype=rows.dtype)
        return class_scores(parameters.log_weights, _dense_products(rows, table))

    def evaluate(self, state: MultiplicativeState, batches: Iterable[SortedDocuments]) -> np.ndarray:
        """Return the sums of `evaluation.classifier_sums` over all batches."""
        parameters = self.parameters(state)
        documents = joined(self._scored(parameters, batch) for batch in batches)
        return classifier_sums(documents, tempered=True)

    def _scored(self, parameters: MixtureWeights, documents: SortedDocuments) -> Scored:
        labels = np.repeat(np.arange(self.n_classes), np.diff(documents.starts))
        ones = np.ones(len(labels))
        weights = ones if documents.weights is None else documents.weights
        return scored(self.scores(parameters, documents.rows) / self.temperature, labels, weights, ones)

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return metrics of the probabilities of classes: the model has no p(x)."""
        found = classifier_metrics(sums, self.n_classes)
        return {name: found[name] for name in EVALUATED}


def _products(documents: Documents, table: np.ndarray) -> np.ndarray:
    out = np.zeros((documents.n_documents, table.shape[1]))
    add_scores(documents.data, documents.indices, documents.indptr, table, out)
    return out


def _dense_products(rows: np.ndarray, table: np.ndarray) -> np.ndarray:
    out = np.empty((len(rows), table.shape[1]), rows.dtype)
    row_products(rows, table, out)
    return out
