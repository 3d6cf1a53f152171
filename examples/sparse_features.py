"""What sparse features bring, and what others reach (Saul and Lee 2001, sections 3 and 4): digits of MNIST.

The updates of a mixture go by ``1 / eta``, eta being the largest sum of a row of features: so they are slow on pixels,
of which a digit has many, and fast on features by NMF, of which it has few. The figure has the mean conditional
log-likelihood over passes for both. The table has test errors of the mixture, of support vectors and of nearest
neighbours, and what each of them keeps. MNIST is read from the folder that SDEM_CORPORA names.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import mnist_digits
from matplotlib.figure import Figure

from sdem_dist import MultiplicativeMixtureClassifier

PAPER = 3.2
"""Test error in per cent that the paper names for its mixture, M = 8."""


def slowness(digits: mnist_digits.Digits) -> float:
    """Return eta in units of a feature: the largest sum of a row over the mean of the features that are not 0."""
    return float(digits.X.sum(axis=1).max() / digits.X[digits.X > 0].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1,000 digits, few passes")
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="folder for figure and cached features")
    parser.add_argument("--passes", type=int, default=400)
    parser.add_argument("--digits", type=int, default=60_000, help="training digits; a sixth as many are tested")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    size, passes = ((1_000, 300), 10) if options.quick else ((options.digits, options.digits // 6), options.passes)
    raw, (by_nmf, _, _) = mnist_digits.pixels(*size), mnist_digits.cached(options.out, *size)
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    # The updates as printed, W and theta in turn, without the acceleration of the defaults.
    printed = {"scaling": None, "schedule": "alternate", "accelerate": False, "dtype": "float32", "n_epochs": passes}
    print(f"{size[0]:,} training digits, {size[1]:,} test digits, {passes} passes of updates")
    print("| model | test error, % | paper | keeps | s |\n| --- | --- | --- | --- | --- |")
    for name, digits in (("pixels", raw), ("NMF features", by_nmf)):
        started = time.perf_counter()
        model = MultiplicativeMixtureClassifier(8, evaluate_every=max(1, passes // 40), **printed).fit(
            digits.X, digits.y
        )
        seconds, shown = time.perf_counter() - started, [entry for entry in model.history_ if "ncll" in entry]
        axes.plot([e["epoch"] for e in shown], [-e["ncll"] for e in shown], label=f"{name}, eta {slowness(digits):.0f}")
        error = 100 * (1 - model.score(digits.X_test, digits.y_test))
        theirs = PAPER if name == "NMF features" else ""
        kept = f"{model.theta_.size:,} parameters"
        print(f"| mixture, M = 8, {name} | {error:.2f} | {theirs} | {kept} | {seconds:.0f} |", flush=True)
    for peer in mnist_digits.peers(raw):
        row = f"{peer.name}, pixels | {peer.test:.2f} | {peer.paper} | {peer.kept:,} digits | {peer.seconds:.0f}"
        print(f"| {row} |", flush=True)
    axes.set(xlabel="pass", ylabel="ln p(digit | features), training digits", title="multiplicative updates, M = 8")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(options.out / "sparse-features.png", dpi=110)


if __name__ == "__main__":
    main()
