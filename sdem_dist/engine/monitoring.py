"""What is evaluated while a stage runs, and when it has gone on for long enough."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sdem_dist import glossary
from sdem_dist.documents import CorpusLike
from sdem_dist.engine.events import EpochEnded, StageEnded
from sdem_dist.learners.protocol import AnyLearner

VALIDATION = "validation_"  # before the names of metrics of validation documents

History = list[dict[str, float]]


@dataclass(frozen=True)
class Monitoring:
    """What is evaluated and when to stop."""

    every: int = 1  # evaluate whenever this many epochs have passed, and after the last; 0 never
    validation: CorpusLike | None = None  # evaluated too, its metrics prefixed with ``validation_``
    monitor: str = "ncll"  # metric of the validation corpus that has to fall
    patience: int | None = None
    """Stop after this many evaluations without a new lowest value, and return the state of the lowest."""
    improvement: float = 0.0  # share by which a value has to be lower to be a new lowest
    training: bool = True  # evaluate the training documents too
    shown: tuple[str, ...] = ()  # metrics to show while it runs, where there is room for few
    scorer: Callable[[AnyLearner], AnyLearner] = lambda learner: learner
    """Makes what scores the validation corpus of what is trained."""
    then: str = "epoch {kept} is kept"
    """What follows where the stage is stopped, for people; of `kept`, the best epoch from 1, and `after`, the next."""

    def due(self, epoch: int, n_epochs: int) -> bool:
        """Whether the state after an epoch, from 0, is evaluated."""
        return self.every > 0 and (epoch == n_epochs - 1 or (epoch + 1) % self.every == 0)

    def continued(self, history: Sequence[dict[str, float]], n_epochs: int, best_epoch: int) -> History:
        """Return the history of a run that goes on, as if it had never ended.

        Its last epoch was evaluated because it was the last; it is not now, unless it is due or the best of all.
        """
        last = len(history) - 1
        if last < 0 or self.every == 0 or last == best_epoch or self.due(last, n_epochs):
            return list(history)
        return [*history[:-1], {name: history[-1][name] for name in ("epoch", "seconds")}]

    def best(self, history: History, best_epoch: int) -> bool:
        """Whether the last entry of a history is lower than that of the best epoch before it."""
        watched = f"{VALIDATION}{self.monitor}"
        if self.patience is None or watched not in history[-1]:
            return False
        return best_epoch < 0 or history[-1][watched] < (1.0 - self.improvement) * history[best_epoch][watched]

    def exhausted(self, history: History, best_epoch: int) -> bool:
        """Whether patience has come to its end."""
        if self.patience is None or best_epoch < 0:
            return False
        watched = f"{VALIDATION}{self.monitor}"
        return sum(watched in entry for entry in history[best_epoch + 1 :]) >= self.patience

    def said(self, reason: str, kept: int, n_epochs: int) -> tuple[str, str]:
        """Return why a stage stopped after `n_epochs`, and what follows, for people; nothing where all were run."""
        if reason == "epochs":
            return "", ""
        lower = f"{self.improvement:.0%} lower".replace("%", " %") if self.improvement else "lower"
        why = (
            "a callback asked" if reason == "callback" else f"the held-out loss is not {lower} than after epoch {kept}"
        )
        return why, self.then.format(kept=kept, after=min(kept + 1, n_epochs))


UNSEEN = Monitoring(every=0)  # of a stage that is not monitored


def brief(event: EpochEnded, shown: tuple[str, ...]) -> str:
    """Return what fits on a line: the metrics `shown`, those of held-out documents if there are any."""
    validated = any(name.startswith(VALIDATION) for name in event.metrics)
    names = [(name, f"{VALIDATION if validated else ''}{name}") for name in shown]
    said = [f"{glossary.short(name)} {event.metrics[full]:.4f}" for name, full in names if full in event.metrics]
    return "  ".join([f"epoch {event.epoch + 1}", *(["held-out"] if validated else []), *said])


def kept(event: StageEnded) -> str:
    """Return what follows from a stage that ended before its last epoch; empty for others."""
    return f"  stopped, {event.then}" if event.then else ""
