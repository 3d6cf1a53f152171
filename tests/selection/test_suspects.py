"""Wrong labels are found, estimators cross-validated, more documents teach more; documents without a label do not count."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from selection.conftest import made
from sklearn.metrics import average_precision_score

import sdem_dist as sd


def test_wrong_labels_are_suspected():
    X, y, wrong = made(600, seed=3, flipped=0.2)
    found = sd.label_suspects(X, y, n=None, n_jobs=1)
    assert len(found) == found.n_documents == 600 and sorted(found.documents) == list(range(600))
    assert (np.diff(found.doubt) <= 0).all()
    assert np.array_equal(found.labels, y[found.documents]) and (found.labels != found.others).all()
    assert average_precision_score(wrong[found.documents], found.doubt) > 0.85
    lines = repr(found).splitlines()
    assert lines[0].split() == ["document", "label", "suggested", "label", "doubt", "p(label)", "p(suggested)"]
    assert lines[-1] == "... and 580 more" and len(lines) == 23


def test_a_corpus_and_its_rows_in_memory(corpus, documents):
    on_disk = sd.label_suspects(corpus, n=20, n_jobs=1)
    whole = corpus.read(0, corpus.n_documents)
    assert np.array_equal(np.array(corpus.header.classes)[whole.labels[on_disk.positions]], on_disk.labels)
    assert np.array_equal(documents[1][on_disk.documents], on_disk.labels), "as the source counts them"
    assert corpus.ids_at(on_disk.positions.tolist()) == on_disk.documents.tolist() != on_disk.positions.tolist()
    assert len(on_disk) == 20
    np.testing.assert_raises_regex(ValueError, "positive", sd.label_suspects, corpus, n=0)


def test_documents_outside_a_subset_are_not_suspected(corpus, tmp_path):
    assert not (sd.label_suspects(corpus.subset(np.arange(0, 400, 2)), n=None, n_jobs=1).positions % 2).any()
    X, y, _ = made(90)
    several = sd.write_corpus(tmp_path / "c.zarr", X, [[label] for label in y]).subset(np.arange(1, 90, 2))
    found = sd.label_suspects(several, n=None, n_jobs=1)
    assert (found.positions % 2).all() and found.n_documents == 45 and len(found) == 135


def test_cross_validation_shows_itself(corpus):
    scored = sd.cross_validate(sd.MultinomialNB(loss="nll"), corpus, cv=3)
    frame = pytest.importorskip("pandas").DataFrame(scored)
    assert frame.to_dict("list") == {name: values.tolist() for name, values in scored.scores.items()}
    assert scored.proba.shape == (400, 3) and "log-loss" in str(scored)
    assert str(scored).endswith("(+-: standard deviation over 3 folds)")


def test_more_documents_teach_more(corpus):
    curve = sd.learning_curve(sd.MultinomialNB(n_jobs=1), corpus, shares=(0.05, 1.0), cv=4, n_folds=2)
    assert curve.accuracy.shape == curve.log_loss.shape == (2, 2)
    assert curve.n_documents[0] < 40 and curve.n_documents[1] == 300
    assert curve.accuracy[0].mean() < curve.accuracy[1].mean()
    head, first, last, note = filter(None, str(curve).splitlines())
    assert head.split() == ["documents", "accuracy", "log-loss"]
    assert note == "(means +- standard deviations over 2 folds)"
    assert last.split()[:4] == ["300", f"{curve.accuracy[1].mean():.4f}", "+-", f"{curve.accuracy[1].std():.4f}"]
    assert first.split()[0] == str(curve.n_documents[0]) and curve._repr_html_().count("<tr") == 3
    with pytest.raises(ValueError, match="shares"):
        sd.learning_curve(sd.MultinomialNB(), corpus, shares=(0.0, 1.0))
    np.testing.assert_raises_regex(ValueError, "classifier", sd.learning_curve, sd.LatentDirichletAllocation(), corpus)
    with pytest.raises(ValueError, match="requires y"):
        sd.learning_curve(sd.MultinomialNB(), sp.csr_matrix((30, 2)))


def test_a_curve_of_documents_in_memory_is_about_that_of_their_corpus(corpus, documents):
    X, y, _ = documents
    model, how = sd.MultinomialNB(n_jobs=1), {"shares": (1.0,), "cv": 3}
    expected, in_memory = sd.learning_curve(model, corpus, **how), sd.learning_curve(model, X, y, **how)
    assert in_memory.accuracy.mean() == pytest.approx(expected.accuracy.mean(), abs=0.02)
    texts = [" ".join(np.repeat([f"w{w}" for w in row.indices], row.data)) for row in X]
    assert sd.learning_curve(model, texts, y, **how).accuracy == pytest.approx(in_memory.accuracy, abs=0.02)
    np.testing.assert_raises_regex(ValueError, "do not pass y", sd.learning_curve, model, corpus, y)
    sets = [[label, "all"] if label != "c" else [label] for label in y]
    several = sd.learning_curve(sd.MultiLabelNB(n_jobs=1), X, sets, shares=(1.0,), cv=3, n_folds=1)
    assert several.micro_f1.shape == (1, 1) and several.micro_f1[0, 0] > 0.8


def test_a_curve_says_where_a_class_is_missing(documents, tmp_path):
    X, y = documents[0], np.where(np.arange(400) < 8, "rare", documents[1])
    corpus = sd.write_corpus(tmp_path / "rare.zarr", X, y)
    with pytest.warns(UserWarning, match=r"no training documents of these classes: rare .at \d+ documents.$") as warned:
        sd.learning_curve(sd.MultinomialNB(n_jobs=1), corpus, shares=(0.05, 1.0), cv=4, n_folds=2)
    assert len(warned) == 1


RNG = np.random.default_rng(0)
N = 240
TOPICS, Y = RNG.dirichlet(np.full(60, 0.1), 3), RNG.integers(0, 3, N)
X = sp.csr_matrix(np.array([RNG.multinomial(20, TOPICS[k]) for k in Y]))
KNOWN = RNG.random(N) < 0.4
HALF = np.where(KNOWN, Y, -1)


def model():
    return sd.MultinomialNB(unlabelled=-1, unlabelled_weight=0.003, n_epochs=2, validation_fraction=0.0, n_jobs=1)


@pytest.fixture(scope="module")
def half_labelled(tmp_path_factory):
    return sd.write_corpus(tmp_path_factory.mktemp("half") / "half.zarr", X, HALF, unlabelled=-1)


def test_cross_validation_leaves_them_out(half_labelled):
    of_corpus, in_memory = sd.cross_validate(model(), half_labelled, cv=3), sd.cross_validate(model(), X, HALF, cv=3)
    for found in (of_corpus, in_memory):
        assert found.scores["accuracy"].min() > 0.95 and found.scores["log-loss"].max() < 0.6
    assert in_memory.proba.shape == (N, 3)
    table = RNG.normal(Y[:, None], 0.2, (N, 2))
    assert sd.cross_validate(sd.GaussianNB(unlabelled=-1), table, HALF, cv=3).scores["accuracy"].min() > 0.9


def test_searches_leave_them_out(half_labelled):
    for labels, missing in ((HALF, -1), (np.where(KNOWN, np.array(["a", "b", "c"])[Y], ""), "")):
        search = sd.CorpusSearchCV(model().set_params(unlabelled=missing), {"alpha": [1.0]}, cv=3).fit(X, labels)
        assert search.best_score_ > -0.6 and search.best_estimator_.score(X, labels) > 0.95
    assert sd.cross_validate(model(), X, HALF, cv=(X[:100], HALF[:100])).scores["accuracy"].min() > 0.95


def test_no_document_without_a_label_is_suspected(half_labelled):
    of_corpus = sd.label_suspects(half_labelled, estimator=model(), n=None)
    in_memory = sd.label_suspects(X, HALF, estimator=model(), n=None)
    assert len(of_corpus) == len(in_memory) == in_memory.n_documents == KNOWN.sum()
    assert KNOWN[in_memory.documents].all()
    np.testing.assert_array_equal(in_memory.labels, Y[in_memory.documents])


def test_scores_are_of_labelled_documents(half_labelled):
    fitted = model().fit(X, HALF)
    wrong = np.where(np.arange(N) % 5 == 0, (HALF + 1) % 3, HALF) * KNOWN + HALF * ~KNOWN
    for labels in (HALF, wrong):
        assert fitted.score(X, labels) == pytest.approx(fitted.evaluate(X, labels)["accuracy"])
        assert fitted.score(X, labels) == pytest.approx(fitted.score(X[KNOWN], labels[KNOWN]))
    assert fitted.score(half_labelled) == pytest.approx(fitted.score(X, HALF))
    weights = RNG.integers(0, 3, N).astype(float)
    assert fitted.score(X, wrong, weights) == pytest.approx(fitted.score(X[KNOWN], wrong[KNOWN], weights[KNOWN]))
    assert fitted.score(X, HALF[:, None]) == pytest.approx(fitted.score(X, HALF))
    with pytest.raises(ValueError, match="no document has a label"):
        fitted.score(X, np.full(N, -1))


RNG = np.random.default_rng(0)
ESTIMATORS = [sd.LDAClassifier(n_components=2, n_epochs=2), sd.EMMixtureClassifier(components="multinomial")]
ESTIMATORS += [sd.ManyClassNB()]


def documents(y):
    y = np.array(y)
    X = RNG.poisson(0.3, (len(y), 12)).astype(float)
    X[np.arange(len(y)), y] += 6
    return X, np.array(list("abcdefgh"))[y]


ALIKE = documents([3, 4, 5] * 30 + [0, 1, 2])
"""Of three folds each lacks one class."""
UNLIKE = documents([0, 1, 2, 3] * 20 + [4, 5])
"""Folds lack different numbers of classes."""


@pytest.mark.parametrize(("X", "y"), [ALIKE, UNLIKE], ids=["alike", "unlike"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda of: type(of).__name__)
def test_columns_are_of_the_classes_of_all_documents(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sd.CorpusSearchCV(estimator, {}, cv=3, refit=False).fit(X, y)
    names, counts = np.unique(y, return_counts=True)
    np.testing.assert_array_equal(found.classes_, names)
    assert found.oof_proba_.shape == (len(y), len(names))
    alone, own = np.isin(y, names[counts == 1]), np.searchsorted(names, y)
    assert (found.oof_proba_[np.arange(len(y)), own][alone] > 0.0).all()
    assert (found.trials_[0].scores["log-loss"] < 2.0).all()
    right = names[found.oof_proba_.argmax(axis=1)] == y
    assert right[~alone].mean() > 0.85
    of_folds = [right[found.oof_folds_ == fold].mean() for fold in range(3)]
    np.testing.assert_allclose(found.trials_[0].scores["accuracy"], of_folds)


def test_suspects_and_nested_scores_know_all_classes():
    X, y = ALIKE
    assert set(sd.label_suspects(X, y, estimator=sd.ManyClassNB(), cv=3, n=3).labels) == {"a", "b", "c"}
    nested = sd.CorpusSearchCV(sd.ManyClassNB(), {}, cv=3, metric="accuracy", nested=True).fit(X, y)
    np.testing.assert_allclose(nested.nested_scores_, nested.trials_[0].scores["accuracy"])
    nested = sd.CorpusSearchCV(sd.ManyClassNB(), {}, cv=3, nested=True).fit(X, y)
    assert (nested.nested_scores_ > -2.0).all()


def test_held_out_corpora_of_other_classes_are_refused(tmp_path):
    X, y = UNLIKE
    for name, rows in (("all", slice(None)), ("few", np.flatnonzero(y > "a"))):
        sd.write_corpus(tmp_path / name, X[rows], y[rows])
    whole, few = (sd.open_corpus(tmp_path / name) for name in ("all", "few"))
    np.testing.assert_raises_regex(ValueError, "class", sd.cross_validate, ESTIMATORS[0], whole, cv=few)
