"""Numbers of things, and names, as people say them."""

from collections.abc import Iterable
from numbers import Integral


def counted(n: int, thing: str, things: str | None = None) -> str:
    """Return "1 epoch", "1,000 epochs"; `things` is a plural that is not `thing` with an s."""
    return f"{n:,} {thing if n == 1 else things or thing + 's'}"


def sized(n_bytes: int) -> str:
    """Return "12.0 MB", or "3.4 kB" where there is less than a tenth of a megabyte."""
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:,.1f} kB"


def is_count(value: object, least: int = 1) -> bool:
    """Say whether a value is a whole number from `least` on; True and 2.0 are none."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a question after the known names that are most like `name`, or nothing where none is."""
    from difflib import get_close_matches

    names = {k.lower(): k for k in known}
    found = get_close_matches(name.lower(), names, n=1) or [k for k in names if name.lower() in k][:3]
    return f"did you mean {' or '.join(names[k] for k in found)}? " if found and name else ""
