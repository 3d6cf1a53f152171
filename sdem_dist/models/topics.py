"""Topic models by mirror descent (BP-sLDA and BP-LDA, Chen et al. 2015): states, documents, lanes."""

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Literal, NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.kernels import mirror_descent, topic_steps
from sdem_dist.kernels.csr import NO_TARGETS, Counted, runs, unsigned
from sdem_dist.kernels.mirror_descent import FLOOR, Descent
from sdem_dist.kernels.topic_steps import Rates, Response
from sdem_dist.kernels.topics import check_number
from sdem_dist.models.heads import Model
from sdem_dist.models.topic_heads import TopicHead, TopicParameters, TopicScores
from sdem_dist.models.word_counts import LocalDocuments, added_by_word, entries, localised
from sdem_dist.records import Field, record

METHODS = "mirror-descent", "accelerated", "line-search", "line-search-l1"  # in the order of the kernel's codes
START = 0.1  # initial mean of the topics' pseudo-counts if the prior is learned
LEAST = 1e-4  # least pseudo-count of a topic if the prior is learned


@record
class MirrorDescent:
    """Inference of topic proportions (Chen et al. 2015, Algorithm 1)."""

    # Parameters of the Dirichlet prior; the problem is convex if all are at least 1. "learned": see `renewed`.
    alpha: float | tuple[float, ...] | Literal["learned"] = 1.001
    n_layers: int = 10  # L, steps of mirror descent
    step: float = 1.0  # T times the sum of words and pseudo-counts of a document; a line search first tries 2 T
    # "mirror-descent": steps of constant length; "accelerated": with momentum (Tseng 2008); "line-search": with the
    # divergence in the bound (Algorithm 1); "line-search-l1": with the 1-norm (equation 29).
    method: str = "mirror-descent"

    def __post_init__(self) -> None:
        alpha = np.array(START if self.alpha == "learned" else self.alpha)
        if not (np.all((alpha > 0.0) & (alpha < np.inf)) and 0.0 < self.step < np.inf):
            raise ValueError(f"alpha and the step size must be positive and finite, got {self.alpha} and {self.step}")
        if self.method not in METHODS:
            raise ValueError(f"unknown inference method {self.method!r}")
        check_number("n_layers", self.n_layers, 1)

    @property
    def learned(self) -> bool:
        return self.alpha == "learned"

    def prior(self, n_topics: int) -> np.ndarray:
        alpha = 1.0 + START if self.alpha == "learned" else np.asarray(self.alpha, np.float64)
        return np.array(np.broadcast_to(alpha, (n_topics,)))

    def how(self, alpha: np.ndarray) -> Descent:
        return Descent(alpha, self.n_layers, float(self.step), METHODS.index(self.method))

    def proportions(self, parameters: TopicParameters, documents: Documents) -> tuple[np.ndarray, np.ndarray]:
        """Return topic proportions, (n_documents, n_topics), and ln p(word sequence | theta) (equation 9)."""
        topics, how = parameters.topics, self.how(parameters.alpha)
        theta, log_likelihood = np.empty((documents.n_documents, topics.shape[1])), np.empty(documents.n_documents)
        for a, b in runs(np.diff(documents.indptr) * (4.0 * self.n_layers * topics.shape[1])):
            counted = Counted(documents.data, documents.indices, documents.indptr[a : b + 1])
            mirror_descent.infer_documents(counted, topics, how, theta[a:b], log_likelihood[a:b])
        return theta, log_likelihood


def renewed(alpha: np.ndarray, evidence: np.ndarray, share: float) -> np.ndarray:
    """Return alpha after a step towards its estimate: pseudo-counts times factors to the power of `share`.

    The step learns which topics are common, as in Wallach, Mimno and McCallum 2009, by the fixed point of Minka 2000
    (equation 55). The sum of the pseudo-counts ``alpha - 1`` is fixed: counts expected at the mode understate the
    differences between documents, so it would grow, and all topics would become equal. `evidence`: see `add_evidence`.
    """
    if not evidence[-1] > 0.0:
        return alpha
    pseudo = (alpha - 1.0) * np.maximum(evidence[:-1] / evidence[-1], LEAST) ** share
    return np.asarray(1.0 + np.maximum(pseudo * ((alpha - 1.0).sum() / pseudo.sum()), LEAST))


class TopicState(NamedTuple):
    """Parameters and their running means over batches."""

    topics: np.ndarray  # phi, shape (n_features, n_topics), float64: columns on the simplex
    output: np.ndarray  # U, shape (n_outputs, n_topics)
    squares: np.ndarray  # sum over batches of each topic's weighted mean square gradient, shape (n_topics,)
    t: float  # number of batches; parallel batches of the lanes count once
    seen: float  # weight of the documents seen
    mean_topics: np.ndarray  # running mean of Phi over batches; zeros before averaging begins
    mean_output: np.ndarray  # running mean of U
    n_averaged: float  # number of batches in the means
    alpha: np.ndarray  # parameters of the Dirichlet prior of a document's topics, shape (n_topics,)


