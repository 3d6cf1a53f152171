"""Topics: of classes (`LDAClassifier`), and by mirror descent: accuracy, likelihood of words, ways of inference, and speed.

Run: ``SDEM_CORPORA=... python tests/benchmarks/topics.py {accuracy,slda,choose,sampler,twenty,inference,likelihood,speed}``.
Peers from tomotopy and JAX are measured where they are installed. Settings are the defaults but for what a row names.

accuracy: `LDAClassifier` over random starts; slda: tomotopy's; choose: cross-validation on the training documents of R8 and
WebKB, by which the defaults were chosen (``--rows 'NCLL-LDA;LinearSVC'`` names rows); sampler: its speed; twenty: many topics
from disk, on two workers;
inference: mirror descent, accelerated, by line search; alpha given and learned. 20 topics; train and held-out reviews are
parts of IMDB's training half, 5,000 words. AUC of the polarity of BP-sLDA; ln p of a held-out word of BP-LDA by the
left-to-right estimator, on reviews of at most 120 words; seconds of CPU of each fit;
likelihood: BP-LDA against scikit-learn's online variational LDA: held-out words, and what topics say of the stars. Both by the
left-to-right estimator with 10 particles, each at its own alpha, on test reviews of at most 300 words; then linear regression
on topic proportions, with the ridge that is best by leave-one-out on the training reviews;
speed: supervised LDA on one core, against automatic differentiation, against SGDClassifier, and how time grows. One epoch, 20
topics, 10 layers, batches of 100. The peer is Algorithm 2 written down plainly with JAX, jitted, in double precision, over
dense batches of documents by words.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import harness
import numpy as np
from corpora import Reviews, Split, imdb, load
from scale import peak_memory
from sklearn.decomposition import LatentDirichletAllocation as Peer
from sklearn.linear_model import RidgeCV, SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from sdem_dist import LatentDirichletAllocation, LDAClassifier, MultinomialNB, SupervisedLDAClassifier, write_corpus
from sdem_dist.cluster import connected
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import Merge
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.heads import Classes
from sdem_dist.models.lda import Inference, LdaClasses, log_probability
from sdem_dist.models.topics import METHODS

NAMES = ("r8", "webkb")
GIBBS = {"inference": "gibbs"}
ROWS: dict[str, Callable[[int], Any]] = {
    "NCLL-LDA": lambda s: LDAClassifier(random_state=s),
    "hinge-LDA": lambda s: LDAClassifier(loss="hinge", random_state=s),
    "NLL-LDA": lambda s: LDAClassifier(loss="nll", random_state=s),
    "NCLL-LDA, Gibbs": lambda s: LDAClassifier(**GIBBS, random_state=s),
    "NCLL-LDA, Gibbs, each occurrence": lambda s: LDAClassifier(**GIBBS, occurrences="each", random_state=s),
    "NCLL-LDA, Gibbs, left to right": lambda s: LDAClassifier(**GIBBS, n_particles=1, random_state=s),
    "NLL-LDA, Gibbs": lambda s: LDAClassifier(loss="nll", **GIBBS, random_state=s),
    "naive Bayes of counts, NCLL": lambda s: MultinomialNB(loss="ncll", weighting="counts", random_state=s),
    "naive Bayes, NLL": lambda s: MultinomialNB(loss="nll"),
    "LinearSVC": lambda s: LinearSVC(random_state=s),
}
CANDIDATES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "step=3, one lane": {"step": 3.0, "n_lanes": 1},
    "one lane": {"n_lanes": 1},
    "step=3": {"step": 3.0},
    "topic_word_prior=0.1": {"topic_word_prior": 0.1},
    "topic_word_prior=3": {"topic_word_prior": 3.0},
    "doc_topic_prior=5": {"doc_topic_prior": 5.0},
    "init_noise=0.3": {"init_noise": 0.3},
    "init_noise=1": {"init_noise": 1.0},
    "n_components=4": {"n_components": 4},
    "hinge": {"loss": "hinge"},
    "Gibbs": GIBBS,
    "Gibbs, paper": {**GIBBS, "occurrences": "paper"},
    "Gibbs, each": {**GIBBS, "occurrences": "each"},
    "Gibbs, left to right": {**GIBBS, "n_particles": 1},
}


def spread(values: list[float]) -> str:
    """Return mean, smallest and largest."""
    return f"{np.mean(values):.4f} ({min(values):.4f} to {max(values):.4f})"


def accuracies(split: Split, make: Callable[[int], Any], starts: int) -> list[float]:
    return [float(make(s).fit(split.X, split.y).score(split.X_test, split.y_test)) for s in range(starts)]


def slda_accuracy(split: Split, start: int, n_topics: int = 50, iterations: int = 500) -> float:
    """Return the test accuracy of tomotopy's supervised LDA, a logistic output for each class."""
    import tomotopy

    classes = np.unique(split.y)
    model = tomotopy.SLDAModel(k=n_topics, vars="b" * len(classes), seed=start)
    for words, label in zip(_words(split.X), split.y, strict=True):
        if words:
            model.add_doc(words, y=(classes == label).astype(float).tolist())
    model.train(iterations, workers=1)
    documents = [model.make_doc(words or ["0"], y=[float("nan")] * len(classes)) for words in _words(split.X_test)]
    model.infer(documents, workers=1)
    outputs = np.array([model.estimate(d) for d in documents])
    return float((classes[outputs.argmax(axis=1)] == split.y_test).mean())


