"""How long the documents of a class are: a part of p(y, d) of its own, beside that of the words."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from sdem_dist.records import record

KINDS = ("poisson", "negative-binomial")


@record
@dataclass(frozen=True)
class DocumentLengths:
    """A distribution of the number of words for each class."""

    means: tuple[float, ...]  # of each class, above 0
    sizes: tuple[float, ...] = ()
    """The negative binomial's r of each class, above 0: the variance is ``mean + mean^2 / r``. Empty: Poisson."""

    def log_probabilities(self, lengths: np.ndarray) -> np.ndarray:
        """Return ln p(length | class), shape (n_documents, n_classes); lengths are sums of entries, whole or not."""
        x, mean = np.asarray(lengths, np.float64)[:, None], np.array(self.means)
        base = -gammaln(x + 1.0)
        if not self.sizes:
            return np.asarray(base + x * np.log(mean) - mean)
        r = np.array(self.sizes)
        return np.asarray(
            base + gammaln(x + r) - gammaln(r) - r * np.log1p(mean / r) + x * (np.log(mean) - np.log(mean + r))
        )

    def sample(self, classes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw the length of a document of each of some classes."""
        rates = np.array(self.means)[classes]
        if self.sizes:
            r = np.array(self.sizes)[classes]
            rates = rng.gamma(r, rates / r)
        return rng.poisson(rates)


def fitted(kind: str, counts: np.ndarray, sums: np.ndarray, squares: np.ndarray) -> DocumentLengths:
    """Return the lengths that documents have, by the moments of each class.

    One document of the mean length of all is added to every class, so that a class without documents has a length, too.

    `kind`: "poisson" or "negative-binomial".
    `counts`, `sums`, `squares`: shape (n_classes,), float64: documents by weight, and sums of their lengths and of
    these squared.
    """
    overall = max(float(sums.sum()) / max(float(counts.sum()), 1e-300), 1e-6)
    means = (sums + overall) / (counts + 1.0)
    if kind == "poisson":
        return DocumentLengths(tuple(means.tolist()))
    variances = np.maximum((squares + overall**2) / (counts + 1.0) - means**2, 0.0)
    # A variance hardly above the mean is Poisson's: r would grow without bound.
    sizes = means**2 / np.maximum(variances - means, 1e-6 * means)
    return DocumentLengths(tuple(means.tolist()), tuple(sizes.tolist()))
