"""What an estimator asks of a trainer: a learner that runs over documents for some epochs, and what comes of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias

from sdem_dist.documents import CorpusLike
from sdem_dist.engine.monitoring import Monitoring
from sdem_dist.engine.plan import Plan
from sdem_dist.learners.protocol import Learner, Prepared, State, Statistics


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


class StageResult(NamedTuple, Generic[State]):
    """What a stage gives."""

    state: State
    history: list[dict[str, float]]  # one entry an epoch


AnyStage: TypeAlias = Stage[Any, Any, Any]  # a stage; only its learner looks into its states and statistics
