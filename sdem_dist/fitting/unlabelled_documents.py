"""Documents without labels beside a discriminative loss: training starts at a generative model of all documents.

EM with hidden classes (Nigam et al. 2000) explains all documents. Its log-odds, times a weight, are where the labelled
ones begin to be told apart. The weight is small: naive Bayes is far too sure, and where it is sure no document asks for a
step. Held-out labelled documents choose it, and the temperature; in doubt the labelled documents are trained alone.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from sdem_dist.corpus import DenseMemoryCorpus
from sdem_dist.corpus.labelled import Labelled
from sdem_dist.engine.monitoring import VALIDATION, Monitoring
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import Stage, Stages, state_of, trained
from sdem_dist.engine.tasks import CorpusLike
from sdem_dist.fitting import plans
from sdem_dist.fitting.training_time import FEW_EPOCHS, FEWEST, MONITOR
from sdem_dist.inputs.spec import Source, Trained, final_stage
from sdem_dist.inputs.weighted import HeldOut, WeightedCorpus
from sdem_dist.learners.em import WordEm
from sdem_dist.learners.sdem import Sdem
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.word_counts import SdemState

WEIGHTS = (0.001, 0.003, 0.01, 0.03)
"""Weights that "auto" tries, beside labelled documents alone."""
USUAL = 0.003
"""The weight where held-out documents are not to choose."""
EM_ALPHA, EM_EPOCHS = 0.1, 5
"""Pseudo-count of a word in EM, and its iterations."""
DRAWS, SHARE = 5, 0.2
"""How often labelled documents are drawn to be held out, and how many of them."""
_log = logging.getLogger(__name__)


class Choice(NamedTuple):
    """Scores of held-out documents for a weight, shape (n_draws,) each."""

    log_loss: np.ndarray
    """At the best temperature."""
    accuracy: np.ndarray
    temperature: np.ndarray


def start_at(initial: SdemState, generative: SdemState, weight: float) -> SdemState:
    """Return a start whose scores are those of a generative model, times a weight, up to a constant of each document.

    Every word's pseudo-counts keep their geometric mean over classes, which steps are in units of.
    """
    log_words = np.log(generative.words) - np.log(generative.totals)
    log_words -= log_words.mean(axis=1, keepdims=True)
    words = initial.words * np.exp(weight * log_words, out=log_words)
    return initial._replace(words=words, totals=words.sum(axis=0))


def too_few(n_labelled: float) -> bool:
    """Whether labelled documents are too few for some of them to choose a weight: "auto" is 0 then."""
    return DRAWS * SHARE * n_labelled < FEWEST


def labelled_alone(source: Source) -> Source:
    """Return the labelled documents of a source, weighed as if there were no others."""
    assert source.weighting is None or source.trained_on is not None
    corpus = Labelled.of(cast(Any, source.corpus))
    alone = replace(source, corpus=cast(Any, corpus), weight=source.n_labelled)
    if source.weighting is None:
        return alone
    frequency = corpus.document_frequency
    counted = max(corpus.n_documents, int(frequency.max(initial=0)))
    return replace(alone, weighting=replace(source.weighting, n_documents=counted), trained_on=frequency)


def trained_with_unlabelled(
    e: Any, source: Source, learner: Sdem[NaiveBayes], plan: Plan, initial: SdemState
) -> Stages[Trained]:
    """Yield EM over all documents and the training of labelled ones from there; or that of labelled documents alone.

    Parameters
    ----------
    e : MultinomialNB
        It takes note of how documents are weighed where labelled ones are trained alone.
    source : Source
    learner : Sdem
    plan : Plan
        Of the training.
    initial : SdemState
        Where it would start without documents that have no label.
    """
    weight = None if e.unlabelled_weight == "auto" else float(e.unlabelled_weight)
    learner, said = replace(learner, n_documents=source.n_labelled), dict[str, float]()
    plan = replace(plan, n_epochs=FEW_EPOCHS) if e.n_epochs == "auto" else plan
    if e.validation_fraction and (weight is None or (weight and e.calibrate)):
        choice = yield from _chosen(e, source, learner, plan, initial, weight)
        weight = choice[0]
        if weight and choice[1] is not None:
            log_loss, accuracy = float(choice[1].log_loss.mean()), float(choice[1].accuracy.mean())
            temperature = float(choice[1].temperature.mean()) if e.calibrate else 1.0
            learner = replace(learner, temperature=temperature)
            said = {"held_out_accuracy": accuracy, "held_out_log_loss": log_loss}
    elif weight is None:
        weight = USUAL
    if weight == 0.0:
        alone = labelled_alone(source)
        e.weighting_ = alone.weighting
        if alone.weighting is not None:
            e.document_frequency_ = alone.trained_on
        found = yield from _of(alone, e.stages(alone))
    else:
        generative = yield from _explained(source, learner, plan)
        start = partial(start_at, initial, generative, weight)
        # By its name a run that is resumed knows whether the weight is still the same.
        found = yield from final_stage(learner, plan, start, f", unlabelled_weight {weight:g}")
    said["unlabelled_weight"] = weight
    return found._replace(history=[{**entry, **said} for entry in found.history])


def _of(source: Source, stages: Stages[Trained]) -> Stages[Trained]:
    """Yield stages that are of a source, and not of the fit's; validation documents are weighed as they are."""

    def seen(validation: CorpusLike) -> CorpusLike:
        return source.seen(validation.corpus if isinstance(validation, WeightedCorpus) else validation)

    result: Any = None
    while True:
        try:
            stage = stages.send(result)
        except StopIteration as end:
            return cast(Trained, end.value)
        assert isinstance(stage, Stage)
        result = yield replace(stage, corpus=stage.corpus or source.documents, seen=seen)


