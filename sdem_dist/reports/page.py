"""A self-contained HTML page about a model and its results on documents, and a model card in Markdown."""

from __future__ import annotations

import io
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist import plots
from sdem_dist.counted import PREFIXES, UNSHOWN, by_metric_name, counted, metric_of
from sdem_dist.inputs.spec import OF_THE_MACHINE
from sdem_dist.reports.classification import ByClassReport, ClassificationReport, LabelReport
from sdem_dist.reports.explanation import FOR, highlight
from sdem_dist.reports.report import Report, TopicReport, by_documents
from sdem_dist.reports.reporting import documents_at, of_topics, report_of, was_trained_on
from sdem_dist.reports.top_words import word_weights
from sdem_dist.storage.publish import publish_file
from sdem_dist.table import Html, Table, cell, markdown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sdem_dist.corpus import Corpus
    from sdem_dist.estimators.base import EngineEstimator

CURVES = ("accuracy", "log_loss", "ncll", "nll", "r2", "mse", "word_nll", "plug_in_nll")
INK = "#010203"  # placeholder in pictures for the page's text colour
WORDS, CONFUSIONS, EXAMPLES = 15, 10, 2  # words per class; kinds of errors with examples; examples of each kind
LETTERS = 1500  # most characters of a text in an example


def write_page(path: Path, title: str, body: str) -> None:
    """Write a complete page, or none. `title` is escaped, `body` is HTML."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<title>{cell(title)}</title><style>\n{style}</style></head>\n<body>{body}</body></html>\n"
    )
    publish_file(path, lambda file: file.write_bytes(page.encode("utf-8", "backslashreplace")))


def report_page(estimator: EngineEstimator, corpus: Corpus, name: str, documents: str) -> str:
    """Return the body of a page: the model, its training, its metrics on a corpus, and explained errors.

    `name`, `documents`: names of the model, and of the documents of the corpus.
    """
    report, figures = report_of(estimator, corpus), ""
    sections = {"The model": Table((), list(model_facts(estimator).items()), left=(0, 1)).html()}
    sections["Training"] = curves(estimator.history_)
    if isinstance(report, ClassificationReport):
        card = '<div class="card"><b>{:.4f}</b><span>{}</span></div>'
        cards = (card.format(value, cell(figure)) for figure, value in by_metric_name(report.figures).items())
        figures = f'<div class="cards">{"".join(cards)}</div>'
        by_class = report.tables()[0], report.confusion_table(15)
        sections["By class"] = "".join(table.html() for table in by_class if table.rows)
        side = float(np.clip(2.0 + 0.3 * len(report.worst), 4.0, 10.0))
        caption = "Rows are classes, columns are predictions; lighter cells contain more documents."
        sections["Confusion"] = svg(partial(plots.confusion, report), side, 0.85 * side, caption)
        sure = report.confidence >= 0.9
        caption = "Accuracy of predictions, grouped by their probability; larger dots represent more documents. "
        caption += f"For {sure.mean():.0%} of the documents, the probability of the prediction is at least 0.9"
        caption += f"; {report.right[sure].mean():.1%} of these predictions are correct." if sure.any() else "."
        sections["Calibration"] = svg(partial(plots.reliability, report), 4.5, 4.0, caption)
    elif not isinstance(report, TopicReport):
        sections["Metrics"] = report._repr_html_()
    if isinstance(report, ByClassReport):
        rows = []
        for label, words in word_weights(estimator, WORDS).items() if estimator.spec.topics is None else ():
            top, marks = max(words.values(), default=0.0) or 1.0, list[str]()
            for word, value in words.items():
                marks.append(highlight(word, FOR, 0.08 + 0.5 * max(value, 0.0) / top, f"{value:.3g} nats per word"))
            rows.append((label, Html(" ".join(marks))))
        unlisted = f"The words are not listed for {type(estimator).__name__}. For those of a document, use explain."
        note = "Stronger colours mean more evidence for the class, on average." if rows else unlisted
        if rows or not (estimator._layout == "dense" or estimator.spec.topics is not None):
            table = Table(("class", "words"), rows, left=(0, 1)).html() if rows else ""
            sections[f"Words by {report.kind}"] = f'<p class="soft">{cell(note)}</p>{table}'
        sections["Examples of errors"] = _examples(estimator, report, corpus)
    if estimator.spec.topics is not None:
        topics = report if isinstance(report, TopicReport) else of_topics(estimator, corpus)
        sections["Topics"] = _topics(topics, corpus)
    measured = f"{type(estimator).__name__}, evaluated on {counted(report.n_documents, 'document')} of {documents}"
    if was_trained_on(estimator, corpus):
        measured += ", on which it was trained: results on new documents will be worse"
    anchors = {title: title.lower().replace(" ", "-") for title, body in sections.items() if body}
    links = "".join(f'<a href="#{anchor}">{title}</a>' for title, anchor in anchors.items())
    bodies = (f'<section id="{a}"><h2>{title}</h2>{sections[title]}</section>' for title, a in anchors.items())
    head = f'<header><h1>{cell(name)}</h1><p class="soft">{cell(measured)}</p></header>'
    return f"{head}{figures}<nav>{links}</nav>{''.join(bodies)}"


def svg(draw: Callable[[Axes], object], width: float, height: float, caption: str) -> str:
    """Return a picture as SVG in the page's text colour; `draw`: draws on axes. Sizes are in inches."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    colored = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    settings: Any = dict.fromkeys(colored, INK) | {"svg.fonttype": "none", "svg.hashsalt": "sdem_dist", "font.size": 9}
    file, no_metadata = io.StringIO(), dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with rc_context(settings | {"legend.framealpha": 0.0}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # missing glyphs: browsers have more fonts
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.subplots())
        figure.savefig(file, format="svg", transparent=True, metadata=no_metadata)
    picture = file.getvalue().replace(INK, "currentColor")
    return (
        f'<figure><div class="wide" style="max-width:{width:.1f}in">{picture[picture.index("<svg") :]}</div>'
        f"<figcaption>{cell(caption)}</figcaption></figure>"
    )


