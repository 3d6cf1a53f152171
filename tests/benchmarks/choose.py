"""What choosing settings costs, what it gains, and whether wrong labels are found.

    SDEM_CORPORA=FOLDER python tests/benchmarks/choose.py {cost,gain,suspects} [NAME...]

cost: 16 settings x 5 folds against one training of the default with its evaluation, and against fits of all settings and
folds by hand, cold from disk: CPU seconds of one process, and bytes that are read;
gain: the default search against grids over C of LinearSVC and LogisticRegression: test documents, CPU
seconds; of blitzer the first of its five splits.  A grid's C is chosen by the folds' mean accuracy, as
GridSearchCV does, and once more by their mean log-loss;
suspects: 20 % of 20 Newsgroups' labels flipped, average precision against out-of-fold LogisticRegression (and cleanlab).
"""

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from unittest import mock

import harness
import numpy as np
import scipy.sparse as sp
from corpora import Split, splits_of
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import ParameterGrid, cross_val_predict, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from sdem_dist import CorpusSearchCV, MultinomialNB, label_suspects, open_corpus, write_corpus
from sdem_dist.documents import prepared_cache, shard_cache
from sdem_dist.storage import arrays

NAMES = ("r8", "webkb", "20ng")
SETTINGS = {"loss": ["hinge", "ncll"], "step": [0.1, 0.2, 0.5, 1.0], "weighting": ["tfidf", "log"]}
C = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
CLEANLAB = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
Figures = dict[str, float]


def cold() -> None:
    prepared_cache.discard(lambda key: True)
    shard_cache.discard(lambda key: True)


def bytes_read(call: Callable[[], object]) -> int:
    """Return the bytes of all arrays of a corpus that are read meanwhile."""
    read, sizes = arrays.read_array, []

    def counting(*args, **more):
        array = read(*args, **more)
        sizes.append(array.nbytes)
        return array

    cold()
    with mock.patch.object(arrays, "read_array", counting):
        call()
    return sum(sizes)


def costs(split: Split, space: dict = SETTINGS, cv: int = 5) -> Figures:
    """Return CPU seconds of one training with its evaluation, of searches with and without halving, and bytes of each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus.zarr")
        write_corpus(path, split.X, split.y)
        corpus = open_corpus(path)
        search = {"cv": cv, "n_trials": None, "n_jobs": 1}
        CorpusSearchCV(MultinomialNB(), space, **search).fit(corpus)  # compiles

        def train() -> None:
            MultinomialNB(n_jobs=1).fit(corpus).evaluate(corpus)

        def searched(halving: bool) -> None:
            CorpusSearchCV(MultinomialNB(), space, halving=halving, **search).fit(corpus)

        def by_hand() -> None:
            for settings in ParameterGrid(space):
                for training, fold in corpus.folds(cv):
                    cold()
                    MultinomialNB(**settings, n_jobs=1).fit(training).evaluate(fold)

        def cpu_seconds(call: Callable[[], object]) -> float:
            cold()
            return harness.seconds(call, time.process_time)

        found, times = {}, []
        for name, turns in {"halving": 3, "all": 1}.items():  # trainings take turns with searches
            searches = []
            for _ in range(turns):
                times += [cpu_seconds(train) for _ in range(3)]
                searches.append(cpu_seconds(lambda halving=name == "halving": searched(halving)))
            found[name] = median(searches)
        times += [cpu_seconds(train) for _ in range(3)]
        sizes = {"training bytes": bytes_read(train), "search bytes": bytes_read(lambda: searched(True))}
        n_settings = {"settings": 1 + len(ParameterGrid(space))}
        return found | {"training": median(times), "by hand": cpu_seconds(by_hand)} | sizes | n_settings


def cost(names: tuple = NAMES) -> None:
    for name in names:
        figures = costs(splits_of(name)[0])
        ratios = ", ".join(f"{k} {figures[k] / figures['training']:.1f}" for k in ("halving", "all", "by hand"))
        bytes_ = figures["search bytes"] / figures["training bytes"]
        print(f"{name}: {figures}; times one training: {ratios}, bytes {bytes_:.2f}", flush=True)


def pipeline(peer: str, c: float) -> Pipeline:
    return harness.on_tfidf(LinearSVC(C=c) if peer == "LinearSVC" else LogisticRegression(C=c, max_iter=1000))


def neg_log_loss(model: Pipeline, X: sp.csr_matrix, y: np.ndarray) -> float:
    """Return the mean of ln p(y | d); a class that a fold's training part lacks has the least probability there is."""
    column = {label: k for k, label in enumerate(model.classes_)}
    p = np.clip(model.predict_proba(X), 1e-15, 1.0)
    return float(np.mean([np.log(p[d, column[label]] if label in column else 1e-15) for d, label in enumerate(y)]))


