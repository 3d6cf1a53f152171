"""Lines and records that kernels find are those that Python finds, and so are the bad ones."""

import csv
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from sdem_dist.errors import IngestError
from sdem_dist.text.sources import Reading, foreign, source_format
from sdem_dist.text.splits import InputSplit, predict_splits
from sdem_dist.text.texts import RowValidator, not_unicode

PIECES = [
    b"a", b"b,", b",", b'"', b'""', b"\n", b"\r\n", b"\r", b"\t", b" ", b"\x00", "é東".encode(), b"\xff", b"\xed\xa0\x80",
    b"\xe6\x9d", b"\xf0\x9f\x98\x80", b"\xc2\x85", b"x\ty\n", b"label,text\n", b"x,y\n", b'"x","y ""z"""\n',
    b"long text " * 3,
]  # fmt: skip
FIELD = st.text(st.sampled_from('ab ,;"\n\té東'), max_size=6)


def read_as_text(content):
    """Say whether no first bytes of a file look as if they were of another encoding."""
    return all(foreign(content[:n]) is None for n in range(len(content) + 1))


CONTENT = st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join).filter(read_as_text)


def outcome(path, form, size, **reading):
    """Return the documents, how many records are left out, and what is said of them."""
    gate, reading = RowValidator("skip"), Reading(format=form, **reading)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sdem_dist.text.sources.BLOCK_BYTES", size)
        blocks = InputSplit(path, source_format(path, reading), reading, block_documents=3).read(gate)
        documents = [pair for block in blocks for pair in zip(block.labels, block.texts, strict=True)]
    return documents, gate.skipped, gate.examples


@hypothesis_settings(deadline=None, max_examples=100)
@given(st.lists(st.lists(FIELD, min_size=1, max_size=4), max_size=9), st.integers(1, 60), st.sampled_from(",;\t|"))
@pytest.mark.filterwarnings("ignore:.*looks like a header")
def test_csv(rows, size, delimiter):
    """Records that Python's writer wrote are read back, in blocks of any size; those of another width are named."""
    rows = [row for row in rows if row != [""]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "docs.csv")
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows([("label", "text"), *rows])
        documents, skipped, examples = outcome(path, "csv", size)
    wide = {n for n, row in enumerate(rows, 2) if len(row) != 2}
    bad = sorted({n for n, row in enumerate(rows, 2) if not row[0].strip()} | wide)
    assert documents == [(row[0].strip(), row[1]) for n, row in enumerate(rows, 2) if n not in bad]
    assert skipped == len(bad)
    assert sorted(int(e.split("record ")[1].split(":")[0]) for e in examples) == bad[:5]


def tab_lines(content: bytes, wanted: tuple[int, int] | None):
    """Return what the reader of lines has always done, in plain Python: documents, and numbers of bad lines."""
    documents, bad = [], []
    for number, line in enumerate(content.decode("utf-8", "surrogateescape").split("\n"), 1):
        if not line or (line.isspace() and "\t" not in line):
            continue
        columns = line.rstrip("\r").split("\t")
        label, text = wanted or (0, 1)
        fine = not_unicode(line) is None and (len(columns) == 2 if wanted is None else True)
        there = fine and all(-len(columns) <= w < len(columns) for w in (label, text))
        name = columns[label].strip() if there else ""
        if not name or name.endswith("\0"):
            bad.append(number)
        else:
            documents.append((name, columns[text]))
    return documents, bad


@hypothesis_settings(deadline=None, max_examples=100)
@given(CONTENT, st.integers(1, 60), st.sampled_from([None, (0, 1), (0, -1), (1, 0), (-2, 2)]))
@pytest.mark.filterwarnings("ignore:.*looks like a header")
def test_lines_and_columns(content, size, wanted):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "docs.tsv")
        path.write_bytes(content)
        chosen = {} if wanted is None else {"label": wanted[0], "text": wanted[1]}
        documents, skipped, examples = outcome(path, "tsv", size, **chosen)
    expected, bad = tab_lines(content, wanted)
    assert documents == expected
    assert skipped == len(bad) and [int(e.split("line ")[1].split(":")[0]) for e in examples] == bad[:5]


@hypothesis_settings(deadline=None, max_examples=100)
@given(CONTENT, st.integers(1, 60))
def test_plain_lines(content, size):
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    if not lines[-1]:
        lines.pop()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sdem_dist.text.sources.BLOCK_BYTES", size)
        path = Path(folder, "docs.txt")
        path.write_bytes(content)
        bad = next((n for n, line in enumerate(lines, 1) if not_unicode(line) is not None), None)
        splits = predict_splits(path, Reading(format="lines"), 3, keep=False)
        blocks = (block for split in splits for block in split.read(RowValidator()))
        if bad is None:
            assert [text for block in blocks for text in block.texts] == [line.rstrip("\r") for line in lines]
        else:
            with pytest.raises(IngestError) as caught:
                list(blocks)
            assert (caught.value.path, caught.value.record) == (str(path), bad)
