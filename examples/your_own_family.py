"""A custom distribution, Weibull with known shape: checked, then trained discriminatively on Dask."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdem_dist import MixedNB, load_model, write_corpus
from sdem_dist.cluster import connected
from sdem_dist.families import Family
from sdem_dist.testing import check_family


@dataclass(frozen=True)
class Weibull(Family):
    """Lifetimes with density ``k/s (x/s)^(k-1) exp(-(x/s)^k)``; T(x) = x^k, mu = s^k, theta = -1 / mu."""

    shape: float

    @property
    def centre(self) -> np.ndarray:
        return np.ones(1)

    @property
    def prior_weight(self) -> float:
        return 1.0

    def statistics(self, x: np.ndarray) -> np.ndarray:
        return x**self.shape

    def log_base(self, x: np.ndarray) -> np.ndarray:
        return np.log(self.shape * np.maximum(x[..., 0], 1e-12) ** (self.shape - 1.0))

    def to_natural(self, mu: np.ndarray) -> np.ndarray:
        return -1.0 / mu

    def to_expectation(self, theta: np.ndarray) -> np.ndarray:
        return -1.0 / theta

    def log_partition(self, theta: np.ndarray) -> np.ndarray:
        return -np.log(-theta[..., 0])

    def check(self, mu: np.ndarray) -> tuple[np.ndarray, int]:
        return np.maximum(mu, 1e-10), int((mu < 1e-10).sum())

    def unfit(self, x: np.ndarray) -> np.ndarray:
        return ((x < 0) | np.isinf(x)).any(axis=-1)

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (-1.0 / theta) ** (1.0 / self.shape) * rng.weibull(self.shape, theta.shape)


def lifetimes(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return lifetimes of six parts in machines with one of two faults; the last three parts fail together."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    alone = rng.weibull(1.5, (n, 3)) * (1.0 + 0.5 * y[:, None])
    together = rng.weibull(1.5, (n, 1)) * (1.3 - 0.3 * y[:, None]) * rng.uniform(0.9, 1.1, (n, 3))
    return np.hstack([alone, together]), np.where(y, "bearing", "gear")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="folder for the corpus and the model")
    parser.add_argument("--quick", action="store_true", help="use few machines")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    family = Weibull(1.5)
    check_family(family)
    print(f"{family} passes all checks")
    X, y = lifetimes(2_000 if options.quick else 50_000, seed=0)
    X_new, y_new = lifetimes(20_000, seed=1)
    corpus = write_corpus(options.out / "lifetimes.zarr", X, y, dense=True, overwrite=True)
    kinds = dict.fromkeys(range(X.shape[1]), family)
    with connected(n_workers=2) as client:
        for loss in ("nll", "ncll", "hinge"):
            model = MixedNB(kinds=kinds, loss=loss).fit(corpus, client=client)
            print(
                f"{loss:5}  accuracy {model.score(X_new, y_new):.4f}  NCLL {model.evaluate(X_new, y_new)['ncll']:.4f}"
            )
    model.save(options.out / "lifetimes.model")
    again = load_model(options.out / "lifetimes.model", own=[Weibull])
    print("the same after loading:", bool((again.predict(X_new) == model.predict(X_new)).all()))


if __name__ == "__main__":
    main()
