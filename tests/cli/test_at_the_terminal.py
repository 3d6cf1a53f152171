"""What people see: of files that are not texts, of odd letters, of a pipe that ends, of Ctrl-C, of what they mistype."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli.commands import ok, refused, run

from sdem_dist import MultinomialNB, load_model, open_corpus, write_corpus
from sdem_dist.cli.console import table
from sdem_dist.counted import visible

COMMAND = "import sys; from sdem_dist.cli import main; sys.argv[0] = 'sdem'; main()"
ODD = "\x1b]0;owned\x07\x1b[31mred\x9b2J\u202e"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("terminal")
    lines = "".join(f"{'ab'[i % 2]}\t{('good fine', 'bad sad')[i % 2]} word{i % 7}\n" for i in range(80))
    (folder / "docs.tsv").write_text(lines)
    ok("ingest", folder / "docs.tsv", folder / "docs.zarr", "--jobs", "1")
    ok("train", folder / "docs.zarr", folder / "docs.model", "--epochs", "2", "--quiet")
    return folder


def shell(folder: Path, arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``sdem ARGUMENTS`` in a shell, where the arguments may go on with a pipe."""
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$0" -c "$1" {arguments}', sys.executable, COMMAND],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip


@pytest.mark.parametrize("name", ["t.json", "t.npz", "t.svmlight"])
def test_predict_refuses_what_is_no_text_and_says_what_to_do(made, name, tmp_path):
    (tmp_path / name).write_text('label,text\na,"good\nfine"\n')
    for more in ((), ("--text-column", "1")):
        said = refused("predict", made / "docs.model", str(tmp_path / name), *more)
        assert f"{name} is " in said and any(way in said for way in (".jsonl", "sdem ingest", "write_corpus"))


def test_predict_takes_lines_of_label_and_text_as_ingest_does(made):
    for more in ((), ("--text-column", "1"), ("--text", "1")):
        assert ok("predict", made / "docs.model", made / "docs.tsv", *more, "--no-proba") == "a\nb\n" * 40


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("report", "docs.model", "docs.zarr", "-o", "s3://bucket/page.html"), "is a URL"),
        (("demo", "--folder", "s3://bucket/demo"), "is a URL"),
        (("predict", "docs.model", "https://example.org/texts.txt"), "URLs begin with s3://"),
        (("train", "docs.zarr", "ftp://bucket/m"), "URLs begin with s3://"),
    ],
)
def test_urls_where_paths_belong(made, arguments, words, monkeypatch):
    monkeypatch.chdir(made)
    before = sorted(os.listdir())
    assert words in refused(*arguments, code=2)
    assert sorted(os.listdir()) == before


def test_urls_in_python(made, tmp_path, monkeypatch):
    from sdem_dist import BucketError, ingest

    monkeypatch.chdir(tmp_path)
    corpus = open_corpus(made / "docs.zarr")
    for act in (
        lambda: MultinomialNB(n_epochs=1).fit(corpus, checkpoint="https://b/run"),
        lambda: load_model(made / "docs.model").save("https://b/m"),
        lambda: load_model("https://b/m"),
        lambda: ingest(["https://x/a.csv"], "c"),
    ):
        with pytest.raises(BucketError, match="URLs begin with s3://"):
            act()
    assert os.listdir() == []


def test_control_characters_are_made_visible():
    assert visible(ODD) == r"\x1b]0;owned\x07\x1b[31mred\x9b2J\u202e"
    assert visible("a\tb\nc\r\ud800é😀") == "a\tb\nc\\r\\ud800é😀"
    assert "\x1b" not in table(ODD, [(ODD, "a\nb")])


def test_no_control_character_of_data_reaches_a_terminal(tmp_path):
    y = np.array([ODD, "b"] * 10, object)
    words = ["w0", ODD, "w2", "w3"]
    corpus = write_corpus(
        tmp_path / "c", np.eye(4)[np.arange(20) % 4], y, vocabulary=words, vectorizer={"kind": "count", "stem": ODD}
    )
    model = MultinomialNB(n_epochs=1).fit(corpus)
    model.vectorizer_ = {"kind": "count"}
    model.save(tmp_path / "m")
    (tmp_path / "t.txt").write_text("w0\n")
    (tmp_path / "bad.tsv").write_text(f"{ODD}\n")
    events = '{"event": "StageStarted", "monitored": true}\n{"event": "EpochEnded", "transfer": 0, "epoch": 0, "stage": "%s"}'
    (tmp_path / "log").write_text(events % r"\u001b[31m[red]")
    for arguments in (
        ["inspect", "c"], ["inspect", "m"], ["predict", "m", "t.txt"], ["evaluate", "m", "c"],
        ["ingest", "bad.tsv", "d"], ["ingest", "bad.tsv", "d", "--label", ODD], ["inspect", ODD], ["log", "log"],
        ["train", "c", "n", "--set", f"{ODD}=1"], ["suspects", "c", "--folds", "2"], [ODD],
    ):  # fmt: skip
        result = run(
            *(
                str(tmp_path / a)
                if a in ("c", "m", "t.txt", "bad.tsv", "d", "n") or (a == "log" and a != arguments[0])
                else a
                for a in arguments
            )
        )
        assert not isinstance(result.exception, Exception) or isinstance(result.exception, SystemExit), result.exception
        shown = result.stdout + result.stderr
        assert shown and not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown), arguments


