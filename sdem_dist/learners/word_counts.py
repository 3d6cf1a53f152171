"""What learners of tables of words have in common: documents, states, blocks of the vocabulary, evaluation."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, cast

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.evaluation import (
    Scored,
    choosing_metrics,
    choosing_sums,
    classifier_metrics,
    classifier_sums,
    evaluation_sums,
    finish,
    joined,
    scored,
)
from sdem_dist.learners.field import Field, check_class_weight
from sdem_dist.learners.local_words import localised
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.word_statistics import SdemStatistics, combined
from sdem_dist.models.class_weight import trained_part, weighted
from sdem_dist.models.lda import LdaClasses, LdaParameters
from sdem_dist.models.naive_bayes import NaiveBayes, NaturalParameters, lengths
from sdem_dist.models.one_against_rest import OneAgainstRest
from sdem_dist.models.word_counts import LocalDocuments, SdemState

Model = TypeVar("Model", NaiveBayes, LdaClasses, OneAgainstRest)
_COMPILED = {"uint8": np.uint8, "uint16": np.float32, "float32": np.float32}
"""Dtypes of entries in kernels, by the dtype stored: exact, small, and few, since each is compiled; else float64."""


def bounds(n_features: int, block: int, n_blocks: int) -> tuple[int, int]:
    """Return the first word of a block of the vocabulary and the first after it."""
    return n_features * block // n_blocks, n_features * (block + 1) // n_blocks


@dataclass(frozen=True)
class WordLearner(Generic[Model]):
    """Settings and functions that do not depend on how a table of words is trained.

    A block of a state holds the rows of some neighbouring words and their sums. What does not belong to words (class
    counts, gamma, t) is in every block alike, since every block's update computes it from the same numbers.
    """

    model: Model
    n_documents: float  # n, the documents of the training corpus by weight
    class_weight: tuple[float, ...] | None = None  # multiplies the weights of the documents of each class
    seed: int = 0
    temperature: float = 1.0  # scores are divided by it for probabilities
    held_out: float = 0.0  # share of the labelled documents that are not trained on, drawn by their place in the corpus

    state_type = SdemState

    @property
    def cache_key(self) -> str:
        """Prepared documents depend on whether labels count, and on what is checked."""
        return f"local-words {self.model.clusters} {self.model.whole_counts}"

    @property
    def frequent_first(self) -> bool:
        """Whether words are numbered by their frequency."""
        return False

    @property
    def width(self) -> int:
        """Columns of the documents."""
        return self.model.n_features

    @property
    def n_labels(self) -> int:
        """Classes that documents are labelled with."""
        return self.model.n_classes

    def state_fields(self) -> dict[str, Field]:
        """Return what each array of a state is."""
        m = self.model
        return {
            "words": Field((m.n_features, m.n_columns), 0.0),
            "totals": Field((m.n_columns,), 0.0),
            "class_counts": Field((m.n_counts,), 0.0),
            **dict.fromkeys(("gamma", "class_gamma", "t"), Field((), 0.0)),
        }

    def check_state(self, state: SdemState) -> None:
        """Raise ValueError unless the class weights match the classes, and random numbers have a key."""
        if not 0 <= self.seed < 1 << 64:
            raise ValueError(f"seed must be from 0 to 2**64 - 1, and is {self.seed}")
        check_class_weight(self.class_weight, self.model.n_classes)

    def init(self) -> SdemState:
        """Return mu_0."""
        return self.start(0, self.model.n_features)

    def start(self, first: int, last: int) -> SdemState:
        """Return mu_0 of the words ``first:last``."""
        return self.model.start(first, last, self.seed)

    def prepare(self, documents: Documents) -> LocalDocuments:
        """Renumber words compactly, in few bytes an entry.

        Raises ValueError: there are no labels, or the model does not take the entries.
        """
        self.model.check_documents(documents)
        labels = documents.labels
        if self.model.clusters:
            labels = np.zeros(documents.n_documents, np.int32)
        elif labels is None:
            raise ValueError("documents without labels cannot be prepared for training or evaluation")
        weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
        data = documents.data.astype(_COMPILED.get(documents.data.dtype.name, np.float64), copy=False)
        return localised(replace(documents, data=data), labels, weights, frequent_first=self.frequent_first)

    def trained_on(self, documents: LocalDocuments, lane: Lane) -> LocalDocuments:
        """Return the prepared documents of a lane with their weights in training: 0 where they are held out."""
        weights = weighted(documents.weights, documents.labels, self.class_weight)
        if self.held_out:
            part = trained_part(self.seed, lane.start, lane.stop, self.held_out)
            weights = np.where(part | (documents.labels < 0), weights, 0.0)
        return documents._replace(weights=weights)

    def combine(self, parts: Sequence[SdemStatistics]) -> SdemStatistics:
        """Add sets of lanes, word by word, from first to last."""
        return combined(parts, self.model.n_features)

    def parameters(
        self, state: SdemState, words: np.ndarray | slice = slice(None)
    ) -> NaturalParameters | LdaParameters:
        """Return the natural parameters of the given words (M-step), as the model defines them."""
        return self.model.parameters(state, words)

    def evaluate(self, state: SdemState, batches: Iterable[LocalDocuments]) -> np.ndarray:
        """Return the sums of `evaluation.classifier_sums` over all batches; of clusters those of `evaluation_sums`.

        Documents without a label count nowhere. If some are held out of training, only what these choose by is found.
        """
        if self.held_out:
            return np.sum([self._choosing(state, local) for local in batches], axis=0)
        documents = joined(self._scored(state, local) for local in batches)
        return evaluation_sums(documents) if self.model.clusters else classifier_sums(documents, tempered=True)

    def _scored(self, state: SdemState, local: LocalDocuments) -> Scored:
        scores, log_joint = self.model.scores(self.model.parameters(state, local.words), local, self.seed)
        weights, n_words = local.weights, lengths(local.documents)
        return scored(scores / self.temperature, local.labels, weights, n_words, log_joint)

    def _choosing(self, state: SdemState, local: LocalDocuments) -> np.ndarray:
        scores, _ = self.model.scores(self.model.parameters(state, local.words), local, self.seed)
        return choosing_sums(scores / self.temperature, local.labels, local.weights)

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return accuracy, mean losses, perplexity and how good probabilities are; of clusters only that of p(d)."""
        if self.held_out:
            return choosing_metrics(sums)
        if self.model.clusters:
            found = finish(sums)
            return {name: found[name] for name in ("nll", "perplexity")}
        return classifier_metrics(sums, self.model.n_classes)

    def initial_block(self, block: int, n_blocks: int) -> SdemState:
        """Return one block of ``init()``."""
        return self.start(*bounds(self.model.n_features, block, n_blocks))

    def block_of_state(self, state: SdemState, block: int, n_blocks: int) -> SdemState:
        """Return one block of a whole state."""
        words = state.words[slice(*bounds(self.model.n_features, block, n_blocks))].copy()
        return state._replace(words=words, totals=words.sum(axis=0))

    def block_of_statistics(self, statistics: SdemStatistics, block: int, n_blocks: int) -> SdemStatistics:
        """Return what one block's update needs of statistics."""
        first, last = bounds(self.model.n_features, block, n_blocks)
        inside = (statistics.words >= first) & (statistics.words < last)
        of_words = {name: getattr(statistics, name)[inside] for name in ("rows", "met", "entries")}
        return statistics._replace(words=statistics.words[inside] - np.uint32(first), **of_words)

    def joined(self, states: Sequence[SdemState]) -> SdemState:
        """Return blocks as one state without copying a row: its table is a tuple of the blocks' tables."""
        if len(states) == 1:
            return states[0]
        tables = cast(np.ndarray, tuple(b.words for b in states))  # only `rows_of` may read it
        return states[0]._replace(words=tables, totals=np.sum([b.totals for b in states], axis=0))

    def whole(self, n_blocks: int, get: Callable[[int], SdemState]) -> SdemState:
        """Return a state in one piece; ``get(block)`` is called block by block, without a second copy of all rows."""
        block: SdemState = get(0)
        if n_blocks == 1:
            return block
        words = np.empty((self.model.n_features, *block.words.shape[1:]))
        rest, totals = block._replace(words=words), np.zeros_like(block.totals)
        for number in range(n_blocks):
            if number:
                del block  # before the next comes
                block = get(number)
            words[slice(*bounds(self.model.n_features, number, n_blocks))] = block.words
            totals += block.totals
        return rest._replace(totals=totals)
