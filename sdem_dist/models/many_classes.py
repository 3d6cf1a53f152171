"""Multinomial naive Bayes with very many classes: a sparse table of the counts that differ from the prior's."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sdem_dist.calibration import cautious_temperature, tempered_sums
from sdem_dist.documents import Documents
from sdem_dist.evaluation import Scored, class_sums, classifier_metrics, classifier_sums, macro_f1, scored
from sdem_dist.kernels.csr import Counted, Visited, row_sums, runs
from sdem_dist.kernels.losses import Schedule
from sdem_dist.kernels.many_classes import EMPTY, ENTRIES, ClassCounts, Lists, add_rises, fill, moved, run_documents
from sdem_dist.models.heads import Model
from sdem_dist.records import Field, record

MARGIN = 1.0  # of the hinge loss
FEWEST = 20  # least number of held-out documents that choose a temperature
SCORES = 1 << 22  # largest number of scores in memory at once


class ManyClassState(NamedTuple):
    """Expectation parameters mu, unnormalized, and the progress of the run."""

    prior: np.ndarray  # alpha_w, the start of the count of each word in every class: shape (n_features,)
    pairs: np.ndarray  # ``word * n_classes + class`` of the counts that have changed, ascending: shape (n_pairs,)
    changes: np.ndarray  # their differences from the prior's counts, shape (n_pairs,)
    totals: np.ndarray  # M, sums of all counts of each class: shape (n_classes,)
    class_counts: np.ndarray  # C, expected counts of the classes, shape (n_classes,)
    t: float  # weight of the documents seen

    def split(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the word and the class of each pair, int64."""
        words, classes = np.divmod(self.pairs.astype(np.int64), len(self.totals))
        return words, classes

    def starts(self) -> np.ndarray:
        """Return offsets, shape (n_features + 1,): word w has the pairs ``starts[w]:starts[w + 1]``."""
        return np.searchsorted(self.pairs, np.arange(len(self.prior) + 1) * float(len(self.totals)))


class ManyClassParameters(NamedTuple):
    starts: np.ndarray  # the pairs of word w are ``starts[w]:starts[w + 1]``, shape (n_features + 1,), int64
    classes: np.ndarray  # class of each pair, ascending within a word: int32
    rises: np.ndarray  # ln(N / alpha_w) of each pair, float64
    log_start: np.ndarray  # ln alpha_w, shape (n_features,)
    log_totals: np.ndarray  # ln M, shape (n_classes,)
    log_prior: np.ndarray  # ln p(y), shape (n_classes,)

    def log_words(self, words: np.ndarray, k: int) -> np.ndarray:
        table = self.log_start[words] - self.log_totals[k]
        for i, word in enumerate(words.tolist()):
            start, stop = self.starts[word], self.starts[word + 1]
            place = start + np.searchsorted(self.classes[start:stop], k)
            if place < stop and self.classes[place] == k:
                table[i] += self.rises[place]
        return table


def joint_scores(parameters: ManyClassParameters, documents: Documents) -> np.ndarray:
    """Return ln p(y, d) of every class and document, without the multinomial coefficient: (n_documents, n_classes)."""
    p, d = parameters, documents
    lengths = row_sums(d.data, d.indptr)
    scores = p.log_prior - lengths[:, None] * p.log_totals
    add_rises(Counted(d.data, d.indices, d.indptr), p.starts, p.classes, p.rises, scores)
    scores += row_sums(d.data * p.log_start[d.indices], d.indptr)[:, None]
    return scores


