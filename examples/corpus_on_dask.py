"""Training on a corpus with two Dask workers, interrupted and resumed: the result has the same bits."""

from __future__ import annotations

import argparse
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

from sdem_dist import MultinomialNB, ingest, open_corpus
from sdem_dist.cluster import connected
from sdem_dist.engine.events import EpochEnded

DATA = Path(__file__).parents[1] / "sdem_dist/data"


def cut_off(event: object) -> None:
    """Simulate a power failure: stop the run in its second epoch, before the checkpoint of that epoch."""
    if isinstance(event, EpochEnded) and event.epoch == 1:
        raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="folder for corpora and checkpoints")
    parser.add_argument("--quick", action="store_true", help="train for three epochs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    train, test, run = (options.out / name for name in ("train.zarr", "test.zarr", "run"))
    ingest(DATA / "speeches-train.csv.xz", train, overwrite=True)
    ingest(DATA / "speeches-test.csv.xz", test, vocabulary_from=train, overwrite=True)

    model = MultinomialNB(loss="hinge", n_epochs=3 if options.quick else 10)
    rmtree(run, ignore_errors=True)
    with connected(n_workers=2) as client:
        try:
            model.fit(open_corpus(train), client=client, checkpoint=run, callbacks=[cut_off])
        except KeyboardInterrupt:
            print("interrupted in epoch 2; checkpoints:", sorted(p.name for p in run.iterdir()))
        model.fit(open_corpus(train), client=client, checkpoint=run, resume=True)
        metrics = model.evaluate(open_corpus(test), client=client)
        print("resumed; test documents:", ", ".join(f"{name} {value:.3f}" for name, value in metrics.items()))

    alone = MultinomialNB(**model.get_params()).fit(open_corpus(train))
    hashes = [sha256(m.feature_log_prob_.tobytes()).hexdigest()[:16] for m in (model, alone)]
    print("SHA-256 of feature_log_prob_, on two workers with an interruption, and in one process without:", *hashes)
    if hashes[0] != hashes[1]:
        raise SystemExit("the two runs differ")


if __name__ == "__main__":
    main()
