"""``sdem demo``: from raw text to predictions, on text that every installation contains."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Literal

import click

import sdem_dist
from sdem_dist.cli.console import table
from sdem_dist.cli.options import LocalPath, option
from sdem_dist.counted import counted, metric_of

LOSSES: tuple[Literal["hinge", "ncll", "nll"], ...] = ("nll", "ncll", "hinge")
METRICS = ("accuracy", "ncll", "hinge", "perplexity")


@click.command()
@option("--folder", LocalPath(file_okay=False), "Output folder.", default=Path("sdem-demo"))
@option("--workers", click.IntRange(1), "Number of Dask worker processes.", default=2)
@option("--epochs", click.IntRange(1), "Number of epochs.", default=15)
def demo(folder: Path, workers: int, epochs: int) -> None:
    """Learn to tell eight installed Python packages apart by their docstrings.

    Ingests the docstrings as a corpus with a held-out part, starts a Dask cluster on this machine, trains naive Bayes
    with each loss, and compares the results. Nothing is downloaded.
    """
    from matplotlib.figure import Figure

    from sdem_dist import plots
    from sdem_dist.cluster import connected
    from sdem_dist.corpus.docstrings import PACKAGES
    from sdem_dist.reports.top_words import word_weights
    from sdem_dist.storage.publish import check_writable
    from sdem_dist.text import VectorizerSettings, collect_docstrings

    folder.mkdir(parents=True, exist_ok=True)
    source, corpus_path, test_path = (folder / f"docstrings{end}" for end in (".jsonl", ".zarr", "-held-out.zarr"))
    check_writable(source)
    started = time.perf_counter()

    def say(what: str) -> None:
        click.echo(f"{time.perf_counter() - started:5.1f} s  {what}")

    say(f"collecting the docstrings of {', '.join(PACKAGES)} (takes a few seconds)")
    texts, labels = collect_docstrings()
    lines = (json.dumps({"label": label, "text": text}) for label, text in zip(labels, texts, strict=True))
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    say(f"collected {len(texts):,} docstrings of {len(set(labels))} packages: {source}")
    settings: dict[str, Any] = {"held_out": 0.2, "held_out_path": test_path, "overwrite": True}
    report = sdem_dist.ingest([source], corpus_path, VectorizerSettings(min_df=2), **settings)
    corpus, test = sdem_dist.open_corpus(corpus_path), sdem_dist.open_corpus(test_path)
    say(f"ingested {report.n_documents:,} training documents, {report.n_features:,} words: {corpus_path}")
    say(f"held out {report.n_held_out:,} documents: {test_path}")
    rows: list[tuple[str, ...]] = [("loss", *(metric_of(name).name for name in METRICS), "documents/s")]
    models: dict[str, sdem_dist.MultinomialNB] = {}
    with connected(n_workers=workers) as client:
        say(f"started a Dask cluster with {counted(workers, 'worker process', 'worker processes')}")
        for loss in LOSSES:
            model = sdem_dist.MultinomialNB(loss=loss, n_epochs=epochs).fit(corpus, client=client, validation=test)
            model.save(folder / f"{loss}.model")
            say(f"trained with {loss.upper()}: {folder / f'{loss}.model'}")
            scores = [f"{model.history_[-1][f'validation_{name}']:,.4f}" for name in METRICS]
            speed = corpus.n_documents * len(model.history_) / sum(entry["seconds"] for entry in model.history_)
            rows.append((loss.upper(), *scores, f"{speed:,.0f}"))
            models[loss] = model
    click.echo(table("On the held-out documents", rows))
    click.echo("Perplexities of tf-idf weights and of word counts are not comparable.\n")
    best = max(models, key=lambda loss: models[loss].history_[-1]["validation_accuracy"])
    words = [(str(name), " ".join(words)) for name, words in word_weights(models[best]).items()]
    click.echo(table(f"Most indicative words of each class ({best.upper()})", words))
    histories = {loss.upper(): model.history_ for loss, model in models.items()}
    figure = Figure(figsize=(11, 7), layout="constrained")
    for name, axes in zip(METRICS, figure.subplots(2, 2).flat, strict=True):
        plots.history(histories, name, axes, prefix="validation_")
    figure.savefig(folder / "curves.png", dpi=110)
    say(f"models: {folder}/*.model; curves on the held-out documents: {folder / 'curves.png'}")
    example = "echo 'Return a lazy array chunked along every axis.'"
    click.echo(f"\nTry it: {example} | sdem predict {folder / f'{best}.model'} -")
