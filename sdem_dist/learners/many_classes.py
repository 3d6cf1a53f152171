"""Naive Bayes of very many classes: counted, or trained by sdEM with the hinge loss."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from sdem_dist.calibration import cautious_temperature, tempered_sums
from sdem_dist.documents import Documents
from sdem_dist.evaluation import classifier_metrics, classifier_sums, scored
from sdem_dist.kernels.csr import row_sums
from sdem_dist.kernels.documents import Visited, runs
from sdem_dist.kernels.many_classes import ENTRIES, ClassCounts, run_documents
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.sdem import visiting_order
from sdem_dist.learners.step_sizes import StepSizes
from sdem_dist.models.class_weight import trained_part
from sdem_dist.models.fields import Field
from sdem_dist.models.many_classes import (
    ManyClassParameters,
    ManyClassState,
    added,
    changes_of,
    few_at_a_time,
    joint_scores,
    lists_of,
    parameters_of,
    start_at,
)
from sdem_dist.records import record

MARGIN = 1.0
"""Of the hinge loss."""
FEWEST = 20
"""Held-out documents under which they give no temperature."""


class ManyClassStatistics(NamedTuple):
    """What lanes add."""

    pairs: np.ndarray  # as those of a state, shape (n_pairs,), float64
    changes: np.ndarray
    class_counts: np.ndarray
    weight: float


@record
@dataclass(frozen=True)
class ManyClasses:
    """The learner of `ManyClassState`: naive Bayes that keeps only counts that differ from the prior's."""

    n_features: int
    n_classes: int
    alpha: float = 1.0  # pseudo-count of a word, where no other start is given
    loss: str = "hinge"
    """"nll": documents are counted. "hinge": sdEM; what lanes of a round learned is added up, so one
    lane a round is best."""
    n_documents: float = 1.0  # n, the documents of the training corpus by weight
    steps: StepSizes = field(default_factory=StepSizes)  # of "hinge"
    seed: int = 0
    temperature: float = 1.0  # scores are divided by it for probabilities
    held_out: float = 0.0  # share of the documents that are not trained on, drawn by their place in the corpus

    state_type = ManyClassState
    cache_key = "many classes"  # prepared documents depend on no setting

    @property
    def width(self) -> int:
        """Columns of the documents."""
        return self.n_features

    @property
    def n_labels(self) -> int:
        """Classes that documents are labelled with."""
        return self.n_classes

    def state_fields(self) -> dict[str, Field]:
        """Return what each array of a state is."""
        return {
            "prior": Field((self.n_features,), 0.0),
            "pairs": Field((None,), 0.0),
            "changes": Field((None,)),
            **dict.fromkeys(("totals", "class_counts"), Field((self.n_classes,), 0.0)),
            "t": Field((), 0.0),
        }

    def check_state(self, state: ManyClassState) -> None:
        """Raise ValueError unless pairs are ascending whole numbers of words and classes, and the loss is known."""
        pairs = state.pairs
        whole = (pairs == np.floor(pairs)).all() and (np.diff(pairs) > 0).all()
        if len(pairs) != len(state.changes) or not whole or (pairs >= self.n_features * self.n_classes).any():
            raise ValueError("array 'pairs' does not hold ascending numbers of words and classes, one for each change")
        if not (state.prior > 0).all() or not (state.prior[state.split()[0]] + state.changes > 0).all():
            raise ValueError("array 'changes' makes a count that is not positive")
        if self.loss not in ("nll", "hinge"):
            raise ValueError(f"it was trained with loss {self.loss!r}, which is unknown")

    def init(self) -> ManyClassState:
        """Return mu_0 with equal pseudo-counts."""
        return self.start(np.full(self.n_features, self.alpha))

    def start(self, prior: np.ndarray) -> ManyClassState:
        """Return mu_0 with pseudo-counts of words, shape (n_features,); with loss "nll" classes have none."""
        return start_at(prior, self.n_classes, 0.0 if self.loss == "nll" else 1.0)

    def prepare(self, documents: Documents) -> Documents:
        """Return labelled documents with entries that kernels are compiled for.

        Raises ValueError: there are no labels.
        """
        if documents.labels is None:
            raise ValueError("documents without labels cannot be prepared for training or evaluation")
        data = documents.data
        data = data.astype(
            np.float32 if data.dtype.kind == "u" else np.promote_types(data.dtype, np.float32), copy=False
        )
        weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
        weights = np.where(documents.labels < 0, 0.0, weights)
        indices = documents.indices.astype(np.uint32, copy=False)
        return Documents(data, indices, documents.indptr, documents.n_features, documents.labels, weights)

    def map(self, state: ManyClassState, documents: Documents, lane: Lane) -> ManyClassStatistics:
        """Return what one lane adds: counts of its documents, or how far it moved."""
        weights = _weights_of(documents)
        if self.held_out:
            weights = np.where(trained_part(self.seed, lane.start, lane.stop, self.held_out), weights, 0.0)
        documents = replace(documents, weights=weights)
        return self._counted(documents) if self.loss == "nll" else self._stepped(state, documents, lane)

    def _counted(self, documents: Documents) -> ManyClassStatistics:
        labels, weights, lengths = _labels_of(documents), _weights_of(documents), np.diff(documents.indptr)
        of_entries = np.repeat(weights, lengths)
        used = of_entries > 0
        pairs = documents.indices * float(self.n_classes) + np.repeat(labels, lengths)
        found = added([pairs[used]], [(documents.data * of_entries)[used]])
        counts = np.bincount(np.maximum(labels, 0), weights, self.n_classes)
        return ManyClassStatistics(*found, counts, float(weights.sum()))

    def _stepped(self, state: ManyClassState, documents: Documents, lane: Lane) -> ManyClassStatistics:
        d, n, weights = documents, documents.n_documents, _weights_of(documents)
        order = visiting_order(self.seed, lane, n)
        schedule = self.steps.of_lane(self.alpha, 1.0, self.n_documents, lane.round_documents / max(n, 1))
        lists, counts, t = lists_of(state, d), ClassCounts(state.totals.copy(), state.class_counts.copy()), state.t
        for a, b in runs(np.full(n, 20.0 * ENTRIES)):
            visited = Visited(d.data, d.indices, d.indptr, _labels_of(d), weights, order[a:b])
            t = run_documents(visited, lists, counts, schedule, t, MARGIN)
        found = changes_of(state, lists)
        return ManyClassStatistics(*found, counts.documents - state.class_counts, float(weights.sum()))

    def combine(self, parts: Sequence[ManyClassStatistics]) -> ManyClassStatistics:
        """Add up what lanes found."""
        pairs, changes = added([part.pairs for part in parts], [part.changes for part in parts])
        counts = np.sum([part.class_counts for part in parts], axis=0)
        return ManyClassStatistics(pairs, changes, counts, float(sum(part.weight for part in parts)))

    def update(self, state: ManyClassState, statistics: ManyClassStatistics) -> ManyClassState:
        """Return the next mu: changes are added, and no count falls below its floor."""
        if statistics.weight == 0.0:
            return state
        pairs, changes = added([state.pairs, statistics.pairs], [state.changes, statistics.changes])
        next_ = state._replace(pairs=pairs, changes=changes, t=state.t + statistics.weight)
        words, classes = next_.split()
        counts = state.class_counts + statistics.class_counts
        if self.loss == "hinge":
            changes = np.maximum(changes, self.steps.floor - state.prior[words])
            counts = np.maximum(counts, self.steps.class_floor)
        totals = state.prior.sum() + np.bincount(classes, changes, self.n_classes)
        return next_._replace(changes=changes, totals=totals, class_counts=counts)

    def parameters(self, state: ManyClassState) -> ManyClassParameters:
        """Return the natural parameters (M-step)."""
        return parameters_of(state)

    def evaluate(self, state: ManyClassState, batches: Iterable[Documents]) -> np.ndarray:
        """Return the sums of `evaluation.classifier_sums`, exactly; for held-out documents those for a temperature."""
        parameters, sums = parameters_of(state), list[np.ndarray]()
        known = np.zeros(self.n_classes, bool)
        # A class that was only ever a rival has lost counts and gained none.
        known[state.split()[1][state.changes > 0]] = True
        for batch in batches:
            for part in few_at_a_time(batch, self.n_classes):
                scores = joint_scores(parameters, part)
                if self.held_out:
                    sums.append(_choosing(scores / self.temperature, _labels_of(part), _weights_of(part), known))
                    continue
                about = _labels_of(part), _weights_of(part), row_sums(part.data, part.indptr)
                sums.append(classifier_sums(scored(scores / self.temperature, *about, scores)))
        return np.asarray(np.sum(sums, axis=0))

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return accuracy, mean losses, perplexity and how good probabilities are.

        For held-out documents: accuracy, the best temperature and its log-loss. Only those whose class was trained
        count. One more counts as wrong, since none wrong does not show how rare errors are. With fewer than `FEWEST` of
        them the temperature is NaN.
        """
        if not self.held_out:
            return classifier_metrics(sums, self.n_classes)
        if sums[-1] < FEWEST:
            return {"temperature": float("nan")}
        weight, right = sums[:2].tolist()
        temperature, loss = cautious_temperature(sums[2:], weight)
        temperature *= self.temperature
        return {"accuracy": right / weight, "temperature": temperature, "tempered_log_loss": loss}


def _choosing(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the weight of documents of known classes, that of those found, and `calibration.tempered_sums`."""
    used = (weights > 0) & known[labels]
    scores, labels, weights = scores[used], labels[used], weights[used]
    right = weights[scores.argmax(axis=1) == labels].sum()
    return np.concatenate([[weights.sum(), right], tempered_sums(scores, labels, weights)])


def _labels_of(documents: Documents) -> np.ndarray:
    """Return the labels of prepared documents."""
    assert documents.labels is not None
    return documents.labels


def _weights_of(documents: Documents) -> np.ndarray:
    """Return the weights of prepared documents."""
    assert documents.weights is not None
    return documents.weights
