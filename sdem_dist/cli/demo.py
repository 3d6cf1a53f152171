"""``sdem demo``: from text to trained classifiers, on the data set of the tutorial."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Literal

import click

import sdem_dist
from sdem_dist.cli.console import table
from sdem_dist.cli.options import LocalPath, option
from sdem_dist.counted import counted, metric_of


@click.command()
@option("--folder", LocalPath(file_okay=False), "Output folder.", default=Path("sdem-demo"))
@option("--workers", click.IntRange(1), "Number of Dask worker processes.", default=2)
def demo(folder: Path, workers: int) -> None:
    """Train naive Bayes with each loss on the tutorial's data set, and compare the results.

    Copies the data set to the output folder, and trains on a Dask cluster on this machine in less than a minute.
    """
    from matplotlib.figure import Figure

    from sdem_dist import plots
    from sdem_dist.cluster import connected
    from sdem_dist.reports.top_words import word_weights

    started = time.perf_counter()

    def say(what: str) -> None:
        click.echo(f"{time.perf_counter() - started:5.1f} s  {what}")

    folder.mkdir(parents=True, exist_ok=True)
    data, train, test = Path(sdem_dist.__file__).with_name("data"), folder / "train.zarr", folder / "test.zarr"
    for path, vocabulary_from in ((train, None), (test, train)):
        name = f"speeches-{path.stem}.csv.xz"
        source = shutil.copyfile(data / name, folder / name)
        report = sdem_dist.ingest(source, path, vocabulary_from=vocabulary_from, overwrite=True)
        say(f"ingested {source}: {report.n_documents:,} documents, {report.n_features:,} words: {path}")
    corpus, test_corpus = map(sdem_dist.open_corpus, (train, test))
    models: dict[str, sdem_dist.MultinomialNB] = {}
    losses: tuple[Literal["hinge", "ncll", "nll"], ...] = ("nll", "ncll", "hinge")
    with connected(n_workers=workers) as client:
        say(f"started a Dask cluster with {counted(workers, 'worker process', 'worker processes')}")
        for loss in losses:
            model = sdem_dist.MultinomialNB(loss=loss, n_epochs="auto" if loss == "nll" else 15)
            models[loss.upper()] = model.fit(corpus, client=client, validation=test_corpus)
            model.save(folder / f"{loss}.model")
            say(f"trained with {loss.upper()}: {folder / f'{loss}.model'}")
    histories, metrics = {name: model.history_ for name, model in models.items()}, ("accuracy", "ncll", "hinge")
    last = {name: history[-1] for name, history in histories.items()}
    rows: list[tuple[str, ...]] = [("loss", *(metric_of(metric).name for metric in metrics))]
    rows += [(name, *(f"{entry[f'validation_{metric}']:,.4f}" for metric in metrics)) for name, entry in last.items()]
    click.echo(table("On the test documents", rows))
    best = max(last, key=lambda name: last[name]["validation_accuracy"])
    words = [(str(label), " ".join(words)) for label, words in word_weights(models[best]).items()]
    click.echo(table(f"Most indicative words of each class ({best})", words))
    figure = Figure(figsize=(11, 4), layout="constrained")
    for metric, axes in zip(metrics, figure.subplots(1, len(metrics)), strict=True):
        plots.history(histories, metric, axes, prefix="validation_")
    figure.savefig(folder / "curves.png", dpi=110)
    say(f"metrics of the test documents by epoch: {folder / 'curves.png'}")
    click.echo(f"\nTry it: echo 'The railroads ask for silver.' | sdem predict {folder / f'{best.lower()}.model'} -")
