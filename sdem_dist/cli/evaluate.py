"""``sdem evaluate``, ``report``, ``calibrate`` and ``explain``: how good a model is, and why it predicts so."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

import sdem_dist
from sdem_dist.cli import console
from sdem_dist.cli.cluster import ClusterOptions, cluster_options
from sdem_dist.cli.ingest import documents_of, is_source
from sdem_dist.cli.options import LocalPath, Place, Source, SourceCommand, format_option, option, source_options
from sdem_dist.counted import counted, nearest
from sdem_dist.errors import ModelError
from sdem_dist.storage.encoding import to_json


@click.command(cls=SourceCommand, no_args_is_help=True)
@click.argument("model", type=Place())
@click.argument("corpus")
@option("--report full", None, "Also show metrics by class and frequent confusions.")
@option("--errors", Place(), "Write wrong predictions to .csv, .tsv, .jsonl or .parquet.", metavar="FILE")
@console.overwrite_option
@option("--particles", click.IntRange(1, 10_000), "Number of particles of the left-to-right estimate.", metavar="N")
@option("--json as_json", None, "Print one JSON object instead of a table.")
@source_options
@cluster_options
def evaluate(model: Path, corpus: str, source: Source, cluster: ClusterOptions, **options: Any) -> None:
    """Measure MODEL on CORPUS: for classifiers accuracy, log-loss (NCLL), macro-F1 and how far to trust probabilities.

    Log-loss is the mean of -ln p(class | document); macro-F1 the mean of the classes' F1; the Brier score the mean
    squared distance of probabilities from the truth; the calibration error (ECE) the mean distance of accuracy from
    confidence, over 15 equal bins. Models trained by --loss nll also show -ln p(document, class) (NLL) and perplexity.
    After other trainings these mean little; --json has them in any case.

    Several labels for each document: accuracy (all labels right), micro- and macro-F1, precision at k (the share of
    right labels among the k most probable), log-loss per label. Regressors: R2 and mean squared error. Mixtures: -ln
    p(document) and perplexity. LatentDirichletAllocation: minus the log-likelihood of a word by the left-to-right
    estimator, and its perplexity. The plug-in value is of topics found from the same words, and therefore too low.

    --errors writes wrong predictions, the most confident first, with their telling words; of a regressor all documents,
    the largest error first. Of several labels it writes the documents that get a wrong label or lack one, and the words
    for and against the label that is most wrong. Between labels stands |; where a label has one itself they are a JSON
    list. The form of the FILE is that of sdem predict. Open it with care: a spreadsheet takes cells that begin with
    = + - or @ for formulas.

    --report adds precision, recall and F1 by class, the most frequent confusions, and of two classes the areas under
    the ROC and the precision-recall curve; sizes of clusters; shares of topics. --report and --errors work in this
    process, and show no texts of a source that workers read. --particles is instead of the model's own number: more
    are less noisy, and slower.

    CORPUS may be a source, too: a file or a folder as sdem ingest reads them, for a model that was trained on text.
    Workers count it into a hidden folder beside MODEL, which all of them have to see; it is removed at the end. A
    corpus must have the vocabulary of the training corpus (sdem ingest --vocabulary-from, or --held-out).
    """
    from sdem_dist.reports.report import named
    from sdem_dist.reports.reporting import mistakes, was_trained_on
    from sdem_dist.reports.table_files import SUFFIXES, part_of, write_table

    is_source(corpus)  # raises where there is nothing
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
            blocks = mistakes(estimator, report, documents)
            write_table(errors, (part_of(errors.suffix.lower(), block) for block in blocks))
            by_place = isinstance(documents.ids_at([0])[0], int)  # the corpus of a source is removed below
        if was_trained_on(estimator, documents):
            click.echo(f"{model} was trained on {corpus}: expect worse results on new documents", err=True)
    if full:  # only a report has these; its log-loss is "ncll" of the metrics
        metrics = {name: value for name, value in report.figures.items() if name != "log_loss"} | metrics
    if options["as_json"]:
        click.echo(json.dumps(to_json((report.to_dict() if full else {}) | metrics, lambda v: None), allow_nan=False))
    else:
        hidden = console.without_label(documents) if estimator.spec.target == "labels" else 0
        if hidden:
            click.echo(f"{counted(hidden, 'document')} without a label skipped", err=True)
        unshown, header = console.unshown_metrics(estimator), documents.header
        weighted = header.layout == "sparse" and (header.weighted or estimator.weighting_ is not None)
        note = "per weighted word" if weighted else "per word"
        figures = named({name: value for name, value in metrics.items() if name not in unshown})
        rows = [(name, f"{value:.4f}", note if name == "perplexity" else "") for name, value in figures.items()]
        title = f"{counted(documents.n_documents - hidden, 'document')} of {corpus}"
        click.echo(console.table(title, rows, numbers=(1,)), nl=False)
        if full:
            console.say(f"\n{report.details()}")
    if errors is not None:
        places = "; ids are document numbers, from 0" if by_place else ""
        click.echo(f"wrote errors to {errors}{places}", err=True)


@click.command(cls=SourceCommand, no_args_is_help=True)
@click.argument("model", type=Place())
@click.argument("corpus")
@option("-o --output", LocalPath(), "The page.", default="report.html", metavar="FILE")
@console.overwrite_option
@source_options
def report(model: Path, corpus: str, output: Path, overwrite: bool, source: Source) -> None:
    """Write one page of HTML about MODEL and how it does on CORPUS, which may be a source, too.

    It shows what the model is, curves of its training, figures by class, the confusion matrix, how far its
    probabilities can be trusted, and words by class. Where the texts are there, it has examples of errors with the
    words that decided. Of topics it shows words, shares by class and example documents. The page needs no network, and
    prints well.
    """
    from sdem_dist.reports.page import report_page, write_page

    console.check_output(output, (model, corpus), overwrite, (".html", ".htm"))
    estimator = sdem_dist.load_model(model)
    with documents_of([corpus], source, estimator, keep_text=True) as documents:
        write_page(output, f"{model.name}: report", report_page(estimator, documents, model.name, corpus))
    console.say(f"{output}: {output.stat().st_size / 1e6:.2f} MB")


@click.command(cls=SourceCommand, no_args_is_help=True)
@click.argument("model", type=Place())
@click.argument("corpus")
@option("-o --output", Place(), "Output model.  [default: MODEL]", metavar="FILE")
@console.overwrite_option
@source_options
def calibrate(model: Path, corpus: str, output: Path | None, overwrite: bool, source: Source) -> None:
    """Prepare MODEL for sdem predict --coverage, by labelled documents that had no part in its training.

    CORPUS, or a source as for sdem evaluate, may be what sdem ingest --held-out put aside. Its documents must not have
    taken part in training, nor in choosing training time (as a validation corpus with --patience). The documents that
    naive Bayes holds out by itself take part in both, so they cannot serve here.
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
    console.say(f"{target}: {counted(sum(sizes), 'document')}")
    if few:
        share, they = ("has a threshold", "it is") if few == 1 else ("share one threshold, which is", "they are")
        which = f"{counted(few, 'class', 'classes')} with fewer than {FEW_OF_CLASS} documents"
        limit = f"with --coverage above {pooled / (pooled + 1):.4g} {they} in every set"
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
    """Say why MODEL gives each TEXT its class or number. Without a TEXT, or with -, lines of standard input are read.

    Shows the log-odds of the predicted class against another as a sum: of the words (how often each occurs, as the
    model weighs it, times ln p(word | class) / p(word | other class)) and of the classes' prior probabilities. Of topic
    models the topics of the text come first. Of a regressor the sum is of what topics and words add to the mean of
    training. Words that speak for the prediction are blue, those against it orange; without colours they stand in
    brackets with their parts.
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
