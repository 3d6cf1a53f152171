"""The errors that this package raises on purpose, each written for the person who reads it."""


class SdemError(Exception):
    """Base of the package's own errors: what was wrong, where, and what to do."""


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
