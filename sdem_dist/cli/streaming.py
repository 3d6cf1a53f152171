"""Answering a stream of documents in parallel, in order, with a few blocks in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sdem_dist.cli.answers import Answers, predictions_of
from sdem_dist.estimators.persistence import load_model
from sdem_dist.estimators.scoring import checked_pieces
from sdem_dist.text.analysis import in_threads
from sdem_dist.text.records import Records, read_records
from sdem_dist.text.texts import Texts
from sdem_dist.text.transform import TextTransformer
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from sdem_dist.documents import DenseDocuments, Documents
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.text.bad_lines import LineGate
    from sdem_dist.text.sources import Reading

Made = TypeVar("Made")


@dataclass(frozen=True)
class Counted:
    """Consecutive documents of a corpus, and their ids."""

    documents: Documents | DenseDocuments
    ids: list[object]

    @property
    def columns(self) -> dict[str, list[object]]:
        """What stands beside documents in a table."""
        return {"id": self.ids}


Block = Records | Counted


def transformer_of(estimator: EngineEstimator) -> TextTransformer:
    """Return what counts texts as a model does.

    Raises
    ------
    ModelError
        The model was not trained on text.
    """
    if estimator.vectorizer_ is None or estimator.vectorizer_["kind"] == "matrix":
        estimator.vectorize([])  # says what is wrong
    return TextTransformer(VectorizerSettings.from_json(estimator.vectorizer_ or {}), estimator.vocabulary_)


@dataclass(frozen=True)
class Sources:
    """Files, folders and corpora, read in order.

    Attributes
    ----------
    paths : sequence of Path
    reading : Reading
    gate : LineGate
    block_documents : int
        Most documents of a block.
    keep : bool
        Keep all columns that stand beside the texts.
    """

    paths: tuple[Path, ...]
    reading: Reading
    gate: LineGate
    block_documents: int
    keep: bool

    @property
    def corpora(self) -> list[bool]:
        """Whether each of them is a corpus."""
        return [(path / "zarr.json").exists() for path in self.paths]

    def blocks(self, estimator: EngineEstimator) -> Iterator[Records | Counted]:
        """Yield the documents of all sources; corpora have ids in any case."""
        from sdem_dist.corpus import open_corpus

        for path, counted in zip(self.paths, self.corpora, strict=True):
            if counted:
                corpus = open_corpus(path)
                for start, documents in checked_pieces(estimator, corpus):
                    yield Counted(documents, corpus.ids_of(start, start + documents.n_documents))
            else:
                yield from read_records(path, self.reading, self.gate, self.block_documents, keep=self.keep)


def answered(
    blocks: Iterable[Block],
    transformer: TextTransformer | None,
    answer: Callable[[Any, Block], Made],
    n_jobs: int | None,
) -> Iterator[Made]:
    """Yield what `answer` makes of counted documents and of the blocks that they came in, in their order.

    Parameters
    ----------
    blocks : iterable of Records or Counted
    transformer : TextTransformer, optional
        Needed for records of text.
    answer : callable
    n_jobs : int, optional
        Threads; None: one a core.
    """

    def worker() -> Callable[[Block], Made]:
        count = None if transformer is None else transformer.counter()

        def work(block: Block) -> Made:
            if isinstance(block, Counted):
                return answer(block.documents, block)
            assert count is not None
            return answer(count(block.texts), block)

        return work

    with closing(in_threads(blocks, worker, n_jobs)) as found:
        yield from found


def predict_lines(
    model: str | Path, texts: Iterable[Texts], *, probabilities: bool, n_jobs: int | None
) -> Iterator[str]:
    """Yield lines of predictions, a block of documents at a time, in the order of the texts.

    Parameters
    ----------
    model : path
        A saved model that was trained on text.
    texts : iterable of Texts
        Blocks of documents.
    probabilities : bool
        Add TAB ``class=probability`` for every class or cluster after the label; regressors give numbers alone.
    n_jobs : int, optional
        Threads; None: one a core.

    Raises
    ------
    ModelError
        The model cannot be loaded, or was not trained on text.
    """
    estimator = load_model(model)
    answers = replace(predictions_of(estimator, model), alone=not probabilities)
    yield from answered(map(Records, texts), transformer_of(estimator), lines_of(answers), n_jobs)


def lines_of(answers: Answers, *, with_ids: bool = False) -> Callable[[Any, Block], str]:
    """Return what makes lines of documents; those of a corpus have ids in any case, since it is shuffled."""
    return lambda documents, block: answers.lines(
        documents, block.ids if with_ids or isinstance(block, Counted) else None
    )
