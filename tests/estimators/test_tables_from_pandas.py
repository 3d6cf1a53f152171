"""Tables of pandas: as corpora on disk, and what is said of columns that do not fit."""

import numpy as np
import pandas as pd
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
        }
    )
    frame.loc[::17, "colour"] = None
    frame.loc[::19, "visits"] = pd.NA
    return frame, np.where(y, "yes", "no")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return sd.write_corpus(tmp_path_factory.mktemp("table") / "table.zarr", *table(), dense=True, shard_documents=100)


@pytest.mark.filterwarnings("error:X .*feature names")
def test_a_model_trained_from_the_corpus_predicts_on_the_table(corpus, tmp_path):
    frame, y = table()
    stored = sd.MixedNB(kinds=KINDS, n_epochs=10).fit(corpus)
    memory = sd.MixedNB(kinds=KINDS, n_epochs=10).fit(frame, y)
    assert list(stored.feature_names_in_) == list(frame.columns)
    assert {i: c.tolist() for i, c in stored.categories_.items()} == {
        1: ["blue", "green", "red"], 3: [False, True], 4: [10, 20, 30],
    }  # fmt: skip
    np.testing.assert_allclose(stored.predict_proba(frame), memory.predict_proba(frame), rtol=1e-6)
    assert stored.score(corpus) == stored.score(frame, y) == memory.score(corpus)
    order = np.concatenate([corpus.ids(shard) for shard in range(len(corpus.header.shards))])
    np.testing.assert_array_equal(stored.predict_proba(corpus), stored.predict_proba(frame.iloc[order]))
    stored.save(tmp_path / "m")
    np.testing.assert_array_equal(sd.load_model(tmp_path / "m").predict_proba(frame), stored.predict_proba(frame))


def test_other_rows_are_numbered_alike(corpus, tmp_path):
    model = sd.MixedNB(kinds=KINDS, n_epochs=5).fit(corpus)
    frame, y = table(60, seed=1)
    frame.loc[:5, "colour"] = "violet"  # not known: missing
    fewer = frame[frame["colour"] != "blue"]
    labels = y[frame["colour"] != "blue"]
    alike = sd.write_corpus(tmp_path / "a", fewer, labels, dense=True, vectorizer=corpus.header.vectorizer)
    assert model.evaluate(alike) == pytest.approx(model.evaluate(fewer, labels))
    other = sd.write_corpus(tmp_path / "b", fewer, labels, dense=True)
    for ask in (model.evaluate, model.predict):
        with pytest.raises(sd.CorpusError, match="numbers its categories in another way"):
            ask(other)
    with pytest.raises(sd.CorpusError, match="the table has the columns"):
        sd.write_corpus(tmp_path / "c", fewer[["size"]], labels, dense=True, vectorizer=corpus.header.vectorizer)


def test_only_mixed_models_take_categories(corpus):
    for model in (sd.GaussianNB(), sd.CategoricalNB(), sd.BernoulliNB()):
        with pytest.raises(sd.CorpusError, match="columns of text, categories or booleans: MixedNB takes such corpora"):
            model.fit(corpus)
    with pytest.raises(ValueError, match="GaussianRegressor takes numbers"):
        sd.GaussianRegressor().fit(corpus)


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
    assert model.categories_ == {}  # nothing is left of the table
    assert not hasattr(model, "feature_names_in_")


def test_what_cannot_be_a_corpus(tmp_path):
    frame, y = table()
    with pytest.raises(sd.CorpusError, match=r"\(colour, member, grade\) are stored with dense=True"):
        sd.write_corpus(tmp_path / "a", frame, y)
    with pytest.raises(sd.CorpusError, match="'b' holds values of type int, str"):
        sd.write_corpus(tmp_path / "a", pd.DataFrame({"b": [1, "x"]}), [0, 1], dense=True)
    with pytest.raises(sd.CorpusError, match="two columns are named 'a'"):
        sd.write_corpus(tmp_path / "a", pd.DataFrame(np.ones((2, 2)), columns=["a", "a"]), [0, 1], dense=True)
    with pytest.raises(sd.CorpusError, match=r"a list of rows: pass a matrix, numpy.asarray\(X\)"):
        sd.write_corpus(tmp_path / "a", [[1, 2, 3], [4, 5, 6]], [0, 1])
    with pytest.raises(sd.CorpusError, match="X, a generator, is not a matrix"):
        sd.write_corpus(tmp_path / "a", (row for row in np.ones((2, 2))), [0, 1])
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "bernoulli", "exponential", Poisson()], ids=str)
@pytest.mark.parametrize("column", ["colour", "grade"])
def test_categories_are_not_taken_for_numbers(kind, column, tmp_path):
    frame, y = table()
    said = rf"kinds: column '{column}' holds categories \((blue, green, red|10, 20, 30)\), and .* is for numbers"
    with pytest.raises(ValueError, match=said):
        sd.MixedNB(kinds={column: kind}).fit(frame, y)
    with pytest.raises(ValueError, match=said):
        sd.MixedNB(kinds={column: kind}).fit(sd.write_corpus(tmp_path / "c", frame, y, dense=True))


