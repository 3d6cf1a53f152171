"""Token patterns: those of the library regex are taken; one that takes for ever on a text ends in an error."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from sdem_dist import MultinomialNB
from sdem_dist.cli import main
from sdem_dist.text import VectorizerSettings, count_texts, ingest
from sdem_dist.text import vectorizer as patterns

SLOW = [r"(a|aa)+$", r"(?:a|aa)+$"]
TEXT = "a" * 60 + "!"


@pytest.fixture(autouse=True)
def little_time(monkeypatch):
    monkeypatch.setattr(patterns, "TEXT_SECONDS", 0.05)


@pytest.mark.parametrize("pattern", SLOW)
def test_a_pattern_that_takes_for_ever_ends_in_an_error(pattern, tmp_path):
    settings = VectorizerSettings(token_pattern=pattern)
    texts, labels = ["a", "aa x", "a", "x aa"], [0, 1, 0, 1]
    model = MultinomialNB(vectorizer=settings).fit(texts, labels)
    (tmp_path / "s.tsv").write_text(f"one\ta x\ntwo\t{TEXT}\n")
    for hangs in (
        lambda: count_texts([TEXT], settings),
        lambda: ingest(tmp_path / "s.tsv", tmp_path / "c", settings),
        lambda: model.predict([TEXT]),
        lambda: model.explain([TEXT]),
    ):
        with pytest.raises(patterns.PatternError) as slow:
            hangs()
        assert slow.value.pattern == pattern
        assert pattern in str(slow.value)


def test_a_pattern_that_holds_itself_ends_in_an_error():
    with pytest.raises(patterns.PatternError):
        count_texts(["a"], VectorizerSettings(token_pattern=r"(?:(?R)|a)+"))


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("predict", []),
        ("predict", ["--workers", "1"]),
        ("evaluate", []),
        ("evaluate", ["--workers", "1"]),
        ("report", ["-o", "report.html"]),
        ("explain", []),
    ],
)
def test_the_command_names_pattern_and_model(command, options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = MultinomialNB(vectorizer=VectorizerSettings(token_pattern=SLOW[0])).fit(["a", "aa"], [0, 1])
    model.save(tmp_path / "slow.model")
    (tmp_path / "new.tsv").write_text(f"0\t{TEXT}\n")
    (tmp_path / "new.txt").write_text(f"{TEXT}\n")
    documents = {"predict": str(tmp_path / "new.txt"), "explain": TEXT}.get(command, str(tmp_path / "new.tsv"))
    result = CliRunner().invoke(main, [command, str(tmp_path / "slow.model"), documents, *options])
    assert result.exit_code == 1
    assert str(tmp_path / "slow.model") in result.output
    assert SLOW[0] in result.output


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"(?u)\b\w\w+\b", ["naïve", "over", "the", "top"]),
        (r"\S+", ["A", "naïve,", "over-the-top", "#9!"]),
        (r"(?:\w+-)*\w+", ["A", "naïve", "over-the-top", "9"]),
        (r"[a-z]+(?:'[a-z]+)?", ["na", "ve", "over", "the", "top"]),
        (r"\b(\w)\w+", ["n", "o", "t", "t"]),
        (r"\p{L}{2,}", ["naïve", "over", "the", "top"]),
        (r"(?:a+)+b|\d", ["9"]),
    ],
)
def test_patterns_that_people_use(pattern, words):
    settings = VectorizerSettings(token_pattern=pattern, lowercase=False)
    counts, found = count_texts(["A naïve, over-the-top #9!"], settings)
    assert sorted(words) == [word for word, n in zip(found, counts.toarray()[0], strict=True) for _ in range(n)]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("token_pattern", 3),
        ("token_pattern", "a" * 1001),
        ("token_pattern", "a{1,99999999999999}"),
        ("token_pattern", "(?:(?:a{1000}){1000}){1000}"),
        ("token_pattern", "(a)(b)"),
        ("token_pattern", "a)"),
        ("lowercase", "yes"),
        ("ngram_range", 2),
        ("ngram_range", ["1", "2"]),
        ("stop_words", {"a": 1}.get),
        ("stop_words", [1, 2]),
        ("stem", 5),
    ],
)
def test_values_of_a_wrong_kind_are_named(setting, value):
    with pytest.raises(ValueError, match=setting):
        VectorizerSettings(**{setting: value})
