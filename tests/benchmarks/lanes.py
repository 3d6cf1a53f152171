"""From how many documents a lane and round on lanes do not change the result.

Run: ``SDEM_CORPORA=... python tests/benchmarks/lanes.py [NAME...] [--lanes 4,16,64] [--draws 5]``.  Means over draws of a
fifth of the training part, which is held out: how far several lanes are from one, and how far one lane with another seed
is.  Of "nsmc" the validation movies are held out: reviews rated 1-4 against 9-10, character 1- and 2-grams of two reviews or
more.  ``--documents`` is the most that are trained on.
"""

from __future__ import annotations

from typing import Any

import harness
import numpy as np
from choose_defaults import reached
from corpora import Split, nsmc_validation, splits_of

from sdem_dist import MultinomialNB


def held_out(name: str, draw: int, most: int) -> Split:
    """Return what is trained on, `most` documents at most, and what is held out."""
    rng = np.random.default_rng(draw)
    if name == "nsmc":
        parts = nsmc_validation()
        X, y = parts["train"]
        rows = rng.permutation(X.shape[0])[:most]
        return Split(X[rows], y[rows], *parts["validation"])
    X, y = splits_of(name)[0][:2]
    order = rng.permutation(X.shape[0])
    out, rows = order[: len(order) // 5], order[len(order) // 5 :][:most]
    return Split(X[rows], y[rows], X[out], y[out])


def line(name: str, results: np.ndarray, one: np.ndarray) -> str:
    """Return how results are from those of one lane: means, and standard errors over draws."""
    cells = []
    for change, digits in ((results[:, 0] - one[:, 0], 4), (100 * (results[:, 1] / one[:, 1] - 1), 1)):
        error = change.std(ddof=1) / len(change) ** 0.5 if len(change) > 1 else np.nan
        cells.append(f"{change.mean():+.{digits}f} ({error:.{digits}f})")
    return f"  {name:34} accuracy {cells[0]}, log-loss {cells[1]} %"


def compare(
    names: tuple = ("webkb", "r8", "r52", "20ng"), lanes: tuple = (4, 16, 64), draws: int = 5, documents: int = 10**9
) -> None:
    """Print a line for each number of lanes."""
    for name in names:
        splits = [held_out(name, draw, documents) for draw in range(draws)]
        n = splits[0].X.shape[0]

        def all_of(n_lanes: int, first: int = 0, splits: Any = splits) -> np.ndarray:
            return np.array([reached(split, n_lanes=n_lanes, random_state=first + i) for i, split in enumerate(splits)])

        one = all_of(1)
        print(f"{name}: {n:,} documents, one lane {one[:, 0].mean():.4f}, {one[:, 1].mean():.4f}", flush=True)
        print(line("another seed", all_of(1, first=100), one), flush=True)
        for n_lanes in lanes:
            plan = MultinomialNB(n_lanes=n_lanes)._plan_of_steps(n, 1, 0)
            print(line(f"{n_lanes} lanes, {plan.lane_documents:,} documents a round", all_of(n_lanes), one), flush=True)


if __name__ == "__main__":
    harness.run(__doc__, compare)
