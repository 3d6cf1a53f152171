"""Corpora on disk: opening, joining, reading documents with ids, texts and labels, skipping damaged shards."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sdem_dist.corpus.base import AnyDocuments, BaseCorpus
from sdem_dist.corpus.manifest import DENSE, ClassLabel, Header, LabelSet, StoredCorpus, stored_corpus
from sdem_dist.corpus.shuffle import shuffle_keys
from sdem_dist.counted import one_line
from sdem_dist.documents import DenseDocuments, Documents, concatenate, shard_cache
from sdem_dist.errors import CorpusError, UnreadableError
from sdem_dist.storage.arrays import map_requests
from sdem_dist.storage.buckets import below, is_url, place
from sdem_dist.storage.encoding import crc32c

if TYPE_CHECKING:
    from sdem_dist.engine.executor import Executor

JOINED_ALIKE = ("layout", "vocabulary_hash", "n_features", "classes", "n_targets", "vectorizer", "has_weights")
"""Fields of the header that must be equal in joined corpora."""
PRINTED_WORDS = 12


def open_corpus(path: str | Path) -> Corpus:
    """Open a corpus.

    Parameters
    ----------
    path : str or Path
        A directory, or a URL such as ``s3://bucket/corpus``.

    Raises
    ------
    CorpusError
        There is no complete corpus, its manifest is damaged, or it has a different format version.
    BucketError
        The bucket does not exist, or access is denied.
    """
    corpus = Corpus(path)
    corpus.header  # noqa: B018  a wrong path fails here, not in the middle of training
    return corpus


def concat(corpora: Sequence[Corpus]) -> Corpus:
    """Combine several corpora into one, in order, without reading or copying them.

    Lanes are contiguous documents, so corpora with very different class sizes should be ingested together. If only some
    corpora have groups, each document of the others is a separate group.

    Parameters
    ----------
    corpora : sequence of Corpus
        Corpora with the same vocabulary and classes, see ``sdem ingest --vocabulary-from``.

    Raises
    ------
    CorpusError
        No corpora are passed, vocabularies or classes differ, or one corpus is a subset.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import mkdtemp
    >>> from sdem_dist import concat, write_corpus
    >>> folder = mkdtemp()
    >>> monday, tuesday = (write_corpus(f"{folder}/{day}", np.eye(2, dtype=int), ["a", "b"]) for day in ("mon", "tue"))
    >>> len(concat([monday, tuesday]))
    4
    """
    if not corpora:
        raise CorpusError("no corpora to join")
    for corpus in corpora:
        if not isinstance(corpus, Corpus) or corpus.name or corpus.shards is not None:
            raise CorpusError(f"{corpus!r} is not a corpus on disk: join corpora first, then take a subset")
    return corpora[0] if len(corpora) == 1 else Corpus(*(path for corpus in corpora for path in corpus.paths))


@dataclass(frozen=True, repr=False)
class StoredDocument:
    """A document of a corpus."""

    counts: Mapping[str | int, float]
    """Count of each word, the largest first; by column number without a vocabulary. For a table all values."""
    id: int | str
    label: ClassLabel | LabelSet | None = None
    targets: tuple[float, ...] = ()

    def __repr__(self) -> str:
        parts = [f"id {one_line(self.id)}"]
        parts += [] if self.label is None else [f"label {one_line(self.label)}"]
        parts += [f"targets {', '.join(f'{t:g}' for t in self.targets)}"] if self.targets else []
        words = ", ".join(f"{one_line(word)} {n:g}" for word, n in list(self.counts.items())[:PRINTED_WORDS])
        n_more = len(self.counts) - PRINTED_WORDS
        words += f", and {n_more:,} more" if n_more > 0 else ""
        return f"<document: {'; '.join(parts)}; {words or 'no words'}>"


class Corpus(BaseCorpus):
    """A corpus on disk, or several combined. It stores only paths until data are read, and is pickled as paths.

    `paths`: directories or URLs; the attribute contains absolute paths.
    """

    _state = ("paths", "path", "shards", *BaseCorpus._state)

    def __init__(self, *paths: str | Path) -> None:
        self.paths = tuple(str(place(path)) if is_url(path) else os.path.abspath(path) for path in paths)
        self.path: str = " and ".join(self.paths)
        self.shards: tuple[int, ...] | None = None
        """Numbers of the shards that are used; None: all."""
        self._received = False  # unpickled, in another process

    def __repr__(self) -> str:
        return f"{self.title}Corpus({', '.join(map(repr, self.paths))})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _received=True)

    @cached_property
    def _sources(self) -> list[StoredCorpus]:
        return [stored_corpus(path, self._received) for path in self.paths]

    @cached_property
    def _places(self) -> list[tuple[StoredCorpus, int]]:
        places = [(source, n) for source in self._sources for n in range(len(source.header.shards))]
        return places if self.shards is None else [places[shard] for shard in self.shards]

    @cached_property
    def stored_header(self) -> Header:
        headers = [source.header for source in self._sources]
        header = first = headers[0]
        if len(headers) > 1:
            for path, other in zip(self.paths[1:], headers[1:], strict=True):
                if unlike := [name for name in JOINED_ALIKE if getattr(other, name) != getattr(first, name)]:
                    raise CorpusError(
                        f"{path} and {self.paths[0]} differ in {', '.join(unlike)}: ingest one of them with the "
                        "vocabulary of the other (--vocabulary-from), or all sources together"
                    )
            separator = {} if first.label_separator is None else {"label_separator": first.label_separator}
            sparse = first.document_frequency_checksum is not None
            header = replace(
                first,
                n_documents=sum(h.n_documents for h in headers),
                n_nonzeros=sum(h.n_nonzeros for h in headers),
                class_counts=tuple(map(sum, zip(*(h.class_counts for h in headers), strict=True))),
                shards=tuple(shard for h in headers for shard in h.shards),
                weighted=any(h.weighted for h in headers),
                document_frequency_checksum=crc32c(self._document_frequency()) if sparse else None,
                made_by={"joined": list(self.paths), **separator},
            )
        if self.shards is None:
            return header
        shards = tuple(header.shards[i] for i in self.shards)
        sums = {name: sum(getattr(shard, name) for shard in shards) for name in ("n_documents", "n_nonzeros")}
        of_shards = [s.columns(n, ["labels"])["labels"] for s, n in (self._places if header.classes else ())]
        labels = np.concatenate([np.zeros(0, np.int32), *of_shards])
        counts = np.bincount(labels[labels >= 0], minlength=len(header.classes))
        return replace(header, shards=shards, class_counts=tuple(counts.tolist()), **sums)

    def _key(self) -> str:
        return self.stored_header.uid

    def _read(self, start: int, stop: int) -> AnyDocuments:
        header, root = self.stored_header, Path(self.paths[0])
        starts = header.shard_starts
        first = min(int(np.searchsorted(starts, start, side="right")) - 1, len(header.shards) - 1)
        last = max(int(np.searchsorted(starts, stop, side="left")), first + 1)

        def part(shard: int) -> AnyDocuments:
            base, size = int(starts[shard]), header.shards[shard].n_documents
            rows = slice(max(start - base, 0), min(stop - base, size))
            if rows == slice(0, size) and not is_url(root):
                return self.read_shard(shard)
            # The other documents of the shard are probably read next, or in the next stage for a bucket.
            return shard_cache.get((header.uid, shard), partial(self.read_shard, shard))[rows]

        parts = map_requests(part, range(first, last), root)
        return concatenate(parts)

    def read_shard(self, shard: int) -> AnyDocuments:
        """Read all stored documents of one shard; see `read`."""
        source, number = self._places[shard]
        header, dense = source.header, source.header.layout == DENSE
        optional = {"labels": header.classes, "targets": header.n_targets, "weights": header.has_weights}
        names = ["values"] if dense else ["data", "indices", "indptr"]
        columns = source.columns(number, [*names, *(name for name, present in optional.items() if present)])
        return DenseDocuments(**columns) if dense else Documents(n_features=header.n_features, **columns)

    def _place(self, document: int) -> str:
        starts = self.stored_header.shard_starts
        shard = int(np.searchsorted(starts, document, side="right")) - 1
        source, number = self._places[shard]
        return f"{source.path}: shard {number}, document {document - int(starts[shard])} of the shard"

    def _array(self, name: str) -> np.ndarray | None:
        header = self.stored_header
        if not any(name in shard.checksums for shard in header.shards):
            return None
        # If some joined corpora have no groups, each of their documents is a separate group.
        parts = [
            source.columns(number, [name])[name]
            if name in source.header.shards[number].checksums
            else shuffle_keys(0, *header.shard_starts[shard : shard + 2].tolist())
            for shard, (source, number) in enumerate(self._places)
        ]
        array = np.concatenate(parts)
        if name == "labels" and (n_classes := len(header.classes)):
            counts = np.bincount(array[array >= 0], minlength=n_classes)
            if counts.tolist() != list(header.class_counts):
                raise CorpusError(f"{self.path}: the labels do not match the manifest's class_counts")
        return array

    def _strings(self, shard: int, name: str) -> np.ndarray | list[str]:
        if not 0 <= shard < len(self._places):
            raise IndexError(f"shard {shard} is out of range: {self.path} has {len(self._places)} shards")
        source, number = self._places[shard]
        return source.strings(number, name)

    def ids(self, shard: int) -> np.ndarray | list[str]:
        """Read the ids of a shard's documents: int64 (by default their positions in the source), or strings."""
        return self._strings(shard, "ids")

    def ids_at(self, documents: Iterable[int], name: str = "ids") -> list[Any]:
        """Return the ids (or the "texts") of the documents at the positions `documents`, in this order."""
        rows, starts = np.array(list(documents), np.int64), self.stored_header.shard_starts
        rows = rows if self.rows is None else self.rows[rows]
        shards = np.searchsorted(starts, rows, side="right") - 1
        values = np.empty(len(rows), object)
        for shard in np.unique(shards).tolist():
            chosen, of_shard = shards == shard, self._strings(shard, name)
            values[chosen] = np.asarray(of_shard, object)[rows[chosen] - starts[shard]]
        return values.tolist()

    def texts_at(self, documents: Iterable[int]) -> list[str]:
        """Return the texts of the documents at these positions, in this order; CorpusError if texts are not stored."""
        return self.ids_at(documents, "texts")

    def text(self, document: int) -> str:
        """Return the text of the document at a position; see `texts_at`."""
        return self.texts_at([self._position(document)])[0]

    @property
    def has_texts(self) -> bool:
        """Whether texts are stored."""
        return all("texts_bytes" in shard.checksums for shard in self.stored_header.shards)

    def __len__(self) -> int:
        return self.n_documents

    def _repr_html_(self) -> str:
        from sdem_dist.table import corpus_as_html

        return corpus_as_html(self.path, self.header, self.has_texts)

    def _position(self, document: int) -> int:
        try:
            return range(self.n_documents)[operator.index(document)]
        except TypeError:
            raise TypeError(
                f"the position of a document must be an integer, got {document!r}; use read(start, stop) for several"
            ) from None
        except IndexError:
            raise IndexError(f"there is no document {document}: {self.path} has {self.n_documents} documents") from None

    def __getitem__(self, document: int | slice) -> Any:
        """Return the `StoredDocument` at a position; for a slice, a list of them."""
        if isinstance(document, slice):
            return [self[position] for position in range(self.n_documents)[document]]
        position = self._position(document)
        return next(self._documents(position, position + 1))

    def __iter__(self) -> Iterator[StoredDocument]:
        """Yield the documents in their stored order; each shard is read once."""
        starts = self.stored_header.shard_starts
        rows = np.arange(starts[-1]) if self.rows is None else self.rows
        for start, stop in pairwise(np.searchsorted(rows, starts).tolist()):
            yield from self._documents(start, stop)

    @cached_property
    def _words(self) -> list[str] | None:
        return self.vocabulary()

    def _documents(self, start: int, stop: int) -> Iterator[StoredDocument]:
        documents, ids = self.read(start, stop), self.ids_of(start, stop)
        for i, id_ in enumerate(ids):
            one = documents[i : i + 1]
            if isinstance(one, DenseDocuments):
                entries = list(enumerate(one.values[0].tolist()))
            else:
                pairs = zip(one.indices.tolist(), one.data.tolist(), strict=True)
                entries = sorted(pairs, key=lambda entry: (-entry[1], entry[0]))
            label = None if one.labels is None or one.labels[0] < 0 else self.header.classes[int(one.labels[0])]
            counts = {column if self._words is None else self._words[column]: count for column, count in entries}
            targets = getattr(one, "targets", None)
            yield StoredDocument(counts, id_, label, () if targets is None else tuple(targets[0].tolist()))

    def vocabulary(self) -> list[str] | None:
        """Read the words in the order of their indices, or return None if the corpus has none (hashed words)."""
        return self._sources[0].vocabulary()

    def _document_frequency(self) -> np.ndarray:
        parts = [source.document_frequency() for source in self._sources]
        return parts[0] if len(parts) == 1 else np.asarray(np.sum(parts, axis=0, dtype=np.int64))

    def bytes_on_disk(self) -> int:
        of_objects = (below(path).values() if is_url(path) else () for path in self.paths)
        files = (file for path in self.paths if not is_url(path) for file in Path(path).rglob("*") if file.is_file())
        return sum(meta["size"] for o in of_objects for meta in o) + sum(file.stat().st_size for file in files)


