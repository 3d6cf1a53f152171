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


def read_svmlight(path: Path, gate: RowValidator, block_documents: int) -> Iterator[tuple[sp.csr_matrix, list[str]]]:
    """Yield blocks of (matrix with columns numbered as in the file, labels).

    Columns are not shifted: whether they count from 0 or from 1 shows only at the end of the file. Labels 1.0 and 1 are
    both the class "1". Blank lines and lines that hold only a comment are passed over.
    """
    with open_binary(path) as stream:
        lines = ((number, line.split(b"#", 1)[0].strip()) for number, line in enumerate(stream, 1))
        documents = (line for line in lines if line[1])
        while block := list(islice(documents, block_documents)):
            numbers = [number for number, _ in block]
            parsed = _parsed([line for _, line in block])
            if isinstance(parsed, str):  # then line by line
                problems = {number: problem for number, line in block if isinstance(problem := _parsed([line]), str)}
                for number, problem in problems.items():
                    gate.reject(path, number, problem)
                numbers = [number for number in numbers if number not in problems]
                parsed = _parsed([line for number, line in block if number not in problems])
            if not numbers:
                continue
            assert not isinstance(parsed, str), parsed
            matrix, values = parsed
            names = [gate.label(path, number, value) for number, value in zip(numbers, values.tolist(), strict=True)]
            rows = [i for i, name in enumerate(names) if name is not None]
            labels = [name for name in names if name is not None]
            yield (matrix if len(rows) == len(names) else matrix[rows]), labels


def _parsed(lines: list[bytes]) -> tuple[sp.csr_matrix, np.ndarray] | str:
    """Return the matrix and the labels of lines, or what is wrong with them taken together."""
    from sklearn.datasets import load_svmlight_file

    try:
        matrix, labels = load_svmlight_file(io.BytesIO(b"\n".join(lines)), zero_based=True)
    except (ValueError, OverflowError, IndexError) as error:
        return f"not svmlight: {error}"
    unfit = first_invalid(matrix.data, matrix.indptr)
    return (matrix, labels) if unfit is None else f"the value {unfit[1]}: {VALUE_RULE}"
