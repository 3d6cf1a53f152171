"""Texts in whatever holds them: each form gives the same bits."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sdem_dist import MultinomialNB

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, 200)
TEXTS = [" ".join(RNG.choice([f"w{3 * k + i}" for i in range(5)], 8)) for k in Y]


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
    return MultinomialNB(n_epochs=2).fit(TEXTS, Y)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_bits(form, model):
    made = FORMS[form]
    other = MultinomialNB(n_epochs=2).fit(made(TEXTS), Y)
    assert other.vocabulary_ == model.vocabulary_
    assert other.feature_log_prob_.tobytes() == model.feature_log_prob_.tobytes()
    probabilities = np.asarray(other.predict_proba(made(TEXTS)))
    assert probabilities.tobytes() == model.predict_proba(TEXTS).tobytes()
    assert str(model.report(made(TEXTS), Y)) == str(model.report(TEXTS, Y))
    assert [e.to_dict() for e in other.explain(made(TEXTS[:3]))] == [e.to_dict() for e in model.explain(TEXTS[:3])]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_of_several_columns_one_is_to_be_chosen(frame, model):
    for call in (lambda X: MultinomialNB().fit(X, Y), model.predict):
        with pytest.raises(ValueError, match="pass one column"):
            call(frame({"title": TEXTS, "body": TEXTS}))
