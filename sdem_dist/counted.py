"""Numbers of things and names as people say them; texts that a terminal can show."""

import json
import re
from collections.abc import Iterable
from numbers import Integral


def counted(n: int, thing: str, things: str | None = None) -> str:
    """Return "1 epoch", "1,000 epochs"; `things` is a plural that is not `thing` with an s."""
    return f"{n:,} {thing if n == 1 else things or thing + 's'}"


def is_count(value: object, least: int = 1) -> bool:
    """Say whether a value is a whole number from `least` on; True and 2.0 are none."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Return a question after the known names that are most like `name`, or nothing where none is."""
    from difflib import get_close_matches

    names = {k.lower(): k for k in candidates}
    holding = sorted((k for k in names if name.lower() in k), key=lambda k: k.index(name.lower()))
    matches = get_close_matches(name.lower(), names, n=1) or holding[:3]
    return f"did you mean {' or '.join(names[k] for k in matches)}? " if matches and name else ""


UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: object) -> str:
    r"""Return a text with the control characters that terminals obey written out, as ``\x1b``; line ends are ``\n``."""
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), str(text).replace("\r\n", "\n"))


def one_line(text: object, width: int | None = None) -> str:
    """Return a text as one harmless line, cut to `width` characters."""
    line = " ".join(visible(text).split())
    return line if width is None or len(line) <= width else line[: max(width - 1, 0)] + "…"


def joined(names: Iterable[object]) -> str:
    """Return names with | between them; as a JSON list where one has a | itself, so that readers tell them apart."""
    texts = list(map(str, names))
    return json.dumps(texts, ensure_ascii=False) if any("|" in name for name in texts) else "|".join(texts)
