"""What choosing settings costs, what it gains, and whether wrong labels are found.

    SDEM_CORPORA=FOLDER python tests/benchmarks/choose.py [cost] [gain] [suspects] [NAME...] [FIGURES.json]

cost: 16 settings x 5 folds against one training of the default with its evaluation, and against fits of all settings and
folds by hand, cold from disk: CPU seconds of one process, and bytes that are read;
gain: the default search against grids over C of LinearSVC and LogisticRegression, test documents, CPU seconds; of blitzer
the first of its five splits; with a file the figures of grids and of fastText come from there (`choose_peers.py`);
suspects: 20 % of 20 Newsgroups' labels flipped, average precision against out-of-fold LogisticRegression (and cleanlab).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np
from choose_peers import C, Figures, Kept, grid
from corpora import Split, splits_of
from sklearn.metrics import log_loss
from sklearn.model_selection import ParameterGrid

from sdem_dist import CorpusSearchCV, MultinomialNB, label_suspects, open_corpus, write_corpus
from sdem_dist.byte_cache import prepared_cache, shard_cache
from sdem_dist.storage import arrays

NAMES = ("r8", "webkb", "20ng")
SETTINGS = {"loss": ["hinge", "ncll"], "step": [0.1, 0.2, 0.5, 1.0], "weighting": ["tfidf", "log"]}


def cold() -> None:
    for cache in (prepared_cache, shard_cache):
        cache.clear()


def bytes_read(run: Callable[[], object]) -> int:
    """Return the bytes of all arrays of a corpus that are read meanwhile."""
    read, sizes = arrays.read_array, []

    def counting(*args, **more):
        array = read(*args, **more)
        sizes.append(array.nbytes)
        return array

    cold()
    with mock.patch.object(arrays, "read_array", counting):
        run()
    return sum(sizes)


def cost(split: Split, space: dict = SETTINGS, cv: int = 5) -> dict[str, float]:
    """Return CPU seconds of one training with its evaluation, of searches with and without halving, and bytes of each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus.zarr")
        write_corpus(path, split.X, split.y)
        corpus = open_corpus(path)
        search = {"cv": cv, "n_trials": None, "n_jobs": 1}
        CorpusSearchCV(MultinomialNB(), space, **search).fit(corpus)  # compiles

        def train() -> None:
            model = MultinomialNB(n_jobs=1).fit(corpus)
            model.evaluate(corpus)

        def seconds(run: Callable[[], object]) -> float:
            cold()
            started = time.process_time()
            run()
            return time.process_time() - started

        def searched(halving: bool) -> CorpusSearchCV:
            return CorpusSearchCV(MultinomialNB(), space, halving=halving, **search).fit(corpus)

        found, times = {}, []
        for name, turns in {
            "halving": 3,
            "all": 1,
        }.items():  # trainings in turns with searches: a machine is not always as fast
            taken = []
            for _ in range(turns):
                times += [seconds(train) for _ in range(3)]
                taken.append(seconds(lambda halving=name == "halving": searched(halving)))
            found[name] = float(np.median(taken))
        times += [seconds(train) for _ in range(3)]
        found["training"] = float(np.median(times))
        started = time.process_time()
        for settings in ParameterGrid(space):
            for training, fold in corpus.folds(cv):
                cold()
                MultinomialNB(**settings, n_jobs=1).fit(training).evaluate(fold)
        found["by hand"] = time.process_time() - started
        found["training bytes"] = bytes_read(train)
        found["search bytes"] = bytes_read(lambda: searched(True))
        found["settings"] = 1 + len(ParameterGrid(space))
        return found


def gain(
    split: Split, name: str = "", kept: Kept | None = None, c: tuple[float, ...] = C, cv: int = 5
) -> Iterator[tuple[str, Figures]]:
    """Yield figures on test documents, and CPU seconds, of the default, of the default search and of the grids."""
    kept = Kept(None) if kept is None else kept
    for method, ours in {
        "default": MultinomialNB(n_jobs=1),
        "search": CorpusSearchCV(MultinomialNB(), n_jobs=1, cv=cv),
    }.items():
        started = time.process_time()
        ours.fit(split.X, split.y)
        seconds = time.process_time() - started
        model = getattr(ours, "best_estimator_", ours)
        p = model.predict_proba(split.X_test)
        yield (
            method,
            {
                "seconds": seconds,
                "accuracy": float(model.score(split.X_test, split.y_test)),
                "log-loss": float(log_loss(split.y_test, p, labels=model.classes_)),
            },
        )
    for peer in ("LinearSVC", "LogisticRegression"):
        yield peer, kept.figures.get(f"{name} {peer}") or grid(split, peer, kept, name, c, cv)
    if (tuned := f"{name} fastText, autotune") in kept.figures:
        yield "fastText, autotune", kept.figures[tuned]


def suspects(split: Split, share: float = 0.2, cv: int = 5) -> dict[str, tuple[float, float]]:
    """Return average precision of the documents whose label was flipped, and CPU seconds, of ours and of the peers."""
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import average_precision_score
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline

    from sdem_dist.selection.suspects import suspects_of

    rng = np.random.default_rng(0)
    classes, y = np.unique(split.y, return_inverse=True)
    wrong = rng.random(len(y)) < share
    given = np.where(wrong, (y + rng.integers(1, len(classes), len(y))) % len(classes), y)
    label_suspects(split.X[:200], given[:200], cv=2, n_jobs=1)  # compiles
    started = time.process_time()
    ours = label_suspects(split.X, given, n=None, cv=cv, n_jobs=1)
    found = {
        "label_suspects": (average_precision_score(wrong[ours.documents], ours.doubt), time.process_time() - started)
    }
    started = time.process_time()
    peer = make_pipeline(TfidfTransformer(sublinear_tf=True), LogisticRegression(max_iter=1000))
    proba = cross_val_predict(peer, split.X, given, cv=cv, method="predict_proba")
    theirs = suspects_of(proba, given, np.arange(len(classes)))
    seconds = time.process_time() - started
    precision = average_precision_score(wrong[theirs.documents], theirs.doubt)
    found["LogisticRegression, the same score"] = precision, seconds
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError:
        return found
    for method in ("self_confidence", "normalized_margin", "confidence_weighted_entropy"):
        quality = get_label_quality_scores(given, proba, method=method)
        found[f"cleanlab {method}, LogisticRegression"] = average_precision_score(wrong, -quality), seconds
    return found


def main(words: list[str]) -> None:
    whats = [word for word in words if word in ("cost", "gain", "suspects")] or ["cost", "gain", "suspects"]
    files = [word for word in words if word.endswith(".json")]
    kept = Kept(Path(files[0]) if files else None)
    names = [word for word in words if word not in ("cost", "gain", "suspects", *files)]
    for what in whats:
        for name in names or (NAMES if what != "suspects" else ("20ng",)):
            split = splits_of(name)[0]
            if what == "cost":
                found = cost(split)
                bytes_ = found["search bytes"] / found["training bytes"]
                ratios = ", ".join(f"{k} {found[k] / found['training']:.1f}" for k in ("halving", "all", "by hand"))
                print(f"{name}: {found}; times one training: {ratios}, bytes {bytes_:.2f}", flush=True)
            elif what == "gain":
                for method, of in gain(split, name, kept):
                    print(f"{name}: {method:<20}", "  ".join(f"{k} {v:.4f}" for k, v in of.items()), flush=True)
            else:
                for method, (precision, seconds) in suspects(split).items():
                    print(f"{name}: {method:<50} average precision {precision:.4f}  {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
