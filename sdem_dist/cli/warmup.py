"""``sdem warmup``: runs commands on a few documents, so that later commands need not compile kernels."""

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
from sdem_dist import kernels
from sdem_dist.catalogue import ESTIMATORS

MORE = (  # commands that need kernels of naive Bayes besides those of default training and prediction
    "ingest d.tsv c --held-out .2;train c lanes --lanes 4 --quiet;train c sums --merge sum --quiet;suspects c;"
    "train d.tsv b --features words+characters --quiet;predict b d.tsv -o b.tsv;train d.tsv hashed --hashing 512 --quiet"
)
LONGEST = "LDAClassifier", "LatentDirichletAllocation"  # need most kernels that naive Bayes does not need


def compile_for(name: str) -> int:
    """Train an estimator as commands do, on a few documents, and predict; return the number of compiled functions."""
    from sdem_dist.cli import main
    from sdem_dist.kernels.jit import compilations

    spec, before, silent, source = getattr(sdem_dist, name).spec, compilations.n, io.StringIO(), "d.tsv"
    words, y = np.random.default_rng(0).integers(1, 300, (400, 20)), np.arange(400) % 3
    table = words[:, :6] % 2 if name in ("BernoulliNB", "CategoricalNB") else np.column_stack([words[:, :6], y])
    exec(kernels.TRAINING.format(name) if name in LONGEST else "")  # another process compiles what reads texts
    with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stdout(silent), redirect_stderr(silent):
        lines = (f"{k}\tÜnder {' '.join(map(str, row))}, 3.5 a{k % 2}\n" for row, k in zip(words, y, strict=True))
        Path(source).write_text("".join(lines))
        if spec.layout == "dense":
            source = str(sdem_dist.write_corpus("c", table, y if spec.target == "labels" else None, dense=True).path)
        answers = f"{'predict' if spec.predicts else 'transform'} m {source} -o a.tsv"
        more = MORE.split(";") if name == "MultinomialNB" else ()
        for line in (f"train {source} m --estimator {name} --quiet", answers, f"evaluate m {source}", *more):
            main(line.split(), standalone_mode=False)
    return compilations.n - before


@click.command()
def warmup() -> None:
    """Compile the kernels of all estimators, on all cores. Later commands then start faster."""
    names = dict.fromkeys(["MultinomialNB", *LONGEST, "ManyClassNB", *ESTIMATORS])
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as pool:
        click.echo(f"compiled {sum(pool.map(compile_for, names))} functions")
