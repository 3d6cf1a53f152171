"""Table 1 and Figure 1 of Saul and Lee (2001): mixtures of digits by EM and multiplicative updates, beside the paper's.

Support vectors and nearest neighbours on the pixels stand below. MNIST is read from the folder that SDEM_CORPORA
names; NMF of all 60,000 digits takes about two minutes, once.

    python examples/mixtures_table_1.py --out figures
    python examples/mixtures_table_1.py --short     # 10,000 digits, M up to 8, 300 passes
    python examples/mixtures_table_1.py --quick
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import mnist_digits
import numpy as np

from sdem_dist import EMMixtureClassifier, MultiplicativeMixtureClassifier

PAPER = {
    "EM-PCA40": {1: (10.2, 10.1), 2: (8.5, 8.3), 4: (6.8, 6.4), 8: (5.3, 5.1), 16: (4.0, 4.4), 32: (3.1, 3.6), 64: (1.9, 3.1)},
    "EM-NMF80": {1: (15.7, 14.7), 2: (12.3, 10.7), 4: (9.3, 8.2), 8: (7.8, 7.0), 16: (6.2, 5.7), 32: (5.0, 5.1), 64: (3.9, 4.2)},
    "DT-NMF80": {1: (5.5, 5.8), 2: (4.0, 4.4), 4: (2.8, 3.5), 8: (1.7, 3.2), 16: (1.0, 3.4)},
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "EM-PCA40": {"components": "gaussian", "n_epochs": 64},
    # Exact zeros have an unbounded likelihood under exponential components: every value gains a quarter of the mean.
    "EM-NMF80": {"components": "exponential", "offset": 0.25, "n_epochs": 64},
    # W and theta in turn, a pass each: 2,000 passes are the paper's 1,000 iterations.
    "DT-NMF80": {"scaling": None, "schedule": "alternate", "accelerate": False, "dtype": "float32", "n_epochs": 2000},
    "defaults": {"dtype": "float32"},
}
SHORT, QUICK = ((10_000, 2_000), (1, 2, 4, 8), 300), ((2_000, 500), (1, 2), 20)
"""Training and test digits, values of M, and passes at most."""


def errors(model: Any, digits: mnist_digits.Digits) -> tuple[float, float]:
    """Return training and test error in per cent, one decimal more than the paper."""
    parts = ((digits.X, digits.y), (digits.X_test, digits.y_test))
    train, test = (100.0 * (1.0 - model.score(X, y)) for X, y in parts)
    return train, test


def figure_1(basis: np.ndarray, digits: mnist_digits.Digits, path: Path) -> None:
    """Draw the basis images, and the features of a handwritten two by their contribution."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    side, n = mnist_digits.SIDE, len(basis)
    two = digits.X[np.flatnonzero(digits.y == 2)[0]]
    order = np.argsort(-two, kind="stable")
    columns = 16
    sheet = np.full((-(-n // columns) * (side + 1) + 1, columns * (side + 1) + 1), 0.4)  # grey lines between the images
    for place, k in enumerate(order):
        row, column = divmod(place, columns)
        top, left = 1 + row * (side + 1), 1 + column * (side + 1)
        sheet[top : top + side, left : left + side] = basis[k].reshape(side, side) / max(basis[k].max(), 1e-12)
    figure = Figure(figsize=(12, 4), layout="constrained")
    FigureCanvasAgg(figure)
    images, bars = figure.subplots(1, 2, width_ratios=(3, 2))
    images.imshow(1.0 - sheet, cmap="gray", vmin=0, vmax=1)
    images.set_axis_off()
    images.set_title("basis images by NMF, by contribution to the digit")
    bars.bar(np.arange(n), two[order], color="#0072b2")
    bars.set_title('features of a handwritten "2"')
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print the table, line by line, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2,000 digits, few components, few passes")
    parser.add_argument("--short", action="store_true", help="10,000 digits, M up to 8, 300 passes at most")
    parser.add_argument("--out", default="examples-out", help="folder for figure and cached features")
    parser.add_argument("--models", nargs="*", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--components", nargs="*", type=int, help="values of M; default: all of the paper")
    arguments = parser.parse_args()
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    part = QUICK if arguments.quick else SHORT if arguments.short else None
    size = part[0] if part else (60_000, 10_000)
    if part:
        print(f"A part of the table: {size[0]:,} digits, {size[1]:,} for the test, {part[2]} passes at most.\n")
    by_nmf, by_pca, basis = mnist_digits.cached(out, *size)
    figure_1(basis, by_nmf, out / "mixtures-figure-1.png")
    print("| model | M | paper, training / test | ours | seconds |\n| --- | --- | --- | --- | --- |")
    for name in arguments.models:
        paper = PAPER.get(name, PAPER["DT-NMF80"])
        for m in arguments.components or (part[1] if part else paper):
            settings = dict(SETTINGS[name])
            if part:
                settings["n_epochs"] = min(part[2], settings.get("n_epochs", 200))
            digits = by_pca if name == "EM-PCA40" else by_nmf
            started = time.perf_counter()
            kind = EMMixtureClassifier if name.startswith("EM") else MultiplicativeMixtureClassifier
            model = kind(m, evaluate_every=0, n_jobs=1, **settings).fit(digits.X, digits.y)
            seconds = time.perf_counter() - started
            train, test = errors(model, digits)
            theirs = "{} / {}".format(*paper[m]) if m in paper else ""
            print(f"| {name} | {m} | {theirs} | {train:.2f} / {test:.2f} | {seconds:.0f} |", flush=True)
    for peer in mnist_digits.peers(mnist_digits.pixels(*size)):
        ours = f"{peer.train:.2f} / {peer.test:.2f} | {peer.seconds:.0f}"
        print(f"| {peer.name} | {peer.kept:,} digits kept | - / {peer.paper} | {ours} |", flush=True)


if __name__ == "__main__":
    main()
