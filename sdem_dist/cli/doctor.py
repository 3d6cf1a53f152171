"""``sdem doctor``: whether a machine or a cluster is fit for training."""

from pathlib import Path

import click

from sdem_dist.cli.parameters import LocalPath, option
from sdem_dist.cli.where import Where
from sdem_dist.counted import counted


@click.command()
@option("--scheduler", "ADDRESS", "Look at the Dask cluster of this scheduler.")
@option("--cluster", "FILE.yaml", "Submit the batch jobs of this file, and look at them.")
@option(
    "--folder",
    LocalPath(file_okay=False, exists=True),
    "Folder of corpora, which workers have to see.",
    default=Path(),
)
@option("--corpus", "CORPUS", "Compare the workers' memory with what its model needs.")
def doctor(scheduler: str | None, cluster: str | None, folder: Path, corpus: str | None) -> None:
    """Say what is right and wrong with this machine, or with a cluster, one line for each finding.

    The exit code is 1 if there is an error: something that makes training fail or break its promises.
    """
    from sdem_dist.cluster.diagnostics import examine, examine_here

    if scheduler is not None and cluster is not None:
        raise click.UsageError("give --scheduler or --cluster, not both")
    size: tuple[int | None, int | None] = (None, None)
    if corpus is not None:
        from sdem_dist import open_corpus

        header = open_corpus(corpus).header
        size = header.n_features, len(header.classes)
    with Where(scheduler, None, cluster).client() as client:
        lines = examine_here() if client is None else examine(client, folder, *size)
    for verdict, topic, text in lines:
        click.echo(f"{verdict:<9}{topic:<12}{text}")
    count = {verdict: sum(line.verdict == verdict for line in lines) for verdict in ("error", "warning")}
    if count["error"]:
        raise click.ClickException(
            f"not fit: {counted(count['error'], 'error')}, {counted(count['warning'], 'warning')}"
        )
    click.echo(f"fit, {counted(count['warning'], 'warning')}" if count["warning"] else "fit")
