"""Naive Bayes settings side by side: an epoch of all on all folds reads and prepares documents once a weighting."""

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.folds import Folds
from sdem_dist.documents import CorpusLike
from sdem_dist.engine import tasks
from sdem_dist.engine.executor import Executor, InProcess
from sdem_dist.engine.memory import LOADED, REFUSED, SHARE, Reservation, release, state_bytes
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.rounds import Blocks, ranges_of_plan, ranges_to_score
from sdem_dist.errors import ModelError
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.multi_label_nb import MultiLabelNB
from sdem_dist.estimators.naive_bayes import MultinomialNB
from sdem_dist.estimators.weighed_words import Beginning
from sdem_dist.fitting.prior_start import Known
from sdem_dist.inputs.label_sets import WithMembers
from sdem_dist.inputs.spec import Source
from sdem_dist.inputs.weighted import WeightedCorpus
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.several import NO_FOLD, Several, States, Words
from sdem_dist.learners.side_by_side import fits
from sdem_dist.models.weighting import Weighting
from sdem_dist.models.word_counts import SdemState
from sdem_dist.selection.predicted import Predicted
from sdem_dist.selection.schedule import AUTO
from sdem_dist.selection.tasks import Feed, Submitted, submit_epoch, submit_side_by_side, submit_unseen
from sdem_dist.selection.trials import Trial
from sdem_dist.selection.views import Decoded, Folded

Learners = MultinomialNB | MultiLabelNB
"""Estimators whose settings learn side by side."""
_log = logging.getLogger(__name__)


def learns_beside(estimator: EngineEstimator) -> bool:
    """Return whether settings of an estimator learn side by side, an epoch at a time."""
    return type(estimator) in (MultinomialNB, MultiLabelNB) and estimator.unlabelled is None


def halving_of(estimator: EngineEstimator, asked: bool | str) -> bool | str:
    """Return what `halving` of a search stands for: "auto" halves settings that learn side by side."""
    return learns_beside(estimator) if asked == AUTO else asked


STATES = 3.0
"""States in memory for each of a setting's models: before and after an epoch, and the current one."""
CHUNK_BYTES = 1 << 30
"""Bytes of states that one task trains at most."""


class Documents(NamedTuple):
    """What settings are tried on.

    Attributes
    ----------
    source : Source
        All training documents.
    folds : Folds or None
        Of them; None: settings are scored on `validation`.
    validation : corpus or None
    labels, weights, numbers : ndarray of shape (n_documents,)
        Of the documents that are scored: position of the class, or of the set of labels; weight, fold.
    sets : sparse matrix of shape (n_sets, n_labels), or None
        Where those documents may have several labels: which label is in which set.
    members : ndarray of shape (n_documents, n_labels), or None
        And which of them has which.
    validation_identity : str
        Hash of the content of `validation`, for checkpoints.
    """

    source: Source
    folds: Folds | None
    validation: CorpusLike | None
    labels: np.ndarray
    weights: np.ndarray
    numbers: np.ndarray
    sets: sp.csr_matrix | None = None
    members: np.ndarray | None = None
    validation_identity: str = ""

    @property
    def n_folds(self) -> int:
        """How many models a setting has."""
        return 1 if self.folds is None else self.folds.k

    def training(self, fold: int) -> Source:
        """Return the source that a fold's model is trained on."""
        if self.folds is None:
            return self.source
        part = self.folds.train(fold)
        counts, members = part.class_weights, self.source.members
        if members is not None:
            counts = tuple((members.T @ np.asarray(counts)).tolist())
        return replace(self.source, corpus=cast(Corpus, part), weight=part.weight, class_counts=counts)

    def predicted(self, scores: np.ndarray, log_likelihood: np.ndarray, lengths: np.ndarray) -> Predicted:
        """Return what is said of the documents that are scored, with what is known of them."""
        return Predicted(scores, self.labels, self.weights, self.numbers, log_likelihood, lengths, self.members)


class Place(NamedTuple):
    """Whose model it is."""

    trial: int
    fold: int


