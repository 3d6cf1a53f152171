"""What people hand over by mistake, and what they are told: the wording of messages about inputs stands here alone."""

import re
import warnings
from datetime import date

import dask.bag as db
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from corpus.test_bad_input import BROKEN

import sdem_dist as sd
from sdem_dist.text import VectorizerSettings

X = np.array([[1, 0, 2], [0, 3, 1], [2, 0, 0], [0, 1, 1]])
Y = np.array(["a", "b", "a", "b"])
TEXTS = ["good film", "bad film", "good plot", "bad plot"] * 10
MARKS = ["p", "n"] * 20
FRAME = pd.DataFrame({"n": range(40), "tag": ["x", "y"] * 20, "body": TEXTS})
WORDS = [[text.split() for text in TEXTS], [[], ["bank", "goal"]] * 20]
NAN = np.array([[1.0, 0.0], [2.0, np.nan]] * 20)
SEVERAL = "supports only one: use MultiLabelNB"


@pytest.fixture(scope="module")
def model():
    return sd.MultinomialNB(n_epochs=1).fit(X, Y)


@pytest.fixture(scope="module")
def of_texts():
    return sd.MultinomialNB(n_epochs=1).fit(TEXTS, MARKS)


@pytest.mark.parametrize(("documents", "labels", "message"), [
    ("film", ["p"], "X is a single text ('film'): put it in a list"),
    ("film.tsv", ["p"], "film.tsv is a path: pass sdem_dist.open_corpus"),
    ([], [], "X contains no documents, got []"),
    (None, MARKS, "got None"),
    (set(TEXTS), MARKS, "got a set"),
    (([1.0] for _ in TEXTS), MARKS, "got a generator"),
    ([text.encode() for text in TEXTS], MARKS, "X contains bytes, not texts"),
    ([None, *TEXTS[1:]], MARKS, "text 0 (counting from 0) is None"),
    (TEXTS, (mark for mark in MARKS), "got a generator"),
    (TEXTS, [["p"], ["n", "p"]] * 20, SEVERAL),
    (TEXTS, [["p"], ["n"]] * 20, SEVERAL),
    (TEXTS, np.eye(2, dtype=int)[[0, 1] * 20], SEVERAL),
    (TEXTS, pa.array([["p"], ["n", "p"]] * 20), SEVERAL),
    (sp.csr_matrix(NAN), MARKS, "Input X contains NaN, in row 1 (counting from 0)"),
    (NAN, MARKS, "Input X contains NaN, in row 1 (counting from 0)"),
    (np.full((40, 3), np.nan), MARKS, "contains NaN"),
    ([[1, 2, 3], [4, 5]] * 20, MARKS, "inhomogeneous"),
    (np.ones(40), MARKS, "2D array"),
    *[(kind(words), MARKS, "documents are lists of words: join them") for words in WORDS for kind in (list, pd.Series)],
    (FRAME[["n", "body"]], MARKS, "texts in column 'body': pass one column, such as X['body']"),
    (FRAME, MARKS, "texts in columns 'tag', 'body': pass one column, such as X['body']"),
    (pa.table([TEXTS, MARKS], ["a", "a"]), MARKS, "texts in columns 'a', 'a': pass one column, such as X['a']"),
    (pa.table([range(40), MARKS], ["a", "a"]), MARKS, "texts in column 'a': pass one column, such as X['a']"),
    (type("Stream", (), {"__arrow_c_stream__": lambda *_: None})(), MARKS, "X is a Stream that Arrow cannot read: "),
])  # fmt: skip
def test_what_is_no_list_of_documents_or_labels_is_named(documents, labels, message, of_texts):
    calls = [sd.MultinomialNB().fit]
    if isinstance(documents, str | pd.DataFrame | pd.Series | list) and labels is MARKS and "from 0" not in message:
        calls.append(lambda X, y: of_texts.predict(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in calls:
            np.testing.assert_raises_regex(ValueError, re.escape(message), call, documents, labels)


SPARSE, FOUR = sp.csr_matrix(X), ["a goal", "the bank", "goal", "bank"]
MIXTURES = [sd.EMMixtureClassifier(), sd.SdemMixtureClassifier()]
REGRESSORS = [sd.GaussianRegressor(), sd.SupervisedLDARegressor(n_components=2)]
DATES = [date(2020, 1, 1), date(2020, 1, 2)] * 2
OPENED, NUMBERS = "open_corpus", "this model was trained on numbers, so it cannot read text"
CALLS = [
    (lambda m: sd.MultinomialNB().fit(X, Y, validation=0.1), r"validation must be a corpus or a tuple \(X, y\), got 0.1"),
    (lambda m: m.predict("some/folder"), OPENED),
    (lambda m: m.score("some/folder"), OPENED),
    (lambda m: m.evaluate("some/folder"), OPENED),
    (lambda m: m.evaluate(m.corpus, Y), "a corpus contains its own labels"),
    (lambda m: m.score(m.corpus, Y), "a corpus contains its own labels"),
    (lambda m: m.score(m.corpus, None, np.ones(4)), "a corpus contains its own labels and weights"),
    (lambda m: m.predict(FOUR), NUMBERS),
    (lambda m: m.evaluate(FOUR, Y), NUMBERS),
    *((lambda m, e=e: e.fit(FOUR, Y), 'components="multinomial" accepts texts') for e in MIXTURES),
    *((lambda m, e=e: e.fit(SPARSE, Y), 'sparse matrix: .* components="multinomial" accepts') for e in MIXTURES),
    *((lambda m, e=e: e.fit(SPARSE * 1.0, Y), 'sparse matrix: .* components="multinomial" accepts') for e in MIXTURES),
    *((lambda m, e=e, k=k: e.fit(X, k(["1", "2.5", "five", "six"])),
       r"y has targets that are not numbers, such as 'five' at document 2 \(counting from 0\)$")
      for e in REGRESSORS for k in (list, np.array, pd.Series)),
    *((lambda m, e=e: e.fit(X, "five"), "^y has targets that are not numbers, such as 'five'") for e in REGRESSORS),
    (lambda m: sd.MultinomialNB().fit(np.eye(4), np.array(DATES)), "label"),
    (lambda m: sd.MultinomialNB().fit(np.eye(4), np.array(DATES, "datetime64[D]")), "label"),
    (lambda m: sd.MultinomialNB().fit(X, DATES), r"datetime.date\(2020, 1, 1\) cannot be a class label"),
    (lambda m: sd.MultinomialNB(n_epochs=1).fit(X, [0, 1, 0, 1]).report(X, ["0", "1", "0", "1"]),
     "not in classes: 0, 1; these are texts, but the classes are"),
    (lambda m: m.report(X, [0, 1, 0, 1]), "not in classes: 0, 1; these are numbers, but the classes are"),
    (lambda m: sd.MultinomialNB().fit(["\t", " \x07"], [0, 1]), "no text contains a word"),
    (lambda m: sd.MultinomialNB(vectorizer="words").fit(FOUR, Y), "vectorizer must be a sdem_dist.text.VectorizerSettings"),
    (lambda m: sd.MultinomialNB().fit(pa.array(["goal", "bank", None]), [0, 1, 1]), r"text 2 \(counting from 0\) is None"),
    (lambda m: sd.MultinomialNB().fit(db.from_sequence(FOUR), Y), "got a Bag.*list"),
    (lambda m: sd.MultinomialNB(n_epochs=1).fit(FOUR, Y).predict(db.from_sequence(FOUR)), "got a Bag.*list"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), CALLS)
def test_calls_that_cannot_be_are_refused(call, message, model, tmp_path):
    model.corpus = sd.write_corpus(tmp_path / "c.zarr", X, Y)
    np.testing.assert_raises_regex((ValueError, sd.ModelError, sd.CorpusError), message, call, model)


MANY = ["the only text", "a second text", "the third", "and one more"] * 500


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, lambda texts: [[text] for text in texts]])
def test_texts_are_not_trained_on_nor_echoed(kind):
    with pytest.raises(ValueError, match=r"X contains raw text \('the only text'\): ") as caught:
        sd.GaussianNB().fit(kind(MANY), np.arange(2000) % 2)
    assert caught.value.__suppress_context__  # whose message would hold them all


