"""Sources: formats, reader options, and bytes in UTF-8; errors of damaged files name the file."""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Literal

from sdem_dist.errors import IngestError
from sdem_dist.kernels.code_points import PADDING
from sdem_dist.storage.archive import is_archive
from sdem_dist.storage.buckets import for_a_reader

_UNPACK: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
_DAMAGE: tuple[type[Exception], ...] = (OSError, EOFError, lzma.LZMAError, zlib.error)
with suppress(ImportError):  # isal is several times faster
    _UNPACK[".gz"] = import_module("isal.igzip").open
    _DAMAGE = (*_DAMAGE, import_module("isal.isal_zlib").error)

COMPRESSIONS = (".gz", ".xz", ".zst")
BLOCK_BYTES = 1 << 22
HEAD = 4096
_UTF8_MARK = b"\xef\xbb\xbf"
_MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# "PAR1" alone could be a label; in Parquet files Thrift's tag of a number, 0x15, follows
_PACKED = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\0": ".xz", b"\x28\xb5\x2f\xfd": ".zst", b"PAR1\x15": ".parquet"}
_FIRST_BYTES = {
    **{m: f"it starts with a {e.upper()} byte order mark: use --encoding {e}" for m, e in _MARKS.items()},
    **{b: f"it looks like a {s} file: rename it to end in {s}" for b, s in _PACKED.items()},
    b"PK\x03\x04": "it looks like a ZIP archive, such as an .xlsx or .docx file: save it as CSV, or unpack it",
}
Part = tuple[int, int]  # half-open range of bytes, at line ends, or of row groups
LINES = "lines"  # format: each line is a document without a label
LINES_OR_TSV = "lines or tsv"  # undecided, if labels are not read: ``label<TAB>text`` if the first line has that form
FORMATS = ("folder", "tsv", "csv", "jsonl", "parquet", "svmlight")
SUFFIXES = {".txt": "tsv", ".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
SUFFIXES |= {".parquet": "parquet", ".pq": "parquet", **dict.fromkeys((".svm", ".svmlight", ".libsvm"), "svmlight")}
BLOCK_DOCUMENTS = 1 << 15
LabelledFile = tuple[str | None, Path]


@dataclass(frozen=True)
class Reading:
    """Reader options of sources.

    Attributes
    ----------
    format : str, or None
        One of `FORMATS`, or "lines": one document per line, without labels. None: by the suffix of each source.
    label, text : str, int or None
        Columns: numbers from 0 for "tsv" (None: each line is ``label<TAB>text``), names for "csv", "jsonl" and
        "parquet" (None: "label" and "text"), and for "jsonl" also paths such as "post.body". Not for other formats. The
        texts of several columns, such as "title,body", are joined by a line feed.
    encoding : str
        Text encoding; lines with invalid bytes are bad lines.
    zero_based : bool or "auto"
        Whether the columns of "svmlight" sources are numbered from 0. "auto": only if a source has a column 0.
    id, group, weight : str, int or None
        Columns of document IDs, of groups that folds keep together (such as authors), and of weights. Not for "folder"
        and "svmlight" sources.
    label_separator : str, or None
        Separator between labels, for several labels per document; "jsonl" and "parquet" may contain lists instead.
    unlabelled : str, or None
        Label to treat as missing, like empty and null labels. None: a document without a label is a bad line.
    delimiter : str, or None
        Delimiter of "csv" sources, and of "tsv" with a header. None: detected among ``,;|`` and TAB.
    header : bool, or None
        Whether the first record contains column names; otherwise, use numbers. None: True for "csv", False for "tsv".
    labelled : bool
        Whether documents have labels. False: ignore the label column, for clustering and topic models.
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
            raise ValueError(f"format must be one of {', '.join((*FORMATS, LINES))}, got {self.format!r}")
        if self.zero_based not in (True, False, "auto"):
            raise ValueError(f"zero_based must be True, False or 'auto', got {self.zero_based!r}")
        if self.label_separator == "":
            raise ValueError("label_separator must be a separator such as ',', got an empty string")
        if self.label_separator is not None and self.unlabelled is not None:
            raise ValueError("unlabelled and label_separator cannot be combined")
        if self.format == LINES:
            object.__setattr__(self, "labelled", False)
        if not self.labelled and (self.label, self.label_separator, self.unlabelled) != (None, None, None):
            raise ValueError("label, label_separator and unlabelled do not apply to documents without labels")

    @property
    def errors(self) -> str:
        """Error handler for decoding: invalid bytes become surrogates, so that readers can name the line."""
        return "surrogateescape" if is_utf8_name(self.encoding) else "surrogatepass"

    @property
    def missing_label(self) -> str | None:
        """Label to treat as missing; None if every document has a label."""
        return self.unlabelled if self.labelled else ""

    @property
    def roles(self) -> dict[str, str]:
        label = "label" if self.label is None and self.labelled else self.label
        columns = {"label": label, "id": self.id, "group": self.group, "weight": self.weight}
        return {role: str(column) for role, column in columns.items() if column is not None}

    def texts(self, names: Collection[str]) -> list[str]:
        """Return the text columns, which are separated by commas, unless one of `names` contains a comma."""
        text = "text" if self.text is None else str(self.text)
        return [text] if text in names else text.split(",")


_NO_SOURCES = {
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z", ".rar", ".bz2"), "an archive: unpack it, and pass its files"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "a spreadsheet: save it as .csv, and pass the .csv file"),
    ".npz": "NumPy arrays: load the matrix (scipy.sparse.load_npz), and pass it to write_corpus",
}


@dataclass(frozen=True)
class SourcePart:
    """A source, or a part of it, and its reader options."""

    source: Path
    form: str
    reading: Reading
    keep: bool | tuple[str, ...] = False
    """Whether to keep all columns beside the texts; or the names of the columns, from the source's first documents."""
    block_documents: int = BLOCK_DOCUMENTS  # largest number of documents per block
    part: Part | None = None  # None: the entire source
    files: tuple[LabelledFile, ...] | None = None  # for folders; None: all files


def source_format(source: Path, reading: Reading, *, predicted: bool = False) -> str:
    """Return one of `FORMATS`, `LINES` or `LINES_OR_TSV`; `predicted`: labels are not read, and it may be a pipe."""
    suffix, is_folder, problem = plain_suffix(source), source.is_dir(), ""
    form = reading.format or ("folder" if is_folder else SUFFIXES.get(suffix))
    if reading.format is None and (suffix == ".txt" or (form is None and predicted)):
        if (predicted or not reading.labelled) and reading.text is None and reading.id is None:
            form = LINES_OR_TSV
        elif predicted:
            form = LINES
    if not predicted and not source.exists():
        problem = ": no such file or folder"
    elif not predicted and (source / "zarr.json").exists():
        problem = " is already a corpus, or another zarr group; sources are texts, tables or matrices"
    elif suffix in _NO_SOURCES:
        problem = f" is {_NO_SOURCES[suffix]}"
    elif source.is_file() and is_archive(source, "sdem-model"):
        problem = " is a model; expected a corpus or a source"
    elif form is None:
        known = f"{', '.join(SUFFIXES)}, also with {', '.join(COMPRESSIONS)}"
        problem = f": unknown suffix (known: {known}); choose a format with --format: {', '.join((*FORMATS, LINES))}"
    elif predicted and form == "svmlight":
        advice = f"ingest it (sdem ingest {source} NAME.zarr --vocabulary-from TRAINING), and pass the new corpus"
        problem = f" is {form}, which contains numbers: {advice}"
    elif predicted and suffix == ".json" and reading.format is None:
        problem = " is a JSON file: write one object per line to a .jsonl file, or the texts to a .txt file"
    elif (form == "folder") != is_folder:
        problem = f" is {'a folder' if is_folder else 'a file'}, which cannot be read as {form!r}"
    if form is None or problem:
        raise IngestError(f"{source}{problem}")
    return form


def numeric_format(sources: Sequence[Path], reading: Reading) -> Literal["svmlight"] | None:
    """Return the format of numeric sources, or None if all contain text; IngestError if they contain both."""
    forms = {source_format(source, reading): source for source in sources}
    if "svmlight" in forms and len(forms) > 1:
        (form, source), (other_form, other) = list(forms.items())[:2]
        raise IngestError(f"{source} is {form}, but {other} is {other_form}: they cannot be combined in one corpus")
    return "svmlight" if "svmlight" in forms else None


def plain_suffix(path: Path) -> str:
    """Return the lower-case suffix without the one of a compression: ".csv" for ``a.CSV.gz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


@contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes]]:
    """Open `path` for reading bytes, decompressed according to its suffix; ``-`` is standard input."""
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        if path.suffix.lower() == ".zst":
            import pyarrow

            stream = io.BufferedReader(pyarrow.CompressedInputStream(path.open("rb"), "zstd"), 1 << 18)
        else:
            unpack = _UNPACK.get(path.suffix.lower())
            stream = path.open("rb") if unpack is None else unpack(for_a_reader(path), "rb")
        with stream:
            yield stream
    except FileNotFoundError as error:
        raise IngestError(f"{path}: no such file") from error
    except _DAMAGE as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise IngestError(f"cannot be read completely: {reason}", path=path) from error


def is_utf8_name(encoding: str) -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig", "utf8-sig")


def decoded(path: Path, chunks: Iterable[bytes], encoding: str) -> Iterator[str]:
    """Yield decoded text; invalid bytes become U+DC80..U+DCFF, so that readers can name the line."""
    try:
        decoder = codecs.getincrementaldecoder("utf-8-sig" if is_utf8_name(encoding) else encoding)("surrogateescape")
    except LookupError as error:
        raise IngestError(f"{path}: unknown encoding {encoding!r}; specify another, such as 'latin-1'") from error
    try:
        for chunk in chunks:
            yield decoder.decode(chunk)
        yield decoder.decode(b"", True)
    except UnicodeDecodeError as error:
        raise IngestError(f"{path} is not valid {encoding} text ({error.reason}); specify its encoding") from error


def foreign(start: bytes) -> str | None:
    """Return the problem and the advice if a file's first bytes are not UTF-8 text; None if they may be."""
    for first, what in _FIRST_BYTES.items():
        if start.startswith(first):
            return what
    # Latin text has a NUL in every second byte in UTF-16, and in three of four bytes in UTF-32
    head = start[:HEAD]
    if (n_nul := head.count(0)) > len(head) // 3:
        encoding = f"utf-{32 if n_nul > len(head) * 5 // 8 else 16}-{'be' if head[0] == 0 else 'le'}"
        return f"it is {encoding.upper()} text, since it contains NULs: use --encoding {encoding}"
    return None


def line_blocks(path: Path, encoding: str, part: Part | None = None) -> Iterator[bytes]:
    """Yield blocks of entire lines, of about `BLOCK_BYTES` plus `PADDING`, in UTF-8; `part`: of an uncompressed file.

    Invalid bytes become encoded surrogates; in UTF-8 sources they remain unchanged.
    """
    is_utf8, held = is_utf8_name(encoding), list[bytes]()

    def read_chunks() -> Iterator[bytes]:
        start, stop = part or (0, 1 << 62)
        at_start, first, chunk = start == 0 and is_utf8, b"", b"more"
        with open_binary(path) as raw:
            if start:
                raw.seek(start)
            # do not wait for a full block of standard input: somebody may be typing
            read = raw.read1 if str(path) == "-" and isinstance(raw, io.BufferedReader) else raw.read
            while chunk:
                chunk = read(min(BLOCK_BYTES, stop - start)) if start < stop else b""
                start += len(chunk)
                first += chunk if at_start else b""
                if at_start and chunk and len(first) < len(_UTF8_MARK):
                    continue
                if at_start and (problem := foreign(first)) is not None:
                    raise IngestError(f"{'standard input' if str(path) == '-' else path}: {problem}")
                yield first.removeprefix(_UTF8_MARK) if at_start else chunk
                at_start = False

    chunks = read_chunks()
    if not is_utf8:
        chunks = (text.encode("utf-8", "surrogatepass") for text in decoded(path, chunks, encoding))
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        held.append(chunk[:cut] if cut else chunk)
        if cut:
            yield b"".join([*held, bytes(PADDING)])
            held = [chunk[cut:]]
    if any(held):
        yield b"".join([*held, bytes(PADDING)])
