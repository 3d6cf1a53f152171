"""Rules for expectation parameters: closed forms, merged lanes, step sizes, mirror steps, multiplicative updates."""

from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from sdem_dist.errors import TrainingError
from sdem_dist.kernels import topic_steps
from sdem_dist.kernels.csr import weighed_squares
from sdem_dist.kernels.losses import Objective, Schedule
from sdem_dist.kernels.multinomial import add_changes, damped_changes, shifts
from sdem_dist.kernels.rows import column_sums
from sdem_dist.learners.sdem import At, SdEM
from sdem_dist.losses import kernel_form, named
from sdem_dist.models.em import EXACT, EmForm
from sdem_dist.models.heads import Labels, Unit
from sdem_dist.models.mixture import MixtureSums, MixtureWeights, MultiplicativeState, SortedDocuments, multiplied
from sdem_dist.models.topics import TopicState, TopicStatistics, on_the_simplex, renewed
from sdem_dist.models.word_counts import LocalDocuments, SdemState, SdemStatistics
from sdem_dist.records import record

STEPS = {"hinge": 0.2, "ncll": 1.0}  # c by loss; chosen by choose_defaults.py, in git alone (RESULTS.md)
STEP_OF_COUNTS = 3.0  # c if documents keep their lengths: long documents raise the mean, which shortens typical steps
LEAST_COUNT = 1e-3  # least expected count of a word or a class, as a share of its prior
DECAY = 1e-5  # lambda of Masegosa 2014, section 4.1: after 100,000 documents steps are half as long
ROUNDING = 1e-9  # relative rise of the objective that EM tolerates as rounding
DAMPING = 30.0  # damping of words: the larger, the sooner a word's changes are averaged over lanes instead of added
MEAN_DAMPING = 100.0  # the same for the scores of the mean document, which all lanes correct in the same way
LEAST_ENTRY = 1e-6  # replaces a count of 0 when logarithms are compared
SETTLING = 1 / 3  # share of the run before a prior is learned: early topics are alike, and seem to be in every document
FACTOR_GROWTH = 1.2  # factor of the exponents after a pass in which the likelihood did not fall
LARGEST_OF_WEIGHTS = 1.9  # largest factor of W's exponent, which is already near 1
WEIGHTS_SHARE = 0.1  # c / eta of joint updates: W has the exponent c / (eta + c)
LIKELIHOOD_ROUNDING = 1e-12  # tolerated fall per document; more if logits are large or float32


@record
class StepSizes:
    """``rho = start / (1 + decay t)`` after t documents."""

    start: float = 1.0  # rho_0
    class_start: float = 1.0  # rho_0 of class counts
    decay: float = 0.0  # lambda
    # True: with each document the prior adds ``alpha rho / n`` to every count. False: the prior only sets the start.
    correction: bool = False
    correct_from: float = 0.0  # the correction ignores this many first documents: the start contains their prior
    floor: float = LEAST_COUNT  # least expected count of a word (the check)
    class_floor: float = LEAST_COUNT
    mean_square: float = 0.0  # mean squared length: longer documents take steps of this length only; 0: no limit

    def of_lane(self, model: Any, n_documents: float, corpus_scale: float) -> Schedule:
        """Return the schedule for kernels; a document of the lane stands for `corpus_scale` documents of the corpus."""
        gain = 1.0 / n_documents if self.correction else 0.0
        gains, floors = (gain * model.alpha, gain * model.class_alpha), (self.floor, self.class_floor)
        steps = self.start, self.class_start, self.decay
        return Schedule(*steps, *gains, float(corpus_scale), *floors, self.mean_square)


def paper_steps(decay: float = DECAY) -> StepSizes:
    """Return the step sizes of Masegosa 2014, section 4.1; `decay` is lambda."""
    return StepSizes(decay=decay, correction=True, floor=0.0, class_floor=0.0)


