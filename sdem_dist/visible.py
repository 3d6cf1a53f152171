"""Untrusted text, made harmless for a terminal."""

import json
import re
from collections.abc import Iterable

UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: object) -> str:
    r"""Return a text with its control characters written out, ESC as ``\x1b``; TABs stay, and all line ends are ``\n``.

    A terminal obeys the others, which may come from anybody's documents: it moves, hides or rewrites what is shown.
    """
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), str(text).replace("\r\n", "\n"))


def one_line(text: object, width: int | None = None) -> str:
    """Return a text as one harmless line, cut to `width` characters."""
    line = " ".join(visible(text).split())
    return line if width is None or len(line) <= width else line[: max(width - 1, 0)] + "…"


def joined(names: Iterable[object]) -> str:
    """Return names with | between them; as a JSON list where one has a | itself, so that readers tell them apart."""
    found = list(map(str, names))
    return json.dumps(found, ensure_ascii=False) if any("|" in name for name in found) else "|".join(found)
