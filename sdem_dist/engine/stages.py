"""Stub."""
from __future__ import annotations
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
T = TypeVar("T")
@dataclass(frozen=True)
class Stage:
    name: str
    learner: Any
    plan: Any
    initial: Any = None
    corpus: Any = None
    monitored: bool = False
@dataclass(frozen=True)
class Scoring:
    name: str
    learner: Any
    state: Any
class StageResult(NamedTuple):
    state: Any
    history: Any
Stages = Generator[Any, Any, T]
def trained(stage): return (yield stage)
def state_of(stage): return (yield stage).state
def metrics_of(scoring): return (yield scoring)