def test_a_corpus_made_from_text_in_another_way_is_refused(tmp_path):
    def corpus(name, **settings):
        vectorizer = VectorizerSettings(kind="hashing", n_features=3, **settings).to_json()
        return sd.write_corpus(tmp_path / name, X, Y, vectorizer=vectorizer)

    named, spelled = corpus("a", token_pattern="words"), corpus("b", token_pattern=r"(?u)\b\w\w+\b")
    sd.MultinomialNB(n_epochs=1).fit(spelled).score(named)
    model = sd.MultinomialNB(n_epochs=1).fit(corpus("words"))
    assert model.score(corpus("same")) == model.score(X, Y)
    np.testing.assert_raises(sd.CorpusError, model.score, corpus("letters", analyzer="char", lowercase=False))
    numbers = VectorizerSettings(kind="matrix").to_json()
    assert model.score(sd.write_corpus(tmp_path / "numbers", X, Y, vectorizer=numbers)) == model.score(X, Y)


@pytest.mark.parametrize(("labels", "classes"), [
    (np.array(["b", "a", "b", "a"], np.dtypes.StringDType()), ["a", "b"]),
    (pa.array(Y), ["a", "b"]), (list(np.array(["b", "a", "b", "a"])), ["a", "b"]),
    (np.array([3, 1, 3, 1], object), [1, 3]),
    (np.array([True, False, True, False], object), [False, True]),
])  # fmt: skip
def test_labels_of_arrow_and_of_objects_are_labels(labels, classes):
    fitted = sd.MultinomialNB(n_epochs=1).fit(X, labels)
    assert fitted.classes_.tolist() == classes and type(fitted.classes_.tolist()[0]) is type(classes[0])


