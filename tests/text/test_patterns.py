"""Words and signs: every sign is in a token, and kernels find the tokens of the expression that exports have."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sdem_dist import MultinomialNB
from sdem_dist.text import VectorizerSettings, count_texts
from sdem_dist.text.patterns import expression_of, token_spans

EXPRESSION = expression_of("words+signs")
SIGNS = VectorizerSettings(lowercase=False)
FAMILY, THUMB, HEART = "👨\u200d👩\u200d👧", "👍🏽", "❤️\u200d🔥"
ODD = [*"ab19.,!#_ \n\x00éß你かส한٣“№😀👍", *"\u200d\u200c\u0301\ufe0f\u0e31\u00ad\ufeff\u20e3\u3000\ud800\u1100\u093f"]
ODD += ["\U0001f3fd", "\U0001f1e9", "\U0001f1ea", "\U00010000", "\U000e0100", FAMILY]


@pytest.mark.parametrize(("text", "tokens"), [
    ("Don't pay 3,000.50 for x1.5!", ["Don", "'", "t", "pay", "3,000.50", "for", "x1.5", "!"]),
    ("a 5% I :-) ... 1. .5", ["a", "5", "%", "I", ":", "-", ")", ".", ".", ".", "1", ".", ".", "5"]),
    ("你好, 読む ไทย 한국어", ["你", "好", ",", "読", "む", "ไ", "ท", "ย", "한국어"]),
    ("हिन्दी e\u0301te\u0301 สั می\u200cخو", ["हिन्दी", "e\u0301te\u0301", "สั", "می\u200cخو"]),
    (f"{FAMILY}{THUMB}{HEART}🇩🇪🇫🇷🇩!", [FAMILY, THUMB, HEART, "🇩🇪", "🇫🇷", "🇩", "!"]),
])  # fmt: skip
def test_examples(text, tokens):
    assert [text[a:b] for a, b in token_spans(SIGNS.token_pattern, text)] == tokens
    counts, vocabulary = count_texts([text], SIGNS)
    assert {word: counts[0, k] for k, word in enumerate(vocabulary)} == {t: tokens.count(t) for t in tokens}


@settings(max_examples=120, deadline=None)
@given(st.lists(st.lists(st.sampled_from(ODD)).map("".join) | st.text(), min_size=1, max_size=4))
@example(["\u200d\u200d!a\u200d!", "1.2.3,x", ".,1,"])
def test_kernels_find_what_the_expression_matches_and_leave_out_only_spaces_and_controls(texts):
    counts, vocabulary = count_texts(texts, SIGNS)
    for row, text in zip(counts.toarray(), texts, strict=True):
        tokens = re.findall(EXPRESSION, text)
        assert {vocabulary[k]: row[k] for k in row.nonzero()[0]} == {token: tokens.count(token) for token in tokens}
        assert re.fullmatch(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]*", re.sub(EXPRESSION, "", text))


def test_new_texts_of_a_language_without_spaces_are_known_by_default():
    good, bad = ["我很喜欢这个房间", "房间干净,服务很好", "很好很喜欢"], ["房间很脏", "服务差,不喜欢", "又脏又差"]
    model = MultinomialNB(random_state=0).fit((good + bad) * 4, [1, 1, 1, 0, 0, 0] * 4)
    assert model.predict(["喜欢这里的服务,干净", "脏,太差"]).tolist() == [1, 0]