def margin_steps(step: float, unit: Unit, alpha: float, class_alpha: float, decay: float = DECAY) -> StepSizes:
    """Return steps, the first of which raises the label's lead over a rival by `step` (c; 2 c with the hinge loss).

    A step rho moves the natural parameters of a document's words by ``rho x / mu``, and thus its score by ``rho sum_j
    x_j^2 / mu_j``, less the effect of the normalisation by totals. The mean of this over documents (for rho = 1) is
    `unit`, and rho_0 is the step divided by `unit`. Then rho falls with the number of documents, as in the paper.
    """
    start, class_start = step / (unit.margin or 1.0), step * class_alpha / (unit.mean_square or 1.0)
    floors = LEAST_COUNT * alpha, LEAST_COUNT * class_alpha
    return StepSizes(start, class_start, decay, False, 0.0, *floors, unit.mean_square)


@record
class ClosedForm:
    """Maximisation in closed form: a round over all documents is an iteration of EM, in the given form."""

    form: EmForm = EXACT
    complete: bool = False  # documents are counted by label: one round is the fit; later rounds add their counts
    monitored: bool = False  # compute the objective, record it in the state, and raise if it gets worse
    local: ClassVar[bool] = False

    def map(self, sdem: SdEM[Any], state: Any, batch: Any, at: At) -> Any:
        if self.complete:
            return sdem.model.complete(batch)
        return sdem.model.posterior(state, batch, self.form, at, sdem.unlabelled_weight)

    def step(self, sdem: SdEM[Any], state: Any, s: Any) -> Any:
        """Return the next mu (M-step); TrainingError if the objective rose."""
        model, n = sdem.model, sdem.n_documents
        if not s.class_counts.any():  # no document contributes
            return state
        if self.complete:
            return model.counted(state, s, n)
        new = model.maximum(state, s, n, self.form)
        if not (self.monitored and self.form.rises):
            return new
        objective = model.em_objective(state, s, self.form.kind == "variational")
        rise = objective - state.best_objective
        if not np.isfinite(objective) or rise > ROUNDING * max(1.0, abs(objective)):
            raise TrainingError(
                f"the EM objective got worse, from {state.best_objective:.17g} to {objective:.17g} per document, after "
                f"{state.t:g} documents, because of rounding errors: drop collinear columns, or increase alpha"
            )
        return new._replace(best_counts=state.class_counts, best_mu=state.mu, best_objective=objective)


