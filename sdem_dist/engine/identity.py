"""What a run is: the settings and the corpus that a resumed run must share with the one that wrote the checkpoint."""

import json
from collections.abc import Iterator, Mapping
from reprlib import repr as brief
from typing import cast

from sdem_dist.records import plain
from sdem_dist.storage.numbers import to_json

Json = Mapping[str, object]  # JSON values by name


def identity(**parts: object) -> Json:
    """Return whatever decides the bits of a run as JSON."""
    return cast(Json, to_json(json.loads(json.dumps(parts, default=_described))))


def differences(now: object, then: object, most: int = 3) -> str:
    """Return in words where two identities differ, the first few; empty if nothing is known of one."""
    if not isinstance(now, dict) or not isinstance(then, dict):
        return ""
    a, b = dict(_leaves(now)), dict(_leaves(then))
    found = [
        f"{name}: {brief(a[name]) if name in a else 'not set'}, before {brief(b[name]) if name in b else 'not set'}"
        for name in sorted({*a, *b})
        if (name in a, a.get(name)) != (name in b, b.get(name))
    ]
    return "; ".join(found[:most] + ["..."] * (len(found) > most))


def _described(value: object) -> object:
    described = plain(value)
    return str(value) if described is value else described


def _leaves(tree: Json, path: str = "") -> Iterator[tuple[str, object]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value
