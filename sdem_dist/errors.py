"""Errors that this package raises intentionally; interrupts of threads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

of_thread = threading.local()  # `stop` is an event for worker threads, since interrupts reach only the main thread


class SdemError(Exception):
    """Base class of the package's errors, which state the problem, its location and a remedy.

    Parameters
    ----------
    problem, hint : str
        The problem, and the remedy.
    path : str or path, optional
        The file, folder or URL.
    """

    record: int | None = None  # number in `path`, from 1: of a line, or of another `unit`
    unit = "line"

    def __init__(self, problem: str = "", *, path: object = None, hint: str = "") -> None:
        super().__init__(problem)
        self.problem, self.hint, self.path = problem, hint, None if path is None else str(path)

    def __str__(self) -> str:
        where = [] if self.path is None else ["standard input" if self.path == "-" else self.path]
        where += [] if self.record is None else [f"{self.unit} {self.record}"]
        return (f"{', '.join(where)}: " if where else "") + self.problem + (f" ({self.hint})" if self.hint else "")


class CorpusError(SdemError, ValueError):
    """A corpus is missing, incomplete or damaged, has a newer format, or does not match the model."""


class UnreadableError(CorpusError):
    """The storage of a corpus cannot be read at the moment; reading it again may succeed."""


class BucketError(SdemError):
    """A bucket does not exist, access is denied, or credentials are missing or expired."""


class DocumentError(SdemError, ValueError):
    """A learner cannot use a document; the message names it and its shard."""


class IngestError(SdemError, ValueError):
    """A source cannot be read as documents; the message names the file and the line."""


class ModelError(SdemError, ValueError):
    """A model or checkpoint file is missing or damaged, or the model cannot do what was requested."""


class OtherRunError(ModelError):
    """A checkpoint was written by a run with other settings or on another corpus, and cannot be resumed as this one."""


class TrainingError(SdemError, ArithmeticError):
    """Training violated a mathematical guarantee; the message names the pass."""


class ClusterError(SdemError, RuntimeError):
    """A Dask scheduler or its workers cannot be reached in time, or a task fails repeatedly."""


@contextmanager
def reraise_interrupt() -> Iterator[None]:
    """Raise an interrupt that a returning compiled call disguised; MemoryError if the system refuses a thread."""
    # Python raises SystemError with the interrupt as its cause, and for threads RuntimeError without the reason.
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
    except RuntimeError as error:
        if "can't start new thread" not in str(error):
            raise
        hint = "raise its limits (ulimit -v, ulimit -u, the job's memory), or use fewer threads (n_jobs) or workers"
        raise MemoryError(f"the system cannot start more threads for this process: {hint}") from error
