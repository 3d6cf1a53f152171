"""``sdem explain``: which words of a text spoke for its class."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

import sdem_dist
from sdem_dist.cli.console import check_output, overwrite_option, say
from sdem_dist.cli.options import LocalPath, Place, format_option, option
from sdem_dist.counted import nearest
from sdem_dist.errors import ModelError

LINES_AT_ONCE = 1 << 12


@click.command(no_args_is_help=True)
@click.argument("model", type=Place())
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@option("--against", "CLASS", "Compare the prediction with this class.  [default: the runner-up]")
@option("--json as_json", None, "Print one JSON object per text: all words, and where they stand.")
@option("--html", LocalPath(), "Write a page with the words marked instead.", metavar="FILE")
@overwrite_option
@format_option("lines", "tsv", "csv", "jsonl", "parquet")
@option("--text --text-column", "COLUMN", "Column of the text in a pipe.  [default: text]")
def explain(
    model: Path,
    texts: tuple[str, ...],
    against: str | None,
    as_json: bool,
    html: Path | None,
    overwrite: bool,
    **piped: Any,
) -> None:
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
    from sdem_dist.text.validation import RowValidator

    if html is not None and as_json:
        raise click.UsageError("--html and --json are two forms of the same: choose one")
    if texts in ((), ("-",)):
        if sys.stdin.isatty():
            raise click.UsageError("name a text in quotes, or pipe texts into standard input, one per line")
        splits = predict_splits(Path("-"), Reading(**piped), LINES_AT_ONCE, keep=False)
        texts = tuple(text for split in splits for block in split.read(RowValidator()) for text in block.texts)
    elif any(option is not None for option in piped.values()):
        raise click.UsageError("--format and --text are for standard input, and texts are given")
    if not texts:
        raise click.ClickException("there is no text to explain")
    if html is not None:
        check_output(html, (model,), overwrite)
    estimator: Any = sdem_dist.load_model(model)
    predicts = estimator.spec.predicts
    if predicts not in ("class", "number"):
        raise ModelError(f"{model} is a {type(estimator).__name__}, and explain is for classifiers and regressors")
    rival: tuple[object, ...] = ()
    if against is not None:
        if predicts == "number":
            raise click.UsageError(f"--against names a class, and {model} predicts numbers")
        if estimator.several_labels:
            raise click.UsageError(
                "--against is for one label a document; with several, each is compared with all documents without it"
            )
        classes = {str(c): c for c in estimator.classes_.tolist()}
        if against not in classes:
            some = ", ".join(list(classes)[:10]) + (", ..." if len(classes) > 10 else "")
            hint = nearest(against, classes)
            raise click.ClickException(f"{against!r} is not among the model's classes ({some}); {hint}".rstrip("; "))
        rival = (classes[against],)
    explanations = estimator.explain(list(texts), *rival)
    if html is not None:
        body = "".join(f"<section>{explanation._repr_html_()}</section>" for explanation in explanations)
        write_page(html, "Explanations", body)
        say(f"wrote {html}")
        return
    if as_json:
        click.echo("\n".join(json.dumps(explanation.to_dict()) for explanation in explanations))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for i, explanation in enumerate(explanations):
        click.echo("\n" if i else "", nl=False)
        if not console.is_terminal or console.no_color:
            say(str(explanation))
        else:
            say(explanation.without_text())
            console.print()
            console.print(Text.assemble(*explanation.styled()))
