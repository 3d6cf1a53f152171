"""Plots of training and predictions. Functions draw on the matplotlib axes passed, or new axes, and return them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.counted import PREFIXES, metric_of, one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from sdem_dist.reports.classification import ClassificationReport
    from sdem_dist.reports.top_words import Topic

History = Sequence[Mapping[str, float]]
Histories = History | Mapping[str, History]
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # palette of Okabe and Ito
MARKERS = "osD^vP"
WIDTH = 48  # most characters of a label
MAX_NUMBERED = 12  # up to this number of classes, all cells of a matrix show numbers


def _axes_or_new(axes: Axes | None) -> Axes:
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots(layout="constrained")[1]
    return axes


def _plain(text: object, width: int = WIDTH) -> str:
    """Return a text that matplotlib shows literally: no formulas between "$", no labels hidden by a leading "_"."""
    line = one_line(text, width).replace("$", r"\$")
    return f" {line}" if line.startswith("_") else line


def points(history: History, name: str) -> list[tuple[float, float]]:
    """Return the epochs and values of a metric, by its name in the history."""
    return [(h["epoch"], h[name]) for h in history if np.isfinite(h.get(name, np.nan))]


def history(
    histories: Histories, metric: str = "accuracy", axes: Axes | None = None, *, prefix: str | None = None
) -> Axes:
    """Plot a metric by epoch, with a line for each history, or for each set of documents of a single history.

    Parameters
    ----------
    histories : ``history_`` of a model, or dict of name to ``history_``
    metric : str, default="accuracy"
        Name in the history, without prefix. ValueError if no history contains it.
    prefix : str, default=None
        ``""`` plots the values on training documents, ``"validation_"`` on `validation` documents, and ``"held_out_"``
        or ``"fold_"`` on documents held out by the model. None: all of these for one history; for several histories,
        the first one that is available.
    """
    from matplotlib.ticker import MaxNLocator

    several, kinds = isinstance(histories, Mapping), PREFIXES
    trainings: Any = histories if several else {"": histories}
    names = {name for one in trainings.values() for entry in one for name in entry}
    title, unit = metric_of(metric, prefix or "")
    colors = dict(zip(kinds.values(), COLORS, strict=False))
    if not several and prefix is None:
        lines = {kind: line for start, kind in kinds.items() if (line := points(trainings[""], start + metric))}
    else:
        prefix = next((start for start in kinds if start + metric in names), "") if prefix is None else prefix
        title = f"{title}, {kinds.get(prefix, prefix)}"
        lines = {name: points(one, prefix + metric) for name, one in trainings.items()}
    if not any(lines.values()):
        metrics = ", ".join(sorted(names - {"epoch", "seconds"}))
        raise ValueError(f"no history contains {(prefix or '') + metric!r}; available: {metrics or 'nothing'}")
    axes = _axes_or_new(axes)
    for i, (name, line) in enumerate(lines.items()):
        color, label = colors.get(name, COLORS[i % len(COLORS)]), _plain(name) if name else None
        if len(line) == 1:  # a single pass is drawn as a horizontal line
            axes.axhline(line[0][1], color=color, linestyle="--", label=label)
        elif line:
            marker = MARKERS[i % len(MARKERS)]
            axes.plot(*zip(*line, strict=True), color=color, marker=marker, markersize=4, label=label)
    axes.set(title=title, xlabel="epoch", ylabel=unit)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.ticklabel_format(axis="y", useOffset=False)
    if metric == "perplexity":
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    if any(lines):
        axes.legend()
    return axes


def learning_curve(
    sizes: ArrayLike, scores: Mapping[str, ArrayLike], axes: Axes | None = None, *, metric: str = "accuracy"
) -> Axes:
    """Plot scores against the number of training documents; for repeats, the mean and one standard deviation.

    Parameters
    ----------
    sizes : array-like of shape (n_sizes,)
        Sizes as returned by ``sklearn.model_selection.learning_curve``.
    scores : dict of name to array-like of shape (n_sizes,) or (n_sizes, n_repeats)
    """
    axes, x = _axes_or_new(axes), np.asarray(sizes)
    for i, (name, values) in enumerate(scores.items()):
        repeats = np.asarray(values, np.float64).reshape(len(x), -1)
        mean, deviation, color = repeats.mean(axis=1), repeats.std(axis=1), COLORS[i % len(COLORS)]
        axes.plot(x, mean, color=color, marker=MARKERS[i % len(MARKERS)], markersize=4, label=_plain(name))
        if repeats.shape[1] > 1:
            axes.fill_between(x, mean - deviation, mean + deviation, color=color, alpha=0.2, linewidth=0)
    title, unit = metric_of(metric)
    label = f"{title}, {unit}" if unit else title
    axes.set(title=f"{title} by number of documents", xlabel="training documents", ylabel=label, xscale="log")
    axes.set_xticks(x, [f"{n:,}" for n in x.tolist()])  # sizes, not powers of ten
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    return axes


def confusion(report: ClassificationReport, axes: Axes | None = None) -> Axes:
    """Plot the confusion matrix, as fractions of each class; with many classes, only the classes with the most errors.

    `report`: the result of ``clf.report(X, y)``.
    """
    axes, pairs = _axes_or_new(axes), report.worst
    counts, n = report.confusion_among(pairs), len(pairs)
    shares = counts / np.maximum(report.columns["documents"][pairs, None], 1)
    image = axes.imshow(shares, cmap="cividis", vmin=0.0, vmax=1.0)
    axes.figure.colorbar(image, ax=axes, label="fraction of the documents in the class", shrink=0.8)
    names = [_plain(c, 24) for c in report.classes[pairs].tolist()]
    size = 10 if n <= MAX_NUMBERED else max(4.0, 160.0 / n)
    axes.set_xticks(np.arange(n), names, rotation=90, fontsize=size)
    axes.set_yticks(np.arange(n), names, fontsize=size)
    some = "" if n == len(report.classes) else f" of the {n} classes with the most errors (of {len(report.classes):,})"
    axes.set(title=f"Confusion{some}", xlabel="prediction", ylabel="class")
    for i, j in np.argwhere(counts > 0) if n <= MAX_NUMBERED else ():
        color = "black" if shares[i, j] > 0.5 else "white"
        axes.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", fontsize=8, color=color)
    return axes


def reliability(report: ClassificationReport, axes: Axes | None = None) -> Axes:
    """Plot the reliability diagram: accuracy by predicted probability; the areas of dots show numbers of documents."""
    axes, bins = _axes_or_new(axes), report.reliability
    filled = bins.documents > 0
    axes.plot([0, 1], [0, 1], color="0.5", linestyle="--", label="perfect calibration")
    x, y, n = bins.confidence[filled], bins.accuracy[filled], bins.documents[filled]
    axes.plot(x, y, color=COLORS[0], linewidth=1)
    axes.scatter(x, y, s=20 + 300 * n / max(n.max(initial=1), 1), color=COLORS[0], alpha=0.8, label="predictions")
    axes.set(title=f"Reliability: ECE {bins.ece:.3f}", xlim=(0, 1.02), ylim=(0, 1.02))
    axes.set(xlabel="probability of the prediction", ylabel="fraction of correct predictions")
    axes.grid(alpha=0.3)
    axes.legend()
    return axes


def words(weights: dict[str, float], axes: Axes | None = None, *, title: str = "", unit: str = "log-odds") -> Axes:
    """Plot word weights as bars: blue for the class, orange against it.

    `weights` is a dict such as ``{w.word: w.part for w in clf.explain([text])[0].words[:20]}``, or an element of
    `sdem_dist.reports.top_words.word_weights`.
    """
    axes, places = _axes_or_new(axes), np.arange(len(weights))
    colors = [COLORS[0] if v >= 0 else COLORS[1] for v in weights.values()]
    axes.barh(places, list(weights.values()), color=colors)
    axes.set_yticks(places, [_plain(word) for word in weights])
    axes.invert_yaxis()
    axes.axvline(0, color="0.5", linewidth=0.8)
    axes.set(title=_plain(title, 60), xlabel=unit)
    axes.grid(alpha=0.3, axis="x")
    return axes


def topics(topics: Sequence[Topic], *, n_words: int = 8) -> Figure:
    """Plot the most probable and most distinctive words of topics from ``model.topics()``, one panel each.

    The topics of each class have their own row; other topics are in rows of four.
    """
    from matplotlib.figure import Figure

    numbers = [t.number for t in topics]
    columns = max(numbers) + 1 if len(set(numbers)) < len(topics) else min(4, len(topics))
    rows = -(-len(topics) // columns)
    figure = Figure(figsize=(4.2 * columns, 0.6 + (0.25 * n_words + 0.5) * rows), layout="constrained")
    for place, topic in enumerate(topics, 1):
        axes = figure.add_subplot(rows, columns, place)
        axes.set_axis_off()
        axes.set_title(f"{_plain(f'topic {topic.title}', 40)}: {topic.share:.0%}", loc="left", fontsize=10)
        for x, heading, words in ((0.0, "most probable", topic.words), (0.5, "most distinctive", topic.distinctive)):
            axes.text(x, 1.0, heading, va="top", fontsize=8, color="0.5")
            for i, word in enumerate(words[:n_words]):
                axes.text(x, 1.0 - (i + 1) / (n_words + 1), _plain(word, 20), va="top", fontsize=9)
    return figure
