"""What people hand over by mistake, and what they are told."""

from __future__ import annotations

import numpy as np
import pytest

from sdem_dist import ModelError, MultinomialNB, load_model, write_corpus
from sdem_dist.text import VectorizerSettings

X = np.array([[1, 0, 2], [0, 3, 1], [2, 0, 0], [0, 1, 1]])
Y = np.array(["a", "b", "a", "b"])


def test_a_path_is_to_be_opened_first(tmp_path):
    with pytest.raises(ValueError, match="open_corpus"):
        MultinomialNB().fit(str(tmp_path))


def test_a_folder_is_no_model(tmp_path):
    write_corpus(tmp_path / "c.zarr", X, Y)
    with pytest.raises(ModelError, match="is a folder"):
        load_model(tmp_path / "c.zarr")


@pytest.mark.parametrize("vectorizer", [None, VectorizerSettings(kind="matrix").to_json()])
def test_a_model_of_numbers_takes_no_text(tmp_path, vectorizer):
    model = MultinomialNB().fit(write_corpus(tmp_path / "c.zarr", X, Y, vectorizer=vectorizer))
    with pytest.raises(ModelError, match="trained on numbers"):
        model.vectorize(["some text"])