def _words(X: Any) -> Iterator[list[str]]:
    for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield [str(w) for w, c in zip(X.indices[a:b], X.data[a:b], strict=True) for _ in range(int(c))]


def cross_validated(split: Split, settings: dict[str, Any], folds: int = 4) -> tuple[float, float]:
    scores = []
    for i, (a, b) in enumerate(StratifiedKFold(folds, shuffle=True, random_state=3).split(split.X, split.y)):
        model = LDAClassifier(random_state=i, evaluate_every=0, **settings).fit(split.X[a], split.y[a])
        scores.append(harness.scores_of(model, split.X[b], split.y[b]))
    accuracy, loss = np.mean(scores, axis=0)
    return round(float(accuracy), 4), round(float(loss), 3)


def sampler_rates(split: Split, n_topics: int, repeats: int, sweeps: int = 20) -> dict[str, float]:
    """Return millions of tokens x topics a second of our sampler and of tomotopy's LDA, on one core."""
    n = split.X.shape[0]
    corpus = MemoryCorpus(split.X, np.zeros(n, np.int32), ("all",), random_state=0)
    gibbs = Inference("gibbs", "each", 1.0 / n_topics, sweeps, sweeps - 1)
    learner = SdEM(
        LdaClasses(split.X.shape[1], Classes(1), 0.1, n_topics=n_topics, inference=gibbs), float(n), Merge(local=False)
    )
    documents, lane = learner.prepare(corpus.read(0, n)), Lane(0, 0, 0, 0, n, n)
    state = learner.init()
    state = learner.update(state, learner.map(state, documents, lane))
    calls: dict[str, Callable[[], object]] = {"ours": lambda: learner.map(state, documents, lane)}
    if find_spec("tomotopy"):
        import tomotopy

        peer = tomotopy.LDAModel(k=n_topics, seed=0)
        for words in filter(None, _words(split.X)):
            peer.add_doc(words)
        peer.train(5, workers=1)
        calls["tomotopy"] = lambda: peer.train(sweeps, workers=1)
    work = float(split.X.sum()) * n_topics * sweeps / 1e6
    return {name: work / median(times) for name, times in harness.in_turns(calls, repeats).items()}


def accuracy(names: tuple = NAMES, rows: tuple = tuple(ROWS), starts: int = 10) -> None:
    for name in names:
        for title in rows:
            n = 1 if title in ("LinearSVC", "naive Bayes, NLL") else starts
            print(name, title, spread(accuracies(load(name), ROWS[title], n)), flush=True)


def slda(names: tuple = NAMES, starts: int = 10) -> None:
    for name in names:
        accuracies = [slda_accuracy(load(name), start) for start in range(starts)]
        print(name, "tomotopy SLDA, 50 topics", spread(accuracies), flush=True)


def choose(names: tuple = NAMES, rows: tuple = tuple(CANDIDATES)) -> None:
    for title in rows:
        print(title, {name: cross_validated(load(name), CANDIDATES[title]) for name in names}, flush=True)


