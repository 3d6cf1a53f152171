"""Reads sources of any format as blocks of documents, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.errors import IngestError
from sdem_dist.storage.archive import is_archive
from sdem_dist.text.files import COMPRESSIONS, plain_suffix
from sdem_dist.text.texts import Columns, Records, in_blocks, texts_of_bytes
from sdem_dist.text.validation import RowValidator

if TYPE_CHECKING:
    import scipy.sparse as sp


LINES = "lines"
"""The format of plain lines, one document each, without labels: for prediction only."""
LINES_OR_TSV = "lines or tsv"
"""Plain lines, or ``label<TAB>text`` if the first line is that: for prediction only, of sources that do not say."""
FORMATS = ("folder", "tsv", "csv", "jsonl", "parquet", "svmlight")
SUFFIXES = {
    ".txt": "tsv",
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
}
PACKED = (".zip", ".tar", ".tgz", ".7z", ".rar", ".bz2")
SHEETS = (".xlsx", ".xls", ".ods")
BLOCK_DOCUMENTS = 1 << 15
MATRIX_DOCUMENTS = 2000
PLACED_DOCUMENTS = 2000


@dataclass(frozen=True)
class Reading:
    """How sources are read.

    Attributes
    ----------
    format : str, or None
        One of `FORMATS`; None decides by the suffix of each source, after that of a compression.
    label, text : str, int or None
        The columns of label and text: numbers from 0 for "tsv" (None: each line is ``label<TAB>text``), names for
        "csv", "jsonl" and "parquet" (None: "label" and "text"). The other formats have no choice.
    encoding : str
        Encoding of the text; bytes that it forbids are bad lines.
    label_separator : str, or None
        Documents may have several labels: what stands between them in the column of the label, which may be empty. A
        label of "jsonl" and "parquet" sources may be a list, too. None: a document has one label.
    unlabelled : str, or None
        The label that stands for none: the corpus knows such documents, and those whose label is empty, null or not a
        number, as documents without a label. None: a document without a label is a bad line.
    id : str, int or None
        The column of the documents' ids, as `label` and `text`; not of "folder" and "svmlight" sources.
    group : str, int or None
        The column of groups that folds keep together, such as authors; likewise.
    weight : str, int or None
        The column of the documents' weights; likewise.
    zero_based : bool or "auto"
        Whether the columns of "svmlight" sources count from 0; "auto" says no if no source has a column 0.
    """

    format: str | None = None
    label: str | int | None = None
    text: str | int | None = None
    encoding: str = "utf-8"
    zero_based: bool | Literal["auto"] = "auto"
    id: str | int | None = None
    label_separator: str | None = None
    group: str | int | None = None
    weight: str | int | None = None
    unlabelled: str | None = None

    def __post_init__(self) -> None:
        if self.format not in (None, LINES, *FORMATS):
            raise ValueError(f"format is one of {', '.join(FORMATS)}, not {self.format!r}")
        if self.zero_based not in (True, False, "auto"):
            raise ValueError(f"zero_based is True, False or 'auto', not {self.zero_based!r}")
        if self.label_separator == "":
            raise ValueError("label_separator is what stands between labels, such as ',', and cannot be empty")
        if self.label_separator is not None and self.unlabelled is not None:
            raise ValueError("unlabelled is for documents of one label each: with label_separator they may have none")


@dataclass
class MatrixBlock:
    """Documents as the rows of a CSR matrix; blocks of one source may differ in their number of columns."""

    labels: list[str]
    matrix: sp.csr_matrix


def source_format(source: Path, reading: Reading) -> str:
    """Return the format of `source`.

    Raises
    ------
    IngestError
        If the source is missing or its suffix does not tell the format.
    """
    if not source.exists():
        raise IngestError(f"{source}: there is no such file or folder")
    if (source / "zarr.json").exists():
        raise IngestError(f"{source} is a corpus already, or another zarr group; sources are text, tables or matrices")
    refuse_no_documents(source)
    if reading.format is not None:
        form = reading.format
    elif source.is_dir():
        form = "folder"
    elif (known := SUFFIXES.get(plain_suffix(source))) is not None:
        form = known
    else:
        raise IngestError(
            f"{source}: its suffix does not tell the format ({', '.join(SUFFIXES)}, also under {', '.join(COMPRESSIONS)}); "
            f"name one with --format: {', '.join(FORMATS)}"
        )
    if (form == "folder") != source.is_dir():
        raise IngestError(f"{source} is {'a folder' if source.is_dir() else 'a file'}, which is not read as {form!r}")
    return form


def refuse_no_documents(source: Path) -> None:
    """Raise IngestError for a model, a packed folder and a spreadsheet, which no format reads, and say what to do."""
    suffix = plain_suffix(source)
    if suffix in PACKED:
        raise IngestError(f"{source} is packed: unpack it, and give what is in it ({', '.join(COMPRESSIONS)} may stay)")
    if suffix == ".npz":
        raise IngestError(
            f"{source} is arrays of NumPy: write_corpus makes a corpus of a matrix, such as scipy.sparse.load_npz returns"
        )
    if suffix in SHEETS:
        raise IngestError(f"{source} is a spreadsheet: save it as .csv, with commas, and give that")
    if source.is_file() and is_archive(source, "sdem-model"):
        raise IngestError(f"{source} is a model, where a corpus or a source of documents belongs")


def numeric_format(sources: Sequence[Path], reading: Reading) -> Literal["svmlight"] | None:
    """Return the format of sources that hold numbers, or None if all hold text; IngestError if they hold both."""
    forms = {source_format(source, reading): source for source in sources}
    if "svmlight" in forms and len(forms) > 1:
        first, second = list(forms.items())[:2]
        raise IngestError(
            f"{first[1]} is {first[0]} and {second[1]} is {second[0]}, which do not go together into one corpus"
        )
    return "svmlight" if "svmlight" in forms else None


def text_blocks(
    sources: Iterable[Path], reading: Reading, gate: RowValidator, block_documents: int = BLOCK_DOCUMENTS
) -> Iterator[Records]:
    """Yield the documents of text sources, in order, in blocks of at most `block_documents` and some megabytes."""
    for source in sources:
        yield from blocks_of_source(source, reading, gate, block_documents)


def placed_blocks(source: Path, reading: Reading, gate: RowValidator) -> Iterator[Records]:
    """Yield the documents of a text source with ids: those of its column, or places in it, from 0.

    A bad line that is left out has a place, too, so that the places of later documents are still right.
    """
    place = 0
    if reading.id is not None or gate.on_error == "raise":
        for block in text_blocks([source], reading, gate):
            ids: list[object] = list(range(place, place + len(block.labels)))
            place += len(ids)
            yield replace(block, ids=ids if block.ids is None else block.ids)
        return
    # One source at a time, so that the lines left out before each are known.
    one_by_one = text_blocks([source], reading, gate, 1)
    while found := list(islice(((b, gate.skipped) for b in one_by_one), PLACED_DOCUMENTS)):
        labels = [block.labels[0] for block, _ in found]
        places: list[object] = [place + i + skipped for i, (_, skipped) in enumerate(found)]
        place += len(found)
        yield Records(texts_of_bytes([block.texts.bytes_of(0) for block, _ in found]), labels, places)


def matrix_blocks(
    sources: Iterable[Path], gate: RowValidator, block_documents: int = BLOCK_DOCUMENTS
) -> Iterator[MatrixBlock]:
    """Yield the rows of numeric sources, in order, in blocks of at most `block_documents`."""
    from sdem_dist.text.formats.svmlight import read_svmlight

    for source in sources:
        for matrix, labels in read_svmlight(source, gate, block_documents):
            yield MatrixBlock(labels, matrix)


def blocks_of_source(
    source: Path, reading: Reading, gate: RowValidator, block_documents: int, part: tuple[int, int] | None = None
) -> Iterator[Records]:
    """Yield the documents of one source, or of a part of it, see `sdem_dist.text.stretches`; ids are texts."""
    form, group, weight = source_format(source, reading), reading.group, reading.weight
    columns = Columns(reading.text, reading.label, reading.id, keep=group is not None or weight is not None)
    numbered = form == "tsv"
    for block in read_columns(source, form, columns, reading.encoding, gate, block_documents, part):
        ids: list[object] | None = None if block.ids is None else list(map(str, block.ids))
        groups = None if group is None else list(map(str, _column_of(source, block, group, "group", numbered=numbered)))
        weights = None if weight is None else _weights_of(source, block, weight, numbered=numbered)
        yield replace(block, ids=ids, groups=groups, weights=weights, columns={})


def _column_of(source: Path, block: Records, name: str | int, what: str, *, numbered: bool) -> list[object]:
    """Return what stands in a column, which a number names where there is no header.

    Raises
    ------
    IngestError
        There is no such column, or it is empty for a document.
    """
    if numbered:
        from sdem_dist.text.formats.tab_lines import column_number

        number, given = cast(int, column_number(source, name)), list(block.columns.values())
        column = given[number] if -len(given) <= number < len(given) else None
        known = f"each line has {counted(len(given), 'column')}, numbered from 0"
    else:
        column = block.columns.get(str(name))
        known = f"the columns are {', '.join(map(repr, block.columns))}"
    if column is None:
        raise IngestError(f"{source}: there is no column {str(name)!r} to take the {what}s from; {known}")
    values: list[object] = column if isinstance(column, list) else column.to_pylist()
    if any(value is None for value in values):
        raise IngestError(f"{source}: a document has no {what}: column {str(name)!r} is empty there")
    return values


def _weights_of(source: Path, block: Records, name: str | int, *, numbered: bool) -> np.ndarray:
    """Return the weights of documents from a column, float64."""
    values = _column_of(source, block, name, "weight", numbered=numbered)
    for value in values:
        try:
            weight = float(str(value))
        except ValueError:
            weight = -1.0
        if not (0 <= weight < float("inf")):
            raise IngestError(
                f"{source}: column {str(name)!r} holds {value!r:.40}, which is not a weight: weights are numbers from 0 on"
            )
    return np.array([float(str(value)) for value in values])


def read_columns(
    source: Path,
    form: str,
    columns: Columns,
    encoding: str,
    gate: RowValidator,
    block_documents: int,
    part: tuple[int, int] | None = None,
    files: Sequence[Path] | None = None,
) -> Iterator[Records]:
    """Yield what is read of a text source in this format, in blocks that hold a document; of a folder, some files."""
    if form in (LINES, LINES_OR_TSV, "tsv"):
        from sdem_dist.text.formats.tab_lines import read_tab_lines

        whole = None if form == LINES_OR_TSV else form == LINES
        blocks = read_tab_lines(source, encoding, gate, columns, block_documents, part, whole=whole)
    elif form == "folder":
        from sdem_dist.text.formats.folder import read_folder

        blocks = in_blocks(read_folder(source, encoding, gate, columns, part, files), block_documents)
    elif form == "csv":
        from sdem_dist.text.formats.csv_table import read_csv

        blocks = read_csv(source, encoding, gate, columns, block_documents)
    elif form == "jsonl":
        from sdem_dist.text.formats.json_lines import read_json_lines

        blocks = in_blocks(read_json_lines(source, encoding, gate, columns, part), block_documents, columns.known)
    else:
        from sdem_dist.text.formats.parquet_table import read_parquet

        blocks = read_parquet(source, gate, columns, block_documents, part)
    return (block for block in blocks if len(block.texts))
