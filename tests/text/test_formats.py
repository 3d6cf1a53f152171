"""Every format in every compression gives the documents that were written; damage is named."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from sdem_dist.errors import IngestError
from sdem_dist.text.sources import Reading, numeric_format, source_format
from sdem_dist.text.splits import InputSplit
from sdem_dist.text.validation import RowValidator


def text_blocks(path, reading, gate, block_documents):
    return InputSplit(path, source_format(path, reading), reading, block_documents=block_documents).read(gate)


def read(path, reading=None, block_documents=4, gate=None):
    blocks = list(text_blocks(path, reading or Reading(), gate or RowValidator(), block_documents))
    assert all(0 < len(b.texts) == len(b.labels) <= block_documents for b in blocks)
    return [pair for b in blocks for pair in zip(b.labels, b.texts, strict=True)]


def read_matrix(path, block_documents=4, gate=None):
    blocks = list(text_blocks(path, Reading(), gate or RowValidator(), block_documents))
    width = max(block.matrix.shape[1] for block in blocks)
    for block in blocks:
        block.matrix.resize(block.matrix.shape[0], width)
    return sp.vstack([block.matrix for block in blocks]).toarray(), [
        label for block in blocks for label in block.labels
    ]


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl"])
def test_text_files_round_trip(write_source, documents, form, suffix):
    assert read(write_source(f"docs.{form}{suffix}", documents)) == documents


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_folder_round_trip(tmp_path, documents, suffix, compressed):
    for number, (label, text) in enumerate(documents):
        file = tmp_path / "news" / label / "deeper" / f"{number}.txt{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(compressed(text.encode(), suffix))
    (tmp_path / "news" / ".DS_Store").write_bytes(b"\xff")
    assert read(tmp_path / "news") == sorted(documents, key=lambda d: d[0])


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_svmlight_round_trip(tmp_path, suffix, compressed):
    X = sp.random_array((11, 9), density=0.4, rng=np.random.default_rng(0)).tocsr()
    y = np.arange(11) % 3 - 1.0
    dump_svmlight_file(X, y, str(tmp_path / "plain"), zero_based=True, comment="a comment")
    path = tmp_path / f"docs.svm{suffix}"
    path.write_bytes(compressed((tmp_path / "plain").read_bytes() + b"\n\n", suffix))
    matrix, labels = read_matrix(path)
    np.testing.assert_allclose(matrix, X.toarray()[:, : matrix.shape[1]])
    assert labels == [str(int(v)) for v in y]


def test_columns_are_chosen(tmp_path):
    (tmp_path / "a.tsv").write_text("neg\t1\t0_9\tbad film\npos\t9\t1_9\tgood\tfilm\n")
    assert read(tmp_path / "a.tsv", Reading(label=0, text="3")) == [("neg", "bad film"), ("pos", "good")]
    assert read(tmp_path / "a.tsv", Reading(text=-1)) == [("neg", "bad film"), ("pos", "film")]
    (tmp_path / "a.csv").write_text('stars,review\n1,"two\nlines"\n2,x\n')
    assert read(tmp_path / "a.csv", Reading(label="stars", text="review")) == [("1", "two\nlines"), ("2", "x")]
    (tmp_path / "a.jsonl").write_text('{"y": 1.0, "x": "a"}\n{"y": true, "x": "b"}\n')
    assert read(tmp_path / "a.jsonl", Reading(label="y", text="x")) == [("1", "a"), ("true", "b")]


BAD = {
    "no tab.tsv": (b"a\tx\nlabel only\nb\tz\n", 2, "no TAB"),
    "too many.tsv": (b"a\tx\nb\ty\tz\nb\tz\n", 2, "3 columns instead of 2"),
    "empty label.tsv": (b"a\tx\n \ty\nb\tz\n", 2, "label is empty"),
    "encoding.tsv": (b"a\tx\nb\tcaf\xe9\nb\tz\n", 2, "0xe9"),
    "encoding.csv": (b"label,text\na,x\nb,caf\xe9\nb,z\n", 3, "0xe9"),
    "fields.csv": (b'label,text\na,"x\nx"\nb\nb,z\n', 3, "1 fields under a header of 2"),
    "not json.jsonl": (b'{"label": "a", "text": "x"}\n{"label"\n{"label": "b", "text": "z"}\n', 2, "not JSON"),
    "list.jsonl": (b'{"label": "a", "text": "x"}\n[]\n{"label": "b", "text": "z"}\n', 2, "object is expected"),
    "field.jsonl": (
        b'{"label": "a", "text": "x"}\n{"Text": "y"}\n{"label": "b", "text": "z"}\n',
        2,
        "no field 'label'",
    ),
    "null.jsonl": (
        b'{"label": "a", "text": "x"}\n{"label": null, "text": "y"}\n{"label": "b", "text": "z"}\n',
        2,
        "the label is missing",
    ),
    "surrogate.jsonl": (
        b'{"label": "a", "text": "x"}\n{"label": "c", "text": "\\ud800"}\n{"label": "b", "text": "z"}\n',
        2,
        "surrogate",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_lines_are_named_or_skipped(tmp_path, name):
    content, line, message = BAD[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(IngestError, match=message) as caught:
        read(path)
    assert f"{name}, {'record' if name.endswith('csv') else 'line'} {line}:" in str(caught.value)
    gate = RowValidator("skip")
    assert read(path, gate=gate) == [("a", "x\nx" if name == "fields.csv" else "x"), ("b", "z")]
    assert gate.skipped == len(gate.examples) == 1 and message in gate.examples[0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1 2:x", "not svmlight"),
        (b"1 3:1 2:1", "sorted"),
        (b"1 2:-1", "negative"),
        (b"1 2:nan", "the value nan: .* are finite"),
        (b"1 2:1e300", r"the value 1e\+300: .* at most 3\.4e\+38"),
        (b"x 1:1", ""),
    ],
)
def test_bad_svmlight_lines(tmp_path, line, message):
    path = tmp_path / "docs.svm"
    path.write_bytes(b"# made by hand\n1 1:2\n" + line + b"\n-1 2:1\n")
    with pytest.raises(IngestError, match=rf"docs\.svm, line 3: .*{message}"):
        read_matrix(path)
    gate = RowValidator("skip")
    matrix, labels = read_matrix(path, gate=gate)
    assert labels == ["1", "-1"] and gate.skipped == 1
    assert matrix.tolist() == [[0, 2, 0], [0, 0, 1]]


def test_encoding(tmp_path):
    for encoding in ("latin-1", "utf-16", "utf-8-sig"):
        path = tmp_path / f"{encoding}.tsv"
        path.write_text("a\tcafé\nb\tz\n", encoding=encoding)
        assert read(path, Reading(encoding=encoding)) == [("a", "café"), ("b", "z")]
    assert read(tmp_path / "utf-8-sig.tsv") == [("a", "café"), ("b", "z")]
    with pytest.raises(IngestError, match="'klingon' is not an encoding"):
        read(path, Reading(encoding="klingon"))
    (tmp_path / "news" / "a").mkdir(parents=True)
    (tmp_path / "news" / "a" / "1").write_bytes(b"one\ntwo\ncaf\xe9\n")
    with pytest.raises(IngestError, match=r"news/a/1, line 3: the line has the byte 0xe9"):
        read(tmp_path / "news")
    (tmp_path / "news" / "a" / "1").write_text("café\r\nb\n", encoding="utf-8-sig")
    assert read(tmp_path / "news") == [("a", "café\r\nb\n")]


def test_line_ends_and_blank_lines(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"a\tx\r\n\r\n  \nb\ty\x0bz\x85")
    assert read(tmp_path / "a.tsv", Reading(encoding="latin-1")) == [("a", "x"), ("b", "y\x0bz\x85")]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_truncated_and_damaged_files_are_errors_even_when_skipping(tmp_path, suffix, compressed):
    rng = np.random.default_rng(0)
    lines = "".join(f"a\t{rng.integers(10**18)}\n" for _ in range(2000)).encode()
    whole = compressed(lines, suffix)
    for content in (whole[: len(whole) * 2 // 3], whole[:200] + bytes(200) + whole[400:], b"no compression"):
        path = tmp_path / f"a.tsv{suffix}"
        path.write_bytes(content)
        with pytest.raises(IngestError, match=r"a\.tsv\.\w+ cannot be read to its end"):
            read(path, gate=RowValidator("skip"))


def test_formats_are_told_apart(tmp_path, write_source, documents):
    path = write_source("DOCS.jsonl.xz", documents)
    assert source_format(path.rename(tmp_path / "DOCS.NDJSON.XZ"), Reading()) == "jsonl"
    (tmp_path / "a.dat").write_text("a\tx\n")
    assert read(tmp_path / "a.dat", Reading(format="tsv")) == [("a", "x")]
    with pytest.raises(IngestError, match="its suffix does not tell the format"):
        read(tmp_path / "a.dat")
    with pytest.raises(IngestError, match="no such file"):
        read(tmp_path / "absent.tsv")
    (tmp_path / "a.csv").write_text("id,x,text\n")
    with pytest.raises(IngestError, match="no column 'label'; the columns are 'id', 'x', 'text'"):
        read(tmp_path / "a.csv")
    with pytest.raises(IngestError, match="is a folder, which is not read as 'csv'"):
        read(tmp_path, Reading(format="csv"))
    (tmp_path / "a.svm").write_text("1 1:1\n")
    with pytest.raises(IngestError, match="do not go together"):
        numeric_format([tmp_path / "a.svm", tmp_path / "DOCS.NDJSON.XZ"], Reading())


def test_blocks_of_any_size_give_the_same_documents(tmp_path, write_source, documents, monkeypatch):
    for size in (1, 7, 50, 4000):
        monkeypatch.setattr("sdem_dist.text.sources.BLOCK_BYTES", size)
        for form in ("tsv", "csv", "jsonl"):
            assert read(write_source(f"a.{form}", documents)) == documents
    monkeypatch.setattr("sdem_dist.text.sources.BLOCK_BYTES", 50)
    assert len(list(text_blocks(tmp_path / "a.tsv", Reading(), RowValidator(), 1000))) > 2
