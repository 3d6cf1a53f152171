"""``sdem evaluate``, ``report``, ``calibrate`` and ``explain``: quality and explanations of predictions."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

import sdem_dist
from sdem_dist.cli import console
from sdem_dist.cli.cluster import ClusterOptions, cluster_options
from sdem_dist.cli.ingest import documents_of, is_source
from sdem_dist.cli.options import LocalPath, Place, Source, SourceCommand, format_option, option, source_options
from sdem_dist.counted import by_metric_name, counted, nearest
from sdem_dist.errors import ModelError
from sdem_dist.storage.encoding import to_json


@click.command(cls=SourceCommand, no_args_is_help=True)
@click.argument("model", type=Place())
@click.argument("corpus")
@option("--report full", None, "Also show metrics by class and frequent confusions.")
@option("--errors", Place(), "Write wrong predictions to a .csv, .tsv, .jsonl or .parquet file.", metavar="FILE")
@console.overwrite_option
@option("--particles", click.IntRange(1, 10_000), "Number of particles for the left-to-right estimate.", metavar="N")
@option("--json as_json", None, "Print one JSON object instead of a table.")
@source_options
@cluster_options
def evaluate(model: Path, corpus: str, source: Source, cluster: ClusterOptions, **options: Any) -> None:
    """Report accuracy, log-loss, macro-F1, Brier score and calibration error of MODEL on CORPUS (or a source).

    Log-loss (NCLL) is the mean of -ln p(class | document); the Brier score is the mean squared error of probabilities;
    the calibration error (ECE) is the mean absolute difference between accuracy and confidence over 15 bins. For
    models trained with --loss nll, and always with --json, NLL (-ln p(document, class)) and perplexity are added.

    For several labels per document, the metrics are accuracy (all labels correct), micro- and macro-F1, precision at k,
    and log-loss per label; for regression, R2 and mean squared error; for mixtures, -ln p(document) and perplexity; for
    topic models without labels, perplexity and NLL per word (by the left-to-right algorithm).

    --errors writes wrong predictions, most confident first, with the decisive words; for regression, it writes all
    documents, largest error first. With several labels, it writes documents with a wrong or missing label, and words
    for and against the label with the largest error. Labels are separated by |, or are a JSON list if a label contains
    |. Spreadsheets interpret cells that begin with = + - or @ as formulas.

    --report adds precision, recall and F1 by class, frequent confusions, and, for two classes, areas under the ROC
    and precision-recall curves; for clusters, their sizes; for topics, their shares. --report and --errors are computed
    in this process. With --workers, their output does not contain the texts of a source.

    Workers need access to a hidden folder next to MODEL, where they write the word counts of a source. A corpus must
    have the vocabulary of the training corpus (sdem ingest --vocabulary-from, or --held-out).
    """
    from sdem_dist.reports.reporting import mistakes, was_trained_on
    from sdem_dist.reports.table_files import SUFFIXES, part_of, write_table

    is_source(corpus)  # raises if nothing exists there
    errors, full = options["errors"], options["full"]
    if errors is not None:
        console.check_output(errors, (model, corpus), options["overwrite"], SUFFIXES)
    estimator = sdem_dist.load_model(model)
    if errors is not None and estimator.spec.predicts not in ("class", "number"):
        raise click.UsageError(f"--errors needs a classifier or regressor; {model} is neither")
    if options["particles"] is not None and "word_nll" not in estimator.spec.shown:
        raise click.UsageError("--particles applies to LatentDirichletAllocation only")
    if options["particles"] is not None:
        estimator.set_params(n_particles=options["particles"])
    beside, with_texts = None if cluster.is_local else model, errors is not None and cluster.is_local
    with (
        cluster.client() as client,
        documents_of([corpus], source, estimator, beside=beside, client=client, keep_text=with_texts) as documents,
    ):
        metrics = estimator.evaluate(documents, client=client)
        report: Any = estimator.report(documents) if full or errors is not None else None
        if errors is not None:
            write_table(errors, (part_of(errors.suffix.lower(), b) for b in mistakes(estimator, report, documents)))
            by_place = isinstance(documents.ids_at([0])[0], int)  # a source has a temporary corpus, removed below
        if was_trained_on(estimator, documents):
            click.echo(f"{model} was trained on {corpus}: expect worse results on new documents", err=True)
    if full:  # only in a report; its log-loss is the metric "ncll"
        metrics = {name: value for name, value in report.figures.items() if name != "log_loss"} | metrics
    if options["as_json"]:
        click.echo(json.dumps(to_json((report.to_dict() if full else {}) | metrics, lambda v: None), allow_nan=False))
    else:
        if hidden := console.without_label(documents) * (estimator.spec.target == "labels"):
            click.echo(f"skipped {counted(hidden, 'document')} without a label", err=True)
        unshown, header = console.unshown_metrics(estimator), documents.header
        weighted = header.layout == "sparse" and (header.weighted or estimator.weighting_ is not None)
        complete = "documents with all labels correct" if estimator.several_labels else ""
        notes = {"perplexity": f"per {'weighted ' * weighted}word", "accuracy": complete}
        figures = by_metric_name({name: value for name, value in metrics.items() if name not in unshown})
        rows = [(name, f"{value:.4f}", notes.get(name, "")) for name, value in figures.items()]
        title = f"{counted(documents.n_documents - hidden, 'document')} from {corpus}"
        click.echo(console.table(title, rows, numbers=(1,)), nl=False)
        if full:
            console.say(f"\n{report.details()}")
    if errors is not None:
        places = "; IDs are document numbers, starting at 0" if by_place else ""
        click.echo(f"wrote errors to {errors}{places}", err=True)


@click.command(cls=SourceCommand, no_args_is_help=True)
@click.argument("model", type=Place())
@click.argument("corpus")
@option("-o --output", LocalPath(), "Output page.", default="report.html", metavar="FILE")
@console.overwrite_option
@source_options
def report(model: Path, corpus: str, output: Path, overwrite: bool, source: Source) -> None:
    """Write an HTML report of MODEL on CORPUS, which may be a source.

    The page shows the model, learning curves, metrics by class, the confusion matrix, calibration and indicative words,
    and examples of errors if texts are available. For topic models, it shows the words, shares by class and example
    documents of each topic. The page works offline.
    """
    from sdem_dist.reports.page import report_page, write_page

    console.check_output(output, (model, corpus), overwrite, (".html", ".htm"))
    estimator = sdem_dist.load_model(model)
    with documents_of([corpus], source, estimator, keep_text=True) as documents:
        write_page(output, f"{model.name}: report", report_page(estimator, documents, model.name, corpus))
    console.say(f"wrote {output} ({output.stat().st_size / 1e6:.2f} MB)")


@click.command(cls=SourceCommand, no_args_is_help=True)
@click.argument("model", type=Place())
@click.argument("corpus")
@option("-o --output", Place(), "Output model.  [default: MODEL]", metavar="FILE")
@console.overwrite_option
@source_options
def calibrate(model: Path, corpus: str, output: Path | None, overwrite: bool, source: Source) -> None:
    """Calibrate prediction sets (sdem predict --coverage) with labelled documents, and update MODEL or write FILE.

    CORPUS, which may be a source, must not have been used for training or for choosing the number of epochs
    (--validation). Use documents held out by sdem ingest --held-out, not those that training holds out.
    """
    from sdem_dist.estimators.predictions import FEW_OF_CLASS, EngineClassifier

    target, inputs = output or model, () if output is None else (corpus,)
    console.check_output(target, inputs, overwrite or target.resolve() == model.resolve(), kind="model")
    estimator = sdem_dist.load_model(model)
    if not isinstance(estimator, EngineClassifier):
        raise click.ClickException(f"{model} is a {type(estimator).__name__}: prediction sets need a classifier")
    with documents_of([corpus], source, estimator) as held_out:
        estimator.calibrate_sets(held_out)
    estimator.save(target)
    sizes = [len(scores) for scores in estimator.set_scores_]
    few, pooled = sum(size < FEW_OF_CLASS for size in sizes), sum(size for size in sizes if size < FEW_OF_CLASS)
    console.say(f"{target}: calibrated with {counted(sum(sizes), 'document')}")
    if few:
        share, they = ("uses a threshold computed", "it is") if few == 1 else ("share a threshold computed", "they are")
        which = f"{counted(few, 'class', 'classes')} with fewer than {FEW_OF_CLASS} documents"
        limit = f"with --coverage above {pooled / (pooled + 1):.4g}, {they} in every prediction set"
        console.say(f"{which} {share} from {counted(pooled, 'document')}: {limit}")


@click.command(no_args_is_help=True)
@click.argument("model", type=Place())
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@option("--against", "CLASS", "Compare the prediction with this class.  [default: the second most probable]")
@option("--json as_json", None, "Print one JSON object per text, with all words and their positions.")
@option("--html", LocalPath(), "Write an HTML page with highlighted words.", metavar="FILE")
@console.overwrite_option
@format_option("lines", "tsv", "csv", "jsonl", "parquet")
@option("--text --text-column", "COLUMN", "Text column of standard input.  [default: text]")
def explain(model: Path, texts: tuple[str, ...], against: str | None, html: Path | None, **options: Any) -> None:
    """Explain the prediction of MODEL for each TEXT, or (without TEXT, or with -) for each line of standard input.

    Shows the log-odds of the predicted class against another class as a sum over words and the class prior. A word
    contributes its weighted count times ln [p(word | class) / p(word | other class)]. Topic models list topics first;
    regressors explain the deviation from the training mean. Words for the prediction are blue, and words against it are
    orange. Without colours, they are in brackets, with their contributions.
    """
    from sdem_dist.reports.page import write_page
    from sdem_dist.text import Reading
    from sdem_dist.text.splits import predict_splits
    from sdem_dist.text.texts import RowValidator

    piped = {name: options[name] for name in ("format", "text")}
    if html is not None and options["as_json"]:
        raise click.UsageError("choose either --html or --json")
    if texts in ((), ("-",)):
        if sys.stdin.isatty():
            raise click.UsageError("pass a text in quotes, or pipe texts into standard input, one per line")
        splits = predict_splits(Path("-"), Reading(**piped), 1 << 12, keep=False)
        texts = tuple(text for split in splits for block in split.read(RowValidator()) for text in block.texts)
    elif any(value is not None for value in piped.values()):
        raise click.UsageError("--format and --text apply to standard input only")
    elif files := [text for text in texts if "." in text and os.path.isfile(text)]:  # a word may name a file, too
        raise click.UsageError(f"{files[0]} is a file: use sdem explain {model} < {files[0]} (CSV: add --format csv)")
    if not texts:
        raise click.ClickException("no text to explain")
    if html is not None:
        console.check_output(html, (model,), options["overwrite"])
    estimator: Any = sdem_dist.load_model(model)
    predicts, rival = estimator.spec.predicts, list[object]()
    if predicts not in ("class", "number"):
        raise ModelError(f"{model} is a {type(estimator).__name__}, but explain needs a classifier or regressor")
    if against is not None and predicts == "number":
        raise click.UsageError(f"--against needs a classifier; {model} predicts numbers")
    if against is not None:
        classes = {str(c): c for c in estimator.classes_.tolist()}
        if against not in classes:
            valid = f"{', '.join(list(classes)[:10])}{', ...' if len(classes) > 10 else ''}"
            raise click.ClickException(f"Unknown class {against!r}. {nearest(against, classes)}Valid: {valid}")
        rival.append(classes[against])
    explanations = estimator.explain(list(texts), *rival)
    if html is not None:
        write_page(html, "Explanations", explanations._repr_html_())
        console.say(f"wrote {html}")
    elif options["as_json"]:
        click.echo("\n".join(json.dumps(explanation.to_dict()) for explanation in explanations))
    else:
        from rich.console import Console
        from rich.text import Text

        terminal = Console(highlight=False, soft_wrap=True)
        for i, explanation in enumerate(explanations):
            click.echo("\n" if i else "", nl=False)
            if not terminal.is_terminal or terminal.no_color or not explanation.text:
                console.say(explanation)
            else:
                console.say(f"{explanation.without_text()}\n")
                terminal.print(Text.assemble(*explanation.styled()))
