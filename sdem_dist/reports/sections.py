"""Sections of a page about a model: each is a function from plain values and reports to HTML."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sdem_dist.glossary import metric, named
from sdem_dist.reports.classification import ClassificationReport
from sdem_dist.reports.explanation import Explanation
from sdem_dist.reports.html import cell, html_table
from sdem_dist.reports.marked_text import AGAINST, FOR
from sdem_dist.reports.pictures import COLORS, confusion_picture, curve_picture, reliability_picture
from sdem_dist.reports.topics import TopicReport

CURVES = ("accuracy", "log_loss", "ncll", "nll", "r2", "mse", "plug_in_nll")
OF_CURVES = {"": "training", "validation_": "held-out", "held_out_": "held-out part"}
"""What the documents of a metric are called, by what its name begins with: `held-out part` is of the training data."""
LETTERS = 1500
"""Of a text that an example shows."""


def section(name: str, title: str, body: str) -> str:
    """Return a section that a page can be entered at; nothing if it is empty."""
    return f'<section id="{name}"><h2>{cell(title)}</h2>{body}</section>' if body else ""


def cards(figures: Mapping[str, str]) -> str:
    """Return large figures side by side."""
    shown = (
        f'<div class="card"><b>{cell(value)}</b><span>{cell(name)}</span></div>' for name, value in figures.items()
    )
    return f'<div class="cards">{"".join(shown)}</div>'


def figures_of(report: ClassificationReport) -> str:
    """Return the figures over all documents as cards."""
    return cards({name: f"{value:.4f}" for name, value in named(report.figures).items()})


def facts(rows: Mapping[str, str]) -> str:
    """Return what is known of a model, a line each."""
    return html_table(("", ""), list(rows.items()), left=2)


def curves(history: Sequence[Mapping[str, float]]) -> str:
    """Return metrics by epoch, a picture each; nothing where fewer than two epochs have any.

    A curve that would begin after half of the epochs is left out: it does not tell how the training went.
    Documents of a kind have one colour on the page: those that training held out, and those that it was given, are two.
    """
    pictures = []
    for shown in CURVES:
        lines = {}
        for prefix, name in OF_CURVES.items():
            key = prefix + shown
            points = [(h["epoch"], h[key]) for h in history if np.isfinite(h.get(key, np.nan))]
            if len(points) > 1 and 2 * points[0][0] <= points[-1][0]:
                lines[name], last = points, prefix
        if lines:
            pictures.append(
                curve_picture(*metric(shown, last), lines, dict(zip(OF_CURVES.values(), COLORS, strict=True)))
            )
    return f'<div class="pair">{"".join(pictures)}</div>' if pictures else ""


def by_class(report: ClassificationReport) -> str:
    """Return figures by class and the most frequent confusions."""
    return report.table_of_classes() + report.table_of_confusions(15)


def confusion(report: ClassificationReport) -> str:
    """Return the confusion matrix."""
    shown = report.worst
    counts, documents = report.confusion_among(shown), report.support[shown]
    return confusion_picture(report.classes[shown].tolist(), counts, documents, len(report.classes))


def trust(report: ClassificationReport) -> str:
    """Return the reliability diagram, and what it means in words."""
    sure = report.confidence >= 0.9
    said = (
        f"{sure.mean():.0%} of the documents have a prediction of probability .9 or more; {report.right[sure].mean():.1%} of "
        "these are right."
        if sure.any()
        else "No prediction has a probability of .9 or more."
    )
    return f"<p>{cell(said)}</p>{reliability_picture(report.reliability)}"


def words_by_class(said: Mapping[object, Mapping[str, float]]) -> str:
    """Return the words that speak most for each class, with bars of their weights."""
    rows = []
    for label, words in said.items():
        top = max(words.values(), default=0.0) or 1.0
        shown = " ".join(
            f'<mark title="{value:.3g} nats per word" style="background:rgba({FOR},{0.08 + 0.5 * max(value, 0.0) / top:.2f})">'
            f"{cell(word)}</mark>"
            for word, value in words.items()
        )
        rows.append((label, shown))
    note = (
        '<p class="soft">The stronger the colour, the more a word adds to the evidence for the class, on average.</p>'
    )
    return note + html_table(("class", "words"), rows, left=2, raw=(1,)) if rows else ""


def example(title: str, explanation: Explanation) -> str:
    """Return one document with its words marked, and the largest parts of its log-odds."""
    text = f'<p class="text">{explanation.html_text(LETTERS)}</p>' if explanation.text else ""

    def largest(sign: float) -> str:
        parts = [f"{w.word} {w.part:+.2f}" for w in explanation.words if sign * w.part > 0][:6]
        return cell(", ".join(parts)) or "nothing"

    rest = f", {explanation.offset_name} {explanation.offset:+.2f}" if explanation.offset_name else ""
    sums = (
        f'<p class="soft">For {cell(explanation.label)}: {largest(1.0)}. For {cell(explanation.against)}: {largest(-1.0)}. '
        f"Prior {explanation.prior:+.2f}{rest}; "
        f"log-odds {explanation.log_odds:+.2f}.</p>"
    )
    topics = "; ".join(f"{t.topic} {t.share:.0%}" for t in explanation.topics[:3])
    about = f'<p class="soft">Topics: {cell(topics)}.</p>' if topics else ""
    return f"<article><h3>{cell(title)}</h3>{about}{text}{sums}</article>"


def examples(
    shown: Iterable[tuple[str, Explanation]], sides: tuple[str, str] = ("for the prediction", "for the true class")
) -> str:
    """Return errors with their words marked, and what the two colours mean."""
    articles = "".join(example(title, explanation) for title, explanation in shown)
    key = (
        f'<p class="soft">Words are marked: <mark style="background:rgba({FOR},.45)">{sides[0]}</mark>, '
        f'<mark style="background:rgba({AGAINST},.45)">{sides[1]}</mark>.</p>'
    )
    return key + articles if articles else ""


def topics(report: TopicReport, texts: Sequence[Sequence[str]]) -> str:
    """Return topics with their words and shares, how much of each class they make up, and example documents.

    `texts`: of each topic, the documents that have most of it; empty where nobody kept texts.
    """
    found = report.table_of_topics()
    if report.prevalence is not None:
        found += f"<h3>Topics by class</h3>{_prevalence(report)}"
    for k in np.argsort(-report.shares, kind="stable").tolist() if texts else ():
        shown = "".join(
            f'<p class="text">{cell(one[:LETTERS])}{"…" if len(one) > LETTERS else ""}</p>' for one in texts[k]
        )
        found += f"<details><summary>Documents with most of topic {cell(report.titles[k])}</summary>{shown}</details>"
    return found


def _prevalence(report: TopicReport) -> str:
    assert report.prevalence is not None
    rows = []
    for label, shares in zip(report.classes.tolist(), report.prevalence.tolist(), strict=True):
        cells = (
            f'<span style="display:block;padding:0 .3em;background:rgba({FOR},{0.7 * share**0.5:.2f})">{share:.0%}</span>'
            if share == share
            else ""
            for share in shares
        )
        rows.append((label, *cells))
    return html_table(("class", *report.titles), rows, raw=range(1, len(report.titles) + 1))