def curves(history: Sequence[Mapping[str, float]]) -> str:
    """Return a picture of each metric by epoch; none for metrics in fewer than two epochs.

    A line must begin in the first half of the epochs: later ones do not show the course of training.
    """
    pictures = ""
    for metric in CURVES:
        lines = [plots.points(history, prefix + metric) for prefix in PREFIXES]
        if any(len(line) > 1 and 2 * line[0][0] <= line[-1][0] for line in lines):
            draw = partial(plots.history, history, metric)
            pictures += svg(draw, 4.2, 2.8, f"{metric_of(metric).name} by epoch")
    return f'<div class="pair">{pictures}</div>' if pictures else ""


def _examples(estimator: Any, report: ByClassReport, corpus: Corpus) -> str:
    """Return explained examples of the worst errors of the most frequent kinds; none if the model cannot explain."""
    errors, of_labels, articles = report.errors, isinstance(report, LabelReport), ""
    if isinstance(report, LabelReport):
        wrong = report.wrong_labels(errors)
        pairs = np.stack([wrong, report.predictions[errors, wrong]], axis=1)
    else:
        assert isinstance(report, ClassificationReport)
        pairs = np.stack([report.labels[errors], report.predictions[errors]], axis=1)
    kinds = list(map(tuple, pairs.tolist()))
    most = [kind for kind, _ in Counter(sorted(kinds)).most_common(CONFUSIONS)]
    chosen = [i for kind in most for i in [i for i, own in enumerate(kinds) if own == kind][:EXAMPLES]]
    documents = documents_at(corpus, report.positions[errors[chosen]])
    explanations = documents.explained(estimator, report, errors[chosen]) or []
    for i, explanation, id_ in zip(chosen, explanations, documents.ids, strict=False):
        title = f"{report.names[kinds[i][0]]} predicted as {explanation.label}"
        if of_labels:
            title = f"{explanation.label} is {'wrongly predicted' if kinds[i][1] else 'missing'}"
        if explanation.text is not None:
            marks = tuple(mark for mark in explanation.marks if mark[1] <= LETTERS)
            explanation = replace(explanation, text=_start(explanation.text), marks=marks)
        title = cell(f"{title}, probability {explanation.probability:.3f} (document {id_})")
        articles += f"<article><h3>{title}</h3>{explanation._repr_html_()}</article>"
    return articles