@dataclass
class Chunk:
    """Models that one task trains, from one setting of the weighting."""

    places: list[Place]
    several: Several
    weighting: Weighting | None
    plan: Plan
    blocks: Blocks[States]
    owned: bool = False
    """Whether no other model begins with their tables, and nobody reads them."""

    def keep(self, trials: set[int], executor: Executor) -> None:
        """Let the models of other settings go."""
        which = [i for i, place in enumerate(self.places) if place.trial in trials]
        if len(which) == len(self.places):
            return
        self.places = [self.places[i] for i in which]
        if not which:
            self.blocks = []
            return
        learners, folds = self.several.learners, self.several.folds
        self.several = Several(tuple(learners[i] for i in which), tuple(folds[i] for i in which))
        self.blocks = [executor.submit(_kept, self.blocks[0], which)]


def _once(state: SdemState, known: list[SdemState]) -> SdemState:
    """Return the known state that equals this one; or this one, which is then known."""
    for other in known:
        if state is other or all(
            np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(state, other, strict=True)
        ):
            return other
    known.append(state)
    return state


def _are_same(some: list[Beginning], others: list[Beginning]) -> bool:
    """Whether two settings learn the same, such as the default and its own values in a grid."""
    return all(
        a.initial is b.initial and (a.weighting, a.learner, a.plan) == (b.weighting, b.learner, b.plan)
        for a, b in zip(some, others, strict=True)
    )


def _kept(block: tasks.TaskResult[States], which: Sequence[int]) -> tasks.TaskResult[States]:
    return tasks.TaskResult(tuple(block.value[i] for i in which))


