"""The toy experiment of Masegosa (2014), section 4.1: one Gaussian per class, for data that are not Gaussian."""

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
    """Plot the histogram of each class, its density times its share (both with area .5), and decision boundaries."""
    x = np.linspace(-10, 10, 1001)
    edges = np.linspace(-10, 10, 201)
    shares = np.full(len(X), 1 / (len(X) * (edges[1] - edges[0])))
    figure = Figure(figsize=(11, 5), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, loss in zip(figure.subplots(1, 2, sharey=True), ("ncll", "hinge"), strict=True):
        for k, label in enumerate((-1, 1)):
            of_class = y == label
            color = COLORS[label]
            axes.hist(
                X[of_class, 0], edges, weights=shares[of_class], color=color, alpha=0.2, label=f"class {label}, data"
            )
            for name, line in (("nll", "--"), (loss, "-")):
                density = np.exp(models[name].predict_joint_log_proba(x[:, None])[:, k])
                axes.plot(x, density, line, color=color, label=f"class {label}, {name}")
        for name, line in (("nll", "--"), (loss, "-")):
            decided = models[name].predict(x[:, None])
            for i, place in enumerate(x[1:][decided[1:] != decided[:-1]]):
                axes.axvline(
                    place, color="0.4", linestyle=line, linewidth=0.8, label=None if i else f"boundary, {name}"
                )
        scores = ", ".join(f"{name} {models[name].score(X, y):.3f}" for name in ("nll", loss))
        axes.set(
            title=f"training accuracy: {scores}", xlabel="x", ylabel="density times share of the class", ylim=(0, 0.6)
        )
        axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3)  # clear of the curves
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="folder for the figure")
    parser.add_argument("--quick", action="store_true", help="use a tenth of the points")
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
