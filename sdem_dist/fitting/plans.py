"""The lanes and rounds of a run, the weights of documents and classes, and stages with which many fits begin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from sdem_dist.corpus import Corpus, MemoryCorpus
from sdem_dist.documents import Documents
from sdem_dist.engine.executor import default_blocks
from sdem_dist.engine.plan import Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.families import Family
from sdem_dist.fitting import defaults
from sdem_dist.inputs.spec import Source, Weigh
from sdem_dist.inputs.validation import seed_of, some
from sdem_dist.learners import rules, surveys
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models import feature_classes, features, heads
from sdem_dist.models.em import EmForm
from sdem_dist.models.naive_bayes import NaiveBayes, pseudo_count
from sdem_dist.models.weighting import Weighting
from sdem_dist.models.word_counts import SdemState


def lanes_of(n_documents: int, least: int, most: int = defaults.MAX_LANES) -> int:
    """Return the number of lanes with at least `least` documents each, between 1 and `most`."""
    return max(1, min(most, n_documents // least))


def one_pass(estimator: Any, source: Source) -> Plan:
    """Return the plan of one pass over all documents, in lanes that only add statistics."""
    n = source.n_documents
    return Plan(n, 1, 1, lanes_of(n, defaults.PASS_DOCUMENTS), seed_of(estimator.random_state))


def sequential(
    n_documents: int, n_epochs: int, seed: int, lanes: int | None = None, rounds: int | None = None, least: int = 1
) -> Plan:
    """Return the plan of lanes with sequential steps, merged after each of growing rounds; at least `least` lanes."""
    if lanes is None and n_documents > defaults.ONE_LANE_DOCUMENTS:
        lanes = defaults.STEP_LANES  # doubled: tasks hold powers of two of lanes, so that all tasks are equal
        while lanes * defaults.MAX_LANE_DOCUMENTS < n_documents // defaults.ROUNDS:
            lanes *= 2
    lanes = lanes or least
    if rounds is None:
        rounds = 1 if lanes == 1 else max(1, min(defaults.ROUNDS, n_documents // (2 * lanes)))
    n_first = n_documents // rounds // max(defaults.FIRST_ROUND_DOCUMENTS, lanes)  # small rounds in place of the first
    growth = max(0, n_first.bit_length() - 1) if lanes > 1 else 0
    return Plan(n_documents, n_epochs, rounds, lanes, seed, growth)


def batches(
    n_documents: int, n_epochs: int, seed: int, batch: int, lanes: int | None, least: int = defaults.SUM_TASK_DOCUMENTS
) -> Plan:
    """Return the plan of a run with one step per round, computed from `batch` documents, which lanes share."""
    batch = min(batch, n_documents)
    lanes = lanes or min(defaults.MAX_LANES, -(-batch // least))
    return Plan(n_documents, n_epochs, -(-n_documents // batch), lanes, seed)


def plan_of_steps(estimator: Any, n_documents: int, n_epochs: int, seed: int, least: int = 1) -> Plan:
    """Return the plan for a discriminative loss, from an estimator's parameters of lanes; `least`: see `sequential`."""
    if estimator.merge == "sum":
        batch = estimator.batch_size or defaults.SUM_BATCH
        return batches(n_documents, n_epochs, seed, batch, estimator.n_lanes)
    return sequential(n_documents, n_epochs, seed, estimator.n_lanes, estimator.rounds_per_epoch, least)


def blocks_of(n_features: int, n_columns: int, n_blocks: int | None = None) -> int:
    """Return the number of blocks of the vocabulary in which a table of float64 is merged and updated."""
    return min(n_blocks or default_blocks(8 * n_features * n_columns), n_features)


def with_frequencies(source: Source, weighting: Weighting) -> Source:
    weights = source.corpus.weights
    # Documents of weight 0, such as the held-out fold, are not counted.
    n_documents = source.n_documents if weights is None else int(np.count_nonzero(weights))
    return replace(source, weighting=weighting).weighed_by(source.corpus, n_documents)


def sample(source: Source) -> Documents:
    """Return the first documents of a source, weighted; a corpus stores documents in random order."""
    return cast(Documents, source.documents.read(0, min(defaults.SAMPLE_DOCUMENTS, source.n_documents)))


def is_unnormalised(source: Source) -> bool:
    """Return whether documents are counts that are not scaled to a length."""
    return not source.weighted and (source.weighting is None or not source.weighting.norm > 0)


def fixed_log_prior(estimator: Any, n_classes: int) -> tuple[float, ...] | None:
    """Return ln p(y) from `class_prior` and `fit_prior`, checked; None if it is learned."""
    class_prior = getattr(estimator, "priors", getattr(estimator, "class_prior", None))
    if class_prior is None:
        return None if getattr(estimator, "fit_prior", True) else (-float(np.log(n_classes)),) * n_classes
    prior = np.asarray(class_prior, np.float64)
    if prior.shape != (n_classes,):
        raise ValueError(f"Number of priors must match number of classes: got {prior.size} for {n_classes} classes")
    if not ((prior >= 0).all() and np.isclose(prior.sum(), 1.0)):
        raise ValueError(f"The priors should be nonnegative and sum to 1, got {prior.tolist()}")
    with np.errstate(divide="ignore"):
        return tuple(np.log(prior).tolist())