def test_categories_may_be_called_categorical_and_booleans_numbers():
    frame, y = table()
    named = sd.MixedNB(kinds={"colour": Categorical(3), "grade": "categorical"}, loss="nll").fit(frame, y)
    plain = sd.MixedNB(loss="nll").fit(frame, y)
    np.testing.assert_allclose(named.predict_proba(frame), plain.predict_proba(frame))
    always = frame.assign(member=True)
    model = sd.MixedNB(kinds=KINDS, loss="nll").fit(always, y)  # True is 1 though nothing else occurs
    assert (model.predict_proba(always) != model.predict_proba(always.assign(member=False))).any()


def test_numbers_that_pandas_holds_as_objects_are_numbers(tmp_path):
    frame, y = table()
    objects = frame.assign(size=frame["size"].astype(object).where(frame["size"].notna(), None))
    model = sd.MixedNB(kinds=KINDS, loss="nll").fit(objects, y)
    assert 0 not in model.categories_
    np.testing.assert_array_equal(
        model.predict_proba(objects), sd.MixedNB(kinds=KINDS, loss="nll").fit(frame, y).predict_proba(frame)
    )
    counts = pd.DataFrame({"n": pd.Series([1, 2.5, None, 4] * 10, dtype=object)})
    assert np.isnan(sd.write_corpus(tmp_path / "o", counts, y[:40], dense=True).read(0, 40).values).sum() == 10


@pytest.mark.parametrize(("column", "said"), [
    (pd.date_range("2024-01-01", periods=300), "'when' holds values of type Timestamp.*days since the first"),
    (pd.to_timedelta(np.arange(300), "h"), "'when' holds values of type Timedelta.*days since the first"),
    (["x", 1, None] * 100, "'when' holds values of type int, str"),
    (np.full(300, 1j), "'when' holds values of type complex.*turn the column into one of these"),
    (pd.cut(pd.Series(np.arange(300)), 3), "'when' holds values of type Interval.*turn the column into one of these"),
], ids=["dates", "times", "mixed", "complex", "intervals"])  # fmt: skip
def test_columns_that_are_neither_numbers_nor_categories(column, said):
    frame, y = table()
    with pytest.raises(ValueError, match=said):
        sd.MixedNB().fit(frame.assign(when=column), y)


def test_columns_are_told_apart_by_their_names():
    frame, y = table()
    model = sd.MixedNB(kinds=KINDS, loss="nll").fit(frame, y)
    for other in (frame[frame.columns[::-1]], frame.drop(columns="grade")):
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(other)
    with pytest.raises(ValueError, match="two columns are named 'size'"):
        sd.MixedNB(loss="nll").fit(frame.rename(columns={"grade": "size"}), y)


def test_columns_of_another_kind_than_in_training_are_named(corpus, tmp_path):
    frame, y = table()
    model = sd.MixedNB(kinds=KINDS, n_epochs=2).fit(frame, y)
    with pytest.raises(ValueError, match="column 'size' must hold numbers: could not convert string to float: 'big'"):
        model.predict(frame.assign(size="big"))
    for column, values, said in (
        ("colour", 3, "'colour' holds values of type number, and held str"),
        ("grade", "20", "'grade' holds values of type str, and held number"),
        ("member", frame["member"].map({True: "yes", False: "no"}), "'member' holds values of type str, and held bool"),
    ):
        with pytest.raises(ValueError, match=said):
            model.predict(frame.assign(**{column: values}))
    with pytest.raises(sd.CorpusError, match="'colour' holds values of type number"):
        sd.write_corpus(tmp_path / "o", frame.assign(colour=3), y, dense=True, vectorizer=corpus.header.vectorizer)
    same = model.predict_proba(frame)
    for column, values in (("grade", frame["grade"].astype(float)), ("member", frame["member"].astype(object))):
        np.testing.assert_array_equal(model.predict_proba(frame.assign(**{column: values})), same)
    for nothing in (np.nan, None, "violet"):
        assert model.predict(frame.assign(colour=nothing)).shape == y.shape
