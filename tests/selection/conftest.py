"""Documents of three classes, as a matrix and as a corpus."""

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist import CorpusSearchCV, MultinomialNB, open_corpus, write_corpus


def made(n, seed=0, n_words=60, flipped=0.1):
    rng = np.random.default_rng(seed)
    topics = np.random.default_rng(42).dirichlet(np.full(n_words, 0.2), size=3)
    y = rng.choice(3, p=[0.5, 0.3, 0.2], size=n)
    X = np.stack([rng.multinomial(rng.integers(5, 30), topics[k]) for k in y])
    wrong = rng.random(n) < flipped
    labels = np.where(wrong, (y + rng.integers(1, 3, n)) % 3, y)
    return sp.csr_matrix(X.astype(np.uint8)), np.array(["a", "b", "c"])[labels], wrong


@pytest.fixture(scope="session")
def documents():
    return made(400)


@pytest.fixture(scope="session")
def corpus(documents, tmp_path_factory):
    path = tmp_path_factory.mktemp("selection") / "corpus.zarr"
    write_corpus(path, documents[0], documents[1], shard_documents=150)
    return open_corpus(path)


def searched(*documents, **more):
    """Return a fitted search, of three folds and one thread unless something else is said."""
    fit = {name: more.pop(name) for name in ("client", "checkpoint", "resume") if name in more}
    how = {"estimator": MultinomialNB(), "space": {}, "cv": 3, "n_jobs": 1}
    return CorpusSearchCV(**{**how, **more}).fit(*documents, **fit)


def same(one, other):
    assert one.best_params_ == other.best_params_ and one.best_score_ == other.best_score_
    assert np.array_equal(one.oof_proba_, other.oof_proba_)
    for a, b in zip(one.trials_, other.trials_, strict=True):
        assert (a.params, a.dropped) == (b.params, b.dropped)
        assert {k: of.tolist() for k, of in a.scores.items()} == {k: of.tolist() for k, of in b.scores.items()}
