"""Stochastic discriminative EM (Masegosa 2014, Algorithm 1): a model x a loss x a rule for its expectation parameters.

::

    mu = the prior's                                                          init
    in every round:
        for each lane of documents, on some worker:                           map
            statistics = sum of (loss weight of y) E[s(y, d)] at theta(mu)      at the broadcast mu, or
            or how far mu moves in steps of a few documents each                `Rule.local`: Algorithm 2
        statistics = their sum over lanes                                     combine
        mu = rule(mu, statistics), checked: inside S                          update
    theta = theta(mu)                                                         parameters

A model (``models``) says what a document contributes, its head what scores mean, a loss which classes a document
pushes, and a rule how mu moves: `Merge` is the paper's for words, `SafeStep` for tables, `ClosedForm` counts and is EM.
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
    """Where in a run a lane is: what keys its random numbers, and how much of the corpus it stands for."""

    lane: Lane
    seed: int

    @property
    def key(self) -> np.ndarray:
        """128 bits as two uint64: one stream of random numbers per seed and place in the run."""
        return np.array([self.seed, (self.lane.epoch << 40) | (self.lane.round << 20) | self.lane.lane], np.uint64)

    def keys(self, n_documents: int) -> np.ndarray:
        """Return a random number of each of the lane's documents, uint64, whatever the lanes are."""
        return document_keys(self.seed, self.lane.epoch, self.lane.start, self.lane.start + n_documents)

    def order(self, n_documents: int) -> np.ndarray:
        """Return a permutation of the lane's documents, one for each seed and place in the run."""
        return np.random.Generator(np.random.Philox(key=self.key)).permutation(n_documents)

    def scale(self, n_documents: int) -> float:
        """Return how many documents of the round one of the lane stands for."""
        return self.lane.round_documents / max(n_documents, 1)


class Rule(Protocol):
    """How the statistics of a round move the expectation parameters."""

    @property
    def local(self) -> bool: ...  # lanes step through their documents by themselves, and where they end is merged
    # The statistics of one lane at the broadcast mu, or how far it moves from there if `local`.
    def map(self, sdem: Any, state: Any, batch: Any, at: At) -> Any: ...
    def step(self, sdem: Any, state: Any, statistics: Any) -> Any: ...  # the next state


@record
class SdEM(Generic[ModelT]):
    """A model, trained down a loss by a rule: the pass over documents that the engine runs."""

    model: ModelT
    n_documents: float  # n, those of the training corpus by weight
    rule: Rule
    loss: str | losses.Loss = "nll"
    class_weight: tuple[float, ...] | None = None  # multiplies the weights of each class's documents, in training alone
    unlabelled_weight: float = 1.0  # of a document of label -1, whose class is hidden
    held_out: float = 0.0  # share of documents that are not trained on; evaluation then has what these choose by
    temperature: float = 1.0  # scores of classes are divided by it for probabilities
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
        """Raise ValueError unless the settings match each other, and the model allows the state."""
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
        """Return documents as the model takes them; frequent words first where lanes step through them."""
        return self.model.prepare(documents, frequent_first=self.rule.local)

    def map(self, state: Any, documents: Any, lane: Lane) -> Any:
        """Return what one lane adds to a round: statistics at the broadcast mu, or how far it moved."""
        return self.rule.map(self, state, self.trained_on(documents, lane), At(lane, self.seed))

    def trained_on(self, documents: Any, lane: Lane) -> Any:
        """Return prepared documents with the weights that they have in training: 0 where they are held out."""
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
        """Return sums over batches of what the head reports; documents without a label do not count."""
        scored = (self.model.scored(state, batch, self.temperature, self.seed) for batch in batches)
        sums = self.head.sums(scored, held_out=bool(self.held_out), tempered=self.model.tempered)
        return np.asarray(sums)

    def metrics(self, sums: np.ndarray) -> Any:
        """Return what people read: quality of predictions, or what held-out documents choose by."""
        return self.head.metrics(sums, held_out=bool(self.held_out))

    def decided(self, **values: Any) -> "SdEM[ModelT]":
        """Return the same pass with what held-out documents decide: a temperature, or settings of the head."""
        if "temperature" in values:
            return replace(self, **values)
        return replace(self, model=replace(self.model, head=replace(self.head, **values)))

    # Models of words in blocks: a block of a state holds the rows of some neighbouring words and their sums. What does
    # not belong to words (class counts, gamma, t) is in each alike, as each block's update computes it anew.
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
        """Return a state in one piece; ``get(block)`` is called block by block, without a second copy of all rows."""
        words, totals = np.empty((self.model.n_features, self.model.n_columns)), np.zeros(self.model.n_columns)
        for number in range(n_blocks):
            block = get(number)
            words[slice(*self.model.bounds(number, n_blocks))] = block.words
            totals += block.totals
            rest = block._replace(words=words, totals=totals)
            del block  # before the next comes
        return rest
