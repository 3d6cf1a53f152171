"""``sdem evaluate``: how good a model is on a corpus, which has labels or targets if the model predicts them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdem_dist.cli.ingest_report import without_label
from sdem_dist.cli.outputs import overwrite_option, say
from sdem_dist.cli.parameters import Place, option
from sdem_dist.cli.reading import SourceCommand
from sdem_dist.cli.sources import (
    SourceOptions,
    documents_of,
    is_source,
    source_options,
)
from sdem_dist.cli.where import Where, where_options
from sdem_dist.counted import counted
from sdem_dist.glossary import UNSHOWN, named
from sdem_dist.storage.encoding import null_for_nan

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator

OF_WORDS = ("nll", "perplexity")
"""Metrics of p(document)."""


@click.command(cls=SourceCommand, no_args_is_help=True)
@click.argument("model", type=Place())
@click.argument("corpus")
@option("--report full", None, "Show figures by class and the most frequent confusions, too.")
@option(
    "--errors",
    Place(),
    "Write the wrong predictions, the most confident first, with their telling words: .csv, .tsv, .jsonl or .parquet. Of a "
    "regressor all documents, the largest error first.",
    metavar="FILE",
)
@overwrite_option
@option(
    "--particles",
    click.IntRange(1, 10_000),
    "Particles of the left-to-right likelihood of topic models, instead of the model's: more are less noisy, and slower.",
    metavar="N",
)
@option("--json as_json", None, "Print one JSON object instead of a table.")
@source_options
@where_options
def evaluate(
    model: Path,
    corpus: str,
    full: bool,
    errors: Path | None,
    overwrite: bool,
    particles: int | None,
    as_json: bool,
    source: SourceOptions,
    where: Where,
) -> None:
    """Measure MODEL on CORPUS: for classifiers accuracy, log-loss (NCLL), macro-F1 and how far to trust probabilities.

    Log-loss is the mean of -ln p(class | document); macro-F1 the mean of the classes' F1; the Brier score the mean
    squared distance of probabilities from the truth; the calibration error (ECE) the mean distance of accuracy from
    confidence, over 15 equal bins. The hinge loss comes last. Models trained by --loss nll also show -ln p(document,
    class) (NLL) and perplexity (a word). After other trainings these mean little; --json has them in any case.

    Several labels for each document: accuracy (all labels right), micro- and macro-F1, precision at k (the share of
    right labels among the k most probable), log-loss per label. Regressors: R2 and mean squared error. Mixtures: -ln
    p(document) (nll) and perplexity. LatentDirichletAllocation: minus the log-likelihood of a word (word_nll), by the
    left-to-right estimator, and its perplexity; compare models by these. The plug-in value (plug_in_nll) takes topics
    that were found from the same words: it is too low, and lower with more topics.

    For a regressor --errors writes all documents, the worst first. Of several labels it writes those that get a wrong
    label or lack one, and the words for and against the label that is most wrong. Between labels stands |; where a
    label has one itself they are a JSON list.

    In a .csv or .tsv FILE control characters are written out (such as ESC), and in .tsv TABs and line ends become
    blanks; .jsonl and .parquet keep texts as they are. Cells that begin with = + - or @ are left as they are, and a
    spreadsheet takes them for formulas: open the FILE with care.

    --report adds precision, recall and F1 by class, the most frequent confusions, and of two classes the areas under
    the ROC and the precision-recall curve; sizes of clusters; shares of topics. --report and --errors work in this
    process, and show no texts of a source that workers read.

    CORPUS may be a source, too: a file or a folder as sdem ingest reads them, for a model that was trained on text.
    Workers count it into a hidden folder beside MODEL, which all of them have to see; it is removed at the end. A
    corpus must have been ingested with the vocabulary of the training corpus (sdem ingest --vocabulary-from, or
    --held-out).
    """
    from sdem_dist import load_model
    from sdem_dist.cli.tables import altered, check_table, write_table
    from sdem_dist.corpus import Corpus
    from sdem_dist.reports.evaluation_set import mistakes, was_trained_on

    is_source(corpus)  # raises where there is nothing
    if errors is not None:
        check_table(errors, (model, corpus), overwrite)
    estimator = load_model(model)
    if errors is not None and estimator.spec.predicts not in ("class", "number"):
        raise click.UsageError(f"--errors is for classifiers and regressors, and {model} is neither")
    if particles is not None:
        if "word_nll" not in estimator.spec.shown:
            raise click.UsageError(f"--particles is for LatentDirichletAllocation, and {model} is another estimator")
        estimator.set_params(n_particles=particles)
    with where.client() as client:
        keep_texts = errors is not None
        with documents_of(estimator, corpus, source, model, client, keep_texts=keep_texts) as examined:
            documents, labels = examined.documents, examined.labels
            metrics = estimator.evaluate(documents, labels, client=client)
            report = estimator.report(documents, labels) if full or errors is not None else None
            if errors is not None:
                n_altered = write_table(errors, mistakes(estimator, report, examined))
                by_place = isinstance(next(iter(examined.ids_of([0]))), int)  # a corpus of workers is removed below
            weighted, n = _weighted(estimator, documents), getattr(documents, "n_documents", None) or documents.shape[0]
            if was_trained_on(estimator, documents):
                click.echo(f"{corpus} is what {model} was trained on: new documents will do worse", err=True)
    if full and report is not None:  # only a report has these; its log-loss is "ncll" of the metrics
        metrics = {name: value for name, value in report.figures.items() if name != "log_loss"} | metrics
    if as_json:
        document = (report.to_dict() if full and report is not None else {}) | metrics
        click.echo(json.dumps(null_for_nan(document), allow_nan=False))
    else:
        if isinstance(documents, Corpus) and estimator.spec.target == "labels" and (hidden := without_label(documents)):
            n -= hidden
            click.echo(f"{counted(hidden, 'document')} without a label left out", err=True)
        say(f"{counted(n, 'document')} of {corpus}")
        _show(metrics, weighted, unshown=() if explains_words(estimator) else OF_WORDS)
        if examined.unknown_share is not None:
            click.echo(f"{examined.unknown_share:.1%} of the words are unknown to the model", err=True)
        if full and report is not None:
            say(f"\n{report.details()}")
    if errors is not None:
        click.echo(
            f"wrote the errors to {errors}{'; their ids count the documents from 0' if by_place else ''}"
            f"{altered(n_altered)}",
            err=True,
        )


def _weighted(estimator: EngineEstimator, documents: Any) -> bool:
    """Return whether the model weighs words, or the corpus has weights for counts."""
    weighted = estimator.weighting_ is not None
    header = getattr(documents, "header", None)
    return weighted if header is None else header.layout == "sparse" and (header.weighted or weighted)


def explains_words(estimator: EngineEstimator) -> bool:
    """Whether p(document) means something: discriminative training of a classifier spoils it."""
    loss = getattr(estimator, "loss_", None) or getattr(estimator, "loss", "nll")
    return estimator.spec.predicts != "class" or loss == "nll"


def _show(metrics: dict[str, float], weighted: bool, unshown: Sequence[str]) -> None:
    figures = named({name: value for name, value in metrics.items() if name not in (*UNSHOWN, *unshown)})
    width = max(map(len, figures), default=0)
    for name, value in figures.items():
        note = " per word, as the model weighs words" if weighted else " per word"
        click.echo(f"  {name:<{width}}{value:12.4f}{note if name == 'perplexity' else ''}")
