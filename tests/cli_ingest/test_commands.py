"""``sdem ingest`` and ``sdem inspect`` as a user meets them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.commands import ok, refused, run

from sdem_dist.cli.ingest import ingest
from sdem_dist.corpus import open_corpus
from sdem_dist.text import VectorizerSettings

LINES = "acq\tthe bank was bought\nearn\tthe banks earned more\nacq\tmerger called off\n" * 20


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs.tsv").write_text(LINES)
    return tmp_path


def ingested(options: str = "", corpus: str = "c") -> str:
    return ok("ingest", "docs.tsv", corpus, *options.split())


def test_ingest_and_inspect(folder):
    said = ingested("--min-df 0.1 --max-df 50 --stop-words english --jobs 1")
    assert "c: 60 documents, 2 classes, 6 features" in said
    assert open_corpus("c").vocabulary() == ["bank", "banks", "bought", "called", "earned", "merger"]
    shown = ok("inspect", "c")
    for fact in ("60", "acq", "66.7%", "33.3%", "bytes a nonzero", "min_df: 0.1", "docs.tsv", "The one shard is sound"):
        assert fact in shown


def test_every_option_reaches_the_settings(folder):
    (folder / "stop").write_text("was off")
    options = "--token-pattern [a-z]+ --ngrams 1,2 --keep-case --strip-accents ascii --max-features 5"
    ingested(f"{options} --stem english --stop-words stop --min-df 2 --max-df 0.9 --shard-documents 10")
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
    ingested("--hashing 64 --analyzer char --ngrams 2", "h")
    assert VectorizerSettings.from_json(open_corpus("h").header.vectorizer) == VectorizerSettings(
        kind="hashing", n_features=64, analyzer="char", ngram_range=(2, 2)
    )


def test_held_out_and_test_sets(folder):
    said = ingested("--held-out 0.25 --seed 3", "c/")
    held = open_corpus("c-held-out")
    assert f"c-held-out: {held.n_documents} documents held out" in said
    assert held.n_documents + open_corpus("c").n_documents == 60
    ingested("--vocabulary-from c", "t")
    assert open_corpus("t").header.vocabulary_hash == held.header.vocabulary_hash
    said = refused("ingest", "docs.tsv", "u", "--vocabulary-from", "c", "--min-df", "2", code=2)
    assert "so --min-df cannot be given" in said


def test_no_corpus_appears_beside_what_was_held_out_from_another(folder):
    ingested("--held-out 0.25")
    before = {name: open_corpus(name).header.uid for name in ("c", "c-held-out")}
    assert "c-held-out was held out from an earlier c" in refused("ingest", "docs.tsv", "c", "--overwrite")
    assert {name: open_corpus(name).header.uid for name in before} == before
    ingested("--overwrite --held-out 0.5")
    assert open_corpus("c").n_documents + open_corpus("c-held-out").n_documents == 60
    assert "c and c-held-out exist already" in refused("ingest", "docs.tsv", "c", "--held-out", "0.5")


def test_a_corpus_without_known_words_is_warned_of(folder):
    (folder / "foreign.tsv").write_text("acq\tla banque\nearn\tles gains\n")
    ingested()
    said = run("ingest", "foreign.tsv", "t", "--vocabulary-from", "c")
    assert said.exit_code == 0 and "Warning: no document has a known word" in said.stderr


MISTAKES = [
    (1, "--min-df 1.5", "min_df is a whole number"),
    (1, "--ngrams 3,1", "ngram_range is two lengths"),
    (1, "--analyzer char --stem english", "stem does not apply to analyzer 'char'"),
    (1, "--hashing 8 --max-df 2", "max_df does not apply to kind 'hashing'"),
    (1, "--held-out 2", "held_out is a fraction"),
    (2, "--ngrams x", "--ngrams"),
    (2, "--min-df few", "--min-df"),
    (2, "--stop-words absent", "--stop-words"),
]


def test_errors_are_sentences(folder):
    (folder / "bad.tsv").write_text("acq\tbanks\nno tab\n")
    assert refused("ingest", "bad.tsv", "c").startswith("Error: bad.tsv, line 2: there is no TAB")
    said = run("ingest", "bad.tsv", "c", "--on-error", "skip")
    assert said.exit_code == 0 and "1 bad line left out" in said.stderr
    assert "c exists already" in refused("ingest", "docs.tsv", "c")
    ingested("--overwrite")
    for code, options, message in MISTAKES:
        assert message in refused("ingest", "docs.tsv", "d", *options.split(), code=code)
    assert refused("inspect", "absent").startswith("Error: ")
    assert sorted(p.name for p in folder.iterdir()) == ["bad.tsv", "c", "docs.tsv"]


def test_an_interrupt_ends_with_130_and_leaves_nothing(folder, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("sdem_dist.text.counting.save_block", interrupted)
    assert "nothing was written" in refused("ingest", "docs.tsv", "c", "--jobs", "1", code=130)
    assert [p.name for p in folder.iterdir()] == ["docs.tsv"]


def test_inspect_names_a_damaged_shard(folder):
    ingested("--shard-documents 20")
    victim = next(p for p in sorted(Path("c/shards/00001/data").rglob("*")) if p.is_file() and p.name != "zarr.json")
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 0xFF
    victim.write_bytes(content)
    said = refused("inspect", "c")
    assert "damaged:" in said and "shard 1" in said
    ok("inspect", "c", "--no-check")


def test_names_from_data_are_not_markup(folder):
    (folder / "odd.tsv").write_text("[red]\tone two\n[/]\tthree four\n")
    ok("ingest", "odd.tsv", "c")
    shown = ok("inspect", "c")
    assert "[red]" in shown and "[/]" in shown


def test_help_shows_every_option():
    shown = ok("ingest", "--help")
    for option in ingest.params:
        if option.param_type_name == "option":
            assert option.opts[0] in shown.replace("\n", "").replace("-  ", "-")
    assert "Examples:" in shown


def test_a_terminal_sees_a_bar(monkeypatch):
    from rich.console import Console

    from sdem_dist.cli.console import ingest_progress

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(Console, "is_terminal", True)
    with ingest_progress() as progress:
        progress("counting", 10, None)
        progress("writing", 10, 20)
        progress("writing", 20, 20)
