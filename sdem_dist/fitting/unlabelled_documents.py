"""Documents without labels beside a discriminative loss: training starts at a generative model of all documents.

EM with hidden classes (Nigam et al. 2000) explains all documents. Training starts at its log-odds, times a weight. The
weight is small: naive Bayes is far too sure, and where it is sure no document asks for a step. So the weight is in
units of the margin, as steps are. Held-out labelled documents give the temperature, and decide where labelled documents
alone do better.

Labelled documents alone say how rare a word is: tf-idf of all documents makes words of a frequent class weak, which
hurts where few documents have a label.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from sdem_dist.corpus import DenseMemoryCorpus
from sdem_dist.documents import CorpusLike
from sdem_dist.engine.monitoring import VALIDATION, Monitoring
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import AnyStage, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.fitting import plans
from sdem_dist.fitting.fold_temperature import FEWEST as FEWEST_OF_FOLDS
from sdem_dist.fitting.fold_temperature import calibrated_by_folds
from sdem_dist.fitting.margin_starts import start_at, weight_of_margin
from sdem_dist.fitting.training_time import FEW_EPOCHS, MONITOR, first_loss
from sdem_dist.fitting.weighting import sample
from sdem_dist.inputs.spec import Source, Trained, final_stage
from sdem_dist.inputs.weighted import HeldOut, WeightedCorpus
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.word_counts import SdemState

MARGIN = 0.2
"""Lead of the first class over the second that "auto" starts at, in the median document; the hinge loss asks for 1."""
FEWEST = 200
"""With fewer labelled documents none are held out to decide."""
EM_ALPHA, EM_EPOCHS = 0.1, 5
"""Pseudo-count of a word in EM, and its iterations."""
DRAWS, SHARE = 5, 0.2
"""How often labelled documents are drawn to be held out, and how many of them."""
WITH, WITHOUT = "with_unlabelled", "without_unlabelled"
"""In a history, what names of held-out scores begin with: of a model of all documents, and of labelled ones alone."""
GAIN = f"{WITH}_gain"
"""In a history, by how much the others lower the log-loss of held-out documents; with "_error" its standard error."""
_log = logging.getLogger(__name__)


class Choice(NamedTuple):
    """Scores of held-out documents for a weight, shape (n_draws,) each."""

    log_loss: np.ndarray
    """At the best temperature."""
    accuracy: np.ndarray
    temperature: np.ndarray

    def means(self, which: str) -> dict[str, float]:
        """Return the means over the draws, as a history names them."""
        return {f"{which}_accuracy": float(self.accuracy.mean()), f"{which}_log_loss": float(self.log_loss.mean())}


def too_few(n_labelled: float) -> bool:
    """Whether labelled documents are too few for some of them to say whether the others help."""
    return n_labelled < FEWEST


def labelled_alone(source: Source) -> Source:
    """Return the labelled documents of a source, weighed as if there were no others."""
    assert source.weighting is None or source.trained_on is not None
    corpus = source.corpus.labelled()
    alone = replace(source, corpus=corpus, weight=source.n_labelled)
    if source.weighting is None:
        return alone
    frequency = corpus.document_frequency
    counted = max(corpus.n_documents, int(frequency.max(initial=0)))
    return replace(alone, weighting=replace(source.weighting, n_documents=counted), trained_on=frequency)


def weighed_by_labelled(source: Source, alone: Source) -> Source:
    """Return all documents, weighed as the labelled ones are; words that these lack count as words of one of them."""
    if source.weighting is None:
        return source
    assert alone.weighting is not None
    assert not isinstance(source.corpus, DenseMemoryCorpus)
    there = source.corpus.document_frequency >= source.weighting.min_df
    frequency = np.where(there, np.maximum(cast(np.ndarray, alone.trained_on), 1), 0)
    return replace(source, weighting=replace(alone.weighting, min_df=1), trained_on=frequency)


def trained_with_unlabelled(trainer: Trainer, e: Any, source: Source, plan: Plan) -> Trained:
    """Run EM over all documents and the training of labelled ones from there; or that of labelled documents alone.

    `e`: it takes note of how documents are weighed. `plan`: of the training.
    """
    alone = labelled_alone(source)
    weighed = weighed_by_labelled(source, alone)
    return _trained(trainer.changed(_of(weighed)), e, weighed, alone, plan)


def _noted(e: Any, source: Source) -> None:
    e.weighting_ = source.weighting
    if source.weighting is not None:
        e.document_frequency_ = source.trained_on


def _trained(trainer: Trainer, e: Any, source: Source, alone: Source, plan: Plan) -> Trained:
    weight = None if e.unlabelled_weight == "auto" else float(e.unlabelled_weight)
    found, start = e._learner(source)
    learner, initial = replace(found, n_documents=source.n_labelled), start.block(0, 1)
    said = dict[str, float]()
    plan = replace(plan, n_epochs=FEW_EPOCHS) if e.n_epochs == "auto" else plan
    few = too_few(source.n_labelled)
    if few:  # too few to hold some out of EM
        if weight != 0.0 and e.calibrate and e.validation_fraction and alone.n_documents >= FEWEST_OF_FOLDS:
            # The temperature is of labelled documents alone, by folds; losses differ in theirs, so with the same loss.
            its, its_start = e._learner(alone, loss=learner.loss)
            folds_plan = replace(e._plan(alone), n_blocks=plan.n_blocks)
            by_folds = calibrated_by_folds(trainer.changed(_of(alone)), alone, its, folds_plan, its_start)
            learner = replace(learner, temperature=cast(SdEM[NaiveBayes], by_folds.learner).temperature)
    elif e.validation_fraction and (weight is None or (weight and e.calibrate)):
        helped, its = _compared(trainer, e, source, alone, learner, plan, initial, weight)
        if its is not None:
            gain, error = gain_of(helped, its)
            said = {**helped.means(WITH), **its.means(WITHOUT)}
            said |= {GAIN: gain, f"{GAIN}_error": error} if np.isfinite(error) else {}
        if its is not None and alone_is_better(helped, its):
            weight = 0.0
        else:
            temperature = float(helped.temperature.mean()) if e.calibrate else 1.0
            learner = replace(learner, temperature=temperature)
            said |= helped.means("held_out")
    if weight == 0.0:
        _noted(e, alone)
        trained = e.train(trainer.changed(_of(alone)), alone)
    else:
        _noted(e, source)
        generative = _explained(trainer, source, learner, plan)
        weight = weight_of_margin(generative, sample(source), MARGIN) if weight is None else weight
        start_with = partial(start_at, initial, generative, weight)
        # The name tells a resumed run whether the weight is still the same.
        trained = final_stage(trainer, learner, plan, start_with, f", unlabelled_weight {weight:g}")
    said["unlabelled_weight"] = weight
    # Held-out figures are of the whole training: the last entry alone has them, so that none takes them for a curve.
    every = {name: value for name, value in said.items() if not name.startswith("held_out_")}
    *earlier, last = trained.history
    return trained._replace(history=[*({**entry, **every} for entry in earlier), {**last, **said}])


def _of(source: Source) -> Callable[[AnyStage], AnyStage]:
    """Return what makes stages those of a source, not of the fit's; validation documents are weighed as they are."""

    def seen(validation: CorpusLike) -> CorpusLike:
        return source.seen(validation.corpus if isinstance(validation, WeightedCorpus) else validation)

    return lambda stage: replace(stage, corpus=stage.corpus or source.documents, seen=stage.seen or seen)


