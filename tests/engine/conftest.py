"""What ends a driver midway."""

from reference.trained_bits import Stop


def killing(at: tuple[type, str, int]):
    """Return a callback that ends the driver at the n-th event of a kind and stage."""
    kind, stage, count = at
    seen = []

    def callback(event) -> None:
        if isinstance(event, kind) and event.stage == stage:
            seen.append(event)
            if len(seen) == count:
                raise Stop

    return callback