class TopicStatistics(NamedTuple):
    """Weighted sums over lanes: of their last parameters (merge "mean"), or of gradients (merge "sum")."""

    words: np.ndarray  # words in the documents of any lane: shape (n_words,), uint32, ascending
    rows: np.ndarray  # (n_words, n_topics): gradients; or Phi minus ``decay * Phi`` of the broadcast state
    mean_rows: np.ndarray  # the same for the sum of Phi over batches; shape (0, 0) without averaging
    decay: np.ndarray  # factor of Phi for words that are not in the lane's documents: shape (n_topics,)
    mean_decay: np.ndarray
    output: np.ndarray
    mean_output: np.ndarray
    squares: np.ndarray
    t: float
    n_averaged: float
    weight: float  # weight of the documents
    labelled: float  # weight of the documents with a label; of all documents if the head uses no labels
    evidence: np.ndarray  # evidence about alpha, see `sdem_dist.kernels.topic_steps`; empty unless alpha is learned


@record
class TopicModel(Model):
    """Topics Phi and outputs U: the head predicts from the topic proportions of a document.

    The loss: mean of -ln p(y | d) over labelled documents + words_weight * mean of -ln p(words | theta) over all.
    """

    n_features: int
    n_topics: int
    head: TopicHead
    inference: MirrorDescent = field(default_factory=MirrorDescent)
    beta: float = 1.0  # parameter of the Dirichlet prior of the topics
    log_counts: bool = False  # replace every count x by ln(1 + x)
    words_weight: float = 0.0
    n_labelled: float = 0.0  # weight of the documents with a label; 0: all documents have one
    uniform: float = 0.0  # weight of the uniform distribution over words, mixed into the topics for prediction
    state_type = TopicState

    def state_fields(self) -> dict[str, Field]:
        topics, output = Field((self.n_features, self.n_topics), 0.0), Field((self.n_classes, self.n_topics))
        number, of_topics = Field((), 0.0), Field((self.n_topics,), 0.0)
        each = topics, output, of_topics, number, number, topics, output, number, of_topics
        return dict(zip(TopicState._fields, each, strict=True))

    def check_state(self, state: TopicState) -> None:
        topics = self.parameters(state).topics
        if (topics <= 0).any() or not np.allclose(topics.sum(axis=0), 1.0):
            raise ValueError("the word probabilities of a topic must be positive and add up to 1")

    @property
    def cache_key(self) -> str:
        return f"topics {self.head.cache_key} {self.log_counts} {self.beta != 1.0}"

    def init(self, n_documents: float, seed: int) -> TopicState:
        return self.start(np.ones(self.n_features), seed)

    def start(self, frequencies: np.ndarray, seed: int) -> TopicState:
        """Return the initial state: topics are proportional to word frequencies times ``exp(.1 normal)``."""
        rng = np.random.Generator(np.random.Philox(key=np.array([seed, 0], np.uint64), counter=1 << 65))
        noise = np.exp(0.1 * rng.standard_normal((self.n_features, self.n_topics)))
        share = frequencies[:, None] / max(float(frequencies.sum()), FLOOR)
        output = self.head.start(rng, self.n_topics)
        means = np.zeros_like(noise), np.zeros_like(output)  # allocated at once: memory is checked only here
        current = on_the_simplex(share * noise), output, np.zeros(self.n_topics), 0.0, 0.0
        return TopicState(*current, *means, 0.0, self.inference.prior(self.n_topics))

    def transformed(self, documents: Documents) -> Documents:
        """Return documents with counts, or ``ln(1 + counts)``, as float32 for the kernels."""
        return replace(documents, data=entries(documents.data, self.log_counts))

    def prepare(self, documents: Documents, *, frequent_first: bool = False) -> LocalDocuments:
        weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
        learns, labels, targets = self.head.learns, np.zeros(0, np.int32), NO_TARGETS.astype(np.float64)
        if learns == "labels" and documents.labels is not None:
            labels = documents.labels
        elif learns == "targets" and documents.targets is not None:
            targets = self.head.prepared(documents.targets)
        elif learns != "nothing":
            raise ValueError(f"training and evaluation need documents with {learns}")
        local = localised(self.transformed(documents), labels, weights, targets)
        indices, words = local.documents.indices, local.words
        if self.beta != 1.0:  # every batch updates all words, because of the prior
            indices, words = documents.indices, np.arange(self.n_features, dtype=np.uint32)
        own = replace(local.documents, indices=unsigned(indices), n_features=len(words))
        return local._replace(documents=own, words=words)

    def add(self, parts: Sequence[TopicStatistics]) -> TopicStatistics:
        words, rows, mean_rows, *rest = zip(*parts, strict=True)
        # Without averaging, mean_rows has shape (0, 0) and is not summed.
        tables = (rows, mean_rows) if mean_rows[0].shape[1] else (rows,)
        union, sums = added_by_word(words, tables, self.n_features)
        means = sums[1:] or mean_rows[:1]
        return TopicStatistics._make([union, sums[0], *means, *(sum(column) for column in rest)])

    def run(
        self, state: TopicState, local: LocalDocuments, order: np.ndarray, rates: Rates, averaging: bool, n: float
    ) -> TopicStatistics:
        """Run Algorithm 2 over batches of documents in `order`; return the last parameters times the lane's weight."""
        weight, before = local.weight, state.topics[local.words]
        topics, output, squares = before.copy(), state.output.copy(), state.squares.copy()
        evidence = np.zeros(self.n_topics + 1 if self.inference.learned else 0)
        sum_rows = np.zeros_like(topics) if averaging else np.empty((0, 0))
        sums = topic_steps.Topics(sum_rows, np.zeros(0), np.zeros_like(output), evidence)
        current = topic_steps.Topics(topics, np.maximum(1.0 - before.sum(axis=0), 0.0), output)
        progress = squares, float(state.t), float(state.seen)
        how = self._response(n), current, self.inference.how(state.alpha), rates, progress, sums
        factors, factor_sums, n_batches, t = topic_steps.run_batches(local.visited(order), *how)
        return TopicStatistics(
            words=local.words, rows=weight * (topics - before * factors),
            mean_rows=weight * (sum_rows - before * factor_sums) if averaging else sum_rows,
            decay=weight * factors, mean_decay=weight * factor_sums, output=weight * output,
            mean_output=weight * sums.output, squares=weight * squares, t=weight * t,
            n_averaged=weight * n_batches * averaging, weight=weight, labelled=_labelled(local), evidence=evidence,
        )  # fmt: skip

    def gradients(self, state: TopicState, local: LocalDocuments, n_documents: float) -> TopicStatistics:
        """Return the sums over documents of the gradients of the loss by Phi and U, at the broadcast parameters."""
        rows, output = np.zeros((len(local.words), self.n_topics)), np.zeros_like(state.output)
        parameters = topic_steps.Topics(state.topics[local.words], np.ones(self.n_topics), state.output)
        evidence, zeros = np.zeros(self.n_topics + 1 if self.inference.learned else 0), np.zeros(self.n_topics)
        gradient, how = topic_steps.Topics(rows, zeros, output, evidence), self.inference.how(state.alpha)
        for part in topic_steps.parts_of(local.visited(np.arange(len(local.weights))), how, self.n_topics):
            topic_steps.add_gradients(part, self._response(n_documents), parameters, how, gradient)
        return TopicStatistics(
            local.words, rows, np.empty((0, 0)), zeros, zeros, output, np.zeros_like(output), zeros, 0.0, 0.0,
            local.weight, _labelled(local), evidence,
        )  # fmt: skip

    def _response(self, n_documents: float) -> Response:
        labelled = n_documents / self.n_labelled if self.n_labelled else 1.0
        return Response(self.head.kind, float(self.head.gamma), float(self.words_weight), labelled)

    def parameters(self, state: TopicState) -> TopicParameters:
        """Return the running means; before averaging begins, the last parameters."""
        topics, output = (state.mean_topics, state.mean_output) if state.n_averaged else (state.topics, state.output)
        if self.uniform:  # a rare word is learned only in the topics of its few documents
            topics = (1.0 - self.uniform) * topics + self.uniform / self.n_features
        return TopicParameters(topics, output, state.alpha)

    def scored(self, state: TopicState, local: LocalDocuments, temperature: float, seed: int) -> TopicScores:
        parameters = self.parameters(state)
        own = parameters._replace(topics=parameters.topics[local.words])
        theta, log_likelihood = self.inference.proportions(own, local.documents)
        alpha = parameters.alpha - 1.0 if self.inference.learned else parameters.alpha
        return TopicScores(outputs(parameters.output, theta), log_likelihood, theta, parameters, alpha, local)


def _labelled(local: LocalDocuments) -> float:
    return float(local.weights[local.labels >= 0].sum()) if len(local.labels) else local.weight


def outputs(output: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return U theta of each document, shape (n_documents, n_outputs); without BLAS, whose bits depend on threads."""
    return np.einsum("ck,dk->dc", output, theta)


def on_the_simplex(topics: np.ndarray) -> np.ndarray:
    """Return topics with probabilities raised to at least `FLOOR`, then divided by the columns' sums."""
    floored = np.maximum(topics, FLOOR)
    return np.asarray(floored / floored.sum(axis=0))
