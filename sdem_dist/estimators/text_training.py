"""Words weighed before they are learned, and steps in units of the margin: what naive Bayes of words shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.checks import LARGEST
from sdem_dist.engine.plan import MadeByWorkers
from sdem_dist.estimators import parameters as p
from sdem_dist.fitting import defaults
from sdem_dist.fitting.plans import PriorStart, sample, scaled, with_frequencies
from sdem_dist.inputs.spec import Estimator, Source
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners.rules import STEP_OF_COUNTS, STEPS, Merge, StepSizes, margin_steps, paper_steps
from sdem_dist.learners.sdem import SdEM
from sdem_dist.losses import Loss, kernel_form, loss_kind
from sdem_dist.models.heads import Labels, unit_of
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.weighting import Weighting
from sdem_dist.models.word_counts import SdemState


def _are_orders(value: object) -> bool:
    if value is None or not isinstance(value, tuple | list) or len(value) != 2:
        return value is None
    return all(isinstance(n, int | np.integer) for n in value) and 1 <= value[0] <= value[1]


@p.estimator
class TextParams(p.OfText, p.Seeded, Estimator):
    """Parameters of what becomes of counts."""

    _learned: ClassVar[Mapping[str, str]] = {
        "weighting_": "Weighting or None\nWhat becomes of counts; None: nothing.",
        "document_frequency_": "ndarray of shape (n_features,), int64, or None\n"
        "Of the training documents, for the weighting.",
    }

    weighting: str = p.param(
        "auto",
        p.one_of("auto", "counts", "log", "binary", "tfidf"),
        'How counts x are weighted: as they are, ln(1 + x), 1, or sublinear tf-idf with scikit-learn\'s smooth idf. "auto":\n'
        'whole numbers by tf-idf; others, and all with ``loss="nll"``, as they are.',
    )
    norm: str | float | None = p.param(
        "auto",
        p.either(p.one_of("auto", None), p.real(above=True)),
        'Euclidean length of each document; None leaves it as it is. "auto": 10 with tf-idf, logarithms and ones. Where\n'
        'documents keep their length, one factor makes their mean length 10, but with ``steps="paper"`` and "nll".',
    )
    min_df: int = p.param(1, p.integer(), "Words of fewer training documents are left out.")
    ngram_range: tuple[int, int] | None = p.param(
        None,
        p.Constraint("(int, int)", "(shortest, longest), such as (1, 2)", _are_orders),
        "Shortest and longest n-grams, of a corpus that has longer ones. None: all it has.",
    )
    alpha: str | float = p.param(
        "laplace",
        p.either(p.one_of("laplace", "log"), p.real(0, LARGEST)),
        "Pseudo-count of a word: 1 (the paper's P1), ln of the vocabulary's size (P2), or a number. With steps of the\n"
        "margin it grows with the documents that hold the word, to the power 1/8, or 3/8 with logarithms and ones. Its size\n"
        "hardly matters: steps are in its unit.",
    )
    step_decay: float = p.param(1e-5, *p.STEP_DECAY)

    if TYPE_CHECKING:
        loss: str | Loss
        step: float | None
        steps: str
        merge: str

    def _weighed(self, source: Source) -> Source:
        """Return training documents as the parameters ask for them to be weighed.

        Raises ValueError: numbers that are not counts are to be weighed, or n-grams to be chosen that have no names.
        """
        form, norm, orders, characters = self.weighting, self.norm, None, False
        if form == "auto":
            form = "counts" if source.weighted or self.loss == "nll" else "tfidf"
        if source.weighted and form != "counts":
            raise ValueError(
                f"weighting={form!r} is for whole counts, and there are other numbers in {source.name}: leave it at 'auto', "
                "which takes them as they are"
            )
        if norm == "auto":
            norm = None if form == "counts" else defaults.NORM
        if self.ngram_range is not None:
            if source.vocabulary is None:
                raise ValueError("ngram_range chooses among n-grams of a corpus, and these columns have no names")
            orders = int(self.ngram_range[0]), int(self.ngram_range[1])
            characters = str((source.vectorizer or {}).get("analyzer", "word")) != "word"
        plain = form == "counts" and norm is None and self.min_df == 1 and orders is None
        if plain and (self.loss == "nll" or self.steps == "paper"):
            return source
        weighting = Weighting(form, float(norm or 0.0), 1.0, int(self.min_df), orders, characters)
        source = with_frequencies(source, weighting)
        return source if weighting.norm or self.steps != "margin" else scaled(source)

    def _step(self, source: Source, loss: str | Loss) -> float:
        """Return how far a first step moves a mean document's score against a rival's, in the unit of scores."""
        return float(self.step or (STEP_OF_COUNTS if is_unnormalised(source) else STEPS[loss_kind(loss)]))

    def _margin_steps(self, source: Source, model: NaiveBayes, loss: str | Loss) -> tuple[StepSizes, PriorStart]:
        on_disk = isinstance(source.corpus, Corpus)
        start = PriorStart(model, source.corpus, source.weighting, None if on_disk else source.vocabulary)
        unit = unit_of(sample(source), start.prior)
        step, decay = self._step(source, loss), float(self.step_decay)
        return margin_steps(step, unit, model.alpha, model.class_alpha, decay), start


@p.estimator
class TextTrainingParams(TextParams, p.Lanes):
    """Parameters of what becomes of counts, and of how long to train."""

    _learned: ClassVar[Mapping[str, str]] = {
        "history_": "list of dict\n"
        "One entry per epoch: ``epoch``, ``seconds``, ``held_out_accuracy`` and ``held_out_log_loss`` (at the best\n"
        "temperature) of the held-out documents, by the training without them. Where folds or documents without labels were\n"
        "tried first, the last entry alone has their figures; all have ``unlabelled_weight``. If evaluated:\n"
        "``accuracy``, ``nll``, ``ncll``, ``hinge`` (means per document) and ``perplexity`` (per word); for `validation`\n"
        "documents with the prefix ``validation_``.",
    }

    n_epochs: int | str = p.param("auto", *p.AUTO_EPOCHS)
    validation_fraction: float = p.param(
        0.1,
        p.real(0, 0.5),
        "Share of the documents that is held out, 20,000 at most, to choose training time and temperature. Then training\n"
        "begins again with all documents, but not where under 2 % were held out. Where under 200 would be held out,\n"
        "`MultinomialNB` holds out none: training takes 6 epochs, and folds of a third give the temperature. 0: nothing is\n"
        "held out.",
    )
    calibrate: bool = p.param(
        True,
        p.truth(),
        "Divide scores by one temperature, of the least log-loss on held-out documents, for probabilities.",
    )
    evaluate_every: int = p.param(0, *p.EVALUATE_EVERY)
    n_blocks: int | None = p.param(
        None,
        p.integer(optional=True),
        "Parts of the vocabulary that are merged apart. None: one for each 256 MiB. With several lanes the number\n"
        "of parts changes the model a little.",
    )

    @property
    def _patience_of_choice(self) -> int | None:
        """Epochs without a lower held-out loss that end a training; None where `n_epochs` says how long it is."""
        return (self.patience or 1) if self.n_epochs == "auto" else None

    def _sdem_of_words(
        self, source: Source, model: NaiveBayes, loss: str | Loss, class_weight: tuple[float, ...] | None = None
    ) -> tuple[SdEM[NaiveBayes], MadeByWorkers[SdemState] | None]:
        """Return sdEM of words, and where it starts; None: at the prior, with the paper's steps."""
        local, initial, sizes, tolerance = self.merge == "mean", None, paper_steps(float(self.step_decay)), 0.0
        if local:  # says what is wrong with a loss that has no kernel
            kernel_form(loss, 2 if isinstance(model.head, Labels) else model.n_classes)
        if self.steps == "margin":
            sizes, start = self._margin_steps(source, model, loss)
            initial, tolerance = MadeByWorkers(start.block), defaults.STEP_TOLERANCE
        rule, seed = Merge(sizes, local, tolerance), seed_of(self.random_state)
        return SdEM(model, source.weight, rule, loss, class_weight=class_weight, seed=seed), initial


def is_unnormalised(source: Source) -> bool:
    """Whether documents are counts, longer ones with more."""
    return not source.weighted and (source.weighting is None or not source.weighting.norm > 0)