@record
class Merge:
    """Steps for tables of words, with a merge of lanes after each round (Masegosa 2014, Algorithms 1 to 7)."""

    steps: StepSizes = field(default_factory=StepSizes)
    # True: lanes run Algorithm 2 from the broadcast mu, and their changes are merged. False: one step per round with
    # the sums of all documents at the broadcast theta, merged as if each document were a lane.
    local: bool = True
    tolerance: float = 0.0  # documents take no step unless their largest loss weight exceeds this

    def map(self, sdem: SdEM[Any], state: SdemState, batch: LocalDocuments, at: At) -> SdemStatistics:
        # Documents without a label take no step: there is no rival to their class.
        local = batch._replace(weights=np.where(batch.labels < 0, 0.0, batch.weights))
        model, data, n = sdem.model, local.documents.data, local.documents.n_documents
        if not self.local:
            # Each document steps from the broadcast theta, like a lane of one document: n_lanes is their weight.
            weights = local.weights
            if self.steps.mean_square:
                d, ones = local.documents, np.ones(len(local.words))
                squares = weighed_squares(data, d.indices, d.indptr, ones)[0]
                longest = np.where(squares > 0, squares, self.steps.mean_square)
                weights = weights * np.minimum(1.0, self.steps.mean_square / longest)
            documents = local._replace(weights=weights)
            sums: SdemStatistics = model.expected(state, documents, named(sdem.loss), at.keys(n), self.tolerance)
            met, entries = local.sums_of_words(np.ones(len(data), np.uint8)), local.sums_of_words(data)
            return sums._replace(met=met, entries=entries, weight=local.weight, n_lanes=local.weight)
        schedule = self.steps.of_lane(model, sdem.n_documents, at.scale(n))
        form = kernel_form(sdem.loss, 2 if isinstance(model.head, Labels) else model.n_classes)
        components = model.head.component_class
        objective = Objective(form, self.tolerance, np.array(components) if components else None)
        changes, counts, end = model.run(state, local, at, schedule, objective)
        met, entries = np.zeros((2, len(changes)))
        if at.lane.round_documents > n:  # a round of one lane needs no merge
            moved = np.abs(changes) @ np.ones(changes.shape[1], changes.dtype)  # ten times as fast as any()
            met, entries = (moved > 0.0).astype(np.float64), local.sums_of_words(data)
        gammas, weight = (end.gamma - state.gamma, end.class_gamma - state.class_gamma), local.weight
        return SdemStatistics(local.words, changes, met, entries, counts, *gammas, weight, float(weight > 0))

    def step(self, sdem: SdEM[Any], state: SdemState, lanes: SdemStatistics) -> SdemState:
        """Return the counts after a round (Algorithm 1): merged from lanes if `local`, or after a step with sums."""
        steps, model = self.steps, sdem.model
        if not self.local:
            rho = steps.start / (1.0 + steps.decay * (state.t + lanes.weight))
            share = steps.class_start / steps.start
            lanes = lanes._replace(rows=rho * lanes.rows, class_counts=share * rho * lanes.class_counts)
            if steps.correction:  # a step of Algorithm 1, without damping
                since = max(min(lanes.weight, state.t + lanes.weight - steps.correct_from), 0.0)
                gain = rho * since / sdem.n_documents
                lanes = lanes._replace(gamma=model.alpha * gain, class_gamma=model.class_alpha * gain, n_lanes=1.0)
        return merged(state, lanes, steps.floor, steps.class_floor)


@record
class AddSteps:
    """Steps for sparse counts of very many classes, with the hinge loss; lanes are summed, so one per round is best."""

    steps: StepSizes = field(default_factory=StepSizes)
    local: ClassVar[bool] = True

    def map(self, sdem: SdEM[Any], state: Any, batch: Any, at: At) -> Any:
        n = len(batch.weights)
        schedule = self.steps.of_lane(sdem.model, sdem.n_documents, at.scale(n))
        return sdem.model.run(state, batch, at.order(n), schedule)

    def step(self, sdem: SdEM[Any], state: Any, s: Any) -> Any:
        return sdem.model.counted(state, s, sdem.n_documents, self.steps.floor, self.steps.class_floor)


def merged(state: SdemState, lanes: SdemStatistics, floor: float, class_floor: float) -> SdemState:
    """Return the counts after merging the changes of lanes that ran in parallel.

    All lanes correct common errors, such as the overall scores of classes: a sum of their changes would repeat such a
    correction once per lane. A rare word is learned by a single lane: a mean would lose it. So each word's change lies
    between the sum and the mean, depending on its size (`damped_changes`). Then multiples of the mean document are
    added until its scores move by between their mean and sum. `floor`, `class_floor`: least counts (the check).
    """
    if not lanes.n_lanes:
        return state
    n, words = max(lanes.n_lanes, 1.0), state.words.copy()
    of_mean, changes, entries = np.zeros(lanes.rows.shape[1]), lanes.rows, np.zeros(len(lanes.words))
    classes = lanes.class_counts
    if n > 1:
        entries, least = lanes.entries / (lanes.weight or 1.0), max(floor, LEAST_ENTRY)
        before = np.maximum(state.words[lanes.words], least)
        in_mean, _ = shifts(before, lanes.rows, of_mean, 1.0 / n, entries, state.totals, least)
        in_sum, _ = shifts(before, lanes.rows, of_mean, 1.0, entries, state.totals, least)
        wanted = in_mean + (in_sum - in_mean) / (1.0 + MEAN_DAMPING * np.abs(in_sum))
        changes = lanes.rows.copy()
        damped_changes(changes, lanes.met, before, DAMPING)
        for _ in range(2):
            moved, slopes = shifts(before, changes, of_mean, 1.0, entries, state.totals, least)
            of_mean += np.where(slopes > 0, (wanted - moved) / np.where(slopes > 0, slopes, 1.0), 0.0)
        share = np.abs(lanes.class_counts) / np.maximum(state.class_counts, 1e-300)
        classes = lanes.class_counts * (1.0 / n + (1.0 - 1.0 / n) / (1.0 + DAMPING * share))
    add_changes(changes.astype(np.float64, copy=False), entries, of_mean, floor, lanes.words, words)
    counts, t = np.maximum(state.class_counts + classes, class_floor), state.t + lanes.weight
    gammas = state.gamma + lanes.gamma / n, state.class_gamma + lanes.class_gamma / n
    return SdemState(words, column_sums(words), counts, *gammas, t)


