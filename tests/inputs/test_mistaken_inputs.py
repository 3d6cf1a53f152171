"""What people hand over by mistake, and what they are told."""

from __future__ import annotations

import re
import warnings
from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

from sdem_dist import (
    CorpusError,
    EMMixtureClassifier,
    GaussianNB,
    GaussianRegressor,
    LatentDirichletAllocation,
    LDAClassifier,
    ModelError,
    MultinomialMixture,
    MultinomialNB,
    MultiplicativeMixtureClassifier,
    SdemMixtureClassifier,
    SupervisedLDARegressor,
    load_model,
    write_corpus,
)
from sdem_dist.text import VectorizerSettings

X = np.array([[1, 0, 2], [0, 3, 1], [2, 0, 0], [0, 1, 1]])
Y = np.array(["a", "b", "a", "b"])


@pytest.fixture
def model():
    return MultinomialNB(n_epochs=1).fit(X, Y)


def test_a_path_is_to_be_opened_first(tmp_path, model):
    for method in (model.fit, model.predict, model.score, model.evaluate):
        with pytest.raises(ValueError, match="open_corpus"):
            method(str(tmp_path))


def test_labels_or_weights_beside_a_corpus_are_not_ignored(tmp_path, model):
    corpus = write_corpus(tmp_path / "c.zarr", X, Y)
    for call in (
        lambda: model.evaluate(corpus, Y),
        lambda: model.score(corpus, Y),
        lambda: model.score(corpus, None, np.ones(4)),
    ):
        with pytest.raises(ValueError, match="a corpus brings its (labels|sample weights)"):
            call()


def test_raw_text_is_not_for_a_model_of_numbers(model):
    for method in (model.predict, model.predict_proba, lambda texts: model.evaluate(texts, ["a", "b"])):
        with pytest.raises(ModelError, match="this model was trained on numbers, not on text"):
            method(["some text", "more"])


@pytest.mark.parametrize("mixture", [EMMixtureClassifier, SdemMixtureClassifier])
def test_mixtures_of_numbers_name_the_components_that_take_texts(mixture):
    texts = ["a goal", "the bank", "goal", "bank"]
    with pytest.raises(ValueError, match='components="multinomial" takes texts'):
        mixture().fit(texts, Y)
    for counts in (X, X.astype(float)):
        with pytest.raises(ValueError, match='sparse matrix: .* components="multinomial" takes texts, and sparse'):
            mixture().fit(sp.csr_matrix(counts), Y)
    assert list(mixture(components="multinomial", n_components=1).fit(texts, Y).predict(texts)) == list(Y)


@pytest.mark.parametrize("words", [[["a", "goal"], ["bank"]] * 2, [[], ["bank", "goal"]] * 2])
@pytest.mark.parametrize("kind", [list, pd.Series])
def test_lists_of_words_are_to_be_joined(words, kind):
    of_text = MultinomialNB(n_epochs=1).fit(["a goal", "the bank", "goal", "bank"], Y)
    for call in (lambda: MultinomialNB().fit(kind(words), Y), lambda: of_text.predict(kind(words))):
        with pytest.raises(ValueError, match="documents are lists of words: join them"):
            call()


