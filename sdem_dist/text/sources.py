"""Formats of sources, and how they are read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sdem_dist.errors import IngestError
from sdem_dist.storage.archive import is_archive
from sdem_dist.text.files import COMPRESSIONS, plain_suffix

LINES = "lines"
"""The format of plain lines, one document each, without labels."""
LINES_OR_TSV = "lines or tsv"
"""Plain lines, or ``label<TAB>text`` if the first line is that: of sources without labels that do not say."""
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
BLOCK_DOCUMENTS = 1 << 15


@dataclass(frozen=True)
class Reading:
    """How sources are read.

    Attributes
    ----------
    format : str, or None
        One of `FORMATS`, or "lines": a document a line, without labels. None decides by the suffix of each source,
        after that of a compression.
    label, text : str, int or None
        The columns of label and text: numbers from 0 for "tsv" (None: each line is ``label<TAB>text``), names for
        "csv", "jsonl" and "parquet" (None: "label" and "text"); of "jsonl" also a path into nested objects, such as
        "post.body". The other formats have no choice. Several columns of text have commas between them, such as
        "title,body": a line feed joins their texts.
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
    delimiter : str, or None
        What stands between the columns of "csv" sources, and of "tsv" ones that have a header. None: what stands
        between the names in the header, one of ``,;|`` and TAB.
    header : bool, or None
        Whether the first record of "csv" and "tsv" sources has the names of columns; without them columns are numbers
        from 0. None: "csv" has one, "tsv" has none.
    labelled : bool
        Whether documents have labels. Without, as for clusters and topics, the column of the label plays no part.
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
    delimiter: str | None = None
    header: bool | None = None
    labelled: bool = True

    def __post_init__(self) -> None:
        if self.format not in (None, LINES, *FORMATS):
            raise ValueError(f"format is one of {', '.join((*FORMATS, LINES))}, not {self.format!r}")
        if self.zero_based not in (True, False, "auto"):
            raise ValueError(f"zero_based is True, False or 'auto', not {self.zero_based!r}")
        if self.label_separator == "":
            raise ValueError("label_separator is what stands between labels, such as ',', and cannot be empty")
        if self.label_separator is not None and self.unlabelled is not None:
            raise ValueError("unlabelled is for documents of one label each: with label_separator they may have none")
        if self.format == LINES:
            object.__setattr__(self, "labelled", False)
        if not self.labelled and (self.label, self.label_separator, self.unlabelled) != (None, None, None):
            raise ValueError("label, label_separator and unlabelled are for documents with labels, and these have none")

    @property
    def missing_label(self) -> str | None:
        """The label that stands for none; None where each document has a label."""
        return self.unlabelled if self.labelled else ""

    @property
    def roles(self) -> dict[str, str]:
        """The columns that are read beside the text, by "label", "id", "group" and "weight"."""
        label = "label" if self.label is None and self.labelled else self.label
        columns = {"label": label, "id": self.id, "group": self.group, "weight": self.weight}
        return {role: str(column) for role, column in columns.items() if column is not None}

    def texts(self, names: Collection[str]) -> list[str]:
        """Return the columns of text; commas stand between several, unless one of all the `names` has them."""
        text = "text" if self.text is None else str(self.text)
        return [text] if text in names else text.split(",")


_NO_SOURCES = {
    **dict.fromkeys(
        (".zip", ".tar", ".tgz", ".7z", ".rar", ".bz2"),
        f"packed: unpack it, and give what is in it ({', '.join(COMPRESSIONS)} may stay)",
    ),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "a spreadsheet: save it as .csv, with commas, and give that"),
    ".npz": "arrays of NumPy: write_corpus makes a corpus of a matrix, such as scipy.sparse.load_npz returns",
}


def source_format(source: Path, reading: Reading, *, predicted: bool = False) -> str:
    """Return the format of a source: one of `FORMATS`, `LINES` or `LINES_OR_TSV`.

    `predicted`: labels play no part, and without a suffix that tells a document is a line; it may be a pipe.
    """
    if not predicted and not source.exists():
        raise IngestError(f"{source}: there is no such file or folder")
    if not predicted and (source / "zarr.json").exists():
        raise IngestError(f"{source} is a corpus already, or another zarr group; sources are text, tables or matrices")
    suffix, is_folder = plain_suffix(source), source.is_dir()
    if suffix in _NO_SOURCES:
        raise IngestError(f"{source} is {_NO_SOURCES[suffix]}")
    if source.is_file() and is_archive(source, "sdem-model"):
        raise IngestError(f"{source} is a model, where a corpus or a source of documents belongs")
    form = reading.format or ("folder" if is_folder else SUFFIXES.get(suffix))
    if reading.format is None and (suffix == ".txt" or (form is None and predicted)):
        if (predicted or not reading.labelled) and reading.text is None and reading.id is None:
            form = LINES_OR_TSV
        elif predicted:
            form = LINES
    problem = ""
    if form is None:
        problem = (
            f": its suffix does not tell the format ({', '.join(SUFFIXES)}, also under {', '.join(COMPRESSIONS)}); "
            f"name one with --format: {', '.join(FORMATS)}"
        )
    elif predicted and form == "svmlight":
        problem = (
            f" is {form}, which holds numbers: make a corpus of it (sdem ingest {source} NAME.zarr "
            "--vocabulary-from CORPUS, the one of the training), and give that"
        )
    elif predicted and suffix == ".json" and reading.format is None:
        problem = " is json: write an object per line into a .jsonl file, or the texts into a .txt file"
    elif (form == "folder") != is_folder:
        problem = f" is {'a folder' if is_folder else 'a file'}, which is not read as {form!r}"
    if form is None or problem:
        raise IngestError(f"{source}{problem}")
    return form


def numeric_format(sources: Sequence[Path], reading: Reading) -> Literal["svmlight"] | None:
    """Return the format of sources that hold numbers, or None if all hold text; IngestError if they hold both."""
    forms = {source_format(source, reading): source for source in sources}
    if "svmlight" in forms and len(forms) > 1:
        (form, source), (other_form, other) = list(forms.items())[:2]
        raise IngestError(f"{source} is {form} and {other} is {other_form}, which do not go together into one corpus")
    return "svmlight" if "svmlight" in forms else None