@dataclass(frozen=True)
class Problem:
    """A problem of a shard of a corpus, or of the entire corpus (`shard` is None)."""

    shard: int | None
    message: str


def verify_shard(corpus: Corpus, shard: int, read: Callable[[Corpus, int], object] = Corpus.read_shard) -> str:
    """Return the problem of a damaged shard, or "". UnreadableError is raised: it may be temporary."""
    try:
        read(corpus, shard)
    except UnreadableError:
        raise
    except CorpusError as error:
        return str(error)
    return ""


def without_damaged(corpus: Corpus, problems: Sequence[str]) -> Corpus:
    """Return a corpus of the shards without `problems`, see `verify_shard`; CorpusError if no documents remain."""
    undamaged = [shard for shard, problem in enumerate(problems) if not problem]
    if len(undamaged) == len(problems):
        return corpus
    if len(corpus.paths) > 1 or corpus.name:
        problem = next(filter(None, problems))
        raise CorpusError(
            f"{corpus!r} has a damaged shard: {problem}; shards of subsets and joined corpora cannot be skipped"
        )
    if not any(corpus.header.shards[shard].n_documents for shard in undamaged):
        raise CorpusError(f"{corpus.path}: all shards are damaged; the first problem: {problems[0]}")
    return corpus._with(shards=tuple(undamaged))


