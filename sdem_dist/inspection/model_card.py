"""What a model is, was trained on, does, and is not for: lines for people, and a card in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.glossary import UNSHOWN, called, metric, named
from sdem_dist.inputs.spec import OF_THE_MACHINE
from sdem_dist.inspection.top_words import top_words
from sdem_dist.reports.classification import ClassificationReport
from sdem_dist.reports.labels import LabelReport
from sdem_dist.reports.report import Table, markdown

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.inspection.reporting import Report


def model_facts(model: EngineEstimator) -> dict[str, str]:
    """Return a fitted model's kind, settings, inputs and training, by name."""
    defaults = type(model)().get_params()
    changed = {k: v for k, v in model.get_params().items() if not np.array_equal(v, defaults[k])}
    entry = model.kept_
    which = "last epoch" if entry.get("epoch", model.n_iter_) == model.n_iter_ else f"kept: epoch {entry['epoch']}"
    loss = getattr(model, "loss_", None) or model.get_params().get("loss")
    how = f", loss {loss}" if loss else ""
    no_metrics = ("epoch", "unlabelled_weight", *UNSHOWN)
    metrics = {name: value for name, value in entry.items() if name not in no_metrics and not name.endswith("seconds")}
    return {
        "model": type(model).__name__ + how,
        "settings": ", ".join(f"{k} {_shown(v)}" for k, v in changed.items() if k not in ("loss", *OF_THE_MACHINE))
        or "defaults",
        **_trained_on(model),
        **_unlabelled(entry),
        **_parts(model),
        **_inputs(model),
        **_weighting(model),
        "epochs": f"{model.n_iter_}{_converged(model)}",
        **_listed(which, metrics),
        **({"left out": "; ".join(model.damaged_shards_)} if model.damaged_shards_ else {}),
    }


def _converged(model: EngineEstimator) -> str:
    """Return whether EM has converged, where that is known."""
    converged = getattr(model, "converged_", None)
    if converged is None:
        return ""
    return ", converged" if converged else ", not converged: more n_epochs would fit better"


OF_HELD_OUT = {
    "held_out_": "held-out: a part of the training data",
    "validation_": "held-out: documents that were given",
}
"""Where metrics are of, by what their names begin with; where there are several kinds, lines have these names."""


def _listed(which: str, metrics: Mapping[str, float]) -> dict[str, str]:
    """Return metrics, a line for documents of each kind; the first one is called `which`."""
    lines: dict[str, str] = {}
    for prefix, kind in {"": "", **OF_HELD_OUT}.items():
        own = [n for n in metrics if (n.startswith(prefix) if prefix else not n.startswith(tuple(OF_HELD_OUT)))]
        listed = ", ".join(f"{called(name)} {metrics[name]:.4g}" for name in own)
        if own and not lines:
            lines[which] = f"{listed} ({kind})" if kind else listed
        elif own:
            lines[kind] = listed
    return lines or {which: "not evaluated"}


def _trained_on(model: EngineEstimator) -> dict[str, str]:
    """Return how many documents a model was trained on, by weight, where its learner says."""
    n = getattr(model.learner_, "n_documents", None)
    return {} if n is None else {"trained on": f"{n:,.10g} documents"}


def _shown(value: object) -> object:
    return "''" if isinstance(value, str) and not value else value


def _unlabelled(kept: Mapping[str, float]) -> dict[str, str]:
    """Return how documents without a label were used, if there were any."""
    weight = kept.get("unlabelled_weight")
    if weight is None:
        return {}
    return {"without a label": f"learned from, with unlabelled_weight {weight:.3g}" if weight else "not learned from"}


def _prior(alpha: np.ndarray, learned: bool) -> dict[str, str]:
    """Return the prior of topics, where it is more than one given number."""
    if not learned and np.ptp(alpha) == 0.0:
        return {}
    return {"alpha of the topics": f"{', '.join(f'{a:.4g}' for a in alpha)}{', learned' if learned else ''}"}


