"""Documents without labels beside a discriminative loss: training starts at a generative model of all documents.

EM with hidden classes (Nigam et al. 2000) explains all documents. Training starts at its log-odds, times a weight. The
weight is small: naive Bayes is far too sure, and where it is sure no document asks for a step, so that discriminative
training would keep its errors. So the weight is in units of the margin, as steps are. Held-out labelled documents give
the temperature, and decide where labelled documents alone do better.

Labelled documents alone say how rare a word is: tf-idf of all documents makes words of a frequent class weak, which
hurts where few documents have a label.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from sdem_dist.documents import CorpusLike, Documents
from sdem_dist.engine.plan import AnyStage, MadeByWorkers, Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.fitting import defaults, plans
from sdem_dist.fitting.holdout import Candidate, Draws, HoldoutPolicy, first_loss, gain_of
from sdem_dist.fitting.plans import sample
from sdem_dist.inputs.spec import Source, Trained, final_stage
from sdem_dist.inputs.weighted import unweighed
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.heads import by_class
from sdem_dist.models.word_counts import SdemState

WITH, WITHOUT = "with_unlabelled", "without_unlabelled"
"""In a history, what names of held-out scores begin with: of a model of all documents, and of labelled ones alone."""
_log = logging.getLogger(__name__)


def train_with_unlabelled(nb: Any, trainer: Trainer, source: Source) -> tuple[Trained, Source]:
    """Run EM over all documents and the training of labelled ones from there; or that of labelled documents alone.

    Return the documents, too, as the model weighs them.

    `nb`: the `MultinomialNB`, which says what is trained on documents with a loss, and trains labelled ones alone.
    """
    weight = None if nb.unlabelled_weight == "auto" else float(nb.unlabelled_weight)
    loss, holds_out, calibrate = None if nb.loss == "auto" else nb.loss, nb.holds_out, nb.calibrate
    corpus = source.corpus.labelled()
    labelled = replace(source, corpus=corpus, weight=source.n_labelled)
    if source.weighting is not None:  # words that labelled documents lack count as words of one of them
        frequency, n_labelled = corpus.document_frequency, corpus.n_documents
        labelled = labelled.weighed_by(frequency, n_labelled)
        is_frequent = cast(Any, source.corpus).document_frequency >= source.weighting.min_df
        source = source.weighed_by(np.where(is_frequent, np.maximum(frequency, 1), 0), n_labelled, min_df=1)
    trainer, labelled_trainer = trainer.changed(_of(source)), trainer.changed(_of(labelled))
    candidate = nb._candidate(source, None)
    learner = replace(candidate.learner, n_documents=source.n_labelled)
    initial = cast(MadeByWorkers[SdemState], candidate.initial).block(0, 1)
    plan = replace(candidate.plan, n_epochs=defaults.FEW_EPOCHS) if nb.n_epochs == "auto" else candidate.plan
    figures = dict[str, float]()
    if source.n_labelled < defaults.UNLABELLED_LEAST:  # too few to hold some out of EM
        if weight != 0.0 and calibrate and holds_out and labelled.n_documents >= 2 * defaults.N_FOLDS:
            # The temperature is of labelled documents alone, by folds; losses differ in theirs, so with the same loss.
            policy = HoldoutPolicy(labelled_trainer, labelled, 0.0)
            by_folds = policy.choose_by_folds([lambda: nb._candidate(labelled, learner.loss)])
            learner = replace(learner, temperature=by_folds.temperature)
    elif holds_out and (weight is None or (weight and calibrate)):
        policy = HoldoutPolicy(
            trainer, source, defaults.UNLABELLED_SHARE, every=plan.n_epochs, n_draws=defaults.UNLABELLED_DRAWS
        )
        some = sample(source)

        def start(trial: SdEM[Any], which: str) -> tuple[Any, str]:
            generative = _explained(trainer, source, trial, plan, which)
            used = weight_of_margin(generative, some, defaults.UNLABELLED_MARGIN) if weight is None else weight
            return partial(start_at, initial, generative, used), f"weight {used:.2g}{which}"

        def of_labelled() -> Candidate:
            trial = nb._candidate(labelled, loss or first_loss(labelled))  # as they would be trained

            def start(_: object, which: str) -> tuple[Any, str]:
                return trial.initial, f"labelled alone{which}"

            # Both read the whole corpus, so that the same documents are held out; no label, no step.
            return Candidate(trial.learner, plan, stage="labelled documents alone", start=start, view=labelled)

        candidates = [lambda: Candidate(learner, plan, stage="all documents", start=start)]
        candidates += [of_labelled] if weight is None else []
        result = policy.choose(candidates)
        helped = result.draws[0]
        if weight is None:
            figures = _means(helped, WITH) | _means(result.draws[1], WITHOUT)
            gain, error = gain_of(result.draws[1], helped)
            figures |= {f"{WITH}_gain": gain, f"{WITH}_gain_error": error}
        if result.candidate.view is not None:
            weight = 0.0
        else:
            temperature = float(helped.temperature.mean()) if calibrate else 1.0
            learner = replace(learner, temperature=temperature)
            figures |= _means(helped, "held_out")
    if weight == 0.0:
        end, source = nb.train(labelled_trainer, labelled), labelled
    else:
        generative = _explained(trainer, source, learner, plan)
        weight = weight_of_margin(generative, sample(source), defaults.UNLABELLED_MARGIN) if weight is None else weight
        begin = partial(start_at, initial, generative, weight)
        # The name tells a resumed run whether the weight is still the same.
        end = final_stage(trainer, learner, plan, begin, f", unlabelled_weight {weight:g}")
    figures["unlabelled_weight"] = weight
    # Held-out figures are of the whole training: the last entry alone has them, so that none takes them for a curve.
    every = {name: value for name, value in figures.items() if not name.startswith("held_out_")}
    *earlier, last = end.history
    return end._replace(history=[*({**entry, **every} for entry in earlier), {**last, **figures}]), source


def _of(source: Source) -> Callable[[AnyStage], AnyStage]:
    """Return what makes stages those of a source, not of the fit's; validation documents are weighed as they are."""

    def reweighed(validation: CorpusLike) -> CorpusLike:
        return source.seen(unweighed(validation))

    return lambda stage: replace(stage, corpus=stage.corpus or source.documents, reweighed=stage.reweighed or reweighed)


