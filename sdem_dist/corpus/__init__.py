"""Corpora: sharded sparse documents on disk, and the same reading interface over a matrix in memory."""

from sdem_dist.corpus.check import Problem, check_corpus
from sdem_dist.corpus.dense_memory import DenseMemoryCorpus
from sdem_dist.corpus.joined import concat
from sdem_dist.corpus.layout import Header, ShardInfo
from sdem_dist.corpus.memory import MemoryCorpus
from sdem_dist.corpus.reader import Corpus, open_corpus
from sdem_dist.corpus.writer import write_corpus

__all__ = [
    "Corpus",
    "DenseMemoryCorpus",
    "Header",
    "MemoryCorpus",
    "Problem",
    "ShardInfo",
    "check_corpus",
    "concat",
    "open_corpus",
    "write_corpus",
]
