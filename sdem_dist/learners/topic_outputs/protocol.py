"""What the learner of topic models asks of a kind of output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol

import numpy as np

from sdem_dist.models.supervised_lda import TopicParameters
from sdem_dist.models.word_counts import LocalDocuments


class Seen(NamedTuple):
    """A batch of documents at some parameters."""

    outputs: np.ndarray  # U theta, shape (n_documents, n_outputs)
    log_likelihood: np.ndarray  # ln p(words | theta), shape (n_documents,)
    documents: LocalDocuments


class Settings(Protocol):
    """What outputs need to know of the learner."""

    @property
    def n_outputs(self) -> int:
        """Rows of U."""

    @property
    def gamma(self) -> float:
        """Factor of U theta."""

    @property
    def scale(self) -> tuple[float, ...]:
        """Of targets."""

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The probability from which on a document gets each label; empty: 0.5."""


class TopicOutput(ABC):
    """A kind of output: what it learns from, where U begins, and how well it does."""

    kind: int  # that of `sdem_dist.kernels.topic_outputs`
    learns: Literal["labels", "targets", "nothing"]  # what documents bring
    runaway = np.inf  # an entry of U past which training has diverged

    def start(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        """Return U before the first document: normal numbers, unless the kind has others."""
        return rng.standard_normal(shape)

    def prepared(self, targets: np.ndarray, location: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the targets that the kernel takes, or raise ValueError where they cannot be."""
        return np.asarray(targets, np.float64)

    @abstractmethod
    def sums(self, settings: Settings, parameters: TopicParameters, batches: Iterable[Seen]) -> np.ndarray:
        """Return sums over batches, which add up."""

    @abstractmethod
    def metrics(self, settings: Settings, sums: np.ndarray) -> dict[str, float]:
        """Return what people read."""
