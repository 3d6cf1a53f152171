"""Naive Bayes of documents with several labels: for each label two classes, the documents with it and the rest."""

from dataclasses import dataclass

import numpy as np

from sdem_dist import losses
from sdem_dist.documents import Documents
from sdem_dist.kernels.documents import runs
from sdem_dist.kernels.multinomial import changes_of, with_logarithms
from sdem_dist.kernels.one_against_rest import run_labels
from sdem_dist.kernels.schedule import Moment, Objective
from sdem_dist.models.naive_bayes import NaiveBayes, NaturalParameters, joint_scores, weighted_statistics
from sdem_dist.models.word_counts import LocalDocuments, SdemState, Steps, rows_of, working_table
from sdem_dist.records import record


@record
@dataclass(frozen=True)
class OneAgainstRest:
    """One naive Bayes classifier a label over one table of words: columns ``2 l`` (rest) and ``2 l + 1`` (label l)."""

    n_features: int
    n_classes: int  # `n_features` and `n_classes`: words and labels
    alpha: float = 1.0
    class_alpha: float = 1.0
    """`alpha` and `class_alpha`: pseudo-count of every word and of every column, in the conjugate priors."""
    log_prior: tuple[float, ...] | None = None  # fixed ln p of each column; None learns it

    clusters = False
    whole_counts = False

    @property
    def n_columns(self) -> int:
        """Columns of the table of words: two a label."""
        return 2 * self.n_classes

    @property
    def n_counts(self) -> int:
        """Entries of the class counts: as many."""
        return self.n_columns

    @property
    def columns(self) -> NaiveBayes:
        """The model of all columns, as if each were a class."""
        return NaiveBayes(self.n_features, self.n_columns, self.alpha, self.class_alpha, self.log_prior)

    def check_documents(self, documents: Documents) -> None:
        """Take any documents."""

    def start(self, first: int, last: int, seed: int) -> SdemState:
        """Return the prior's mu_0 of the words ``first:last``."""
        return self.columns.start(first, last, seed)

    def start_at(self, prior: np.ndarray) -> SdemState:
        """Return mu_0 of words with pseudo-counts of their own, shape (n_features,)."""
        return self.columns.start_at(prior)

    def parameters(self, state: SdemState, words: np.ndarray | slice = slice(None)) -> NaturalParameters:
        """Return the log-odds of each label: natural parameters of its column, less those of its rest."""
        found = self.columns.parameters(state, words)
        prior = np.asarray(found.log_prior)
        return NaturalParameters(
            found.log_words[:, 1::2] - found.log_words[:, ::2],
            found.log_totals[1::2] - found.log_totals[::2],
            prior[1::2] - prior[::2],
        )

    def scores(self, parameters: NaturalParameters, local: LocalDocuments, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-odds of each label, twice: shape (n_documents, n_labels)."""
        odds = joint_scores(parameters, local.documents)
        return odds, odds

    def expected_statistics(
        self, state: SdemState, local: LocalDocuments, loss: str | losses.Loss, keys: np.ndarray, tolerance: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return sums of loss weights times counts, and of loss weights, at one theta; the loss is each label's own."""
        weights = joint_scores(self.columns.parameters(state, local.words), local.documents)
        form, members = losses.named(loss), local.targets.astype(np.intp)
        for label in range(self.n_classes):
            pair = slice(2 * label, 2 * label + 2)
            weights[:, pair] = form.weights(weights[:, pair], members[:, label])
        weights *= local.weights[:, None]
        return weighted_statistics(weights, local.documents, len(local.words)), weights.sum(axis=0)

    def run(
        self, state: SdemState, local: LocalDocuments, order: np.ndarray, keys: np.ndarray, steps: Steps
    ) -> tuple[np.ndarray, np.ndarray, Moment]:
        """Run sdEM over documents in `order`; return how N of their words and C move from `state` and where it ends."""
        objective = Objective(steps.loss, steps.tolerance, np.zeros(0, np.int64))
        whole, words = state.words, local.words
        if not isinstance(whole, np.ndarray):
            whole, words = rows_of(whole, words), np.arange(len(words), dtype=np.uint32)
        rows = with_logarithms(whole, words)
        table, moment = working_table(state, rows, self.log_prior, self.n_features)
        costs = 2.0 * np.diff(local.documents.indptr)[order] * self.n_columns
        for a, b in runs(costs):
            visited = local.visited(order[a:b])
            t = run_labels(visited, local.targets, table, steps.schedule, moment.t, objective)
            moment = moment._replace(t=t)
        return changes_of(rows, whole, words), table.class_counts - state.class_counts, moment
