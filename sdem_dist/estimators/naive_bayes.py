"""Multinomial naive Bayes trained by sdEM, as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np

from sdem_dist.corpus import Corpus
from sdem_dist.counted import counted
from sdem_dist.engine.plan import MadeByWorkers, Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.predictions import EngineClassifier, JointClassifier, WithDensity
from sdem_dist.fitting import defaults, holdout, plans
from sdem_dist.fitting.holdout import Candidate, HoldoutPolicy, HoldoutResult, first_loss, share_held_out
from sdem_dist.fitting.plans import PriorStart, fixed_log_prior, sample, weights_of_classes, with_frequencies
from sdem_dist.fitting.running import CALLER, executor_for
from sdem_dist.inputs.source import source_of
from sdem_dist.inputs.spec import Source, Spec, Trained, final_stage
from sdem_dist.inputs.validation import classes_of_batches, seed_of
from sdem_dist.learners.rules import STEP_OF_COUNTS, STEPS, ClosedForm, Merge, StepSizes, margin_steps, paper_steps
from sdem_dist.learners.sdem import SdEM
from sdem_dist.losses import Loss, kernel_form, loss_kind
from sdem_dist.models.heads import Classes, Labels, unit_of
from sdem_dist.models.naive_bayes import NaiveBayes, pseudo_count
from sdem_dist.models.weighting import Weighting
from sdem_dist.models.word_counts import SdemState
from sdem_dist.reports.explaining import DocumentParts, of_naive_bayes
from sdem_dist.text.vectorizer import VectorizerSettings

FROZEN_PARAMS = (
    *("loss", "alpha", "class_prior", "fit_prior", "unlabelled_weight", "step", "steps", "step_decay", "merge"),
    *("weighting", "norm", "min_df", "ngram_range", "vectorizer"),
)
"""Parameters that later batches cannot change."""


@p.estimator
class WordNB(EngineClassifier):
    """What becomes of counts before naive Bayes learns them, and how far its steps go."""

    weighting: str = "auto"
    norm: str | float | None = "auto"
    min_df: int = 1
    ngram_range: tuple[int, int] | None = None
    alpha: str | float = p.param("laplace", *p.ALPHA_OF_WORDS)
    step_decay: float = 1e-5
    vectorizer: VectorizerSettings | None = None
    patience: int | None = None
    random_state: object = 0
    evaluate_every: int = 0

    steps = "margin"

    if TYPE_CHECKING:
        loss: str | Loss = ""
        step: float | None = None

    def _check(self) -> None:
        if self.alpha == 0 and self.loss != "nll":
            raise ValueError(
                "alpha must be positive for a discriminative loss: the prior keeps mu off the boundary of S"
            )

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
        if weighting.norm or self.steps != "margin":
            return source
        # One factor gives documents a mean squared length of `NORM` squared.
        documents = sample(source)
        mean = unit_of(documents, np.ones(documents.n_features)).mean_square
        assert source.weighting is not None
        return replace(source, weighting=replace(source.weighting, scale=defaults.NORM / mean**0.5))

    def _step(self, source: Source, loss: str | Loss) -> float:
        """Return how far a first step moves a mean document's score against a rival's, in the unit of scores."""
        return float(self.step or (STEP_OF_COUNTS if is_unnormalised(source) else STEPS[loss_kind(loss)]))

    def _margin_steps(self, source: Source, model: NaiveBayes, loss: str | Loss) -> tuple[StepSizes, PriorStart]:
        on_disk = isinstance(source.corpus, Corpus)
        start = PriorStart(model, source.corpus, source.weighting, None if on_disk else source.vocabulary)
        unit, step = unit_of(sample(source), start.prior), self._step(source, loss)
        return margin_steps(step, unit, model.alpha, model.class_alpha, float(self.step_decay)), start


def is_unnormalised(source: Source) -> bool:
    """Whether documents are counts, longer ones with more."""
    return not source.weighted and (source.weighting is None or not source.weighting.norm > 0)


@p.estimator
class LaneNB(WordNB):
    """What naive Bayes has whose lanes run through their documents, and that holds documents out."""

    n_epochs: Literal["auto"] | int = p.param(
        "auto", 'Passes over the documents. "auto": held-out documents choose, 20 at most.'
    )
    merge: str = "mean"
    n_lanes: int | None = None
    rounds_per_epoch: int | None = None
    batch_size: int | None = None
    n_blocks: int | None = None
    validation_fraction: float = 0.1
    calibrate: bool = True

    _learned = """
    history_ : list of dict -- One entry per epoch: ``epoch``, ``seconds``, ``held_out_accuracy`` and
        ``held_out_log_loss`` (at the best temperature) of the held-out documents, by the training without them. Where
        folds or documents without labels were tried first, the last entry alone has their figures; all have
        ``unlabelled_weight``. If evaluated: ``accuracy``, ``nll``, ``ncll``, ``hinge`` (means per document) and
        ``perplexity`` (per word); for `validation` documents with the prefix ``validation_``.
    """

    def _check(self) -> None:
        p.check_steps(self, closed_form=self.loss == "nll")
        super()._check()

    @property
    def holds_out(self) -> bool:
        """Whether training holds out documents of its own, by which it may stop."""
        return self.loss != "nll" and self.validation_fraction > 0

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


@p.estimator
class MultinomialNB(LaneNB, JointClassifier):
    """Multinomial naive Bayes, trained discriminatively by stochastic discriminative EM (sdEM).

    The model is a joint distribution p(y, d) of classes and documents. `loss` decides how its expectation parameters
    are found.

    References
    ----------
    Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 1, Algorithms 1 to 4.

    Examples
    --------
    >>> from sdem_dist import MultinomialNB
    >>> texts = ["goal in the last minute", "the bank raises its rate"]
    >>> texts = (texts + ["a late goal wins", "rates fall, shares rise"]) * 5
    >>> labels = ["sport", "money", "sport", "money"] * 5
    >>> clf = MultinomialNB().fit(texts, labels)
    >>> clf.predict(["the goal of the match", "a new rate"]).tolist()
    ['sport', 'money']
    >>> clf.explain(["a late goal"])[0].distinctive(2)
    ['late', 'goal']
    """

    loss: Literal["auto", "hinge", "ncll", "nll"] | Loss = p.param(
        "auto",
        'What training lowers. "hinge": the hinge loss (Masegosa 2014, equation 17). "ncll": ``-ln p(y | d)``.\n'
        '"nll": ``-ln p(y, d)``: scikit-learn\'s ``MultinomialNB``, exactly, in one pass over the counts.\n'
        '"auto": the hinge loss. If that gets over a fifth of the held-out documents of three or more classes wrong, NCLL is\n'
        "tried, too, and the lower log-loss decides. With fewer than 30 documents per class, on average, nothing is tried: it\n"
        "is NCLL where three or more classes are of about the same size, the largest at most 1.25 times the median.\n"
        "Where it learns from documents without labels: the hinge loss.\n"
        "Or `Hinge` with a margin, `CostSensitiveHinge`, or `Blend` of `sdem_dist.losses`; with\n"
        '``merge="sum"`` any object with the methods of `sdem_dist.losses.Loss`.',
    )
    n_epochs: Literal["auto"] | int = p.param(
        "auto",
        'Passes over documents; with hidden classes, iterations of EM. "auto": held-out documents choose up to 20, or it is 6.',
    )
    steps: str = "margin"
    step: float | None = p.param(
        None,
        'c, for "margin". None: 0.2 with the hinge loss, 1 with "ncll"; 3 where documents are counts that keep their length.',
    )
    class_prior: object = None
    fit_prior: bool = True
    class_weight: object = None
    unlabelled: object = None
    unlabelled_weight: Literal["auto"] | float = p.param(
        "auto",
        'Of documents without a label. With "nll" each counts this much through ``-ln p(x)``; "auto": 1. With another loss\n'
        'training starts at the log-odds of naive Bayes of all documents, found by EM, times this weight. "auto": the weight\n'
        "at which the classes of the median document are a fifth of the margin apart, or 0 (labelled documents alone) where\n"
        "held-out documents are clearly better that way. Training takes 6 epochs unless `n_epochs` is given.",
    )

    spec = Spec("sparse", "labels", "class", words="feature_log_prob_", unlabelled=True, poor_score=True)
    sample = WithDensity.sample

    def _check(self) -> None:
        super()._check()
        if self.unlabelled is not None and self.loss == "nll" and self.class_weight is not None:
            raise ValueError("with loss='nll' unlabelled documents need class_weight=None: their class is not known")
        if self.unlabelled is not None and self.loss != "nll" and self.steps == "paper":
            raise ValueError("steps='paper' takes no unlabelled documents with this loss: leave steps at 'margin'")

    def _weighed(self, source: Source) -> Source:
        if self.loss != "nll" and (n_classes := len(source.classes)) >= defaults.MANY_CLASSES:
            warnings.warn(
                f"there are {n_classes:,} classes, and MultinomialNB keeps a number for each of them and each of the "
                f"{source.n_features:,} words: ManyClassNB is as accurate, and takes a fraction of the time and memory",
                stacklevel=CALLER,
            )
        return super()._weighed(source)

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stages in which held-out documents choose loss and training time, and the one with all documents."""
        loss = None if self.loss == "auto" else self.loss
        if loss == "nll":
            end = final_stage(trainer, self._learner(source, loss)[0], self._plan(source))
            return end if self.unlabelled is not None else end._replace(warnings=p.unused_steps(self))
        lanes_matter = self.merge == "mean" and not is_unnormalised(source)
        plan, messages = self._plan(source), list[str]()
        of_a_lane = plan.n_documents // (plan.n_lanes * plan.n_rounds)
        if lanes_matter and plan.n_lanes > 1 and of_a_lane < defaults.SHORT_LANE:
            length = counted(of_a_lane, "document") if of_a_lane else "at most one document"
            messages.append(
                f"n_lanes={plan.n_lanes:,} leaves {length} to a lane in a round. Lanes of fewer than {defaults.SHORT_LANE} may "
                "lose accuracy: leave n_lanes at None, or take fewer"
            )
        if source.n_labelled:
            end, weighed_source = holdout.train_with_unlabelled(self, trainer, source)
            self._describe(weighed_source)
            return end._replace(warnings=tuple(messages))
        losses = [loss or first_loss(source), *(["ncll"] if loss is None else [])]
        candidates = (self._candidate(source, one) for one in losses)
        share, few, n = 0.0, False, source.n_documents
        if self.n_epochs == "auto" or self.calibrate:
            share = share_held_out(self.validation_fraction, n, defaults.FOLDS_HELD_OUT)
            few = not share and self.calibrate and self.holds_out and n >= 2 * defaults.N_FOLDS
        if not share and not few:
            candidate = next(candidates)
            end = final_stage(trainer, candidate.learner, candidate.plan, candidate.initial)
            return end._replace(warnings=tuple(messages))

        def classes_overlap(first: HoldoutResult) -> bool:
            many, enough = len(source.classes) > 2, n >= defaults.DOCUMENTS_A_CLASS * len(source.classes)
            return many and enough and 1.0 - first.draws[0].accuracy.item() > defaults.MANY_WRONG

        n_draws = 1 if share * n >= defaults.ENOUGH_FOR_LOSSES else defaults.LOSS_DRAWS
        patience = self._patience_of_choice if holdout.can_choose_epochs(source, share) else None
        policy = HoldoutPolicy(trainer, source, share, patience, n_draws=n_draws, doubt=classes_overlap)
        result = policy.choose(candidates)
        temperature = result.temperature if self.calibrate else 1.0
        end = policy.train(result, replace(result.candidate.learner, temperature=temperature))
        return end._replace(warnings=tuple(messages))

    def _candidate(self, source: Source, loss: str | Loss | None) -> Candidate:
        learner, initial = self._learner(source, loss or ("hinge" if self.loss == "auto" else self.loss))
        stage = "choose with ncll" if self.loss == "auto" and loss == "ncll" else "choose"
        return Candidate(learner, self._plan(source), initial, stage)

    @property
    def _n_epochs(self) -> int:
        if self.n_epochs == "auto" and self.unlabelled is not None:
            return defaults.HIDDEN_EM_EPOCHS if self.loss == "nll" else defaults.FEW_EPOCHS
        return super()._n_epochs

    def _plan(self, source: Source) -> Plan:
        n, seed = source.n_documents, seed_of(self.random_state)
        n_blocks = plans.blocks_of(source.n_features, len(source.classes), self.n_blocks)
        if self.loss == "nll":  # sums once over the corpus: one round is enough, and lanes only share the work
            epochs = 1 if self.unlabelled is None else self._n_epochs
            lanes = self.n_lanes or plans.lanes_of(n, defaults.SUM_TASK_DOCUMENTS)
            return Plan(n, epochs, 1, lanes, seed, n_blocks=n_blocks)
        share = share_held_out(self.validation_fraction, n, defaults.FOLDS_HELD_OUT)
        most = defaults.MAX_EPOCHS if holdout.can_choose_epochs(source, share) else defaults.FEW_EPOCHS
        plan = plans.plan_of_steps(self, n, most if self.n_epochs == "auto" else int(self.n_epochs), seed)
        growth = 0
        if self.merge == "sum" and self.steps == "margin":
            while (n // plan.n_rounds) >> (growth + 1) >= defaults.FIRST_BATCH:
                growth += 1
        return replace(plan, n_blocks=n_blocks, growth=growth or plan.growth)

    def _class_weights(self, source: Source) -> tuple[float, ...] | None:
        weights = weights_of_classes(self, source)
        largest = max(weights or (0.0,))
        if weights is None or self.loss == "nll" or self.steps != "margin" or largest == 0.0:
            return weights
        return tuple(w / largest for w in weights)  # a step goes no further than that of weight 1

    def _learner(self, source: Source, loss: str | Loss) -> tuple[SdEM[NaiveBayes], MadeByWorkers[SdemState] | None]:
        """Return what is trained, and where it starts."""
        n_classes = len(source.classes)
        log_prior = fixed_log_prior(self.class_prior, self.fit_prior, n_classes)
        alpha = pseudo_count(self.alpha, source.n_features)
        model = NaiveBayes(source.n_features, Classes(n_classes), alpha, log_prior=log_prior)
        weights = self._class_weights(source)
        if self.loss != "nll":
            return self._sdem_of_words(source, model, loss, weights)
        complete = self.unlabelled is None
        share = 1.0 if complete or self.unlabelled_weight == "auto" else float(self.unlabelled_weight)
        model = replace(model, class_alpha=0.0)  # counted classes have no prior
        rule, seed = ClosedForm(complete=complete), seed_of(self.random_state)
        return SdEM(model, source.weight, rule, class_weight=weights, unlabelled_weight=share, seed=seed), None

    def partial_fit(self, X: object, y: object, classes: object = None, sample_weight: object = None) -> Self:
        """Go on with one more batch of documents: one pass over it, from where the model stands.

        The first batch decides document frequencies, the size of steps, and for texts the vocabulary. What steps and
        the model are made of, such as `loss`, `alpha`, `step` and `weighting`, stays as it was at the first call. Other
        parameters, such as `class_weight`, may be set anew.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes; needed at the first call.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Documents or parameters do not go with the model.
        """
        p.check(self)
        self._check()
        first = not hasattr(self, "state_")  # a failed first call leaves classes_ behind
        for name in () if first else FROZEN_PARAMS:
            value, before = getattr(self, name), self._trained_params[name]
            if not np.array_equal(np.array(value, object), np.array(before, object)):
                raise ValueError(
                    f"{name} is {value!r}, and was {before!r} when training began: partial_fit cannot change it; set it back, "
                    "or begin again with fit, or with a new estimator"
                )
        all_classes = classes_of_batches(None if first else self.classes_, classes)
        source = source_of(self, X, y, sample_weight, use="train" if first else "continue", classes=all_classes)
        if first:
            self.history_, self.n_iter_ = [], 0
            source = self._weighed(source)
            self._describe(source)
        if self.loss != "nll" and source.n_labelled:
            raise ValueError("partial_fit takes documents without a label with loss='nll' only: call fit")
        initial: Any = None
        if first:
            learner, initial = self._learner(source, "hinge" if self.loss == "auto" else self.loss)
        else:
            weights, n_documents = self._class_weights(source), self.state_.t + source.weight
            learner, initial = replace(self.learner_, n_documents=n_documents, class_weight=weights), self.state_
        plan = replace(self._plan(source), n_epochs=1, n_blocks=1)
        stage = Stage("train", learner, plan if first else replace(plan, growth=0), initial=initial)
        with executor_for(None, self.n_jobs, source) as executor, Trainer(executor, source.documents) as trainer:
            self._take(learner, trainer.run(stage).state)
        self.n_iter_ += 1
        return self

    @property
    def feature_log_prob_(self) -> np.ndarray:
        """Logarithm of p(word | class), shape (n_classes, n_features)."""
        return np.asarray((self._parameters.log_words - self._parameters.log_totals).T)

    @property
    def feature_count_(self) -> np.ndarray:
        """Words of each class, shape (n_classes, n_features), of "nll" alone; documents count as for `class_count_`."""
        return np.asarray(self._counted().words.T - self.learner_.model.alpha)

    @property
    def class_count_(self) -> np.ndarray:
        """Documents of each class, shape (n_classes,), of "nll" alone: by weight and class weight.

        Documents of a hidden class count for each class by its probability, times `unlabelled_weight`.
        """
        return np.asarray(self._counted().class_counts)

    def _counted(self) -> SdemState:
        if not isinstance(self.learner_.rule, ClosedForm):
            raise AttributeError("counts are those of loss='nll': other losses train expected counts, see state_")
        return cast(SdemState, self.state_)

    @property
    def loss_(self) -> str | Loss:
        """What training lowered."""
        return cast("str | Loss", self.learner_.loss)

    def _document_parts(self, documents: object, pairs: np.ndarray) -> list[DocumentParts]:
        return of_naive_bayes(self._rows(documents), pairs, self._parameters.log_prior, self.temperature_)
