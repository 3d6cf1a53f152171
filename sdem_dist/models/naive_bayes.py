"""Multinomial naive Bayes of counts of words: ``mu = (C, N)``, unnormalized, and ``theta = (ln p(y), ln N)``."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import digamma

from sdem_dist.documents import Documents
from sdem_dist.evaluation import scored
from sdem_dist.kernels.csr import add_scores, add_statistics, runs, unsigned
from sdem_dist.kernels.losses import Objective, Schedule
from sdem_dist.kernels.multinomial import changes_of, run_documents, run_paper_steps, with_logarithms
from sdem_dist.kernels.vectors import take_logarithms
from sdem_dist.losses import Loss, one_hot
from sdem_dist.models.em import EmForm
from sdem_dist.models.heads import Labels, by_class, pooled
from sdem_dist.models.word_counts import LocalDocuments, Moves, SdemState, SdemStatistics, WordCounts, lengths, state_at
from sdem_dist.records import record


class NaturalParameters(NamedTuple):
    """Natural parameters of the chosen words and of the classes, or of their components."""

    log_words: np.ndarray  # ln(N + gamma), shape (n_words, n_columns): not normalized, see `log_totals`
    log_totals: np.ndarray  # ln(M + gamma |W|), the log-partition of one word, shape (n_columns,)
    log_prior: np.ndarray  # ln p(y), shape (n_columns,), up to a constant

    @property
    def log_probabilities(self) -> np.ndarray:
        """Values of ln p(word | column), shape (n_columns, n_words)."""
        return np.asarray((self.log_words - self.log_totals).T)


@record
class NaiveBayes(WordCounts):
    """Naive Bayes of words with classes, mixtures of components as classes, or labels against the rest."""

    def start(self, first: int, last: int, seed: int = 0) -> SdemState:
        return self.start_at(np.full(last - first, self.alpha))

    def start_at(self, prior: np.ndarray) -> SdemState:
        """Return mu_0; `prior`: pseudo-count of each word, shape (n_features,)."""
        return state_at(np.repeat(prior[:, None], self.n_columns, axis=1), np.full(self.n_counts, self.class_alpha))

    def natural(self, state: SdemState, words: np.ndarray | slice = slice(None)) -> NaturalParameters:
        """Return the natural parameters theta(mu) of the given words, for all columns (M-step, Algorithm 3)."""
        rows, totals = state.words[words], state.totals + state.gamma * self.n_features
        # Indexing with an array has copied the rows already.
        rows = np.add(rows, state.gamma, out=None if isinstance(words, slice) else rows)
        rows = np.ascontiguousarray(rows)
        take_logarithms(rows.reshape(-1))  # in place: no second copy of a wide model's table
        with np.errstate(divide="ignore"):  # ln 0 = -inf for a class without documents, or alpha = 0
            return NaturalParameters(rows, np.log(totals), self.log_class_prior(state))

    def parameters(self, state: SdemState, words: np.ndarray | slice = slice(None)) -> NaturalParameters:
        """Return theta(mu), or for labels the log-odds: theta of the column with the label minus the one without."""
        theta = self.natural(state, words)
        if not isinstance(self.head, Labels):
            return theta
        return NaturalParameters(*(column[..., 1::2] - column[..., ::2] for column in theta))

    def log_prior_density(self, state: SdemState) -> float:
        """Return the log-density of the prior of words and classes, up to a constant."""
        parameters = self.parameters(state)
        density = self.alpha * float((parameters.log_words - parameters.log_totals).sum())
        return density + (self.class_alpha * float(parameters.log_prior.sum()) if self.class_alpha else 0.0)

    def posterior_mean(self, state: SdemState, words: np.ndarray) -> NaturalParameters:
        counts = state.class_counts
        log_shares = digamma(counts) - digamma(counts.sum())
        return NaturalParameters(digamma(state.words[words]), digamma(state.totals), log_shares)

    def scored(self, state: SdemState, local: LocalDocuments, temperature: float, seed: int) -> Any:
        scores = joint_scores(self.parameters(state, local.words), local.documents)
        if isinstance(self.head, Labels) and not self.head.exclusive:
            return scores, local.targets, np.where(local.labels < 0, 0.0, local.weights)
        scores = scores if isinstance(self.head, Labels) else by_class(scores, self.head.component_class)[0]
        return scored(scores / temperature, local.labels, local.weights, lengths(local.documents), scores)

    def expected(self, state: SdemState, local: LocalDocuments, loss: Loss, keys: np.ndarray, tolerance: float) -> Any:
        """Return the sums of loss weights and of loss weights times counts, at one theta (Tables 1 and 2)."""
        scores = joint_scores(self.natural(state, local.words), local.documents)
        if isinstance(self.head, Labels):
            weights = self.head.loss_weights(loss, scores, local.targets)
        else:
            weights = self.head.loss_weights(loss, scores, local.labels)[0]
        return self._weighted(weights * local.weights[:, None], local)

    def complete(self, local: LocalDocuments) -> SdemStatistics:
        return self._weighted(one_hot(local.labels, self.n_columns) * local.weights[:, None], local)

    def posterior(self, state: SdemState, local: LocalDocuments, form: EmForm, at: Any, unlabelled: float) -> Any:
        """Return the expected counts (E-step); without components, the first step uses only labelled documents."""
        labels, component_class = local.labels, np.asarray(self.head.component_class)
        hidden = labels < 0
        if not len(component_class) and not (hidden.any() and state.t > 0):
            return self.complete(local)
        theta = self.posterior_mean if form.kind == "variational" else self.natural
        scores = joint_scores(theta(state, local.words), local.documents)
        if len(component_class) and not self.head.clusters:
            scores[(labels[:, None] != component_class) & ~hidden[:, None]] = -np.inf
        shares = form.responsibilities(scores, form.temperature(at.lane.epoch), at.keys(len(labels)))[0]
        memberships = shares if len(component_class) else one_hot(labels, self.n_columns)
        shares = np.where(hidden[:, None], unlabelled * shares, memberships)
        return self._weighted(shares * local.weights[:, None], local)

    def _weighted(self, weights: np.ndarray, local: LocalDocuments) -> SdemStatistics:
        d, rows = local.documents, np.zeros((len(local.words), weights.shape[1]))
        add_statistics(d.data, d.indices, d.indptr, weights, rows)
        return local.statistics(np.ascontiguousarray(pooled(self.head, rows.T).T), weights.sum(axis=0))

    def maximum(self, state: SdemState, s: SdemStatistics, n_documents: float, form: EmForm) -> SdemState:
        """Return the expected counts plus the prior's (M-step) or, depending on `form`, a step towards them."""
        # The bound is concave in the counts, so a part of the step raises it too.
        prior, class_prior = np.full_like(state.words, self.alpha), np.full(self.n_counts, self.class_alpha)
        if form.kind != "online" and form.step == 1:
            return self.counted(state._replace(words=prior, class_counts=class_prior), s, n_documents)
        rho, scale = form.step, 1.0
        if form.kind == "online":
            rho, scale = form.rho(state.t, s.weight), n_documents / s.weight
        words = (1.0 - rho) * state.words + rho * prior
        words[s.words] += rho * scale * s.rows
        counts = (1.0 - rho) * state.class_counts + rho * (class_prior + scale * s.class_counts)
        return state._replace(words=words, totals=words.sum(axis=0), class_counts=counts, t=state.t + s.weight)

    def run(self, state: SdemState, local: LocalDocuments, at: Any, steps: Schedule, objective: Objective) -> Moves:
        """Run sdEM over a lane's documents; return the changes of N of their words and of C, and the last moment."""
        costs = 2.0 * np.diff(local.documents.indptr) * self.n_columns
        if steps.word_gain > 0.0:  # a running prior correction: the literal steps of the paper
            paper = partial(run_paper_steps, schedule=steps, objective=objective)
            return self.stepped(state, local, at, 10.0 * costs, paper)
        order = at.order(local.documents.n_documents)
        table_words, used = state.words, local.words
        if not isinstance(table_words, np.ndarray):  # blocks of a wide table
            table_words, used = table_words[used], np.arange(len(used), dtype=np.uint32)
        rows = with_logarithms(table_words, used)
        table, moment = self.working_table(state, rows)
        t, blend_credit = moment.t, np.full(max(1, local.targets.shape[1]), 0.5)
        for a, b in runs(costs[order]):
            t = run_documents(local.visited(order[a:b]), table, steps, t, blend_credit, objective)
        return changes_of(rows, table_words, used), table.class_counts - state.class_counts, moment._replace(t=t)