def undamaged_part(
    corpus: Corpus, executor: Executor, callbacks: Iterable[Callable[[Any], object]]
) -> tuple[Corpus, list[str]]:
    """Read an entire corpus once, in parallel; return it without damaged shards, and their problems."""
    from sdem_dist.engine.events import ShardsLeftOut

    header, n = corpus.header, len(corpus.header.shards)
    tasks = [executor.submit(verify_shard, corpus, shard, affinity=shard / n) for shard in range(n)]
    statuses = [executor.result(task) for task in tasks]
    problems, undamaged = list(filter(None, statuses)), without_damaged(corpus, statuses)
    if problems:
        event = ShardsLeftOut(len(problems), header.n_documents - undamaged.n_documents, tuple(problems))
        for callback in callbacks:
            callback(event)
        what = f"{event.n_shards} of {n} shards are damaged; training skips {event.n_documents:,}"
        warnings.warn(f"{corpus.path}: {what} of {header.n_documents:,} documents: {'; '.join(problems)}", stacklevel=3)
    return undamaged, problems


def check_corpus(corpus: Corpus) -> Iterator[Problem]:
    """Read a complete corpus and yield its problems; CorpusError if its manifest cannot be read."""
    header, damaged = corpus.header, False
    counts, frequency = np.zeros(len(header.classes), np.int64), np.zeros(header.n_features, np.int64)

    def count(corpus: Corpus, shard: int) -> None:
        documents = corpus.read_shard(shard)
        if documents.labels is not None:
            counts[:] += np.bincount(documents.labels[documents.labels >= 0], minlength=len(counts))
        if not isinstance(documents, DenseDocuments):
            weighs = True if documents.weights is None else np.repeat(documents.weights > 0, np.diff(documents.indptr))
            np.add.at(frequency, documents.indices[(documents.data != 0) & weighs], 1)

    for shard, info in enumerate(header.shards):
        names = ("ids", *(name for name in ("texts_bytes", "groups") if name in info.checksums))
        reads: list[Callable[[Corpus, int], object]] = [count]
        reads += [partial(Corpus._strings, name=name.removesuffix("_bytes")) for name in names]
        for read in reads:
            if problem := verify_shard(corpus, shard, read):
                damaged = True
                yield Problem(shard, problem)
    if not damaged and counts.tolist() != list(header.class_counts):
        yield Problem(None, f"{corpus.path}: the labels do not match the manifest's class_counts")

    def compare(corpus: Corpus, shard: int) -> None:
        if not (np.array_equal(corpus.document_frequency, frequency) or damaged):
            raise CorpusError(f"{corpus.path}: array 'document_frequency' does not match the documents")

    for table in (lambda corpus, _: corpus.vocabulary(), compare)[: 1 if header.layout == DENSE else 2]:
        if problem := verify_shard(corpus, 0, table):
            yield Problem(None, problem)


def missing_values(corpus: Corpus) -> np.ndarray:
    """Return the number of missing values of each column of a dense corpus; reads all shards, skips damaged ones."""
    missing = np.zeros(corpus.header.n_features, np.int64)
    for shard in range(len(corpus.header.shards)):
        with suppress(CorpusError):  # `check_corpus` reports it
            missing += np.isnan(cast(DenseDocuments, corpus.read_shard(shard)).values).sum(axis=0)
    return missing
