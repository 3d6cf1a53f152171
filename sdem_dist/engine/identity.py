"""What a run is: the settings and the corpus that a resumed run must share with the one that wrote the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from reprlib import repr as brief
from typing import Any

from sdem_dist.storage.numbers import to_json


def identity(**parts: Any) -> dict[str, Any]:
    """Return whatever decides the bits of a run as JSON."""
    described: dict[str, Any] = to_json(json.loads(json.dumps(parts, default=str)))
    return described


def differences(now: Any, then: Any, most: int = 3) -> str:
    """Return in words where two identities differ, the first few; empty if nothing is known of one."""
    if not isinstance(now, dict) or not isinstance(then, dict):
        return ""
    a, b = dict(_leaves(now)), dict(_leaves(then))
    found = [
        f"{name} is {brief(a[name]) if name in a else 'not set'}, and was {brief(b[name]) if name in b else 'not set'}"
        for name in sorted({*a, *b})
        if (name in a, a.get(name)) != (name in b, b.get(name))
    ]
    return "; ".join(found[:most] + ["..."] * (len(found) > most))


def _leaves(tree: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value
