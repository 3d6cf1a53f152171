"""The searches that chose the defaults of `MultinomialNB`: training parts only, test parts unseen.

Run: ``SDEM_CORPORA=... python tests/benchmarks/choose_defaults.py [grid|overlap|indifferent|lanes|few]``.

grid, overlap: accuracy and log-loss of held-out fourths of each training part, all four of small corpora, one of large ones;
training time and temperature come from documents held out again. `overlap`: hinge loss or NCLL, where classes are apart, and
where three or more overlap; reviews in 3 and 4 steps are those of Pang and Lee (2005);
indifferent: what should hardly matter, the norm of weighted rows and alpha; accuracy and log-loss of test documents, and how
far the accuracies of a row are apart: at most .003 for the norm, .005 for alpha;
lanes: from how many documents a lane and round on lanes do not change the result: how far several lanes are from one, and how
far one lane with another seed is, over draws of a fifth of the training part. Of "nsmc" the validation movies are held out;
few: hinge loss or NCLL of few documents of each class, by how even classes are. So many a class in the mean are drawn at
random ("random"), or so that class sizes go evenly from 1 to a ratio in logarithms (1: equal). Up to 4,000 others are the
test. Words are those of the drawn documents; with ``--all-words`` those of the whole training part keep their columns;
``--files`` takes lines of a label, a tab and a text. Columns: largest class over the median, accuracy, macro-F1 and log-loss
by NCLL and by hinge. At the end, for bounds of the first column under which NCLL is taken, what accuracy and macro-F1 lose to
the better loss, and by how many percent log-loss is above the lower one; then where two classes always get the hinge loss.
"""

from itertools import product
from pathlib import Path

import corpora
import harness
import numpy as np
import scipy.sparse as sp
from corpora import Split, tfidf
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold

from sdem_dist import MultinomialNB
from sdem_dist.fitting import defaults
from sdem_dist.fitting.plans import plan_of_steps

NAMES = ("webkb", "r8", "r52", "r52 unstemmed", "20ng", "20ng unstemmed", "imdb words", "blitzer", "20ng 20 a class")
BOUNDS = (0.0, 1.1, 1.25, 1.5, 2.0, np.inf)
"""Largest class over the median, up to which NCLL is taken."""


def cross_validated(split: Split, **settings: object) -> tuple[float, float]:
    """Return the mean accuracy and log-loss on held-out fourths of the training part."""
    folds = list(KFold(4, shuffle=True, random_state=0).split(split.X))
    scores = []
    for train, held_out in folds[: 1 if split.X.shape[0] > 10_000 else 4]:
        model = MultinomialNB(**settings).fit(split.X[train], split.y[train])
        scores.append(harness.scores_of(model, split.X[held_out], split.y[held_out]))
    accuracy, loss = np.mean(scores, axis=0)
    return float(accuracy), float(loss)


def reached(split: Split, **settings: object) -> tuple[float, float]:
    metrics = MultinomialNB(n_jobs=1, **settings).fit(split.X, split.y).evaluate(split.X_test, split.y_test)
    return metrics["accuracy"], metrics["ncll"]


def grid(
    losses: tuple = ("hinge",),
    steps: tuple = (0.15, 0.2, 0.3, 0.45),
    norms: tuple = (10.0,),
    powers: tuple = (0.0, 0.0625, 0.125, 0.25),
    names: tuple = NAMES,
) -> None:
    """Print a line for each combination; powers are of document frequencies, for pseudo-counts."""
    splits = {name: corpora.training_part(name) for name in names}
    for loss, step, norm, power in product(losses, steps, norms, powers):
        defaults.PRIOR_POWER = power
        scores = {name: cross_validated(split, loss=loss, step=step, norm=norm) for name, split in splits.items()}
        of_names = "  ".join(f"{name} {accuracy:.4f}/{value:.3f}" for name, (accuracy, value) in scores.items())
        accuracy, value = np.mean(list(scores.values()), axis=0)
        setting = f"{loss} c {step:g} norm {norm:g} power {power:g}"
        print(f"{setting}: mean {accuracy:.4f}/{value:.3f}  {of_names}", flush=True)