def _start(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[:LETTERS]}…"


def _topics(report: TopicReport, corpus: Corpus) -> str:
    """Return topics with words and shares, also by class, and the documents with the largest proportions."""
    html = "".join(table.html() for table in report.tables())
    if report.prevalence is not None:
        rows = [
            (label, *("" if np.isnan(p) else Html(highlight(f"{p:.0%}", FOR, 0.7 * p**0.5)) for p in shares))
            for label, shares in zip(report.classes.tolist(), report.prevalence, strict=True)
        ]
        html += f"<h3>Topics by class</h3>{Table(('class', *report.names), rows).html()}"
    for k in np.argsort(-report.shares, kind="stable").tolist() if corpus.has_texts else ():
        texts = (f'<p class="text">{cell(_start(text))}</p>' for text in corpus.texts_at(report.examples(k)))
        title = f"Documents with the largest proportion of topic {cell(report.names[k])}"
        html += f"<details><summary>{title}</summary>{''.join(texts)}</details>"
    return html


def model_facts(model: EngineEstimator) -> dict[str, str]:
    """Return facts about a fitted model, by name: kind, settings, inputs and training."""
    defaults, params, entry, learner = type(model)().get_params(), model.get_params(), model.best_entry_, model.learner_
    loss, predicts, w = getattr(model, "loss_", None) or params.get("loss"), model.spec.predicts, model.weighting_
    hidden, facts = ("loss", *OF_THE_MACHINE), {"model": type(model).__name__ + (f", loss {loss}" if loss else "")}
    changed = {k: v for k, v in params.items() if k not in hidden and not np.array_equal(v, defaults[k])}
    facts["settings"] = ", ".join(f"{k} {v if str(v) else repr(v)}" for k, v in changed.items()) or "defaults"
    facts |= {} if (n := getattr(learner, "n_documents", None)) is None else {"trained on": f"{n:,.10g} documents"}
    if (weight := entry.get("unlabelled_weight")) is not None:
        facts["unlabelled documents"] = f"used, with unlabelled_weight {weight:.3g}" if weight else "not used"
    if predicts == "class":
        facts["classes"] = f"{len(model.classes_)}"
        if model.several_labels:
            shown = ", ".join(f"{c} {t:.2g}" for c, t in zip(model.classes_[:10], model.thresholds_, strict=False))
            facts["thresholds"] = shown + ", ..." * (len(model.classes_) > 10)
    if model.spec.topics == "documents":
        alpha, learned = model.alpha_, learner.model.inference.learned
        facts |= {} if predicts == "class" else {"topics": f"{model.n_components}"}
        if learned or np.ptp(alpha) > 0.0:  # learned, or not a single number
            facts["alpha of the topics"] = ", ".join([*(f"{a:.4g}" for a in alpha), *(["learned"] if learned else [])])
    elif predicts == "cluster":
        facts["clusters"] = f"{params.get('n_components', params.get('n_clusters'))}"
    table, has_names = model._layout == "dense", model.vocabulary_ is not None
    kind = ", columns of a table" + (" with names" if has_names else "") if table else ", with a vocabulary" * has_names
    facts["features"] = f"{model.n_features_in_:,}{kind}"
    facts |= {} if table else {"input": "raw text (built-in tokenizer)" if model.vectorizer_ else "counts"}
    if w is not None:
        length = f"documents scaled to length {w.norm:g}" if w.norm else f"entries multiplied by {w.scale:.4g}"
        rare = f", words that occur in at least {w.min_df} documents" if w.min_df > 1 else ""
        grams = f", {w.orders[0]}- to {w.orders[1]}-grams" if w.orders else ""
        facts["weighting"] = f"{w.form}, {length}{rare}{grams}"
    if (temperature := float(getattr(learner, "temperature", 1.0))) != 1.0:
        facts["temperature"] = f"{temperature:.3g}"
    states = {None: "", True: ", converged", False: ", not converged: increase n_epochs"}
    epoch, state = entry.get("epoch", model.n_iter_), states[getattr(model, "converged_", None)]
    facts["epochs"] = f"{model.n_iter_}{state}{'' if epoch == model.n_iter_ else f', best: epoch {epoch}'}"
    facts |= {f"on {name}": text for name, text in by_documents(entry, UNSHOWN, ".4g").items()}
    return facts | ({"damaged shards": "; ".join(model.damaged_shards_)} if model.damaged_shards_ else {})


