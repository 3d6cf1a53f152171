"""From raw sources to documents: reading, counting words, choosing a vocabulary, writing a corpus."""

from sdem_dist.text.ingest import ingest
from sdem_dist.text.pipeline import IngestReport
from sdem_dist.text.sources import Reading
from sdem_dist.text.transform import count_texts
from sdem_dist.text.vectorizer import VectorizerSettings

__all__ = ["IngestReport", "Reading", "VectorizerSettings", "count_texts", "ingest"]
