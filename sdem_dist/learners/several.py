"""Learners side by side: documents are read and prepared once for all of them, and each learns as it would alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.learners import side_by_side
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.fields import Field
from sdem_dist.models.heads import Labels
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores
from sdem_dist.models.word_counts import LocalDocuments, SdemState, SdemStatistics
from sdem_dist.offsets import offsets_of

Words = SdEM[NaiveBayes]
States = tuple[SdemState, ...]
"""Of each learner."""
NO_FOLD = -1


@dataclass(frozen=True)
class Several:
    """Learners of one table of words side by side; documents bring the number of their fold as their first target.

    Where they may have several labels, these follow it.
    """

    learners: tuple[Words, ...]  # all prepare documents alike: of one `cache_key`, and of tables of one shape
    folds: tuple[int, ...]  # the fold that each is trained without; `NO_FOLD`: none

    state_type = tuple

    def __post_init__(self) -> None:
        if len(self.learners) != len(self.folds) or not self.learners:
            raise ValueError(f"{len(self.learners)} learners and {len(self.folds)} folds do not go together")
        if len({(learner.cache_key, learner.width, learner.model.n_columns) for learner in self.learners}) > 1:
            raise ValueError("learners side by side prepare documents alike, and have tables of one shape")

    @property
    def labels_apart(self) -> bool:
        """Whether scores are log-odds of labels (a document may have several), and not of classes."""
        head = self.learners[0].head
        return isinstance(head, Labels) and not head.exclusive

    @property
    def cache_key(self) -> str:
        """Prepared documents hold their folds, too."""
        return f"{self.learners[0].cache_key} with folds"

    def state_fields(self) -> dict[str, Field]:
        """Return what each array of one learner's state is."""
        return self.learners[0].state_fields()

    def check_state(self, state: States) -> None:
        """Check the state of each."""
        for learner, own in zip(self.learners, state, strict=True):
            learner.check_state(own)

    def init(self) -> States:
        """Return the states before the first document."""
        return tuple(learner.init() for learner in self.learners)

    def prepare(self, documents: Documents) -> LocalDocuments:
        """Prepare documents once for all, raises as `WordLearner.prepare`."""
        targets = documents.targets
        if targets is None:
            raise ValueError("documents bring the number of their fold as their target")
        folds, members = targets[:, :1], targets[:, 1:]
        prepared = self.learners[0].prepare(replace(documents, targets=members if members.shape[1] else None))
        members = prepared.targets
        return prepared._replace(targets=np.hstack([folds, members]) if members.shape[1] else folds)

    def map(self, state: States, documents: LocalDocuments, lane: Lane) -> tuple[SdemStatistics, ...]:
        """Return the statistics of each learner in a lane; those that do not depend on a state are computed once."""
        found: dict[object, SdemStatistics] = {}
        parts: dict[int, LocalDocuments] = {}
        statistics = []
        for i, (learner, fold) in enumerate(zip(self.learners, self.folds, strict=True)):
            if fold not in parts:
                parts[fold] = trained_without(documents, fold)
            key = (fold, *(_counted(learner, documents) or (i,)))
            if key not in found:
                found[key] = learner.map(state[i], parts[fold], lane)
            statistics.append(found[key])
        return tuple(statistics)

    @property
    def steps_side_by_side(self) -> bool:
        """Whether `stepped` takes these learners."""
        return len({learner.seed for learner in self.learners}) == 1 and all(map(side_by_side.fits, self.learners))

    def stepped(
        self, state: States, documents: LocalDocuments, lane: Lane, renewed: bool = False
    ) -> tuple[States, list[np.ndarray]]:
        """Return the states after a lane that is a whole round, and ln p(y, d) of the documents of each learner's fold.

        `renewed`: tables of `state` are changed in place; nobody else needs them.
        """
        found = side_by_side.stepped(self.learners, self.folds, state, documents, lane, renewed)
        return tuple(after for after, _ in found), [scores for _, scores in found]

    def combine(self, parts: Sequence[tuple[SdemStatistics, ...]]) -> tuple[SdemStatistics, ...]:
        """Combine the statistics of each learner; what learners share is combined once."""
        found: dict[tuple[int, ...], SdemStatistics] = {}
        combined = []
        for learner, own in zip(self.learners, zip(*parts, strict=True), strict=True):
            key = tuple(id(part) for part in own)
            if key not in found:
                found[key] = learner.combine(own)
            combined.append(found[key])
        return tuple(combined)

    def update(self, state: States, statistics: tuple[SdemStatistics, ...]) -> States:
        """Update each."""
        each = zip(self.learners, state, statistics, strict=True)
        return tuple(learner.update(own, found) for learner, own, found in each)

    def evaluate(self, state: States, batches: Iterable[LocalDocuments]) -> np.ndarray:
        """Return the sums of each over the fold that it has not seen, one after the other."""
        batches = list(batches)
        return np.concatenate(
            [
                learner.evaluate(own, [of_fold(documents, fold) for documents in batches])
                for learner, own, fold in zip(self.learners, state, self.folds, strict=True)
            ]
        )

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return the metrics of each, with its number before their names."""
        parts = np.split(sums, len(self.learners))
        return {
            f"{i} {name}": value
            for i, (learner, part) in enumerate(zip(self.learners, parts, strict=True))
            for name, value in learner.metrics(part).items()
        }

    def out_of_fold(self, state: States, documents: LocalDocuments) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return each learner's scores of the documents in its fold, and their ln p(y, d).

        Both of shape (n_documents, n_classes), by their order in `documents`.
        """
        parts = {fold: of_fold(documents, fold) for fold in set(self.folds)}
        found = []
        for learner, own, fold in zip(self.learners, state, self.folds, strict=True):
            local = parts[fold]
            scores = joint_scores(learner.model.parameters(own, local.words), local.documents)
            found.append((scores, scores))
        return found


