"""The default loss: the hinge loss, and NCLL where classes overlap or where classes of the same size have few documents."""

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist import MultinomialNB, load_model, write_corpus


def documents(n_documents: int, n_classes: int, own_words: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return documents of 30 words each, so many of which are words of their class; neighbouring classes share half."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n_documents)
    words = rng.integers(200, size=(n_documents, 30))
    words[:, :own_words] = 200 + 10 * y[:, None] + rng.integers(20, size=(n_documents, own_words))
    rows = np.repeat(np.arange(n_documents), 30)
    return sp.csr_matrix((np.ones(words.size), (rows, words.ravel())), shape=(n_documents, 400)), y


@pytest.mark.parametrize("n_documents", [900, 4000], ids=["folds", "held out"])
def test_ncll_where_classes_overlap(n_documents, tmp_path):
    X, y = documents(n_documents, 4, 2)
    auto, ncll, hinge = (MultinomialNB(loss=loss).fit(X, y) for loss in ("auto", "ncll", "hinge"))
    assert hinge.best_entry_["held_out_accuracy"] < 0.8
    assert auto.loss_ == "ncll"
    np.testing.assert_array_equal(auto.predict_proba(X), ncll.predict_proba(X))
    assert auto.best_entry_["held_out_log_loss"] < hinge.best_entry_["held_out_log_loss"]
    auto.save(tmp_path / "m")
    assert load_model(tmp_path / "m").loss_ == "ncll"


@pytest.mark.parametrize("n_documents", [900, 3000], ids=["folds", "held out"])
def test_whatever_the_seed_the_loss_is_about_the_best(n_documents):
    X, y = documents(n_documents + 4000, 4, 1)
    accuracy = np.array(
        [
            [
                MultinomialNB(loss=loss, random_state=seed).fit(X[4000:], y[4000:]).score(X[:4000], y[:4000])
                for loss in ("auto", "hinge", "ncll")
            ]
            for seed in range(5)
        ]
    ).T
    assert (accuracy[0] >= accuracy[1:].max(axis=0) - 0.02).all()
    assert accuracy[0].mean() >= accuracy[1:].mean(axis=1).max() - 0.006


def of_sizes(sizes: list[int], own_words: int = 10) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return the first documents of each class, so many, in a random order."""
    X, y = documents(40 * len(sizes), len(sizes), own_words)
    rows = np.concatenate([np.flatnonzero(y == k)[:n] for k, n in enumerate(sizes)])
    rows = np.random.default_rng(1).permutation(rows)
    assert len(rows) == sum(sizes)
    return X[rows], y[rows]


@pytest.mark.parametrize(
    ("sizes", "loss"),
    [
        ([8] * 4, "ncll"),
        ([10, 8, 8, 6], "ncll"),
        ([11, 8, 8, 8], "hinge"),
        ([8, 8, 8, 8, 2], "ncll"),
        ([29] * 3, "ncll"),
        ([30] * 3, "hinge"),
        ([8, 8], "hinge"),
    ],
)
def test_sizes_of_classes_decide_the_loss_of_few_documents(sizes, loss, tmp_path, caplog):
    X, y = of_sizes(sizes)
    in_memory = MultinomialNB()
    with caplog.at_level("INFO", "sdem_dist"):
        in_memory.fit(X, y)
    assert ("few documents" in caplog.text) == (sum(sizes) < 30 * len(sizes))
    corpus = write_corpus(tmp_path / "c", X, y)
    on_disk = MultinomialNB(n_jobs=2).fit(corpus)
    assert in_memory.loss_ == on_disk.loss_ == loss
    named = MultinomialNB(loss=loss)
    np.testing.assert_array_equal(in_memory.predict_proba(X), named.fit(X, y).predict_proba(X))
    np.testing.assert_array_equal(on_disk.predict_proba(X), named.fit(corpus).predict_proba(X))


def test_ncll_is_not_tried_of_few_documents_of_uneven_classes():
    X, y = of_sizes([20, 5, 5, 5], own_words=2)
    auto, ncll, hinge = (MultinomialNB(loss=loss).fit(X, y) for loss in ("auto", "ncll", "hinge"))
    assert hinge.best_entry_["held_out_accuracy"] < 0.8
    assert ncll.best_entry_["held_out_log_loss"] < hinge.best_entry_["held_out_log_loss"]
    assert auto.loss_ == "hinge"


def test_classes_are_even_by_weight_and_without_those_of_no_document(tmp_path):
    X, y = of_sizes([8] * 4)
    assert MultinomialNB().fit(X, y, sample_weight=np.where(y == 0, 2.0, 1.0)).loss_ == "hinge"
    assert MultinomialNB().fit(X, y, sample_weight=np.full(len(y), 2.0)).loss_ == "ncll"
    corpus = write_corpus(tmp_path / "c", X, y)
    assert MultinomialNB().fit(corpus.subset(np.flatnonzero(corpus.labels() > 0))).loss_ == "ncll"


def test_labelled_documents_alone_decide():
    """With a weight of 0 for the others, training is that of the labelled ones."""
    X, y = of_sizes([8, 8, 8, 30])
    hidden = np.where((y == 3) & (np.cumsum(y == 3) > 8), -1, y)
    model = MultinomialNB(unlabelled=-1, unlabelled_weight=0.0).fit(X, hidden)
    assert model.loss_ == MultinomialNB().fit(X[hidden >= 0], hidden[hidden >= 0]).loss_ == "ncll"
    assert MultinomialNB().fit(X, y).loss_ == "hinge"


@pytest.mark.parametrize(
    ("n_documents", "n_classes", "own_words"),
    [(4000, 4, 10), (4000, 2, 1), (120, 4, 10), (60, 2, 10)],
    ids=["apart", "two", "enough of four", "enough of two"],
)
def test_the_hinge_loss_elsewhere(n_documents, n_classes, own_words):
    X, y = documents(n_documents, n_classes, own_words)
    auto, hinge = (MultinomialNB(loss=loss).fit(X, y) for loss in ("auto", "hinge"))
    assert auto.loss_ == "hinge"
    np.testing.assert_array_equal(auto.predict_proba(X), hinge.predict_proba(X))