def test_a_model_replaces_models_only(tmp_path, model):
    source = tmp_path / "posts.tsv"
    source.write_text("a\ttext\n")
    for path, message in ((source, "is not a model; choose another name"), (tmp_path, "is a folder"),
                          (tmp_path / ("m" * 300) / "m", "cannot write"),
                          (tmp_path / "absent" / "m", "does not exist: create it first")):  # fmt: skip
        np.testing.assert_raises_regex(sd.ModelError, message, model.save, path)
    assert source.read_text() == "a\ttext\n"
    (tmp_path / "m").touch()
    for _ in range(2):
        model.save(tmp_path / "m")
    assert np.array_equal(sd.load_model(tmp_path / "m").predict(X), model.predict(X))


@pytest.mark.parametrize("name", ["negative", "beyond uint16", "falling", "too far", "far", "a late start"])
def test_matrices_whose_arrays_do_not_fit_are_refused(name):
    matrix = BROKEN[name][0]()
    fitted = sd.MultinomialNB(n_epochs=1).fit(sp.csr_matrix(np.eye(2, 30)), [0, 1])
    for method, *given in (
        (sd.MultinomialNB().fit, [0, 1]), (sd.MultinomialNB().partial_fit, [0, 1], [0, 1]), (fitted.predict,),
        (fitted.predict_proba,), (fitted.evaluate, [0, 1]), (sd.MultinomialMixture(1, n_init=1).fit,),
        (sd.SupervisedLDARegressor(2).fit, [0.0, 1.0]), (sd.LatentDirichletAllocation(2).fit,),
        (sd.MultiplicativeMixtureClassifier(1).fit, [0, 1]),
    ):  # fmt: skip
        np.testing.assert_raises_regex(ValueError, r"^X\b", method, matrix, *given)


@pytest.mark.parametrize("kind", [sp.dok_matrix, sp.dok_array, sp.coo_array, sp.lil_matrix,
                                  lambda X: X.astype("f2"), lambda X: X.astype(np.longdouble)])  # fmt: skip
def test_matrices_of_any_kind_are_documents(kind):
    half = X / 2
    found, expected = (sd.MultinomialNB(n_epochs=1).fit(of, Y).predict_proba(of) for of in (kind(half), half))
    np.testing.assert_array_equal(found, expected)


