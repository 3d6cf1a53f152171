"""The tasks of a search: an epoch of learners side by side, and their scores of documents that they have not seen."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from sdem_dist.engine import tasks
from sdem_dist.engine.executor import Executor, Handle
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.rounds import Blocks, TaskSizes, submit_round
from sdem_dist.engine.tasks import naming_bad_document
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.several import Several, States
from sdem_dist.models.word_counts import LocalDocuments, SdemStatistics, lengths
from sdem_dist.selection.metrics import log_sums

Feed = tasks.TaskInput[States, tuple[SdemStatistics, ...], LocalDocuments]


class Unseen(NamedTuple):
    """Predictions of learners for the documents of their fold within a range."""

    scores: list[np.ndarray]
    """Of each learner ln p(y | d) at temperature 1, of several labels their log-odds: shape (n_documents of its fold,
    n_classes), float32."""
    log_likelihood: list[np.ndarray]
    """Of each learner ln p(d), of several labels zeros: shape (n_documents of its fold,)."""
    lengths: np.ndarray
    """Of all documents of the range: words, or sums of weights."""


class Stepped(NamedTuple):
    """States after an epoch of one lane, and what they predict."""

    states: tasks.TaskResult[States]
    unseen: Unseen


def epoch_side_by_side(feed: Feed, lane: Lane, renewed: bool, block: tasks.TaskResult[States]) -> Stepped:
    """Return states and scores after an epoch of one lane of learners side by side, see `Several.stepped`."""
    learner, watch = feed.learner, tasks._Stopwatch()
    assert isinstance(learner, Several)
    documents = next(feed.prepared([(lane.start, lane.stop)], watch))
    with naming_bad_document(learner, feed.corpus, block.value, lane):
        states, scores = learner.stepped(block.value, documents, lane, renewed)
    return Stepped(tasks.TaskResult(states), _unseen([(joint, joint) for joint in scores], documents))


def states_of(stepped: Stepped) -> tasks.TaskResult[States]:
    """Return the states after an epoch."""
    return stepped.states


def unseen_of(stepped: Stepped) -> list[Unseen]:
    """Return what they predict."""
    return [stepped.unseen]


def submit_epoch(feed: Feed, plan: Plan, executor: Executor, blocks: Blocks[States]) -> Blocks[States]:
    """Submit one epoch of learners side by side and return the handle of their states after it."""
    bundle = TaskSizes(plan, executor).n_lanes
    for number in range(plan.rounds(0)):
        blocks = submit_round(feed, plan, executor, blocks, 0, number, bundle)
    return blocks


def unseen(feed: Feed, ranges: Sequence[tuple[int, int]], block: tasks.TaskResult[States]) -> list[Unseen]:
    """Return the learners' predictions for documents that they were not trained on, for each range."""
    learner = feed.learner
    assert isinstance(learner, Several)
    documents = feed.prepared(ranges, tasks._Stopwatch())
    found = _unseen_labels if learner.labels_apart else _unseen
    return [found(learner.out_of_fold(block.value, part), part) for part in documents]


def _unseen(scored: Iterable[tuple[np.ndarray, np.ndarray]], documents: LocalDocuments) -> Unseen:
    of_learners, marginal = [], []
    for scores, joint in scored:
        sums = log_sums(scores)
        of_learners.append((scores - sums).astype(np.float32))
        marginal.append((sums if joint is scores else log_sums(joint))[:, 0])
    return Unseen(of_learners, marginal, lengths(documents.documents))


def _unseen_labels(scored: Iterable[tuple[np.ndarray, np.ndarray]], documents: LocalDocuments) -> Unseen:
    of_learners = [scores.astype(np.float32) for scores, _ in scored]
    return Unseen(of_learners, [np.zeros(len(scores)) for scores in of_learners], lengths(documents.documents))


Submitted: TypeAlias = "list[tuple[list[tuple[int, int]], Handle[list[Unseen]]]]"
"""Ranges of documents, and the handle of what is predicted of them."""


def submit_unseen(
    feed: Feed, groups: Sequence[tuple[float, list[tuple[int, int]]]], executor: Executor, blocks: Blocks[States]
) -> Submitted:
    """Submit the scoring of groups of ranges; return each with its handle."""
    return [
        (ranges, executor.submit(unseen, feed, ranges, blocks[0], affinity=affinity)) for affinity, ranges in groups
    ]


def submit_side_by_side(
    feed: Feed, plan: Plan, executor: Executor, blocks: Blocks[States], owned: bool
) -> tuple[Blocks[States], Submitted]:
    """Submit an epoch of one lane of learners side by side; return the handles of their states and what they predict.

    Where nobody else has the tables of `blocks` (`owned`), and no task is computed again, they are changed in place.
    """
    (lane,) = plan.lanes(0, 0)
    both = executor.submit(epoch_side_by_side, feed, lane, owned and not executor.n_remembered, blocks[0], affinity=0.0)
    ranges = [(lane.start, lane.stop)]
    return [executor.submit(states_of, both, affinity=0.0)], [(ranges, executor.submit(unseen_of, both, affinity=0.0))]
