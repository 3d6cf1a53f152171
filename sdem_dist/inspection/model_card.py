"""A model card: what a model is, was trained on, does, and is not for, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.glossary import metric, named
from sdem_dist.inputs.spec import OF_THE_MACHINE
from sdem_dist.inspection.facts import OF_HELD_OUT, model_facts
from sdem_dist.inspection.words import speaking_words
from sdem_dist.reports.classification import ClassificationReport
from sdem_dist.reports.labels import LabelReport
from sdem_dist.reports.table import Table, markdown

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.inspection.reporting import Report


def model_card(model: EngineEstimator, name: str, report: Report | None = None, documents: str = "") -> str:
    """Return the card of a fitted model.

    `report`: how the model does on documents, which `documents` names.
    """
    parts = [f"# {markdown(name)}", *_what(model), *_data(model), *_quality(model, report, documents)]
    parts += [*_words(model), *_limits(model)]
    return "\n\n".join(parts) + "\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return Table(heads, list(rows)).markdown()


def _what(model: EngineEstimator) -> Iterator[str]:
    elsewhere = ("last epoch", "left out", "trained on", *OF_HELD_OUT.values())
    facts = {k: v for k, v in model_facts(model).items() if k not in elsewhere}
    yield "## Model"
    yield _table(("", ""), facts.items())
    yield "Settings in full:"
    settings = {k: v for k, v in model.get_params().items() if k not in OF_THE_MACHINE}
    yield _table(("parameter", "value"), settings.items())


def _data(model: EngineEstimator) -> Iterator[str]:
    yield "## Training data"
    facts = model_facts(model)
    rows: list[tuple[str, str]] = [(k, facts[k]) for k in ("trained on", "left out") if k in facts]
    if model.vectorizer_ is not None:
        made = {k: v for k, v in model.vectorizer_.items() if v not in (None, [], False)}
        rows.append(("text to words", ", ".join(f"{k}: {v}" for k, v in made.items())))
    yield _table(("", ""), rows)
    prior = getattr(model, "class_log_prior_", None) if model.spec.predicts == "class" else None
    if prior is not None:
        shares = np.exp(prior)
        order = np.argsort(-shares, kind="stable").tolist()
        yield "The model's own p(class), which discriminative training moves away from the shares of documents:"
        yield _table(("class", "prior probability"), [(model.classes_[k], f"{shares[k]:.2%}") for k in order])
    yield "Where the documents come from, who labelled them, and under which licence: to be filled in."


def _quality(model: EngineEstimator, report: Report | None, documents: str) -> Iterator[str]:
    yield "## Quality"
    kept = {k: v for k, v in model.kept_.items() if k not in ("epoch", "seconds")}
    for prefix, where in (
        ("held_out_", "documents that training held out"),
        ("validation_", "held-out documents that training was given"),
    ):
        found = {metric(k.removeprefix(prefix), prefix).name: v for k, v in kept.items() if k.startswith(prefix)}
        if found:
            yield f"On {where}: " + ", ".join(f"{markdown(k)} {v:.4g}" for k, v in found.items()) + "."
    if report is None:
        yield "Figures by class are not known from training: `sdem inspect MODEL --card --on CORPUS` measures them."
        return
    yield f"On the {report.n_documents:,} documents of {markdown(documents)}:"
    yield _table(("figure", "value"), [(k, f"{v:.4f}") for k, v in named(report.figures).items()])
    if isinstance(report, LabelReport):
        yield report.tables()[0].markdown()
    if isinstance(report, ClassificationReport):
        frame = zip(
            report.classes.tolist(), report.precision, report.recall, report.f1, report.support.tolist(), strict=True
        )
        rows = sorted(frame, key=lambda row: float(row[3]))
        heads = ("class", "precision", "recall", "F1", "documents")
        yield _table(heads, [(c, f"{p:.3f}", f"{r:.3f}", f"{f:.3f}", f"{n:,}") for c, p, r, f, n in rows])


def _words(model: EngineEstimator) -> Iterator[str]:
    said = speaking_words(model)
    if said:
        yield f"## Words that speak most for each {model.spec.predicts}"
        yield _table((str(model.spec.predicts), "words"), [(name, " ".join(words)) for name, words in said.items()])


def _limits(model: EngineEstimator) -> Iterator[str]:
    yield "## Limits"
    found = ["What the model is for, and what it must not decide alone: to be filled in."]
    if model.several_labels:
        found.append("Thresholds and temperatures of labels were fitted to documents like those of the training.")
    elif model.spec.predicts == "class":
        found.append("Every document gets one of the classes above, also one that belongs to none.")
        held_out = any(name.startswith("held_out_") for entry in model.history_ for name in entry)
        tempered = held_out and getattr(model.learner_, "temperature", 1.0) != 1.0
        found.append(
            "Probabilities were fitted by one temperature on held-out documents of the training data; on later or other "
            "documents they may be too sure."
            if tempered
            else "Probabilities were not calibrated on held-out documents: measure their calibration error before you rely on "
            "them."
        )
        if getattr(model, "loss", "nll") != "nll":
            found.append("Training was discriminative: p(document) of this model means little.")
    if model._layout == "sparse" and model.vocabulary_ is not None:
        found.append("Words that are not in the vocabulary count nothing.")
    if model._layout == "sparse" and model.vocabulary_ is None:
        found.append("Columns have no names, so nobody can read what a weight belongs to.")
    found.append(
        "Words that mark a person, a place or a source can decide as words of the subject do: read the list above."
    )
    yield "\n".join(f"- {line}" for line in found)