def sampler(repeats: int = 5) -> None:
    for n_topics in (2, 20, 100):
        rates = {name: round(rate) for name, rate in sampler_rates(load("r8"), n_topics, repeats).items()}
        print(f"{n_topics} topics, million tokens x topics a second: {rates}", flush=True)


def twenty(topics: int = 4, epochs: int = 10) -> None:
    """Say how long many classes of some topics train on two Dask workers from disk, and what memory they take."""
    split = load("20ng")
    with tempfile.TemporaryDirectory() as folder, connected(n_workers=2) as client:
        corpus = write_corpus(Path(folder, "corpus.zarr"), split.X, split.y)
        model = LDAClassifier(n_components=topics, n_epochs=epochs, evaluate_every=0)
        seconds = harness.seconds(lambda: model.fit(corpus, client=client))
        memory = max(client.run(peak_memory).values()) / 2**20
    accuracy = model.score(split.X_test, split.y_test)
    print(
        f"{len(model.classes_)} classes x {topics} topics, {epochs} epochs on two Dask workers: {seconds:.1f} s, "
        f"peak of a worker {memory:.0f} MiB, test accuracy {accuracy:.4f}"
    )


ONE_LANE: dict[str, Any] = {"n_lanes": 1, "batch_size": 100, "n_jobs": 1, "evaluate_every": 0}


def short_reviews(part: Reviews, most_words: int, n: int) -> Any:
    return part.X[np.flatnonzero(np.asarray(part.X.sum(axis=1)).ravel() <= most_words)[:n]]


def inference_line(settings: dict[str, Any], part: Reviews, other: Reviews, held_out: Any) -> str:
    plain: dict[str, Any] = {"n_components": 20, "evaluate_every": 0, "n_jobs": 1}
    supervised, words = SupervisedLDAClassifier(**plain, **settings), LatentDirichletAllocation(**plain, **settings)
    first = harness.seconds(lambda: supervised.fit(part.X, part.y), time.process_time)
    second = harness.seconds(lambda: words.fit(part.X), time.process_time)
    auc = roc_auc_score(other.y, supervised.predict_proba(other.X)[:, 1])
    return f"{settings}: AUC {auc:.4f} in {first:.1f} s; {words.score(held_out):.4f} a word in {second:.1f} s"


def inference(documents: int = 10_000) -> None:
    train, _ = imdb()
    order = np.random.default_rng(0).permutation(len(train.y))
    part, other = train.take(order[:documents]), train.take(order[documents : 2 * documents])
    short = short_reviews(other, 120, 100)
    inference_line({}, part.take(np.arange(50)), other, short[:1])  # compiles
    settings = [{"inference": name, "n_layers": layers} for layers in (10, 5) for name in METHODS]
    for given in [*settings, {"alpha": 1.1}, {"alpha": "learned"}]:
        print(inference_line(given, part, other, short), flush=True)


def likelihood_line(name: str, model: Any, alpha: float, train: Reviews, test: Reviews, held_out: Any) -> str:
    seconds = harness.seconds(lambda: model.fit(train.X))
    topics = model.components_ / model.components_.sum(axis=1)[:, None]
    ridge = RidgeCV(np.logspace(-4, 3, 8)).fit(model.transform(train.X), train.stars)
    explained = ridge.score(model.transform(test.X), test.stars)
    documents = MemoryCorpus(held_out, None, (), shuffle=False).read(0, held_out.shape[0])
    of_word = float(log_probability(topics.T, documents, alpha).sum() / held_out.sum())
    return f"{name}: {of_word:.4f} a word, R2 of the stars {explained:.4f}, {seconds:.0f} s"


def likelihood(documents: int = 200, topics: tuple = (20, 50)) -> None:
    train, test = imdb()
    held_out = short_reviews(test, 300, documents)
    for k in topics:
        ours = LatentDirichletAllocation(n_components=k, evaluate_every=0, n_jobs=1)
        print(likelihood_line(f"BP-LDA, {k} topics", ours, ours.alpha, train, test, held_out), flush=True)
        peer = Peer(k, learning_method="online", max_iter=5, random_state=0)
        print(likelihood_line(f"scikit-learn, {k} topics", peer, 1 / k, train, test, held_out), flush=True)