def counted(texts: list[str], y: np.ndarray) -> Split:
    X = CountVectorizer().fit_transform(texts)
    return Split(X, y, X[:0], y[:0])


def overlap(names: tuple = ("r52", "20ng", "webkb", "20ng 50 a class")) -> None:
    splits = {name: corpora.training_part(name) for name in names}
    films = list(corpora.rows_of("scale/scale_data.tsv.xz", 5))
    for column, steps in ((1, 3), (2, 4)):
        y = np.array([film[column] for film in films])
        splits[f"film reviews in {steps} steps"] = counted([film[5] for film in films], y)
    texts, _, stars = corpora.blitzer()
    splits["stars of product reviews"] = counted(texts, stars)
    train = corpora.imdb(None)[0]
    splits["stars of IMDB"] = Split(train.X, train.stars, train.X[:0], train.stars[:0])
    harness.head("corpus", "classes", "hinge", "NCLL")
    for name, split in splits.items():
        cells = [f"{a:.4f}, {b:.3f}" for a, b in (cross_validated(split, loss=loss) for loss in ("hinge", "ncll"))]
        harness.row(name, len(np.unique(split.y)), *cells)


def indifferent(names: tuple = ("webkb", "r8", "r52", "20ng", "imdb words")) -> None:
    for name in names:
        print(name)
        split = corpora.splits_of(name)[0]
        of_settings = {
            "norm": {norm: reached(tfidf(split, norm)) for norm in (1.0, 3.0, 10.0, 100.0)},
            "alpha": {alpha: reached(split, alpha=alpha) for alpha in (0.1, 0.3, 1.0, 3.0)},
        }
        for setting, values in of_settings.items():
            cells = "  ".join(f"{value:g}: {accuracy:.4f}/{loss:.3f}" for value, (accuracy, loss) in values.items())
            accuracies = [accuracy for accuracy, _ in values.values()]
            print(f"  {setting:6} {cells}  apart {max(accuracies) - min(accuracies):.4f}", flush=True)


def held_out(name: str, draw: int, most: int) -> Split:
    """Return what is trained on, `most` documents at most, and what is held out."""
    rng = np.random.default_rng(draw)
    if name == "nsmc":
        parts = corpora.nsmc_validation()
        X, y = parts["train"]
        rows = rng.permutation(X.shape[0])[:most]
        return Split(X[rows], y[rows], *parts["validation"])
    X, y = corpora.splits_of(name)[0][:2]
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


def lanes(names: tuple = corpora.STEMMED, lanes: tuple = (4, 16, 64), draws: int = 5, documents: int = 10**9) -> None:
    """Print a line for each number of lanes; `documents` is the most that are trained on."""
    for name in names:
        splits = [held_out(name, draw, documents) for draw in range(draws)]
        n = splits[0].X.shape[0]

        def all_of(n_lanes: int, first: int = 0, splits: list[Split] = splits) -> np.ndarray:
            return np.array([reached(split, n_lanes=n_lanes, random_state=first + i) for i, split in enumerate(splits)])

        one = all_of(1)
        print(f"{name}: {n:,} documents, one lane {one[:, 0].mean():.4f}, {one[:, 1].mean():.4f}", flush=True)
        print(line("another seed", all_of(1, first=100), one), flush=True)
        for n_lanes in lanes:
            plan = plan_of_steps(MultinomialNB(n_lanes=n_lanes), n, 1, 0)
            of_lane = n // (plan.n_rounds * n_lanes)
            print(line(f"{n_lanes} lanes, {of_lane:,} documents a round", all_of(n_lanes), one), flush=True)


