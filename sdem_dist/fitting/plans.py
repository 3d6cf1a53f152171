"""How many lanes and rounds a run has; the weights of counts in training, and the prior that training starts at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.engine.executor import default_blocks
from sdem_dist.engine.plan import Plan
from sdem_dist.fitting import defaults
from sdem_dist.inputs.validation import seed_of
from sdem_dist.models.naive_bayes import NaiveBayes, pseudo_count
from sdem_dist.models.weighting import Weighting
from sdem_dist.models.word_counts import SdemState

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus, MemoryCorpus
    from sdem_dist.inputs.spec import Source


def lanes_of(n_documents: int, least: int, most: int = defaults.MAX_LANES) -> int:
    """Return how many lanes of `least` documents or more there are, at most `most`."""
    return max(1, min(most, n_documents // least))


def one_pass(estimator: Any, source: Source) -> Plan:
    """Return the plan of an estimator's pass over all documents in lanes that only share the work."""
    n = source.n_documents
    return Plan(n, 1, 1, lanes_of(n, defaults.PASS_DOCUMENTS), seed_of(estimator.random_state))


def default_lanes(n_documents: int, n_rounds: int) -> int:
    """Return the number of lanes that each run through their documents: one where documents are few."""
    if n_documents <= defaults.ONE_LANE_DOCUMENTS:
        return 1
    lanes = defaults.STEP_LANES  # doubled, so that lanes can be dealt out evenly: tasks have powers of two of them
    while lanes * defaults.MAX_LANE_DOCUMENTS < n_documents // n_rounds:
        lanes *= 2
    return lanes


def sequential(n_documents: int, n_epochs: int, seed: int, lanes: int | None = None, rounds: int | None = None) -> Plan:
    """Return the plan of lanes that each run through their documents and are merged, in rounds that grow."""
    lanes = lanes or default_lanes(n_documents, defaults.ROUNDS)
    if rounds is None:
        rounds = 1 if lanes == 1 else max(1, min(defaults.ROUNDS, n_documents // (2 * lanes)))
    growth = 0
    while lanes > 1 and (n_documents // rounds) >> (growth + 1) >= max(defaults.FIRST_ROUND_DOCUMENTS, lanes):
        growth += 1
    return Plan(n_documents, n_epochs, rounds, lanes, seed, growth)


def batches(
    n_documents: int, n_epochs: int, seed: int, batch: int, lanes: int | None, least: int = defaults.SUM_TASK_DOCUMENTS
) -> Plan:
    """Return the plan of a run that takes one step per round, of `batch` documents that lanes share out."""
    batch = min(batch, n_documents)
    lanes = lanes or min(defaults.MAX_LANES, -(-batch // least))
    return Plan(n_documents, n_epochs, -(-n_documents // batch), lanes, seed)


def plan_of_steps(estimator: Any, n_documents: int, n_epochs: int, seed: int) -> Plan:
    """Return the plan of a run of a discriminative loss, by the parameters of lanes."""
    if estimator.merge == "sum":
        batch = estimator.batch_size or defaults.SUM_BATCH
        return batches(n_documents, n_epochs, seed, batch, estimator.n_lanes)
    return sequential(n_documents, n_epochs, seed, estimator.n_lanes, estimator.rounds_per_epoch)


def blocks_of(n_features: int, n_columns: int, n_blocks: int | None = None) -> int:
    """Return in how many blocks of the vocabulary a table of float64 is merged and updated."""
    return min(n_blocks or default_blocks(8 * n_features * n_columns), n_features)


def with_frequencies(source: Source, weighting: Weighting) -> Source:
    weights = source.corpus.weights
    # Documents of weight 0, which those outside of a fold have, count nowhere.
    n_documents = source.n_documents if weights is None else int(np.count_nonzero(weights))
    return replace(source, weighting=weighting).weighed_by(source.corpus, n_documents)


def sample(source: Source) -> Documents:
    """Return the first documents of a source, as they are weighed: those of a corpus are in random order."""
    return cast("Documents", source.documents.read(0, min(defaults.SAMPLE_DOCUMENTS, source.n_documents)))


def fixed_log_prior(class_prior: object, fit_prior: bool, n_classes: int) -> tuple[float, ...] | None:
    """Return ln p(y) from the parameters of that name, checked; None if it is to be learnt."""
    if class_prior is None:
        return None if fit_prior else (-float(np.log(n_classes)),) * n_classes
    prior = np.asarray(class_prior, np.float64)
    if prior.shape != (n_classes,):
        raise ValueError(f"Number of priors must match number of classes: {prior.size} for {n_classes}")
    if not (np.isfinite(prior).all() and (prior >= 0).all()):
        raise ValueError(f"class_prior must be made of finite numbers, none negative, got {prior.tolist()}")
    if not np.isclose(prior.sum(), 1.0):
        raise ValueError(f"The sum of the priors should be 1, and is {prior.sum():.6g}: {prior.tolist()}")
    with np.errstate(divide="ignore"):
        return tuple(np.log(prior).tolist())


def weights_of_classes(estimator: Any, source: Source) -> tuple[float, ...] | None:
    """Return the weights of the classes' documents, as scikit-learn understands `class_weight`."""
    class_weight, counts = estimator.class_weight, np.asarray(source.class_counts, np.float64)
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        return tuple((counts.sum() / (len(counts) * np.maximum(counts, 1.0))).tolist())
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be a dict, 'balanced' or None, got {class_weight!r}")
    if not all(np.isfinite(w) and w >= 0 for w in class_weight.values()):
        raise ValueError(f"class_weight must be made of finite numbers, none negative, got {class_weight!r}")
    classes = source.classes.tolist()
    if unknown := set(class_weight) - set(classes):
        raise ValueError(f"class_weight names classes that do not exist: {sorted(unknown, key=str)}")
    weights = np.array([class_weight.get(c, 1.0) for c in classes], np.float64)
    weighed = float(weights @ counts)
    # Where a loss has no scale of counts, they get the mean 1 over the documents, as weights of documents do.
    if estimator._weights_are_relative and weighed > 0:
        weights *= counts.sum() / weighed
    return tuple(weights.tolist())


@dataclass(frozen=True)
class PriorStart:
    """mu_0 of words, which every process makes for itself from the corpus's document frequencies."""

    model: NaiveBayes
    corpus: Corpus | MemoryCorpus
    weighting: Weighting | None = None
    words: list[str] | None = None  # where the weighting chooses among n-grams and no corpus on disk has them

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "prior"}

    @cached_property
    def prior(self) -> np.ndarray:
        """Pseudo-counts, shape (n_features,)."""
        frequency, weighting = self.corpus.document_frequency, self.weighting
        power = defaults.PRIOR_POWERS.get("" if weighting is None else weighting.form, defaults.PRIOR_POWER)
        prior = self.model.alpha * np.maximum(frequency, 1.0) ** power
        if weighting is not None and weighting.chooses:
            words = self.words
            if words is None and weighting.orders is not None:
                words = self.corpus.vocabulary()
            # A column that is left out adds nothing to the classes' totals.
            prior[weighting.factors(frequency, words) == 0.0] = pseudo_count(0.0, self.model.n_features)
        return prior

    def block(self, block: int, n_blocks: int) -> SdemState:
        first, last = self.model.bounds(block, n_blocks)
        return self.model.start_at(self.prior[first:last])
