"""How a command ends after an interrupt or a mistake in its options."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from sdem_dist.errors import SdemError


@contextmanager
def told(kept: str | None = None) -> Iterator[None]:
    """Turn mistakes in options into messages, and an interrupt too, which says what is `kept`."""
    try:
        yield
    except KeyboardInterrupt:
        if kept is None:
            raise
        click.echo(f"Interrupted; {kept}.", err=True)
        raise SystemExit(130) from None
    except SdemError:  # these are messages already
        raise
    except (ValueError, ImportError) as error:
        raise click.ClickException(str(error)) from error
