"""Ingest in this process: text is read and counted once by threads into a hidden folder; then the corpus is written."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np

from sdem_dist.corpus import write_corpus
from sdem_dist.errors import IngestError, SdemError
from sdem_dist.storage.hidden import hidden_folder
from sdem_dist.storage.numbers import JsonObject
from sdem_dist.storage.places import is_url, place
from sdem_dist.storage.publish import free_space
from sdem_dist.storage.threads import n_cores
from sdem_dist.text.asked import Asked
from sdem_dist.text.bad_lines import NONE
from sdem_dist.text.batches import Batch, SecondPass
from sdem_dist.text.counters import Vocabulary
from sdem_dist.text.counting import Tally, count_matrices, count_text
from sdem_dist.text.ingest_report import IngestReport
from sdem_dist.text.kept_texts import KeptTexts
from sdem_dist.text.plan import CorpusPlan
from sdem_dist.text.runs import Runs
from sdem_dist.text.sources import MATRIX_DOCUMENTS, matrix_blocks, text_blocks
from sdem_dist.text.vocabulary import choose

Found = TypeVar("Found")


def ingest_here(asked: Asked, report: IngestReport) -> CorpusPlan:
    """Read, count and write; `report` learns of what is written."""
    reading, settings, targets = asked.reading, asked.plan.settings, asked.targets
    with _temporary_folder(asked.destinations[0]) as folder:
        texts = KeptTexts(folder / "texts") if asked.keep_text else None
        ids = None if reading.id is None else KeptTexts(folder / "ids")
        groups: list[np.ndarray] | None = None if reading.group is None else []
        runs = None
        if asked.plan.vocabulary is None and settings.kind == "count":
            runs = Runs(folder, settings, asked.n_jobs or n_cores(), held_out=asked.held_out > 0)
        tally = _counted(asked, folder, runs, texts, ids, groups)
        asked.check(tally)
        plan = asked.plan.settled(tally, None if runs is None else choose(runs, settings, tally.n_training))
        classes = np.array(list(tally.classes), np.float64) if targets else plan.classes_of_codes(tally.classes)
        second = SecondPass(
            folder,
            tally.n_blocks,
            plan.columns,
            classes,
            tally.whole,
            asked.held_out,
            asked.random_state,
            asked.n_jobs,
            ids,
        )
        common: JsonObject = {
            "classes": None if targets else plan.classes,
            "unlabelled": NONE,
            "vocabulary": plan.vocabulary,
            "vectorizer": settings.to_json(),
            "made_by": asked.made_by(plan),
            "weighted": not tally.whole or None,
            "random_state": asked.random_state,
            "shard_documents": asked.shard_documents,
            "overwrite": asked.overwrite,
            "n_jobs": asked.n_jobs,
            "texts": None if texts is None else _by_id(texts.at, ids),
            "groups": None if groups is None else _by_id(np.concatenate(groups).__getitem__, ids),
        }
        _write_all(asked, second, report, tally.n_documents, common)
    report.take(tally, plan, targets)
    return plan


def _counted(
    asked: Asked,
    folder: Path,
    runs: Runs | None,
    texts: KeptTexts | None,
    ids: KeptTexts | None,
    groups: list[np.ndarray] | None,
) -> Tally:
    """Count all sources into files in `folder`; the last three arguments take what is kept beside counts."""
    how = asked.held_out, asked.random_state
    if asked.form is not None:
        size = min(asked.block_documents, MATRIX_DOCUMENTS)
        return count_matrices(matrix_blocks(asked.sources, asked.gate, size), folder, *how, asked.progress)
    settings, words = asked.plan.settings, asked.plan.vocabulary
    blocks = text_blocks(asked.sources, asked.reading, asked.gate, asked.block_documents)
    terms = runs if words is None else Vocabulary(settings, words)
    return count_text(blocks, folder, settings, terms, *how, asked.n_jobs, asked.progress, texts, ids, groups)


def _by_id(at: Callable[[np.ndarray], Found], kept_ids: KeptTexts | None) -> Callable[[np.ndarray | list[str]], Found]:
    """Return what finds by ids what `at` finds by places in the sources."""
    if kept_ids is None:
        return lambda ids: at(np.asarray(ids))
    places = kept_ids.places()
    return lambda ids: at(np.array([places[str(name)] for name in ids], np.int64))


def _write_all(asked: Asked, second: SecondPass, report: IngestReport, n_documents: int, common: JsonObject) -> None:
    """Write the corpus and that of held-out documents; neither appears or replaces another before both are written."""
    path, *held_out_path = asked.destinations
    done = 0

    def wrote(batch: Batch) -> None:
        nonlocal done
        done += len(batch[0].indptr) - 1
        asked.progress("writing", done, n_documents)

    def wrote_training(batch: Batch) -> None:
        report.add(batch)
        wrote(batch)

    def write_held_out() -> None:
        for held_out in held_out_path:
            made = {**common["made_by"], "part": "held out"}
            write_corpus(held_out, second.batches(True, wrote), **{**common, "made_by": made}, shuffle=False)

    training = second.batches(False, wrote_training)
    write_corpus(path, training, **common, shuffle=asked.plan.shuffle, before_publishing=write_held_out)


@contextmanager
def _temporary_folder(path: str | Path) -> Iterator[Path]:
    """Yield a hidden folder beside `path`, removed in the end."""
    beside = place(path).absolute()
    try:
        with hidden_folder(beside, "ingest") as folder:
            folder.chmod(0o700)  # the folder may be shared with others
            yield folder
    except SdemError:
        raise
    except OSError as error:
        if is_url(str(error.filename)):
            raise IngestError(f"{error.filename}: {error.strerror}; nothing was written") from error
        folder = Path(tempfile.gettempdir()) if is_url(beside) else beside.parent
        raise IngestError(
            f"cannot keep the counted documents in {folder} meanwhile: {error.strerror or error}"
            f"{free_space(folder)}; nothing was written"
        ) from error
