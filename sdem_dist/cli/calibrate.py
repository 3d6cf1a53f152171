"""``sdem calibrate``: documents by which a model gives sets of classes that hold the right one."""

from pathlib import Path

import click

from sdem_dist.cli.outputs import overwrite_option, refuse_existing, refuse_inputs, say
from sdem_dist.cli.parameters import Place, option
from sdem_dist.cli.reading import SourceCommand
from sdem_dist.cli.sources import SourceOptions, examined_documents, source_options
from sdem_dist.counted import counted


@click.command(cls=SourceCommand, no_args_is_help=True)
@click.argument("model", type=Place())
@click.argument("corpus")
@option("-o --output", Place(), "Where the model goes.  [default: MODEL]", metavar="FILE")
@overwrite_option
@source_options
def calibrate(model: Path, corpus: str, output: Path | None, overwrite: bool, source: SourceOptions) -> None:
    """Prepare MODEL for sdem predict --coverage, by labelled documents that had no part in its training.

    CORPUS, or a source as for sdem evaluate, may be what sdem ingest --held-out put aside. Its documents must not have
    taken part in training, nor in choosing training time (as a validation corpus with --patience). The documents that
    naive Bayes holds out by itself take part in both, so they cannot serve here.
    """
    from sdem_dist import load_model
    from sdem_dist.estimators.classifier import EngineClassifier
    from sdem_dist.saving import check_destination

    if output is not None:
        refuse_inputs(output, (corpus,))
        refuse_existing(output, overwrite or output.resolve() == model.resolve())
    check_destination(output or model)
    estimator = load_model(model)
    if not isinstance(estimator, EngineClassifier):
        raise click.ClickException(f"{model} is a {type(estimator).__name__}: sets of classes are a classifier's")
    held_out = examined_documents(estimator, corpus, source)
    estimator.calibrate_sets(held_out.documents, held_out.labels)
    estimator.save(output or model)
    sizes = [len(scores) for scores in estimator.set_scores_]
    say(f"{output or model}: {counted(sum(sizes), 'document')}")
    say(_limit(estimator.classes_.tolist(), sizes))


def _limit(classes: list[object], sizes: list[int]) -> str:
    fewest = min(sizes)
    scarce = classes[sizes.index(fewest)]
    if fewest == 0:
        return f"class {scarce!r} has no document: it is in every set, whatever the coverage"
    return (
        f"class {scarce!r} has the fewest, {counted(fewest, 'document')}: above --coverage {fewest / (fewest + 1):.4g} it is in "
        "every set"
    )
