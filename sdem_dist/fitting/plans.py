"""How many lanes and rounds a run has; the weights of counts in training, and the prior that training starts at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.engine.executor import default_blocks
from sdem_dist.engine.plan import Plan
from sdem_dist.fitting import defaults
from sdem_dist.models.heads import unit_of
from sdem_dist.models.naive_bayes import NaiveBayes, pseudo_count
from sdem_dist.models.weighting import Weighting
from sdem_dist.models.word_counts import SdemState, bounds

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus, MemoryCorpus
    from sdem_dist.inputs.spec import Source


def lanes_of(n_documents: int, least: int, most: int = defaults.MAX_LANES) -> int:
    """Return how many lanes of `least` documents or more there are, at most `most`."""
    return max(1, min(most, n_documents // least))


def default_lanes(n_documents: int, n_rounds: int) -> int:
    """Return the number of lanes that each run through their documents: one where documents are few.

    Otherwise 16, doubled until none has over 10,000 documents in a round, so that lanes can be dealt out evenly: tasks
    have powers of two of them.
    """
    if n_documents <= defaults.ONE_LANE_DOCUMENTS:
        return 1
    lanes = defaults.STEP_LANES
    while lanes * defaults.MAX_LANE_DOCUMENTS < n_documents // n_rounds:
        lanes *= 2
    return lanes


def sequential(n_documents: int, n_epochs: int, seed: int, lanes: int | None = None, rounds: int | None = None) -> Plan:
    """Return the plan of lanes that each run through their documents and are merged, in rounds that grow."""
    lanes = lanes or default_lanes(n_documents, defaults.ROUNDS)
    if rounds is None:
        rounds = 1 if lanes == 1 else max(1, min(defaults.ROUNDS, n_documents // (2 * lanes)))
    a_round, growth = n_documents // rounds, 0
    while lanes > 1 and a_round >> (growth + 1) >= max(defaults.FIRST_ROUND_DOCUMENTS, lanes):
        growth += 1
    return Plan(n_documents, n_epochs, rounds, lanes, seed, growth)


def batches(
    n_documents: int,
    n_epochs: int,
    seed: int,
    batch: int,
    lanes: int | None = None,
    least: int = defaults.SUM_TASK_DOCUMENTS,
) -> Plan:
    """Return the plan of a run that takes one step per round, of `batch` documents that lanes share out."""
    batch = min(batch, n_documents)
    rounds = -(-n_documents // batch)
    return Plan(n_documents, n_epochs, rounds, lanes or min(defaults.MAX_LANES, -(-batch // least)), seed)


def full_passes(n_documents: int, n_epochs: int, seed: int, least: int = defaults.PASS_DOCUMENTS) -> Plan:
    """Return the plan of `n_epochs` passes over all documents, one round each."""
    return Plan(n_documents, n_epochs, 1, lanes_of(n_documents, least), seed)


def blocks_of(n_features: int, n_columns: int, n_blocks: int | None = None) -> int:
    """Return in how many blocks of the vocabulary a table of float64 is merged and updated."""
    return min(n_blocks or default_blocks(8 * n_features * n_columns), n_features)


def with_frequencies(source: Source, weighting: Weighting) -> Source:
    weights = source.corpus.weights
    # Documents of weight 0, which those outside of a fold have, count nowhere.
    n_documents = source.n_documents if weights is None else int(np.count_nonzero(weights))
    return replace(source, weighting=weighting).weighed_by(source.corpus, n_documents)


def sample(source: Source) -> Documents:
    """Return the first documents of a source, as they are weighed: those of a corpus are in random order."""
    return cast("Documents", source.documents.read(0, min(defaults.SAMPLE_DOCUMENTS, source.n_documents)))


def scaled(source: Source) -> Source:
    """Return documents with the factor that gives them a mean squared length of `NORM` squared."""
    documents = sample(source)
    mean = unit_of(documents, np.ones(documents.n_features)).mean_square
    assert source.weighting is not None
    return replace(source, weighting=replace(source.weighting, scale=defaults.NORM / mean**0.5))


@dataclass(frozen=True)
class PriorStart:
    """mu_0 of words, which every process makes for itself from the corpus's document frequencies.

    `words`: the words, where the weighting chooses among n-grams and no corpus on disk has them.
    """

    model: NaiveBayes
    corpus: Corpus | MemoryCorpus
    weighting: Weighting | None = None
    words: list[str] | None = None

    def __getstate__(self) -> dict[str, object]:
        # What is cached stays behind.
        return {"model": self.model, "corpus": self.corpus, "weighting": self.weighting, "words": self.words}

    @cached_property
    def prior(self) -> np.ndarray:
        """Pseudo-counts, shape (n_features,)."""
        frequency = self.corpus.document_frequency
        form = "" if self.weighting is None else self.weighting.form
        power = defaults.PRIOR_POWERS.get(form, defaults.PRIOR_POWER)
        prior = self.model.alpha * np.maximum(frequency, 1.0) ** power
        if self.weighting is not None and self.weighting.chooses:
            words = self.words
            if words is None and self.weighting.orders is not None:
                words = self.corpus.vocabulary()
            # A column that is left out adds nothing to the classes' totals.
            left_out = self.weighting.factors(frequency, words) == 0.0
            prior[left_out] = pseudo_count(0.0, self.model.n_features)
        return np.asarray(prior)

    def block(self, block: int, n_blocks: int) -> SdemState:
        first, last = bounds(self.model.n_features, block, n_blocks)
        return self.model.start_at(self.prior[first:last])
