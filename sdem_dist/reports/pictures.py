"""Pictures inside a page, as SVG that takes the page's colours, so that they are right on light and dark paper."""

from collections.abc import Mapping, Sequence

import numpy as np

from sdem_dist.calibration import Reliability
from sdem_dist.reports.html import cell
from sdem_dist.visible import one_line

COLORS = ("var(--blue)", "var(--orange)", "var(--green)")
"""Of Okabe and Ito, which colour-blind people tell apart; the page has them for light and for dark paper."""
LETTERS = 30
"""Of a class's name beside the matrix."""
NUMBERED = 25
"""Classes up to which its cells have numbers."""


def picture(width: float, height: float, body: str, caption: str, least: float = 0.0) -> str:
    """Return a figure; one that must not shrink below `least` pixels can be scrolled sideways."""
    style = f"min-width:{least:.0f}px;max-width:{1.25 * width:.0f}px"
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" style="{style}" '
        f'font-family="inherit" fill="var(--ink)">{body}</svg>'
    )
    return f'<figure><div class="wide">{svg}</div><figcaption>{cell(caption)}</figcaption></figure>'


def text(x: float, y: float, said: object, *, anchor: str = "start", size: float = 11, more: str = "") -> str:
    """Return a line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size:.1f}" {more}>{cell(said)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, more: str = 'stroke="var(--line)"') -> str:
    """Return a straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {more}/>'


def confusion_picture(classes: Sequence[object], shown: np.ndarray, documents: np.ndarray, n_classes: int) -> str:
    """Return a confusion matrix: a row for each class, shares of its documents by prediction.

    `classes`: those that are shown.
    `shown`: shape (n_shown, n_shown), integers: documents by class and prediction.
    `documents`: shape (n_shown,), integers: those of each class.
    `n_classes`: with those that are not shown.
    """
    totals, n = np.maximum(documents, 1), len(classes)
    names = [one_line(name, LETTERS) for name in classes]
    size = float(np.clip(620.0 / n, 13.0, 40.0))
    letters = float(np.clip(size * 0.6, 8.0, 11.0))
    margin = 8 + 0.66 * letters * max(map(len, names))
    parts = []
    for i, name in enumerate(names):
        middle = margin + (i + 0.5) * size + letters / 3
        parts.append(text(margin - 5, middle, name, anchor="end", size=letters))
        parts.append(
            text(0, 0, name, size=letters, more=f'transform="translate({middle:.1f} {margin - 5:.1f}) rotate(-90)"')
        )
        for at in ((margin, margin + i * size), (margin + i * size, margin)):
            end = (margin + n * size, at[1]) if at[0] == margin and i else (at[0], margin + n * size)
            parts.append(line(*at, *end) if i else "")
    for i, j in np.argwhere(shown > 0).tolist():
        share, x, y = shown[i, j] / totals[i], margin + j * size, margin + i * size
        said = f"{names[i]} taken for {names[j]}: {shown[i, j]:,}, {share:.1%}"
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{size:.1f}" height="{size:.1f}" fill="{COLORS[0 if i == j else 1]}" '
            f'fill-opacity="{0.12 + 0.75 * share**0.5:.2f}"><title>{cell(said)}</title></rect>'
        )
        if n <= NUMBERED:
            number = f"{shown[i, j]:,}"
            letter = min(letters, 1.7 * size / max(len(number), 1))
            parts.append(text(x + size / 2, y + size / 2 + letter / 3, number, anchor="middle", size=letter))
    edge = margin + n * size
    whole = f'x="{margin:.1f}" y="{margin:.1f}" width="{n * size:.1f}" height="{n * size:.1f}"'
    parts.append(f'<rect {whole} fill="none" stroke="var(--line)"/>')
    some = "" if n == n_classes else f" The {n} of {n_classes:,} classes with most errors."
    caption = (
        f"Rows are classes, columns predictions; blue is right, orange wrong, stronger where more of the class.{some}"
    )
    return picture(edge + 2, edge + 2, "".join(parts), caption, least=min(edge, max(300.0, 0.85 * edge)))


