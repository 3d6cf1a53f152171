"""The command ``sdem``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import click

_COMMANDS = {
    "demo": ("sdem_dist.cli.demo", "demo", "Ingest, train and compare on docstrings of installed packages."),
    "ingest": ("sdem_dist.cli.ingest", "ingest", "Turn text, tables or matrices into a corpus."),
    "inspect": ("sdem_dist.cli.inspect", "inspect_command", "Show what is in a corpus or a model, and check it."),
    "train": ("sdem_dist.cli.train", "train", "Train a model on a corpus."),
    "log": ("sdem_dist.cli.log", "log", "Say where the time of a training run went."),
    "evaluate": (
        "sdem_dist.cli.evaluate",
        "evaluate",
        "Measure a model on a corpus, by labels, targets or likelihood.",
    ),
    "predict": ("sdem_dist.cli.predict", "predict", "Predict labels, numbers or clusters of raw texts."),
    "cluster": ("sdem_dist.cli.cluster", "cluster", "Prepare a cluster: certificates, environment."),
    "doctor": ("sdem_dist.cli.doctor", "doctor", "Say whether this machine or a cluster is fit for training."),
}


class LazyGroup(click.Group):
    """A group that imports a command when it is called, so that ``sdem --help`` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which a newcomer meets them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import and return a command."""
        if name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, short) for name, (_, _, short) in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; errors and warnings of the package are messages for the person at the terminal, not code."""
        from sdem_dist.errors import SdemError

        with warnings.catch_warnings():
            warnings.showwarning = partial(_show, warnings.showwarning)
            try:
                return super().invoke(ctx)
            except SdemError as error:
                raise click.ClickException(str(error)) from error


def _show(usual: Callable[..., None], message: Warning | str, category: type[Warning], *where: Any) -> None:
    """Show a warning as words where it is for users, as usual where it is for developers."""
    if category is UserWarning:
        click.echo(f"Warning: {message}", err=True)
    else:
        usual(message, category, *where)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sdem_dist")
def main() -> None:
    """Train generative models of documents discriminatively, over corpora of any size, on Dask.

    \b
    A first look, with nothing to download:   sdem demo
    Your own documents:                       sdem ingest posts.tsv posts.zarr --held-out 0.1
                                              sdem train posts.zarr posts.model
                                              sdem evaluate posts.model posts.zarr-held-out
                                              sdem predict posts.model new.txt
    """  # noqa: D301  click reads the backspace as: leave these lines alone
