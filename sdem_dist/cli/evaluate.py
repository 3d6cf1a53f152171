"""``sdem evaluate``: how good a model is on a corpus, which has labels or targets if the model predicts them."""

from __future__ import annotations

import json
from pathlib import Path

import click

from sdem_dist.cli.parameters import LocalPath
from sdem_dist.cli.shown import say
from sdem_dist.cli.sources import as_classes, is_source, labelled_counts, source_options
from sdem_dist.cli.where import check_where, client_of, cluster_option, where_options
from sdem_dist.counted import counted

SHOWN = {"ncll": "log-loss (ncll)", "brier": "Brier score", "ece": "calibration error"}
"""What people call metrics."""


@click.command(no_args_is_help=True)
@click.argument("model", type=LocalPath())
@click.argument("corpus")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@source_options
@where_options
@cluster_option
def evaluate(
    model: Path,
    corpus: str,
    as_json: bool,
    label: str | None,
    text: str | None,
    scheduler: str | None,
    workers: int | None,
    cluster: str | None,
) -> None:
    """Measure MODEL on CORPUS: of a classifier accuracy, losses (means a document) and perplexity (a word).

    How far its probabilities can be trusted is said by log-loss, Brier score, and the calibration error (mean distance of
    accuracy from confidence, over 15 equal bins). Of a regressor mean squared error and R2; of a
    mixture -ln p(d) (nll) and perplexity; of LatentDirichletAllocation
    plug_in_nll, minus the log-likelihood of a word given topics that were found from the document's words, that one
    included: less than of words held out.

    CORPUS may be a source, too: a file or a folder as sdem ingest reads them, for a model that was trained on text. A
    corpus must have been ingested with the vocabulary of the training corpus (sdem ingest --vocabulary-from, or
    --held-out).
    """
    check_where(scheduler, workers, cluster)
    from sdem_dist import load_model, open_corpus

    estimator = load_model(model)
    if is_source(corpus) and estimator.spec.target == "labels":
        counts, labels = labelled_counts(estimator, corpus, label, text)
        metrics = estimator.evaluate(counts, as_classes(estimator, labels))
        _show(metrics, corpus, counts.shape[0], estimator.weighting_ is not None, as_json)
        return
    documents = open_corpus(corpus)
    with client_of(scheduler, workers, cluster) as client:
        metrics = estimator.evaluate(documents, client=client)
    of_weights = documents.header.layout == "sparse" and (documents.header.weighted or estimator.weighting_ is not None)
    _show(metrics, corpus, documents.n_documents, of_weights, as_json)


def _show(metrics: dict[str, float], corpus: str, n_documents: int, weighted: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(metrics))
        return
    say(f"{counted(n_documents, 'document')} of {corpus}")
    for name, value in metrics.items():
        if name in ("temperature", "tempered_log_loss"):  # what would serve best here, for those who calibrate
            continue
        note = " (weighted)" if name == "perplexity" and weighted else ""
        click.echo(f"  {SHOWN.get(name, name):<18}{value:12.4f}{note}")