def state_of(fields: Iterable[np.ndarray]) -> SdemState:
    """Return the state of these fields; those without an axis are floats."""
    return SdemState(*(cast(Any, field if field.ndim else float(field)) for field in fields))


def _folds(documents: LocalDocuments) -> np.ndarray:
    return documents.targets[:, 0]


def _members(documents: LocalDocuments) -> np.ndarray:
    """Return the labels behind the folds, as learners of several labels prepare them; of others no column."""
    return np.ascontiguousarray(documents.targets[:, 1:], np.uint8)


def trained_without(documents: LocalDocuments, fold: int) -> LocalDocuments:
    """Return prepared documents, those of a fold with weight 0, and with labels alone as targets."""
    weights = np.where(_folds(documents) != fold, documents.weights, 0.0)
    return documents._replace(weights=weights, targets=_members(documents))


def of_fold(documents: LocalDocuments, fold: int) -> LocalDocuments:
    """Return the prepared documents of a fold, with the words that occur in them alone."""
    rows = np.flatnonzero(_folds(documents) == fold)
    whole = documents.documents
    lengths = np.diff(whole.indptr)[rows]
    indptr = offsets_of(lengths)
    entries = np.repeat(whole.indptr[rows] - indptr[:-1], lengths) + np.arange(indptr[-1])
    indices, there = whole.indices[entries], np.zeros(len(documents.words), bool)
    there[indices] = True
    numbers = (np.cumsum(there) - 1).astype(indices.dtype)
    part = replace(whole, data=whole.data[entries], indices=numbers[indices], indptr=indptr)
    own = (column[rows] for column in (documents.labels, documents.weights, _members(documents)))
    return LocalDocuments(part, documents.words[there], *own)


def _counted(learner: Words, documents: LocalDocuments) -> tuple[Any, ...] | None:
    """Return what the counts of a learner that only counts depend on, beside the fold; None for other learners."""
    rule = learner.rule
    if not (isinstance(rule, ClosedForm) and rule.complete) or (documents.labels < 0).any():
        return None
    return (learner.class_weight,)