def test_of_a_data_frame_one_column_is_to_be_passed():
    of_text = MultinomialNB(n_epochs=1).fit(["a goal", "the bank", "goal", "bank"], Y)
    frame = pd.DataFrame({"n": range(4), "body": ["a goal", "the bank", "goal", "bank"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (lambda: MultinomialNB().fit(frame, Y), lambda: of_text.predict(frame)):
            with pytest.raises(ValueError, match=r"texts in column 'body': pass one column, such as df\['body'\]"):
                call()
    with pytest.raises(ValueError, match=r"texts in columns 'tag', 'body': pass one column, such as df\['body'\]"):
        MultinomialNB().fit(frame.assign(tag=["x", "y", "x", "y"])[["tag", "body"]], Y)
    assert list(of_text.predict(frame["body"])) == list(of_text.predict(list(frame["body"])))


TEXTS = ["the only text", "a second text", "the third", "and one more"] * 500


@pytest.mark.parametrize(
    ("estimator", "advice", "texts"),
    [
        (estimator, "one column of texts", [[t] for t in TEXTS])
        for estimator in (MultinomialNB(), LDAClassifier(), LatentDirichletAllocation(), SupervisedLDARegressor())
    ]
    + [
        (estimator, "tables of numbers", texts)
        for estimator in (GaussianNB(), GaussianRegressor())
        for texts in (TEXTS, np.array(TEXTS), np.array(TEXTS, object), pd.Series(TEXTS), [[t] for t in TEXTS])
    ],
)
def test_texts_are_not_trained_on_nor_echoed(texts, estimator, advice):
    with pytest.raises(ValueError, match=rf"X holds raw text \('the only text'\): .*{advice}") as caught:
        estimator.fit(texts, np.arange(len(texts)) % 2)
    assert "second" not in str(caught.value)
    assert caught.value.__suppress_context__  # whose message would hold them all


def test_other_errors_are_scikit_learns(model):
    ragged = [[1, 2, 3], [4, 5], [1, 2, 3], [1, 2, 3]]
    for bad, said in ((ragged, "inhomogeneous"), (np.full((4, 3), np.nan), "contains NaN"), (np.ones(4), "2D array")):
        with pytest.raises(ValueError, match=said):
            model.fit(bad, Y)


@pytest.mark.parametrize("estimator", [GaussianRegressor(), SupervisedLDARegressor(n_components=2)], ids=str)
@pytest.mark.parametrize("kind", [list, np.array, pd.Series])
def test_a_target_of_text_is_named(estimator, kind):
    with pytest.raises(
        ValueError, match=r"^y has targets that are not numbers, first 'five' of document 2 \(from 0\)$"
    ):
        estimator.fit(X, kind(["1", "2.5", "five", "six"]))
    with pytest.raises(ValueError, match="^y has targets that are not numbers, first 'five'"):
        estimator.fit(X, "five")


@pytest.mark.parametrize(("entry", "what"), [(-1.0, "Negative"), (1e300, "Too large")])
def test_an_unfit_value_is_named_by_its_row(model, entry, what):
    bad = X.astype(float)
    bad[2, 0] = entry
    for call in (
        lambda: model.fit(bad, Y),
        lambda: model.fit(sp.csc_matrix(bad), Y),
        lambda: model.partial_fit(bad, Y),
        lambda: model.predict(bad),
        lambda: model.evaluate(bad, Y),
    ):
        with pytest.raises(ValueError, match=rf"{what} values .* row 2 \(from 0\) holds {re.escape(str(entry))}"):
            call()


def test_a_corpus_made_from_text_in_another_way_is_refused(tmp_path):
    def corpus(name, **settings):
        vectorizer = VectorizerSettings(kind="hashing", n_features=3, **settings).to_json()
        return write_corpus(tmp_path / name, X, Y, vectorizer=vectorizer)

    model = MultinomialNB(n_epochs=1).fit(corpus("words"))
    assert model.score(corpus("same")) == model.score(X, Y)
    with pytest.raises(CorpusError, match=r"another way than the model's \(lowercase, analyzer\)"):
        model.score(corpus("letters", analyzer="char", lowercase=False))
    numbers = VectorizerSettings(kind="matrix").to_json()
    assert model.score(write_corpus(tmp_path / "numbers", X, Y, vectorizer=numbers)) == model.score(X, Y)


@pytest.mark.parametrize(
    "days", [np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"), [date(2020, 1, 1), date(2020, 1, 2)]]
)
def test_dates_are_no_labels_in_memory_either(days):
    with pytest.raises(ValueError, match="label"):
        MultinomialNB().fit(np.eye(4), np.array(days)[[0, 1, 0, 1]])
    with pytest.raises(CorpusError, match=r"datetime.date\(2020, 1, 1\) cannot be a class label"):
        MultinomialNB().fit(X, [date(2020, 1, 1), date(2020, 1, 2)] * 2)


def test_labels_of_variable_texts_are_texts():
    y = np.array(["b", "a", "b", "a"], np.dtypes.StringDType())
    assert MultinomialNB().fit(np.eye(4), y).classes_.tolist() == ["a", "b"]


def test_a_model_replaces_models_only(tmp_path, model):
    source = tmp_path / "posts.tsv"
    source.write_text("a\ttext\n")
    with pytest.raises(ModelError, match="is not a model: it is left alone"):
        model.save(source)
    assert source.read_text() == "a\ttext\n"
    with pytest.raises(ModelError, match="is a folder"):
        model.save(tmp_path)
    with pytest.raises(ModelError, match="does not exist: make it first"):
        model.save(tmp_path / "absent" / "m")
    (tmp_path / "m").touch()
    for _ in range(2):
        model.save(tmp_path / "m")
    assert np.array_equal(load_model(tmp_path / "m").predict(X), model.predict(X))


def broken(indices=(0, 2, 4, 1, 4, 6), indptr=(0, 3, 6)):
    """A sparse matrix of 2 x 30 whose arrays SciPy does not look at."""
    X = sp.csr_matrix((np.ones(6), np.array([0, 2, 4, 1, 4, 6]), np.array([0, 3, 6])), shape=(2, 30))
    X.indices, X.indptr = np.array(indices), np.array(indptr)
    return X


@pytest.mark.parametrize(
    "matrix",
    [
        broken(indices=(0, 2, -3, 1, 4, 6)),
        broken(indices=(0, 2, 100_000, 1, 4, 6)),
        broken(indices=(0, 2, 10**8, 1, 4, 6)),
        broken(indptr=(0, 5, 3)),
        broken(indptr=(0, 3, 60)),
        broken(indptr=(1, 3, 6)),
    ],
    ids=["negative", "beyond", "far beyond", "falling", "beyond the entries", "from 1"],
)
def test_matrices_whose_arrays_do_not_fit_are_refused(matrix):
    fitted = MultinomialNB(n_epochs=1).fit(sp.csr_matrix(np.eye(2, 30)), [0, 1])
    for use in (
        lambda: MultinomialNB().fit(matrix, [0, 1]),
        lambda: MultinomialNB().partial_fit(matrix, [0, 1], classes=[0, 1]),
        lambda: fitted.predict(matrix),
        lambda: fitted.predict_proba(matrix),
        lambda: fitted.evaluate(matrix, [0, 1]),
        lambda: MultinomialMixture(1, n_init=1).fit(matrix),
        lambda: SupervisedLDARegressor(2).fit(matrix, [0.0, 1.0]),
        lambda: LatentDirichletAllocation(2).fit(matrix),
        lambda: MultiplicativeMixtureClassifier(1).fit(matrix, [0, 1]),
    ):
        with pytest.raises(ValueError, match=r"^X\b"):
            use()


TEXTS = ["good film", "bad film", "good plot", "bad plot"] * 10
MARKS = ["p", "n"] * 20


@pytest.mark.parametrize(
    ("documents", "labels", "said"),
    [
        ("film", ["p"], "X is one text ('film'): put it in a list"),
        ("film.tsv", ["p"], "film.tsv is a path"),
        ([], [], "X holds no documents"),
        (None, MARKS, "X is None"),
        (set(TEXTS), MARKS, "X is a set"),
        (([1.0] for _ in TEXTS), MARKS, "X is a generator"),
        ([text.encode() for text in TEXTS], MARKS, "X holds bytes, not texts"),
        ([None, *TEXTS[1:]], MARKS, "text 0 (from 0) is None"),
        (TEXTS, (mark for mark in MARKS), "y is a generator"),
        (TEXTS, [["p"], ["n", "p"]] * 20, "MultiLabelNB and SupervisedLDAClassifier learn several"),
        (TEXTS, [["p"], ["n"]] * 20, "MultiLabelNB and SupervisedLDAClassifier learn several"),
        (TEXTS, np.eye(2, dtype=int)[[0, 1] * 20], "MultiLabelNB and SupervisedLDAClassifier learn several"),
        (sp.csr_matrix([[1.0, 0.0], [2.0, np.nan]] * 20), MARKS, "Input X contains NaN, in row 1 (from 0)"),
        (np.array([[1.0, 0.0], [2.0, np.nan]] * 20), MARKS, "Input X contains NaN, in row 1 (from 0)"),
    ],
)
def test_what_is_no_list_of_documents_or_labels_is_named(documents, labels, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        MultinomialNB().fit(documents, labels)


def test_validation_documents_bring_labels():
    with pytest.raises(ValueError, match=r"validation must be a corpus or a tuple \(X, y\), got 0.1"):
        MultinomialNB().fit(X, Y, validation=0.1)


@pytest.mark.parametrize("kind", [sp.dok_matrix, sp.dok_array, sp.coo_array, sp.lil_matrix])
def test_sparse_matrices_of_any_kind_are_documents(kind):
    known = MultinomialNB(n_epochs=1).fit(sp.csr_matrix(X), Y)
    assert MultinomialNB(n_epochs=1).fit(kind(X), Y).predict_proba(X).tolist() == known.predict_proba(X).tolist()


def test_the_first_batch_of_texts_decides_the_words_with_a_warning():
    model = MultinomialNB()
    with pytest.warns(UserWarning, match="kind='hashing'"):
        model.partial_fit(TEXTS, MARKS, classes=["n", "p"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(TEXTS, MARKS)
        hashed = MultinomialNB(vectorizer=VectorizerSettings(kind="hashing", n_features=2**18))
        hashed.partial_fit(TEXTS, MARKS, classes=["n", "p"])
        MultinomialNB().partial_fit(X, Y, classes=["a", "b"])


def test_a_class_whose_documents_weigh_nothing_is_named():
    weights = np.repeat([1.0, 0.0], [40, 2])
    with pytest.warns(UserWarning, match=r"1 class without a document of a weight above zero \(odd\)"):
        MultinomialNB(n_epochs=1).fit([*TEXTS, "one", "two"], [*MARKS, "odd", "odd"], sample_weight=weights)


def test_pictures_say_what_they_are_of(model):
    from sdem_dist import plots

    for draw in (plots.words, plots.history, plots.topics, plots.confusion, plots.reliability):
        with pytest.raises(TypeError, match="this is a MultinomialNB, and the picture is of"):
            draw(model)


def test_an_empty_class_is_warned_of():
    texts, y = ["goal match", "bank share"] * 6, ["sport", ""] * 6
    with pytest.warns(UserWarning, match="6 documents of the class '': if they have no label, set unlabelled=''"):
        MultinomialNB(loss="nll").fit(texts, y)


def test_labels_of_arrow_and_of_objects_are_labels(model):
    arrow, objects = MultinomialNB(n_epochs=1).fit(X, pa.array(Y)), np.array([3, 1, 3, 1], object)
    assert arrow.predict(X).tolist() == model.predict(X).tolist()
    numbers = MultinomialNB(n_epochs=1).fit(X, objects)
    assert numbers.classes_.tolist() == [1, 3] and numbers.classes_.dtype == np.int64
    truths = MultinomialNB(n_epochs=1).fit(X, np.array([True, False, True, False], object))
    assert truths.classes_.dtype == bool
    with pytest.raises(ValueError, match="several labels per document"):
        MultinomialNB().fit(X, pa.array([["a"], ["b"], ["a", "b"], ["b"]]))


def test_half_floats_are_counts(model):
    np.testing.assert_array_equal(model.predict_proba(X.astype(np.float16)), model.predict_proba(X))
    again = MultinomialNB(n_epochs=1).fit(X.astype(np.float16), Y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_numbers_and_texts_as_labels_are_told_apart(model):
    numbered = MultinomialNB(n_epochs=1).fit(X, [0, 1, 0, 1])
    for fitted, y, said in ((numbered, ["0", "1", "0", "1"], "texts"), (model, [0, 1, 0, 1], "numbers")):
        with pytest.raises(ValueError, match=f"not among the classes: 0, 1; these are {said}, and the classes are"):
            fitted.report(X, y)


def test_texts_and_labels_that_are_swapped_are_named():
    texts, labels = [f"goal number {i}" for i in range(30)], ["sport", "money"] * 15
    for model in (MultinomialNB(), GaussianNB()):
        swapped = labels if isinstance(model, MultinomialNB) else np.arange(60.0).reshape(30, 2)
        with pytest.warns(
            UserWarning, match="30 distinct labels of 30 documents, such as 'goal number 0': is y"
        ) as said:
            model.fit(swapped, texts)
        assert not [one for one in said if "unique classes" in str(one.message)], "scikit-learn's says the same again"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MultinomialNB(n_epochs=1).fit(texts, labels)
        model.evaluate(texts[:3], ["sport", "money", "sport"])
