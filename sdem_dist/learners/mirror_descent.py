"""The rule of BP-sLDA and BP-LDA: mirror steps of topics, gradient steps of U (Chen et al. 2015, Algorithm 2)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdem_dist.errors import TrainingError
from sdem_dist.kernels import topic_steps
from sdem_dist.learners.sdem import At, SdEM
from sdem_dist.models.topics import TopicState, TopicStatistics, on_the_simplex, renewed
from sdem_dist.models.word_counts import LocalDocuments
from sdem_dist.records import record

SETTLING = 1 / 3
"""Share of the run before a prior is learned: while topics are alike, every document seems to have all of them."""


@record
@dataclass(frozen=True)
class MirrorSteps:
    """Steps of a few documents each; the model is the running mean of its parameters over batches.

    `topic_rate`, `output_rate`: mu_0 and mu_u of Algorithm 2; both fall linearly to 0. mu_0 is the share by which a
    step changes the probabilities of common words, see `sdem_dist.kernels.topic_steps.step_topics`.
    `n_epochs`: where they are 0. `average_from`: epoch, from 0, with which the running mean begins.
    `local`: lanes run Algorithm 2, and their parameters are averaged. Otherwise a round is one batch.
    `batch_size`: documents of a batch inside a lane.
    """

    topic_rate: float = 0.05
    output_rate: float = 3.0
    n_epochs: int = 4
    average_from: int = 1
    local: bool = True
    batch_size: int = 100

    cache_key = "topics"

    def map(self, sdem: SdEM[Any], state: TopicState, batch: LocalDocuments, at: At) -> Any:
        if not self.local:
            return sdem.model.gradients(state, batch, sdem.n_documents)
        n, averaging = batch.documents.n_documents, at.lane.epoch >= self.average_from
        prior, end = (sdem.model.beta - 1.0) / sdem.n_documents, float(self.n_epochs * sdem.n_documents)
        rates = topic_steps.Rates(
            self.batch_size, float(self.topic_rate), float(self.output_rate), prior, float(at.scale(n)), end
        )
        return sdem.model.run(state, batch, at.order(n), rates, averaging, sdem.n_documents)

    def step(self, sdem: SdEM[Any], state: TopicState, statistics: TopicStatistics) -> TopicState:
        """Merge the lanes of a round into the next parameters.

        Raises TrainingError: U runs away.
        """
        new = _mean(state, statistics) if self.local else self._batch_step(sdem, state, statistics)
        remaining = self._remaining(sdem, state, statistics)
        if statistics.evidence.size and remaining < 1.0 - SETTLING:
            new = new._replace(alpha=renewed(state.alpha, statistics.evidence, remaining))
        largest = float(np.abs(new.output).max(initial=0.0))
        if not largest <= sdem.head.runaway:
            raise TrainingError(
                f"training diverged: after {new.seen:,.0f} documents by weight an entry of U is {largest:.3g}; lower "
                f"output_rate ({self.output_rate:g}) or gamma ({sdem.head.gamma:g}), whose product is the step"
            )
        return new

    def _remaining(self, sdem: SdEM[Any], state: TopicState, s: TopicStatistics) -> float:
        return max(1.0 - (state.seen + 0.5 * s.weight) / (self.n_epochs * sdem.n_documents), 0.0)

    def _batch_step(self, sdem: SdEM[Any], state: TopicState, s: TopicStatistics) -> TopicState:
        topics, squares, t = state.topics.copy(), state.squares.copy(), state.t + 1.0
        remaining = self._remaining(sdem, state, s)
        rows, words = topics[s.words], np.arange(len(s.words))
        totals, prior = np.ones(sdem.model.n_topics), (sdem.model.beta - 1.0) / sdem.n_documents
        rate = self.topic_rate * remaining
        topic_steps.step_topics(rows, totals, words, s.rows.copy(), s.weight, squares, t, rate, prior)
        topics[s.words] = rows
        topics = on_the_simplex(topics)
        output = state.output - self.output_rate * remaining / (s.labelled or 1.0) * s.output
        new = state._replace(topics=topics, output=output, squares=squares, t=t, seen=state.seen + s.weight)
        if state.seen < self.average_from * sdem.n_documents:
            return new
        n = state.n_averaged + 1.0
        mean_topics, mean_output = (
            mean + (value - mean) / n for mean, value in ((state.mean_topics, topics), (state.mean_output, output))
        )
        return new._replace(mean_topics=mean_topics, mean_output=mean_output, n_averaged=n)


def _mean(state: TopicState, s: TopicStatistics) -> TopicState:
    """Average the lanes' parameters, sums of squares, batches and sums over batches, by their documents."""
    topics = state.topics * (s.decay / s.weight)
    topics[s.words] += s.rows / s.weight
    mean_topics, mean_output, n = state.mean_topics, state.mean_output, s.n_averaged / s.weight
    total = state.n_averaged + n
    if n:
        sums = state.topics * (s.mean_decay / s.weight)
        sums[s.words] += s.mean_rows / s.weight
        mean_topics = (state.n_averaged * mean_topics + sums) / total
        mean_output = (state.n_averaged * mean_output + s.mean_output / s.weight) / total
    return TopicState(
        topics=on_the_simplex(topics),
        output=s.output / s.weight,
        squares=s.squares / s.weight,
        t=s.t / s.weight,
        seen=state.seen + s.weight,
        mean_topics=mean_topics,
        mean_output=mean_output,
        n_averaged=total,
        alpha=state.alpha,
    )
