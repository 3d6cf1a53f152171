"""Estimators that options describe, and what documents decide of them."""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdem_dist import catalogue
from sdem_dist.cli.console import without_label
from sdem_dist.cli.options import option
from sdem_dist.counted import counted, nearest

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus
    from sdem_dist.estimators.base import EngineEstimator

PARAMETERS = {name: name for name in ("loss", "alpha", "merge", "batch_size", "patience")} | {
    "epochs": "n_epochs",
    "lanes": "n_lanes",
    "rounds": "rounds_per_epoch",
    "seed": "random_state",
}
"""Options, and what estimators call them."""
MOST_LANES = 1 << 16  # so many lanes fit into memory, whatever the documents
LOSS_FORMS = "auto, ncll, hinge, nll, perceptron, hinge:MARGIN, blend:SHARE or blend:SHARE:LOSS"
set_option = option(
    "--set settings",
    "NAME=VALUE",
    "Any parameter of the estimator; the value as in JSON or Python, or a word.  [may be repeated]",
    multiple=True,
)


def parse_loss(text: str) -> object:
    """Return the loss of "hinge", "perceptron", "hinge:2", "blend:.1" (with ncll) or "blend:.1:hinge:2"."""
    from sdem_dist.losses import Blend, Hinge, named

    name, _, rest = text.partition(":")
    problem = ""
    try:
        if name == "hinge" and rest:
            if not 0.0 <= float(rest) < float("inf"):
                raise ValueError("a margin is a finite number from 0 on")
            return Hinge(float(rest))
        if name == "blend":
            share, _, other = rest.partition(":")
            if other.startswith("blend"):
                raise ValueError("a blend is of nll and one loss that is no blend")
            return Blend(named(parse_loss(other or "ncll")), float(share))  # type: ignore[arg-type]
        if text in ("auto", "ncll", "hinge", "nll", "perceptron"):
            return Hinge(0.0) if text == "perceptron" else text
    except (TypeError, ValueError, KeyError) as error:
        problem = f" ({error})"
    raise click.BadParameter(
        f"{text!r} is not a loss{problem}; losses are {LOSS_FORMS}, and --costs FILE for costs of confusions"
    )


def read_costs(path: Path, classes: Sequence[object]) -> object:
    """Return the loss of a CSV file of costs: a row a true class, a column a predicted one, with their names."""
    from sdem_dist.losses import CostSensitiveHinge

    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
        columns, rows = rows[0][1:] if rows else [], rows[1:]
        names = [str(name) for name in classes]
        if not sorted(row[0] for row in rows) == sorted(columns) == sorted(names):
            raise ValueError(f"its first row and first column must name the classes {', '.join(names)}, each once")
        if short := [row[0] for row in rows if len(row) != len(columns) + 1]:
            raise ValueError(f"its row {short[0]} must have {len(columns)} costs, a number for each class")
        costs = {row[0]: dict(zip(columns, row[1:], strict=True)) for row in rows}
        return CostSensitiveHinge(tuple(tuple(float(costs[y][k]) for k in names) for y in names))
    except (OSError, ValueError, csv.Error) as error:
        raise click.UsageError(f"--costs {path}: {error}") from error


def estimator_of(name: str, options: Mapping[str, Any], label_separator: str | None = None) -> EngineEstimator:
    """Return the estimator of a name with the parameters that options set."""
    if name not in catalogue.ESTIMATORS:
        hint = nearest(name, catalogue.ESTIMATORS)
        raise click.UsageError(f"--estimator {name}: {hint}choose one of {', '.join(catalogue.ESTIMATORS)}")
    estimator = catalogue.estimator_class(name)()
    if label_separator is not None and estimator.spec.target == "labels" and not estimator.spec.label_sets:
        raise click.UsageError(
            f"--label-separator is for several labels per document, and {name} learns one: add --estimator MultiLabelNB"
        )
    params = {PARAMETERS[key]: value for key, value in options.items() if key in PARAMETERS and value is not None}
    for setting in options["settings"]:
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--set {setting}: write NAME=VALUE")
        if key in params:
            raise click.UsageError(f"--set {setting}: {key} is given twice")
        params[key] = parse_setting(key, value)
    defaults = estimator.get_params(deep=False)
    for key in params.keys() - defaults.keys():
        raise click.UsageError(f"{name} has no {key}; {nearest(key, defaults)}it has {', '.join(defaults)}")
    return estimator.set_params(**{"verbose": not options.get("quiet", True), **params})


def parse_setting(name: str, text: str) -> object:
    """Return a text read as JSON or as Python, else the text itself."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
        except (RecursionError, MemoryError):
            raise click.UsageError(f"--set {name}={text[:20]}...: its brackets are nested too deep") from None
    return parse_loss(text) if name == "loss" else text


def take_documents(estimator: EngineEstimator, documents: Corpus, options: Mapping[str, Any]) -> None:
    """Let an estimator take counts, and documents without a label, where a corpus has such and no option says more."""
    from sdem_dist.text.validation import NONE

    typed = {setting.partition("=")[0] for setting in options["settings"]}
    if documents.header.layout == "sparse" and hasattr(estimator, "components") and "components" not in typed:
        estimator.set_params(components="multinomial")
        click.echo("The documents are counts of words, so components are multinomials", err=True)
    lanes = estimator.get_params().get("n_lanes")
    if isinstance(lanes, int) and lanes > max(documents.n_documents, MOST_LANES):
        raise click.UsageError(f"n_lanes is {lanes:,}, more than there are documents ({documents.n_documents:,})")
    hidden = without_label(documents)
    if hidden and estimator.spec.unlabelled and estimator.unlabelled is None:
        estimator.set_params(unlabelled=NONE)
        click.echo(f"{counted(hidden, 'document')} without a label", err=True)