def few_at_a_time(documents: Documents, n_classes: int) -> Iterator[Documents]:
    """Yield parts of the documents, with at most `SCORES` scores per part."""
    step = max(1, SCORES // n_classes)
    for start in range(0, max(documents.n_documents, 1), step):
        yield documents[start : start + step]


def added(pairs: Sequence[np.ndarray], numbers: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    every, values = np.concatenate(pairs), np.concatenate(numbers)
    order = np.argsort(every, kind="stable")  # fast, since the parts are sorted
    every, values = every[order], values[order]
    first = np.flatnonzero(np.diff(every, prepend=-1.0))
    return every[first], np.add.reduceat(values, first) if len(first) else values


def lists_of(state: ManyClassState, documents: Documents) -> Lists:
    """Return the counts of a state for the kernel, with room for all entries that a pass over documents can add."""
    n_features, n_classes = len(state.prior), len(state.totals)
    words, classes = state.split()
    sizes = np.bincount(words, minlength=n_features)
    # A document adds at most its label and one rival to the list of each of its words.
    room = sizes + 2 * np.bincount(documents.indices, minlength=n_features)
    size = int(room.sum())
    keys = 1 << max(4, int(1.5 * size).bit_length())
    table = np.full(keys, EMPTY, np.uint64), np.empty(keys, np.int32)
    entries = np.empty(size, np.int32), *np.empty((2, size), np.float32)
    starts, used = np.cumsum(room) - room, np.zeros(n_features, np.int64)
    lists = Lists._make([starts, used, *entries, *table, state.prior.astype(np.float32)])
    fill(words, classes, state.changes, n_classes, lists)
    return lists


class ManyClassStatistics(NamedTuple):
    pairs: np.ndarray  # as in `ManyClassState`, shape (n_pairs,), float64
    changes: np.ndarray
    class_counts: np.ndarray
    weight: float


@record
class VeryManyClasses:
    """One of very many classes per document: the scores of all documents are never in memory at once."""

    n_classes: int

    def sums(self, batches: Iterable[Any], *, held_out: bool = False, tempered: bool = True) -> np.ndarray:
        """Return `classifier_sums`, or the sums for choosing a temperature on held-out documents; see `scored`."""
        sums = []
        for d, trained in (part for batch in batches for part in batch):
            if not held_out:
                sums.append(classifier_sums(d))
                continue
            used = (d.weights > 0) & trained[d.labels]
            scores, labels, weights = d.scores[used], d.labels[used], d.weights[used]
            counts = [weights.sum(), weights[scores.argmax(axis=1) == labels].sum()]
            by_temperature = tempered_sums(scores, labels, weights)
            sums.append(np.concatenate([counts, class_sums(scores, labels, weights), by_temperature]))
        return np.asarray(np.sum(sums, axis=0))

    def metrics(self, sums: np.ndarray, *, held_out: bool = False) -> dict[str, float]:
        """Return metrics; from held-out documents of trained classes also the best temperature.

        See `cautious_temperature`. The temperature is NaN with fewer than `FEWEST` documents.
        """
        if not held_out:
            return classifier_metrics(sums, self.n_classes)
        if sums[-1] < FEWEST:
            return {"temperature": float("nan")}
        (weight, right), of_classes = sums[:2].tolist(), 2 + 3 * self.n_classes
        temperature, loss = cautious_temperature(sums[of_classes:], weight)
        figures = {"accuracy": right / weight, "macro_f1": macro_f1(sums[2:of_classes])}
        return figures | {"temperature": temperature, "tempered_log_loss": loss}


@record
class SparseCounts(Model):
    """Naive Bayes of words that stores only counts that differ from the prior's."""

    n_features: int
    head: VeryManyClasses
    alpha: float = 1.0  # pseudo-count of a word in `init`
    class_alpha: float = 1.0  # pseudo-count of a class
    state_type = ManyClassState
    cache_key = "many classes"

    def state_fields(self) -> dict[str, Field]:
        counts = Field((self.n_classes,), 0.0)
        each = Field((self.n_features,), 0.0), Field((None,), 0.0), Field((None,)), counts, counts, Field((), 0.0)
        return dict(zip(ManyClassState._fields, each, strict=True))

    def check_state(self, state: ManyClassState) -> None:
        pairs = state.pairs
        are_ascending = (pairs == np.floor(pairs)).all() and (np.diff(pairs) > 0).all()
        if len(pairs) != len(state.changes) or not are_ascending or (pairs >= self.n_features * self.n_classes).any():
            raise ValueError("array 'pairs' must contain increasing indices of words and classes, one per change")
        if not (state.prior > 0).all() or not (state.prior[state.split()[0]] + state.changes > 0).all():
            raise ValueError("array 'changes' leads to a count that is not positive")
        if not (state.totals > 0).all() or (state.t > 0 and not state.class_counts.any()):
            raise ValueError("the model has a class without words, or no class with documents")

    def init(self, n_documents: float, seed: int) -> ManyClassState:
        return self.start(np.full(self.n_features, self.alpha))

    def start(self, prior: np.ndarray) -> ManyClassState:
        nothing, totals = np.zeros(0), np.full(self.n_classes, prior.sum())
        return ManyClassState(prior, nothing, nothing, totals, np.full(self.n_classes, self.class_alpha), 0.0)

    def prepare(self, documents: Documents, *, frequent_first: bool = False) -> Documents:
        if documents.labels is None:
            raise ValueError("training and evaluation need documents with labels")
        data = documents.data
        dtype = np.float32 if data.dtype.kind == "u" else np.promote_types(data.dtype, np.float32)
        weights = np.where(documents.labels < 0, 0.0, 1.0 if documents.weights is None else documents.weights)
        indices = documents.indices.astype(np.uint32, copy=False)
        return replace(documents, data=data.astype(dtype, copy=False), indices=indices, weights=weights, targets=None)

    def complete(self, documents: Any) -> ManyClassStatistics:
        labels, weights, lengths = documents.labels, documents.weights, np.diff(documents.indptr)
        of_entries = np.repeat(weights, lengths)
        used = of_entries > 0
        pairs = documents.indices * float(self.n_classes) + np.repeat(labels, lengths)
        sums = added([pairs[used]], [(documents.data * of_entries)[used]])
        counts = np.bincount(np.maximum(labels, 0), weights, self.n_classes)
        return ManyClassStatistics(*sums, counts, float(weights.sum()))

    def run(self, state: ManyClassState, documents: Any, order: np.ndarray, schedule: Schedule) -> ManyClassStatistics:
        """Run sdEM with the hinge loss over documents in `order`; return the changes of the counts."""
        d, t = documents, state.t
        lists, counts = lists_of(state, d), ClassCounts(state.totals.copy(), state.class_counts.copy())
        for a, b in runs(np.full(d.n_documents, 20.0 * ENTRIES)):
            visited = Visited(d.data, d.indices, d.indptr, d.labels, d.weights, order[a:b])
            t = run_documents(visited, lists, counts, schedule, t, MARGIN)
        pairs, changes = moved(lists, state.starts(), state.changes, self.n_classes)
        return ManyClassStatistics(pairs, changes, counts.documents - state.class_counts, float(d.weights.sum()))

    def add(self, parts: Sequence[ManyClassStatistics]) -> ManyClassStatistics:
        pairs, changes = added([part.pairs for part in parts], [part.changes for part in parts])
        counts = np.sum([part.class_counts for part in parts], axis=0)
        return ManyClassStatistics(pairs, changes, counts, float(sum(part.weight for part in parts)))

    def counted(
        self, state: ManyClassState, s: Any, n: float, floor: float = -np.inf, class_floor: float = -np.inf
    ) -> ManyClassState:
        pairs, changes = added([state.pairs, s.pairs], [state.changes, s.changes])
        next_ = state._replace(pairs=pairs, changes=changes, t=state.t + s.weight)
        words, classes = next_.split()
        changes = np.maximum(changes, floor - state.prior[words])
        totals = state.prior.sum() + np.bincount(classes, changes, self.n_classes)
        counts = np.maximum(state.class_counts + s.class_counts, class_floor)
        return next_._replace(changes=changes, totals=totals, class_counts=counts)

    def parameters(self, state: ManyClassState) -> ManyClassParameters:
        words, classes = state.split()
        with np.errstate(divide="ignore", invalid="ignore"):  # ln 0 = -inf for a class without documents
            log_prior = np.log(state.class_counts / state.class_counts.sum())
        rises, classes = np.log1p(state.changes / state.prior[words]), classes.astype(np.int32)
        log_start, log_totals = np.log(state.prior), np.log(state.totals)
        return ManyClassParameters(state.starts(), classes, rises, log_start, log_totals, log_prior)

    def scored(
        self, state: ManyClassState, batch: Any, temperature: float, seed: int
    ) -> Iterator[tuple[Scored, np.ndarray]]:
        """Yield a few documents at a time with exact scores, and the mask of trained classes."""
        parameters, trained = self.parameters(state), np.zeros(self.n_classes, bool)
        # A trained class has a count above the prior's. A class that was only ever a rival has only lost counts.
        trained[state.split()[1][state.changes > 0]] = True
        for part in few_at_a_time(batch, self.n_classes):
            assert part.labels is not None
            assert part.weights is not None
            scores, lengths = joint_scores(parameters, part), row_sums(part.data, part.indptr)
            yield scored(scores / temperature, part.labels, part.weights, lengths, scores), trained