def _explained(source: Source, learner: Sdem[NaiveBayes], plan: Plan, which: str = "") -> Stages[SdemState]:
    """Yield EM over all documents but those held out."""
    model = replace(learner.model, alpha=EM_ALPHA)
    em = WordEm(model, source.weight, seed=learner.seed, held_out=learner.held_out, rule="maximise")
    lanes = plans.lanes_of(plan.n_documents, plans.SUM_TASK_DOCUMENTS)
    once = replace(plan, n_epochs=EM_EPOCHS, n_rounds=1, n_lanes=lanes, growth=0)
    return (yield from state_of(Stage(f"unlabelled{which}", em, once)))


def _chosen(
    e: Any, source: Source, learner: Sdem[NaiveBayes], plan: Plan, initial: SdemState, weight: float | None
) -> Stages[tuple[float, Choice | None]]:
    """Yield trainings without held-out documents; return the weight that they choose, 0: labelled documents alone."""
    if too_few(source.n_labelled):
        return 0.0 if weight is None else weight, None
    assert not isinstance(source.corpus, DenseMemoryCorpus)
    alone, found = labelled_alone(source), dict[float, list[tuple[float, ...]]]()
    frequency = cast(Labelled, alone.corpus).document_frequency
    its, its_start = e._learner(alone, loss=learner.loss)
    weights = list(WEIGHTS) if weight is None else [weight]
    for number in range(DRAWS):
        which, seed = f" {number + 1} of {DRAWS}", (learner.seed + (number << 20)) % (1 << 64)
        trial = replace(learner, held_out=SHARE, seed=seed)
        generative = yield from _explained(source, trial, plan, which)
        # All read the whole corpus, so that the same documents are held out; one that has no label asks for no step.
        watched = _watched(plan, source.seen(HeldOut(source.corpus, seed, SHARE)))
        for one in weights:
            start = partial(start_at, initial, generative, one)
            stage = Stage(f"weight {one:g}{which}", trial, plan, start, None, True, watched)
            found.setdefault(one, []).append((yield from _scored(stage)))
        if weight is None:
            trial = replace(its, held_out=SHARE, seed=seed)
            watched = _watched(plan, alone.seen(HeldOut(source.corpus, seed, SHARE, frequency)))
            stage = Stage(f"labelled alone{which}", trial, plan, its_start, alone.seen(source.corpus), True, watched)
            found.setdefault(0.0, []).append((yield from _scored(stage)))
        if number:  # halving: those that do badly on two draws are not tried on more
            weights.sort(key=lambda one: sum(loss for loss, *_ in found[one]))
            del weights[(len(weights) + 1) // 2 :]
    choices = {one: Choice(*np.transpose(values)) for one, values in found.items() if len(values) == DRAWS}
    for one, choice in choices.items():
        loss, accuracy = choice.log_loss.mean(), choice.accuracy.mean()
        _log.info("unlabelled_weight %g: log-loss of held-out documents %.4g, accuracy %.4g", one, loss, accuracy)
    taken = better_than_alone(choices) if weight is None else weight
    return taken, choices[taken]


def _watched(plan: Plan, held_out: CorpusLike) -> Monitoring:
    return Monitoring(plan.n_epochs, held_out, MONITOR, training=False, shown=("accuracy", MONITOR))


def _scored(stage: Stage[SdemState, Any, Any]) -> Stages[tuple[float, ...]]:
    """Yield a training; return what `Choice` holds of its held-out documents."""
    entry = (yield from trained(stage)).history[-1]
    return tuple(entry[VALIDATION + m] for m in (MONITOR, "accuracy", "temperature"))


def better_than_alone(choices: dict[float, Choice]) -> float:
    """Return the weight of the lowest log-loss if it is lower than that of labelled documents alone beyond doubt, else 0.

    Beyond doubt: over the draws, the mean of what it is lower by is above its standard error, and accuracy is not lower.
    """
    alone = choices[0.0]
    best = min((one for one in choices if one), key=lambda one: float(choices[one].log_loss.mean()))
    gain = alone.log_loss - choices[best].log_loss
    error = gain.std(ddof=1) / len(gain) ** 0.5
    return best if gain.mean() > error and choices[best].accuracy.mean() >= alone.accuracy.mean() else 0.0
