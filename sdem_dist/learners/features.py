"""What learners of dense features have in common: states, documents, sums of lanes, evaluation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from sdem_dist.documents import DenseDocuments
from sdem_dist.learners.field import Field, check_class_weight
from sdem_dist.losses import Loss
from sdem_dist.models.em_forms import EStep
from sdem_dist.models.feature_classes import FeatureStatistics
from sdem_dist.models.features import FeatureModel, FeatureParameters, Features
from sdem_dist.models.regression import Rows

Prepared = TypeVar("Prepared", Features, Rows)


class DenseModel(Protocol[Prepared]):
    """What a document contributes, whatever the loss; see `FeatureClasses` and `JointGaussian`."""

    @property
    def variables(self) -> FeatureModel:
        """Return the families of the columns."""

    @property
    def n_classes(self) -> int:
        """Return the number of classes."""

    @property
    def n_components(self) -> int:
        """Return the rows of mu."""

    def start_counts(self, n_documents: float, class_alpha: float) -> np.ndarray:
        """Return N of a start at the prior."""

    def reweighted(self, documents: Prepared, class_weight: tuple[float, ...] | None) -> Prepared:
        """Return prepared documents with the weights that they have in training."""

    def prepare(self, documents: DenseDocuments) -> Prepared:
        """Return documents as the other functions take them."""

    def parameters(self, counts: np.ndarray, mu: np.ndarray) -> FeatureParameters:
        """Return theta(mu)."""

    def expected(
        self, counts: np.ndarray, mu: np.ndarray, documents: Prepared, loss: Loss, unlabelled_weight: float
    ) -> FeatureStatistics:
        """Return the sum of loss weights times expected statistics, and the loss."""

    def complete(self, documents: Prepared) -> FeatureStatistics:
        """Return the statistics of labelled documents."""

    def posterior(
        self, counts: np.ndarray, mu: np.ndarray, documents: Prepared, step: EStep, unlabelled_weight: float
    ) -> FeatureStatistics:
        """Return the statistics expected of what is hidden (E-step)."""

    def under_prior(self, mu: np.ndarray, loss: Loss) -> np.ndarray:
        """Return the part of mu that the prior concerns."""

    def evaluate(self, counts: np.ndarray, mu: np.ndarray, batches: Iterable[Prepared]) -> np.ndarray:
        """Return sums over documents that `metrics` turns into means."""

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return what people read."""


class FeatureState(NamedTuple):
    """Expectation parameters, and where the run stands."""

    class_counts: np.ndarray  # N, expected counts of the classes, or of the components: shape (n_components,)
    mu: np.ndarray  # mean statistics given the class, S / N: shape (n_components, n_statistics)
    rho: float  # size of the next safe step
    best_counts: np.ndarray  # N of the lowest objective so far; shape (0,) where rounds are not judged
    best_mu: np.ndarray
    best_objective: float  # mean loss and prior of the best, or infinity
    first_loss: float  # mean loss at the start of the run, or infinity: a best with a higher one is none
    t: float  # documents seen, a document of weight w counting w

    @property
    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """N and mu of the lowest objective, or the last where rounds are not judged."""
        return (self.best_counts, self.best_mu) if len(self.best_counts) else (self.class_counts, self.mu)


def started(counts: np.ndarray, mu: np.ndarray, t: float = 0.0) -> FeatureState:
    """Return a state at a point, of which nothing else is known."""
    return FeatureState(counts, mu, 1.0, np.empty(0), np.empty((0, 0)), np.inf, np.inf, t)


