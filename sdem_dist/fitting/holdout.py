"""Documents held out of training: they choose how long to train, which loss, and the temperature of probabilities.

The hinge loss looks at the label and its strongest rival alone. Where a document may well belong to each of several
classes, the classes with the lowest hinge loss are not the most probable ones (Tewari and Bartlett 2007, on the loss of
Crammer and Singer: it needs a class with more than half of the probability). NCLL has no such limit. Where classes are
apart it is slower and less accurate. So it has to win.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np

from sdem_dist.engine.plan import VALIDATION, Monitoring, Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.fitting import defaults
from sdem_dist.inputs.spec import Source, Trained, final_stage
from sdem_dist.inputs.weighted import held_out_documents

MONITOR = "tempered_log_loss"
"""The metric that decides: log-loss at the best temperature."""
OF_ALL = "with this loss all documents get {after} epochs: more documents bear more steps"
"""What follows where held-out documents have ended the first stage."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidate:
    """A training that held-out documents judge.

    `initial`: where it starts, as of a `Stage`.
    `stage`: the name of its stages.
    `start`: takes the learner of a draw and which one it is, and returns where it starts and the stage's name, where
    these depend on what is held out.
    `view`: how documents are weighed, and of which words are known, if not as the policy's are.
    """

    learner: Any
    plan: Plan
    initial: Any = None
    stage: str = "choose"
    start: Callable[[Any, str], tuple[Any, str]] | None = None
    view: Source | None = None


class Draws(NamedTuple):
    """What held-out documents say of a candidate, shape (n_draws,) each."""

    log_loss: np.ndarray  # or another metric that has to be low
    accuracy: np.ndarray
    temperature: np.ndarray


class HoldoutResult(NamedTuple):
    """The candidate that held-out documents chose."""

    candidate: Candidate
    n_epochs: int
    """Epochs for the training with all documents: one more than were worth it, since more documents bear more steps."""
    temperature: float
    """Of the last of these: longer training makes a model surer."""
    history: list[dict[str, float]]
    """Their accuracy, and their log-loss at the best temperature, of each of these epochs."""
    state: Any
    """The model trained without them."""
    figures: dict[str, float]
    """All that was found of the epoch that was kept."""
    draws: list[Draws]
    """Of each candidate that was tried, in their order."""

    @property
    def known(self) -> bool:
        """Whether any held-out document has a weight above 0."""
        return bool(np.isfinite(self.draws[0].log_loss).any())

    def of_validation(self, metric: str) -> float:
        """Return a metric of the held-out documents, of the epoch that was kept."""
        return self.figures[VALIDATION + metric]


@dataclass(frozen=True)
class HoldoutPolicy:
    """How documents are held out, and what they decide.

    `share`: of the documents that are held out.
    `patience`: epochs without a lower log-loss that end a training; None runs all of its plan.
    `monitor`: the metric that has to be low.
    `every`: epochs between two evaluations.
    `n_draws`: of held-out documents, for each candidate.
    `doubt`: takes the first candidate's result, and returns whether others are tried; draws then end where they do not
    do better. None: all draws of all candidates.
    `gate`: a candidate that is less accurate never replaces one before it.
    """

    trainer: Trainer
    source: Source
    share: float
    patience: int | None = None
    monitor: str = MONITOR
    every: int = 1
    n_draws: int = 1
    doubt: Callable[[HoldoutResult], bool] | None = None
    gate: bool = True

    def choose(self, candidates: Sequence[Callable[[], Candidate]]) -> HoldoutResult:
        """Return the candidate with the lowest log-loss by more than draws differ, and how long it is to be trained.

        A candidate is made when its turn comes.
        """
        first = self._score(candidates[0](), 0)
        if self.doubt is not None and not (first.known and self.doubt(first)):
            return first
        results = [[first], *([self._score(make(), 0)] for make in candidates[1:])]
        draws = [joined_draws(scored[0].draws) for scored in results]
        for draw in range(1, self.n_draws):
            if self.doubt is not None and not gain_of(draws[0], draws[-1])[0] > 0.0:  # not lower: no second look
                break
            for scored in results:
                scored.append(self._score(scored[0].candidate, draw))
            draws = [joined_draws([result.draws[0] for result in scored]) for scored in results]
        best = 0
        for number in range(1, len(draws)):
            if is_better(draws[best], draws[number], gate=self.gate):
                best = number
        if len(candidates) > 1:
            _log.info("held-out documents chose %r", results[best][0].candidate.stage)
        return results[best][0]._replace(draws=draws)

    def _score(self, candidate: Candidate, draw: int) -> HoldoutResult:
        """Run a training without the documents of a draw, scored after epochs."""
        view, seed = candidate.view or self.source, candidate.learner.seed
        learner = replace(candidate.learner, held_out=self.share, seed=(seed + (draw << 20)) % (1 << 64))
        name, initial = candidate.stage, candidate.initial
        if candidate.start is not None:
            initial, name = candidate.start(learner, f" {draw + 1} of {self.n_draws}")
        elif draw:
            name = f"{name}, draw {draw + 1}"
        frequency = None if candidate.view is None else cast(Any, view.corpus).document_frequency
        metrics: tuple[str, ...] = (self.monitor,)
        if self.monitor == MONITOR:
            metrics = ("accuracy", "macro_f1", MONITOR) if has_rare_classes(view) else ("accuracy", MONITOR)
        monitoring = Monitoring(
            self.every,
            view.seen(held_out_documents(self.source.corpus, learner.seed, self.share, frequency)),
            self.monitor,
            self.patience,
            defaults.IMPROVEMENT,
            training=False,
            main_metrics=metrics,
            then=OF_ALL if self.share > defaults.NO_REFIT else Monitoring.then,
        )
        corpus = None if candidate.view is None else view.seen(self.source.corpus)
        monitored = candidate.start is None
        stage = Stage(name, learner, candidate.plan, initial, corpus, monitored=monitored, monitoring=monitoring)
        result = self.trainer.run(stage)
        scored = [entry for entry in result.history if VALIDATION + self.monitor in entry] or result.history[-1:]
        best = last = scored[-1]
        if self.patience is not None:
            best = scored[0]
            for i in range(len(scored)):
                if monitoring.best(scored[: i + 1], scored.index(best)):
                    best = scored[i]
            last = best
            if self.share > defaults.NO_REFIT:
                last = next((entry for entry in scored if entry["epoch"] > best["epoch"]), best)
        n_epochs = int(last["epoch"])
        shown = [held_out_figures(entry, self.monitor, self.source) for entry in result.history[:n_epochs]]
        temperature = getattr(learner, "temperature", 1.0) * last.get(f"{VALIDATION}temperature", 1.0)
        figures = best.get(VALIDATION + self.monitor, np.nan), best.get(f"{VALIDATION}accuracy", 1.0), temperature
        draws = Draws(*(np.array([figure]) for figure in figures))
        return HoldoutResult(candidate, n_epochs, temperature, shown, result.state, best, [draws])

    def train(self, result: HoldoutResult, learner: Any) -> Trained:
        """Run the training with all documents, as it was chosen, where those held out are more than a few.

        `learner`: as it is to be, with all documents.

        One more pass over all from where the choice ended takes half the time. It meets the held-out documents, and
        the words that only they have, once, and all others several times.
        """
        plan, initial = result.candidate.plan, result.candidate.initial
        if not result.known:
            _log.warning(
                "no held-out document has a weight above 0: nothing is chosen by them, and the temperature is 1"
            )
            plan = plan if self.patience is None else replace(plan, n_epochs=defaults.FEW_EPOCHS)
            return final_stage(self.trainer, result.candidate.learner, plan, initial)
        _log.info("held-out documents chose %d epochs, and temperature %.3g", result.n_epochs, result.temperature)
        if self.share <= defaults.NO_REFIT or not self.source.retrain:
            return Trained(learner, result.state, result.history)
        end = final_stage(self.trainer, learner, replace(plan, n_epochs=result.n_epochs), initial)
        history = [{**held_out, **entry} for held_out, entry in zip(result.history, end.history, strict=False)]
        return end._replace(history=history)


