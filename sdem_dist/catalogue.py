"""The public names and their modules, read from the package's stub; the estimators among them, by name."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator

_STUB = ast.parse(Path(__file__).with_name("__init__.pyi").read_text(encoding="utf-8"))
PUBLIC = {
    alias.name: line.module
    for line in _STUB.body
    if isinstance(line, ast.ImportFrom) and line.module is not None
    for alias in line.names
}
"""From a public name to the module that it is imported from, when it is first used."""
ESTIMATORS = tuple(name for name, module in PUBLIC.items() if module.startswith("sdem_dist.estimators."))
"""Names of all estimators: those that files may hold and the command can train."""


def estimator_class(name: str) -> type[EngineEstimator]:
    """Return an estimator's class; its module, and what that needs, is imported now."""
    cls: type[EngineEstimator] = getattr(import_module(PUBLIC[name]), name)
    return cls