@dataclass(frozen=True)
class FeatureLearner(Generic[Prepared]):
    """Settings and functions that do not depend on how a model of dense features is trained."""

    model: DenseModel[Prepared]
    n_documents: float  # n, the documents of the training corpus by weight
    class_weight: tuple[float, ...] | None = None  # multiplies the weights of the documents of each class
    unlabelled_weight: float = 1.0  # weight of a document without a label, which counts through ``-ln p(x)``
    class_alpha: float = 1.0  # pseudo-count of each class in the conjugate prior of a discriminative run

    state_type = FeatureState

    @cached_property
    def cache_key(self) -> str:
        """Prepared documents depend on the blocks and the components."""
        of = (
            type(self.model).__name__,
            self.model.variables.blocks,
            getattr(self.model, "owners", ()),
        )
        return "features " + sha256(repr(of).encode()).hexdigest()

    @property
    def temperature(self) -> float:
        """What scores of classes are divided by for probabilities."""
        return getattr(self.model, "temperature", 1.0)  # numbers have no classes

    @property
    def width(self) -> int:
        """Columns of the documents."""
        return sum(len(block.columns) for block in self.model.variables.blocks)

    @property
    def n_labels(self) -> int:
        """Classes that documents are labelled with."""
        return self.model.n_classes

    def state_fields(self) -> dict[str, Field]:
        """Return what each array of a state is."""
        k, s = self.model.n_components, self.model.variables.n_statistics
        return {
            "class_counts": Field((k,), 0.0),
            "mu": Field((k, s)),
            "rho": Field((), 0.0),
            "best_counts": Field((None,), 0.0),
            "best_mu": Field((None, None)),
            "best_objective": Field((), finite=False),
            "first_loss": Field((), finite=False),
            "t": Field((), 0.0),
        }

    def check_state(self, state: FeatureState) -> None:
        """Raise ValueError unless the best is complete or absent, mu is inside S, and settings match the classes."""
        columns = sorted(c for block in self.model.variables.blocks for c in block.columns)
        if columns != list(range(len(columns))):
            raise ValueError("the columns of the blocks are not those of a table")
        check_class_weight(self.class_weight, self.model.n_classes)
        n = len(state.best_counts)
        if n not in (0, self.model.n_components) or state.best_mu.shape != (state.mu.shape if n else (0, 0)):
            raise ValueError("arrays 'best_counts' and 'best_mu' do not match the classes")
        counts, mu = state.best
        with np.errstate(all="ignore"):
            found = self.model.parameters(counts, mu)
        if not (counts.any() and np.isfinite(found.theta).all() and np.isfinite(found.partitions).all()):
            raise ValueError("array 'mu' is not inside S")

    def init(self) -> FeatureState:
        """Return mu_0, the prior's (Algorithm 1, line 1)."""
        mu = np.tile(self.model.variables.centre, (self.model.n_components, 1))
        return started(self.model.start_counts(self.n_documents, self.class_alpha), mu)

    def inside(self, state: FeatureState) -> FeatureState:
        """Return a generative fit as a start for steps; moments without a theta (variance 0) are projected into S."""
        variables = self.model.variables
        with np.errstate(all="ignore"):
            found = variables.to_natural(state.mu, np.zeros(self.model.n_components))
        finite = variables.all_of_variables(np.isfinite(found.theta)) & np.isfinite(found.partitions)
        usable = finite[:, variables.variable_of]
        return state._replace(mu=np.where(usable, state.mu, variables.check(state.mu)[0]))

    def prepare(self, documents: DenseDocuments) -> Prepared:
        """Return the documents as the model takes them."""
        return self.model.prepare(documents)

    def combine(self, parts: Sequence[FeatureStatistics]) -> FeatureStatistics:
        """Add sets of lanes, from first to last."""
        if len(parts) == 1:
            return parts[0]
        class_sums, sums, known = (np.sum(np.stack(column), axis=0) for column in list(zip(*parts, strict=True))[:3])
        return FeatureStatistics(class_sums, sums, known, sum(p.loss for p in parts), sum(p.weight for p in parts))

    def parameters(self, state: FeatureState) -> FeatureParameters:
        """Return the natural parameters of the best mu, or of the last where rounds are not judged."""
        return self.model.parameters(*state.best)

    def evaluate(self, state: FeatureState, batches: Iterable[Prepared]) -> np.ndarray:
        """Return sums over all batches, see the model."""
        return self.model.evaluate(*state.best, batches)

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return what people read, see the model."""
        return self.model.metrics(sums)
