"""A page about a model and how it does on documents; it needs nothing from elsewhere: no scripts, fonts or pictures."""

from __future__ import annotations

import io
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist import glossary, plots
from sdem_dist.counted import counted
from sdem_dist.reports.classification import ByClassReport, ClassificationReport, LabelReport
from sdem_dist.reports.explanation import FOR, highlight
from sdem_dist.reports.model_card import model_facts
from sdem_dist.reports.report import TopicReport
from sdem_dist.reports.reporting import documents_at, of_topics, report_of, was_trained_on
from sdem_dist.reports.top_words import word_weights
from sdem_dist.storage.publish import publish_file
from sdem_dist.table import Html, Table, cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sdem_dist.corpus import Corpus
    from sdem_dist.estimators.base import EngineEstimator

STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
CURVES = ("accuracy", "log_loss", "ncll", "nll", "r2", "mse", "word_nll", "plug_in_nll")
INK = "#010203"  # stands for the colour of the page's text in pictures
WORDS, CONFUSIONS, EXAMPLES = 15, 10, 2  # of a class; kinds of errors that examples are shown of, and examples of each
LETTERS = 1500  # of a text that an example shows


def write_page(path: Path, title: str, body: str) -> None:
    """Write a page, whole or not at all. `title` is escaped, `body` is HTML."""
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<title>{cell(title)}</title><style>\n{STYLE}</style></head>\n<body>{body}</body></html>\n"
    )
    publish_file(path, lambda file: file.write_bytes(page.encode("utf-8", "backslashreplace")))


def report_page(estimator: EngineEstimator, corpus: Corpus, name: str, documents: str) -> str:
    """Return the body of a page: what the model is, how its training went, what it gets right and wrong, and why.

    `name`, `documents`: what the model, and the documents of the corpus, are called.
    """
    report = report_of(estimator, corpus)
    sections = {"The model": Table((), list(model_facts(estimator).items()), left=(0, 1)).html()}
    sections["Training"] = curves(estimator.history_)
    figures = ""
    if isinstance(report, ClassificationReport):
        cards = (
            f'<div class="card"><b>{value:.4f}</b><span>{cell(figure)}</span></div>'
            for figure, value in glossary.named(report.figures).items()
        )
        figures = f'<div class="cards">{"".join(cards)}</div>'
        by_class = report.tables()[0], report.confusion_table(15)
        sections["By class"] = "".join(table.html() for table in by_class if table.rows)
        side = float(np.clip(2.0 + 0.3 * len(report.worst), 4.0, 10.0))
        caption = "Rows are classes, columns predictions; lighter where more of the class."
        sections["Confusion"] = svg(partial(plots.confusion, report), side, 0.85 * side, caption)
        sure, meaning = report.confidence >= 0.9, "No prediction has a probability of .9 or more."
        if sure.any():
            meaning = f"{sure.mean():.0%} of the documents have a prediction of probability .9 or more; "
            meaning += f"{report.right[sure].mean():.1%} of these are right."
        caption = "Accuracy of predictions by their probability; larger dots are more documents."
        picture = svg(partial(plots.reliability, report), 4.5, 4.0, caption)
        sections["How far to trust probabilities"] = f"<p>{cell(meaning)}</p>{picture}"
    elif not isinstance(report, TopicReport):
        sections["On these documents"] = report._repr_html_()
    if isinstance(report, ByClassReport):
        rows = []
        for label, words in word_weights(estimator, WORDS).items():
            top = max(words.values(), default=0.0) or 1.0
            marks = (
                highlight(word, FOR, 0.08 + 0.5 * max(value, 0.0) / top, f"{value:.3g} nats per word")
                for word, value in words.items()
            )
            rows.append((label, Html(" ".join(marks))))
        note, table = (
            f"Not listed for {type(estimator).__name__}. explain and sdem explain show the words of a document.",
            "",
        )
        if rows:
            note = "The stronger the colour, the more a word adds to the evidence for the class, on average."
            table = Table(("class", "words"), rows, left=(0, 1)).html()
        if rows or not (estimator._layout == "dense" or estimator.spec.topics is not None):
            sections[f"Words by {report.kind}"] = f'<p class="soft">{cell(note)}</p>{table}'
        sections["Examples of errors"] = _examples(estimator, report, corpus)
    if estimator.spec.topics is not None:
        topics = report if isinstance(report, TopicReport) else of_topics(estimator, corpus)
        sections["Topics"] = _topics(topics, corpus)
    measured = f"{type(estimator).__name__}, measured on {counted(report.n_documents, 'document')} of {documents}"
    if was_trained_on(estimator, corpus):
        measured += ", which it was trained on: new documents will do worse"
    anchors = {title: title.lower().replace(" ", "-") for title, body in sections.items() if body}
    links = "".join(f'<a href="#{anchor}">{title}</a>' for title, anchor in anchors.items())
    bodies = (f'<section id="{a}"><h2>{title}</h2>{sections[title]}</section>' for title, a in anchors.items())
    head = f'<header><h1>{cell(name)}</h1><p class="soft">{cell(measured)}</p></header>'
    return f"{head}{figures}<nav>{links}</nav>{''.join(bodies)}"