def weights_of_classes(estimator: Any, source: Source) -> tuple[float, ...] | None:
    """Return the weight of a document of each class, from `class_weight` as in scikit-learn; None without it."""
    class_weight, counts = getattr(estimator, "class_weight", None), np.asarray(source.class_counts, np.float64)
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        return tuple((counts.sum() / (len(counts) * np.maximum(counts, 1.0))).tolist())
    if not (isinstance(class_weight, Mapping) and all(0.0 <= w < np.inf for w in class_weight.values())):
        raise ValueError(f"class_weight must be a dict of numbers >= 0, 'balanced' or None, got {class_weight!r}")
    classes = source.classes.tolist()
    if unknown := set(class_weight) - set(classes):
        raise ValueError(f"class_weight has unknown classes {sorted(unknown, key=str)}; known: {some(source.classes)}")
    weights = np.array([class_weight.get(c, 1.0) for c in classes], np.float64)
    if not (weighed := float(weights @ counts)) > 0:
        raise ValueError("class_weight gives all documents a weight of 0")
    # If only relative weights matter to a loss, their mean over documents is 1, as for weights of documents.
    if estimator._weights_are_relative:
        weights *= counts.sum() / weighed
    return tuple(weights.tolist())


@dataclass(frozen=True)
class PriorStart:
    """mu_0 of words, which each process computes from the document frequencies of the corpus."""

    model: NaiveBayes
    corpus: Corpus | MemoryCorpus
    weighting: Weighting | None = None
    words: list[str] | None = None  # if the weighting selects n-grams and no corpus on disk stores the words

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "prior"}

    @cached_property
    def prior(self) -> np.ndarray:
        """Pseudo-counts, shape (n_features,)."""
        frequency, weighting = self.corpus.document_frequency, self.weighting
        power = defaults.PRIOR_POWERS.get("" if weighting is None else weighting.form, defaults.PRIOR_POWER)
        prior = self.model.alpha * np.maximum(frequency, 1.0) ** power
        if weighting is not None and weighting.chooses:
            factors = Weigh(weighting, self.corpus, self.words).factors
            prior[factors == 0.0] = pseudo_count(0.0, self.model.n_features)  # adds nothing to class totals
        return prior

    def block(self, block: int, n_blocks: int) -> SdemState:
        first, last = self.model.bounds(block, n_blocks)
        return self.model.start_at(self.prior[first:last])


def em_of(estimator: Any, source: Source) -> tuple[EmForm, Plan, Plan]:
    """Return the form of an estimator's EM, the plan of one pass, and the plan of EM (a round per pass or batch)."""
    if estimator.annealing > 1 and estimator.em == "hard":
        raise ValueError("annealing has no effect with em='hard': set it to 1")
    if estimator.em == "variational":
        if getattr(estimator, "weight_alpha", 1) == 0:
            raise ValueError("em='variational' needs a prior: weight_alpha must be positive")
        kinds: Any = estimator._kinds_of(source.n_features).keys() - {"gaussian", "exponential", "multinomial"}
        without = any(isinstance(k, str) or type(k).posterior_of_theta is Family.posterior_of_theta for k in kinds)
        if without or getattr(estimator, "covariance_type", "") == "full":
            problem = "em='variational' needs gaussian (diag), exponential or multinomial components"
            raise ValueError(f"{problem}, or families with the method posterior_of_theta: use em='soft'")
    step = float(estimator.em_step or defaults.GENERALISED_EM_STEP) if estimator.em == "generalised" else 1.0
    plan = replace(once := one_pass(estimator, source), n_epochs=estimator.n_epochs)
    if estimator.em == "online":
        batch = estimator.batch_size or defaults.ONLINE_EM_BATCH
        plan = replace(plan, n_rounds=max(1, -(-plan.n_documents // batch)), n_lanes=1)
    return EmForm(estimator.em, step, float(estimator.annealing)), once, plan


def surveyed(
    trainer: Trainer, source: Source, plan: Plan, n_examples: int, name: str = "survey", **options: Any
) -> surveys.SurveyResult:
    """Run the stage that draws examples and sums rows, and return its result."""
    survey = surveys.Survey(source.n_features, max(1, len(source.classes)), n_examples, seed=plan.seed, **options)
    return trainer.run(Stage(name, survey, plan)).state


def drawn_documents(corpus: Any, survey: surveys.SurveyResult) -> Any:
    """Return the documents that a survey without classes has drawn, in the order of the corpus."""
    rows = np.sort(survey.positions[np.isfinite(survey.keys)].astype(np.int64))
    return corpus._with(rows=rows if corpus.rows is None else corpus.rows[rows], packed_mask=None).read(0, len(rows))


def mixture(
    estimator: Any, trainer: Trainer, source: Source, once: Plan, numbers: Sequence[int], form: EmForm, **options: Any
) -> SdEM[Any]:
    """Return the EM learner of a mixture; `numbers` holds the components per class (one class without labels)."""
    shared = getattr(estimator, "shared", False)
    head = heads.Classes(len(numbers), tuple(np.repeat(np.arange(len(numbers)), numbers).tolist()), shared)
    alpha, class_alpha = float(estimator.alpha), float(getattr(estimator, "weight_alpha", 1))
    model: Any = NaiveBayes(source.n_features, head, pseudo_count(alpha, 0), class_alpha)
    if of_table := estimator._layout == "dense":
        columns = trainer.run(Stage("columns", surveys.Columns(source.n_features, weighted=True), once)).state
        blocks = estimator._blocks(columns, prior=alpha, offset=float(getattr(estimator, "offset", 0.0)))
        model = feature_classes.FeatureClasses(features.FeatureModel(blocks), head)
    return SdEM(model, source.weight, rules.ClosedForm(form, monitored=of_table), seed=once.seed, **options)
