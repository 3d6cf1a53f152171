"""svmlight / libsvm text: ``label column:value column:value ... # comment``."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.corpus.checks import VALUE_RULE, first_invalid
from sdem_dist.text.files import open_binary
from sdem_dist.text.validation import RowValidator

if TYPE_CHECKING:
    import scipy.sparse as sp

Line = tuple[int, bytes]


def read_svmlight(path: Path, gate: RowValidator, block_documents: int) -> Iterator[tuple[sp.csr_matrix, list[str]]]:
    """Yield blocks of (matrix with columns numbered as in the file, labels).

    Columns are not shifted: whether they count from 0 or from 1 shows only at the end of the file. Labels 1.0 and 1 are
    both the class "1". Blank lines and lines that hold only a comment are passed over.
    """
    with open_binary(path) as stream:
        lines = ((number, line.split(b"#", 1)[0].strip()) for number, line in enumerate(stream, 1))
        documents = (line for line in lines if line[1])
        while block := list(islice(documents, block_documents)):
            accepted = _accepted(path, block, gate)
            if accepted is not None:
                yield accepted


def _accepted(path: Path, block: list[Line], gate: RowValidator) -> tuple[sp.csr_matrix, list[str]] | None:
    """Return the good documents of the lines; a block that fails as a whole is parsed again line by line."""
    problem = _problem(block)
    if problem is not None:
        good = []
        for line in block:
            problem = _problem([line])
            if problem is None:
                good.append(line)
            else:
                gate.reject(path, line[0], problem)
        block = good
    if not block:
        return None
    matrix, values = _parsed(block)
    names = [gate.label(path, number, value) for (number, _), value in zip(block, values.tolist(), strict=True)]
    rows = [i for i, name in enumerate(names) if name is not None]
    return (matrix if len(rows) == len(names) else matrix[rows]), [name for name in names if name is not None]


def _problem(block: list[Line]) -> str | None:
    """Return what is wrong with the lines taken together, or None."""
    try:
        matrix, _ = _parsed(block)
    except (ValueError, OverflowError, IndexError) as error:
        return f"not svmlight: {error}"
    unfit = first_invalid(matrix.data, matrix.indptr)
    return None if unfit is None else f"the value {unfit[1]}: {VALUE_RULE}"


def _parsed(block: list[Line]) -> tuple[sp.csr_matrix, np.ndarray]:
    from sklearn.datasets import load_svmlight_file

    content = io.BytesIO(b"\n".join(line for _, line in block))
    matrix, values = load_svmlight_file(content, zero_based=True)
    return matrix, values
