"""How long to train, and the temperature of probabilities: chosen by documents that are held out of training.

They choose between losses, too. The hinge loss looks at the label and its strongest rival alone. Where a document may
well belong to each of several classes, the classes with the lowest hinge loss are not the most probable ones (Tewari
and Bartlett 2007, on the loss of Crammer and Singer: it needs a class with more than half of the probability). NCLL has
no such limit. Where classes are apart it is slower and less accurate.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sdem_dist.corpus import DenseMemoryCorpus
from sdem_dist.engine.monitoring import VALIDATION, Monitoring
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import MadeByWorkers, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.inputs.spec import Source, Trained, final_stage
from sdem_dist.inputs.weighted import HeldOut
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.word_counts import SdemState

Other = Callable[[], tuple[SdEM[NaiveBayes], MadeByWorkers[SdemState] | None]]
MONITOR = "tempered_log_loss"
"""The metric that decides: log-loss at the best temperature."""
MOST_EPOCHS = 20
"""Epochs at most where held-out documents choose."""
IMPROVEMENT = 0.01
"""Share by which the log-loss has to fall for another epoch to be worth its time."""
FEWEST, FEW_EPOCHS = 20, 6
"""With fewer held-out documents nothing is chosen, and training has this many epochs."""
FEW = 200
"""The same where folds can give the temperature instead."""
MOST_HELD_OUT = 20_000
"""Documents held out at most."""
NO_REFIT = 0.02
"""Held-out share so small that it is not missed: the first stage's model is kept."""
OF_ALL = "with this loss all documents get {after} epochs: more documents bear more steps"
"""What follows where held-out documents have ended the first stage."""
_log = logging.getLogger(__name__)


class Choice(NamedTuple):
    """The result of the held-out documents."""

    n_epochs: int
    """Epochs for the training with all documents: one more than were worth it, since more documents bear more steps."""
    temperature: float
    """Of the last of these: longer training makes a model surer."""
    history: list[dict[str, float]]
    """Their accuracy, and their log-loss at the best temperature, of each of these epochs."""
    state: SdemState
    """The model trained without them."""
    entry: dict[str, float]
    """All that was found of the epoch that was kept."""

    def of_validation(self, metric: str) -> float:
        """Return a metric of the held-out documents, of the epoch that was kept."""
        return self.entry[VALIDATION + metric]


def share_held_out(asked: float, n_documents: int, fewest: int = FEWEST) -> float:
    """Return the share of documents to hold out; 0 where they would be too few."""
    share = min(asked, MOST_HELD_OUT / n_documents)
    return share if share * n_documents >= fewest else 0.0


def has_rare_classes(source: Source) -> bool:
    """Whether some classes are so rare that accuracy hides how they fare."""
    sizes = np.array([n for n in source.class_counts if n > 0])
    return len(sizes) > 1 and source.members is None and bool(sizes.min() < RARE * sizes.max())


def shown_metrics(source: Source) -> tuple[str, ...]:
    """Return the metrics of held-out documents that people see."""
    return ("accuracy", "macro_f1", MONITOR) if has_rare_classes(source) else ("accuracy", MONITOR)


def chosen(
    trainer: Trainer,
    source: Source,
    learner: SdEM[NaiveBayes],
    plan: Plan,
    initial: MadeByWorkers[SdemState] | None,
    share: float,
    patience: int | None,
    how: str = "",
) -> Choice | None:
    """Run the stage that trains without the held-out documents, scored after each epoch.

    Return None where none of them has a weight above 0.

    `share`: of documents to hold out.
    `patience`: epochs without a lower log-loss that end it; None runs all of the plan.
    `how`: added to the stage's name, where there are several.
    """
    assert not isinstance(source.corpus, DenseMemoryCorpus)
    held_out = source.seen(HeldOut(source.corpus, learner.seed, share))
    monitoring = Monitoring(
        validation=held_out,
        monitor=MONITOR,
        patience=patience,
        improvement=IMPROVEMENT,
        training=False,
        shown=shown_metrics(source),
        then=OF_ALL if share > NO_REFIT else Monitoring.then,
    )
    learner = replace(learner, held_out=share)
    stage = Stage(f"choose{how}", learner, plan, initial, monitored=True, monitoring=monitoring)
    result = trainer.run(stage)
    scored = [entry for entry in result.history if VALIDATION + MONITOR in entry]
    if not scored or np.isnan(scored[-1][VALIDATION + MONITOR]):
        return None
    best = scored[-1]
    if patience is not None:
        best = scored[0]
        for i, entry in enumerate(scored):
            if monitoring.best(scored[: i + 1], scored.index(best)):
                best = entry
    last = best
    if patience is not None and share > NO_REFIT:
        last = next((entry for entry in scored if entry["epoch"] > best["epoch"]), best)
    n_epochs = int(last["epoch"])
    told = [
        {
            "epoch": entry["epoch"],
            "seconds": entry["seconds"],
            "held_out_accuracy": entry[f"{VALIDATION}accuracy"],
            "held_out_log_loss": entry[VALIDATION + MONITOR],
            **({"held_out_macro_f1": entry[f"{VALIDATION}macro_f1"]} if has_rare_classes(source) else {}),
        }
        for entry in result.history[:n_epochs]
    ]
    return Choice(n_epochs, last[f"{VALIDATION}temperature"], told, result.state, best)


