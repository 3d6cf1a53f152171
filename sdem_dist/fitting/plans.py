"""How many lanes and rounds a run has: a function of the documents and the parameters, never of the cluster."""

from dataclasses import replace

from sdem_dist.engine.memory import default_blocks
from sdem_dist.engine.plan import Plan
from sdem_dist.fitting.defaults import (
    FIRST_BATCH,
    FIRST_ROUND_DOCUMENTS,
    MAX_LANE_DOCUMENTS,
    MAX_LANES,
    ONE_LANE_DOCUMENTS,
    PASS_DOCUMENTS,
    ROUNDS,
    STEP_LANES,
    SUM_TASK_DOCUMENTS,
)


def lanes_of(n_documents: int, least: int, most: int = MAX_LANES) -> int:
    """Return how many lanes of `least` documents or more there are, at most `most`."""
    return max(1, min(most, n_documents // least))


def default_lanes(n_documents: int, n_rounds: int) -> int:
    """Return the number of lanes that each run through their documents: one where documents are few.

    Otherwise 16, doubled until none has over 10,000 documents in a round, so that lanes can be dealt out evenly: tasks
    have powers of two of them.
    """
    if n_documents <= ONE_LANE_DOCUMENTS:
        return 1
    lanes = STEP_LANES
    while lanes * MAX_LANE_DOCUMENTS < n_documents // n_rounds:
        lanes *= 2
    return lanes


def sequential(n_documents: int, n_epochs: int, seed: int, lanes: int | None = None, rounds: int | None = None) -> Plan:
    """Return the plan of lanes that each run through their documents and are merged, in rounds that grow."""
    lanes = lanes or default_lanes(n_documents, ROUNDS)
    if rounds is None:
        rounds = 1 if lanes == 1 else max(1, min(ROUNDS, n_documents // (2 * lanes)))
    a_round, growth = n_documents // rounds, 0
    while lanes > 1 and a_round >> (growth + 1) >= max(FIRST_ROUND_DOCUMENTS, lanes):
        growth += 1
    return Plan(n_documents, n_epochs, rounds, lanes, seed, growth)


def batches(
    n_documents: int, n_epochs: int, seed: int, batch: int, lanes: int | None = None, least: int = SUM_TASK_DOCUMENTS
) -> Plan:
    """Return the plan of a run that takes one step per round, of `batch` documents that lanes share out."""
    batch = min(batch, n_documents)
    rounds = -(-n_documents // batch)
    return Plan(n_documents, n_epochs, rounds, lanes or min(MAX_LANES, -(-batch // least)), seed)


def growing(plan: Plan) -> Plan:
    """Return a plan of batches of which the first are small."""
    batch, growth = plan.n_documents // plan.n_rounds, 0
    while batch >> (growth + 1) >= FIRST_BATCH:
        growth += 1
    return replace(plan, growth=growth)


def full_passes(n_documents: int, n_epochs: int, seed: int, least: int = PASS_DOCUMENTS) -> Plan:
    """Return the plan of `n_epochs` passes over all documents, one round each."""
    return Plan(n_documents, n_epochs, 1, lanes_of(n_documents, least), seed)


def blocks_of(n_features: int, n_columns: int, asked: int | None = None) -> int:
    """Return in how many blocks of the vocabulary a table of float64 is merged and updated."""
    return min(asked or default_blocks(8 * n_features * n_columns), n_features)
