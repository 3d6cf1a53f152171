"""The trainings of `MixtureClassifier`, from its parameters and documents to a learner, its last state and a history."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.byte_cache import prepared_cache
from sdem_dist.corpus.transformed import TransformedCorpus
from sdem_dist.estimators import mixture_settings as settings
from sdem_dist.estimators.fitting import FitOptions, fit_state, run_quietly
from sdem_dist.estimators.gaussian_nb import gaussian_block
from sdem_dist.estimators.mixture_starts import (
    counts_at_examples,
    features_at_examples,
    surveyed,
    weights_at_examples,
    weights_of_features,
)
from sdem_dist.estimators.settings import absence_of, class_weights
from sdem_dist.families import Exponential
from sdem_dist.learners.columns import Columns, ColumnSummary
from sdem_dist.learners.em import WordEm
from sdem_dist.learners.feature_em import FeatureEm
from sdem_dist.learners.feature_sdem import FeatureSdem
from sdem_dist.learners.features import FeatureState, started
from sdem_dist.learners.multiplicative import Multiplicative
from sdem_dist.learners.schedule import PaperSchedule
from sdem_dist.learners.sdem import Sdem
from sdem_dist.losses import NAMED
from sdem_dist.models.feature_classes import FeatureClasses
from sdem_dist.models.features import Block, FeatureModel, Features
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.nonnegative_rows import RowTransform, scale_of

if TYPE_CHECKING:
    from sdem_dist.estimators.inputs import Source

Trained = tuple[Any, Any, list[dict[str, float]]]
"""A learner, its last state, and a history."""
NO_GAPS = "training='multiplicative' has no place for missing values: impute them, or take training='em' or 'sdem'"
NOT_NEGATIVE = (
    "training='multiplicative' takes features that are not negative: shift them, or split each into two parts"
)
START_SHARE = 0.001
"""Share of EM's expected counts that sdEM of counts starts with; a step is a document, and would hardly move all of them."""
EM_EPOCHS_OF_START = 10
"""Iterations of EM before multiplicative updates that start there."""


def multiplicative(estimator: Any, source: Source, options: FitOptions) -> Trained:
    """Run Saul and Lee's updates."""
    e = estimator
    plan = settings.full_passes(e, source, settings.epochs(e))
    once = replace(plan, n_epochs=1)
    owners: tuple[int, ...] = ()
    if e.shared:
        numbers = settings.components_of(e.n_components, source.classes[:1])
    else:
        numbers = settings.components_of(e.n_components, source.classes)
        owners = settings.owners_of(numbers)
    survey = surveyed(e, source, once, options.client, max(numbers), labelled=not e.shared)
    if survey.n_missing or survey.lowest < 0:
        raise ValueError(NO_GAPS if survey.n_missing else NOT_NEGATIVE)
    scale = scale_of(survey.summed_rows / survey.n_documents) if e.scaling == "rows" else 0.0
    transform = RowTransform(scale, bool(e.expand))
    eta = scale or survey.largest_sum
    if e.expand:
        eta = surveyed(e, source, once, options.client, 1, labelled=False, transform=transform).largest_sum
    learner = Multiplicative(
        n_classes=len(source.classes),
        n_components=sum(numbers),
        n_features=transform.n_features(source.n_features),
        eta=(eta or 1.0) * (1.0 + 16.0 * float(np.finfo(e.dtype).eps)),  # sums of rounded rows stay below
        owners=owners,
        transform=transform,
        schedule=e.schedule,
        accelerate=bool(e.accelerate),
        dtype=e.dtype,
        class_weight=class_weights(e.class_weight, source),
    )
    if e.init == "em":
        if e._sparse:
            raise ValueError("init='em' needs a table: pass X dense, or start at examples")
        rows = replace(source, corpus=TransformedCorpus(source.corpus, RowTransform(scale).dense))  # type: ignore[arg-type]
        em, start = _start_of_em(e, rows, options, numbers, "gaussian" if e.expand else "exponential")
        found = run_quietly(em, replace(once, n_epochs=EM_EPOCHS_OF_START), rows, options.client, e.n_jobs, start)
        prepared_cache.discard(lambda key: isinstance(key, tuple) and key[0] == rows.corpus.cache_key)
        weights = weights_of_features(em.model.variables, found.best_mu, found.best_counts + 1.0, owners)
    else:
        weights = weights_at_examples(source, survey, numbers, owners, transform)
    return learner, *fit_state(e, learner, plan, source, options, learner.start(weights))


