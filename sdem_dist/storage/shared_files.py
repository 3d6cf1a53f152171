"""Files that the workers of one job share: in a folder that all see, or in a bucket."""

import io
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from sdem_dist.storage import buckets
from sdem_dist.storage.places import is_url

REQUESTS = 16  # objects that are read or written at once: each waits for answers


@contextmanager
def at_hand(folder: Path) -> Iterator[Path]:
    """Yield a folder of this machine with the files of `folder`: itself, or a copy of objects, removed in the end."""
    if not is_url(folder):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="sdem-") as name, ThreadPoolExecutor(REQUESTS) as pool:
        here = Path(name)

        def copy(file: str) -> None:
            (here / file).write_bytes((folder / file).read_bytes())

        list(pool.map(copy, buckets.children(str(folder))[1]))
        yield here


def put_files(here: Path, folder: Path, names: Iterable[str], *, new: bool = False) -> None:
    """Put files of `here` into the shared folder at a URL, or do nothing if they are there; `new` ones replace none."""
    if here == folder:
        return
    put = buckets.put_new if new else buckets.put
    with ThreadPoolExecutor(REQUESTS) as pool:
        list(pool.map(lambda name: put(str(folder / name), here / name), names))


def read_values(path: Path, dtype: np.dtype | type, start: int, stop: int | None = None) -> np.ndarray:
    """Return the values `start` up to `stop`, or to the end, of a file of nothing else."""
    size = np.dtype(dtype).itemsize
    if not is_url(path):
        return np.fromfile(path, dtype, -1 if stop is None else stop - start, offset=start * size)
    if start == stop or (start and stop is None and start * size >= buckets.head(str(path)).size):
        return np.zeros(0, dtype)  # a bucket refuses to read from the end on
    return np.frombuffer(buckets.get(str(path), start * size, None if stop is None else stop * size), dtype)


def save_array(path: Path, array: np.ndarray) -> None:
    """Write an array to a file, which appears whole, without pickle."""
    if is_url(path):
        stream = io.BytesIO()
        np.save(stream, array, allow_pickle=False)
        buckets.put(str(path), stream.getvalue())
        return
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        np.save(file, array, allow_pickle=False)
    Path(file.name).replace(path)


def load_array(path: Path) -> np.ndarray:
    """Read what `save_array` wrote."""
    found: np.ndarray = np.load(io.BytesIO(path.read_bytes()) if is_url(path) else path, allow_pickle=False)
    return found


@contextmanager
def driver_folder(scratch: Path) -> Iterator[Path]:
    """Yield a folder of this machine for what the driver makes: the shared one itself, or a temporary one for a URL."""
    if not is_url(scratch):
        yield scratch
        return
    with tempfile.TemporaryDirectory(prefix="sdem-") as folder:
        yield Path(folder)
