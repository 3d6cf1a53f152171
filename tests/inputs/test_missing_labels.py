"""Labels that are missing, and labels of mixed kinds."""

import numpy as np
import pandas as pd
import pytest

from sdem_dist import GaussianNB, LDAClassifier, MultinomialNB

X = np.array([[1, 0, 2], [0, 3, 1], [2, 0, 0], [0, 1, 1]])
Y = np.array(["a", "b", "a", "b"])


@pytest.fixture
def model():
    return MultinomialNB(n_epochs=1).fit(X, Y)


@pytest.mark.parametrize(
    ("estimator", "y", "advice"),
    [
        (MultinomialNB(), ["a", "b", None, "b"], "set unlabelled='', and None and NaN count as no label"),
        (MultinomialNB(), [0, 1, None, 1], "unlabelled=-1"),
        (GaussianNB(), ["a", "b", None, "b"], "unlabelled=''"),
        (MultinomialNB(unlabelled="", loss="nll"), [0, 0, None, 1], "set unlabelled=-1"),
        (MultinomialNB(unlabelled=float("nan"), loss="nll"), ["a", "b", None, "b"], "set unlabelled=''"),
        (LDAClassifier(), ["a", "b", None, "b"], "leave such documents out"),
    ],
)
def test_a_label_that_is_none_is_named(estimator, y, advice):
    for labels in (y, np.array(y, object)):
        with pytest.raises(ValueError, match=rf"position 2 \(from 0\) but None: .*{advice}"):
            estimator.fit(X, labels)


@pytest.mark.parametrize("missing", [float("nan"), pd.NA, np.nan])
def test_a_label_that_is_missing_is_no_class(missing):
    for labels in (["a", missing, "b", "b"], pd.Series(["a", missing, "b", "b"]), np.array([1, missing, 2, 2], object)):
        with pytest.raises(ValueError, match=r"no label at position 1 \(from 0\) but (nan|<NA>): set unlabelled="):
            MultinomialNB().fit(X, labels)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
@pytest.mark.parametrize(
    ("y", "unlabelled"),
    [(["a", "b", "?", "b"], ""), (["a", "b", "?", "b"], -1), ([1, 0, "?", 1], -1), ([1.0, 0.0, "?", 1.0], -1)],
)
def test_missing_labels_are_what_unlabelled_names(y, unlabelled, missing):
    named = [unlabelled if label == "?" else label for label in y]
    gone = [missing if label == "?" else label for label in y]
    expected = MultinomialNB(unlabelled=unlabelled, loss="nll").fit(X, named)
    kinds = [gone, pd.Series(gone), np.array(gone, object)]
    if isinstance(missing, float) and not isinstance(y[0], str):
        kinds.append(np.array(gone))
        assert kinds[-1].dtype == np.float64
    for labels in kinds:
        model = MultinomialNB(unlabelled=unlabelled, loss="nll").fit(X, labels)
        assert model.classes_.tolist() == expected.classes_.tolist() == sorted({*y} - {"?"}, key=str)
        np.testing.assert_array_equal(model.feature_log_prob_, expected.feature_log_prob_)
        assert model.score(X, labels) == expected.score(X, named)
        assert model.evaluate(X, labels) == expected.evaluate(X, named)
    assert any(value is missing for value in gone)


@pytest.mark.parametrize(
    ("y", "unlabelled"), [([-1] * 4, -1), ([""] * 4, ""), ([None] * 4, ""), (np.full(4, np.nan), -1)]
)
def test_labels_that_are_all_missing_are_no_labels(y, unlabelled):
    with pytest.raises(ValueError, match=f"^no document has a label: y has none but {unlabelled!r}"):
        MultinomialNB(unlabelled=unlabelled).fit(X, y)


def test_texts_are_not_mixed_with_what_would_become_a_text():
    with pytest.raises(
        ValueError, match=r"y mixes texts with others, first -1 at position 2 .* or name what stands for"
    ):
        MultinomialNB().fit(X, ["a", "b", -1, "b"])
    with pytest.raises(ValueError, match=r"y mixes texts with others, first 3 at position 3"):
        MultinomialNB(loss="nll", unlabelled=-1).fit(X, ["a", "b", -1, 3])
    with pytest.raises(ValueError, match=r"y mixes texts with others.*make all of one kind$"):
        LDAClassifier().fit(X, ["a", "b", 1, "b"])


@pytest.mark.parametrize("kind", [list, np.array, pd.Series])
def test_a_number_may_stand_for_no_label_among_texts(kind):
    y = ["a", "b", -1, "b"]
    y = np.array(y, object) if kind is np.array else kind(y)
    model = MultinomialNB(loss="nll", unlabelled=-1).fit(X, y)
    assert model.classes_.tolist() == ["a", "b"]
    texts = MultinomialNB(loss="nll", unlabelled="").fit(X, ["a", "b", "", "b"])
    np.testing.assert_array_equal(model.feature_log_prob_, texts.feature_log_prob_)
    all_known = MultinomialNB(loss="nll", unlabelled=-1).fit(X, ["a", "b", "a", "b"])
    assert all_known.classes_.tolist() == ["a", "b"]


def test_nor_are_documents_scored_by_labels_that_are_none(model):
    for method in (model.score, model.evaluate, lambda *xy: model.partial_fit(*xy)):
        with pytest.raises(ValueError, match=r"position 1 \(from 0\) but None"):
            method(X, ["a", None, "a", "b"])
