"""``sdem warmup``: commands run on a few documents, so that nobody waits for their kernels later."""

import fcntl
import io
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir, redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path

import click
import numpy as np

import sdem_dist
from sdem_dist.catalogue import ESTIMATORS


def compile_for(name: str) -> int:
    """Train an estimator as commands do, on a few documents, and predict; return how many functions were compiled."""
    from sdem_dist.cli import main
    from sdem_dist.kernels.jit import compilations

    spec, before, silent, source = getattr(sdem_dist, name).spec, compilations.n, io.StringIO(), "d.tsv"
    words, y = np.random.default_rng(0).integers(1, 300, (400, 20)), np.arange(400) % 3
    table = words[:, :6] % 2 if spec.categorical or name == "BernoulliNB" else np.column_stack([words[:, :6], y])
    with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stdout(silent), redirect_stderr(silent):
        lines = (f"{k}\tÜnder {' '.join(map(str, row))}, 3.5 a{k % 2}\n" for row, k in zip(words, y, strict=True))
        Path(source).write_text("".join(lines))
        if spec.layout == "dense":
            source = str(sdem_dist.write_corpus("c", table, y if spec.target == "labels" else None, dense=True).path)
        more = ["ingest d.tsv c --held-out .2", "train c n --quiet --lanes 4", "suspects c"] * (name == "MultinomialNB")
        answers = f"{'predict' if spec.predicts else 'transform'} m {source} -o a.tsv"
        for line in (f"train {source} m --estimator {name} --quiet", answers, f"evaluate m {source}", *more):
            main(line.split(), standalone_mode=False)
    return compilations.n - before


@click.command()
def warmup() -> None:
    """Compile the kernels of all estimators, on all cores. A second `sdem warmup` on the machine waits."""
    names = sorted(ESTIMATORS, key=lambda name: (name != "MultinomialNB", getattr(sdem_dist, name).spec.layout))
    with open(Path(tempfile.gettempdir(), f"sdem-warmup-{os.getuid()}"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for _ in range(4):  # of two that compile a function at once, for different types, numba may keep one
            with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as pool:
                n_functions = sum(pool.map(compile_for, names))
            click.echo(f"compiled {n_functions} functions")
            if n_functions == 0:
                return
    raise click.ClickException("numba cannot cache kernels: set NUMBA_CACHE_DIR to a writable folder")
