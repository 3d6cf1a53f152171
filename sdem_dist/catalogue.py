"""The public names and their modules, read from the stub of the package; and the names of estimators."""

import re
from pathlib import Path

_STUB = Path(__file__).with_name("__init__.pyi").read_text(encoding="utf-8")
PUBLIC = {name: module for module, name in re.findall(r"^from (\S+) import \(?\s*(\w+) as", _STUB, re.MULTILINE)}
"""The module of each public name, imported at the first use of the name."""
ESTIMATORS = tuple(name for name, module in PUBLIC.items() if module.startswith("sdem_dist.estimators."))
"""Names of all estimators: those that files may hold and the command can train."""
