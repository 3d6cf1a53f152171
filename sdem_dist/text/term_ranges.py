"""Terms of the runs of many stretches, merged by tasks from one term up to another."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from shutil import rmtree

import numpy as np

from sdem_dist.storage.kept import once
from sdem_dist.storage.numbers import JsonObject
from sdem_dist.storage.places import is_url
from sdem_dist.storage.shared_files import REQUESTS, load_array, read_values, save_array
from sdem_dist.text.merged_runs import RunSlice, merge, place_of
from sdem_dist.text.runs import columns_of_nodes, run_path
from sdem_dist.text.spill import load_arrays, save_bytes


@dataclass(frozen=True)
class RunOf:
    """A run of a stretch: its name, its number there, and the bytes of its longest term."""

    stretch: str
    number: int
    longest: int
    first: int | None  # number of the stretch's first document, where documents of it are held out

    def path(self, scratch: Path, part: str) -> Path:
        """Return where a part of it lies."""
        folder = folder_of(scratch, self.stretch)
        if part == "table" and self.first is not None:
            folder = held_out_folder(scratch, self.stretch, self.first)
        return run_path(folder, self.number, part)


def folder_of(scratch: Path, stretch: str) -> Path:
    """Return where the counts of a stretch lie."""
    return scratch / f"counts-{stretch}"


def held_out_folder(scratch: Path, stretch: str, first: int) -> Path:
    """Return where the counts of terms without held-out documents lie; which these are, follows from `first`."""
    return scratch / f"kept-{stretch}-{first}"


def borders_of(summaries: Sequence[JsonObject], range_terms: int) -> list[bytes]:
    """Return the terms that part all terms into ranges of about `range_terms`."""
    shown = sorted({bytes.fromhex(term) for summary in summaries for term in summary["samples"]})
    n_ranges = min(-(-sum(summary["n_terms"] for summary in summaries) // range_terms), len(shown))
    return sorted({shown[i * len(shown) // n_ranges] for i in range(1, n_ranges)})


def merge_range(
    scratch: Path,
    folder: Path,
    runs: Sequence[RunOf],
    between: tuple[bytes | None, bytes | None],
    limits: tuple[int, int],
    with_totals: bool,
) -> JsonObject:
    """Merge the terms of all runs from one term up to another."""

    def merged(partial_folder: Path) -> JsonObject:
        copies = partial_folder / "runs"
        copies.mkdir()
        with ThreadPoolExecutor(REQUESTS if is_url(scratch) else 1) as pool:
            slices = list(pool.map(lambda run: _slice_of(run, scratch, between, copies), runs))
        found = merge(slices, limits, with_totals, partial_folder / "vocabulary")
        rmtree(copies)
        save_bytes(partial_folder / "bounds", np.cumsum([0, *(len(numbers) for numbers in found.numbers)]))
        save_bytes(partial_folder / "numbers", np.concatenate([np.zeros(0, np.int32), *found.numbers]))
        save_array(partial_folder / "sizes.npy", found.sizes)
        if found.totals is not None:
            save_array(partial_folder / "totals.npy", found.totals)
        return {"n_terms": len(found.sizes)}

    return once(folder, merged)


def _slice_of(run: RunOf, scratch: Path, between: tuple[bytes | None, bytes | None], copies: Path) -> RunSlice:
    """Return the terms of a run from one up to another; where the run is in a bucket, of a copy of these."""
    texts, table = run.path(scratch, "texts"), run.path(scratch, "table")
    index, ends, joined = load_arrays(run.path(scratch, "index"), 3)
    indexed = [joined[a:b].tobytes() for a, b in pairwise(ends)]
    places = [None if term is None else place_of(texts, table, index, indexed, term) for term in between]
    row, byte = places[0] or (0, 0)
    if not is_url(scratch):
        return RunSlice(texts, table, run.longest, row, 1 << 62 if places[1] is None else places[1][0], byte)
    stop, end = (None, None) if places[1] is None else places[1]
    some, name = len(index) > 0, f"{run.stretch}-{run.number}"
    near, far = copies / f"{name}-texts", copies / f"{name}-table"
    save_bytes(near, read_values(texts, np.uint8, byte, end) if some else np.zeros(0, np.uint8))
    save_bytes(far, read_values(table, np.int64, 3 * row, None if stop is None else 3 * stop) if some else np.zeros(0))
    return RunSlice(near, far, run.longest)


@dataclass(frozen=True)
class TermColumns:
    """The columns of the runs of one stretch."""

    folder: Path  # of the stretch
    places: dict[int, int]  # place of each of its runs among all
    ranges: Sequence[Path]  # what `merge_range` filled
    bases: Sequence[int]  # number of the first term that is kept of each range
    chosen: Path | None  # the column of each term within bounds, where `max_features` left some out

    def columns(self, run: int) -> np.ndarray:
        """Return the column of every node of a run, -1 for those left out, int32."""
        place, parts = self.places[run], []
        for folder, base in zip(self.ranges, self.bases, strict=True):
            start, stop = read_values(folder / "bounds", np.int64, place, place + 2).tolist()
            numbers = read_values(folder / "numbers", np.int32, start, stop)
            parts.append(np.where(numbers < 0, np.int32(-1), numbers + np.int32(base)))
        of_terms = np.concatenate(parts)
        if self.chosen is not None:
            chosen = _fetched(self.chosen) if is_url(self.chosen) else np.load(self.chosen, mmap_mode="r")
            of_terms = np.where(of_terms < 0, np.int32(-1), chosen[of_terms])
        return columns_of_nodes(self.folder, run, of_terms)


@lru_cache(1)
def _fetched(url: Path) -> np.ndarray:
    return load_array(url)
