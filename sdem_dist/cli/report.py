"""``sdem report``: a page about a model."""

from pathlib import Path

import click

from sdem_dist.cli.outputs import check_output, overwrite_option, say
from sdem_dist.cli.parameters import LocalPath, Place, option
from sdem_dist.cli.reading import SourceCommand
from sdem_dist.cli.sources import SourceOptions, examined_documents, source_options


@click.command(cls=SourceCommand, no_args_is_help=True)
@click.argument("model", type=Place())
@click.argument("corpus")
@option("-o --output", LocalPath(), "The page.", default="report.html", metavar="FILE")
@overwrite_option
@source_options
def report(model: Path, corpus: str, output: Path, overwrite: bool, source: SourceOptions) -> None:
    """Write one page of HTML about MODEL and how it does on CORPUS, which may be a source, too.

    It shows what the model is, curves of its training, figures by class, the confusion matrix, how far its
    probabilities can be trusted, and words by class. Where the texts are there, it has examples of errors with the
    words that decided. Of topics it shows words, shares by class and example documents. The page needs no network, and
    prints well.
    """
    from sdem_dist import load_model
    from sdem_dist.reports.page import report_page, write_page

    if output.suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"{output}: a report is a page of HTML, so its name ends in .html")
    check_output(output, (model, corpus), overwrite)
    estimator = load_model(model)
    examined = examined_documents(estimator, corpus, source)
    write_page(output, f"{model.name}: report", report_page(estimator, examined, model.name, corpus))
    say(f"{output}: {output.stat().st_size / 1e6:.2f} MB")
