"""Tables of pandas: as corpora on disk, and what is said of columns that do not fit."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sdem_dist as sd
from sdem_dist.families import Categorical, Poisson

KINDS = {"visits": "poisson", "member": "bernoulli"}


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(y, 1.0)),
            "colour": np.where(rng.random(n) < 0.3 + 0.4 * y, "red", rng.choice(["green", "blue"], n)),
            "visits": pd.array(rng.poisson(2 + 2 * y), "Int64"),
            "member": rng.random(n) < 0.3 + 0.3 * y,
            "grade": pd.Categorical(rng.choice([10, 20, 30], n)),
            "waiting": rng.exponential(1.0 + y),
        }
    )
    frame.loc[::17, "colour"] = None
    frame.loc[::19, "visits"] = pd.NA
    return frame, np.where(y, "yes", "no")


FRAME, Y = table()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return sd.write_corpus(tmp_path_factory.mktemp("table") / "table.zarr", *table(), dense=True, shard_documents=100)


@pytest.mark.filterwarnings("error:X .*feature names")
def test_a_model_trained_from_the_corpus_predicts_on_the_table(corpus, tmp_path):
    stored = sd.MixedNB(kinds=KINDS, n_epochs=10).fit(corpus)
    memory = sd.MixedNB(kinds=KINDS, n_epochs=10).fit(FRAME, Y)
    assert list(stored.feature_names_in_) == list(FRAME.columns)
    assert {i: [*c] for i, c in stored.categories_.items()} == {1: ["blue", "green", "red"], 3: [0, 1], 4: [10, 20, 30]}
    assert (f"grade={FRAME.grade[0]}", 1.0) in {word[:2] for word in stored.explain(FRAME[:1])[0].words}
    np.testing.assert_allclose(stored.predict_proba(FRAME), memory.predict_proba(FRAME), rtol=1e-6)
    assert stored.score(corpus) == stored.score(FRAME, Y) == memory.score(corpus)
    order = np.concatenate([corpus.ids(shard) for shard in range(len(corpus.header.shards))])
    np.testing.assert_array_equal(stored.predict_proba(corpus), stored.predict_proba(FRAME.iloc[order]))
    stored.save(tmp_path / "m")
    np.testing.assert_array_equal(sd.load_model(tmp_path / "m").predict_proba(FRAME), stored.predict_proba(FRAME))


@pytest.mark.parametrize("form", [pl.from_pandas, lambda t: pl.from_pandas(t).lazy(), pa.Table.from_pandas])
def test_tables_of_polars_and_arrow_are_those_of_pandas(form):
    part = FRAME[["size", "colour", "member"]]
    expected, found = (sd.MixedNB(n_epochs=5).fit(X, Y).predict_proba(X) for X in (part, form(part)))
    np.testing.assert_array_equal(found, expected)


def test_other_rows_are_numbered_alike(corpus, tmp_path):
    of_numbers = sd.MixedNB(kinds={"member": "gaussian"}).fit(FRAME[["member"]], Y).explain(np.array([[0.5], [3.0]]))
    assert [one.words[0][:2] for one in of_numbers] == [("member", 0.5), ("member", 3.0)]
    model = sd.MixedNB(kinds=KINDS, n_epochs=5).fit(corpus)
    frame, y = table(60, seed=1)
    frame.loc[:5, "colour"] = "violet"  # not known: missing
    fewer, labels = frame[frame["colour"] != "blue"], y[frame["colour"] != "blue"]
    alike = sd.write_corpus(tmp_path / "a", fewer, labels, dense=True, vectorizer=corpus.header.vectorizer)
    assert model.evaluate(alike) == pytest.approx(model.evaluate(fewer, labels))
    other = sd.write_corpus(tmp_path / "b", fewer, labels, dense=True)
    for ask in (model.evaluate, model.predict):
        np.testing.assert_raises_regex(sd.CorpusError, "encodes its categories differently", ask, other)
    with pytest.raises(sd.CorpusError, match="the table has columns"):
        sd.write_corpus(tmp_path / "c", fewer[["size"]], labels, dense=True, vectorizer=corpus.header.vectorizer)


def test_only_mixed_models_take_categories(corpus):
    for model in (sd.GaussianNB(), sd.CategoricalNB(), sd.BernoulliNB(), sd.EMMixtureClassifier()):
        with pytest.raises(sd.CorpusError, match="columns of text, categories or booleans: use MixedNB, or a mixture"):
            model.fit(corpus)
    np.testing.assert_raises_regex(ValueError, "GaussianRegressor needs numbers", sd.GaussianRegressor().fit, corpus)


def test_tables_of_numbers(tmp_path):
    rng = np.random.default_rng(0)
    frame, y = pd.DataFrame(rng.normal(size=(50, 2)), columns=["a", "b"]), np.arange(50) % 2
    model = sd.GaussianNB(n_epochs=3).fit(sd.write_corpus(tmp_path / "d", frame, y, dense=True))
    assert model.predict(frame).shape == (50,)
    counts = pd.DataFrame(rng.poisson(2.0, (50, 3)), columns=["cat", "dog", "cow"])
    words = sd.write_corpus(tmp_path / "s", counts, pd.Series(y))
    assert list(words.vocabulary()) == ["cat", "dog", "cow"]
    assert sd.MultinomialNB(n_epochs=1).fit(words).score(words) > 0.4
    model = sd.MixedNB(n_epochs=1).fit(*table())
    model.fit(sd.write_corpus(tmp_path / "n", rng.normal(size=(50, 2)), y, dense=True))
    assert model.categories_ == {} and not hasattr(model, "feature_names_in_"), "nothing is left of the table"


def test_what_cannot_be_a_corpus(tmp_path):
    for X, y, dense, said in (
        (FRAME, Y, False, r"\(colour, member, grade\) need dense=True"),
        (pd.DataFrame({"b": [1, "x"]}), [0, 1], True, "'b' contains values of type int, str"),
        (pd.DataFrame(np.ones((2, 2)), columns=["a", "a"]), [0, 1], True, "two columns are named 'a'"),
        ([[1, 2, 3], [4, 5, 6]], [0, 1], False, r"a list of rows: pass numpy.asarray\(X\)"),
        ((row for row in np.ones((2, 2))), [0, 1], False, "X is a generator: labels, ids"),
    ):
        np.testing.assert_raises_regex(sd.CorpusError, said, sd.write_corpus, tmp_path / "a", X, y, dense=dense)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "bernoulli", "exponential", Poisson()], ids=str)
@pytest.mark.parametrize("column", ["colour", "grade"])
def test_categories_are_not_taken_for_numbers(kind, column, tmp_path):
    said = rf"kinds: column '{column}' has categories \((blue, green, red|10, 20, 30)\), but .* needs numbers"
    np.testing.assert_raises_regex(ValueError, said, sd.MixedNB(kinds={column: kind}).fit, FRAME, Y)
    with pytest.raises(ValueError, match=said):
        sd.MixedNB(kinds={column: kind}).fit(sd.write_corpus(tmp_path / "c", FRAME, Y, dense=True))


def test_categories_may_be_called_categorical_and_booleans_numbers():
    named = sd.MixedNB(kinds={"colour": Categorical(3), "grade": "categorical"}, loss="nll").fit(FRAME, Y)
    np.testing.assert_allclose(named.predict_proba(FRAME), sd.MixedNB(loss="nll").fit(FRAME, Y).predict_proba(FRAME))
    always = FRAME.assign(member=True)
    model = sd.MixedNB(kinds=KINDS, loss="nll").fit(always, Y)  # True is 1 though nothing else occurs
    assert (model.predict_proba(always) != model.predict_proba(always.assign(member=False))).any()


def test_numbers_that_pandas_holds_as_objects_are_numbers(tmp_path):
    objects = FRAME.assign(size=FRAME["size"].astype(object).where(FRAME["size"].notna(), None))
    model = sd.MixedNB(kinds=KINDS, loss="nll").fit(objects, Y)
    assert 0 not in model.categories_
    plain = sd.MixedNB(kinds=KINDS, loss="nll").fit(FRAME, Y)
    np.testing.assert_array_equal(model.predict_proba(objects), plain.predict_proba(FRAME))
    counts = pd.DataFrame({"n": pd.Series([1, 2.5, None, 4] * 10, dtype=object)})
    assert np.isnan(sd.write_corpus(tmp_path / "o", counts, Y[:40], dense=True).read(0, 40).values).sum() == 10


@pytest.mark.parametrize(("column", "said"), [
    (pd.date_range("2024-01-01", periods=300), "'when' contains values of type Timestamp.*days since the first"),
    (pd.to_timedelta(np.arange(300), "h"), "'when' contains values of type Timedelta.*days since the first"),
    (["x", 1, None] * 100, "'when' contains values of type int, str"),
    (np.full(300, 1j), "'when' contains values of type complex.*convert the column"),
    (pd.cut(pd.Series(np.arange(300)), 3), "'when' contains values of type Interval.*convert the column"),
], ids=["dates", "times", "mixed", "complex", "intervals"])  # fmt: skip
def test_columns_that_are_neither_numbers_nor_categories(column, said):
    np.testing.assert_raises_regex(ValueError, said, sd.MixedNB().fit, FRAME.assign(when=column), Y)


def test_columns_are_told_apart_by_their_names():
    model = sd.MixedNB(kinds=KINDS, loss="nll").fit(FRAME, Y)
    for other in (FRAME[FRAME.columns[::-1]], FRAME.drop(columns="grade")):
        np.testing.assert_raises_regex(ValueError, "feature names should match", model.predict, other)
    with pytest.raises(ValueError, match="two columns are named 'size'"):
        sd.MixedNB(loss="nll").fit(FRAME.rename(columns={"grade": "size"}), Y)


def test_columns_of_another_kind_than_in_training_are_named(corpus, tmp_path):
    model = sd.MixedNB(kinds=KINDS, n_epochs=2).fit(FRAME, Y)
    with pytest.raises(
        ValueError, match="column 'size' must contain numbers: could not convert string to float: 'big'"
    ):
        model.predict(FRAME.assign(size="big"))
    for column, values, said in (
        ("colour", 3, "'colour' has values of type number; its known categories are of type str"),
        ("grade", "20", "'grade' has values of type str; its known categories are of type number"),
        ("member", FRAME["member"].map({True: "yes", False: "no"}), "str; its known categories are of type bool"),
    ):
        np.testing.assert_raises_regex(ValueError, said, model.predict, FRAME.assign(**{column: values}))
    with pytest.raises(sd.CorpusError, match="'colour' has values of type number"):
        sd.write_corpus(tmp_path / "o", FRAME.assign(colour=3), Y, dense=True, vectorizer=corpus.header.vectorizer)
    same = model.predict_proba(FRAME)
    for column, values in (("grade", FRAME["grade"].astype(float)), ("member", FRAME["member"].astype(object))):
        np.testing.assert_array_equal(model.predict_proba(FRAME.assign(**{column: values})), same)
    for nothing in (np.nan, None, "violet"):
        assert model.predict(FRAME.assign(colour=nothing)).shape == Y.shape


def test_tables_of_mixed_columns():
    model = sd.MixedNB(kinds={"visits": "poisson", "waiting": "exponential"}).fit(FRAME, Y)
    families = [type(b.family).__name__ for b in model.learner_.model.variables.blocks]
    assert families == ["Poisson", "Exponential", "Gaussian", "Categorical", "Categorical"]
    numbers = FRAME[["size", "visits", "waiting"]].astype(float)
    assert model.score(FRAME, Y) > sd.GaussianNB(loss="nll").fit(numbers, Y).score(numbers, Y)
    odd = FRAME.head(3).assign(colour=["red", "violet", None])
    assert np.isfinite(model.predict_proba(odd)).all()
    assert model.predict_proba(odd)[1] == pytest.approx(model.predict_proba(odd.assign(colour=None))[1])
