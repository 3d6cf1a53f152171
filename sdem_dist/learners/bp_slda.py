"""Supervised and unsupervised LDA by mirror-descent back-propagation (BP-sLDA, BP-LDA), as the engine wants them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.errors import TrainingError
from sdem_dist.kernels import topic_steps
from sdem_dist.kernels.mirror_descent import FLOOR
from sdem_dist.kernels.topic_outputs import Response
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.sdem import check_class_weight, visiting_order
from sdem_dist.learners.topic_outputs import OUTPUTS, Seen, TopicOutput
from sdem_dist.learners.topic_statistics import TopicState, TopicStatistics, combined
from sdem_dist.models.class_weight import trained_part, weighted
from sdem_dist.models.fields import Field
from sdem_dist.models.supervised_lda import MirrorDescent, TopicParameters, outputs, renewed
from sdem_dist.models.word_counts import NO_TARGETS, LocalDocuments, entries, localised
from sdem_dist.records import record

SETTLING = 1 / 3
"""Share of the run before a prior is learned: while topics are alike, every document seems to have all of them."""


@record
@dataclass(frozen=True)
class BpSlda:
    """Settings and pure functions of BP-sLDA and BP-LDA."""

    n_features: int
    n_topics: int
    n_outputs: int
    response: str
    """What is learned, see ``sdem_dist.learners.topic_outputs``: a class of "classes", an "ordered" level of a scale,
    several "labels", real "targets", "counts", or the "words" themselves (BP-LDA, no outputs)."""
    n_documents: float  # D, the documents of the training corpus by weight
    inference: MirrorDescent = field(default_factory=MirrorDescent)
    beta: float = 1.0  # of the Dirichlet prior of the topics
    gamma: float = 1.0  # factor of U theta; for targets the precision of their noise
    topic_rate: float = 0.05
    output_rate: float = 3.0
    """`topic_rate` and `output_rate`: mu_0 and mu_u of Algorithm 2; both fall linearly to 0. mu_0 is the share by which
    a step changes the probabilities of common words, see `sdem_dist.kernels.topic_steps.step_topics`."""
    n_epochs: int = 4  # where they are 0
    average_from: int = 1  # epoch, from 0, with which the running mean begins
    merge: str = "mean"  # "mean" or "sum"
    batch_size: int = 100  # documents of a batch inside a lane ("mean" only)
    log_counts: bool = False  # take ln(1 + x) of every count
    class_weight: tuple[float, ...] | None = None  # multiplies the weights of the documents of each class
    words_weight: float = 0.0
    """Of a document's ``-ln p(words | theta)`` beside the loss of its label. The loss is ``mean over labelled documents
    of -ln p(y | d) + words_weight * mean over all of -ln p(words | theta)``."""
    n_labelled: float = 0.0  # documents that have a label, by weight; 0: all
    held_out: float = 0.0  # share of the documents that are not trained on, drawn by their place in the corpus
    location: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    """`location` and `scale`: targets are learned less their location, in units of their scale."""
    thresholds: tuple[float, ...] = ()
    """The probability from which on a document gets each of several labels. Empty: 0.5."""
    seed: int = 0

    state_type = TopicState

    @property
    def width(self) -> int:
        """Columns of the documents."""
        return self.n_features

    @property
    def n_labels(self) -> int:
        """Classes that documents are labelled with: an output each."""
        return self.n_outputs

    def state_fields(self) -> dict[str, Field]:
        """Return what each array of a state is."""
        topics, output = Field((self.n_features, self.n_topics), 0.0), Field((self.n_outputs, self.n_topics))
        number = Field((), 0.0)
        return {
            "topics": topics,
            "output": output,
            "squares": Field((self.n_topics,), 0.0),
            "t": number,
            "seen": number,
            "mean_topics": topics,
            "mean_output": output,
            "n_averaged": number,
            "alpha": Field((self.n_topics,), 0.0),
        }

    def check_state(self, state: TopicState) -> None:
        """Raise ValueError unless the topics are on the simplex and the settings match each other."""
        topics = self.parameters(state).topics
        if (topics <= 0).any() or not np.allclose(topics.sum(axis=0), 1.0):
            raise ValueError("the columns of the topics are not on the simplex")
        if len(self.location) != len(self.scale) or len(self.location) not in (0, self.n_outputs):
            raise ValueError("the targets' locations and scales do not match the outputs")
        if len(self.thresholds) not in (0, self.n_outputs):
            raise ValueError(f"there are {len(self.thresholds)} thresholds for {self.n_outputs} labels")
        check_class_weight(self.class_weight, self.n_outputs)
        if self.response not in OUTPUTS or self.merge not in ("mean", "sum"):
            raise ValueError(f"it learns {self.response!r} with merge {self.merge!r}, which are unknown")

    @property
    def cache_key(self) -> str:
        """Prepared documents depend on the transforms of counts and targets, and on whether all words are kept."""
        return f"topics {self.response} {self.log_counts} {self._whole} {self.location} {self.scale}"

    @property
    def _whole(self) -> bool:
        """Whether every batch moves all words: the prior does unless beta is 1."""
        return self.beta != 1.0

    def init(self) -> TopicState:
        """Return a start from even word frequencies, see `start`."""
        return self.start(np.ones(self.n_features))

    def start(self, frequencies: np.ndarray) -> TopicState:
        """Return the state before the first document, its symmetry broken once for all lanes.

        `frequencies`: shape (n_features,): how often each word occurs in the corpus; topics are that times exp(.1
        normal), U is normal.
        """
        bits = np.random.Philox(key=np.array([self.seed, 0], np.uint64), counter=1 << 65)
        rng = np.random.Generator(bits)
        noise = np.exp(0.1 * rng.standard_normal((self.n_features, self.n_topics)))
        share = frequencies[:, None] / max(float(frequencies.sum()), FLOOR)
        output = self._output.start(rng, (self.n_outputs, self.n_topics))
        return TopicState(
            topics=_on_the_simplex(share * noise),
            output=output,
            squares=np.zeros(self.n_topics),
            t=0.0,
            seen=0.0,
            mean_topics=np.zeros_like(noise),  # from the start: memory is checked once
            mean_output=np.zeros_like(output),
            n_averaged=0.0,
            alpha=self.inference.prior(self.n_topics),
        )

    def prepare(self, documents: Documents) -> LocalDocuments:
        """Renumber words compactly, take logarithms, standardise targets."""
        weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
        labels, targets = np.zeros(0, np.int32), NO_TARGETS
        if self._output.learns == "labels":
            if documents.labels is None:
                raise ValueError("documents without labels cannot be prepared for training or evaluation")
            labels = documents.labels
        elif self._output.learns == "targets":
            if documents.targets is None:
                raise ValueError("documents without targets cannot be prepared for training or evaluation")
            targets = self._output.prepared(documents.targets, np.asarray(self.location), np.asarray(self.scale))
        made = replace(documents, data=entries(documents.data, self.log_counts))
        local = localised(made, labels, weights, targets)
        indices = local.documents.indices.astype(np.uint32)  # kernels are compiled for one dtype
        local = local._replace(documents=replace(local.documents, indices=indices))
        if self._whole:
            whole = replace(local.documents, indices=documents.indices.astype(np.uint32), n_features=self.n_features)
            local = local._replace(documents=whole, words=np.arange(self.n_features, dtype=np.uint32))
        return local

    def map(self, state: TopicState, documents: LocalDocuments, lane: Lane) -> TopicStatistics:
        """Return what one lane adds to a round."""
        local = documents._replace(weights=weighted(documents.weights, documents.labels, self.class_weight))
        if self.held_out:
            part = trained_part(self.seed, lane.start, lane.stop, self.held_out)
            local = local._replace(weights=np.where(part, local.weights, 0.0))
        return self._run_lane(state, local, lane) if self.merge == "mean" else self._gradients(state, local)

    def _run_lane(self, state: TopicState, local: LocalDocuments, lane: Lane) -> TopicStatistics:
        """Run Algorithm 2 over the lane's batches from the broadcast state; return where it ends, times its weight."""
        weight = local.weight
        before = state.topics[local.words]
        topics, output, squares = before.copy(), state.output.copy(), state.squares.copy()
        averaging, none, evidence = lane.epoch >= self.average_from, np.zeros(0), self._no_evidence
        sums = topic_steps.Topics(
            np.zeros_like(topics) if averaging else np.empty((0, 0)), none, np.zeros_like(output), evidence
        )
        n = local.documents.n_documents
        kept, kept_sums, n_batches, t = topic_steps.run_batches(
            _documents(local),
            visiting_order(self.seed, lane, n),
            self._response,
            topic_steps.Topics(topics, np.maximum(1.0 - before.sum(axis=0), 0.0), output),
            self.inference.how(state.alpha),
            self._rates(lane.round_documents / max(n, 1)),
            topic_steps.Progress(squares, float(state.t), float(state.seen)),
            sums,
        )
        return TopicStatistics(
            words=local.words,
            rows=weight * (topics - before * kept),
            mean_rows=weight * (sums.topics - before * kept_sums) if averaging else sums.topics,
            kept=weight * kept,
            mean_kept=weight * kept_sums,
            output=weight * output,
            mean_output=weight * sums.output,
            squares=weight * squares,
            t=weight * t,
            n_averaged=weight * n_batches * averaging,
            weight=weight,
            labelled=_labelled(local),
            evidence=evidence,
        )

    def _gradients(self, state: TopicState, local: LocalDocuments) -> TopicStatistics:
        """Return the sum of the documents' gradients, all at the broadcast state."""
        rows, output = np.zeros((len(local.words), self.n_topics)), np.zeros_like(state.output)
        none = np.zeros(self.n_topics)
        parameters = topic_steps.Topics(state.topics[local.words], np.ones(self.n_topics), state.output)
        gradient = topic_steps.Topics(rows, none, output, self._no_evidence)
        how = self.inference.how(state.alpha)
        topic_steps.sum_gradients(_documents(local), self._response, parameters, how, gradient)
        empty = np.empty((0, 0))
        labelled, mean_output = _labelled(local), np.zeros_like(output)
        return TopicStatistics(
            local.words, rows, empty, none, none, output, mean_output, none, 0.0, 0.0, local.weight, labelled,
            gradient.evidence,
        )  # fmt: skip

    def decided(self, **values: Any) -> "BpSlda":
        """Return the same pass with what held-out documents decide."""
        return replace(self, **values)

    @property
    def _output(self) -> TopicOutput:
        return OUTPUTS[self.response]

    @property
    def _no_evidence(self) -> np.ndarray:
        return np.zeros(self.n_topics + 1 if self.inference.learned else 0)

    @property
    def _response(self) -> Response:
        labelled = self.n_documents / self.n_labelled if self.n_labelled else 1.0
        return Response(self._output.kind, float(self.gamma), float(self.words_weight), labelled)

    def _rates(self, ahead: float, topic_rate: float | None = None) -> topic_steps.Rates:
        rate = self.topic_rate if topic_rate is None else topic_rate
        prior, end = (self.beta - 1.0) / self.n_documents, self.n_epochs * self.n_documents
        return topic_steps.Rates(self.batch_size, float(rate), float(self.output_rate), prior, float(ahead), float(end))

    def combine(self, parts: Sequence[TopicStatistics]) -> TopicStatistics:
        """Add sets of lanes, word by word, from first to last."""
        return combined(parts, self.n_features)

    def update(self, state: TopicState, statistics: TopicStatistics) -> TopicState:
        """Merge the lanes of a round into the next parameters.

        Raises TrainingError: U runs away.
        """
        if statistics.weight == 0.0:
            return state
        new = self._mean(state, statistics) if self.merge == "mean" else self._step(state, statistics)
        remaining = self._remaining(state, statistics)
        if statistics.evidence.size and remaining < 1.0 - SETTLING:
            new = new._replace(alpha=renewed(state.alpha, statistics.evidence, remaining))
        largest = float(np.abs(new.output).max(initial=0.0))
        if not largest <= self._output.runaway:
            raise TrainingError(
                f"training diverged: after {new.seen:,.0f} documents by weight an entry of U is {largest:.3g}; lower "
                f"output_rate ({self.output_rate:g}) or gamma ({self.gamma:g}), whose product is the step"
            )
        return new

    def _mean(self, state: TopicState, s: TopicStatistics) -> TopicState:
        """Average the lanes' parameters, sums of squares, batches and sums over batches, by their documents."""
        topics = state.topics * (s.kept / s.weight)
        topics[s.words] += s.rows / s.weight
        mean_topics, mean_output, n = state.mean_topics, state.mean_output, s.n_averaged / s.weight
        total = state.n_averaged + n
        if n:
            sums = state.topics * (s.mean_kept / s.weight)
            sums[s.words] += s.mean_rows / s.weight
            mean_topics = (state.n_averaged * mean_topics + sums) / total
            mean_output = (state.n_averaged * mean_output + s.mean_output / s.weight) / total
        return TopicState(
            topics=_on_the_simplex(topics),
            output=s.output / s.weight,
            squares=s.squares / s.weight,
            t=s.t / s.weight,
            seen=state.seen + s.weight,
            mean_topics=mean_topics,
            mean_output=mean_output,
            n_averaged=total,
            alpha=state.alpha,
        )

    def _remaining(self, state: TopicState, s: TopicStatistics) -> float:
        """Return which part of the run remains halfway through a round."""
        return max(1.0 - (state.seen + 0.5 * s.weight) / (self.n_epochs * self.n_documents), 0.0)

    def _step(self, state: TopicState, s: TopicStatistics) -> TopicState:
        """Take the one step of a batch (Algorithm 2, lines 6 to 12)."""
        topics, squares, t = state.topics.copy(), state.squares.copy(), state.t + 1.0
        remaining = self._remaining(state, s)
        gradient, words = s.rows.copy(), np.arange(len(s.words))
        rows, totals = topics[s.words], np.ones(self.n_topics)
        parameters, progress = (
            topic_steps.Topics(rows, totals, state.output),
            topic_steps.Progress(squares, t, state.seen),
        )
        rates = self._rates(1.0, self.topic_rate * remaining)
        topic_steps.step_topics(parameters, words, gradient, s.weight, progress, rates)
        topics[s.words] = rows
        topics = _on_the_simplex(topics)
        output = state.output - self.output_rate * remaining / (s.labelled or 1.0) * s.output
        new = state._replace(topics=topics, output=output, squares=squares, t=t, seen=state.seen + s.weight)
        if state.seen < self.average_from * self.n_documents:
            return new
        n = state.n_averaged + 1.0
        mean_topics, mean_output = (
            mean + (value - mean) / n for mean, value in ((state.mean_topics, topics), (state.mean_output, output))
        )
        return new._replace(mean_topics=mean_topics, mean_output=mean_output, n_averaged=n)

    def parameters(self, state: TopicState) -> TopicParameters:
        """Return the running means, or the last parameters before there are any."""
        if state.n_averaged:
            return TopicParameters(state.mean_topics, state.mean_output, state.alpha)
        return TopicParameters(state.topics, state.output, state.alpha)

    def evaluate(self, state: TopicState, batches: Iterable[LocalDocuments]) -> np.ndarray:
        """Return sums over all batches, see `metrics`."""
        parameters = self.parameters(state)
        return self._output.sums(self, parameters, (self.seen(parameters, local) for local in batches))

    def seen(self, parameters: TopicParameters, local: LocalDocuments) -> Seen:
        """Return a batch of documents at some parameters."""
        own = parameters._replace(topics=parameters.topics[local.words])
        theta, log_likelihood = self.inference.proportions(own, local.documents)
        return Seen(outputs(parameters.output, theta), log_likelihood, local)

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return what people read, see the outputs in ``sdem_dist.learners.topic_outputs``."""
        return self._output.metrics(self, sums)


def _documents(local: LocalDocuments) -> topic_steps.TopicDocuments:
    d = local.documents
    return topic_steps.TopicDocuments(d.data, d.indices, d.indptr, local.labels, local.targets, local.weights)


def _labelled(local: LocalDocuments) -> float:
    """Return the weight of the documents that have a label, or of all where there are no labels."""
    return float(local.weights[local.labels >= 0].sum()) if len(local.labels) else local.weight


def _on_the_simplex(topics: np.ndarray) -> np.ndarray:
    """Return topics with no probability under the floor, each column summing to 1."""
    kept = np.maximum(topics, FLOOR)
    return np.asarray(kept / kept.sum(axis=0))