class SideBySide:
    """Trials of naive Bayes under way.

    `made`: from a trial's number to an unfitted estimator. `trials`: those that cannot be trained end, with an error.
    `keeps_starts`: for checkpoints; as large as the tables that settings begin with.
    `starts`: tables of words before the first epoch, of models under way; those that are equal are one. Empty unless
    kept.
    """

    def __init__(
        self,
        made: Callable[[int], Learners],
        documents: Documents,
        trials: list[Trial],
        executor: Executor,
        *,
        keeps_starts: bool = False,
    ) -> None:
        self._documents, self._trials, self._executor = documents, trials, executor
        self._keeps_starts = keeps_starts
        self._name = uuid.uuid4().hex
        self._same: dict[int, int] = {}
        self._whole = Decoded(documents.source.corpus)
        self.chunks = self._chunks(made)

    def close(self) -> None:
        """Release what workers keep for this."""
        self._executor.run_on_all_workers(release, self._name)
        release(self._name)

    def _chunks(self, made: Callable[[int], Learners]) -> list[Chunk]:
        groups: dict[object, list[tuple[Place, Beginning]]] = {}
        if self._documents.folds is not None:
            self._documents.folds.reads = self._whole
        sources = [self._documents.training(fold) for fold in range(self._documents.n_folds)]
        starts, known, begun = list[SdemState](), Known(), list[tuple[int, list[Beginning]]]()
        self.starts: dict[Place, np.ndarray] = {}
        for trial in self._trials:
            try:
                found = made(trial.number).beginnings(sources, known)
            except ValueError as error:
                trial.alive, trial.error = False, str(error)
                continue
            found = [start._replace(initial=_once(start.initial, starts)) for start in found]
            first = next((number for number, other in begun if _are_same(found, other)), None)
            if first is not None:
                self._same[trial.number] = first
                continue
            begun.append((trial.number, found))
            for fold, start in enumerate(found):
                plan = replace(start.plan, n_epochs=1, n_blocks=1)
                apart = start.learner.seed if fits(start.learner) else None
                key = (start.weighting, start.learner.cache_key, plan, apart)
                if self._keeps_starts:
                    self.starts[Place(trial.number, fold)] = start.initial.words
                groups.setdefault(key, []).append((Place(trial.number, fold), start))
        n = max(1, sum(map(len, groups.values())) // (2 * self._executor.n_workers))
        chunk = int(min(CHUNK_BYTES, SHARE * self._executor.memory_bytes / STATES))
        for group in groups.values():
            group.sort(key=lambda each: each[0].fold)  # those of a fold are scored together
        return [
            self._chunk(group[i : i + size])
            for group in groups.values()
            # Settings that only count have the same counts in a fold.
            for most in [len(group) if isinstance(group[0][1].learner.rule, ClosedForm) else n]
            for size in [max(1, min(most, chunk // state_bytes(group[0][1].initial)))]
            for i in range(0, len(group), size)
        ]

    def _chunk(self, group: list[tuple[Place, Beginning]]) -> Chunk:
        learners: tuple[Words, ...] = tuple(start.learner for _, start in group)
        several = Several(learners, tuple(place.fold for place, _ in group))
        state = tuple(start.initial for _, start in group)
        first = group[0][1]
        plan = replace(first.plan, n_epochs=1, n_blocks=1)
        return Chunk(
            [place for place, _ in group], several, first.weighting, plan, [self._executor.put(tasks.TaskResult(state))]
        )

    def _view(
        self, corpus: CorpusLike, weighting: Weighting | None, folds: Folds | int, sets: sp.csr_matrix | None
    ) -> Folded:
        source = self._documents.source
        if weighting is not None:
            assert not hasattr(source.corpus, "values")
            corpus = WeightedCorpus(corpus, weighting, source.corpus)  # type: ignore[arg-type]
        return Folded(corpus if sets is None else WithMembers(corpus, sets), folds)

    def _feeds(self, chunk: Chunk) -> tuple[Feed, Feed]:
        """Return what a chunk is trained and scored on."""
        documents = self._documents
        kept = {id(table): table.nbytes for table in self.starts.values()}
        here = sum(kept.values()) if isinstance(self._executor, InProcess) else 0
        claim = Reservation(self._name, int(STATES * self.bytes) + here, self._executor.memory_bytes)
        folds = NO_FOLD - 1 if documents.folds is None else documents.folds
        training = self._view(self._whole, chunk.weighting, folds, documents.source.members)
        feed = Feed(chunk.several, training, claim)
        if documents.validation is None:
            return feed, feed
        held_out = self._view(Decoded(documents.validation), chunk.weighting, 0, documents.sets)
        return feed, feed._replace(corpus=held_out)

    @property
    def bytes(self) -> int:
        """Bytes of the states of all models."""
        width = self._documents.source.n_features
        return sum(8 * width * chunk.several.learners[0].model.n_columns * len(chunk.places) for chunk in self.chunks)

    def epoch(self, number: int) -> dict[int, Predicted]:
        """Run one epoch, from 0, of all settings under way; return the predictions of each one's folds."""
        documents, executor, waiting = self._documents, self._executor, []
        started = time.perf_counter()
        under_way = [chunk for chunk in self.chunks if chunk.places]
        for chunk in under_way:
            feed, plan = self._feeds(chunk)[0], replace(chunk.plan, first=number)
            if chunk.several.steps_side_by_side and plan.rounds(0) == plan.n_lanes == 1:
                chunk.blocks, predicted = submit_side_by_side(feed, plan, executor, chunk.blocks, chunk.owned)
                chunk.owned = True
                if documents.validation is None:
                    waiting.append((chunk, predicted))
            else:
                chunk.blocks = submit_epoch(feed, plan, executor, chunk.blocks)
        done = {id(chunk) for chunk, _ in waiting}
        for chunk in under_way:
            if id(chunk) in done:
                continue
            groups = ranges_of_plan(chunk.plan)
            if documents.validation is not None:
                groups = ranges_to_score(documents.validation.n_documents)
            waiting.append((chunk, submit_unseen(self._feeds(chunk)[1], groups, executor, chunk.blocks)))
        found: dict[int, Predicted] = {}
        for chunk, scored in waiting:
            self._gather(chunk, scored, found)
        executor.drain_events()
        asked = [trial.number for trial in self._trials if trial.alive and self.model_of(trial.number) in found]
        found = {number: found[self.model_of(number)] for number in asked}
        for trial in self._trials:
            if trial.number in found:
                trial.seconds += (time.perf_counter() - started) / len(found)
        return found

    def model_of(self, number: int) -> int:
        """Return the setting whose models a setting shares: its own or those of an earlier one that learns the same."""
        return self._same.get(number, number)

    def _gather(self, chunk: Chunk, scored: Submitted, found: dict[int, Predicted]) -> None:
        documents = self._documents
        n, n_classes = len(documents.labels), len(documents.source.classes)
        for place in chunk.places:
            if place.trial not in found:
                found[place.trial] = documents.predicted(np.zeros((n, n_classes), np.float32), np.zeros(n), np.zeros(n))
        for ranges, handle in scored:
            for (start, stop), unseen in zip(ranges, self._executor.result(handle), strict=True):
                numbers = documents.numbers[start:stop]
                for place, scores, marginal in zip(chunk.places, unseen.scores, unseen.log_likelihood, strict=True):
                    rows = start + np.flatnonzero(numbers == place.fold)
                    of_trial = found[place.trial]
                    assert of_trial.log_likelihood is not None
                    assert of_trial.lengths is not None
                    of_trial.scores[rows] = scores
                    of_trial.log_likelihood[rows] = marginal
                    of_trial.lengths[rows] = unseen.lengths[rows - start]

    def keep(self, trials: set[int]) -> None:
        """Stop all other settings."""
        trials = set(map(self.model_of, trials))
        for chunk in self.chunks:
            chunk.keep(trials, self._executor)
        self.chunks = [chunk for chunk in self.chunks if chunk.places]
        self.starts = {place: start for place, start in self.starts.items() if place.trial in trials}

    def states(self) -> Iterator[tuple[Place, SdemState]]:
        """Yield the state of each model, for checkpoints; a chunk's are fetched together."""
        for chunk in self.chunks:
            yield from zip(chunk.places, self._executor.result(chunk.blocks[0]).value, strict=True)

    def restore(self, states: Mapping[Place, SdemState]) -> None:
        """Go on from the states of the models under way, as `states` yielded them."""
        self.keep({place.trial for place in states})
        for chunk in self.chunks:
            state = tuple(states[place] for place in chunk.places)
            chunk.blocks, chunk.owned = [self._executor.put(tasks.TaskResult(state))], False


def at_once(
    estimator: EngineEstimator,
    source: Source,
    n_folds: int,
    n_trials: int,
    memory: int,
    n_processes: int,
    driver: int | None = None,
) -> int:
    """Return how many settings memory holds side by side, and say so where it does not hold all.

    `memory`: bytes of each of `n_processes`.
    `driver`: bytes of the process that keeps the table that each setting begins with, for checkpoints; 0: it is the one
    that trains; None: nothing is kept. Folds share it.
    Raises ModelError: it does not hold one setting.
    """
    kept = driver == 0
    model = 8 * source.n_features * (1 + isinstance(estimator, MultiLabelNB)) * max(len(source.classes), 1)
    # Before and after an epoch, and one under way; processes share a setting's models, and a task has one at least.
    needed = model * (max(STATES, (2 * n_folds + 1) / n_processes) + kept)
    if needed + LOADED > REFUSED * memory:
        folds = f" in {n_folds} folds" * (n_folds > 1)
        fewer = ", take fewer folds" * (n_folds > 2)
        raise ModelError(
            f"one setting{folds} takes {needed / 2**30:.2f} GiB of a worker, which has {memory / 2**30:.2f} GiB in all, "
            f"{LOADED / 2**30:.1f} of them for Python and kernels: give each worker "
            f"{(needed + LOADED) / REFUSED / 2**30:.1f} GiB or more (fewer workers on each machine){fewer}, or prune the "
            "vocabulary (--min-df of sdem ingest)"
        )
    fits = int((SHARE * memory - LOADED) / (model * (STATES * n_folds + kept)))
    if driver:
        fits = min(fits, int(SHARE * driver / model))
    fits = max(1, fits)
    if fits < n_trials:
        _log.warning(
            "memory holds %d of %d settings side by side: they are tried in turns, and documents read again",
            fits,
            n_trials,
        )
    return min(fits, n_trials)
