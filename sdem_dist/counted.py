"""Numbers of things, as people say them."""

from __future__ import annotations


def counted(n: int, thing: str, things: str | None = None) -> str:
    """Return "1 epoch", "1,000 epochs"; `things` is a plural that is not `thing` with an s."""
    return f"{n:,} {thing if n == 1 else things or thing + 's'}"
