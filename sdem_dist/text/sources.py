"""Reads sources of any format as blocks of documents, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from sdem_dist.errors import IngestError
from sdem_dist.storage.archive import is_archive
from sdem_dist.text.compressed import COMPRESSIONS, plain_suffix
from sdem_dist.text.texts import TextBlock, Texts, in_blocks, texts_of_bytes

if TYPE_CHECKING:
    import pyarrow
    import scipy.sparse as sp

    from sdem_dist.text.bad_lines import LineGate

    _Column: TypeAlias = list[object] | pyarrow.Array

LINES = "lines"
"""The format of plain lines, one document each, without labels: for prediction only."""
FORMATS = ("folder", "tsv", "csv", "jsonl", "parquet", "svmlight", "npz")
NUMERIC_FORMATS = ("svmlight", "npz")
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
    ".npz": "npz",
}
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
    labels_file : path, or None
        Labels of the rows of an "npz" source: one a line, or an .npy array.
    id : str, int or None
        The column of the documents' ids, as `label` and `text`; not of "folder", "svmlight" and "npz" sources.
    group : str, int or None
        The column of what documents have in common that folds keep together, such as an author; likewise.
    zero_based : bool or "auto"
        Whether the columns of "svmlight" sources count from 0; "auto" says no if no source has a column 0.
    """

    format: str | None = None
    label: str | int | None = None
    text: str | int | None = None
    encoding: str = "utf-8"
    labels_file: str | Path | None = None
    zero_based: bool | Literal["auto"] = "auto"
    id: str | int | None = None
    group: str | int | None = None

    def __post_init__(self) -> None:
        if self.format not in (None, LINES, *FORMATS):
            raise ValueError(f"format is one of {', '.join(FORMATS)}, not {self.format!r}")
        if self.zero_based not in (True, False, "auto"):
            raise ValueError(f"zero_based is True, False or 'auto', not {self.zero_based!r}")


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
        If the source is missing or its suffix tells no format.
    """
    if not source.exists():
        raise IngestError(f"{source}: there is no such file or folder")
    if (source / "zarr.json").exists():
        raise IngestError(f"{source} is a corpus already, or another zarr group; sources are text, tables or matrices")
    if source.is_file() and is_archive(source, "sdem-model"):
        raise IngestError(f"{source} is a model, where a corpus or a source of documents belongs")
    if reading.format is not None:
        form = reading.format
    elif source.is_dir():
        form = "folder"
    elif (known := SUFFIXES.get(plain_suffix(source))) is not None:
        form = known
    else:
        raise IngestError(
            f"{source}: its suffix tells no format ({', '.join(SUFFIXES)}, also under {', '.join(COMPRESSIONS)}); "
            f"name one with --format: {', '.join(FORMATS)}"
        )
    if (form == "folder") != source.is_dir():
        raise IngestError(f"{source} is {'a folder' if source.is_dir() else 'a file'}, which is not read as {form!r}")
    return form


def numeric_format(sources: Sequence[Path], reading: Reading) -> str | None:
    """Return the one format of sources that hold numbers, or None if all hold text.

    Raises
    ------
    IngestError
        If they hold both, or numbers in two formats, whose columns cannot be matched.
    """
    forms = {source_format(source, reading): source for source in sources}
    numeric = [form for form in forms if form in NUMERIC_FORMATS]
    if numeric and len(forms) > 1:
        first, second = list(forms.items())[:2]
        raise IngestError(
            f"{first[1]} is {first[0]} and {second[1]} is {second[0]}, which do not go together into one corpus"
        )
    return numeric[0] if numeric else None


def text_blocks(
    sources: Iterable[Path], reading: Reading, gate: LineGate, block_documents: int = BLOCK_DOCUMENTS
) -> Iterator[TextBlock]:
    """Yield the documents of text sources, in order, in blocks of at most `block_documents` and some megabytes."""
    for source in sources:
        yield from (block for block in blocks_of_source(source, reading, gate, block_documents) if block.labels)


def placed_blocks(source: Path, reading: Reading, gate: LineGate) -> Iterator[TextBlock]:
    """Yield the documents of a text source with ids: those of its column, or places in it, from 0.

    A bad line that is left out has a place, too, so that the places of later documents are still right.
    """
    place = 0
    if reading.id is not None or gate.on_error == "raise":
        for block in text_blocks([source], reading, gate):
            ids = list(range(place, place + len(block.labels)))
            place += len(ids)
            yield replace(block, ids=ids if block.ids is None else block.ids)
        return
    # One at a time, the lines left out before each are known.
    one_by_one = text_blocks([source], reading, gate, 1)
    while found := list(islice(((b, gate.skipped) for b in one_by_one), PLACED_DOCUMENTS)):
        labels = [block.labels[0] for block, _ in found]
        places = [place + i + skipped for i, (_, skipped) in enumerate(found)]
        place += len(found)
        yield TextBlock(labels, texts_of_bytes([block.texts.bytes_of(0) for block, _ in found]), places)


def matrix_blocks(
    sources: Iterable[Path], reading: Reading, gate: LineGate, block_documents: int = BLOCK_DOCUMENTS
) -> Iterator[MatrixBlock]:
    """Yield the rows of numeric sources, in order, in blocks of at most `block_documents`."""
    for source in sources:
        if source_format(source, reading) == "npz":
            from sdem_dist.text.formats.npz import read_npz

            labels_file = None if reading.labels_file is None else Path(reading.labels_file)
            blocks = read_npz(source, labels_file, reading.encoding, gate, block_documents)
        else:
            from sdem_dist.text.formats.svmlight import read_svmlight

            blocks = read_svmlight(source, gate, block_documents)
        for matrix, labels in blocks:
            yield MatrixBlock(labels, matrix)


def blocks_of_source(
    source: Path, reading: Reading, gate: LineGate, block_documents: int, part: tuple[int, int] | None = None
) -> Iterator[TextBlock]:
    """Yield the documents of one source, or of a part of it, see `sdem_dist.text.stretches`."""
    form, encoding = source_format(source, reading), reading.encoding
    if reading.id is not None or reading.group is not None:
        return _blocks_with_ids(source, replace(reading, format=form), gate, block_documents)
    if form == "folder":
        from sdem_dist.text.formats.folder import read_folder

        return in_blocks(read_folder(source, encoding, gate, part), block_documents)
    if form == "tsv":
        from sdem_dist.text.formats.tab_lines import read_tab_lines

        label, text = (column_number(source, wanted) for wanted in (reading.label, reading.text))
        return read_tab_lines(source, encoding, gate, label, text, block_documents, part)
    columns = (
        str("label" if reading.label is None else reading.label),
        str("text" if reading.text is None else reading.text),
    )
    if form == "csv":
        from sdem_dist.text.formats.csv_table import read_csv

        return read_csv(source, encoding, gate, *columns, block_documents)
    if form == "jsonl":
        from sdem_dist.text.formats.json_lines import read_json_lines

        return in_blocks(read_json_lines(source, encoding, gate, *columns), block_documents)
    from sdem_dist.text.formats.parquet_table import read_parquet

    return read_parquet(source, gate, *columns, block_documents, part)


def _blocks_with_ids(source: Path, reading: Reading, gate: LineGate, block_documents: int) -> Iterator[TextBlock]:
    """Yield the documents of a table, with their ids or groups: a slower road than that of labels and texts alone."""
    from sdem_dist.text.records import listed, read_records

    if reading.format == "folder":
        what = "ids" if reading.id is not None else "groups"
        raise IngestError(f"{source} is a folder, which has no column of {what}")
    before = 0
    for records in read_records(source, reading, gate, block_documents, keep=True):
        columns, texts = records.columns, records.texts
        found = [
            gate.label(source, before + i, raw, "record")
            for i, raw in enumerate(listed(_column(source, reading, columns, reading.label)), 1)
        ]
        kept = [i for i, label in enumerate(found) if label is not None]
        ids = None if reading.id is None else [str((records.ids or [])[i]) for i in kept]
        groups = None
        if reading.group is not None:
            named = listed(_column(source, reading, columns, reading.group))
            groups = [str(named[i]) for i in kept]
        before += len(found)
        labels = [label for label in found if label is not None]
        yield TextBlock(labels, Texts(texts.data, texts.starts[kept], texts.stops[kept]), ids, groups)


def _column(source: Path, reading: Reading, columns: Mapping[str, _Column], wanted: str | int | None) -> _Column:
    """Return the column of a name, or in lines without a header of a number; None stands for labels."""
    if reading.format == "tsv":
        wanted = f"column_{column_number(source, wanted) or 0}"
    name = "label" if wanted is None else str(wanted)
    if name not in columns:
        raise IngestError(f"{source}: there is no column {name!r}; the columns are {', '.join(map(repr, columns))}")
    return columns[name]


def column_number(source: Path, wanted: str | int | None) -> int | None:
    """Return the number of a column of a source without a header; IngestError for a name."""
    try:
        return None if wanted is None else int(wanted)
    except ValueError:
        raise IngestError(
            f"{source}: it has no header, so a column is a number from 0, not {wanted!r}; a file with a header is CSV"
        ) from None
