"""Stochastic discriminative EM (Masegosa 2014, Algorithm 1): a model, a loss, and a rule for expectation parameters.

::

    mu = the prior's                                                          init
    in every round:
        for each lane of documents, on some worker:                           map
            statistics = sum of (loss weight of y) E[s(y, d)] at theta(mu)      at the broadcast mu, or
            or the change of mu after steps of a few documents each             `Rule.local`: Algorithm 2
        statistics = their sum over lanes                                     combine
        mu = rule(mu, statistics), checked: inside S                          update
    theta = theta(mu)                                                         parameters

A model (``models``) defines the statistics of a document, its head the meaning of scores, a loss the weights of
classes, and a rule the steps of mu: `Merge` (the paper's) for words, `SafeStep` for tables, `ClosedForm` for EM.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from sdem_dist import losses
from sdem_dist.documents import Documents
from sdem_dist.kernels.randomness import document_keys
from sdem_dist.learners.protocol import Lane
from sdem_dist.models.heads import trained_part
from sdem_dist.models.word_counts import BlockedTable
from sdem_dist.records import record

ModelT = TypeVar("ModelT", bound=Any)


class At(NamedTuple):
    """The place of a lane in a run: the key of its random numbers, and its share of the round."""

    lane: Lane
    seed: int

    @property
    def key(self) -> np.ndarray:
        """128 bits as two uint64: the key of a random stream per seed and place in the run."""
        return np.array([self.seed, (self.lane.epoch << 40) | (self.lane.round << 20) | self.lane.lane], np.uint64)

    def keys(self, n_documents: int) -> np.ndarray:
        """Return a random number per document of the lane, uint64; it does not depend on the number of lanes."""
        return document_keys(self.seed, self.lane.epoch, self.lane.start, self.lane.start + n_documents)

    def order(self, n_documents: int) -> np.ndarray:
        """Return a permutation of the lane's documents, drawn per seed and place in the run."""
        return np.random.Generator(np.random.Philox(key=self.key)).permutation(n_documents)

    def scale(self, n_documents: int) -> float:
        """Return the number of documents of the round for which a document of the lane stands."""
        return self.lane.round_documents / max(n_documents, 1)


class Rule(Protocol):
    """The way in which the statistics of a round change the expectation parameters."""

    @property
    def local(self) -> bool: ...  # lanes step through their documents independently, and are merged
    # Returns the statistics of one lane at the broadcast mu or, if `local`, the lane's change of mu.
    def map(self, sdem: Any, state: Any, batch: Any, at: At) -> Any: ...
    def step(self, sdem: Any, state: Any, statistics: Any) -> Any: ...  # the next state


