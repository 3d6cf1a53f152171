"""How much a document's words count beside its label in supervised topic models: chosen by documents held out."""

import logging
from dataclasses import replace

import numpy as np

from sdem_dist.corpus import DenseMemoryCorpus
from sdem_dist.engine.monitoring import VALIDATION, Monitoring
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.fitting.training_time import share_held_out
from sdem_dist.inputs.spec import Source
from sdem_dist.inputs.weighted import HeldOut
from sdem_dist.learners.bp_slda import BpSlda

WEIGHTS = (0.0, 3e-3, 1e-2, 3e-2, 1e-1)
"""Weights that "auto" tries."""
HELD_OUT = 0.2
"""Share of the documents that choose."""
_log = logging.getLogger(__name__)


def chosen_weight(
    trainer: Trainer, source: Source, learner: BpSlda, plan: Plan, frequencies: np.ndarray, monitor: str
) -> float:
    """Run a training with each weight, without held-out documents; return the weight of their lowest loss.

    `frequencies`: shape (n_features,), of the words, for the start. `monitor`: the metric that has to be low.
    Raises ValueError: there are too few documents to hold some out.
    """
    share = share_held_out(HELD_OUT, int(source.n_labelled or source.n_documents))
    if not share:
        raise ValueError("words_weight='auto' holds a fifth of the labelled documents out, 20 at least: give a number")
    assert not isinstance(source.corpus, DenseMemoryCorpus)
    held_out = source.seen(HeldOut(source.corpus, learner.seed, share))
    monitoring = Monitoring(every=plan.n_epochs, validation=held_out, monitor=monitor, training=False, shown=(monitor,))
    best = np.inf, 0.0
    for weight in WEIGHTS:
        trial = replace(learner, words_weight=weight, held_out=share)
        stage = Stage(
            f"words_weight {weight:g}",
            trial,
            plan,
            lambda: learner.start(frequencies),
            monitored=True,
            monitoring=monitoring,
        )
        loss = trainer.run(stage).history[-1][VALIDATION + monitor]
        _log.info("words_weight %g: %s of held-out documents %.4g", weight, monitor, loss)
        best = min(best, (loss, weight))
    return best[1]
