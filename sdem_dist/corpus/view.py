"""A corpus seen through another: the same documents at the same places, read in another form."""

from dataclasses import dataclass

from sdem_dist.documents import CorpusLike


@dataclass(frozen=True)
class View:
    """Base of corpora that read another one; subclasses define `read`, and `cache_key`, a name of the result."""

    corpus: CorpusLike

    @property
    def n_documents(self) -> int:
        """How many positions there are to read."""
        return self.corpus.n_documents

    def place(self, document: int) -> str:
        """Return where a document is, for people."""
        return self.corpus.place(document)
