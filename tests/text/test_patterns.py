"""Token patterns that can take for ever are refused; those that people use are not."""

from __future__ import annotations

import pytest

from sdem_dist.text import VectorizerSettings


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$",
        r"(?:a+)+b",
        r"((?:a+)b*)*$",
        r"(?:\w+\s?)*$",
        r"(?:(?:a+)|b)+$",
        r"(?:\w*)*!",
        r"x(?=(?:a+)+b)",
        r"(?:\b\w+)+$",
    ],
)
def test_a_repeat_of_a_repeat_is_refused(pattern):
    with pytest.raises(ValueError, match="repeats a repeat"):
        VectorizerSettings(token_pattern=pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?u)\b\w\w+\b",
        r"\S+",
        r"(?:\w+-)*\w+",
        r"[a-z]+(?:'[a-z]+)?",
        r"(?:[a-z]|é)+",
        r"#?\w+|[!?]+",
        r"(\w{2,})",
        ".",
    ],
)
def test_patterns_that_people_use_are_taken(pattern):
    assert VectorizerSettings(token_pattern=pattern).token_pattern == pattern


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("token_pattern", 3),
        ("token_pattern", "a" * 1001),
        ("token_pattern", "a{1,99999999999999}"),
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
