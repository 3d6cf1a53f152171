"""Multinomial naive Bayes of documents as counts of words.

p(y, d) is a `sdem_dist.families.Categorical` of the class times a `sdem_dist.families.Multinomial` of the counts given
the class.  A vocabulary is long and its rows are sparse, so all words have a parameter, even the one that follows from
the others: statistics are the counts, ``mu = (C, N)`` expected counts of classes and of words, unnormalised, and
``theta = (ln p(y), ln N)``; a document of length L has the log-partition ``L ln sum_w N_w = L ln M``.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sdem_dist import losses
from sdem_dist.documents import Documents
from sdem_dist.kernels import multinomial_exact as literal
from sdem_dist.kernels.csr import add_scores, add_statistics, row_sums
from sdem_dist.kernels.documents import runs
from sdem_dist.kernels.logarithm import take_logarithms
from sdem_dist.kernels.multinomial import changes_of, run_documents, with_logarithms
from sdem_dist.kernels.schedule import Moment, Objective
from sdem_dist.models.components import by_class, check_components
from sdem_dist.models.word_counts import (
    LocalDocuments,
    SdemState,
    Steps,
    log_class_prior,
    rows_of,
    working_table,
)
from sdem_dist.records import record


class NaturalParameters(NamedTuple):
    """Natural parameters of the words at hand and of the classes, or of their components."""

    log_words: np.ndarray
    """ln(N + gamma), shape (n_words, n_columns): not normalised, see `log_totals`."""
    log_totals: np.ndarray
    """ln(M + gamma |W|), the log-partition of one word, shape (n_columns,)."""
    log_prior: np.ndarray
    """ln p(y), shape (n_columns,), up to a constant."""


@record
@dataclass(frozen=True)
class NaiveBayes:
    """Naive Bayes of words, whose classes may be mixtures of components.

    `alpha`, `class_alpha`: pseudo-count of every word and of every class, or component, in the conjugate priors.
    `log_prior`: fixed ln p(y); None learns it.
    `owners`: the class of each component, ascending; empty: classes have no components.
    """

    n_features: int
    n_classes: int
    alpha: float = 1.0
    class_alpha: float = 1.0
    log_prior: tuple[float, ...] | None = None
    owners: tuple[int, ...] = ()

    whole_counts = False  # documents need not have whole counts

    def __post_init__(self) -> None:
        check_components(self.n_columns, self.n_classes, self.owners, self.log_prior)

    @property
    def n_columns(self) -> int:
        """Columns of the table of words: classes, or components."""
        return len(self.owners) or self.n_classes

    @property
    def n_counts(self) -> int:
        """Entries of the class counts: as many."""
        return self.n_columns

    @property
    def clusters(self) -> bool:
        """Whether there are components and no classes to tell apart."""
        return self.n_classes == 1 and bool(self.owners)

    def check_documents(self, documents: Documents) -> None:
        """Take any documents."""

    def start(self, first: int, last: int, seed: int) -> SdemState:
        """Return the prior's mu_0 of the words ``first:last`` (Algorithm 1, line 1)."""
        words = np.full((last - first, self.n_columns), self.alpha)
        return SdemState(words, words.sum(axis=0), np.full(self.n_counts, self.class_alpha), 0.0, 0.0, 0.0)

    def start_at(self, prior: np.ndarray) -> SdemState:
        """Return mu_0 of words with pseudo-counts of their own, shape (n_features,)."""
        words = np.repeat(prior[:, None], self.n_columns, axis=1)
        return SdemState(words, words.sum(axis=0), np.full(self.n_counts, self.class_alpha), 0.0, 0.0, 0.0)

    def parameters(self, state: SdemState, words: np.ndarray | slice = slice(None)) -> NaturalParameters:
        """Return the natural parameters theta(mu) of the given words (M-step, Algorithm 3)."""
        rows, totals = rows_of(state.words, words), state.totals + state.gamma * self.n_features
        # Rows that were picked are a copy already.
        rows = np.add(rows, state.gamma, out=None if isinstance(words, slice) else rows)
        rows = np.ascontiguousarray(rows)
        take_logarithms(rows.reshape(-1))  # in place: memory need not hold the table of a wide model twice
        with np.errstate(divide="ignore"):  # ln 0 = -inf: a class without documents, or alpha = 0
            return NaturalParameters(rows, np.log(totals), log_class_prior(state, self.log_prior))

    def scores(self, parameters: NaturalParameters, local: LocalDocuments, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return what decides between classes, and ln p(y, d), shapes (n_documents, n_classes): the same."""
        scores = joint_scores(parameters, local.documents)
        scores = by_class(scores, self.owners)[0] if self.owners else scores
        return scores, scores

    def expected_statistics(
        self, state: SdemState, local: LocalDocuments, loss: str | losses.Loss, keys: np.ndarray, tolerance: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums of loss weights times counts, and of loss weights, at one theta (Tables 1 and 2)."""
        scores = joint_scores(self.parameters(state, local.words), local.documents)
        if self.owners:
            scores, posteriors = by_class(scores, self.owners)
        weights = losses.named(loss).weights(scores, local.labels)
        weights = weights[:, self.owners] * posteriors if self.owners else weights
        weights *= local.weights[:, None]
        return weighted_statistics(weights, local.documents, len(local.words)), weights.sum(axis=0)

    def run(
        self, state: SdemState, local: LocalDocuments, order: np.ndarray, keys: np.ndarray, steps: Steps
    ) -> tuple[np.ndarray, np.ndarray, Moment]:
        """Run sdEM over documents in `order`; return how N of their words and C move from `state` and where it ends."""
        objective = Objective(steps.loss, steps.tolerance, np.asarray(self.owners, np.int64))
        costs = (20.0 if steps.literal else 2.0) * np.diff(local.documents.indptr)[order] * self.n_columns
        if steps.literal:
            before = rows_of(state.words, local.words)
            words = before.copy()
            table, moment = working_table(state, words, self.log_prior, self.n_features)
            for a, b in runs(costs):
                moment = Moment(
                    *literal.run_documents(local.visited(order[a:b]), table, steps.schedule, moment, objective)
                )
            return words - before, table.class_counts - state.class_counts, moment
        whole, words = state.words, local.words
        if not isinstance(whole, np.ndarray):
            whole, words = rows_of(whole, words), np.arange(len(words), dtype=np.uint32)
        rows = with_logarithms(whole, words)
        table, moment = working_table(state, rows, self.log_prior, self.n_features)
        t, due = moment.t, 0.5
        for a, b in runs(costs):
            t, due = run_documents(local.visited(order[a:b]), table, steps.schedule, t, due, objective)
        return changes_of(rows, whole, words), table.class_counts - state.class_counts, moment._replace(t=t)


def lengths(documents: Documents) -> np.ndarray:
    """Return the number of words of each document, shape (n_documents,), float64."""
    return np.asarray(row_sums(documents.data, documents.indptr))


def joint_scores(parameters: NaturalParameters, documents: Documents) -> np.ndarray:
    """Return ln p(y, d) of every column and document, without the multinomial coefficient.

    Masegosa 2014, Algorithm 3 with ``|W|`` as the size of the vocabulary.

    `parameters`: rows of `log_words` are what ``documents.indices`` point to.
    Returns float64 of shape (n_documents, n_columns).
    """
    scores = np.zeros((documents.n_documents, len(parameters.log_totals)))
    add_scores(documents.data, documents.indices, documents.indptr, parameters.log_words, scores)
    scores += parameters.log_prior
    scores -= lengths(documents)[:, None] * parameters.log_totals
    return scores


def weighted_statistics(loss_weights: np.ndarray, documents: Documents, n_words: int) -> np.ndarray:
    """Return the documents' counts, weighted by column and summed: shape (n_words, n_columns), float64.

    `loss_weights`: float64 of shape (n_documents, n_columns).
    `n_words`: rows of the result; ``documents.indices`` are below it.
    """
    rows = np.zeros((n_words, loss_weights.shape[1]))
    add_statistics(documents.data, documents.indices, documents.indptr, loss_weights, rows)
    return rows


def pseudo_count(alpha: str | float, n_features: int) -> float:
    """Return alpha as a number: "laplace" is 1 (P1), "log" ln |W| (P2).

    0 becomes 1e-10, as with scikit-learn's ``force_alpha=False``.
    """
    if alpha == "laplace":
        return 1.0
    if alpha == "log":
        return float(np.log(max(n_features, 2)))
    return max(float(alpha), 1e-10)