def _explained(trainer: Trainer, source: Source, learner: SdEM[Any], plan: Plan, which: str = "") -> SdemState:
    model = replace(learner.model, alpha=defaults.UNLABELLED_ALPHA, class_alpha=0.0)
    em = SdEM(model, source.weight, ClosedForm(), held_out=learner.held_out, seed=learner.seed)
    lanes = plans.lanes_of(plan.n_documents, defaults.SUM_TASK_DOCUMENTS)
    once = replace(plan, n_epochs=defaults.UNLABELLED_EM_EPOCHS, n_rounds=1, n_lanes=lanes, growth=0)
    return trainer.run(Stage(f"unlabelled{which}", em, once)).state


def _means(draws: Draws, which: str) -> dict[str, float]:
    return {f"{which}_accuracy": float(draws.accuracy.mean()), f"{which}_log_loss": float(draws.log_loss.mean())}


def start_at(initial: SdemState, generative: SdemState, weight: float) -> SdemState:
    """Return a start whose scores are those of a generative model, times a weight, up to a constant of each document.

    Every word's pseudo-counts keep their geometric mean over columns, which steps are in units of.
    """
    log_words = np.log(generative.words) - np.log(generative.totals)
    log_words -= log_words.mean(axis=1, keepdims=True)
    words = initial.words * np.exp(weight * log_words, out=log_words)
    return initial._replace(words=words, totals=words.sum(axis=0))


def weight_of_margin(
    generative: SdemState, documents: Documents, margin: float, component_class: tuple[int, ...] = ()
) -> float:
    """Return the weight at which a generative model's best class leads by a margin in the median document; 1 at most.

    It has two digits, as people read it. Documents count by their weights.

    `component_class`: the class of each column, where classes have components.
    """
    weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
    used = weights > 0
    if not used.any():
        return 1.0
    scores = documents.to_csr()[used] @ (np.log(generative.words) - np.log(generative.totals))
    scores = by_class(scores, component_class)[0] if component_class else scores
    second, first = np.partition(scores, scores.shape[1] - 2, axis=1)[:, -2:].T
    leads = first - second
    order = np.argsort(leads)
    below = np.cumsum(weights[used][order])
    # The median by weights; of equal weights it is NumPy's.
    lower, upper = (np.searchsorted(below, 0.5 * below[-1], side) for side in ("left", "right"))
    median = float(0.5 * (leads[order[lower]] + leads[order[upper]]))
    return float(f"{min(1.0, margin / max(median, margin)):.2g}")