def epoch_seconds(reviews: Reviews, n_epochs: int = 3, **settings: Any) -> float:
    model = SupervisedLDAClassifier(n_epochs=n_epochs, **(ONE_LANE | settings)).fit(reviews.X, reviews.y)
    return median(h["seconds"] for h in model.history_)


def automatic(reviews: Reviews, n_topics: int = 20, n_layers: int = 10, batch: int = 100, n_batches: int = 20) -> float:
    """Return the seconds that an epoch takes by automatic differentiation, from some batches of it."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy
    n, n_words = reviews.X.shape
    rng = np.random.default_rng(0)
    topics = np.asarray(reviews.X.sum(axis=0)).T * np.exp(0.1 * rng.standard_normal((n_words, n_topics)))
    phi, u = jnp.asarray(topics / topics.sum(axis=0)), jnp.asarray(rng.standard_normal((2, n_topics)))

    def loss(phi: Any, u: Any, x: Any, y: Any) -> Any:
        theta = jnp.full((len(x), n_topics), 1.0 / n_topics)
        for _ in range(n_layers):
            pull = (x / (theta @ phi.T)) @ phi + 0.001 / theta
            p = theta * jnp.exp(pull / x.sum(axis=1, keepdims=True))
            theta = p / p.sum(axis=1, keepdims=True)
        return -jax.nn.log_softmax(theta @ u.T)[jnp.arange(len(x)), y].mean()

    @jax.jit
    def step(phi: Any, u: Any, squares: Any, t: Any, x: Any, y: Any) -> Any:
        by_phi, by_u = jax.grad(loss, argnums=(0, 1))(phi, u, x, y)
        squares = squares + (by_phi**2).sum(axis=0)
        moved = phi * jnp.exp(jnp.clip(-0.03 / (jnp.sqrt(squares / (t * n_words)) + 1e-12) * by_phi, -1, 1))
        return moved / moved.sum(axis=0), u - 3.0 * by_u, squares

    squares, started = jnp.zeros(n_topics), 0.0
    for t in range(n_batches + 1):
        if t == 1:  # the first compiles
            phi.block_until_ready()
            started = time.perf_counter()
        rows = slice(t * batch, (t + 1) * batch)
        x = np.asarray(reviews.X[rows].todense(), np.float64)
        phi, u, squares = step(phi, u, squares, t + 1.0, x, reviews.y[rows])
    phi.block_until_ready()
    return (time.perf_counter() - started) / n_batches * n / batch


def growth(measure: Callable[..., float], train: Reviews) -> None:
    n = len(train.y)
    order = np.random.default_rng(0).permutation(n)
    for k in (5, 10, 20, 50, 100):
        print(f"{k} topics: {measure(train, 2, n_components=k):.3f} s an epoch", flush=True)
    for share in (8, 4, 2, 1):
        print(f"{n // share} documents: {measure(train.take(order[: n // share]), 2):.3f} s an epoch", flush=True)


def speed(documents: int = 25_000) -> None:
    train, _ = imdb()
    order = np.random.default_rng(0).permutation(len(train.y))
    train = train.take(order[:documents])
    epoch_seconds(train.take(order[order < len(train.y)][:200]), 1)  # compiles
    ours = epoch_seconds(train)
    print(f"one epoch: {ours:.3f} s", flush=True)
    sgd = SGDClassifier(loss="log_loss", max_iter=3, tol=None, random_state=0)
    peer = harness.seconds(lambda: sgd.fit(train.X, train.y)) / 3
    print(f"one SGDClassifier epoch: {peer:.3f} s, ratio {ours / peer:.1f}", flush=True)
    if find_spec("jax") is None:
        print("automatic differentiation: JAX is not installed")
    else:
        auto = automatic(train)
        print(f"one epoch by automatic differentiation: {auto:.2f} s, ratio {auto / ours:.1f}", flush=True)
    growth(epoch_seconds, train)


if __name__ == "__main__":
    harness.run(__doc__, accuracy, slda, choose, sampler, twenty, inference, likelihood, speed)
