"""``sdem cluster``: what a cluster needs besides its file."""

from pathlib import Path

import click

from sdem_dist.cli.parameters import LocalPath


@click.group()
def cluster() -> None:
    """Prepare a cluster."""


@cluster.command(no_args_is_help=True, short_help="Make certificates and keys in a folder.")
@click.argument("folder", type=LocalPath())
@click.option("--days", type=click.IntRange(1), default=365, show_default=True, help="How long they are valid.")
def certificates(folder: Path, days: int) -> None:
    """Make certificates and keys in FOLDER, so that a cluster's connections are encrypted and strangers refused.

    FOLDER has to be on a filesystem that all machines of the cluster see, and stay readable for you alone. Whoever has
    a key of it can run code as you on the cluster.
    """
    from sdem_dist.cluster.certificates import make_certificates

    path = make_certificates(folder, days)
    click.echo(
        f"{path.parent}: certificates of a scheduler, workers and clients, valid for {days} days\n"
        f"Batch jobs: write   certificates: {path.parent}   under sdem-dist in the cluster file.\n"
        f"Any other cluster: set   DASK_CONFIG={path}   where schedulers, workers and clients start."
    )


@cluster.command(short_help="Print the settings of a worker's environment.")
def environment() -> None:
    """Print the shell commands that set what a worker's environment should have: eval "$(sdem cluster environment)"."""
    from sdem_dist.cluster import ENVIRONMENT

    for name, value in ENVIRONMENT.items():
        click.echo(f"export {name}={value}")