@record
class MirrorSteps:
    """Mirror steps for topics, gradient steps for U (Chen et al. 2015, Algorithm 2); the running mean predicts."""

    topic_rate: float = 0.05  # mu_0, the relative change of common words' probabilities per step, see `step_topics`
    output_rate: float = 3.0  # mu_u; both rates fall linearly to 0
    n_epochs: int = 4  # epochs after which both rates are 0
    average_from: int = 1  # first epoch (counting from 0) of the running mean
    local: bool = True  # True: lanes run Algorithm 2, and their parameters are averaged; False: a round is one batch
    batch_size: int = 100  # documents per batch inside a lane
    literal: bool = False  # Algorithm 2 as published: rates do not fall, and use the mean square over all words

    def _rates(self, sdem: SdEM[Any], scale: float) -> topic_steps.Rates:
        end, n_words = (np.inf, float(sdem.width)) if self.literal else (float(self.n_epochs * sdem.n_documents), 0.0)
        prior = (sdem.model.beta - 1.0) / sdem.n_documents
        return topic_steps.Rates(self.batch_size, self.topic_rate, self.output_rate, prior, scale, end, n_words)

    def map(self, sdem: SdEM[Any], state: TopicState, batch: LocalDocuments, at: At) -> Any:
        if not self.local:
            return sdem.model.gradients(state, batch, sdem.n_documents)
        n, averaging = batch.documents.n_documents, at.lane.epoch >= self.average_from
        return sdem.model.run(state, batch, at.order(n), self._rates(sdem, at.scale(n)), averaging, sdem.n_documents)

    def step(self, sdem: SdEM[Any], state: TopicState, s: TopicStatistics) -> TopicState:
        """Average the lanes by documents, or step with the sums of a batch; TrainingError if U diverges."""
        rates, seen, alpha = self._rates(sdem, 1.0), state.seen + s.weight, state.alpha
        left = max(1.0 - (state.seen + 0.5 * s.weight) / (self.n_epochs * sdem.n_documents), 0.0)
        remaining = 1.0 if self.literal else left
        mean_topics, mean_output, n_averaged = state.mean_topics, state.mean_output, state.n_averaged
        if self.local:
            topics = state.topics * (s.decay / s.weight)
            topics[s.words] += s.rows / s.weight
            topics, output = on_the_simplex(topics), s.output / s.weight
            squares, t, n = s.squares / s.weight, s.t / s.weight, s.n_averaged / s.weight
            if n:
                sums = state.topics * (s.mean_decay / s.weight)
                sums[s.words] += s.mean_rows / s.weight
                mean_topics = (n_averaged * mean_topics + sums) / (n_averaged + n)
                mean_output = (n_averaged * mean_output + s.mean_output / s.weight) / (n_averaged + n)
            n_averaged += n
        else:
            topics, squares, t = state.topics.copy(), state.squares.copy(), state.t + 1.0
            rows, words, totals = topics[s.words], np.arange(len(s.words)), np.ones(sdem.model.n_topics)
            topic_steps.step_topics(rows, totals, words, s.rows.copy(), s.weight, squares, t, rates, remaining)
            topics[s.words] = rows
            topics = on_the_simplex(topics)
            output = state.output - self.output_rate * remaining / (s.labelled or 1.0) * s.output
            if state.seen >= self.average_from * sdem.n_documents:
                n_averaged += 1.0
                mean_topics = mean_topics + (topics - mean_topics) / n_averaged
                mean_output = mean_output + (output - mean_output) / n_averaged
        if s.evidence.size and left < 1.0 - SETTLING:
            alpha = renewed(alpha, s.evidence, left)
        if not (largest := float(np.abs(output).max(initial=0.0))) <= sdem.head.runaway:
            raise TrainingError(
                f"training diverged: after {seen:,.0f} documents (by weight), U contains {largest:.3g}; reduce "
                f"output_rate ({self.output_rate:g}) or gamma ({sdem.head.gamma:g}), whose product is the step size"
            )
        return TopicState(topics, output, squares, t, seen, mean_topics, mean_output, n_averaged, alpha)


