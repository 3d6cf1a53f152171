"""EM in tables of words: counting, hidden classes, hidden components, and its online form (Masegosa 2014, Table 2, NLL)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.word_counts import WordLearner
from sdem_dist.learners.word_statistics import SdemStatistics, added, at_one_theta
from sdem_dist.losses import Nll
from sdem_dist.models.components import loss_of_components
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores, weighted_statistics
from sdem_dist.models.word_counts import LocalDocuments, SdemState
from sdem_dist.records import record

DECAY = 0.7
"""Steps of online EM are ``(rounds + 2) ** -DECAY``: between 1/2 and 1, as stochastic approximation asks for."""
RULES = ("count", "maximise", "online")


@record
@dataclass(frozen=True)
class WordEm(WordLearner[NaiveBayes]):
    """The learner of maximum a posteriori estimates of a `NaiveBayes`.

    Attributes
    ----------
    rule : {"count", "maximise", "online"}
        "count": nothing is hidden, and a round's counts are added to those before: what NLL's steps converge to, exactly.
        "maximise": a round of all documents is an iteration of EM.  "online": a round goes some way to its maximum.
    unlabelled_weight : float
        Weight of a document of label -1, whose class is hidden.
    """

    rule: str = "count"
    unlabelled_weight: float = 1.0

    def start(self, first: int, last: int) -> SdemState:
        """Return the prior's mu_0; classes have no prior, components have one, and so none dies out."""
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
        documents = self.trained_on(documents)
        weights = self._posteriors(state, documents) * documents.weights[:, None]
        rows = weighted_statistics(weights, documents.documents, len(documents.words))
        return at_one_theta(documents.words, rows, weights.sum(axis=0), documents.weight)

    def _posteriors(self, state: SdemState, local: LocalDocuments) -> np.ndarray:
        """Return p(hidden | label, words); where classes have no components the first round sees labelled documents only."""
        labels, owners = local.labels, self.model.owners
        hidden = labels < 0
        shares = np.zeros((len(labels), self.model.n_columns))
        if owners or (hidden.any() and state.t > 0):
            scores = joint_scores(self.model.parameters(state, local.words), local.documents)
            if owners:
                return loss_of_components(Nll(), scores, labels, owners, self.unlabelled_weight)[0]
            shares[hidden] = self.unlabelled_weight * softmax(scores[hidden], axis=1)
        shares[np.flatnonzero(~hidden), labels[~hidden]] = 1.0
        return shares

    def update(self, state: SdemState, statistics: SdemStatistics) -> SdemState:
        """Return the expected counts with the prior's: maximisation, in closed form."""
        s = statistics
        if s.weight == 0.0 or not s.class_counts.any():
            return state
        if self.rule == "count":
            return added(state, s)
        words = np.full_like(state.words, self.model.alpha)
        prior = state._replace(words=words, class_counts=self.start(0, 0).class_counts)
        if self.rule == "maximise":
            return added(prior, s)
        rho, scale = (state.t / s.weight + 2.0) ** -DECAY, self.n_documents / s.weight
        words = (1.0 - rho) * state.words + rho * prior.words
        words[s.words] += rho * scale * s.rows
        counts = (1.0 - rho) * state.class_counts + rho * scale * s.class_counts
        return state._replace(words=words, totals=words.sum(axis=0), class_counts=counts, t=state.t + s.weight)