def reliability_picture(bins: Reliability) -> str:
    """Return the accuracy of predictions by their probability, above the number of documents of each bin."""
    left, top, side, low = 46.0, 10.0, 260.0, 50.0

    def at(x: float, y: float) -> tuple[float, float]:
        return left + x * side, top + (1.0 - y) * side

    parts = [line(*at(0, 0), *at(1, 1), 'stroke="var(--soft)" stroke-dasharray="4 4"')]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts += [line(*at(tick, 0), *at(tick, 1)), line(*at(0, tick), *at(1, tick))]
        parts.append(text(left - 6, at(0, tick)[1] + 4, f"{tick:g}", anchor="end"))
        parts.append(text(at(tick, 0)[0], top + side + low + 28, f"{tick:g}", anchor="middle"))
    filled = np.flatnonzero(bins.documents)
    most, width = max(int(bins.documents.max(initial=0)), 1), side / len(bins.documents)
    points = [at(float(bins.confidence[b]), float(bins.accuracy[b])) for b in filled]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[0]}" stroke-width="1.5"/>')
    base = top + side + 12 + low
    for b, (x, y) in zip(filled.tolist(), points, strict=True):
        n = int(bins.documents[b])
        said = f"{n:,} documents: probability {bins.confidence[b]:.3f}, right {bins.accuracy[b]:.3f}"
        tall = max(low * n / most, 1.0)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLORS[0]}"><title>{cell(said)}</title></circle>')
        parts.append(
            f'<rect x="{left + b * width + 1:.1f}" y="{base - tall:.1f}" width="{width - 2:.1f}" height="{tall:.1f}" '
            f'fill="{COLORS[0]}" fill-opacity=".5"><title>{cell(said)}</title></rect>'
        )
    middle = left + side / 2
    parts.append(text(middle, base + 34, "probability of the prediction", anchor="middle"))
    turned = f'transform="translate(12 {top + side / 2:.0f}) rotate(-90)"'
    parts.append(text(0, 0, "share of right predictions", anchor="middle", more=turned))
    caption = (
        f"Accuracy of predictions by their probability; below, how many documents. On the dashed line probabilities are "
        f"right. Calibration error (ECE) {bins.ece:.3f}."
    )
    return picture(left + side + 14, base + 42, "".join(parts), caption)


def round_ticks(low: float, high: float) -> list[float]:
    """Return numbers of few digits between two others: at most five multiples of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10((high - low) / 5))
    step = next(s for s in (power, 2 * power, 5 * power, 10 * power, 20 * power) if (high - low) / s <= 4)
    return [float(k * step) for k in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]


def said_apart(ticks: Sequence[float]) -> list[str]:
    """Return numbers with as few digits, but four at least, as tell them apart."""
    said = ([f"{tick:.{digits}g}" for tick in ticks] for digits in range(4, 18))
    return next(one for one in said if len(set(one)) == len(ticks))


def curve_picture(
    title: str, unit: str, lines: Mapping[str, Sequence[tuple[float, float]]], colors: Mapping[str, str]
) -> str:
    """Return values by epoch, a line for each kind of documents, in its colour."""
    left, top, width, height = 56.0, 14.0, 300.0, 150.0
    xs, ys = (np.array([p[i] for points in lines.values() for p in points], np.float64) for i in (0, 1))
    x0, x1, y0, y1 = xs.min(), max(xs.max(), xs.min() + 1.0), ys.min(), ys.max()
    spread = max(y1 - y0, 1e-3 * max(abs(y0), abs(y1), 1e-6))  # a curve that hardly moves is flat
    y0, y1 = (y0 + y1 - spread) / 2, (y0 + y1 + spread) / 2
    y0, y1 = y0 - 0.08 * spread, y1 + 0.08 * spread

    def at(x: float, y: float) -> tuple[float, float]:
        return left + (x - x0) / (x1 - x0) * width, top + (y1 - y) / (y1 - y0) * height

    parts, ticks = [], round_ticks(y0, y1)
    for tick, said in zip(ticks, said_apart(ticks), strict=True):
        parts += [line(left, at(x0, tick)[1], left + width, at(x0, tick)[1])]
        parts.append(text(left - 6, at(x0, tick)[1] + 4, said, anchor="end", size=10))
    for tick in sorted({int(x0), int((x0 + x1) / 2), int(x1)}):
        parts.append(text(at(tick, y0)[0], top + height + 14, tick, anchor="middle", size=10))
    for number, (name, points) in enumerate(lines.items()):
        color = colors[name]
        placed = [at(*point) for point in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.8"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{color}"/>' for x, y in placed]
        parts.append(
            f'<rect x="{left + number * 105:.0f}" y="{top + height + 22:.0f}" width="10" height="10" fill="{color}"/>'
        )
        parts.append(text(left + 14 + number * 105, top + height + 31, name, size=10))
    return picture(
        left + width + 12, top + height + 38, "".join(parts), f"{title} by epoch{f', {unit}' if unit else ''}"
    )
