"""EM in tables of words: counting, hidden classes, hidden components (Masegosa 2014, Table 2, NLL)."""

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma

from sdem_dist.kernels.randomness import document_keys
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.word_counts import WordLearner
from sdem_dist.learners.word_statistics import SdemStatistics, added, at_one_theta
from sdem_dist.models.em_forms import EXACT, EmForm, EStep
from sdem_dist.models.naive_bayes import NaiveBayes, NaturalParameters, joint_scores, weighted_statistics
from sdem_dist.models.word_counts import LocalDocuments, SdemState, rows_of
from sdem_dist.records import record

RULES = ("count", "maximise")


@record
@dataclass(frozen=True)
class WordEm(WordLearner[NaiveBayes]):
    """The learner of maximum a posteriori estimates of a `NaiveBayes`."""

    rule: str = "count"
    """"count": nothing is hidden, and a round's counts are added to those before: what NLL's
    steps converge to, exactly. "maximise": a round of all documents is an iteration of EM."""
    unlabelled_weight: float = 1.0  # weight of a document of label -1, whose class is hidden
    form: EmForm = EXACT  # which EM "maximise" is

    def start(self, first: int, last: int) -> SdemState:
        """Return the prior's mu_0; classes have no prior, components have one, so that none dies out."""
        prior = super().start(first, last)
        return prior if self.model.owners else prior._replace(class_counts=np.zeros(self.model.n_counts))

    def start_at(self, words: np.ndarray, class_counts: np.ndarray) -> SdemState:
        """Return the state at some expected counts of words and components, shapes (n_features, n) and (n,)."""
        return SdemState(words, words.sum(axis=0), class_counts, 0.0, 0.0, 0.0)

    def check_state(self, state: SdemState) -> None:
        """Raise ValueError unless the rule is known and the settings match each other."""
        super().check_state(state)
        if self.rule not in RULES:
            raise ValueError(f"rule must be one of {RULES}, and is {self.rule!r}")

    def map(self, state: SdemState, documents: LocalDocuments, lane: Lane) -> SdemStatistics:
        """Return expected counts of one lane (E-step)."""
        documents = self.trained_on(documents, lane)
        keys = document_keys(self.seed, lane.epoch, lane.start, lane.start + len(documents.labels))
        step = EStep(self.form, self.form.temperature(lane.epoch), keys)
        weights = self._shares(state, documents, step) * documents.weights[:, None]
        rows = weighted_statistics(weights, documents.documents, len(documents.words))
        return at_one_theta(documents.words, rows, weights.sum(axis=0), documents.weight)

    def _shares(self, state: SdemState, local: LocalDocuments, step: EStep) -> np.ndarray:
        """Return the shares of what is hidden; without components the first round sees labelled documents only."""
        labels, owners = local.labels, np.asarray(self.model.owners)
        hidden = labels < 0
        shares = np.zeros((len(labels), self.model.n_columns))
        if len(owners):
            scores = joint_scores(self._scoring(state, local.words), local.documents)
            if not self.model.clusters:
                scores[(labels[:, None] != owners) & ~hidden[:, None]] = -np.inf
            shares = step.shares(scores, slice(None))[0]
            return np.where(hidden[:, None], self.unlabelled_weight * shares, shares)
        if hidden.any() and state.t > 0:
            scores = joint_scores(self._scoring(state, local.words), local.documents)
            shares[hidden] = self.unlabelled_weight * step.shares(scores, slice(None))[0][hidden]
        shares[np.flatnonzero(~hidden), labels[~hidden]] = 1.0
        return shares

    def _scoring(self, state: SdemState, words: np.ndarray) -> NaturalParameters:
        """Return theta(mu); under variational EM its expectation under Dirichlet posteriors."""
        if self.form.kind != "variational":
            return self.model.parameters(state, words)
        counts = state.class_counts
        log_shares = digamma(counts) - digamma(counts.sum())
        return NaturalParameters(digamma(rows_of(state.words, words)), digamma(state.totals), log_shares)

    def update(self, state: SdemState, statistics: SdemStatistics) -> SdemState:
        """Return the expected counts with the prior's: maximisation, in closed form."""
        s = statistics
        if s.weight == 0.0 or not s.class_counts.any():
            return state
        if self.rule == "count":
            return added(state, s)
        words = np.full_like(state.words, self.model.alpha)
        prior = state._replace(words=words, class_counts=self.start(0, 0).class_counts)
        if self.form.kind != "online" and self.form.step == 1:
            return added(prior, s)
        rho, scale = self.form.step, 1.0
        if self.form.kind == "online":
            rho, scale = self.form.rho(state.t, s.weight), self.n_documents / s.weight
        # A line in expected counts is a line in shares, along which the bound is concave.
        words = (1.0 - rho) * state.words + rho * prior.words
        words[s.words] += rho * scale * s.rows
        counts = (1.0 - rho) * state.class_counts + rho * (prior.class_counts + scale * s.class_counts)
        return state._replace(words=words, totals=words.sum(axis=0), class_counts=counts, t=state.t + s.weight)