def of_features(estimator: Any, source: Source, options: FitOptions) -> Trained:
    """Run EM, and sdEM after it, for components over columns of a table."""
    e = estimator
    numbers = settings.components_of(e.n_components, source.classes)
    plan = settings.full_passes(e, source, settings.epochs(e))
    learner, start = _start_of_em(e, source, options, numbers, e.components)
    if e.training == "em":
        return learner, *fit_state(e, learner, plan, source, options, start)
    em = run_quietly(learner, replace(plan, n_epochs=e.n_em_epochs), source, options.client, e.n_jobs, start)
    steps = FeatureSdem(learner.model, source.weight, learner.class_weight, loss=NAMED[e.loss])
    # A component without documents would stop every step of the class counts.
    start = started(em.best_counts + steps.class_alpha, em.best_mu)
    return steps, *fit_state(e, steps, plan, source, options, start)


def _start_of_em(
    e: Any, source: Source, options: FitOptions, numbers: tuple[int, ...], kind: str
) -> tuple[FeatureEm[Features], FeatureState]:
    """Return EM's learner and where it starts."""
    once = settings.full_passes(e, source, 1)
    summary = run_quietly(Columns(source.n_features, weighted=True), once, source, options.client, e.n_jobs)
    model = FeatureModel((_block(e, summary, kind),))
    weights, n_classes = class_weights(e.class_weight, source), len(source.classes)
    generative = FeatureEm(FeatureClasses(model, n_classes), source.weight, weights, complete=True)
    classes = run_quietly(generative, once, source, options.client, e.n_jobs)
    survey = surveyed(e, source, once, options.client, max(numbers))
    owners = settings.owners_of(numbers)
    learner = FeatureEm(
        model=FeatureClasses(model, n_classes, owners),
        n_documents=source.weight,
        class_weight=weights,
        monitored=True,
        hard=e.assignment == "hard",
        em_step=float(e.em_step),
    )
    return learner, features_at_examples(source, survey, numbers, model, classes)


def _block(e: Any, summary: ColumnSummary, kind: str) -> Block:
    columns = np.arange(len(summary.n))
    if kind == "gaussian":
        return gaussian_block(summary, columns, float(e.prior), 0.0)
    shift = e.offset * float(summary.mean.mean())
    scale = np.where(summary.mean + shift > 0, summary.mean + shift, 1.0)
    return Block(Exponential(float(e.prior)), tuple(columns.tolist()), (-shift,) * len(columns), tuple(scale.tolist()))


def of_counts(estimator: Any, source: Source, options: FitOptions) -> Trained:
    """Run EM, and sdEM after it, for multinomial components."""
    e = estimator
    epochs, alpha = settings.epochs(e), float(e.alpha)
    once = settings.full_passes(e, source, 1)
    numbers = settings.components_of(e.n_components, source.classes)
    n_classes, owners = len(source.classes), settings.owners_of(numbers)
    weights = class_weights(e.class_weight, source)
    classes = NaiveBayes(source.n_features, n_classes, alpha)
    naive = WordEm(classes, source.weight, weights)
    words = run_quietly(naive, once, source, options.client, e.n_jobs).words
    survey = surveyed(e, source, once, options.client, max(numbers))
    model = replace(classes, owners=owners)
    learner = WordEm(model, source.weight, weights, once.seed, rule="maximise")
    start = learner.start_at(*counts_at_examples(source, survey, numbers, words))
    if e.training == "em":
        return learner, *fit_state(e, learner, replace(once, n_epochs=epochs), source, options, start)
    em = run_quietly(learner, replace(once, n_epochs=e.n_em_epochs), source, options.client, e.n_jobs, start)
    if e.loss == "nll":
        return learner, *fit_state(e, learner, replace(once, n_epochs=epochs), source, options, em)
    schedule = PaperSchedule(absence=absence_of(e.absence, n_classes, source.weighted))
    words = alpha + START_SHARE * (em.words - alpha)
    start = learner.start_at(words, model.class_alpha + START_SHARE * em.class_counts)
    steps = Sdem(model, source.weight, weights, once.seed, loss=e.loss, schedule=schedule)
    return steps, *fit_state(e, steps, settings.sequential_lanes(e, source, epochs), source, options, start)
