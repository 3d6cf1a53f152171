"""Estimators that options describe, and what documents decide of them."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from sdem_dist import catalogue
from sdem_dist.catalogue import estimator_class
from sdem_dist.cli.ingest_report import without_label
from sdem_dist.cli.parameters import option, parse_loss
from sdem_dist.counted import counted, nearest

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus
    from sdem_dist.estimators.base import EngineEstimator

PARAMETERS = {
    "loss": "loss",
    "alpha": "alpha",
    "epochs": "n_epochs",
    "merge": "merge",
    "lanes": "n_lanes",
    "rounds": "rounds_per_epoch",
    "batch_size": "batch_size",
    "patience": "patience",
    "seed": "random_state",
}
"""Options, and what estimators call them."""
MOST_LANES = 1 << 16  # so many lanes fit into memory, whatever the documents
set_option = option(
    "--set settings",
    "NAME=VALUE",
    "Any parameter of the estimator; the value as in JSON or Python, or a word.  [may be repeated]",
    multiple=True,
)


def estimator_of(options: Mapping[str, Any], target: str | None = None) -> EngineEstimator:
    """Return the estimator that options describe.

    `target`: of the estimators that messages offer; None: of any.

    Raises click.UsageError: there is no such estimator, it has no such parameter, or one is given twice; or it learns
    one label a document, and there may be several.
    """
    name = options["estimator"]
    if name not in catalogue.ESTIMATORS:
        names = ", ".join(catalogue.ESTIMATORS)
        raise click.UsageError(f"--estimator {name}: {nearest(name, catalogue.ESTIMATORS)}choose one of {names}")
    estimator = estimator_class(name)()
    others = {other: estimator_class(other)() for other in catalogue.ESTIMATORS}
    if options["label_separator"] is not None and estimator.spec.target == "labels" and not estimator.spec.label_sets:
        several = " or ".join(f"--estimator {other}" for other, model in others.items() if model.spec.label_sets)
        raise click.UsageError(
            f"--label-separator is for several labels per document, and {name} learns one: add {several}"
        )
    params = {PARAMETERS[key]: value for key, value in options.items() if key in PARAMETERS and value is not None}
    for setting in options["settings"]:
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--set {setting}: write NAME=VALUE")
        if key in params:
            raise click.UsageError(f"--set {setting}: {key} is given twice")
        params[key] = parse_setting(key, value)
    usual = estimator.get_params(deep=False)
    for key in params.keys() - usual.keys():
        having = [
            other
            for other, model in others.items()
            if target in (None, model.spec.target) and key in model.get_params(deep=False)
        ]
        hint = f"{', '.join(having)} do{'es' * (len(having) == 1)} (--estimator); " if having else nearest(key, usual)
        raise click.UsageError(f"{name} has no {key}; {hint}it has {', '.join(usual)}")
    return estimator.set_params(**{"verbose": not options["quiet"], **params})


def parse_setting(name: str, text: str) -> object:
    """Return a text read as JSON or as Python, else the text itself."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
        except (RecursionError, MemoryError):
            raise click.UsageError(f"--set {name}={text[:20]}...: its brackets are nested too deep") from None
    if name == "loss":
        try:
            return parse_loss(text)
        except ValueError as error:
            raise click.UsageError(f"loss={text}: {error}") from None
    return text


def take_documents(estimator: EngineEstimator, documents: Corpus, options: Mapping[str, Any]) -> None:
    """Let an estimator take counts, and documents without a label, where a corpus has such and no option says more.

    Raises click.UsageError: it cannot learn from such documents; the message names the estimators that can.
    """
    from sdem_dist.text.validation import NONE

    layout = documents.header.layout
    in_options = {setting.partition("=")[0] for setting in options["settings"]}
    if layout == "sparse" and hasattr(estimator, "components") and "components" not in in_options:
        estimator.set_params(components="multinomial")
        click.echo("The documents are counts of words, so components are multinomials", err=True)
    if layout not in estimator.layouts:
        kind = getattr(estimator, "components", None)  # of mixtures, where it can be chosen
        name = type(estimator).__name__ + (f" of {kind} components (--set components=...)" if kind else "")
        fit = [other for other in catalogue.ESTIMATORS if layout in estimator_class(other)().layouts]
        raise click.UsageError(
            f"{documents.path} holds {'counts of words' if layout == 'sparse' else 'a table'} ({layout} documents), and "
            f"{name} takes {estimator._layout} ones: take --estimator {', '.join(fit[:-1])} or {fit[-1]}, or write "
            f"{'a table' if layout == 'sparse' else 'counts'} in Python: write_corpus(path, X, y, dense={layout == 'sparse'})"
        )
    lanes = estimator.get_params().get("n_lanes")
    if isinstance(lanes, int) and lanes > max(documents.n_documents, MOST_LANES):
        raise click.UsageError(f"n_lanes is {lanes:,}, more than there are documents ({documents.n_documents:,})")
    hidden = without_label(documents)
    if hidden and estimator.spec.unlabelled and estimator.unlabelled is None:
        estimator.set_params(unlabelled=NONE)
        click.echo(f"{counted(hidden, 'document')} without a label", err=True)
