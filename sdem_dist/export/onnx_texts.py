"""From texts to counts in ONNX, by the operators of onnxruntime that cut texts into words."""

import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from sdem_dist.text.vectorizer import TOKEN_PATTERN, VectorizerSettings, stopped_words

DOMAIN = "com.microsoft"  # of the operator that cuts texts, which only onnxruntime has
LOCALE = "C.UTF-8"
"""Of the operator for lower case. It must be there where the file is used; most Linux systems have it, Windows not."""
PADDING = "#"
"""No word: fills the rows of texts that are shorter than others."""


def why_not_texts(settings: VectorizerSettings | None) -> str:
    """Return why no operator counts texts as these settings do; empty where operators can.

    Operators count as the settings do, but for two letters: İ (U+0130), which Python lowers to two letters, and a
    capital sigma at the end of a word, which Python lowers to another letter than elsewhere.
    """
    if settings is None or settings.kind == "matrix":
        return "the model was trained on counts"
    several = settings.ngram_range[1] > 1
    obstacles = {
        "no operator hashes words as the model does": settings.kind == "hashing",
        "no operator stems words": settings.stem is not None,
        "no operator cuts texts into n-grams of characters as the model does": settings.analyzer != "word",
        "no operator strips accents": settings.strip_accents is not None,
        "the token pattern is not the default one, and operators know other regular expressions than Python's": (
            settings.token_pattern != TOKEN_PATTERN
        ),
        "no operator leaves stop words out before it makes n-grams": several and bool(stopped_words(settings)),
    }
    return next((said for said, there in obstacles.items() if there), "")


def text_nodes(helper: Any, settings: VectorizerSettings, vocabulary: Sequence[str]) -> list[Any]:
    """Return the nodes from ``texts`` to ``counts``; `helper` is that of the package onnx."""
    nodes, texts = [], "texts"
    if settings.lowercase:
        lowered = {"case_change_action": "LOWER", "is_case_sensitive": 1, "locale": LOCALE}
        nodes.append(helper.make_node("StringNormalizer", [texts], ["lowered"], **lowered))
        texts = "lowered"
    cut = {"tokenexp": f"[{word_characters()}]{{2,}}", "mincharnum": 1, "mark": 0, "pad_value": PADDING}
    nodes.append(helper.make_node("Tokenizer", [texts], ["words"], domain=DOMAIN, **cut))
    grams = sorted(((term.split(" "), column) for column, term in enumerate(vocabulary)), key=lambda g: len(g[0]))
    longest = max((len(gram) for gram, _ in grams), default=1)
    sizes = [sum(len(gram) for gram, _ in grams if len(gram) < n) for n in range(1, longest + 1)]
    counted = {
        "mode": "TF",
        "min_gram_length": min((len(gram) for gram, _ in grams), default=1),
        "max_gram_length": longest,
        "max_skip_count": 0,
        "ngram_counts": sizes,
        "ngram_indexes": [column for _, column in grams],
        "pool_strings": [word for gram, _ in grams for word in gram],
    }
    nodes.append(helper.make_node("TfIdfVectorizer", ["words"], ["single_counts"], **counted))
    nodes.append(helper.make_node("Cast", ["single_counts"], ["counts"], to=11))  # to double
    return nodes


@lru_cache(1)
def word_characters() -> str:
    r"""Return the letters that Python's ``\w`` matches, as ranges of a class of RE2, whose own ``\w`` is ASCII only."""
    is_word = re.compile(r"\w").match
    letters = (code for code in range(sys.maxunicode + 1) if is_word(chr(code)))
    runs = (list(run) for _, run in groupby(enumerate(letters), lambda pair: pair[1] - pair[0]))
    return "".join(rf"\x{{{run[0][1]:x}}}-\x{{{run[-1][1]:x}}}" for run in runs)
