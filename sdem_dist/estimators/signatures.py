"""Parameters that subclasses share with their base, by name."""

from __future__ import annotations

import re
from inspect import Signature, cleandoc, signature
from textwrap import indent


def share_parameters(cls: type, base: type) -> None:
    """Give the ``**shared`` of a subclass's ``__init__``, and of its docstring, the names of the base's parameters."""
    own = [p for p in signature(cls.__init__).parameters.values() if p.kind != p.VAR_KEYWORD]  # type: ignore[misc]
    names = {p.name for p in own}  # a subclass may have other defaults
    shared = [p for p in signature(base.__init__).parameters.values() if p.name not in names]  # type: ignore[misc]
    cls.__init__.__signature__ = Signature([*own, *shared])  # type: ignore[misc, attr-defined]
    if cls.__doc__ and base.__doc__:  # Python can be told to leave them out
        cls.__doc__ = _with_entries(cls.__doc__, cleandoc(base.__doc__), names)


def _with_entries(doc: str, base: str, names: set[str]) -> str:
    """Return a docstring with the parameters that its base documents, but for some names, in place of ``**shared``."""
    section = base.partition("Parameters\n----------\n")[2].partition("\n\n")[0] + "\n"
    entries = re.findall(r"^\S.*\n(?: {4}.*\n)*", section, re.MULTILINE)
    kept = "".join(e for e in entries if e.partition(" :")[0] not in names)
    return re.sub(r"^ {4}\*\*shared\n {8}.*\n", lambda _: indent(kept, "    "), doc, flags=re.MULTILINE)
