"""What people hand over that is not quite what is asked for: taken, or refused with advice."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from sdem_dist import MultinomialNB, ingest, open_corpus, write_corpus
from sdem_dist.errors import CorpusError, IngestError
from sdem_dist.text import VectorizerSettings, count_texts

LINES = "a\tgood fine\nb\tbad sad\n" * 20


@pytest.fixture
def source(tmp_path):
    (tmp_path / "docs.tsv").write_text(LINES)
    return tmp_path / "docs.tsv"


def json_lines(path, labels):
    path.write_text("".join(json.dumps({"label": label, "text": "some words"}) + "\n" for label in labels))
    return path


def test_one_path_and_what_is_held_out_beside(source, tmp_path):
    report = ingest(source, f"{tmp_path}/c/", held_out=0.25, n_jobs=1)
    assert report.held_out_path == f"{tmp_path}/c-held-out"
    assert open_corpus(report.held_out_path).n_documents == report.n_held_out > 0
    assert ingest(str(source), tmp_path / "d", n_jobs=1).n_documents == 40
    with pytest.raises(ValueError, match="held_out_path is for what held_out holds out"):
        ingest(source, tmp_path / "e", held_out_path=tmp_path / "f")


@pytest.mark.parametrize("sources", [pd.DataFrame({"label": ["a"], "text": ["b"]}), [3], [pd.DataFrame()]])
def test_sources_that_are_no_paths(sources, tmp_path):
    with pytest.raises(ValueError, match=r"paths of files and folders, not a .*to_parquet, to_csv"):
        ingest(sources, tmp_path / "c")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("block_documents", [0, True, 2.5]), ("n_jobs", [0, True, -1]), ("shard_documents", [0, True, 1.0]),
        ("random_state", [True, 0.5, "x"]), ("held_out", [True, 1, -0.1]),
    ],
)  # fmt: skip
def test_numbers_that_are_none(source, tmp_path, name, values):
    for value in values:
        with pytest.raises(ValueError, match=name):
            ingest(source, tmp_path / "c", **{name: value})
        if name in ("shard_documents", "random_state"):
            with pytest.raises(CorpusError, match=name):
                write_corpus(tmp_path / "c", np.eye(3), **{name: value})


@pytest.mark.parametrize("first", ["label\ttext\n", "y\tText\n", "Category\tsome words\n"])
def test_a_header_of_a_file_that_has_none(tmp_path, first, recwarn):
    for lines, warned in ((LINES, False), (first + LINES, True)):
        (tmp_path / "docs.tsv").write_text(lines)
        ingest(tmp_path / "docs.tsv", tmp_path / "c", n_jobs=1, overwrite=True)
        assert any("docs.tsv, line 1: it looks like a header" in str(one.message) for one in recwarn) == warned


@pytest.mark.parametrize(
    ("first", "label", "problem"),
    [
        *[("x", value, "neither a text nor a finite number") for value in (float("inf"), float("-inf"), float("nan"))],
        ("x", [], "a list, .*--label-separator"),
        ("x", "x\0", "ends with a NUL"),
        *[(one, other, "write all alike") for one, other in ((1, "1"), ("1", 1.0), (True, "true"))],
    ],
)
def test_labels_of_json_that_no_class_can_have(tmp_path, first, label, problem):
    with pytest.raises(IngestError, match=f"line 2: the label .*{problem}"):
        ingest(json_lines(tmp_path / "a.jsonl", [first, label]), tmp_path / "c")
    report = ingest(json_lines(tmp_path / "a.jsonl", [1, 1.0, 2, "x"]), tmp_path / "c")
    assert report.classes == ["1", "2", "x"]


@pytest.mark.parametrize("missing", [None, float("nan"), 3, b"bytes"])
def test_a_text_that_is_none(missing):
    texts = pd.Series(["good", missing, "bad"], dtype=object)
    with pytest.raises(ValueError, match=r"text 1 \(from 0\) is .*, not a text"):
        count_texts(texts, VectorizerSettings(), ["bad", "good"])[0]
    with pytest.raises(ValueError, match="a list of texts"):
        count_texts("good", VectorizerSettings(), ["bad", "good"])[0]


DAYS = np.array(["2020-01-01", "2020-01-02"], "datetime64[D]")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"y": np.array(["b", None], np.dtypes.StringDType(na_object=None))},
            "document 1: None cannot be a class label",
        ),
        *[({"y": y}, "label") for y in (DAYS - DAYS[0], DAYS.astype(object), list(DAYS), list(DAYS.astype("M8[ns]")))],
        *[({"y": y}, "dates and times") for y in (DAYS, DAYS.astype("M8[ns]"))],
        ({"y": ["a", "\ud800"]}, r"'\\ud800' cannot be a class label"),
        ({"y": ["a", "b"], "classes": ["a", "b", "\ud800"]}, r"'\\ud800' cannot be a class label"),
        ({"y": np.array(["money\0", "money"], object)}, "it ends with a NUL, which NumPy drops"),
    ],
)
def test_what_no_class_can_be_called(tmp_path, options, problem):
    y = np.array(["b", "a"], np.dtypes.StringDType())
    assert write_corpus(tmp_path / "c", np.eye(2), y).header.classes == ("a", "b")
    with pytest.raises(CorpusError, match=problem):
        write_corpus(tmp_path / "d", np.eye(2), **options)


def test_reviews_are_no_categories(tmp_path):
    frame = pd.DataFrame({"text": [f"review number {i}" for i in range(30)], "town": ["x", "y", "z"] * 10})
    with pytest.warns(UserWarning, match=r"column 'text' has 30 different texts in 30 rows.*sdem ingest"):
        write_corpus(tmp_path / "c", frame, [0, 1] * 15, dense=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_corpus(tmp_path / "d", frame[["town"]], [0, 1] * 15, dense=True)


def test_a_model_names_the_text_too(source, tmp_path):
    ingest(source, tmp_path / "c", n_jobs=1)
    model = MultinomialNB(n_epochs=1).fit(open_corpus(tmp_path / "c"))
    with pytest.raises(ValueError, match=r"text 0 \(from 0\) is None"):
        model.vectorize([None])