def is_better(first: Draws, second: Draws, *, gate: bool = True) -> bool:
    """Whether the second is lower in log-loss, in the mean by more than its standard error, and as accurate."""
    gain, error = gain_of(first, second)
    return bool(gain > error and (not gate or second.accuracy.mean() >= first.accuracy.mean()))


def gain_of(first: Draws, second: Draws) -> tuple[float, float]:
    """Return by how much the second lowers log-loss, the mean over the draws, and its standard error; 0 of one draw."""
    gain = first.log_loss - second.log_loss
    return float(gain.mean()), float(gain.std(ddof=1) / len(gain) ** 0.5) if len(gain) > 1 else 0.0


def joined_draws(draws: Sequence[Draws]) -> Draws:
    """Return the draws that held out a document, those of one candidate, one after another."""
    finite = [one for one in draws if np.isfinite(one).all()] or draws[:1]
    return Draws(*(np.concatenate(column) for column in zip(*finite, strict=True)))


def held_out_figures(entry: dict[str, float], monitor: str, source: Source) -> dict[str, float]:
    """Return what a history says of held-out documents after an epoch."""
    names = {"accuracy": "accuracy", "log_loss": monitor} | (
        {"macro_f1": "macro_f1"} if has_rare_classes(source) else {}
    )
    of_epoch = {name: entry[name] for name in ("epoch", "seconds")}
    return of_epoch | {
        f"held_out_{name}": entry[VALIDATION + metric] for name, metric in names.items() if VALIDATION + metric in entry
    }


def share_held_out(share: float, n_documents: int, least: int = defaults.FEW_HELD_OUT) -> float:
    share = min(share, defaults.MAX_HELD_OUT / n_documents)
    return share if share * n_documents >= least else 0.0


def has_rare_classes(source: Source) -> bool:
    """Whether some classes are so rare that accuracy hides how they fare."""
    sizes = np.array([n for n in source.class_counts if n > 0])
    return len(sizes) > 1 and source.members is None and bool(sizes.min() < defaults.RARE_CLASS * sizes.max())


def few_documents(source: Source) -> bool:
    return source.n_documents < defaults.DOCUMENTS_A_CLASS * len(source.classes)


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
    loss = "ncll" if len(sizes) > 2 and largest <= defaults.EVEN_CLASSES else "hinge"
    message = "few documents of %d classes, the largest %.3g times the median: the loss is %s"
    _log.info(message, len(sizes), largest, loss)
    return loss


def may_overlap(source: Source, accuracy: float) -> bool:
    """Whether NCLL is to be tried, too, given the accuracy of the hinge loss on held-out documents."""
    return len(source.classes) > 2 and not few_documents(source) and accuracy < 1.0 - defaults.MANY_WRONG


def loss_draws(share: float, n_documents: int) -> int:
    """Return how many draws of held-out documents compare two losses."""
    return 1 if share * n_documents >= defaults.ENOUGH_FOR_LOSSES else defaults.LOSS_DRAWS