def model_card(model: EngineEstimator, name: str, report: Report | None = None, documents: str = "") -> str:
    """Return the card of a fitted model, in Markdown.

    `report`: the model's results on documents; `documents`: their name.
    """

    def table(rows: Iterable[Sequence[object]], heads: Sequence[str] = ("", "")) -> str:
        return Table(heads, list(rows)).markdown()

    facts, predicts = model_facts(model), str(model.spec.predicts)
    data: dict[str, str] = {k: facts.pop(k) for k in ("trained on",) if k in facts}
    if model.vectorizer_ is not None:
        data["tokenization"] = ", ".join(f"{k}: {v}" for k, v in model.vectorizer_.items() if v not in (None, [], 0))
    settings = ((k, v) for k, v in model.get_params().items() if k not in OF_THE_MACHINE)
    parts = [f"# {markdown(name)}", "## Model", table((k, v) for k, v in facts.items() if not k.startswith("on "))]
    parts += ["All settings:", table(settings, ("parameter", "value")), "## Training data", table(data.items())]
    prior = getattr(model, "class_log_prior_", None) if predicts == "class" else None
    if prior is not None:
        shares = ((model.classes_[k], f"{np.exp(prior[k]):.2%}") for k in np.argsort(-prior, kind="stable"))
        parts.append("Class prior of the model, which differs from class frequencies after discriminative training:")
        parts.append(table(shares, ("class", "prior probability")))
    parts.append("To do: describe the source of the documents, who labelled them, and their licence.")
    parts.append("## Quality")
    figures = by_documents(model.best_entry_, UNSHOWN, ".4g")
    parts += [f"On {of}: {markdown(text)}." for of, text in figures.items()]
    if report is None:
        parts.append("For metrics by class, run `sdem inspect MODEL --card --on CORPUS`.")
    else:
        parts.append(f"On the {report.n_documents:,} documents of {markdown(documents)}:")
        parts.append(table(report.figure_table().rows, ("figure", "value")))
    if isinstance(report, ByClassReport):
        parts.append(report.table(np.argsort(report.columns["f1"], kind="stable")).markdown())
    if words := word_weights(model):
        rows, kind = ((k, " ".join(top)) for k, top in words.items()), "topic" if model.spec.topics else predicts
        parts += [f"## Most indicative words of each {kind}", table(rows, (kind, "words"))]
    limits = ["To do: describe the intended use, and decisions that need human review."]
    if model.several_labels:
        limits.append("Thresholds and temperatures may be wrong for documents that differ from the training documents.")
    elif predicts == "class":
        limits.append("Every document is assigned one of the classes above, even if it belongs to none of them.")
        held_out = any(name.startswith(("held_out_", "fold_")) for entry in model.history_ for name in entry)
        limit = "were not calibrated: measure the calibration error before you rely on them"
        if held_out and getattr(model.learner_, "temperature", 1.0) != 1.0:
            limit = "were calibrated on held-out training documents; on other documents they may be overconfident"
        limits.append(f"Probabilities {limit}.")
        if getattr(model, "loss", "nll") != "nll":
            limits.append("Training was discriminative: p(document) is not reliable.")
    if model._layout == "sparse":
        nameless = "Columns have no names, so weights cannot be interpreted."
        limits.append("Words outside the vocabulary are ignored." if model.vocabulary_ else nameless)
    limits.append("Words that identify a person, a place or a source can influence predictions: check the list above.")
    return "\n\n".join([*parts, "## Limits", "\n".join(f"- {line}" for line in limits)]) + "\n"
