"""The toy experiment of Masegosa (2014), section 4.1, with its figure: one Gaussian a class, for data that are not Gaussian."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sdem_dist import GaussianNB

COLORS = {-1: "#0072b2", 1: "#d55e00"}


def draw(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n points: class -1 is N(0, 3), class 1 is .8 N(-5, .1) + .2 N(5, .1), with standard deviations."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1, 1], n)
    sides = np.where(rng.random(n) < 0.8, -5.0, 5.0)
    return np.where(y < 0, rng.normal(0.0, 3.0, n), rng.normal(sides, 0.1))[:, None], y


def plot(models: dict[str, GaussianNB], X: np.ndarray, y: np.ndarray, path: Path) -> None:
    """Draw histograms and, for every model, the density of each class times its share."""
    x = np.linspace(-10, 10, 1001)
    figure = Figure(figsize=(11, 4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, loss in zip(figure.subplots(1, 2, sharey=True), ("ncll", "hinge"), strict=True):
        for k, label in enumerate((-1, 1)):
            axes.hist(X[y == label, 0], bins=200, range=(-10, 10), density=True, color=COLORS[label], alpha=0.2)
            for name, line in (("nll", "--"), (loss, "-")):
                density = np.exp(models[name].predict_joint_log_proba(x[:, None])[:, k])
                axes.plot(x, density, line, color=COLORS[label], label=f"class {label}, {name}")
        axes.set(title=loss, xlabel="x", ylim=(0, 0.6))
        axes.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="folder for the figure")
    parser.add_argument("--quick", action="store_true", help="a tenth of the points")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    n = 3_000 if options.quick else 30_000
    (X, y), (X_new, y_new) = draw(n, 0), draw(100_000, 1)
    paper = {"step": "paper", "merge": "mean", "n_lanes": 1, "batch_size": 1, "step_decay": 0.1, "n_epochs": 2}
    models = {"nll": GaussianNB(loss="nll").fit(X, y)}
    print(f"maximum likelihood        {models['nll'].score(X_new, y_new):.4f}")
    for loss in ("ncll", "hinge"):
        models[loss] = GaussianNB(loss=loss, n_epochs=200).fit(X, y)
        print(f"{loss:5}  safe steps         {models[loss].score(X_new, y_new):.4f}")
        print(f"{loss:5}  the paper's steps  {GaussianNB(loss=loss, **paper).fit(X, y).score(X_new, y_new):.4f}")
    plot(models, X, y, options.out / "toy-gaussian.png")


if __name__ == "__main__":
    main()
