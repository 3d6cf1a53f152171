"""A classifier whose classes are LDA models: scores of documents under the classes, and their topic proportions."""

from dataclasses import field, replace
from typing import Any, NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.evaluation import Scored, scored
from sdem_dist.kernels import lda as kernel
from sdem_dist.kernels import topics
from sdem_dist.kernels.csr import Counted, runs
from sdem_dist.kernels.losses import Moment, Objective, Schedule, Table
from sdem_dist.kernels.randomness import log_normal, mixed
from sdem_dist.kernels.topics import MOVES, check_number
from sdem_dist.losses import Loss, Nll, kernel_form
from sdem_dist.models.word_counts import LocalDocuments, Moves, SdemState, WordCounts, lengths, state_at
from sdem_dist.records import record

INFERENCE = {"map": topics.MAP, "gibbs": topics.GIBBS}
OCCURRENCES = {"shared": topics.SHARED, "paper": topics.LITERAL, "each": topics.EACH}


@record
class Inference:
    """Settings of the inference of a document's topics under a class, and of p(document | class)."""

    method: str = "gibbs"  # collapsed Gibbs sampling of topics; or "map": maximum a posteriori proportions by EM
    # "each": every occurrence of a word has a topic. "shared": its occurrences share one; "paper": by equation 18.
    occurrences: str = "shared"
    alpha: float = 0.5  # of the Dirichlet prior of a document's topic proportions
    n_sweeps: int = 10  # sweeps over a document, including burn-in
    burn_in: int = 3  # first sweeps, whose samples are discarded
    # Particles of the left-to-right estimate of ``ln p(d | class)``; 0: classify by the maximum over the proportions
    # ("map") or the plug-in estimate at the sampled ones ("gibbs"). Neither is ln p(d | class), see `log_joint`.
    n_particles: int = 0

    def __post_init__(self) -> None:
        if self.method not in INFERENCE or self.occurrences not in OCCURRENCES:
            raise ValueError(f"unknown inference: {self}")
        if not 0.0 < self.alpha < np.inf:
            raise ValueError(f"alpha must be positive and finite, got {self.alpha}")
        most_burn_in = self.n_sweeps - 1 if self.method == "gibbs" else topics.MOST
        check_number("n_sweeps", self.n_sweeps, 1)
        check_number("burn_in", self.burn_in, 0, most_burn_in)
        check_number("n_particles", self.n_particles, 0)

    @property
    def how(self) -> topics.TopicInference:
        method, occurrences, alpha = INFERENCE[self.method], OCCURRENCES[self.occurrences], float(self.alpha)
        return topics.TopicInference(method, occurrences, alpha, self.n_sweeps, self.burn_in, self.n_particles)


class LdaParameters(NamedTuple):
    """Expected counts, which define p(word | topic, class) of the chosen words, and the class prior."""

    words: np.ndarray  # N, shape (n_words, n_topics * n_classes): column ``topic * n_classes + class``
    totals: np.ndarray  # M, the sums of N over the whole vocabulary
    gamma: float  # added to each entry of N
    n_features: int  # size of the vocabulary, ``|W|``
    log_prior: np.ndarray  # ln p(y), shape (n_classes,)

    @property
    def n_topics(self) -> int:
        return len(self.totals) // len(self.log_prior)

    @property
    def table(self) -> Table:
        return Table(self.words, self.totals, np.empty(0), self.log_prior, False, self.n_features)


