"""``sdem demo``: the whole way, from raw text to predictions, on text that every installation has."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Literal

import click

import sdem_dist
from sdem_dist.cli.console import table
from sdem_dist.cli.options import LocalPath, option
from sdem_dist.counted import counted

LOSSES: tuple[Literal["hinge", "ncll", "nll"], ...] = ("nll", "ncll", "hinge")


@click.command()
@option("--folder", LocalPath(file_okay=False), "Where corpus, models and picture go.", default=Path("sdem-demo"))
@option("--workers", click.IntRange(1), "Dask worker processes.", default=2)
@option("--epochs", click.IntRange(1), "Passes over the documents.", default=15)
def demo(folder: Path, workers: int, epochs: int) -> None:
    """Learn from which of eight installed Python packages a docstring comes.

    Collects the docstrings, ingests them as a zarr corpus with a held-out part, starts a Dask cluster on this machine,
    trains naive Bayes with each loss, and compares. Nothing is downloaded.
    """
    from sdem_dist import plots
    from sdem_dist.cluster import connected
    from sdem_dist.reports.top_words import top_words
    from sdem_dist.storage.publish import check_writable
    from sdem_dist.text import VectorizerSettings, collect_docstrings
    from sdem_dist.text.docstrings import PACKAGES

    folder.mkdir(parents=True, exist_ok=True)
    source, corpus_path, test_path = (folder / f"docstrings{end}" for end in (".jsonl", ".zarr", "-held-out.zarr"))
    check_writable(source)
    started = time.perf_counter()

    def say(what: str) -> None:
        click.echo(f"{time.perf_counter() - started:5.1f} s  {what}")

    say(f"collecting the docstrings of {', '.join(PACKAGES)}; takes some seconds")
    texts, labels = collect_docstrings()
    lines = (json.dumps({"label": label, "text": text}) for label, text in zip(labels, texts, strict=True))
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    say(f"collected {len(texts):,} docstrings of {len(set(labels))} packages: {source}")
    say("ingesting them: counting words, holding a fifth out")
    settings: dict[str, Any] = {"held_out": 0.2, "held_out_path": test_path, "overwrite": True}
    report = sdem_dist.ingest([source], corpus_path, VectorizerSettings(min_df=2), **settings)
    corpus, test = sdem_dist.open_corpus(corpus_path), sdem_dist.open_corpus(test_path)
    say(
        f"ingested {report.n_documents:,} training documents, {report.n_features:,} words, "
        f"{len(corpus.header.shards)} shards: {corpus_path}; held out {report.n_held_out:,}: {test_path}"
    )
    models, scored = {}, {}
    rows: list[tuple[str, ...]] = [("loss", "accuracy", "NCLL", "hinge loss", "perplexity", "documents/s")]
    say("starting a Dask cluster on this machine")
    with connected(n_workers=workers) as client:
        say(f"started a Dask cluster of {counted(workers, 'worker process', 'worker processes')}")
        for loss in LOSSES:
            model = sdem_dist.MultinomialNB(loss=loss, n_epochs=epochs).fit(corpus, client=client, validation=test)
            model.save(folder / f"{loss}.model")
            say(f"trained with {loss.upper()}: {folder / f'{loss}.model'}")
            last, seconds = model.history_[-1], sum(entry["seconds"] for entry in model.history_)
            scores = [last[f"validation_{name}"] for name in ("accuracy", "ncll", "hinge", "perplexity")]
            speed = corpus.n_documents * len(model.history_) / seconds
            rows.append((loss.upper(), *(f"{score:,.4f}" for score in scores), f"{speed:,.0f}"))
            models[loss], scored[loss] = model, scores[0]
    click.echo(table("On the held-out documents", rows))
    click.echo("Perplexity of losses with tf-idf weights cannot be compared with that of words.\n")
    best = max(LOSSES, key=scored.__getitem__)
    words = [(str(name), " ".join(words)) for name, words in top_words(models[best]).items()]
    click.echo(table(f"The words that speak most for each class ({best.upper()})", words))
    picture = folder / "curves.png"
    histories = {loss.upper(): model.history_ for loss, model in models.items()}
    plots.histories(histories, prefix="validation_").savefig(picture, dpi=110)
    say(f"models: {folder}/*.model; curves on the held-out documents: {picture}")
    click.echo(
        f"\nNow yours: echo 'Return a lazy array chunked along every axis.' | sdem predict {folder / f'{best}.model'} -"
    )
