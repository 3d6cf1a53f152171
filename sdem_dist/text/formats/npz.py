"""CSR matrices as ``scipy.sparse.save_npz`` writes them, read some rows at a time; labels come from a file beside them."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from sdem_dist.corpus.entries import FIT, check_structure, unfit_row
from sdem_dist.errors import CorpusError, IngestError
from sdem_dist.storage.places import for_a_reader
from sdem_dist.text.bad_lines import LineGate
from sdem_dist.text.decoded import numbered_lines

if TYPE_CHECKING:
    import scipy.sparse as sp


def read_npz(
    path: Path, labels_file: Path | None, encoding: str, gate: LineGate, block_documents: int
) -> Iterator[tuple[sp.csr_matrix, list[str]]]:
    """Yield blocks of (matrix, labels) of the rows of the matrix in `path`.

    `labels_file`: text of one label a line, or a one-dimensional .npy array of texts or numbers.
    Raises IngestError if the file is not a CSR matrix of finite numbers >= 0, holds Python objects, or has more or
    fewer rows than there are labels.
    """
    if labels_file is None:
        raise IngestError(f"{path}: an .npz matrix has no labels in it; name a file of labels with --labels-file")
    labels = _labels(labels_file, encoding, gate)
    try:
        with zipfile.ZipFile(for_a_reader(path)) as archive:
            yield from _blocks(path, archive, labels, labels_file, block_documents)
    except FileNotFoundError as error:
        raise IngestError(f"{path}: there is no such file") from error
    except CorpusError as error:
        raise IngestError(f"{path}: {error}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError) as error:
        raise IngestError(f"{path} cannot be read as an .npz matrix: {error}") from error


def _blocks(
    path: Path, archive: zipfile.ZipFile, labels: list[str], labels_file: Path, block_documents: int
) -> Iterator[tuple[sp.csr_matrix, list[str]]]:
    import scipy.sparse as sp

    if "format.npy" not in archive.namelist():
        held = ", ".join(name.removesuffix(".npy") for name in archive.namelist()[:5])
        raise IngestError(
            f"{path} holds no sparse matrix, but arrays ({held}); write one with "
            "scipy.sparse.save_npz(file, scipy.sparse.csr_matrix(X))"
        )
    with ExitStack() as stack:
        members = {n: _Member(path, stack.enter_context(archive.open(f"{n}.npy"))) for n in ("format", "shape")}
        form = members["format"].rest().item()
        form = form.decode("ascii", "replace") if isinstance(form, bytes) else form
        if form != "csr":
            raise IngestError(f"{path}: the matrix is stored as {form!r}; save it as CSR: save_npz(file, X.tocsr())")
        n_documents, n_features = (int(n) for n in members["shape"].rest())
        indptr = _Member(path, stack.enter_context(archive.open("indptr.npy"))).rest().astype(np.int64)
        indices = _Member(path, stack.enter_context(archive.open("indices.npy")))
        data = _Member(path, stack.enter_context(archive.open("data.npy")))
        if len(indptr) != n_documents + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
            raise IngestError(f"{path}: its indptr does not delimit {n_documents} rows; the file is damaged")
        if len(labels) != n_documents:
            raise IngestError(f"{labels_file} has {len(labels)} labels for the {n_documents} rows of {path}")
        for first in range(0, n_documents, block_documents):
            bounds = indptr[first : first + block_documents + 1]
            size = int(bounds[-1] - bounds[0])
            values, words = data.take(size), indices.take(size)
            matrix = sp.csr_matrix((values, words, bounds - bounds[0]), shape=(len(bounds) - 1, n_features))
            check_structure(matrix, f"rows from {first + 1} (from 1) on")
            if (unfit := unfit_row(values, bounds - bounds[0])) is not None:
                raise IngestError(f"{path}, row {first + unfit[0] + 1} (from 1): the value {unfit[1]}: {FIT}")
            yield matrix, labels[first : first + len(bounds) - 1]


class _Member:
    """An array in the archive that is read from its beginning on, in pieces."""

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        try:
            version = np.lib.format.read_magic(stream)
            read_header = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            self.shape, _, self.dtype = read_header(stream)
        except (ValueError, KeyError) as error:
            raise IngestError(f"{path}: an array in it has no valid header: {error}") from error
        if self.dtype.hasobject:
            raise IngestError(f"{path}: an array in it holds Python objects; such files are not opened")
        self._stream = stream

    def take(self, size: int) -> np.ndarray:
        """Return the next `size` elements."""
        content = self._stream.read(size * self.dtype.itemsize)
        if len(content) != size * self.dtype.itemsize:
            raise EOFError("an array in it is cut short")
        return np.frombuffer(bytearray(content), self.dtype)  # a copy that may be written to

    def rest(self) -> np.ndarray:
        """Return all elements, of an array of which nothing was taken."""
        return self.take(int(np.prod(self.shape))).reshape(self.shape)


def _labels(path: Path, encoding: str, gate: LineGate) -> list[str]:
    if path.suffix.lower() == ".npy":
        try:
            raw = np.load(for_a_reader(path), allow_pickle=False)
        except (OSError, ValueError) as error:
            raise IngestError(f"{path} cannot be read as an .npy array of labels: {error}") from error
        if raw.ndim != 1:
            raise IngestError(f"{path}: labels are a one-dimensional array, not one of shape {raw.shape}")
        labelled = [(i, value) for i, value in enumerate(raw.tolist(), 1)]
    else:
        labelled = list(numbered_lines(path, encoding, gate))
    strict = gate.other("raise")
    return [strict.label(path, number, value) or "" for number, value in labelled]
