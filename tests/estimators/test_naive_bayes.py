"""MultinomialNB as a scikit-learn user meets it: whole corpora, and batch after batch."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.random_documents import random_counts
from reference.trained_bits import bits, kept
from scipy.special import log_softmax
from sklearn.exceptions import NotFittedError

from sdem_dist import MultinomialNB, write_corpus
from sdem_dist.documents import prepared_cache
from sdem_dist.engine import rounds
from sdem_dist.fitting import defaults, plans

X, Y = random_counts(240, 30, 3, seed=2)
X_NEW, Y_NEW = random_counts(150, 30, 3, seed=12)
LOSSES = ("ncll", "hinge", "nll")


@pytest.mark.parametrize("steps", ["margin", "paper"])
def test_discriminative_training_lowers_its_loss_over_the_training_documents(steps):
    dependent = sp.hstack([X] * 4).tocsr()  # words that come four at a time: naive Bayes takes them for evidence
    same = {"weighting": "tfidf", "norm": 10.0, "calibrate": False, "n_epochs": 30}
    models = {loss: MultinomialNB(loss=loss, **({} if loss == "nll" else {"steps": steps}), **same) for loss in LOSSES}
    losses = {loss: model.fit(dependent, Y).evaluate(dependent, Y) for loss, model in models.items()}
    assert losses["ncll"]["ncll"] < losses["nll"]["ncll"]
    assert losses["hinge"]["hinge"] < losses["nll"]["hinge"]
    assert losses["nll"]["nll"] < min(losses["ncll"]["nll"], losses["hinge"]["nll"])


@pytest.mark.parametrize("chunks", [(50, 30), (50, 7), (240, 30), (60, 30)])
def test_dask_arrays(chunks):
    da = pytest.importorskip("dask.array")
    block = sp.csr_matrix if chunks == (60, 30) else np.asarray
    lazy, new = (da.from_array(x.toarray(), chunks=chunks).map_blocks(block) for x in (X, X_NEW))
    names = np.array(["a", "bb", "ccc"])[Y]
    reference = MultinomialNB(n_epochs=2).fit(X, names)
    model = MultinomialNB(n_epochs=2).fit(lazy, da.from_array(names) if block is np.asarray else names)
    np.testing.assert_array_equal(model.state_.words, reference.state_.words)
    np.testing.assert_array_equal(model.predict_proba(new).compute(), reference.predict_proba(X_NEW))


def test_refitting_forgets():
    model = MultinomialNB(n_epochs=2).fit(X, Y)
    again = MultinomialNB(n_epochs=2).fit(X_NEW[:, :20], Y_NEW == 0)
    model.fit(X_NEW[:, :20], Y_NEW == 0)
    np.testing.assert_array_equal(model.state_.words, again.state_.words)
    assert model.classes_.tolist() == [False, True] and model.n_features_in_ == 20


@pytest.mark.parametrize("seed", [0, 1, 2**62, np.int64(4)])
def test_the_seed_decides(seed):
    one, two = (MultinomialNB(n_epochs=2, random_state=seed).fit(X, Y).state_.words for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, MultinomialNB(n_epochs=2, random_state=99).fit(X, Y).state_.words)
    used_up = (MultinomialNB(n_epochs=2, random_state=np.random.RandomState(3)).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(*(model.state_.words for model in used_up))
    fresh = [MultinomialNB(n_epochs=2, random_state=None).fit(X, Y).state_.words for _ in range(2)]
    assert not np.array_equal(*fresh)


@pytest.mark.parametrize("loss", LOSSES)
def test_documents_without_words_get_the_most_frequent_class(loss):
    model = MultinomialNB(loss=loss).fit(X, np.where(np.arange(240) % 4 == 0, Y, 1))
    empty = sp.csr_matrix((4, 30))
    np.testing.assert_allclose(model.predict_joint_log_proba(empty), np.tile(model.class_log_prior_, (4, 1)))
    expected = log_softmax(model.class_log_prior_ / model.temperature_)
    np.testing.assert_allclose(model.predict_log_proba(empty), np.tile(expected, (4, 1)))
    assert (model.predict(empty) == 1).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_corpus_without_any_word(loss):
    model = MultinomialNB(loss=loss, evaluate_every=1).fit(sp.csr_matrix((40, 5)), np.arange(40) % 4 == 0)
    np.testing.assert_allclose(model.feature_log_prob_, -np.log(5))
    assert np.exp(model.class_log_prior_[0]) > 0.5 and np.isnan(model.history_[-1]["perplexity"])


@pytest.mark.parametrize("loss", LOSSES)
def test_a_class_in_one_lane_only(loss):
    y = np.where(np.arange(240) == 17, 2, Y % 2)
    model = MultinomialNB(loss=loss, n_lanes=12, rounds_per_epoch=2).fit(X, y)
    assert np.isfinite(model.feature_log_prob_).all() and np.isfinite(model.class_log_prior_).all()
    assert model.predict_proba(X).shape == (240, 3)


def test_a_class_of_which_a_corpus_has_no_document(tmp_path):
    corpus = write_corpus(tmp_path / "c", X, Y, classes=[0, 1, 2, 3])
    for loss in LOSSES:
        model = MultinomialNB(loss=loss).fit(corpus)
        assert model.classes_.tolist() == [0, 1, 2, 3] and np.isfinite(model.feature_log_prob_).all()
        assert model.score(X, Y) > 0.7
        assert loss != "nll" or 3 not in model.predict(X_NEW)
        model.save(tmp_path / loss)


def test_nothing_is_kept_of_documents_in_memory():
    prepared_cache.discard(lambda key: True)
    MultinomialNB(n_epochs=1).fit(X, Y, validation=(X_NEW, Y_NEW)).evaluate(X, Y)
    assert prepared_cache.nbytes == 0


REFUSED = [  # what scikit-learn's checks feed is not here
    *((lambda m, w=w: m.fit(X, Y, sample_weight=np.full(240, w)), "(?i)sample.?weight") for w in (-1.0, np.nan)),
    (lambda m: m.fit(X, Y, sample_weight=(Y == 1).astype(float)), "only one class"),
    (lambda m: m.fit(X, Y, client=object()), "corpus that the workers can read"),
    (lambda m: m.evaluate(X, Y, client=object()), "corpus that the workers can read"),
    (lambda _: MultinomialNB().partial_fit(X, Y), "classes must be passed on the first call"),
    (lambda _: MultinomialNB().partial_fit(X, np.zeros(240), classes=[0]), "only one class"),
    (lambda m: m.partial_fit(X, Y, classes=[0, 1]), "not the same as on last call"),
    (lambda m: m.partial_fit(X, np.where(Y == 0, 7, Y)), "not in classes: 7"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_calls_that_cannot_be_are_refused(call, said):
    model = MultinomialNB(n_epochs=1).partial_fit(X, Y, classes=[0, 1, 2])
    np.testing.assert_raises_regex(ValueError, said, call, model)


@pytest.mark.parametrize("asked", ["evaluate", "predict_joint_log_proba", "save", "feature_log_prob_"])
def test_unfitted(asked):
    with pytest.raises(NotFittedError):
        getattr(MultinomialNB(), asked)(X)


def test_corpora_that_do_not_fit_the_model(tmp_path):
    words = [f"w{i}" for i in range(30)]
    trained = write_corpus(tmp_path / "c", X, Y, vocabulary=words)
    model = MultinomialNB(n_epochs=1).fit(trained)
    others = {
        "30 words|20 words": write_corpus(tmp_path / "narrow", X[:, :20], Y),
        "vocabulary of .* does not match": write_corpus(tmp_path / "words", X, Y, vocabulary=words[::-1]),
        "the classes are .*, but .* in the model": write_corpus(tmp_path / "classes", X, Y + 1, vocabulary=words),
    }
    for said, corpus in others.items():
        np.testing.assert_raises_regex(ValueError, said, model.evaluate, corpus)
        np.testing.assert_raises_regex(ValueError, said, MultinomialNB(n_epochs=1).fit, trained, validation=corpus)


@given(st.integers(1, 10**9))
def test_default_lanes(n_documents):
    lanes = plans.sequential(n_documents, 1, 0).n_lanes
    assert (lanes == 1) == (n_documents <= defaults.ONE_LANE_DOCUMENTS)
    if lanes > 1:
        assert lanes & (lanes - 1) == 0 and n_documents // defaults.ROUNDS <= lanes * defaults.MAX_LANE_DOCUMENTS


@settings(max_examples=25)
@given(st.integers(2, 60), st.sampled_from(["mean", "sum"]), st.integers(0, 5))
def test_any_number_of_documents(n, merge, seed):
    few, y = random_counts(n, 6, 2, seed=seed)
    model = MultinomialNB(merge=merge, n_epochs=2).fit(few, y)
    assert np.isfinite(model.feature_log_prob_).all() and model.state_.t == 2 * n


@pytest.mark.parametrize("shift", [0.2, 0.5])
def test_documents_that_hold_all_words_in_nearly_equal_shares_are_told_apart(shift):
    """Steps in units of the margin left S here: the total took back what the words had moved, and predictions were chance."""
    rng = np.random.default_rng(0)
    classes = rng.dirichlet(np.full(12, 20.0)) * np.exp(rng.normal(size=(3, 12)) * shift)
    y = rng.integers(0, 3, 800)
    X = np.array([rng.multinomial(400, classes[c] / classes[c].sum()) for c in y])
    generative = MultinomialNB(loss="nll").fit(X[:300], y[:300]).score(X[300:], y[300:])
    assert MultinomialNB().fit(X[:300], y[:300]).score(X[300:], y[300:]) > generative - 0.1


@pytest.mark.parametrize("first", ["fit", "partial_fit"])
def test_a_first_call_that_failed_leaves_nothing_to_go_on_from(first, monkeypatch):
    model = MultinomialNB(n_jobs=1)
    call = {"fit": model.fit, "partial_fit": partial(model.partial_fit, classes=[0, 1, 2])}[first]
    with monkeypatch.context() as broken:
        broken.setattr(rounds, "compile_kernels", lambda *_: 1 / 0)
        np.testing.assert_raises(ZeroDivisionError, call, X, Y)
    np.testing.assert_raises_regex(ValueError, "classes must be passed", model.partial_fit, X, Y)
    model.partial_fit(X[:, :10], Y, classes=[0, 1, 2])
    assert model.n_iter_ == 1
    assert bits(model) == bits(MultinomialNB().partial_fit(X[:, :10], Y, classes=[0, 1, 2]))


@pytest.mark.parametrize("begin", ["fit", "partial_fit", "load_model"])
def test_what_cannot_change_between_batches_is_refused(begin, tmp_path):
    model = MultinomialNB(loss="hinge", n_epochs=1, class_prior=[0.2, 0.3, 0.5])
    model = model.fit(X, Y) if begin == "fit" else model.partial_fit(X, Y, classes=[0, 1, 2])
    if begin == "load_model":
        model = kept(model, tmp_path / "m")
    for name, value in {"loss": "ncll", "alpha": 0.1, "step": 2.0, "weighting": "binary", "class_prior": None}.items():
        then = getattr(model, name)
        with pytest.raises(ValueError, match=rf"{name} is {value!r}, but was .* when training began"):
            model.set_params(**{name: value}).partial_fit(X_NEW, Y_NEW)
        model.set_params(**{name: then})
    model.set_params(n_jobs=1, class_weight="balanced", class_prior=[0.2, 0.3, 0.5]).partial_fit(X_NEW, Y_NEW)
    assert model.learner_.class_weight is not None