def test_the_first_batch_of_texts_decides_the_words_with_a_warning():
    model = sd.MultinomialNB()
    with pytest.warns(UserWarning, match="words of the first batch"):
        model.partial_fit(TEXTS, MARKS, classes=["n", "p"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(TEXTS, MARKS)
        assert model.score(TEXTS, MARKS) > 0.9
        hashed = sd.MultinomialNB(vectorizer=VectorizerSettings(kind="hashing", n_features=2**18))
        hashed.partial_fit(TEXTS, MARKS, classes=["n", "p"])
        sd.MultinomialNB().partial_fit(X, Y, classes=["a", "b"])


X4 = np.array([[1, 0, 2], [0, 3, 1], [2, 0, 0], [0, 1, 1]])
NAN_LABEL = float("nan")
GONE, NONE = r"^Row 2 \(counting from 0\) of y has no label \(None\)\. .*", ["a", "b", None, "b"]
REFUSED = [
    (sd.MultinomialNB(), NONE, GONE + "Pass unlabelled='' to train on it anyway"),
    (sd.MultinomialNB(), [0, 1, None, 1], GONE + "unlabelled=-1"),
    (sd.GaussianNB(), NONE, GONE + "unlabelled=''"),
    (sd.MultinomialNB(unlabelled="", loss="nll"), [0, 0, None, 1], GONE + "Pass unlabelled=-1"),
    (sd.MultinomialNB(unlabelled=NAN_LABEL, loss="nll"), NONE, GONE + "Pass unlabelled=''"),
    (sd.LDAClassifier(), NONE, GONE + "Drop it: "),
    *((sd.MultinomialNB(), y, r"^Row 1 \(counting from 0\) of y has no label \((nan|<NA>)\)\. Pass unlabelled=")
      for missing in (NAN_LABEL, pd.NA) for y in (["a", missing, "b", "b"], [1, missing, 2, 2])),
    *((sd.MultinomialNB(unlabelled=name), [missing] * 4, f"^no document has a label: y contains only {name!r}")
      for missing, name in ((-1, -1), ("", ""), (None, ""), (NAN_LABEL, -1))),
    (sd.MultinomialNB(), ["a", "b", -1, "b"], "y mixes strings .*, such as -1 .* or pass the value for missing labels"),
    (sd.MultinomialNB(loss="nll", unlabelled=-1), ["a", "b", -1, 3], "y mixes strings with other types, such as 3 at position 3"),
    (sd.LDAClassifier(), ["a", "b", 1, "b"], "y mixes strings with other types.*use one type$"),
]  # fmt: skip


@pytest.mark.parametrize(("estimator", "y", "said"), REFUSED, ids=str)
def test_labels_that_are_none_or_of_two_kinds_are_named(estimator, y, said):
    for labels in (y, np.array(y, object), pd.Series(y, dtype=object)):
        np.testing.assert_raises_regex(ValueError, said, estimator.fit, X4, labels)


@pytest.mark.parametrize("missing", [None, NAN_LABEL, pd.NA])
@pytest.mark.parametrize(
    ("y", "unlabelled"),
    [(["a", "b", "?", "b"], ""), (["a", "b", "?", "b"], -1), ([1, 0, "?", 1], -1), ([1.0, 0.0, "?", 1.0], -1)],
)
def test_missing_labels_are_what_unlabelled_names(y, unlabelled, missing):
    named = [unlabelled if label == "?" else label for label in y]
    gone = [missing if label == "?" else label for label in y]
    expected = sd.MultinomialNB(unlabelled=unlabelled, loss="nll").fit(X4, named)
    kinds = [gone, pd.Series(gone), np.array(gone, object)]
    if isinstance(y[0], str):  # among which a number may stand for no label
        kinds += [np.array(named, object), pd.Series(named)]
    elif isinstance(missing, float):
        kinds.append(np.array(gone))
        assert kinds[-1].dtype == np.float64
    for labels in kinds:
        model = sd.MultinomialNB(unlabelled=unlabelled, loss="nll").fit(X4, labels)
        assert model.classes_.tolist() == expected.classes_.tolist() == sorted({*y} - {"?"}, key=str)
        np.testing.assert_array_equal(model.feature_log_prob_, expected.feature_log_prob_)
        assert model.score(X4, labels) == expected.score(X4, named)
        assert model.evaluate(X4, labels) == expected.evaluate(X4, named)
    assert any(value is missing for value in gone)


def test_nor_are_documents_scored_by_labels_that_are_none():
    model = sd.MultinomialNB(n_epochs=1).fit(X4, ["a", "b", "a", "b"])
    for method in (model.score, model.evaluate, model.partial_fit):
        np.testing.assert_raises_regex(
            ValueError, r"Row 1 \(counting from 0\) of y has no label \(None\)", method, X4, ["a", None, "a", "b"]
        )
    known = sd.MultinomialNB(loss="nll", unlabelled=-1).fit(X4, ["a", "b", "a", "b"])
    assert known.classes_.tolist() == ["a", "b"], "a number may stand for no label among texts"
