"""The options of where a command runs, and the client that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from sdem_dist.cluster.client import Client

Command = TypeVar("Command", bound=Callable[..., object])


def where_options(command: Command) -> Command:
    """Add ``--scheduler`` and ``--workers`` to a command."""
    command = click.option(
        "--workers",
        type=click.IntRange(1),
        metavar="N",
        help="Run on N Dask worker processes of this machine, or of a gateway.  [default: threads of this process]",
    )(command)
    return click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Run on the Dask cluster of this scheduler (tcp://host:port, or its scheduler file), or on a new one of a "
        "Dask Gateway (https://host, with --workers).",
    )(command)


def check_where(scheduler: str | None, workers: int | None, cluster: str | None = None) -> None:
    """Refuse two places at once."""
    address = scheduler or cluster
    if address is not None and address.startswith(("http://", "https://")):  # a gateway, which starts the workers
        workers = None
    if cluster is not None and (scheduler is not None or workers is not None):
        raise click.UsageError("give --cluster or one of --scheduler and --workers, not both")
    if scheduler is not None and workers is not None:
        raise click.UsageError("give --scheduler or --workers, not both")


cluster_option = click.option(
    "--cluster",
    metavar="FILE.yaml",
    help="Run on batch jobs (Slurm, PBS, SGE, LSF) as this file says; see deploy/. An address is as --scheduler.",
)


def cluster_options(command: Command) -> Command:
    """Add ``--cluster``, ``--dry-run`` and ``--lifetime`` to a command."""
    for option in (
        click.option(
            "--lifetime",
            metavar="TIME",
            help="With --cluster: retire each worker after about TIME (55m), well before its job's walltime.",
        ),
        click.option("--dry-run", is_flag=True, help="With --cluster: print the job script and stop."),
        cluster_option,
    ):
        command = option(command)
    return command


def check_cluster(cluster: str | None, dry_run: bool, lifetime: str | None) -> None:
    """Refuse options that mean nothing without a file of ``--cluster``."""
    if (cluster is None or "://" in cluster) and (dry_run or lifetime is not None):
        raise click.UsageError("--dry-run and --lifetime need --cluster FILE.yaml")


@contextmanager
def client_of(
    scheduler: str | None, workers: int | None, cluster: str | None = None, lifetime: str | None = None
) -> Iterator[Client | None]:
    """Yield the client that the options ask for, or None."""
    if (scheduler, workers, cluster) == (None, None, None):
        yield None
        return
    from sdem_dist.cluster import batch_jobs, connected  # Dask comes with it

    if cluster is not None and "://" not in cluster:
        with batch_jobs(cluster, lifetime, say=lambda line: click.echo(line, err=True)) as client:
            yield client
    else:
        with connected(cluster or scheduler, workers) as client:
            yield client
