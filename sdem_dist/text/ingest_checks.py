"""Checks of the arguments of an ingest, and of what it counted."""

import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from sdem_dist.corpus.contents import refuse_taken
from sdem_dist.counted import counted, is_count
from sdem_dist.errors import IngestError
from sdem_dist.storage.buckets import split
from sdem_dist.storage.places import is_url, place
from sdem_dist.text.bad_lines import NONE, LineGate
from sdem_dist.text.counting import Tally
from sdem_dist.text.vectorizer import VectorizerSettings


def paths_of(sources: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the sources; raise an error if they are not paths."""
    if isinstance(sources, str | Path):
        sources = [sources]
    if hasattr(sources, "iloc") or not all(isinstance(source, str | Path) for source in sources):
        raise ValueError(
            f"sources are paths of files and folders, not a {type(sources).__name__} of other things: save a table of pandas "
            "first (to_parquet, to_csv) and give its path, or write counts with write_corpus"
        )
    if not len(sources):
        raise ValueError("there are no sources to ingest")
    return [place(source) for source in sources]


def check_arguments(
    settings: VectorizerSettings | None,
    held_out: float,
    held_out_path: str | Path | None,
    vocabulary_from: str | Path | None,
) -> None:
    """Raise ValueError where arguments contradict each other."""
    if isinstance(held_out, bool) or not 0 <= held_out < 1:
        raise ValueError(f"held_out is a fraction from 0 and below 1, not {held_out!r}")
    if (held_out > 0) != (held_out_path is not None):
        raise ValueError("held_out_path is for what held_out holds out: give a fraction above 0")
    if vocabulary_from is not None and (settings is not None or held_out > 0):
        raise ValueError("with vocabulary_from, the settings are those of that corpus and nothing is held out")


def check_numbers(random_state: object, **counts: int | None) -> None:
    """Raise ValueError unless counts are whole numbers from 1, or None, and the seed is an integer."""
    for name, value in counts.items():
        if value is not None and not is_count(value):
            raise ValueError(f"{name} is a whole number from 1, not {value!r}")
    if not is_count(random_state, -(2**63)):
        raise ValueError(f"random_state is an integer, not {random_state!r}")


def check_destinations(destinations: list[str], overwrite: bool) -> None:
    """Raise an error now for what would fail after an hour of counting: a corpus that exists, a missing folder."""
    if len({str(place(t).absolute()) for t in destinations}) < len(destinations):
        raise ValueError("path and held_out_path are the same")
    for target in filter(is_url, destinations):
        split(target)
    refuse_taken([target for target in destinations if not is_url(target)], overwrite)
    for target in destinations:
        if not is_url(target) and not Path(target).absolute().parent.is_dir():
            raise IngestError(
                f"{target}: there is no folder {Path(target).absolute().parent} to write it to; create it"
            )


def warn_of_lookalikes(labels: Iterable[str]) -> None:
    """Warn of labels that differ only by the code points that spell the same letters."""
    spellings: dict[str, str] = {}
    for label in labels:
        other = spellings.setdefault(unicodedata.normalize("NFC", label), label)
        if other != label:
            warnings.warn(
                f"two labels look alike, and are two classes: {label!r} ({label!a}) and {other!r} ({other!a}) "
                "differ only by Unicode normalisation; write all in one form, such as NFC",
                stacklevel=2,
            )


def check_tally(tally: Tally, held_out: float, gate: LineGate, sources: Sequence[Path]) -> None:
    """Raise IngestError if the sources, or one of both parts, have no document, or none a label that is to be known."""
    names = ", ".join(map(str, sources[:3])) + (f" and {len(sources) - 3:,} more" if len(sources) > 3 else "")
    if tally.n_documents == 0:
        examples = "".join(f"\n  {example}" for example in gate.examples)
        left_out = f"; {counted(gate.skipped, 'bad line')} left out, such as{examples}" if gate.skipped else ""
        raise IngestError(f"{names}: no document{left_out}")
    if gate.unlabelled is not None and gate.known_classes is None and set(tally.classes) == {NONE}:
        raise IngestError(f"{names}: no document has a label; check the column of the label")
    if held_out > 0 and not 0 < tally.n_held_out < tally.n_documents:
        raise IngestError(
            f"of {tally.n_documents} documents, {tally.n_held_out} are held out; both parts need some: "
            "choose another fraction or seed"
        )
