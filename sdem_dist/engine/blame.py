"""Saying which document a learner cannot take, instead of only that it could not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from sdem_dist.documents import CorpusLike
from sdem_dist.errors import DocumentError, SdemError
from sdem_dist.interrupts import heard
from sdem_dist.learners.protocol import Lane, Learner, Prepared, State, Statistics


@contextmanager
def blamed(
    learner: Learner[State, Statistics, Prepared], corpus: CorpusLike, state: State, *lanes: Lane
) -> Iterator[None]:
    """Turn what goes wrong while lanes are prepared and mapped into an error that names the document.

    Errors of the package, storage and memory pass: they say where they come from, and are not the documents' fault.

    Raises DocumentError: anything else went wrong. The message names the first document that fails alone, if there is
    one.
    """
    try:
        with heard():
            yield
    except (SdemError, OSError, MemoryError):
        raise
    except Exception as error:

        def fails(start: int, stop: int) -> bool:
            try:
                learner.map(state, learner.prepare(corpus.read(start, stop)), replace(lane, start=start, stop=stop))
            except (SdemError, OSError, MemoryError):
                raise  # a storage error has no document to blame
            except Exception:  # noqa: BLE001  any: it is the same that brought us here
                return True
            return False

        for lane in lanes:
            culprit = _first_bad(fails, lane.start, lane.stop)
            if culprit is not None:
                break
        if culprit is None:
            what = f"documents from {corpus.place(lane.start)} to {corpus.place(lane.stop - 1)} together"
        else:
            what = corpus.place(culprit)
        raise DocumentError(
            f"{what} cannot be trained on: {type(error).__name__}: {error} (in lane {lane.lane} of round {lane.round} of "
            f"epoch {lane.epoch}, counted from 0)"
        ) from error


def _first_bad(fails: Callable[[int, int], bool], start: int, stop: int) -> int | None:
    """Return the position that makes ranges fail, found by halving; None if no half fails alone."""
    if not fails(start, stop):
        return None
    while stop - start > 1:
        middle = (start + stop) // 2
        if fails(start, middle):
            stop = middle
        elif fails(middle, stop):
            start = middle
        else:
            return None
    return start
