"""How many lanes and rounds a run has: a function of the documents and the parameters, never of the cluster."""

from __future__ import annotations

import numpy as np

from sdem_dist.engine.memory import default_blocks
from sdem_dist.engine.plan import Plan

LANES = 128
"""Lanes of a round at most, where lanes are short."""
MIN_LANE_DOCUMENTS = 2
MAX_LANE_DOCUMENTS = 10_000
"""Documents of a sequential lane in a round."""
ROUNDS = 8
MANY_DOCUMENTS = 1_000_000
"""Documents of an epoch from which one round is enough: on large corpora merging more often gains nothing."""
SUM_TASK_DOCUMENTS = 1_000
"""Documents of counts that make a task worth its overhead, where lanes only add."""
PASS_DOCUMENTS = 4_096
"""The same for a lane of a full pass of a mixture."""


def lanes_of(n_documents: int, least: int, most: int = LANES) -> int:
    """Return how many lanes of `least` documents or more there are, at most `most`."""
    return max(1, min(most, n_documents // least))


def default_lanes(n_documents: int, n_rounds: int) -> int:
    """Return the number of sequential lanes of a round, for ``merge="mean"``.

    128, fewer where a lane would have under 2 documents; doubled until none has over 10,000 in a round, so that lanes can
    be dealt out evenly: tasks have powers of two of them.
    """
    a_round = n_documents // n_rounds
    lanes = lanes_of(a_round, MIN_LANE_DOCUMENTS)
    while lanes * MAX_LANE_DOCUMENTS < a_round:
        lanes *= 2
    return lanes


def default_rounds(n_documents: int) -> int:
    """Return the rounds of an epoch for ``merge="mean"``: 8, fewer where documents are many, 1 where they are few."""
    if n_documents < ROUNDS * MIN_LANE_DOCUMENTS:
        return 1
    return max(1, min(ROUNDS, MANY_DOCUMENTS // n_documents))


def sequential(n_documents: int, n_epochs: int, seed: int, lanes: int | None = None, rounds: int | None = None) -> Plan:
    """Return the plan of lanes that each run through their documents and are averaged."""
    rounds = rounds or (1 if lanes == 1 else default_rounds(n_documents))
    return Plan(n_documents, n_epochs, rounds, lanes or default_lanes(n_documents, rounds), seed)


def batches(
    n_documents: int, n_epochs: int, seed: int, batch: int, lanes: int | None = None, least: int = SUM_TASK_DOCUMENTS
) -> Plan:
    """Return the plan of a run that takes one step a round, of `batch` documents that lanes share out."""
    batch = min(batch, n_documents)
    rounds = -(-n_documents // batch)
    return Plan(n_documents, n_epochs, rounds, lanes or min(LANES, -(-batch // least)), seed)


def full_passes(n_documents: int, n_epochs: int, seed: int, least: int = PASS_DOCUMENTS) -> Plan:
    """Return the plan of so many passes over all documents, a round each."""
    return Plan(n_documents, n_epochs, 1, lanes_of(n_documents, least), seed)


def blocks_of(n_features: int, n_columns: int, asked: int | None = None) -> int:
    """Return in how many blocks of the vocabulary a table of float64 is merged and updated."""
    return min(asked or default_blocks(8 * n_features * n_columns), n_features)


def seed_of(random_state: object) -> int:
    """Return an integer seed from what scikit-learn accepts as ``random_state``.

    Raises
    ------
    ValueError
        An integer that is negative or has more than 63 bits, or something that is no random state.
    """
    from sklearn.utils import check_random_state

    if isinstance(random_state, int | np.integer):
        if 0 <= random_state < 2**63:
            return int(random_state)
        raise ValueError(f"random_state must be between 0 and 2**63 - 1, got {random_state!r}")
    return int(check_random_state(random_state).randint(2**31 - 1))