@record
class LdaClasses(WordCounts):
    """Classes that are LDA models: column ``topic * n_classes + class`` of the table is a topic of a class."""

    n_topics: int = 2  # topics per class
    inference: Inference = field(default_factory=Inference)
    # The start is multiplied by ``exp(noise * normal)``, the same in all lanes. With noise of their own, lanes would
    # number the topics differently, and averaging would erase them.
    noise: float = 0.1

    @property
    def n_columns(self) -> int:
        return self.n_topics * self.n_classes

    @property
    def n_counts(self) -> int:
        return self.n_classes

    @property
    def cache_key(self) -> str:
        return f"{super().cache_key} {self.inference.occurrences}"

    def prepare(self, documents: Documents, *, frequent_first: bool = False) -> LocalDocuments:
        check_occurrences(documents, self.inference)
        return super().prepare(documents, frequent_first=frequent_first)

    def start(self, first: int, last: int, seed: int) -> SdemState:
        """Return the prior's counts of the words ``first:last``, with noise per topic (Algorithm 5, line 1).

        The counts of a word have the same sum over topics in every class, so that the noise favours no class.
        """
        words = np.empty((last - first, self.n_columns))
        log_normal(seed, first, self.noise if self.n_topics > 1 else 0.0, words)
        topics = words.reshape(-1, self.n_topics, self.n_classes)
        topics *= self.alpha / topics.mean(axis=1, keepdims=True)
        return state_at(words, np.full(self.n_classes, self.class_alpha))

    def parameters(self, state: SdemState, words: np.ndarray | slice = slice(None)) -> LdaParameters:
        """Return the parameters of p(word | topic, class) for the given words, and of the class prior (M-step)."""
        prior = self.log_class_prior(state)
        return LdaParameters(state.words[words], state.totals, float(state.gamma), self.n_features, prior)

    def scored(self, state: SdemState, local: LocalDocuments, temperature: float, seed: int) -> Scored:
        """Return documents with their `joint_scores`, which choose the class, and their `log_joint`."""
        parameters, d = self.parameters(state, local.words), local.documents
        d = replace(d, data=d.data.astype(np.float64), indices=d.indices.astype(np.uint32))  # as in predict
        scores, thetas = joint_scores(parameters, d, local.words, self.inference, seed)
        joint = log_joint(parameters, d, self.inference, scores, thetas)
        return scored(scores / temperature, local.labels, local.weights, lengths(local.documents), joint)

    def scores(self, parameters: LdaParameters, documents: Documents, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the `joint_scores` of documents and their proportions; `parameters`: of the whole vocabulary."""
        return joint_scores(parameters, documents, np.arange(documents.n_features, dtype="u4"), self.inference, seed)

    def expected(self, state: SdemState, local: LocalDocuments, loss: Loss, keys: np.ndarray, tolerance: float) -> Any:
        """Return the sums of loss weights and of loss weights times expected counts, at one theta (Table 2)."""
        parameters = self.parameters(state, local.words)
        rows, class_counts = np.zeros((len(local.words), self.n_columns)), np.zeros(self.n_classes)
        # NLL needs no scores, hence no particles.
        how = replace(self.inference, n_particles=0 if isinstance(loss, Nll) else self.inference.n_particles).how
        objective = Objective(kernel_form(loss, self.n_classes), tolerance, None)
        steps = Schedule(1.0, 1.0, 0.0, 0.0, 0.0, 0.0, -np.inf, -np.inf, 0.0)
        moment = Moment(parameters.gamma, 0.0, 0.0)
        for a, b in runs(_costs(local.documents, self.inference, self.n_columns)):
            visited, table = local.visited(np.arange(a, b)), parameters.table._replace(totals=state.totals.copy())
            kernel.run_documents(visited, keys, table, steps, moment, objective, how, rows, class_counts, False)
        return local.statistics(rows, class_counts)

    def run(self, state: SdemState, local: LocalDocuments, at: Any, steps: Schedule, objective: Objective) -> Moves:
        """Run sdEM over a lane's documents; return the changes of N of their words and of C, and the last moment."""
        keys, how = at.keys(local.documents.n_documents), self.inference.how

        def run(documents: Any, table: Table, moment: Moment) -> Any:
            sums = table.words, table.class_counts
            return kernel.run_documents(documents, keys, table, steps, moment, objective, how, *sums, True)

        return self.stepped(state, local, at, _costs(local.documents, self.inference, self.n_columns), run)


def check_occurrences(documents: Documents, inference: Inference) -> None:
    """Raise ValueError if ``occurrences="each"`` meets counts that are not integers."""
    if inference.occurrences == "each" and documents.data.dtype.kind == "f":
        odd = documents.data != np.rint(documents.data)
        if odd.any():
            raise ValueError(f"occurrences='each' needs integer counts, but an entry is {documents.data[odd][0]}")


def _costs(documents: Documents, inference: Inference, n_columns: int) -> np.ndarray:
    """Estimate the running time of each document in nanoseconds."""
    each = inference.occurrences == "each"
    words = lengths(documents) if each else np.diff(documents.indptr).astype(np.float64)
    sweeps = (3.0 if inference.method == "map" else 30.0) * inference.n_sweeps
    return n_columns * words * (sweeps + 10.0 * inference.n_particles * words)


def log_word_probabilities(parameters: LdaParameters) -> np.ndarray:
    """Return ln p(word | topic, class), shape (n_classes, n_topics, n_words)."""
    p = parameters
    table = np.log(p.words + p.gamma) - np.log(p.totals + p.gamma * p.n_features)
    return table.T.reshape(p.n_topics, len(p.log_prior), -1).swapaxes(0, 1)


def joint_scores(
    parameters: LdaParameters, documents: Documents, ids: np.ndarray, inference: Inference, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return scores for choosing a class, and topic proportions, shape (n_documents, n_topics, n_classes).

    A score is ln p(y) plus, up to a constant: "map": the maximum of ``ln p(d, theta | y)``; "gibbs": the plug-in
    estimate, which is too high; with particles: the left-to-right estimate. `parameters`: of the words `ids`.
    """
    check_occurrences(documents, inference)
    p, key = parameters, np.uint64(mixed(np.uint64(seed)))
    scores = np.empty((documents.n_documents, len(p.log_prior)))
    thetas = np.empty((documents.n_documents, p.n_topics, len(p.log_prior)))
    for a, b in runs(_costs(documents, inference, len(p.totals))):
        counted = Counted(documents.data, documents.indices, documents.indptr[a : b + 1])
        kernel.score_documents(counted, ids, p.table, p.gamma, key, inference.how, scores[a:b], thetas[a:b])
    return scores + p.log_prior, thetas


def log_joint(
    parameters: LdaParameters, documents: Documents, inference: Inference, scores: np.ndarray, thetas: np.ndarray
) -> np.ndarray:
    """Return ln p(y, d) of every class and document: estimated with particles if there are any, else a lower bound.

    The bound is the variational one of Blei, Ng and Jordan (2003), after `n_sweeps` sweeps from the proportions of
    `joint_scores`. It is exact for one topic.
    """
    if inference.n_particles:
        return scores
    p, bounds, alpha = parameters, np.empty(scores.shape), float(inference.alpha)
    for a, b in runs(_costs(documents, inference, len(p.totals))):
        counted = Counted(documents.data, documents.indices, documents.indptr[a : b + 1])
        kernel.bound_documents(counted, p.table, p.gamma, alpha, inference.n_sweeps, thetas[a:b], bounds[a:b])
    return bounds + p.log_prior


def log_probability(
    topics: np.ndarray, documents: Documents, alpha: float | np.ndarray, n_particles: int = 10, seed: int = 0
) -> np.ndarray:
    """Return the left-to-right estimate of ln p(words of each document), topics and proportions summed out.

    Wallach, Murray, Salakhutdinov and Mimno 2009, Algorithm 3, with particles resampled after each word, since it is
    biased otherwise. No multinomial coefficient. A count of 2.5 is three occurrences, the last with weight 0.5.

    `topics`: shape (n_features, n_topics), float64: p(word | topic). `alpha`: float, or of shape (n_topics,).
    `n_particles`: more particles give less noise; ValueError below 1 or above 10,000.
    """
    check_number("n_particles", n_particles, 1)
    out = np.empty(documents.n_documents)
    key, topics = np.uint64(mixed(np.uint64(seed))), np.ascontiguousarray(topics, np.float64)
    prior = np.full(topics.shape[1], alpha, np.float64)
    n_words = lengths(documents)
    for a, b in runs(n_words * np.minimum(n_words, MOVES) * (10.0 * n_particles * topics.shape[1])):
        counted = Counted(documents.data, documents.indices, documents.indptr[a : b + 1])
        kernel.estimate_documents(counted, topics, prior, int(n_particles), key, out[a:b])
    return out
