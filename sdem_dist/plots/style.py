"""What the pictures share: colours that colour-blind people tell apart, axes, and labels that are not formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdem_dist.visible import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

    found: Axes = plt.subplots(layout="constrained")[1]
    return found


def refuse_model(value: object, instead: str) -> None:
    """Raise TypeError for an estimator, where a part of it or what it returns is drawn."""
    if hasattr(value, "get_params"):
        raise TypeError(f"this is a {type(value).__name__}, and the picture is of {instead}")


def plain(text: object, width: int = WIDTH) -> str:
    """Return a text as matplotlib shows it letter by letter: dollars begin no formula; a legend leaves nothing out."""
    shown = one_line(text, width).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