def _explained(trainer: Trainer, source: Source, learner: SdEM[NaiveBayes], plan: Plan, which: str = "") -> SdemState:
    """Run EM over all documents but those held out."""
    model = replace(learner.model, alpha=EM_ALPHA, class_alpha=0.0)
    em = SdEM(model, source.weight, ClosedForm(), held_out=learner.held_out, seed=learner.seed)
    lanes = plans.lanes_of(plan.n_documents, plans.SUM_TASK_DOCUMENTS)
    once = replace(plan, n_epochs=EM_EPOCHS, n_rounds=1, n_lanes=lanes, growth=0)
    return trainer.run(Stage(f"unlabelled{which}", em, once)).state


def _compared(
    trainer: Trainer,
    e: Any,
    source: Source,
    alone: Source,
    learner: SdEM[NaiveBayes],
    plan: Plan,
    initial: SdemState,
    weight: float | None,
) -> tuple[Choice, Choice | None]:
    """Run trainings without held-out documents; return scores with the others, and, where asked, of these alone."""
    assert not isinstance(source.corpus, DenseMemoryCorpus)
    ours, theirs = list[tuple[float, ...]](), list[tuple[float, ...]]()
    frequency, some = alone.corpus.document_frequency, sample(source)
    loss = first_loss(alone) if e.loss == "auto" else e.loss  # as they would be trained
    its, its_start = e._learner(alone, loss=loss)
    for number in range(DRAWS):
        which, seed = f" {number + 1} of {DRAWS}", (learner.seed + (number << 20)) % (1 << 64)
        trial = replace(learner, held_out=SHARE, seed=seed)
        generative = _explained(trainer, source, trial, plan, which)
        # All read the whole corpus, so that the same documents are held out; one that has no label asks for no step.
        watched = _watched(plan, source.seen(HeldOut(source.corpus, seed, SHARE)))
        used = weight_of_margin(generative, some, MARGIN) if weight is None else weight
        start = partial(start_at, initial, generative, used)
        stage = Stage(f"weight {used:.2g}{which}", trial, plan, start, monitoring=watched)
        ours.append(_scored(trainer, stage))
        if weight is None:
            trial = replace(its, held_out=SHARE, seed=seed)
            watched = _watched(plan, alone.seen(HeldOut(source.corpus, seed, SHARE, frequency)))
            documents = alone.seen(source.corpus)
            stage = Stage(f"labelled alone{which}", trial, plan, its_start, documents, monitoring=watched)
            theirs.append(_scored(trainer, stage))
    return _choice(ours), _choice(theirs) if weight is None else None