def grid(split: Split, peer: str, cs: tuple[float, ...] = C, cv: int = 5) -> Figures:
    """Return accuracy and log-loss of test documents, and the CPU seconds of the whole grid with its last fit."""
    scores = {"accuracy": "accuracy"} | ({} if peer == "LinearSVC" else {"neg_log_loss": neg_log_loss})
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folds = [cross_validate(pipeline(peer, c), split.X, split.y, cv=cv, scoring=scores) for c in cs]
        seconds = time.process_time() - started
        best = {s: cs[int(np.argmax([of[f"test_{s}"].mean() for of in folds]))] for s in scores}
        tests = {s: {"C": c} | fitted(pipeline(peer, c), split) for s, c in best.items()}
    by_loss = tests.get("neg_log_loss", {})
    more = {f"{key} by log-loss": by_loss[key] for key in ("accuracy", "log-loss") if by_loss}
    return tests["accuracy"] | {"seconds": seconds + tests["accuracy"]["seconds"]} | more


def fitted(model: object, split: Split) -> Figures:
    """Return the CPU seconds of a fit, accuracy and log-loss of test documents."""
    seconds = harness.seconds(lambda: model.fit(split.X, split.y), time.process_time)
    accuracy, loss = harness.scores_of(getattr(model, "best_estimator_", model), split.X_test, split.y_test)
    return {"seconds": seconds, "accuracy": accuracy} | ({} if np.isnan(loss) else {"log-loss": loss})


def gains(split: Split, c: tuple[float, ...] = C, cv: int = 5) -> Iterator[tuple[str, Figures]]:
    """Yield figures on test documents, and CPU seconds, of the default, of the default search and of the grids."""
    yield "default", fitted(MultinomialNB(n_jobs=1), split)
    yield "search", fitted(CorpusSearchCV(MultinomialNB(), n_jobs=1, cv=cv), split)
    for peer in ("LinearSVC", "LogisticRegression"):
        yield peer, grid(split, peer, c, cv)


def gain(names: tuple = NAMES) -> None:
    for name in names:
        for method, figures in gains(splits_of(name)[0]):
            print(f"{name}: {method:<28}", "  ".join(f"{k} {v:.4f}" for k, v in figures.items()), flush=True)


def flipped_labels(split: Split, share: float = 0.2, cv: int = 5) -> dict[str, tuple[float, float]]:
    """Return average precision of the documents whose label was flipped, and CPU seconds, of ours and of the peers."""
    rng = np.random.default_rng(0)
    classes, y = np.unique(split.y, return_inverse=True)
    wrong = rng.random(len(y)) < share
    labels = np.where(wrong, (y + rng.integers(1, len(classes), len(y))) % len(classes), y)
    label_suspects(split.X[:200], labels[:200], cv=2, n_jobs=1)  # compiles
    started = time.process_time()
    ours = label_suspects(split.X, labels, n=None, cv=cv, n_jobs=1)
    between = time.process_time()
    proba = cross_val_predict(pipeline("LogisticRegression", 1.0), split.X, labels, cv=cv, method="predict_proba")
    doubt, seconds = 1.0 - proba[np.arange(len(y)), labels], time.process_time() - between
    precision = {
        "label_suspects": (average_precision_score(wrong[ours.documents], ours.doubt), between - started),
        "LogisticRegression, the same score": (average_precision_score(wrong, doubt), seconds),
    }
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError:
        return precision
    for method in CLEANLAB:
        quality = get_label_quality_scores(labels, proba, method=method)
        precision[f"cleanlab {method}, LogisticRegression"] = average_precision_score(wrong, -quality), seconds
    return precision


def suspects(names: tuple = ("20ng",)) -> None:
    for name in names:
        for method, (precision, seconds) in flipped_labels(splits_of(name)[0]).items():
            print(f"{name}: {method:<50} average precision {precision:.4f}  {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    harness.run(__doc__, cost, gain, suspects)
