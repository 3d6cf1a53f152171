"""Wrong labels are found, an estimator is cross-validated, and learns more from more documents."""

import numpy as np
import pytest
import scipy.sparse as sp
from selection.conftest import made
from sklearn.metrics import average_precision_score

import sdem_dist as sd


def test_wrong_labels_are_suspected():
    X, y, wrong = made(600, seed=3, flipped=0.2)
    found = sd.label_suspects(X, y, n=None, n_jobs=1)
    assert len(found) == found.n_documents == 600
    assert sorted(found.documents) == list(range(600))
    assert (np.diff(found.doubt) <= 0).all()
    assert np.array_equal(found.labels, y[found.documents]) and (found.labels != found.others).all()
    assert average_precision_score(wrong[found.documents], found.doubt) > 0.85
    lines = repr(found).splitlines()
    assert lines[0].split() == ["document", "label", "rather", "doubt", "p(label)", "p(other)"]
    assert lines[-1] == "... and 580 more" and len(lines) == 23


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
    assert (
        head.split() == ["documents", "accuracy", "log-loss"] and note == "(means +- standard deviations over 2 folds)"
    )
    assert last.split()[:4] == ["300", f"{curve.accuracy[1].mean():.4f}", "+-", f"{curve.accuracy[1].std():.4f}"]
    assert first.split()[0] == str(curve.n_documents[0]) and curve._repr_html_().count("<tr") == 3
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
