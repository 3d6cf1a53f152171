"""Parameters that subclasses share with their base, by name."""

from __future__ import annotations

from inspect import Signature, signature


def share_parameters(cls: type, base: type) -> None:
    """Give the ``**shared`` of a subclass's ``__init__`` the names of the base's parameters, for scikit-learn and for people."""
    own = [p for p in signature(cls.__init__).parameters.values() if p.kind != p.VAR_KEYWORD]  # type: ignore[misc]
    names = {p.name for p in own}  # a subclass may have other defaults
    shared = [p for p in signature(base.__init__).parameters.values() if p.name not in names]  # type: ignore[misc]
    cls.__init__.__signature__ = Signature([*own, *shared])  # type: ignore[misc, attr-defined]