def numbered_part(name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return counts and numbers of classes of a training part, or of a file."""
    if Path(name).is_file():
        labels, _, texts = zip(*(r.partition("\t") for r in Path(name).read_text("utf-8").splitlines()), strict=True)
        X, y = CountVectorizer().fit_transform(texts), np.array(labels)
    else:
        X, y = corpora.splits_of(name)[0][:2]
    return X.tocsr(), np.unique(y, return_inverse=True)[1]


def drawn(y: np.ndarray, kind: str, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng, n_classes = np.random.default_rng(seed), int(y.max()) + 1
    if kind == "random":
        rows = rng.permutation(len(y))[: size * n_classes]
    else:
        spread = float(kind) ** np.linspace(0, 1, n_classes)
        sizes = rng.permutation(np.maximum(1, np.round(size * spread / spread.mean())).astype(int))
        rows = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:n] for k, n in enumerate(sizes)])
    return np.sort(rows), np.sort(rng.permutation(np.setdiff1d(np.arange(len(y)), rows))[:4_000])


def regret(results: np.ndarray, ncll: np.ndarray) -> np.ndarray:
    """Return the means of what is lost if NCLL is taken there: accuracy, macro-F1, percent of log-loss."""
    chosen = results[np.arange(len(results)), np.where(ncll, 0, 1)]
    lost = results.max(axis=1) - chosen
    lost[:, 2] = 100 * (chosen[:, 2] / results[:, :, 2].min(axis=1) - 1)
    return lost.mean(axis=0)


def few(
    names: tuple = ("webkb", "r8", "r52", "20ng", "imdb words", "blitzer"),
    files: tuple = (),
    sizes: tuple = (5, 10, 20),
    kinds: tuple = ("random", "1", "1.5"),
    draws: int = 4,
    all_words: bool = False,
) -> None:
    largest, several, results = list[float](), list[bool](), list[list[tuple[float, ...]]]()
    print(f"{'':34} {'largest':>7}   {'accuracy':13}   {'macro-F1':11}   log-loss, NCLL and hinge")
    for name in [*names, *files]:
        X, y = numbered_part(name)
        for size, kind in product(sizes, kinds):
            first = len(results)
            for seed in range(draws):
                train, test = drawn(y, kind, size, seed)
                counts = np.unique(y[train], return_counts=True)[1]
                if len(counts) < 2:
                    continue
                largest.append(counts.max() / np.median(counts))
                several.append(len(counts) > 2)
                words = np.ones(X.shape[1], bool) if all_words else np.asarray((X[train] > 0).sum(axis=0))[0] > 0
                parts = X[train][:, words], y[train], X[test][:, words], y[test]
                models = [MultinomialNB(loss=loss, n_jobs=1).fit(*parts[:2]) for loss in ("ncll", "hinge")]
                f1 = [f1_score(parts[3], m.predict(parts[2]), average="macro", zero_division=0) for m in models]
                scores = [harness.scores_of(model, *parts[2:]) for model in models]
                results.append([(a, f, value) for (a, value), f in zip(scores, f1, strict=True)])
            a, f, v = np.mean(results[first:], axis=0).T
            title = f"{Path(name).stem}, {size} a class, {kind}"
            figures = f"{a[0]:.4f} {a[1]:.4f}   {f[0]:.3f} {f[1]:.3f}   {v[0]:.3f} {v[1]:.3f}"
            print(f"{title:34} {np.mean(largest[first:]):7.2f}   {figures}", flush=True)
    print("\nNCLL up to: lost accuracy, macro-F1, log-loss; where two classes always get the hinge loss")
    for bound in BOUNDS:
        even = np.array(largest) <= bound
        rules = (regret(np.array(results), ncll) for ncll in (even, even & np.array(several)))
        print(f"{bound:5g}   " + "   ".join(f"{a:.4f} {f:.4f} {v:4.1f} %" for a, f, v in rules))


if __name__ == "__main__":
    harness.run(__doc__, grid, overlap, indifferent, lanes, few)
