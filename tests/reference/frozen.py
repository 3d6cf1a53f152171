"""Hash what users get: states and predictions of the catalogue, identities of corpora, and what commands print.

Compare two commits on one machine, since bits depend on the CPU, numba and NumPy::

    cd tests
    python -m reference.frozen before.json
    python -m reference.frozen after.json before.json     # prints what differs, and exits with 1
"""

import contextlib
import hashlib
import io
import json
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from reference.catalogue_cases import CASES, write_corpora
from reference.trained_bits import bits
from text.sources import written

import sdem_dist as sd

WORDS = ["goal", "match", "vote", "law", "the", "a", "of", "atom", "cell", "Ünder", "naïve", "x1", "2nd", "don't"]
WORDS += ["e-mail", "end"]
ANSWERS = ("predict", "predict_proba", "decision_function", "transform", "score_samples")


def digest(value: Any) -> str:
    if sp.issparse(value):
        value = [value.indptr, value.indices, value.data]
    if isinstance(value, list | tuple):
        return digest(" ".join(map(digest, value)))
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        data = np.ascontiguousarray(value, np.float64).tobytes()
    else:
        data = (value if isinstance(value, str) else json.dumps(np.asarray(value).tolist())).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def trained(folder: Path) -> dict[str, str]:
    """Return hashes of the state and of all predictions of each case."""
    write_corpora(folder)
    hashes = {}
    for name, case in CASES.items():
        corpus = sd.open_corpus(folder / case.corpus)
        model = case.made().fit(corpus)
        hashes[f"state: {name}"] = bits(model)[:16]
        for answer in ANSWERS:
            with contextlib.suppress(AttributeError, TypeError, ValueError, sd.SdemError):
                hashes[f"{answer}: {name}"] = digest(getattr(model, answer)(corpus))
    return hashes


def documents() -> list[tuple[str, str]]:
    rng = np.random.default_rng(7)
    pairs = []
    for _ in range(200):
        k = int(rng.integers(3))
        words = [*rng.choice(WORDS[2 * k : 2 * k + 2], 3), *rng.choice(WORDS[4:], 8)]
        pairs.append((["sport", "politics", "science"][k], " ".join(map(str, words))))
    return pairs


def write_sources(folder: Path) -> list[Path]:
    return [written(folder / f"d.{ending}", documents()) for ending in ("tsv", "csv", "jsonl", "parquet")]


def ingested(folder: Path) -> dict[str, str]:
    """Return the identity and hashes of the contents of small corpora, one a format."""
    hashes = {}
    for source in write_sources(folder):
        path = folder / f"{source.suffix[1:]}.zarr"
        sd.ingest(source, path)
        corpus = sd.open_corpus(path)
        model = sd.MultinomialNB(n_epochs=3).fit(corpus)
        hashes[f"uid: {source.name}"] = str(getattr(corpus.header, "uid", ""))
        hashes[f"vocabulary: {source.name}"] = digest(list(map(str, model.vocabulary_)))
        hashes[f"model: {source.name}"] = digest(model.predict_proba([text for _, text in documents()]))
    return hashes


COMMANDS = (
    "train d.tsv m.model", "train d.csv c.model --loss nll", "evaluate m.model d.jsonl --report",
    "predict m.model d.csv -o p.csv", "predict m.model d.jsonl -o p.jsonl", "explain m.model",
    "explain m.model 'goal match the law'", "ingest d.jsonl j.zarr --held-out 0.2", "inspect j.zarr", "inspect m.model",
    "suspects d.tsv",
)  # fmt: skip


def commands(folder: Path) -> dict[str, str]:
    """Return what commands print, times left out, and hashes of the files that they write."""
    import shlex

    from sdem_dist.cli import main

    write_sources(folder)
    os.chdir(folder)
    printed = {}
    for command in COMMANDS:
        text = io.StringIO()
        sys.argv = ["sdem", *shlex.split(command)]
        silent = contextlib.redirect_stderr(io.StringIO())
        with contextlib.redirect_stdout(text), silent, contextlib.suppress(SystemExit):
            main()
        plain = text.getvalue().replace(str(folder), "")
        printed[f"sdem {command}"] = re.sub(r"[\d.]+ ?(s|ms|seconds|MB/s|kB|MiB|MB)\b|\d{4}-\d\d-\S+", "#", plain)
    for path in sorted(folder.glob("p.*")):
        printed[f"file {path.name}"] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return printed


def main() -> None:
    """Write hashes to a file, and compare them with those of another file if one is named."""
    warnings.simplefilter("ignore")
    target = Path(sys.argv[1]).absolute()
    earlier = json.loads(Path(sys.argv[2]).read_text()) if len(sys.argv) > 2 else None
    hashes: dict[str, str] = {}
    for part in (trained, ingested, commands):
        with tempfile.TemporaryDirectory() as folder:
            hashes |= part(Path(folder))
            os.chdir(target.parent)
    target.write_text(json.dumps(hashes, indent=1))
    if earlier is not None:
        differing = [name for name in {**earlier, **hashes} if earlier.get(name) != hashes.get(name)]
        for name in differing:
            print(f"{name}: {earlier.get(name)!r} -> {hashes.get(name)!r}")
        print(f"{len(differing)} of {len(hashes)} differ")
        raise SystemExit(bool(differing))
    print(f"{len(hashes)} hashes")


if __name__ == "__main__":
    main()