def svg(draw: Callable[[Axes], object], width: float, height: float, caption: str) -> str:
    """Return what `draw` draws on axes, as SVG in the page's own ink; sizes are in inches."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    colored = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    settings: Any = dict.fromkeys(colored, INK) | {"svg.fonttype": "none", "svg.hashsalt": "sdem_dist", "font.size": 9}
    file, no_metadata = io.StringIO(), dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with rc_context(settings | {"legend.framealpha": 0.0}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # the browser has more fonts
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.subplots())
        figure.savefig(file, format="svg", transparent=True, metadata=no_metadata)
    picture = file.getvalue().replace(INK, "currentColor")
    return (
        f'<figure><div class="wide" style="max-width:{width:.1f}in">{picture[picture.index("<svg") :]}</div>'
        f"<figcaption>{cell(caption)}</figcaption></figure>"
    )


def curves(history: Sequence[Mapping[str, float]]) -> str:
    """Return metrics by epoch, a picture each; nothing where fewer than two epochs have any.

    Lines that begin after half of the epochs do not count: they do not tell how training went.
    """
    pictures = ""
    for metric in CURVES:
        lines = [plots.points(history, prefix + metric) for prefix in glossary.PREFIXES]
        if any(len(line) > 1 and 2 * line[0][0] <= line[-1][0] for line in lines):
            draw = partial(plots.history, history, metric)
            pictures += svg(draw, 4.2, 2.8, f"{glossary.metric(metric).name} by epoch")
    return f'<div class="pair">{pictures}</div>' if pictures else ""


def _examples(estimator: Any, report: ByClassReport, corpus: Corpus) -> str:
    """Return the worst errors of each of the most frequent kinds, explained; none of a model without explanations."""
    errors = report.errors
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
    articles = []
    for i, explanation, id_ in zip(chosen, explanations, documents.ids, strict=False):
        title = f"{report.names[kinds[i][0]]} taken for {explanation.label}"
        if isinstance(report, LabelReport):
            title = f"{explanation.label} is {'wrongly given' if kinds[i][1] else 'missing'}"
        if explanation.text is not None:
            marks = tuple(mark for mark in explanation.marks if mark[1] <= LETTERS)
            explanation = replace(explanation, text=_start(explanation.text), marks=marks)
        title = cell(f"{title}, probability {explanation.probability:.3f} (document {id_})")
        articles.append(f"<article><h3>{title}</h3>{explanation._repr_html_()}</article>")
    return "".join(articles)


def _start(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[:LETTERS]}…"


def _topics(report: TopicReport, corpus: Corpus) -> str:
    """Return topics with their words and shares, also by class, and documents with most of them."""
    html = [table.html() for table in report.tables()]
    if report.prevalence is not None:
        rows = [
            (label, *("" if np.isnan(p) else Html(highlight(f"{p:.0%}", FOR, 0.7 * p**0.5)) for p in shares))
            for label, shares in zip(report.classes.tolist(), report.prevalence, strict=True)
        ]
        html += ["<h3>Topics by class</h3>", Table(("class", *report.names), rows).html()]
    for k in np.argsort(-report.shares, kind="stable").tolist() if corpus.has_texts else ():
        texts = (f'<p class="text">{cell(_start(text))}</p>' for text in corpus.texts_at(report.examples(k)))
        title = f"Documents with most of topic {cell(report.names[k])}"
        html.append(f"<details><summary>{title}</summary>{''.join(texts)}</details>")
    return "".join(html)