def _inputs(model: EngineEstimator) -> dict[str, str]:
    """Return what a model takes."""
    n, named = f"{model.n_features_in_:,}", model.vocabulary_ is not None
    if model._layout == "sparse":
        text = "taken: the model counts its words" if model.vectorizer_ else "not taken: counts only"
        return {"features": f"{n}{', with a vocabulary' if named else ''}", "raw text": text}
    return {"features": f"{n}, columns of a table{' with names' if named else ''}"}


def _weighting(model: EngineEstimator) -> dict[str, str]:
    """Return how counts are weighted, and the temperature of probabilities where training chose one."""
    facts, w = {}, model.weighting_
    if w is not None:
        length = f"documents of length {w.norm:g}" if w.norm else f"entries times {w.scale:.4g}"
        rare = f", words of {w.min_df} documents or more" if w.min_df > 1 else ""
        grams = f", {w.orders[0]}- to {w.orders[1]}-grams" if w.orders else ""
        facts["weighting"] = f"{w.form}, {length}{rare}{grams}"
    temperature = _temperature(model)
    return (
        facts
        if temperature == 1.0
        else {**facts, "temperature": f"{temperature:.3g}, which scores are divided by for probabilities"}
    )


def _temperature(model: EngineEstimator) -> float:
    return float(getattr(model.learner_, "temperature", 1.0))


def _parts(model: EngineEstimator) -> dict[str, str]:
    """Return the classes, clusters or topics of a model; nothing if it predicts numbers from a table."""
    classes = {"classes": f"{len(model.classes_)}"} if model.spec.predicts == "class" else {}
    if model.spec.topics == "documents":
        topics = {} if classes else {"topics": f"{model.n_components}"}
        return {**classes, **topics, **_prior(model.alpha_, model.learner_.model.inference.learned)}
    if classes:
        return classes
    settings = model.get_params()
    number = settings.get("n_components", settings.get("n_clusters"))
    return {"clusters": f"{number}"} if model.spec.predicts == "cluster" else {}


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
        settings = {k: v for k, v in model.vectorizer_.items() if v not in (None, [], False)}
        rows.append(("text to words", ", ".join(f"{k}: {v}" for k, v in settings.items())))
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
    figures = {k: v for k, v in model.kept_.items() if k not in ("epoch", "seconds")}
    for prefix, where in (
        ("held_out_", "documents that training held out"),
        ("validation_", "held-out documents that training was given"),
    ):
        named_figures = {
            metric(k.removeprefix(prefix), prefix).name: v for k, v in figures.items() if k.startswith(prefix)
        }
        if named_figures:
            yield f"On {where}: " + ", ".join(f"{markdown(k)} {v:.4g}" for k, v in named_figures.items()) + "."
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
    said = top_words(model)
    if said:
        yield f"## Words that speak most for each {model.spec.predicts}"
        yield _table((str(model.spec.predicts), "words"), [(name, " ".join(words)) for name, words in said.items()])


def _limits(model: EngineEstimator) -> Iterator[str]:
    yield "## Limits"
    limits = ["What the model is for, and what it must not decide alone: to be filled in."]
    if model.several_labels:
        limits.append("Thresholds and temperatures of labels were fitted to documents like those of the training.")
    elif model.spec.predicts == "class":
        limits.append("Every document gets one of the classes above, also one that belongs to none.")
        held_out = any(name.startswith("held_out_") for entry in model.history_ for name in entry)
        tempered = held_out and getattr(model.learner_, "temperature", 1.0) != 1.0
        limits.append(
            "Probabilities were fitted by one temperature on held-out documents of the training data; on later or other "
            "documents they may be too sure."
            if tempered
            else "Probabilities were not calibrated on held-out documents: measure their calibration error before you rely on "
            "them."
        )
        if getattr(model, "loss", "nll") != "nll":
            limits.append("Training was discriminative: p(document) of this model means little.")
    if model._layout == "sparse" and model.vocabulary_ is not None:
        limits.append("Words that are not in the vocabulary count nothing.")
    if model._layout == "sparse" and model.vocabulary_ is None:
        limits.append("Columns have no names, so nobody can read what a weight belongs to.")
    limits.append(
        "Words that mark a person, a place or a source can decide as words of the subject do: read the list above."
    )
    yield "\n".join(f"- {line}" for line in limits)