def trained_by_held_out(
    trainer: Trainer,
    source: Source,
    learner: SdEM[NaiveBayes],
    plan: Plan,
    initial: MadeByWorkers[SdemState] | None,
    share: float,
    patience: int | None,
    other: Other | None,
    calibrate: bool,
) -> Trained:
    """Run the stages in which held-out documents choose training time, temperature and loss, and the one with all.

    `other`: makes the learner of NCLL and its start, which are tried if classes seem to overlap.
    `calibrate`: whether the model takes the temperature.
    """
    choice = chosen(trainer, source, learner, plan, initial, share, patience)
    if choice is None:
        return without_choice(trainer, learner, plan, initial, patience is not None)
    if other is not None and may_overlap(source, choice.of_validation("accuracy")):
        rival, start = other()
        its = chosen(trainer, source, rival, plan, start, share, patience, " with ncll")
        pairs = [] if its is None else [(choice, its)]
        n_draws = 1 if share * source.n_documents >= ENOUGH_FOR_LOSSES else DRAWS_OF_LOSSES
        for draw in range(1, n_draws):
            if pairs and _gains(pairs)[1].mean() <= 0.0:  # not lower in log-loss: no second look
                break
            seed, how = (learner.seed + (draw << 20)) % (1 << 64), f", draw {draw + 1}"
            one = chosen(trainer, source, replace(learner, seed=seed), plan, initial, share, patience, how)
            two = chosen(trainer, source, replace(rival, seed=seed), plan, start, share, patience, f" with ncll{how}")
            pairs += [(one, two)] if one is not None and two is not None else []
        if its is not None and is_better(pairs):
            learner, initial, choice = rival, start, its
        _log.info("classes overlap: held-out documents chose the loss %s", learner.loss)
    _log.info("held-out documents chose %d epochs, and temperature %.3g", choice.n_epochs, choice.temperature)
    learner = replace(learner, temperature=choice.temperature if calibrate else 1.0)
    return trained_on_all(trainer, choice, learner, plan, initial, share)


def is_better(pairs: list[tuple[Choice, Choice]]) -> bool:
    """Whether the second of two losses is as accurate, and lower in log-loss by more than draws differ."""
    if not pairs:
        return False
    accuracy, gain = _gains(pairs)
    error = gain.std(ddof=1) / len(gain) ** 0.5 if len(gain) > 1 else 0.0
    return bool(accuracy.mean() >= 0.0 and gain.mean() > error)


def _gains(pairs: list[tuple[Choice, Choice]]) -> np.ndarray:
    """Return by how much second choices are more accurate, and lower in log-loss, shape (2, n_pairs)."""
    values = np.array([[[c.of_validation("accuracy"), -c.of_validation(MONITOR)] for c in pair] for pair in pairs])
    return np.asarray((values[:, 1] - values[:, 0]).T)


def without_choice(
    trainer: Trainer, learner: SdEM[NaiveBayes], plan: Plan, initial: MadeByWorkers[SdemState] | None, auto: bool
) -> Trained:
    """Run the training where held-out documents could choose nothing; `auto`: they were to choose the epochs."""
    _log.warning("no held-out document has a weight above 0: nothing is chosen by them, and the temperature is 1")
    return final_stage(trainer, learner, replace(plan, n_epochs=FEW_EPOCHS) if auto else plan, initial)


def trained_on_all(
    trainer: Trainer,
    choice: Choice,
    learner: SdEM[NaiveBayes],
    plan: Plan,
    initial: MadeByWorkers[SdemState] | None,
    share: float,
) -> Trained:
    """Run the stage that trains anew with all documents, where those held out are more than a few.

    `learner`: as it is to be, with all documents.

    One more pass over all from where the choice ended takes half the time. It meets the held-out documents, and the
    words that only they have, once, and all others several times.
    """
    if share <= NO_REFIT:
        return Trained(learner, choice.state, choice.history)
    found = final_stage(trainer, learner, replace(plan, n_epochs=choice.n_epochs), initial)
    return found._replace(
        history=[{**held_out, **entry} for held_out, entry in zip(choice.history, found.history, strict=False)]
    )


RARE = 0.05
"""Share of the largest class's documents under which a class is rare: macro-F1 is shown beside accuracy."""
MANY_WRONG = 0.2
"""Share of held-out documents that the hinge loss has to get wrong for NCLL to be tried."""


DRAWS_OF_LOSSES, ENOUGH_FOR_LOSSES = 5, 5_000
"""Draws of held-out documents that have to agree on NCLL, unless one has so many documents."""
DOCUMENTS_A_CLASS = 30
"""Documents of a class, in the mean, under which they are few: their loss is chosen by the sizes of classes."""
EVEN = 1.25
"""Classes are even if the largest has at most so many times the median. (A few that have not enough do not matter.)"""


def few_documents(source: Source) -> bool:
    """Whether documents are few for their classes."""
    return source.n_documents < DOCUMENTS_A_CLASS * len(source.classes)


def first_loss(source: Source) -> str:
    """Return the default loss before a held-out document is asked: NCLL of few documents of three or more even classes.

    Of few documents every rival class is about as strong as the strongest. The hinge loss moves that one alone, and so
    hangs on which it happens to be; NCLL moves all of them. Each document of a larger class then moves all the others,
    and NCLL finds that class too often; the hinge loss takes no step where the margin is kept.
    """
    if not few_documents(source):
        return "hinge"
    sizes = np.array([n for n in source.class_counts if n > 0])
    largest = sizes.max() / np.median(sizes)
    loss = "ncll" if len(sizes) > 2 and largest <= EVEN else "hinge"
    said = "few documents of %d classes, the largest %.3g times the median: the loss is %s"
    _log.info(said, len(sizes), largest, loss)
    return loss


def may_overlap(source: Source, accuracy: float) -> bool:
    """Whether NCLL is to be tried, too, given the accuracy of the hinge loss on held-out documents."""
    return len(source.classes) > 2 and not few_documents(source) and accuracy < 1.0 - MANY_WRONG
