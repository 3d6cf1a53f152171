"""Numbers mean the same in every dtype and layout, or are refused."""

import os
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numba.core.errors import TypingError

from sdem_dist import ManyClassNB, MultinomialMixture, MultinomialNB
from sdem_dist.kernels.code_points import load64
from sdem_dist.kernels.csr import row_sums, weighed_squares
from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.rows import FORMS, weigh
from sdem_dist.kernels.vectors import add_columns, log, log_single

MOST = 10**6
DTYPES = ["uint32", "int32", "int64", "float32", "float64"]
LAYOUTS = {
    "csr": lambda X: X,
    "csc": sp.csc_array,
    "coo, shuffled": lambda X: _shuffled(X),
    "rows of C": lambda X: X.toarray(),
    "a list": lambda X: X.toarray().tolist(),
    "a pandas table": lambda X: pd.DataFrame(X.toarray()),
    "rows of Fortran": lambda X: np.asfortranarray(X.toarray()),
    "every other row": lambda X: np.repeat(X.toarray(), 2, axis=0)[::2],
    "other byte order": lambda X: X.toarray().astype(X.dtype.newbyteorder("S")),
    "indices of 64 bits": lambda X: sp.csr_array(
        (X.data, X.indices.astype("int64"), X.indptr.astype("int64")), X.shape
    ),
}
ESTIMATORS = {
    **{f"{w}, {loss}": MultinomialNB(loss=loss, weighting=w) for w in FORMS for loss in ("hinge", "nll")},
    "many classes": ManyClassNB(),
    "paper": MultinomialNB(loss="ncll", weighting="counts", steps="paper"),
    "mixture": MultinomialMixture(3, n_init=1, n_epochs=2),
}


def _shuffled(X):
    found = sp.coo_array(X)
    order = np.random.default_rng(1).permutation(found.nnz)
    return sp.coo_array((found.data[order], (found.row[order], found.col[order])), X.shape)


def counts(n_documents: int = 150, n_columns: int = 40, dtype: str = "int64") -> tuple[sp.csr_array, np.ndarray]:
    rng, y = np.random.default_rng(0), np.arange(n_documents) % 3
    X = rng.poisson(np.where(np.arange(n_columns) % 3 == y[:, None], 0.9, 0.3))
    return sp.csr_array(X * np.ceil(MOST ** rng.random(X.shape)).clip(max=MOST // 9).astype(dtype), dtype=dtype), y


def outputs(estimator, X, y) -> list[np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X, y)
    parameters = estimator.mu_.values() if hasattr(estimator, "mu_") else [estimator.predict_proba(X)]
    return [np.asarray(estimator.predict(X)), *parameters]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_counts_give_the_same_model_and_predictions_in_every_dtype_and_layout(name):
    estimator = ESTIMATORS[name]
    estimator.set_params(random_state=0)
    expected = outputs(estimator, *counts())
    for dtype in DTYPES:
        X, y = counts(dtype=dtype)
        for layout, convert in LAYOUTS.items() if dtype in ("int64", "float32") else [("csr", lambda X: X)]:
            for one, other in zip(outputs(estimator, convert(X), y), expected, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"{dtype}, {layout}")


def weighed(x, form):
    out = np.empty(x.size, np.float32)
    weigh(x, np.zeros(x.size, np.uint32), np.array([0, x.size]), np.ones(1, np.float32), FORMS[form], 0.0, 1.0, 0, out)
    return out


@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
def test_weights_are_those_of_numpy_up_to_a_million(form, dtype):
    x = np.unique(np.concatenate([np.arange(1, 1000), np.geomspace(1, MOST, 500).astype(int)])).astype(dtype)
    n = np.array([0, x.size])
    exact = x.astype(np.float64)
    expected = {"counts": exact, "log": np.log1p(exact), "binary": np.ones(x.size), "tfidf": 1 + np.log(exact)}[form]
    np.testing.assert_allclose(weighed(x, form), expected, rtol=1e-7)
    assert row_sums(x, n)[0] == exact.sum()
    squares = weighed_squares(x, np.zeros(x.size, np.uint32), n, np.ones(1))
    np.testing.assert_allclose(squares, np.full((2, 1), exact @ exact), rtol=1e-14)


@pytest.mark.parametrize("x", [0.001, 0.3, 0.9, 2.5, 300.25])
def test_entries_that_are_not_whole_have_weights_that_are_not_negative(x):
    for dtype in (np.float32, np.float64):
        np.testing.assert_allclose(weighed(np.array([x], dtype), "tfidf"), max(1 + np.log(x), 0.0), rtol=1e-6)


def _add(values, words, rows, sums):
    return add_columns(values, words, rows, 0, 8, sums)


VALUES, WORDS = np.ones(2, np.float32), np.zeros(2, np.uint16)
ROWS, SUMS = np.ones((3, 16), np.float32), np.ones(16, np.float32)
REFUSED = {
    "load64 of other bytes": (lambda data: load64(data, 0), np.zeros(4, np.uint32)),
    "load64 of every other byte": (lambda data: load64(data, 0), np.zeros(32, np.uint8)[::2]),
    "rows of float64": (_add, VALUES, WORDS, ROWS.astype(np.float64), SUMS),
    "rows in Fortran order": (_add, VALUES, WORDS, np.asfortranarray(ROWS), SUMS),
    "values with gaps": (_add, np.ones(4, np.float32)[::2], WORDS, ROWS, SUMS),
    "words with gaps": (_add, VALUES, np.zeros(4, np.uint16)[::2], ROWS, SUMS),
    "words that are not whole": (_add, VALUES, WORDS.astype(np.float32), ROWS, SUMS),
    "sums of float64": (_add, VALUES, WORDS, ROWS, SUMS.astype(np.float64)),
}


def test_logarithms_are_of_numbers_of_any_dtype():
    for x in (3, 3.0, np.float32(3), np.uint8(3)):
        assert jit(lambda x: log(x))(x) == pytest.approx(np.log(3.0), rel=1e-15)
        assert jit(lambda x: log_single(x))(x) == np.float32(np.log(3.0))


@pytest.mark.parametrize("name", REFUSED)
def test_code_that_reads_memory_as_it_lies_compiles_for_one_dtype_and_layout(name):
    function, *arguments = REFUSED[name]
    np.testing.assert_raises(TypingError, jit(function), *arguments)


def test_kernels_run_as_plain_python_and_agree():
    code = """
        import warnings; warnings.simplefilter("error", RuntimeWarning)
        import numpy as np
        from sdem_dist import MultinomialNB
        texts = ["goal goal match the", "vote law the a", "match goal Ünder", "law of the vote"] * 4
        paper = {"loss": "ncll", "steps": "paper", "weighting": "counts"}
        for settings in ({"loss": "hinge"}, {"loss": "ncll"}, {"loss": "nll"}, paper):
            model = MultinomialNB(**settings, random_state=0, n_epochs=1, calibrate=False).fit(texts, [0, 1] * 8)
            print(np.round(model.predict_proba(texts[:4]), 5).tolist())
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    settings = ({**os.environ, "NUMBA_DISABLE_JIT": plain} for plain in "01")
    compiled, plain = (subprocess.check_output(command, env=env, text=True) for env in settings)
    assert compiled == plain
