"""Rules of other papers: BP-sLDA's mirror steps of topics (Chen et al. 2015), Saul and Lee's multiplicative updates."""

from typing import Any, ClassVar

import numpy as np

from sdem_dist.errors import TrainingError
from sdem_dist.kernels import topic_steps
from sdem_dist.learners.sdem import At, SdEM
from sdem_dist.models.mixture import MixtureSums, MixtureWeights, MultiplicativeState, SortedDocuments, multiplied
from sdem_dist.models.topics import TopicState, TopicStatistics, on_the_simplex, renewed
from sdem_dist.models.word_counts import LocalDocuments
from sdem_dist.records import record

SETTLING = 1 / 3  # share of the run before a prior is learned: alike topics seem to be in every document
GROWTH = 1.2  # factor of the exponents after a pass in which the likelihood did not fall
LARGEST_OF_WEIGHTS = 1.9  # bound of the factor of W's exponent, which is near 1 by itself
WEIGHTS_SHARE = 0.1  # c / eta of joint updates: W has the exponent c / (eta + c)
ROUNDING = 1e-12  # how much the likelihood per document may fall; more where logits are large or their dtype is coarse


@record
class MirrorSteps:
    """Mirror steps of topics, gradient steps of U, of a few documents each (Chen et al. 2015, Algorithm 2).

    The model is the running mean of its parameters over batches.

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

    def map(self, sdem: SdEM[Any], state: TopicState, batch: LocalDocuments, at: At) -> Any:
        if not self.local:
            return sdem.model.gradients(state, batch, sdem.n_documents)
        n, averaging = batch.documents.n_documents, at.lane.epoch >= self.average_from
        prior, end = (sdem.model.beta - 1.0) / sdem.n_documents, float(self.n_epochs * sdem.n_documents)
        rates = topic_steps.Rates(
            self.batch_size, float(self.topic_rate), float(self.output_rate), prior, float(at.scale(n)), end
        )
        return sdem.model.run(state, batch, at.order(n), rates, averaging, sdem.n_documents)

    def step(self, sdem: SdEM[Any], state: TopicState, s: TopicStatistics) -> TopicState:
        """Merge the lanes of a round into the next parameters.

        Raises TrainingError: U runs away.
        """
        remaining = max(1.0 - (state.seen + 0.5 * s.weight) / (self.n_epochs * sdem.n_documents), 0.0)
        new = _mean_of_lanes(state, s) if self.local else self._batch_step(sdem, state, s, remaining)
        if s.evidence.size and remaining < 1.0 - SETTLING:
            new = new._replace(alpha=renewed(state.alpha, s.evidence, remaining))
        largest = float(np.abs(new.output).max(initial=0.0))
        if not largest <= sdem.head.runaway:
            raise TrainingError(
                f"training diverged: after {new.seen:,.0f} documents by weight an entry of U is {largest:.3g}; lower "
                f"output_rate ({self.output_rate:g}) or gamma ({sdem.head.gamma:g}), whose product is the step"
            )
        return new

    def _batch_step(self, sdem: SdEM[Any], state: TopicState, s: TopicStatistics, remaining: float) -> TopicState:
        topics, squares, t = state.topics.copy(), state.squares.copy(), state.t + 1.0
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
        mean_topics = state.mean_topics + (topics - state.mean_topics) / n
        mean_output = state.mean_output + (output - state.mean_output) / n
        return new._replace(mean_topics=mean_topics, mean_output=mean_output, n_averaged=n)


def _mean_of_lanes(state: TopicState, s: TopicStatistics) -> TopicState:
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


@record
class Multiplicative:
    """Multiplicative updates, which cannot lower the conditional likelihood (Saul and Lee 2001, section 4).

    `eta`: largest sum of a row of features.
    `schedule`: "joint" or "alternate": update W and theta together with shared exponents, or in turn, see
    `sdem_dist.models.mixture.multiplied`.
    `accelerate`: multiply the exponents by a factor that grows while the likelihood does not fall; on a fall go to the
    plain update of the best point.
    """

    eta: float
    schedule: str = "joint"
    accelerate: bool = True

    local: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0.0 < self.eta < np.inf:
            raise ValueError(f"eta is a sum of a row, and {self.eta!r} is none")

    def map(self, sdem: SdEM[Any], state: MultiplicativeState, batch: SortedDocuments, at: At) -> Any:
        return sdem.model.expected(state, batch)

    def step(self, sdem: SdEM[Any], state: MultiplicativeState, sums: MixtureSums) -> MultiplicativeState:
        """Keep the point if its likelihood is no lower, and go on from there; else take the plain update of the best.

        Raises TrainingError: the likelihood fell after a plain update, by more than rounding.
        """
        fall, number = state.log_likelihood - sums.log_likelihood, len(state.path) + 1
        rounding = sums.weight * max(ROUNDING, 16.0 * float(np.finfo(sdem.model.dtype).eps) * sums.largest)
        if not np.isfinite(sums.log_likelihood) or (state.plain and fall > rounding):
            raise TrainingError(
                f"the conditional log-likelihood went from {state.log_likelihood:.17g} to {sums.log_likelihood:.17g} in "
                f"pass {number}, which the updates cannot do but by rounding: are the features finite and not negative, "
                f"and is no row's sum above eta = {self.eta:.17g}?"
            )
        if fall > 0 and not state.plain:
            path = np.append(state.path, state.log_likelihood / sums.weight)
            return state._replace(
                log_weights=state.plain_log_weights, theta=state.plain_theta, factor=1.0, plain=1.0, path=path
            )
        good = MixtureWeights(state.log_weights, state.theta)
        of_weights = WEIGHTS_SHARE / (1.0 + WEIGHTS_SHARE)
        of_theta = 1.0 / (self.eta * (1.0 + WEIGHTS_SHARE))
        if self.schedule == "alternate":
            of_weights, of_theta = (0.0, 1.0 / self.eta) if state.n_good % 2 else (1.0, 0.0)
        plain = multiplied(good, sums, of_weights, of_theta)
        factor, new = 1.0, plain
        if self.accelerate:
            factor = state.factor * GROWTH
            new = multiplied(good, sums, of_weights * min(factor, LARGEST_OF_WEIGHTS), of_theta * factor)
        path = np.append(state.path, sums.log_likelihood / sums.weight)
        return MultiplicativeState(
            *new, *good, *plain, sums.log_likelihood, factor, float(not self.accelerate), state.n_good + 1.0, path
        )
