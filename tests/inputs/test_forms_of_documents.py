"""Documents in whatever holds them: each form gives the same bits, and texts are their counts."""

import copy

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from reference.random_documents import random_counts
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer

import sdem_dist as sd
from sdem_dist.text import VectorizerSettings

RNG = np.random.default_rng(0)
WORDS = [["goal", "match", "team"], ["bank", "rate", "loan"], ["disk", "code", "bug"]]
Y = RNG.integers(3, size=240)
TEXTS = [" ".join([*RNG.choice(WORDS[k], 4), *RNG.choice(["the", "a1", "of"], 6)]) for k in Y]
X = CountVectorizer().fit_transform(TEXTS)
OF_COUNTS = {
    "naive Bayes": sd.MultinomialNB(),
    "counted": sd.MultinomialNB(loss="nll"),
    "LDA": sd.LDAClassifier(n_epochs=2),
    "mixture": sd.SdemMixtureClassifier(2, components="multinomial", n_em_epochs=2, n_epochs=2),
    "multiplicative": sd.MultiplicativeMixtureClassifier(2, n_epochs=3),
    "supervised topics": sd.SupervisedLDAClassifier(3, n_epochs=1),
}
SORTED, LABELS = random_counts(300, 200, 3, seed=3, length=60.0)


@pytest.mark.parametrize("name", OF_COUNTS)
def test_texts_are_their_counts(name):
    ours, theirs = clone(OF_COUNTS[name]).fit(TEXTS, Y), clone(OF_COUNTS[name]).fit(X, Y)
    np.testing.assert_array_equal(ours.predict_proba(TEXTS[:50]), theirs.predict_proba(X[:50]))
    assert ours.vocabulary_ == CountVectorizer().fit(TEXTS).get_feature_names_out().tolist()
    assert ours.score(TEXTS, Y) == theirs.score(X, Y)


def test_held_out_texts_are_evaluated_while_a_model_of_texts_trains():
    of_texts = sd.MultinomialNB(n_epochs=2).fit(TEXTS[:200], Y[:200], validation=(TEXTS[200:], Y[200:]))
    known = CountVectorizer().fit(TEXTS[:200])
    X_train, X_new = known.transform(TEXTS[:200]), known.transform(TEXTS[200:])
    of_counts = sd.MultinomialNB(n_epochs=2).fit(X_train, Y[:200], validation=(X_new, Y[200:]))
    for name in ("validation_accuracy", "validation_ncll"):
        assert [entry[name] for entry in of_texts.history_] == [entry[name] for entry in of_counts.history_]


def test_a_model_counts_texts_anew_after_each_fit_and_when_it_is_copied_or_saved(tmp_path):
    settings = VectorizerSettings(ngram_range=(1, 2), stop_words="english")
    model = sd.MultinomialNB(n_epochs=2, vectorizer=settings).fit(TEXTS, Y)
    assert any(" " in term for term in model.vocabulary_)
    first = model.predict_proba(TEXTS[:9])
    model.save(tmp_path / "m")
    for other in (model, copy.deepcopy(model), sd.load_model(tmp_path / "m")):
        np.testing.assert_array_equal(other.predict_proba(TEXTS[:9]), first)
        assert other.vectorizer == settings
    model.fit(["red wine", "white wine", "red", "white"], ["r", "w", "r", "w"])
    assert model.predict(["red", "white wine"]).tolist() == ["r", "w"]


class OneArray:
    """Speaks `__arrow_c_array__` alone."""

    def __init__(self, values):
        self.values = pa.array(values)

    def __arrow_c_array__(self, requested_schema=None):
        return self.values.__arrow_c_array__(requested_schema)


