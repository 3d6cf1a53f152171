"""Parameters that subclasses share with their base, by name."""

from __future__ import annotations

import re
from inspect import Signature, signature

_SECTIONS = re.compile(r"\n    (\w+)\n    -+\n")
_ENTRY = re.compile(r"^    (?=\S)", re.MULTILINE)


def share_parameters(cls: type, base: type) -> None:
    """Give the ``**shared`` of a subclass the names of its base's parameters, in its signature and its docstring.

    The subclass's docstring gains the base's attributes, too.
    """
    own = [p for p in signature(cls.__init__).parameters.values() if p.kind != p.VAR_KEYWORD]  # type: ignore[misc]
    names = {p.name for p in own}  # a subclass may have other defaults
    shared = [p for p in signature(base.__init__).parameters.values() if p.name not in names]  # type: ignore[misc]
    cls.__init__.__signature__ = Signature([*own, *shared])  # type: ignore[misc, attr-defined]
    if cls.__doc__ and base.__doc__ and "**shared" in cls.__doc__:
        cls.__doc__ = _with_shared(cls.__doc__, base.__doc__)


def _with_shared(own: str, base: str) -> str:
    """Return a docstring with the entries of another one's sections that it has not."""
    mine, theirs = _parsed(own), _parsed(base)
    mine["Parameters"] = [entry for entry in mine["Parameters"] if not entry.startswith("**shared")]
    for section, entries in theirs.items():
        here = mine.setdefault(section, [])
        named = {name for entry in here for name in _names(entry)}
        here.extend(entry for entry in entries if not named & _names(entry))
    head = own[: next(_SECTIONS.finditer(own)).start()].rstrip()
    listed = (f"    {name}\n    {'-' * len(name)}\n" + "".join(f"    {e}" for e in mine[name]) for name in mine)
    return head + "\n\n" + "\n".join(listed) + "    "


def _parsed(docstring: str) -> dict[str, list[str]]:
    """Return the entries of each section of a numpydoc docstring that is indented once."""
    _, *parts = _SECTIONS.split(docstring)
    return {
        name: [f"{entry.rstrip()}\n" for entry in _ENTRY.split(body.rstrip()) if entry.strip()]
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def _names(entry: str) -> set[str]:
    """Return the names of an entry, ``a, b : int``."""
    return set(entry.split(":")[0].strip().split(", "))
