"""Documents without labels beside a discriminative loss: training starts at a generative model of all documents.

EM with hidden classes (Nigam et al. 2000) explains all documents. Its log-odds, times a weight, are where the labelled
ones begin to be told apart. The weight is small: naive Bayes is far too sure, and where it is sure no document asks for a
step. Held-out labelled documents choose it, and the temperature.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from sdem_dist.corpus import DenseMemoryCorpus
from sdem_dist.engine.monitoring import VALIDATION, Monitoring
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import Stage, Stages, state_of, trained
from sdem_dist.fitting import plans
from sdem_dist.fitting.training_time import FEW, FEWEST, MONITOR, share_held_out
from sdem_dist.inputs.spec import Source, Trained, final_stage
from sdem_dist.inputs.weighted import HeldOut
from sdem_dist.learners.em import WordEm
from sdem_dist.learners.sdem import Sdem
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.word_counts import SdemState

WEIGHTS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)
"""Weights that "auto" tries."""
USUAL = 0.003
"""The weight where there are too few labelled documents to choose."""
EM_ALPHA, EM_EPOCHS = 0.1, 10
"""Pseudo-count of a word in EM, and its iterations."""
DRAWS, SHARE = 5, 0.2
"""How often few labelled documents are drawn to be held out, and how many of them."""
_log = logging.getLogger(__name__)


class Choice(NamedTuple):
    """Scores of held-out documents for a weight: means over draws."""

    log_loss: float
    """At the best temperature."""
    weight: float
    log_temperature: float
    accuracy: float


def start_at(initial: SdemState, generative: SdemState, weight: float) -> SdemState:
    """Return a start whose scores are those of a generative model, times a weight, up to a constant of each document.

    Every word's pseudo-counts keep their geometric mean over classes, which steps are in units of.
    """
    log_words = np.log(generative.words) - np.log(generative.totals)
    log_words -= log_words.mean(axis=1, keepdims=True)
    words = initial.words * np.exp(weight * log_words, out=log_words)
    return initial._replace(words=words, totals=words.sum(axis=0))


def trained_with_unlabelled(
    source: Source,
    learner: Sdem[NaiveBayes],
    plan: Plan,
    initial: SdemState,
    weight: float | None,
    share: float,
    calibrate: bool,
) -> Stages[Trained]:
    """Yield EM over all documents, and the training of the labelled ones from there.

    Parameters
    ----------
    source : Source
    learner : Sdem
    plan : Plan
        Of the training.
    initial : SdemState
        Where it would start without documents that have no label.
    weight : float or None
        Of the generative model; None: held-out documents choose.
    share : float
        Of documents to hold out, where they are many; 0: none, and neither weight nor temperature is chosen.
    calibrate : bool
        Whether the model takes the temperature.
    """
    learner, said = replace(learner, n_documents=source.n_labelled), dict[str, float]()
    choice = (yield from _chosen(source, learner, plan, initial, weight, share)) if share else None
    if choice is not None:
        temperature = float(np.exp(choice.log_temperature)) if calibrate else 1.0
        weight, learner = choice.weight, replace(learner, temperature=temperature)
        said = {"held_out_accuracy": choice.accuracy, "held_out_log_loss": choice.log_loss}
    elif weight is None:
        weight = USUAL
    generative = yield from _explained(source, learner, plan)
    start = partial(start_at, initial, generative, weight)
    # By its name a run that is resumed knows whether the weight is still the same.
    found = yield from final_stage(learner, plan, start, f", unlabelled_weight {weight:g}")
    said["unlabelled_weight"] = weight
    return found._replace(history=[*found.history[:-1], {**found.history[-1], **said}])


def _explained(source: Source, learner: Sdem[NaiveBayes], plan: Plan, which: str = "") -> Stages[SdemState]:
    """Yield EM over all documents but those held out."""
    model = replace(learner.model, alpha=EM_ALPHA)
    em = WordEm(model, source.weight, seed=learner.seed, held_out=learner.held_out, rule="maximise")
    lanes = plans.lanes_of(plan.n_documents, plans.SUM_TASK_DOCUMENTS)
    once = replace(plan, n_epochs=EM_EPOCHS, n_rounds=1, n_lanes=lanes, growth=0)
    return (yield from state_of(Stage(f"unlabelled{which}", em, once)))


def _chosen(
    source: Source, learner: Sdem[NaiveBayes], plan: Plan, initial: SdemState, weight: float | None, share: float
) -> Stages[Choice | None]:
    """Yield trainings with each weight, without held-out documents; return the weight of their lowest log-loss."""
    assert not isinstance(source.corpus, DenseMemoryCorpus)
    labelled = source.n_labelled
    many = share_held_out(share, int(labelled), FEW) > 0
    n_draws, share = (1, share_held_out(share, int(labelled))) if many else (DRAWS, SHARE)
    if n_draws * share * labelled < FEWEST:
        return None
    found: dict[float, list[tuple[float, float, float]]] = {}
    for number in range(n_draws):
        which = f" {number + 1} of {n_draws}" if n_draws > 1 else ""
        trial = replace(learner, held_out=share, seed=(learner.seed + (number << 20)) % (1 << 64))
        held_out = source.seen(HeldOut(source.corpus, trial.seed, share))
        watched = Monitoring(plan.n_epochs, held_out, MONITOR, training=False, shown=("accuracy", MONITOR))
        generative = yield from _explained(source, trial, plan, which)
        for one in WEIGHTS if weight is None else (weight,):
            start = partial(start_at, initial, generative, one)
            stage = Stage(f"weight {one:g}{which}", trial, plan, start, monitored=True, monitoring=watched)
            entry = (yield from trained(stage)).history[-1]
            loss, temperature, accuracy = (entry[VALIDATION + m] for m in (MONITOR, "temperature", "accuracy"))
            found.setdefault(one, []).append((loss, float(np.log(temperature)), accuracy))
    choices = []
    for one, values in found.items():
        loss, log_temperature, accuracy = np.mean(values, axis=0).tolist()
        choices.append(Choice(loss, one, log_temperature, accuracy))
        _log.info("unlabelled_weight %g: log-loss of held-out documents %.4g, accuracy %.4g", one, loss, accuracy)
    return min(choices)
