"""Wrong labels are found, an estimator is cross-validated, and learns more from more documents."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from selection.conftest import made
from sklearn.metrics import average_precision_score

import sdem_dist as sd
from sdem_dist.selection.suspects import suspects_of


def test_suspects_are_shown_as_a_table():
    X, y, _ = made(60, seed=3, flipped=0.2)
    lines = repr(sd.label_suspects(X, y, n=None, n_jobs=1)).splitlines()
    assert lines[0].split() == ["document", "label", "rather", "doubt", "p(label)", "p(other)"]
    assert lines[-1] == "... and 40 more" and len(lines) == 22


def test_wrong_labels_are_suspected():
    X, y, wrong = made(600, seed=3, flipped=0.2)
    found = sd.label_suspects(X, y, n=None, n_jobs=1)
    assert len(found) == found.n_documents == 600
    assert sorted(found.documents) == list(range(600))
    assert (np.diff(found.doubt) <= 0).all()
    assert np.array_equal(found.labels, y[found.documents]) and (found.labels != found.others).all()
    assert average_precision_score(wrong[found.documents], found.doubt) > 0.85


def test_documents_without_a_label_are_left_out():
    proba = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.4, 0.6]])
    found = suspects_of(proba, np.array([1, 1, -1, 0]), np.array(["no", "yes"]))
    assert found.documents.tolist() == [0, 3, 1] and found.n_documents == 3
    assert found.others.tolist() == ["no", "yes", "no"]
    assert found.doubt == pytest.approx([0.9, 0.6, 0.2])


def test_a_corpus_and_its_rows_in_memory(corpus, documents):
    on_disk = sd.label_suspects(corpus, n=20, n_jobs=1)
    whole = corpus.read(0, corpus.n_documents)
    assert np.array_equal(np.array(corpus.header.classes)[whole.labels[on_disk.positions]], on_disk.labels)
    assert np.array_equal(documents[1][on_disk.documents], on_disk.labels), "as the source counts them"
    assert corpus.ids_at(on_disk.positions.tolist()) == on_disk.documents.tolist() != on_disk.positions.tolist()
    assert len(on_disk) == 20
    with pytest.raises(ValueError, match="positive"):
        sd.label_suspects(corpus, n=0)


def test_documents_outside_a_subset_are_not_suspected(corpus, tmp_path):
    half = corpus.subset(np.arange(0, 400, 2))
    assert not (sd.label_suspects(half, n=None, n_jobs=1).positions % 2).any()
    X, y, _ = made(90)
    several = sd.write_corpus(tmp_path / "c.zarr", X, [[label] for label in y]).subset(np.arange(1, 90, 2))
    found = sd.label_suspects(several, n=None, n_jobs=1)
    assert (found.positions % 2).all() and found.n_documents == 45 and len(found) == 135


@pytest.mark.parametrize("n_epochs", [1, 7])
def test_cross_validation_is_that_of_models_without_the_fold(corpus, n_epochs):
    model = sd.MultinomialNB(loss="ncll", n_epochs=n_epochs, validation_fraction=0.0)
    found = sd.cross_validate(model, corpus, cv=3)
    if (pd := pytest.importorskip("pandas")) is not None:
        frame = pd.DataFrame(found)
        assert frame.to_dict("list") == {name: values.tolist() for name, values in found.scores.items()}
    folds = corpus.folds(3)
    accuracies = [model.fit(folds.train(f)).evaluate(folds.test(f))["accuracy"] for f in range(3)]
    assert found.scores["accuracy"] == pytest.approx(accuracies)
    assert found.proba.shape == (400, 3) and "log-loss" in str(found)
    assert str(found).endswith("(+-: standard deviation over 3 folds)")
    table = np.random.default_rng(0).normal(np.arange(100)[:, None] % 2, 0.5, (100, 2))
    assert sd.cross_validate(sd.GaussianNB(), table, np.arange(100) % 2).scores["accuracy"].mean() > 0.7


def test_more_documents_teach_more(corpus):
    curve = sd.learning_curve(sd.MultinomialNB(n_jobs=1), corpus, shares=(0.05, 1.0), cv=4, n_folds=2)
    assert curve.accuracy.shape == curve.log_loss.shape == (2, 2)
    assert curve.n_documents[0] < 40 and curve.n_documents[1] == 300
    assert curve.accuracy[0].mean() < curve.accuracy[1].mean()
    head, first, last, note = filter(None, str(curve).splitlines())
    assert (
        head.split() == ["documents", "accuracy", "log-loss"] and note == "(means +- standard deviations over 2 folds)"
    )
    assert last.split()[:4] == ["300", f"{curve.accuracy[1].mean():.4f}", "+-", f"{curve.accuracy[1].std():.4f}"]
    assert first.split()[0] == str(curve.n_documents[0])
    with pytest.raises(ValueError, match="shares"):
        sd.learning_curve(sd.MultinomialNB(), corpus, shares=(0.0, 1.0))
    with pytest.raises(ValueError, match="classifier"):
        sd.learning_curve(sd.LatentDirichletAllocation(), corpus)
    with pytest.raises(ValueError, match="requires y"):
        sd.learning_curve(sd.MultinomialNB(), sp.csr_matrix((30, 2)))


def test_a_curve_of_documents_in_memory_is_about_that_of_their_corpus(corpus, documents):
    X, y, _ = documents
    model, how = sd.MultinomialNB(n_jobs=1), {"shares": (1.0,), "cv": 3}
    expected = sd.learning_curve(model, corpus, **how)
    in_memory = sd.learning_curve(model, X, y, **how)
    assert in_memory.accuracy.mean() == pytest.approx(expected.accuracy.mean(), abs=0.02)
    texts = [" ".join(np.repeat([f"w{w}" for w in row.indices], row.data)) for row in X]
    assert sd.learning_curve(model, texts, y, **how).accuracy == pytest.approx(in_memory.accuracy, abs=0.02)
    with pytest.raises(ValueError, match="leave y"):
        sd.learning_curve(model, corpus, y)
    sets = [[label, "all"] if label != "c" else [label] for label in y]
    several = sd.learning_curve(sd.MultiLabelNB(n_jobs=1), X, sets, shares=(1.0,), cv=3, n_folds=1)
    assert several.micro_f1.shape == (1, 1) and several.micro_f1[0, 0] > 0.8


def test_a_curve_says_where_a_class_is_missing(documents, tmp_path):
    X, y = documents[0], np.where(np.arange(400) < 8, "rare", documents[1])
    corpus = sd.write_corpus(tmp_path / "rare.zarr", X, y)
    with pytest.warns(UserWarning, match=r"fold trains without a class: with \d+ documents rare$") as warned:
        sd.learning_curve(sd.MultinomialNB(n_jobs=1), corpus, shares=(0.05, 1.0), cv=4, n_folds=2)
    assert len(warned) == 1
