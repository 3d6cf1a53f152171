"""Scripts that put no spaces between words, of which the default token pattern makes whole phrases."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

from sdem_dist.text.patterns import KERNEL_PATTERN
from sdem_dist.text.texts import Texts
from sdem_dist.text.vectorizer import VectorizerSettings

_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese; Korean has spaces."""
SAMPLE_TEXTS, SAMPLE_BYTES = 200, 200  # of a block: texts, and bytes of each
MIN_SHARE = 0.3  # of characters
MAX_SPACES = 1 / 8  # for a character of such a script: words have two or three, phrases many


@dataclass
class ScriptSample:
    """Characters of a sample of texts: all, those of scripts without spaces, and spaces."""

    n_characters: int = 0
    n_unspaced: int = 0
    n_spaces: int = 0

    def add(self, texts: Texts) -> None:
        """Take the first of some texts into the sample."""
        for i in range(min(len(texts), SAMPLE_TEXTS)):
            text = texts.bytes_of(i)[:SAMPLE_BYTES].decode("utf-8", "ignore")
            self.n_characters += len(text)
            if not text.isascii():
                self.n_unspaced += len(_UNSPACED.findall(text))
            self.n_spaces += sum(map(str.isspace, text))

    def merge(self, n_characters: int, n_unspaced: int, n_spaces: int) -> None:
        """Take another sample in."""
        self.n_characters += n_characters
        self.n_unspaced += n_unspaced
        self.n_spaces += n_spaces

    def warn(self, settings: VectorizerSettings) -> None:
        """Warn where words are taken from text without spaces, and say what to set."""
        if settings.analyzer != "word" or not KERNEL_PATTERN.fullmatch(settings.token_pattern):
            return
        if self.n_unspaced > MIN_SHARE * self.n_characters and self.n_spaces < MAX_SPACES * self.n_unspaced:
            warnings.warn(
                "there are no spaces between the words of these texts, as in Chinese, Japanese or Thai, so that whole phrases "
                "count as words, and new texts have hardly any of them: count characters (--analyzer char --ngrams 1,2; "
                "analyzer='char', ngram_range=(1, 2)), or put spaces between words first",
                stacklevel=2,
            )