@record
class SdEM(Generic[ModelT]):
    """The learner that fits a model to minimise a loss, with a rule for the steps."""

    model: ModelT
    n_documents: float  # n, the weight of all training documents
    rule: Rule
    loss: str | losses.Loss = "nll"
    class_weight: tuple[float, ...] | None = None  # factor of the weights of each class's documents, only in training
    unlabelled_weight: float = 1.0  # weight of a document without a label (-1)
    held_out: float = 0.0  # share of documents not trained on; evaluation then returns metrics for choices
    temperature: float = 1.0  # probabilities are computed from class scores divided by this
    seed: int = 0

    @property
    def state_type(self) -> Any:
        return self.model.state_type

    @property
    def cache_key(self) -> str:
        return f"{self.model.cache_key} {self.rule.local}"

    @property
    def width(self) -> int:
        return int(self.model.n_features)

    @property
    def n_labels(self) -> int:
        return int(self.model.n_classes)

    @property
    def head(self) -> Any:
        return self.model.head

    def state_fields(self) -> Any:
        return self.model.state_fields()

    def check_state(self, state: Any) -> None:
        """Raise ValueError unless the settings are consistent, and the state is valid for the model."""
        if not 0 <= self.seed < 1 << 64:
            raise ValueError(f"seed must be between 0 and 2**64 - 1, got {self.seed}")
        if not self.temperature > 0.0:
            raise ValueError(f"temperature must be positive, got {self.temperature}")
        if isinstance(self.loss, str) and self.loss not in losses.LOSSES:
            raise ValueError(f"unknown loss {self.loss!r}")
        if self.class_weight is not None and len(self.class_weight) != self.n_labels:
            raise ValueError(f"class_weight has {len(self.class_weight)} numbers for {self.n_labels} classes")
        self.model.check_state(state)

    def init(self) -> Any:
        return self.model.init(self.n_documents, self.seed)

    def prepare(self, documents: Any) -> Any:
        """Return documents in the form that the model needs; with frequent words first if the rule is `local`."""
        return self.model.prepare(documents, frequent_first=self.rule.local)

    def map(self, state: Any, documents: Any, lane: Lane) -> Any:
        """Return the statistics of one lane at the broadcast mu, or its change of mu if the rule is `local`."""
        return self.rule.map(self, state, self.trained_on(documents, lane), At(lane, self.seed))

    def trained_on(self, documents: Any, lane: Lane) -> Any:
        """Return prepared documents with their training weights, which are 0 for held-out documents."""
        if self.class_weight is None and not self.held_out:
            return documents
        labels = documents.labels
        weights = np.ones(len(labels)) if documents.weights is None else documents.weights
        if self.class_weight is not None:
            weights = weights * np.where(labels < 0, 1.0, np.asarray(self.class_weight)[labels])
        if self.held_out:
            part = trained_part(self.seed, lane.start, lane.stop, self.held_out)
            weights = np.where(part | (labels < 0) if len(labels) else part, weights, 0.0)
        change: Any = replace if isinstance(documents, Documents) else type(documents)._replace
        return change(documents, weights=weights)

    def combine(self, parts: Sequence[Any]) -> Any:
        return parts[0] if len(parts) == 1 else self.model.add(parts)

    def update(self, state: Any, statistics: Any) -> Any:
        return state if statistics.weight == 0.0 else self.rule.step(self, state, statistics)

    def parameters(self, state: Any) -> Any:
        return self.model.parameters(state)

    def evaluate(self, state: Any, batches: Iterable[Any]) -> np.ndarray:
        """Return the head's sums for metrics, over batches; documents without a label are ignored."""
        scored = (self.model.scored(state, batch, self.temperature, self.seed) for batch in batches)
        sums = self.head.sums(scored, held_out=bool(self.held_out), tempered=self.model.tempered)
        return np.asarray(sums)

    def metrics(self, sums: np.ndarray) -> Any:
        """Return the metrics of predictions, or those by which held-out documents choose."""
        return self.head.metrics(sums, held_out=bool(self.held_out))

    def decided(self, **values: Any) -> "SdEM[ModelT]":
        """Return this learner with values chosen on held-out documents: a temperature, or settings of the head."""
        if "temperature" in values:
            return replace(self, **values)
        return replace(self, model=replace(self.model, head=replace(self.head, **values)))

    # Blocks of a model of words: each holds the rows of neighbouring words, and their sums. All other fields (class
    # counts, gamma, t) are equal in all blocks, since the update of each block computes them.
    def initial_block(self, block: int, n_blocks: int) -> Any:
        return self.model.start(*self.model.bounds(block, n_blocks), self.seed)

    def block_of_state(self, state: Any, block: int, n_blocks: int) -> Any:
        words = state.words[slice(*self.model.bounds(block, n_blocks))].copy()
        return state._replace(words=words, totals=words.sum(axis=0))

    def block_of_statistics(self, statistics: Any, block: int, n_blocks: int) -> Any:
        first, last = self.model.bounds(block, n_blocks)
        inside = (statistics.words >= first) & (statistics.words < last)
        of_words = {name: getattr(statistics, name)[inside] for name in ("rows", "met", "entries")}
        return statistics._replace(words=statistics.words[inside] - np.uint32(first), **of_words)

    def joined(self, states: Sequence[Any]) -> Any:
        table = BlockedTable([b.words for b in states])
        return states[0]._replace(words=table, totals=np.sum([b.totals for b in states], axis=0))

    def gathered(self, n_blocks: int, get: Callable[[int], Any]) -> Any:
        """Return an undivided state; ``get(block)`` is called for one block at a time, so that rows exist only once."""
        words, totals = np.empty((self.model.n_features, self.model.n_columns)), np.zeros(self.model.n_columns)
        for number in range(n_blocks):
            block = get(number)
            words[slice(*self.model.bounds(number, n_blocks))] = block.words
            totals += block.totals
            state = block._replace(words=words, totals=totals)
            del block  # frees its rows before the next block is fetched
        return state