def test_a_pipe_that_ends(made):
    (made / "many.txt").write_text("good word1\nbad word2\n" * 20_000)
    done = shell(made, "predict docs.model many.txt --jobs 1 | head -n 1")
    assert done.stdout.startswith("a\t") and done.stderr == ""
    assert done.returncode in (0, 141)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", ["predict docs.model docs.tsv --text-column 1 --jobs 1", "inspect docs.zarr"])
def test_a_full_device(made, arguments):
    done = shell(made, f"{arguments} >/dev/full")
    assert done.returncode == 1
    assert done.stderr == "Error: the output cannot be written: No space left on device\n"


def test_other_failures_of_the_system_are_not_those_of_the_output(made, tmp_path, monkeypatch):
    def fit(*args, **more):
        raise BrokenPipeError(32, "a connection")

    monkeypatch.setattr(MultinomialNB, "fit", fit)
    result = run("train", made / "docs.zarr", tmp_path / "m")
    assert result.exit_code == 1 and "the output" not in result.output


def test_letters_that_the_terminal_does_not_have(made, tmp_path):
    (tmp_path / "docs.tsv").write_text("😀\tgood fine\nb\tbad sad\n" * 20, encoding="utf-8")
    ok("ingest", tmp_path / "docs.tsv", tmp_path / "c", "--jobs", "1")
    ok("train", tmp_path / "c", tmp_path / "m", "--epochs", "1", "--quiet")
    (tmp_path / "t.txt").write_text("good\n")
    for arguments in ("predict m t.txt", "inspect c", "inspect m"):
        done = shell(tmp_path, arguments, PYTHONIOENCODING="ascii")
        assert done.returncode == 0, done.stderr
        assert r"\U0001f600" in done.stdout or "😀" in done.stdout


def test_what_is_too_large_is_said(made, tmp_path):
    train = ("train", str(made / "docs.zarr"), str(tmp_path / "m"))
    assert "n_lanes is 1,000,000,000, more than" in refused(*train, "--set", "n_lanes=1000000000", code=2)
    assert "nested too deep" in refused(*train, "--set", f"alpha={'[' * 50_000}", code=2)


def test_no_memory(made, tmp_path, monkeypatch):
    def fit(*args, **more):
        raise MemoryError("Unable to allocate 59.6 GiB")

    monkeypatch.setattr(MultinomialNB, "fit", fit)
    said = refused("train", made / "docs.zarr", tmp_path / "m")
    assert "not enough memory" in said and "59.6 GiB" in said


def test_hints(made, tmp_path):
    train = ("train", str(made / "docs.zarr"), str(tmp_path / "m"))
    assert "did you mean train?" in refused("trian", code=2)
    assert "did you mean LDAClassifier" in refused(*train, "--estimator", "LDA", code=2)


def test_a_name_misspelt_in_python_has_a_hint():
    import sdem_dist

    with pytest.raises(AttributeError, match=r"no attribute 'MultinomialNb'\. did you mean MultinomialNB\?"):
        sdem_dist.MultinomialNb  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute '__wrapped__'$"):
        sdem_dist.__wrapped__  # noqa: B018


def test_the_package_runs_as_the_command():
    ran = subprocess.run([sys.executable, "-m", "sdem_dist", "--help"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("Usage: sdem ")


def test_what_is_handed_to_predict_in_the_wrong_order_or_by_name(made):
    model, texts = str(made / "docs.model"), str(made / "docs.tsv")
    assert f"the model comes first: sdem predict {model} {texts}" in refused("predict", texts, model, code=2)
    assert "a column is a number from 0, not 'text'" in refused("predict", model, texts, "--text", "text")


@pytest.mark.parametrize("folder", [None, "run"])
def test_an_interrupt_says_how_to_go_on(made, tmp_path, monkeypatch, folder):
    def fit(*args, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(MultinomialNB, "fit", fit)
    more = () if folder is None else ("--checkpoint", str(tmp_path / folder))
    said = refused("train", made / "docs.zarr", tmp_path / "m", *more, code=130)
    assert "Aborted" not in said
    assert ("--resume goes on from" in said and str(tmp_path / "run") in said) == (folder is not None)
    assert ("nothing of the run was kept" in said) == (folder is None)


def test_an_interrupt_within_a_compiled_call_is_an_interrupt(made, tmp_path, monkeypatch):
    def interrupted(*args, **more):  # as Python reports it where a compiled call returns
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr("sdem_dist.corpus.open_corpus", interrupted)
    assert refused("inspect", made / "docs.zarr", code=130).strip() == "Interrupted."


def test_paths_stay_in_one_piece(tmp_path):
    deep = tmp_path / ("a" * 60) / ("b" * 60)
    deep.mkdir(parents=True)
    corpus = write_corpus(deep / "c", np.eye(4), [0, 1, 0, 1], made_by={"sources": [str(deep / "docs.tsv")]})
    shown = ok("inspect", corpus.path)
    assert corpus.path in shown.splitlines() and str(deep / "docs.tsv") in shown
