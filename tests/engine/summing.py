"""A learner that is easy to follow: its state is a sum over documents, and it says which work was begun."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from reference.random_documents import random_counts

from sdem_dist.corpus import MemoryCorpus
from sdem_dist.engine.plan import Plan

WORK: list[tuple[str, int, int, int]] = []
"""Learner, epoch, round and lane of every lane begun in this process."""


class Total(NamedTuple):
    words: np.ndarray
    t: float


@dataclass(frozen=True)
class Summing:
    name: str
    decay: float = 0.5
    cache_key = "summing"

    def init(self) -> Total:
        return Total(np.zeros(30), 0.0)

    def prepare(self, documents):
        return documents

    def map(self, state, documents, lane):
        WORK.append((self.name, lane.epoch, lane.round, lane.lane))
        return np.bincount(documents.indices, documents.data, minlength=30) / (1.0 + state.words.sum())

    def combine(self, parts):
        return np.sum(np.stack(parts), axis=0)

    def update(self, state, statistics):
        return Total(self.decay * state.words + statistics, state.t + 1)

    def evaluate(self, state, batches):
        return sum((np.array([b.data @ state.words[b.indices], float(b.n_documents)]) for b in batches), np.zeros(2))

    def metrics(self, sums):
        return {"loss": float(sums[0] / sums[1])}


def corpus(seed: int = 2) -> MemoryCorpus:
    X, y = random_counts(200, 30, 3, seed=seed)
    return MemoryCorpus(X, y, (0, 1, 2))


def plan(n_epochs: int) -> Plan:
    return Plan(n_documents=200, n_epochs=n_epochs, n_rounds=2, n_lanes=4, seed=1)
