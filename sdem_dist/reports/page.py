"""A page about a model, which needs nothing from elsewhere: no scripts, fonts or pictures but its own."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist import glossary, plots
from sdem_dist.reports.classification import ClassificationReport
from sdem_dist.reports.clusters import TopicReport
from sdem_dist.reports.explanation import AGAINST, FOR, Explanation
from sdem_dist.reports.report import Html, Table, cell
from sdem_dist.storage.publish import publish_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6675; --line: #d9dee6; --paper: #ffffff; --panel: #f5f7fa;
  --link: #0072b2; --blue: #0072b2; --orange: #d55e00; --green: #009e73; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --soft: #9aa5b4; --line: #39424f; --paper: #14181e; --panel: #1c222a; --link: #56b4e9;
    --blue: #4aa3dc; --orange: #e8743a; --green: #2fb98f; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.2rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .3rem 0 .2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
p { margin: .4rem 0; } .soft, caption { color: var(--soft); font-size: .9em; }
nav { margin: .8rem 0; } nav a { margin-right: 1rem; } a { color: var(--link); }
.wide { overflow-x: auto; max-width: 100%; margin: .6rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } caption { text-align: left; padding-bottom: .3rem; }
th, td { padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: normal; }
th { color: var(--soft); font-weight: 600; font-size: .9em; }
.cards { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1rem 0; }
.card { background: var(--panel); border: 1px solid var(--line); border-radius: .4rem; padding: .5rem .9rem; min-width: 7.5rem; }
.card b { display: block; white-space: nowrap; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: .85rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); gap: 1rem; align-items: start; }
figure { margin: .6rem 0; } figcaption { color: var(--soft); font-size: .9em; }
figure svg { width: 100%; height: auto; display: block; color: var(--ink); }
article { background: var(--panel); border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .9rem; margin: .8rem 0; }
.text { white-space: pre-wrap; max-height: 16rem; overflow: auto; margin: .4rem 0; }
mark { color: inherit; border-radius: .15rem; padding: 0 .08em; }
@media (max-width: 40rem) {
  body { padding: .8rem; font-size: 14px; } th, td { padding-right: .45rem; font-size: .9em; }
  td { overflow-wrap: anywhere; min-width: 3rem; } td:first-child { min-width: 5.5rem; overflow-wrap: break-word; }
  .card { min-width: 6rem; flex: 1; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 11px; } nav { display: none; } .text { max-height: none; }
  h2 { break-after: avoid; } figure, tr { break-inside: avoid; }
  .text { break-inside: auto; } body { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
CURVES = ("accuracy", "log_loss", "ncll", "nll", "r2", "mse", "word_nll", "plug_in_nll")
INK = "#010203"
"""Stands for the colour of the page's text in pictures."""
LETTERS = 1500
"""Of a text that an example shows."""


def page(title: str, body: str) -> str:
    """Return a whole page; `title` is escaped, `body` is HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<title>{cell(title)}</title><style>{STYLE}</style></head>\n<body>{body}</body></html>\n"
    )


def write_page(path: Path, title: str, body: str) -> None:
    """Write a page; it appears under its name whole, or not at all."""

    def write(partial: Path) -> None:
        partial.write_text(page(title, body), encoding="utf-8", errors="backslashreplace")

    publish_file(path, write)


def section(name: str, title: str, body: str) -> str:
    """Return a section that a page can be entered at; nothing if it is empty."""
    return f'<section id="{name}"><h2>{cell(title)}</h2>{body}</section>' if body else ""


def cards(figures: dict[str, float]) -> str:
    """Return large figures side by side."""
    shown = (
        f'<div class="card"><b>{value:.4f}</b><span>{cell(name)}</span></div>'
        for name, value in glossary.named(figures).items()
    )
    return f'<div class="cards">{"".join(shown)}</div>'


def facts(rows: Mapping[str, str]) -> str:
    """Return what is known of a model, a line each."""
    return Table((), list(rows.items()), left=(0, 1)).html()


def svg(draw: Callable[[Axes], object], width: float, height: float, caption: str) -> str:
    """Return what `draw` draws on axes, as SVG in the page's own ink; sizes are in inches."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    colored = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    settings: Any = dict.fromkeys(colored, INK) | {"svg.fonttype": "none", "svg.hashsalt": "sdem_dist", "font.size": 9}
    file = io.StringIO()
    with rc_context(settings | {"legend.framealpha": 0.0}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # the browser has more fonts
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.subplots())
        figure.savefig(
            file, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    picture = file.getvalue().replace(INK, "currentColor")
    style = f"max-width:{width:.1f}in"
    return (
        f'<figure><div class="wide" style="{style}">{picture[picture.index("<svg") :]}</div>'
        f"<figcaption>{cell(caption)}</figcaption></figure>"
    )


def curves(history: Sequence[Mapping[str, float]]) -> str:
    """Return metrics by epoch, a picture each; nothing where fewer than two epochs have any."""
    pictures = []
    for metric in CURVES:
        if plots.lines_by_documents(history, metric):
            draw = partial(plots.by_documents, history, metric)
            pictures.append(svg(draw, 4.2, 2.8, f"{glossary.metric(metric).name} by epoch"))
    return f'<div class="pair">{"".join(pictures)}</div>' if pictures else ""


def by_class(report: ClassificationReport) -> str:
    """Return figures by class and the most frequent confusions."""
    return "".join(table.html() for table in (report.class_table(), report.confusion_table(15)) if table.rows)


def confusion(report: ClassificationReport) -> str:
    """Return the confusion matrix."""
    side = float(np.clip(2.0 + 0.3 * len(report.worst), 4.0, 10.0))
    caption = "Rows are classes, columns predictions; lighter where more of the class."
    return svg(partial(plots.confusion, report), side, 0.85 * side, caption)


def trust(report: ClassificationReport) -> str:
    """Return the reliability diagram, and what it means in words."""
    sure = report.confidence >= 0.9
    meaning = "No prediction has a probability of .9 or more."
    if sure.any():
        meaning = (
            f"{sure.mean():.0%} of the documents have a prediction of probability .9 or more; {report.right[sure].mean():.1%} "
            "of these are right."
        )
    caption = "Accuracy of predictions by their probability; larger dots are more documents."
    return f"<p>{cell(meaning)}</p>{svg(partial(plots.reliability, report), 4.5, 4.0, caption)}"


def words_by_class(said: Mapping[object, Mapping[str, float]]) -> str:
    """Return the words that speak most for each class, with bars of their weights."""
    rows = []
    for label, words in said.items():
        top = max(words.values(), default=0.0) or 1.0
        marks = (
            f'<mark title="{value:.3g} nats per word" style="background:rgba({FOR},{0.08 + 0.5 * max(value, 0.0) / top:.2f})">'
            f"{cell(word)}</mark>"
            for word, value in words.items()
        )
        rows.append((label, Html(" ".join(marks))))
    note = (
        '<p class="soft">The stronger the colour, the more a word adds to the evidence for the class, on average.</p>'
    )
    return note + Table(("class", "words"), rows, left=(0, 1)).html() if rows else ""


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
    found = report.topic_table().html()
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
            Html(f'<span style="display:block;background:rgba({FOR},{0.7 * share**0.5:.2f})">{share:.0%}</span>')
            if share == share
            else ""
            for share in shares
        )
        rows.append((label, *cells))
    return Table(("class", *report.titles), rows).html()
