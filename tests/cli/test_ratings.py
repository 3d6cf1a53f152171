"""Corpora with targets and their regressors on the command line."""

from __future__ import annotations

from cli.commands import ok, refused

from sdem_dist import open_corpus


def test_ratings_from_text_to_predictions(tmp_path):
    lines = [
        f"{1 + 4 * (i % 2)}\t{'bad dull' if i % 2 == 0 else 'good bright'} film number {i % 7}" for i in range(120)
    ]
    (tmp_path / "stars.tsv").write_text("\n".join(lines))
    corpus, model = str(tmp_path / "stars.zarr"), str(tmp_path / "stars.model")
    assert "120 documents, targets" in ok("ingest", tmp_path / "stars.tsv", corpus, "--targets")
    test = str(tmp_path / "test.zarr")
    ok("ingest", tmp_path / "stars.tsv", test, "--vocabulary-from", corpus)
    assert sorted(set(open_corpus(test).read(0, 120).targets[:, 0])) == [1.0, 5.0]
    options = ("--estimator", "SupervisedLDARegressor", "--set", "n_components=3", "--set", "batch_size=10")
    assert "; held-out documents: R2" in ok(
        "train", corpus, model, *options, "--epochs", "30", "--quiet", "--validation", test
    )
    assert "R2" in ok("evaluate", model, test)
    (tmp_path / "new.txt").write_text("good bright film\nbad dull film\n")
    high, low = (float(line) for line in ok("predict", model, tmp_path / "new.txt").split())
    assert high > low + 1.0


def test_targets_are_numbers(tmp_path):
    (tmp_path / "stars.tsv").write_text("3\tgood\nmany\tbad\nnan\tbad\n-2.5\tfair\n")
    said = refused("ingest", tmp_path / "stars.tsv", tmp_path / "c.zarr", "--targets")
    assert "line 2: the label 'many' is not a finite number" in said
    ok("ingest", tmp_path / "stars.tsv", tmp_path / "c.zarr", "--targets", "--on-error", "skip")
    corpus = open_corpus(tmp_path / "c.zarr")
    assert sorted(corpus.read(0, 2).targets[:, 0]) == [-2.5, 3.0]
    assert not corpus.header.classes
