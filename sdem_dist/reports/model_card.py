"""What a model is, was trained on, does, and is not for: lines for people, and a card in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.glossary import UNSHOWN, by_documents
from sdem_dist.inputs.spec import OF_THE_MACHINE
from sdem_dist.reports.classification import ByClassReport
from sdem_dist.reports.report import Report
from sdem_dist.reports.top_words import top_words
from sdem_dist.table import Table, markdown

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator


def model_facts(model: EngineEstimator) -> dict[str, str]:
    """Return a fitted model's kind, settings, inputs and training, by name."""
    defaults, params, entry = type(model)().get_params(), model.get_params(), model.best_entry_
    changed = {k: v for k, v in params.items() if not np.array_equal(v, defaults[k])}
    settings = ", ".join(
        f"{k} {v if str(v) else repr(v)}" for k, v in changed.items() if k not in ("loss", *OF_THE_MACHINE)
    )
    loss = getattr(model, "loss_", None) or params.get("loss")
    facts = {"model": type(model).__name__ + (f", loss {loss}" if loss else ""), "settings": settings or "defaults"}
    if (n := getattr(model.learner_, "n_documents", None)) is not None:
        facts["trained on"] = f"{n:,.10g} documents"
    if (weight := entry.get("unlabelled_weight")) is not None:
        used = f"learned from, with unlabelled_weight {weight:.3g}" if weight else "not learned from"
        facts["without a label"] = used
    predicts = model.spec.predicts
    facts |= {"classes": f"{len(model.classes_)}"} if predicts == "class" else {}
    if model.spec.topics == "documents":
        alpha, learned = model.alpha_, model.learner_.model.inference.learned
        facts |= {} if predicts == "class" else {"topics": f"{model.n_components}"}
        if learned or np.ptp(alpha) > 0.0:  # more than one given number
            facts["alpha of the topics"] = ", ".join([*(f"{a:.4g}" for a in alpha), *(["learned"] if learned else [])])
    elif predicts == "cluster":
        facts["clusters"] = f"{params.get('n_components', params.get('n_clusters'))}"
    n, has_names, w = f"{model.n_features_in_:,}", model.vocabulary_ is not None, model.weighting_
    if model._layout == "dense":
        facts["features"] = f"{n}, columns of a table{' with names' if has_names else ''}"
    else:
        facts["features"] = f"{n}{', with a vocabulary' if has_names else ''}"
        facts["raw text"] = "taken: the model counts its words" if model.vectorizer_ else "not taken: counts only"
    if w is not None:
        length = f"documents of length {w.norm:g}" if w.norm else f"entries times {w.scale:.4g}"
        rare = f", words of {w.min_df} documents or more" if w.min_df > 1 else ""
        grams = f", {w.orders[0]}- to {w.orders[1]}-grams" if w.orders else ""
        facts["weighting"] = f"{w.form}, {length}{rare}{grams}"
    if (temperature := float(getattr(model.learner_, "temperature", 1.0))) != 1.0:
        facts["temperature"] = f"{temperature:.3g}, which scores are divided by for probabilities"
    converged = getattr(model, "converged_", None)
    state = {None: "", True: ", converged", False: ", not converged: more n_epochs would fit better"}[converged]
    epoch = entry.get("epoch", model.n_iter_)
    facts["epochs"] = f"{model.n_iter_}{state}{'' if epoch == model.n_iter_ else f', kept: epoch {epoch}'}"
    facts |= {f"on {name}": text for name, text in by_documents(entry, UNSHOWN, ".4g").items()}
    return facts | ({"left out": "; ".join(model.damaged_shards_)} if model.damaged_shards_ else {})


def model_card(model: EngineEstimator, name: str, report: Report | None = None, documents: str = "") -> str:
    """Return the card of a fitted model, in Markdown.

    `report`: how the model does on documents, which `documents` names.
    """

    def table(rows: Iterable[Sequence[object]], heads: Sequence[str] = ("", "")) -> str:
        return Table(heads, list(rows)).markdown()

    facts = model_facts(model)
    data: dict[str, str] = {k: facts.pop(k) for k in ("trained on", "left out") if k in facts}
    if model.vectorizer_ is not None:
        used = (f"{k}: {v}" for k, v in model.vectorizer_.items() if v not in (None, [], False))
        data["text to words"] = ", ".join(used)
    settings = ((k, v) for k, v in model.get_params().items() if k not in OF_THE_MACHINE)
    parts = [f"# {markdown(name)}", "## Model", table((k, v) for k, v in facts.items() if not k.startswith("on "))]
    parts += ["Settings in full:", table(settings, ("parameter", "value")), "## Training data", table(data.items())]
    prior = getattr(model, "class_log_prior_", None) if model.spec.predicts == "class" else None
    if prior is not None:
        order = np.argsort(-prior, kind="stable").tolist()
        parts.append("The model's own p(class), which discriminative training moves away from the shares of documents:")
        shares = ((model.classes_[k], f"{np.exp(prior[k]):.2%}") for k in order)
        parts.append(table(shares, ("class", "prior probability")))
    parts.append("Where the documents come from, who labelled them, and under which licence: to be filled in.")
    parts.append("## Quality")
    figures = by_documents(model.best_entry_, UNSHOWN, ".4g")
    parts += [f"On {of}: {markdown(text)}." for of, text in figures.items()]
    if report is None:
        parts.append(
            "Figures by class are not known from training: `sdem inspect MODEL --card --on CORPUS` measures them."
        )
    else:
        parts.append(f"On the {report.n_documents:,} documents of {markdown(documents)}:")
        parts.append(table(report.figure_table().rows, ("figure", "value")))
    if isinstance(report, ByClassReport):
        parts.append(report.table(np.argsort(report.columns["f1"], kind="stable")).markdown())
    if words := top_words(model):
        predicts = str(model.spec.predicts)
        parts.append(f"## Words that speak most for each {predicts}")
        parts.append(table(((k, " ".join(of_class)) for k, of_class in words.items()), (predicts, "words")))
    limits = ["What the model is for, and what it must not decide alone: to be filled in."]
    if model.several_labels:
        limits.append("Thresholds and temperatures of labels were fitted to documents like those of the training.")
    elif model.spec.predicts == "class":
        limits.append("Every document gets one of the classes above, also one that belongs to none.")
        held_out = any(name.startswith("held_out_") for entry in model.history_ for name in entry)
        if held_out and getattr(model.learner_, "temperature", 1.0) != 1.0:
            limits.append(
                "Probabilities were fitted by one temperature on held-out documents of the training data; on later or other "
                "documents they may be too sure."
            )
        else:
            limits.append(
                "Probabilities were not calibrated on held-out documents: measure their calibration error before you rely on "
                "them."
            )
        if getattr(model, "loss", "nll") != "nll":
            limits.append("Training was discriminative: p(document) of this model means little.")
    if model._layout == "sparse" and model.vocabulary_ is not None:
        limits.append("Words that are not in the vocabulary count nothing.")
    elif model._layout == "sparse":
        limits.append("Columns have no names, so nobody can read what a weight belongs to.")
    limits.append(
        "Words that mark a person, a place or a source can decide as words of the subject do: read the list above."
    )
    return "\n\n".join([*parts, "## Limits", "\n".join(f"- {line}" for line in limits)]) + "\n"
