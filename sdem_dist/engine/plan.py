"""Which documents are processed when: a pure function of the corpus's size and the settings, never of the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sdem_dist.learners.protocol import Lane


@dataclass(frozen=True)
class Plan:
    """Epochs cut into rounds, rounds into lanes.

    The corpus is cut once into ``n_rounds * n_lanes`` contiguous ranges of (almost) equal length; every epoch deals
    them anew to rounds and lanes, by a permutation keyed with the seed and the epoch.  Ranges stay the same through
    a run, so that what a worker has read and prepared serves again.

    Attributes
    ----------
    n_documents, n_epochs, n_rounds, n_lanes : int
        `n_rounds` an epoch, `n_lanes` a round.
    seed : int
    """

    n_documents: int
    n_epochs: int
    n_rounds: int
    n_lanes: int
    seed: int

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Return the (start, stop) of every range, in stored order."""
        bounds = np.linspace(0, self.n_documents, self.n_rounds * self.n_lanes + 1).astype(np.int64)
        return [(int(a), int(b)) for a, b in pairwise(bounds)]

    @property
    def lane_documents(self) -> int:
        """Return the documents of a lane in one round, rounded down."""
        return self.n_documents // (self.n_rounds * self.n_lanes)

    def lanes(self, epoch: int, round_: int) -> list[Lane]:
        """Return the lanes of one round."""
        ranges = self.ranges
        dealt = self._deal(epoch)[round_]
        documents = sum(ranges[r][1] - ranges[r][0] for r in dealt)
        return [Lane(epoch, round_, lane, ranges[r][0], ranges[r][1], documents) for lane, r in enumerate(dealt)]

    def _deal(self, epoch: int) -> np.ndarray:
        # A counter block of its own, so that no lane draws the same numbers.
        bits = np.random.Philox(key=np.array([self.seed, epoch], np.uint64), counter=1 << 64)
        generator = np.random.Generator(bits)
        return generator.permutation(self.n_rounds * self.n_lanes).reshape(self.n_rounds, self.n_lanes)


def evaluation_ranges(n_documents: int, n_ranges: int) -> list[tuple[int, int]]:
    """Cut documents that are only scored into `n_ranges` contiguous ranges, fewer where there are fewer documents."""
    bounds = np.linspace(0, n_documents, min(n_ranges, max(n_documents, 1)) + 1).astype(np.int64)
    return [(int(a), int(b)) for a, b in pairwise(bounds)]
