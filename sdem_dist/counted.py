"""Numbers of things, as people say them."""

from __future__ import annotations

from numbers import Integral


def counted(n: int, thing: str, things: str | None = None) -> str:
    """Return "1 epoch", "1,000 epochs"; `things` is a plural that is not `thing` with an s."""
    return f"{n:,} {thing if n == 1 else things or thing + 's'}"


def is_count(value: object, least: int = 1) -> bool:
    """Say whether a value is a whole number from `least` on; True and 2.0 are none."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