def joint_scores(parameters: NaturalParameters, documents: Documents) -> np.ndarray:
    """Return ln p(y, d) of every column, (n_documents, n_columns), without the multinomial coefficient.

    Masegosa 2014, Algorithm 3 with ``|W|`` as the size of the vocabulary; `parameters` are of the documents' words.
    """
    scores = np.zeros((documents.n_documents, len(parameters.log_totals)))
    add_scores(documents.data, unsigned(documents.indices), documents.indptr, parameters.log_words, scores)
    scores += parameters.log_prior
    scores -= lengths(documents)[:, None] * parameters.log_totals
    return scores


def sample_documents(
    parameters: NaturalParameters, columns: np.ndarray, length: int, rng: np.random.Generator
) -> sp.csr_matrix:
    """Draw a document of `length` words from each of `columns`, indices of classes or components."""
    p = np.exp(parameters.log_probabilities)
    p /= p.sum(axis=1, keepdims=True)
    rows = (sp.csr_matrix(rng.multinomial(length, p[j])) for j in columns)
    return sp.vstack([sp.csr_matrix((0, p.shape[1]), dtype=np.int64), *rows], format="csr")


def pseudo_count(alpha: str | float, n_features: int) -> float:
    """Return "laplace" as 1 (P1), "log" as ln |W| (P2), 0 as 1e-10 like scikit-learn's ``force_alpha=False``."""
    if np.ndim(alpha):
        raise ValueError("only MultinomialNB(loss='nll') supports one alpha per word")
    if alpha == "laplace":
        return 1.0
    if alpha == "log":
        return float(np.log(max(n_features, 2)))
    return max(float(alpha), 1e-10)