FORMS = {
    "list": list,
    "tuple": tuple,
    "generator": iter,
    "NumPy": np.array,
    "NumPy, StringDType": lambda texts: np.array(texts, np.dtypes.StringDType()),
    "NumPy, objects": lambda texts: np.array(texts, object),
    "pandas column": pd.Series,
    "pandas column of Arrow": lambda texts: pd.Series(texts, dtype="string[pyarrow]"),
    "pandas categories": lambda texts: pd.Series(texts, dtype="category"),
    "pandas frame": lambda texts: pd.DataFrame({"text": texts}),
    "pandas index": pd.Index,
    "polars column": pl.Series,
    "polars categories": lambda texts: pl.Series(texts, dtype=pl.Categorical),
    "polars frame": lambda texts: pl.DataFrame({"text": texts}),
    "lazy polars frame": lambda texts: pl.LazyFrame({"text": texts}),
    "Arrow array": pa.array,
    "Arrow slice": lambda texts: pa.array(["skipped", *texts])[1:],
    "Arrow chunks": lambda texts: pa.chunked_array([texts[:50], texts[50:]]),
    "Arrow large strings": lambda texts: pa.array(texts, pa.large_string()),
    "Arrow dictionary": lambda texts: pa.array(texts).dictionary_encode(),
    "Arrow table": lambda texts: pa.table({"text": texts}),
    "Arrow batch": lambda texts: pa.record_batch({"text": texts}),
    "Arrow reader": lambda texts: pa.table({"text": texts}).to_reader(),
    "Arrow's interface alone": OneArray,
    "Dask column": lambda texts: dd.from_pandas(pd.DataFrame({"text": texts}), npartitions=3)["text"],
}


@pytest.fixture(scope="module")
def model():
    return sd.MultinomialNB(n_epochs=2).fit(TEXTS, Y)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_bits(form, model):
    made = FORMS[form]
    other = sd.MultinomialNB(n_epochs=2).fit(made(TEXTS), Y)
    assert other.vocabulary_ == model.vocabulary_ and not (model.vectorize(made(TEXTS)) != model.vectorize(TEXTS)).nnz
    assert other.feature_log_prob_.tobytes() == model.feature_log_prob_.tobytes()
    assert np.asarray(other.predict_proba(made(TEXTS))).tobytes() == model.predict_proba(TEXTS).tobytes()
    assert str(model.report(made(TEXTS), Y[::-1])) == str(model.report(TEXTS, Y[::-1]))
    assert [e.to_dict() for e in other.explain(made(TEXTS[:3]))] == [e.to_dict() for e in model.explain(TEXTS[:3])]


@pytest.mark.parametrize("columns", ["text", ["text"]])
def test_a_column_of_dask_is_computed_by_its_client(columns, model, client):
    frame = dd.from_pandas(pd.DataFrame({"text": TEXTS, "label": Y}), npartitions=3)
    other = sd.MultinomialNB(n_epochs=2).fit(frame[columns], frame["label"], client=client)
    assert other.feature_log_prob_.tobytes() == model.feature_log_prob_.tobytes()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_of_several_columns_one_is_to_be_chosen(frame, model):
    for call in (lambda X: sd.MultinomialNB().fit(X, Y), model.predict):
        np.testing.assert_raises_regex(ValueError, "pass one column", call, frame({"title": TEXTS, "body": TEXTS}))


def shuffled(matrix: sp.csr_matrix, *, twice: bool) -> sp.csr_matrix:
    """Return the same matrix with entries of each row in any order; with `twice` those above 1 are two entries."""
    coo = matrix.tocoo()
    again = np.flatnonzero((coo.data > 1) & twice)
    row, column = (np.r_[values, values[again]] for values in (coo.row, coo.col))
    data = np.r_[coo.data, np.ones(len(again), coo.data.dtype)]
    data[again] -= 1
    order = np.random.default_rng(0).permutation(len(data))
    order = order[np.argsort(row[order], kind="stable")]
    indptr = np.r_[0, np.cumsum(np.bincount(row, minlength=matrix.shape[0]))]
    return sp.csr_matrix((data[order], column[order], indptr), shape=matrix.shape)


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float64])
def test_the_order_of_a_rows_entries_changes_nothing(dtype, twice):
    given = shuffled(SORTED.astype(dtype), twice=twice)
    assert not given.has_canonical_format
    before = given.indices.copy()
    model, plain = sd.MultinomialNB().fit(given, LABELS), sd.MultinomialNB().fit(SORTED.astype(dtype), LABELS)
    np.testing.assert_array_equal(model.state_.words, plain.state_.words)
    np.testing.assert_array_equal(model.predict_proba(given), plain.predict_proba(SORTED.astype(dtype)))
    np.testing.assert_array_equal(given.indices, before)


def test_counts_beyond_32_bits_are_sorted_too():
    large = sp.csr_matrix(([2**33, 1, 2, 1], [1, 0, 0, 1], [0, 2, 4]), shape=(2, 2))
    ordered = sp.csr_matrix(([1, 2**33, 2, 1], [0, 1, 0, 1], [0, 2, 4]), shape=(2, 2))
    models = [sd.MultinomialNB(loss="nll").fit(M, [0, 1]) for M in (large, ordered)]
    np.testing.assert_array_equal(*(model.state_.words for model in models))
