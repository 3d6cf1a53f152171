"""The temperature of classifiers that are trained in several stages: a whole training without some documents finds it.

The components of a mixture treat a document's words or columns as independent, which they are not; so classes seem far
surer than they are. A training without some documents shows how sure the model may be of new ones. Then all documents
train the final model, which is the same as without a temperature.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import numpy as np

from sdem_dist.corpus.base import BaseCorpus
from sdem_dist.corpus.folds import Folds, Selection
from sdem_dist.engine.monitoring import VALIDATION, History, Monitoring
from sdem_dist.engine.stages import AnyStage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.fitting.training_time import FEWEST, MONITOR, MOST_HELD_OUT
from sdem_dist.inputs.spec import Source, Trained
from sdem_dist.inputs.weighted import KnownWords

Fit = Callable[[Trainer, Source], Trained]
MOST_PARTS = 20
"""Of which some are held out, such as 7 for a share of .35."""
POINTS = 10
"""Of the curve of held-out documents, about."""
_log = logging.getLogger(__name__)


def with_temperature(
    trainer: Trainer,
    fit: Fit,
    source: Source,
    share: float,
    seed: int,
    class_weight: tuple[float, ...] | None = None,
    kept: Callable[[History], int] | None = None,
) -> Trained:
    """Run the stages of a training without some documents, which give the temperature, and those of one with all.

    Where under 20 documents would be held out, there is no temperature. Where patience may end the training with all,
    it is the first: the other one is as long. Its history is then that of scores that no temperature divides.

    Parameters
    ----------
    fit : callable
        Runs a training with a source's documents; the last one is watched.
    share : float
        Of the documents to hold out, 20,000 at most.
    seed : int
        What decides which.
    class_weight : tuple of float, default=None
        Of each class: one of weight 0 has probability 0, whatever the temperature.
    kept : callable, default=None
        Takes the history of a training that patience ended, and returns how many epochs are kept.
    """
    held_out = held_out_of(source.corpus, share, seed, class_weight)
    if held_out is None:
        return fit(trainer, source)
    rest, apart = source.corpus.within(held_out.others), source.corpus.within(held_out)
    scored = apart if source.corpus.header.layout == "dense" else KnownWords(apart)
    found = None if kept is None else fit(trainer, source)
    n_kept = None if kept is None or found is None else kept(found.history)

    def without(stage: AnyStage) -> AnyStage:
        plan = replace(stage.plan, n_epochs=n_kept) if n_kept and stage.monitored else stage.plan
        every = max(1, plan.n_epochs // POINTS)
        watch = Monitoring(every, source.seen(scored), training=False, shown=("accuracy", MONITOR))
        corpus, name = stage.corpus or source.seen(rest), f"held out: {stage.name}"
        return replace(stage, name=name, plan=plan, corpus=corpus, monitoring=watch if stage.monitored else None)

    others = replace(source, corpus=cast(Any, rest), weight=rest.weight, class_counts=rest.class_weights)
    history = fit(trainer.changed(without), others).history
    temperature = history[-1][f"{VALIDATION}temperature"]
    if not np.isfinite(temperature):
        return found or fit(trainer, source)
    _log.info("held-out documents chose temperature %.3g", temperature)

    def tempered(stage: AnyStage) -> AnyStage:
        return replace(stage, learner=at_temperature(stage.learner, temperature)) if stage.monitored else stage

    found = found or fit(trainer.changed(tempered), source)
    learner = at_temperature(found.learner, temperature)
    told = [_told(entry) for entry in history] + [{}] * (len(found.history) - len(history))
    return Trained(learner, found.state, [{**h, **f} for h, f in zip(told, found.history, strict=False)])


def held_out_of(
    corpus: BaseCorpus, share: float, seed: int, class_weight: tuple[float, ...] | None = None
) -> Selection | None:
    """Return which documents to hold out, evenly of each class but never all of one; None if they would be too few."""
    labels, weights = corpus.labels(), corpus.weights
    counted = np.ones(corpus.n_documents, bool) if weights is None else weights > 0
    if labels is not None:
        counted &= (labels >= 0) & (True if class_weight is None else np.asarray(class_weight)[labels] > 0)
    n = int(counted.sum())
    if share <= 0 or min(share * n, MOST_HELD_OUT) < FEWEST:
        return None
    fewest, names = max(round(1 / share), -(-n // MOST_HELD_OUT)), corpus.all_groups()
    n_groups = n if names is None else len(np.unique(names))
    torn = None if names is None or n_groups >= fewest else np.arange(len(names))  # too few to be kept together
    parts = min(MOST_PARTS, n_groups) if torn is None else MOST_PARTS
    part = Fraction(share).limit_denominator(parts) if fewest < parts else Fraction(1, fewest)
    if part * n > MOST_HELD_OUT:
        part = Fraction(1, fewest)
    mask = counted & (Folds(corpus, part.denominator, seed, groups=torn).numbers < part.numerator)
    if labels is not None:
        kept = np.bincount(labels[counted & ~mask], minlength=int(labels.max()) + 1) > 0
        mask &= kept[labels]
    return Selection.of(mask) if mask.sum() >= FEWEST // 2 else None


def at_temperature(learner: Any, temperature: float) -> Any:
    """Return a learner whose scores are divided by a temperature for probabilities."""
    return replace(learner, temperature=temperature)


def _told(entry: dict[str, float]) -> dict[str, float]:
    """Return what a history says of held-out documents after an epoch; nothing where they were not scored."""
    names = {"held_out_accuracy": f"{VALIDATION}accuracy", "held_out_log_loss": VALIDATION + MONITOR}
    return {name: entry[of] for name, of in names.items() if of in entry}