@record
class Multiplicative:
    """Multiplicative updates, which never lower the conditional likelihood (Saul and Lee 2001, section 4)."""

    eta: float  # largest sum of a row of features
    schedule: str = "joint"  # or "alternate": update W and theta in turn, see `multiplied`
    accelerate: bool = True  # exponents grow until the likelihood falls; then the best point gets its plain update
    local: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0.0 < self.eta < np.inf:
            raise ValueError(f"eta must be positive and finite, got {self.eta!r}")

    def map(self, sdem: SdEM[Any], state: MultiplicativeState, batch: SortedDocuments, at: At) -> Any:
        return sdem.model.expected(state, batch)

    def step(self, sdem: SdEM[Any], state: MultiplicativeState, sums: MixtureSums) -> MultiplicativeState:
        """Continue; if the likelihood fell, use the best point's plain update; TrainingError if that update fell."""
        fall, number = state.log_likelihood - sums.log_likelihood, len(state.path) + 1
        rounding = sums.weight * max(LIKELIHOOD_ROUNDING, 16.0 * float(np.finfo(sdem.model.dtype).eps) * sums.largest)
        if not np.isfinite(sums.log_likelihood) or (state.plain and fall > rounding):
            raise TrainingError(
                f"the conditional log-likelihood fell from {state.log_likelihood:.17g} to {sums.log_likelihood:.17g} in "
                f"pass {number}. Features must be finite and nonnegative, and no row may have a sum above eta = {self.eta:.17g}"
            )
        if fall > 0 and not state.plain:
            path = np.append(state.path, state.log_likelihood / sums.weight)
            log_weights, theta = state.plain_log_weights, state.plain_theta
            return state._replace(log_weights=log_weights, theta=theta, factor=1.0, plain=1.0, path=path)
        good = MixtureWeights(state.log_weights, state.theta)
        of_weights = WEIGHTS_SHARE / (1.0 + WEIGHTS_SHARE)
        of_theta = 1.0 / (self.eta * (1.0 + WEIGHTS_SHARE))
        if self.schedule == "alternate":
            of_weights, of_theta = (0.0, 1.0 / self.eta) if state.n_good % 2 else (1.0, 0.0)
        plain = multiplied(good, sums, of_weights, of_theta)
        factor, new = 1.0, plain
        if self.accelerate:
            factor = state.factor * FACTOR_GROWTH
            new = multiplied(good, sums, of_weights * min(factor, LARGEST_OF_WEIGHTS), of_theta * factor)
        path = np.append(state.path, sums.log_likelihood / sums.weight)
        return MultiplicativeState(
            *new, *good, *plain, sums.log_likelihood, factor, float(not self.accelerate), state.n_good + 1.0, path
        )
