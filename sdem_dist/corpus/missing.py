"""Messages about a path without a corpus."""

from pathlib import Path

from sdem_dist.errors import CorpusError
from sdem_dist.storage.publish import set_aside


def check_folder(path: Path) -> None:
    """Raise CorpusError where there cannot be a corpus; the message says what is at the path and what to do."""
    made = "a corpus is a folder that sdem ingest or write_corpus made"
    if not path.exists():
        for kept in set_aside(path)[-1:]:
            made = f"a process died while it replaced it, and what was there is now {kept}: rename that"
        raise CorpusError(f"{path}: there is no such corpus; {made}")
    if not path.is_dir():
        raise CorpusError(
            f"{path} is a file, perhaps a model or a source; {made}: ingest a source first (sdem ingest; test documents with "
            "--vocabulary-from and the corpus of the training)"
        )
    if not (path / "zarr.json").exists():
        raise CorpusError(f"{path} is a folder, but no corpus; {made}")