def _choice(scores: list[tuple[float, ...]]) -> Choice:
    """Return the scores of the draws that held out a document."""
    held = [one for one in scores if np.isfinite(one).all()]
    found = Choice(*np.transpose(held or [(np.nan, np.nan, 1.0)]))
    _log.info("log-loss of held-out documents %.4g, accuracy %.4g", found.log_loss.mean(), found.accuracy.mean())
    return found


def _watched(plan: Plan, held_out: CorpusLike) -> Monitoring:
    return Monitoring(plan.n_epochs, held_out, MONITOR, training=False, shown=("accuracy", MONITOR))


def _scored(trainer: Trainer, stage: Stage[SdemState, Any, Any]) -> tuple[float, ...]:
    """Run a training; return what `Choice` holds of its held-out documents."""
    entry = trainer.run(stage).history[-1]
    return tuple(entry[VALIDATION + m] for m in (MONITOR, "accuracy", "temperature"))


def alone_is_better(helped: Choice, alone: Choice) -> bool:
    """Whether labelled documents alone have the lower log-loss beyond doubt, and no lower accuracy.

    Beyond doubt: over the draws, the mean difference is above its standard error. In doubt the others are used,
    which gained accuracy in the mean of seven corpora with 2 to 20 labels per class.
    """
    gain, error = gain_of(helped, alone)
    return bool(-gain > error and alone.accuracy.mean() >= helped.accuracy.mean())


def gain_of(helped: Choice, alone: Choice) -> tuple[float, float]:
    """Return by how much documents without a label lower log-loss, the mean over the draws, and its standard error."""
    if len(alone.log_loss) < 2:
        return float("nan"), float("nan")
    gain = alone.log_loss - helped.log_loss
    return float(gain.mean()), float(gain.std(ddof=1) / len(gain) ** 0.5)
