"""Corpora: sharded sparse documents on disk, and the same reading interface over a matrix in memory."""

from sdem_dist.corpus.base import MemoryCorpus
from sdem_dist.corpus.reader import Corpus, check_corpus, concat, open_corpus
from sdem_dist.corpus.writer import write_corpus

__all__ = ["Corpus", "MemoryCorpus", "check_corpus", "concat", "open_corpus", "write_corpus"]
