"""The options that select where a command runs, the client they create, and ``sdem cluster``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sdem_dist.cli.options import LocalPath, filling, option

if TYPE_CHECKING:
    from sdem_dist.cluster.client import Client


@dataclass(frozen=True)
class ClusterOptions:
    """Where a command runs: in this process by default. Options for two places raise an error."""

    scheduler: str | None = None
    workers: int | None = None
    cluster: str | None = None

    def __post_init__(self) -> None:
        gateway = (self.remote_address or "").startswith(("http://", "https://"))  # which starts the workers
        places = self.cluster, self.scheduler, None if gateway else self.workers
        if sum(place is not None for place in places) > 1:
            raise click.UsageError("use only one of --cluster, --scheduler and --workers")

    @property
    def job_file(self) -> str | None:
        return None if self.cluster is None or "://" in self.cluster else self.cluster

    @property
    def remote_address(self) -> str | None:
        """Address or file of a cluster whose workers may not see the files of this process."""
        return self.scheduler or self.cluster

    @property
    def is_local(self) -> bool:
        return self == ClusterOptions()

    @contextmanager
    def client(self, lifetime: str | None = None) -> Iterator[Client | None]:
        """Yield the client that the options select; None for this process."""
        if self.is_local:
            yield None
            return
        from sdem_dist.cluster import batch_jobs, connected  # imports Dask

        connection = connected(self.remote_address, self.workers)
        if self.job_file is not None:
            connection = batch_jobs(self.job_file, lifetime, say=lambda line: click.echo(line, err=True))
        with connection as client:
            yield client


_SCHEDULER = """Run on the Dask cluster at this scheduler address (tcp://host:port, or a scheduler file), or on a new
cluster of a Dask Gateway (https://host, with --workers)."""
_OPTIONS = (
    option("--scheduler", "ADDRESS", _SCHEDULER),
    option("--workers", 1, "Run on N Dask workers, local or from a gateway.  [default: threads of this process]"),
    option("--cluster", "FILE.yaml", "Run in batch jobs (Slurm, PBS, SGE, LSF) that this file configures."),
)
cluster_options = filling("cluster", ClusterOptions, _OPTIONS)


@click.group()
def cluster() -> None:
    """Prepare a cluster."""


@cluster.command(no_args_is_help=True, short_help="Create certificates and keys in a folder.")
@click.argument("folder", type=LocalPath())
@option("--days", click.IntRange(1), "Days until the certificates expire.", default=365)
def certificates(folder: Path, days: int) -> None:
    """Create certificates and keys in FOLDER. Clusters that use them encrypt and authenticate all connections.

    All machines of the cluster need access to FOLDER. Do not let other users read it: anyone with a key can run code
    as you on the cluster.
    """
    from sdem_dist.cluster.client import make_certificates

    path = make_certificates(folder, days)
    click.echo(
        f"{path.parent}: certificates for a scheduler, workers and clients, valid for {days} days\n"
        f"Batch jobs: add 'certificates: {path.parent}' under sdem-dist in the cluster file.\n"
        f"Other clusters: set DASK_CONFIG={path} for the scheduler, workers and clients."
    )


@cluster.command(short_help="Print the environment variables of a worker.")
def environment() -> None:
    """Print shell commands that set the environment variables of a worker: eval "$(sdem cluster environment)"."""
    from sdem_dist.cluster import ENVIRONMENT

    for name, value in ENVIRONMENT.items():
        click.echo(f"export {name}={value}")
