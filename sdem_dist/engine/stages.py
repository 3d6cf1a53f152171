"""What an estimator asks of the engine: a generator yields stages and scorings, and receives their results.

A fit with a start by counting::

    def stages(self, source):
        counts = yield from state_of(Stage("count", counting, plan))
        return (yield from trained(Stage("train", learner, plan, lambda: learner.start(counts), monitored=True)))

The generator is run again when a fit is resumed: it must yield the same stages for the same settings and results.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from sdem_dist.documents import CorpusLike
from sdem_dist.engine.monitoring import Monitoring
from sdem_dist.engine.plan import Plan
from sdem_dist.learners.protocol import Learner, Prepared, State, Statistics

Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class MadeByWorkers(Generic[State]):
    """A start that workers make themselves from a little data: nothing as wide as the model is sent."""

    block: Callable[[int, int], State]
    """Takes the number of a block and of all blocks, and returns that block of the state."""


@dataclass(frozen=True, eq=False)
class Stage(Generic[State, Statistics, Prepared]):
    """A learner that runs over documents for some epochs."""

    name: str  # for people: "survey", "start 3 of 10", "train"
    learner: Learner[State, Statistics, Prepared]  # a frozen dataclass: its fields tell one run from another
    plan: Plan
    initial: State | Callable[[], State] | MadeByWorkers[State] | None = None
    """Where it starts; None: ``learner.init()``. A callable is only called where the stage has to begin, and its state
    is not kept once the workers have it."""
    corpus: CorpusLike | None = None  # None: that of the fit
    monitored: bool = False
    """It sends an event for each epoch, and its history is that of the fit. Without `monitoring` of its own it is
    evaluated, and ended by patience, as the fit was told; other stages without one are not evaluated."""
    monitoring: Monitoring | None = None
    """What is evaluated, and when to stop. None: what the fit was told if the stage is `monitored`, else nothing."""
    seen: Callable[[CorpusLike], CorpusLike] | None = None
    """Takes the validation documents of the fit, and returns them as this stage's documents are."""


@dataclass(frozen=True, eq=False)
class Scoring(Generic[State, Statistics, Prepared]):
    """The metrics of a state over all documents of the fit."""

    name: str  # for people
    learner: Learner[State, Statistics, Prepared]
    state: State  # in one piece


class StageResult(NamedTuple, Generic[State]):
    """What a stage gives."""

    state: State
    history: list[dict[str, float]]  # one entry an epoch


AnyStage: TypeAlias = Stage[Any, Any, Any]  # a stage; only its learner looks into its states and statistics
Stages = Generator[AnyStage | Scoring[Any, Any, Any], Any, Outcome]
"""Stages and scorings one after the other, and what the fit returns."""


def trained(stage: Stage[State, Statistics, Prepared]) -> Stages[StageResult[State]]:
    """Yield a stage and return its result, with its type."""
    return cast("StageResult[State]", (yield stage))


def state_of(stage: Stage[State, Statistics, Prepared]) -> Stages[State]:
    """Yield a stage and return the state after it."""
    return (yield from trained(stage)).state


def metrics_of(scoring: Scoring[State, Statistics, Prepared]) -> Stages[dict[str, float]]:
    """Yield a scoring and return the metrics."""
    return cast("dict[str, float]", (yield scoring))
