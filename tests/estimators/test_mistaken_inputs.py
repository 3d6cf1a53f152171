"""What people hand over by mistake, and what they are told."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist import CorpusError, ModelError, MultinomialNB, load_model, write_corpus
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


def test_a_corpus_is_not_predicted_whole(tmp_path, model):
    corpus = write_corpus(tmp_path / "c.zarr", X, Y)
    for method in (model.predict, model.predict_proba):
        with pytest.raises(ValueError, match=r"read\(start, stop\)\.to_csr\(\) .* evaluate\(X\)"):
            method(corpus)
    assert model.predict(corpus.read(0, 4).to_csr()).shape == (4,)


def test_labels_or_weights_beside_a_corpus_are_not_ignored(tmp_path, model):
    corpus = write_corpus(tmp_path / "c.zarr", X, Y)
    for call in (
        lambda: model.evaluate(corpus, Y),
        lambda: model.score(corpus, Y),
        lambda: model.score(corpus, None, np.ones(4)),
    ):
        with pytest.raises(ValueError, match="a corpus (brings its labels|has no sample weights)"):
            call()


def test_raw_text_is_to_be_vectorized(model):
    with pytest.raises(ValueError, match="vectorize"):
        model.predict(["some text", "more"])


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
    def corpus(name, idf=None, **settings):
        vectorizer = VectorizerSettings(kind="hashing", n_features=3, **settings).to_json()
        return write_corpus(tmp_path / name, X, Y, vectorizer=vectorizer, idf=idf)

    model = MultinomialNB(n_epochs=1).fit(corpus("words"))
    assert model.score(corpus("same")) == model.score(X, Y)
    with pytest.raises(CorpusError, match=r"another way than the model's \(lowercase, analyzer\)"):
        model.score(corpus("letters", analyzer="char", lowercase=False))
    numbers = VectorizerSettings(kind="matrix").to_json()
    assert model.score(write_corpus(tmp_path / "numbers", X, Y, vectorizer=numbers)) == model.score(X, Y)
    weighted = MultinomialNB(n_epochs=1).fit(corpus("tfidf", idf=np.ones(3), weighting="tfidf"))
    with pytest.raises(CorpusError, match=r"\(idf\)"):
        weighted.score(corpus("other", idf=np.full(3, 2.0), weighting="tfidf"))


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
