"""The errors that this package raises on purpose: fields say what was wrong and where; `SdemError.text` renders them.

``str(error)`` is the text for Python. The command renders the same fields for the shell, with its options' names.
"""

import os
import re

_PARAMETER = re.compile(r"\{(\w+)=([^{}]*)\}")


class SdemError(Exception):
    """Base of the package's own errors: what was wrong, where, and what to do.

    Parameters
    ----------
    problem : str
        What was wrong.
    path : str or path, optional
        The file, folder or URL that it is about; it stands before the problem.
    record : int, optional
        The line, document or file within `path`, from 1.
    unit : str
        What a record is.
    hint : str
        What to do. A parameter is written ``{overwrite=True}`` or ``{on_error='skip'}``; the command renders it as its
        option, ``--overwrite`` or ``--on-error skip``.
    """

    def __init__(
        self,
        problem: str = "",
        *,
        path: str | os.PathLike[str] | None = None,
        record: int | None = None,
        unit: str = "line",
        hint: str = "",
    ) -> None:
        super().__init__(problem)
        self.problem, self.record, self.unit, self.hint = problem, record, unit, hint
        self.path = None if path is None else str(path)

    def __str__(self) -> str:
        return self.text()

    def text(self, *, shell: bool = False) -> str:
        """Return the error as one text, for Python or for the shell."""
        place = "standard input" if self.path == "-" else self.path
        where = [] if place is None else [place]
        where += [] if self.record is None else [f"{self.unit} {self.record}"]
        hint = _PARAMETER.sub(_option if shell else r"\1=\2", self.hint)
        return (f"{', '.join(where)}: " if where else "") + self.problem + (f" ({hint})" if hint else "")


def _option(parameter: re.Match[str]) -> str:
    name, value = parameter[1].replace("_", "-"), parameter[2].strip("'\"")
    return f"--{name}" if value == "True" else f"--{name} {value}"


class CorpusError(SdemError, ValueError):
    """A corpus is missing, incomplete, damaged, of a newer format, or does not fit the model."""


class UnreadableError(CorpusError):
    """The storage of a corpus cannot be read at the moment; reading it again may succeed."""


class BucketError(SdemError):
    """A bucket refuses for good: it does not exist, access is denied, or credentials are missing or expired."""


class DocumentError(SdemError, ValueError):
    """A learner cannot take a document; the message names it and its shard."""


class IngestError(SdemError, ValueError):
    """A source cannot be read as documents; the message names the file and the line."""


class ModelError(SdemError, ValueError):
    """A model or checkpoint file is missing, cut short, altered, or does not fit."""


class OtherRunError(ModelError):
    """A checkpoint was written by a run with other settings or on another corpus, and cannot be resumed as this one."""


class TrainingError(SdemError, ArithmeticError):
    """A training broke a promise of its mathematics; the message names the pass."""


class ClusterError(SdemError, RuntimeError):
    """A Dask scheduler or its workers cannot be reached before the deadline, or a task kept failing."""
