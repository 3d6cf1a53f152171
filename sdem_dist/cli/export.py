"""``sdem export``: a model for places where this package is not installed."""

from pathlib import Path

import click

import sdem_dist
from sdem_dist.cli.console import check_output, overwrite_option, say
from sdem_dist.cli.options import LocalPath, Place


@click.command(no_args_is_help=True)
@click.argument("model", type=Place())
@click.argument("file", type=LocalPath())
@click.option("--onnx", "form", flag_value=".onnx", help="An ONNX file, for onnxruntime: from text if it can.")
@click.option("--sklearn", "form", flag_value=".skops", help="A scikit-learn pipeline as a skops file: from text.")
@click.option("--from-counts", is_flag=True, help="Leave out the step from text to counts.")
@overwrite_option
def export(model: Path, file: Path, form: str | None, from_counts: bool, overwrite: bool) -> None:
    """Write MODEL to FILE for other programs; without an option the suffix says the format, .onnx or .skops.

    A scikit-learn pipeline predicts from text, like MODEL, and is read by skops.io.load(FILE, trusted=...). An ONNX
    file takes texts, too, where operators of onnxruntime count them as MODEL does; else it takes counts of words, in
    double precision, and the command says why. The words and how texts are counted are in its metadata.
    """
    from sdem_dist.export import save_onnx, save_skops, why_from_counts

    form = form or file.suffix.lower()
    if form not in (".onnx", ".skops"):
        raise click.UsageError(f"say --onnx or --sklearn: the suffix of {file} does not")
    check_output(file, (model,), overwrite)
    estimator = sdem_dist.load_model(model)
    if form == ".onnx":
        save_onnx(estimator, file, from_counts=from_counts)
        why = "" if from_counts else why_from_counts(estimator)
        takes = f"counts of {estimator.n_features_in_:,} words, double" if from_counts or why else "texts"
        say(f"{file}: ONNX; takes {takes}, and gives label and probabilities{f' ({why})' if why else ''}")
        return
    save_skops(estimator, file, from_counts=from_counts)
    of_text = not from_counts and (estimator.vectorizer_ or {"kind": "matrix"})["kind"] != "matrix"
    say(f"{file}: scikit-learn pipeline (skops); takes {'texts' if of_text else 'numbers'}")
