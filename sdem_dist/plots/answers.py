"""What a model answers: confusions, probabilities, words and topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.counted import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sdem_dist.reports.classification import ClassificationReport
    from sdem_dist.reports.top_words import Topic

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Of Okabe and Ito."""
MARKERS = "osD^vP"
WIDTH = 32
"""Characters of a label."""


def axes_or_new(axes: Axes | None) -> Axes:
    """Return the axes, or those of a new figure of pyplot."""
    if axes is not None:
        return axes
    import matplotlib.pyplot as plt

    new_axes: Axes = plt.subplots(layout="constrained")[1]
    return new_axes


def refuse_model(value: object, instead: str) -> None:
    """Raise TypeError for an estimator, where a part of it or what it returns is drawn."""
    if hasattr(value, "get_params"):
        raise TypeError(f"this is a {type(value).__name__}, and the picture is of {instead}")


def plain(text: object, width: int = WIDTH) -> str:
    """Return a text as matplotlib shows it letter by letter: dollars begin no formula; a legend leaves nothing out."""
    line = one_line(text, width).replace("$", r"\$")
    return f" {line}" if line.startswith("_") else line


MAX_NUMBERED = 12
"""Classes up to which every cell of a matrix has its number."""


def confusion(report: ClassificationReport, axes: Axes | None = None) -> Axes:
    """Draw the share of each class's documents that was taken for each class; of many classes, those with most errors.

    Parameters
    ----------
    report : ClassificationReport
        What ``clf.report(X, y)`` returns.
    axes : matplotlib Axes, default=None
        None: those of a new figure.

    Returns
    -------
    matplotlib Axes
    """
    refuse_model(report, "a report: clf.report(X, y)")
    axes, pairs = axes_or_new(axes), report.worst
    counts, n = report.confusion_among(pairs), len(pairs)
    shares = counts / np.maximum(report.columns["documents"][pairs, None], 1)
    image = axes.imshow(shares, cmap="cividis", vmin=0.0, vmax=1.0)
    axes.figure.colorbar(image, ax=axes, label="share of the class's documents", shrink=0.8)
    names = [plain(c, 24) for c in report.classes[pairs].tolist()]
    size = 10 if n <= MAX_NUMBERED else max(4.0, 160.0 / n)
    axes.set_xticks(np.arange(n), names, rotation=90, fontsize=size)
    axes.set_yticks(np.arange(n), names, fontsize=size)
    some = "" if n == len(report.classes) else f" of the {n} classes with most errors, of {len(report.classes):,}"
    axes.set(title=f"Confusion{some}", xlabel="prediction", ylabel="class")
    for i, j in np.argwhere(counts > 0) if n <= MAX_NUMBERED else ():
        color = "black" if shares[i, j] > 0.5 else "white"
        axes.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", fontsize=8, color=color)
    return axes


def reliability(report: ClassificationReport, axes: Axes | None = None) -> Axes:
    """Draw the accuracy of predictions by their probability, beside what it should be; areas of dots are documents.

    Parameters
    ----------
    report : ClassificationReport
    axes : matplotlib Axes, default=None

    Returns
    -------
    matplotlib Axes
    """
    refuse_model(report, "a report: clf.report(X, y)")
    axes, bins = axes_or_new(axes), report.reliability
    filled = bins.documents > 0
    axes.plot([0, 1], [0, 1], color="0.5", linestyle="--", label="perfect calibration")
    x, y, n = bins.confidence[filled], bins.accuracy[filled], bins.documents[filled]
    axes.plot(x, y, color=COLORS[0], linewidth=1)
    axes.scatter(x, y, s=20 + 300 * n / max(n.max(initial=1), 1), color=COLORS[0], alpha=0.8, label="predictions")
    axes.set(
        title=f"Reliability: ECE {bins.ece:.3f}",
        xlabel="probability of the prediction",
        ylabel="share of right predictions",
        xlim=(0, 1.02),
        ylim=(0, 1.02),
    )
    axes.grid(alpha=0.3)
    axes.legend()
    return axes


def words(weights: dict[str, float], axes: Axes | None = None, *, title: str = "", unit: str = "log-odds") -> Axes:
    """Draw the weights of words as bars: blue for, orange against.

    Parameters
    ----------
    weights : dict of str to float
        Such as ``{w.word: w.part for w in clf.explain([text])[0].words[:20]}``, or the members of
        `sdem_dist.reports.top_words.word_weights`.
    axes : matplotlib Axes, default=None
    title, unit : str

    Returns
    -------
    matplotlib Axes
    """
    refuse_model(weights, "words: {w.word: w.part for w in clf.explain([text])[0].words[:20]}")
    axes, places = axes_or_new(axes), np.arange(len(weights))
    colors = [COLORS[0] if v >= 0 else COLORS[1] for v in weights.values()]
    axes.barh(places, list(weights.values()), color=colors)
    axes.set_yticks(places, [plain(word) for word in weights])
    axes.invert_yaxis()
    axes.axvline(0, color="0.5", linewidth=0.8)
    axes.set(title=plain(title, 60), xlabel=unit)
    axes.grid(alpha=0.3, axis="x")
    return axes


def topic(topic: Topic, axes: Axes | None = None, *, n_words: int = 8) -> Axes:
    """Write the most probable and the most distinctive words of a topic.

    Parameters
    ----------
    topic : Topic
        A member of ``model.topics()``.
    axes : matplotlib Axes, default=None
    n_words : int, default=8

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_or_new(axes)
    axes.set_axis_off()
    axes.set_title(f"{plain(f'topic {topic.title}', 40)}: {topic.share:.0%}", loc="left", fontsize=10)
    for x, heading, words in ((0.0, "most probable", topic.words), (0.5, "most distinctive", topic.distinctive)):
        axes.text(x, 1.0, heading, va="top", fontsize=8, color="0.5")
        for i, word in enumerate(words[:n_words]):
            axes.text(x, 1.0 - (i + 1) / (n_words + 1), plain(word, 20), va="top", fontsize=9)
    return axes


def topics(topics: Sequence[Topic], *, n_words: int = 8) -> Figure:
    """Write the words of topics, a panel each, and return the figure, which ``savefig`` writes.

    Parameters
    ----------
    topics : sequence of Topic
        Of classes: a row each. Others fill rows of four.
    n_words : int, default=8
    """
    from matplotlib.figure import Figure

    refuse_model(topics, "its topics: model.topics()")
    numbers = [t.number for t in topics]
    columns = max(numbers) + 1 if len(set(numbers)) < len(topics) else min(4, len(topics))
    rows = -(-len(topics) // columns)
    figure = Figure(figsize=(4.2 * columns, 0.6 + (0.25 * n_words + 0.5) * rows), layout="constrained")
    for i, one in enumerate(topics, 1):
        topic(one, figure.add_subplot(rows, columns, i), n_words=n_words)
    return figure
