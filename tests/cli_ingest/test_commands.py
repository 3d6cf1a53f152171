"""``sdem ingest`` and ``sdem inspect`` as a user meets them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from sdem_dist.cli import main
from sdem_dist.cli.ingest import ingest
from sdem_dist.cli.inspect import inspect_command
from sdem_dist.corpus import open_corpus
from sdem_dist.text import VectorizerSettings

LINES = "acq\tthe bank was bought\nearn\tthe banks earned more\nacq\tmerger called off\n" * 20


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs.tsv").write_text(LINES)
    return tmp_path


def run(command, *arguments: str):
    return CliRunner().invoke(main, [command.name, *arguments], catch_exceptions=False)


def test_ingest_and_inspect(folder):
    result = run(ingest, "docs.tsv", "c", "--min-df", "0.1", "--max-df", "50", "--stop-words", "english", "--jobs", "1")
    assert result.exit_code == 0 and "c: 60 documents, 2 classes, 6 features" in result.stdout
    assert open_corpus("c").vocabulary() == ["bank", "banks", "bought", "called", "earned", "merger"]
    shown = run(inspect_command, "c")
    assert shown.exit_code == 0
    for said in ("60", "acq", "66.7%", "33.3%", "bytes a nonzero", "min_df: 0.1", "docs.tsv", "The one shard is sound"):
        assert said in shown.stdout


def test_every_option_reaches_the_settings(folder):
    (folder / "stop").write_text("was off")
    options = "--token-pattern [a-z]+ --ngrams 1,2 --keep-case --strip-accents ascii --max-features 5"
    options += " --stem english --stop-words stop --min-df 2 --max-df 0.9 --shard-documents 10"
    assert run(ingest, "docs.tsv", "c", *options.split()).exit_code == 0
    header = open_corpus("c").header
    assert len(header.shards) == 6
    assert VectorizerSettings.from_json(header.vectorizer) == VectorizerSettings(
        token_pattern="[a-z]+",
        ngram_range=(1, 2),
        lowercase=False,
        strip_accents="ascii",
        max_features=5,
        stem="english",
        stop_words=("was", "off"),
        min_df=2,
        max_df=0.9,
    )
    assert run(ingest, "docs.tsv", "h", "--hashing", "64", "--analyzer", "char", "--ngrams", "2").exit_code == 0
    assert VectorizerSettings.from_json(open_corpus("h").header.vectorizer) == VectorizerSettings(
        kind="hashing", n_features=64, analyzer="char", ngram_range=(2, 2)
    )


def test_held_out_and_test_sets(folder):
    result = run(ingest, "docs.tsv", "c/", "--held-out", "0.25", "--seed", "3")
    held = open_corpus("c-held-out")
    assert f"c-held-out: {held.n_documents} documents held out" in result.stdout
    assert held.n_documents + open_corpus("c").n_documents == 60
    assert run(ingest, "docs.tsv", "t", "--vocabulary-from", "c").exit_code == 0
    assert open_corpus("t").header.vocabulary_hash == held.header.vocabulary_hash
    refused = run(ingest, "docs.tsv", "u", "--vocabulary-from", "c", "--min-df", "2")
    assert refused.exit_code == 2 and "so --min-df cannot be given" in refused.stderr


def test_no_corpus_appears_beside_what_was_held_out_from_another(folder):
    assert run(ingest, "docs.tsv", "c", "--held-out", "0.25").exit_code == 0
    before = {name: open_corpus(name).header.uid for name in ("c", "c-held-out")}
    result = run(ingest, "docs.tsv", "c", "--overwrite")
    assert result.exit_code == 1 and "c-held-out was held out from an earlier c" in result.stderr
    assert {name: open_corpus(name).header.uid for name in before} == before
    assert run(ingest, "docs.tsv", "c", "--overwrite", "--held-out", "0.5").exit_code == 0
    assert open_corpus("c").n_documents + open_corpus("c-held-out").n_documents == 60
    result = run(ingest, "docs.tsv", "c", "--held-out", "0.5")
    assert result.exit_code == 1 and "c and c-held-out exist already" in result.stderr


def test_a_corpus_without_known_words_is_warned_of(folder):
    (folder / "foreign.tsv").write_text("acq\tla banque\nearn\tles gains\n")
    run(ingest, "docs.tsv", "c")
    result = run(ingest, "foreign.tsv", "t", "--vocabulary-from", "c")
    assert result.exit_code == 0 and "Warning: no document has a known word" in result.stderr


def test_errors_are_sentences(folder):
    (folder / "bad.tsv").write_text("acq\tbanks\nno tab\n")
    result = run(ingest, "bad.tsv", "c")
    assert result.exit_code == 1 and result.stderr.startswith("Error: bad.tsv, line 2: there is no TAB")
    result = run(ingest, "bad.tsv", "c", "--on-error", "skip")
    assert result.exit_code == 0 and "1 bad line left out" in result.stderr
    result = run(ingest, "docs.tsv", "c")
    assert result.exit_code == 1 and "c exists already" in result.stderr
    assert run(ingest, "docs.tsv", "c", "--overwrite").exit_code == 0
    for refused, message in (
        ("--min-df 1.5", "min_df is a whole number"),
        ("--ngrams 3,1", "ngram_range is two lengths"),
        ("--analyzer char --stem english", "stem does not apply to analyzer 'char'"),
        ("--hashing 8 --max-df 2", "max_df does not apply to kind 'hashing'"),
        ("--held-out 2", "held_out is a fraction"),
    ):
        result = run(ingest, "docs.tsv", "d", *refused.split())
        assert result.exit_code == 1 and message in result.stderr
    for option, value in (("--ngrams", "x"), ("--min-df", "few"), ("--stop-words", "absent")):
        assert run(ingest, "docs.tsv", "d", option, value).exit_code == 2
    result = run(inspect_command, "absent")
    assert result.exit_code == 1 and result.stderr.startswith("Error: ")
    assert sorted(p.name for p in folder.iterdir()) == ["bad.tsv", "c", "docs.tsv"]


def test_an_interrupt_ends_with_130_and_leaves_nothing(folder, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("sdem_dist.text.counting.save_block", interrupted)
    result = run(ingest, "docs.tsv", "c", "--jobs", "1")
    assert result.exit_code == 130 and "nothing was written" in result.stderr
    assert [p.name for p in folder.iterdir()] == ["docs.tsv"]


def test_inspect_names_a_damaged_shard(folder):
    run(ingest, "docs.tsv", "c", "--shard-documents", "20")
    victim = next(p for p in sorted(Path("c/shards/00001/data").rglob("*")) if p.is_file() and p.name != "zarr.json")
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 0xFF
    victim.write_bytes(content)
    result = run(inspect_command, "c")
    assert result.exit_code == 1 and "damaged:" in result.stderr and "shard 1" in result.stderr
    assert run(inspect_command, "c", "--no-check").exit_code == 0


def test_names_from_data_are_not_markup(folder):
    (folder / "odd.tsv").write_text("[red]\tone two\n[/]\tthree four\n")
    assert run(ingest, "odd.tsv", "c").exit_code == 0
    shown = run(inspect_command, "c")
    assert shown.exit_code == 0 and "[red]" in shown.stdout and "[/]" in shown.stdout


def test_help_shows_every_option(folder):
    shown = run(ingest, "--help").stdout
    options = [p for p in ingest.params if p.param_type_name == "option"]
    for option in options:
        assert option.opts[0] in shown.replace("\n", "").replace("-  ", "-")
    assert "Examples:" in shown


def test_a_terminal_sees_a_bar(folder, monkeypatch):
    from rich.console import Console

    from sdem_dist.cli.ingest_report import shown_progress

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(Console, "is_terminal", True)
    with shown_progress() as progress:
        progress("counting", 10, None)
        progress("writing", 10, 20)
        progress("writing", 20, 20)
