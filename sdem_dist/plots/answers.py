"""What a classifier gets wrong, and how far its probabilities can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.plots.style import COLORS, axes_or_new, plain, refuse_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from sdem_dist.reports.classification import ClassificationReport

NUMBERED = 12
"""Classes up to which every cell has its number."""


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
    axes, shown = axes_or_new(axes), report.worst
    counts, n = report.confusion_among(shown), len(shown)
    shares = counts / np.maximum(report.support[shown, None], 1)
    image = axes.imshow(shares, cmap="cividis", vmin=0.0, vmax=1.0)
    axes.figure.colorbar(image, ax=axes, label="share of the class's documents", shrink=0.8)
    names = [plain(c, 24) for c in report.classes[shown].tolist()]
    size = 10 if n <= NUMBERED else max(4.0, 160.0 / n)
    axes.set_xticks(np.arange(n), names, rotation=90, fontsize=size)
    axes.set_yticks(np.arange(n), names, fontsize=size)
    some = "" if n == len(report.classes) else f" of the {n} classes with most errors, of {len(report.classes):,}"
    axes.set(title=f"Confusion{some}", xlabel="prediction", ylabel="class")
    for i, j in np.argwhere(counts > 0) if n <= NUMBERED else ():
        axes.text(
            j,
            i,
            f"{counts[i, j]:,}",
            ha="center",
            va="center",
            fontsize=8,
            color="black" if shares[i, j] > 0.5 else "white",
        )
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
        `sdem_dist.inspection.words.word_weights`.
    axes : matplotlib Axes, default=None
    title, unit : str

    Returns
    -------
    matplotlib Axes
    """
    refuse_model(
        weights, "words with their weights, such as {w.word: w.part for w in clf.explain([text])[0].words[:20]}"
    )
    axes = axes_or_new(axes)
    values: ArrayLike = np.array(list(weights.values()), np.float64)
    places = np.arange(len(weights))
    axes.barh(places, values, color=[COLORS[0] if v >= 0 else COLORS[1] for v in weights.values()])
    axes.set_yticks(places, [plain(word) for word in weights])
    axes.invert_yaxis()
    axes.axvline(0, color="0.5", linewidth=0.8)
    axes.set(title=plain(title, 60), xlabel=unit)
    axes.grid(alpha=0.3, axis="x")
    return axes
