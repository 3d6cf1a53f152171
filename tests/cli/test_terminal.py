"""What people see: help, odd letters, a pipe that ends, Ctrl-C, a full disk, no memory; and a demo from nothing."""

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from cli.commands import ok, refused, run

from sdem_dist import MultinomialNB, __version__, load_model, open_corpus, write_corpus
from sdem_dist.cli.ingest import ingest as ingest_command
from sdem_dist.cli.options import READING, WORDS
from sdem_dist.counted import visible
from sdem_dist.text import Reading, VectorizerSettings

COMMAND = "import sys; from sdem_dist.cli import main; sys.argv[0] = 'sdem'; main()"
ODD = "\x1b]0;owned\x07\x1b[31mred\x9b2J\u202e"


def shell(arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``sdem ARGUMENTS`` in a shell, where the arguments may go on with a pipe."""
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$0" -c "$1" {arguments}', sys.executable, COMMAND],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip


def test_help_and_version():
    shown = ok("--help")
    assert all(name in shown for name in ("demo", "ingest", "inspect", "train", "evaluate", "predict"))
    assert __version__ in ok("--version")
    shown, page = " ".join(ok("train --help").split()), " ".join(ok("help reading").split())
    assert "--token-pattern" in page and "Text encoding" in page and "Text encoding" not in shown
    assert "sdem help reading" in shown
    assert ok("help train").splitlines()[2:] == ok("train --help").splitlines()[2:]
    ran = subprocess.run([sys.executable, "-m", "sdem_dist", "--help"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("Usage: sdem ")


def test_help_shows_every_option():
    shown = ok("ingest --help").replace("\n", "").replace("-  ", "-")
    assert all(o.opts[0] in shown for o in ingest_command.params if o.param_type_name == "option")
    assert "Examples:" in shown
    assert set(READING) == {"on_error", *(field.name for field in fields(Reading))}
    assert set(WORDS) <= {field.name for field in fields(VectorizerSettings)}


def test_control_characters_are_made_visible():
    assert visible(ODD) == r"\x1b]0;owned\x07\x1b[31mred\x9b2J\u202e"
    assert visible("a\tb\nc\r\ud800é😀") == "a\tb\nc\\r\\ud800é😀"


def test_no_control_character_of_data_reaches_a_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    y, words, counted = np.array([ODD, "b"] * 10, object), ["w0", ODD, "w2", "w3"], {"kind": "count", "stem": ODD}
    corpus = write_corpus("c", np.eye(4)[np.arange(20) % 4], y, vocabulary=words, vectorizer=counted)
    model = MultinomialNB(n_epochs=1).fit(corpus)
    model.vectorizer_ = {"kind": "count"}
    model.save("m")
    Path("t.txt").write_text("w0\n")
    Path("bad.tsv").write_text(f"{ODD}\n")
    started = '{"event": "StageStarted", "monitored": true}\n'
    Path("events").write_text(started + '{"event": "EpochEnded", "epoch": 0, "stage": "\\u001b[31m[red]"}')
    for command, *more in (
        ["inspect c"], ["inspect m"], ["predict m t.txt"], ["evaluate m c"], ["ingest bad.tsv d"],
        ["ingest bad.tsv d --label", ODD], ["inspect", ODD], ["log events"], ["train c n --set", f"{ODD}=1"],
        ["suspects c --folds 2"], ["help", ODD],
    ):  # fmt: skip
        result = run(command, *more)
        assert isinstance(result.exception, SystemExit | None), result.exception
        shown = result.stdout + result.stderr
        assert shown and not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown), command


def test_a_terminal_has_a_bar_while_texts_are_counted(desk, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = run("ingest plain.tsv bar.zarr").stderr
    assert "documents" in shown and "━" in shown
    hidden, again = (shown.count(f"\x1b[?25{letter}") for letter in "lh")
    assert hidden == again > 0
    assert "━" not in run("ingest plain.tsv quiet.zarr --quiet").stderr


def test_a_pipe_that_ends(desk):
    Path("many.txt").write_text("good word1\nbad word2\n" * 20_000)
    done = shell("predict plain.model many.txt --jobs 1 | head -n 1")
    assert "\t" in done.stdout and done.stderr == "" and done.returncode in (0, 141)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", ["predict plain.model plain.tsv --jobs 1", "inspect posts.zarr"])
def test_a_full_device(shelf, arguments):
    done = shell(f"{arguments} >/dev/full")
    assert done.returncode == 1
    assert done.stderr == "Error: the output cannot be written: No space left on device\n"


def test_letters_that_the_terminal_does_not_have(desk):
    Path("docs.tsv").write_text("😀\tgood fine\nb\tbad sad\n" * 20, encoding="utf-8")
    ok("train docs.tsv m --epochs 1 --quiet")
    Path("t.txt").write_text("good\n")
    done = shell("predict m t.txt", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and r"\U0001f600" in done.stdout, done.stderr


FAILURES = [
    (MemoryError("Unable to allocate 59.6 GiB"), "", 1, ["not enough memory", "59.6 GiB"]),
    (KeyboardInterrupt(), "", 130, ["no checkpoint was saved"]),
    (KeyboardInterrupt(), "--checkpoint run", 130, ["--resume continues from the latest"]),
]


@pytest.mark.parametrize(("failure", "options", "code", "said"), FAILURES)
def test_what_stops_a_training_is_said(desk, monkeypatch, failure, options, code, said):
    def fit(*args, **more):
        raise failure

    monkeypatch.setattr(MultinomialNB, "fit", fit)
    shown = refused(f"train posts.zarr m {options}", code=code)
    assert all(words in shown for words in said) and "Aborted" not in shown
    assert ("no checkpoint was saved" in shown) == (code == 130 and not options)


def test_errors_that_look_like_others_are_told_apart(shelf, monkeypatch):
    def broken(*args, **more):
        raise BrokenPipeError(32, "a connection")

    def interrupted(*args, **more):  # as Python reports it where a compiled call returns
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr("sdem_dist.corpus.open_corpus", broken)
    result = run("inspect posts.zarr")
    assert result.exit_code == 1 and "the output" not in result.output
    monkeypatch.setattr("sdem_dist.corpus.open_corpus", interrupted)
    assert refused("inspect posts.zarr", code=130).strip() == "Interrupted."


@pytest.mark.slow
def test_demo_end_to_end(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", "from sdem_dist.cli import main; main()", "demo"],
        cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    folder = tmp_path / "sdem-demo"
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    test = open_corpus(folder / "test.zarr")
    assert len(test.header.classes) == 3
    for loss in ("nll", "ncll", "hinge"):
        accuracy = load_model(folder / f"{loss}.model").evaluate(test)["accuracy"]
        assert accuracy > 0.7 and f"{accuracy:.4f}" in result.stdout and loss.upper() in result.stdout
    said = ["accuracy", "hinge loss", "On the test documents", "indicative words", "sdem predict"]
    assert [words for words in said if words not in result.stdout] == []
