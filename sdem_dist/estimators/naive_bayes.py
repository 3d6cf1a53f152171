"""Multinomial naive Bayes trained by sdEM, as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np

from sdem_dist.corpus import Corpus
from sdem_dist.counted import counted
from sdem_dist.engine.plan import VALIDATION, MadeByWorkers, Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.predictions import EngineClassifier, JointClassifier, WithDensity
from sdem_dist.fitting import defaults, holdout, plans
from sdem_dist.fitting.holdout import Candidate, HoldoutPolicy, HoldoutResult
from sdem_dist.fitting.running import executor_for
from sdem_dist.inputs.source import source_of
from sdem_dist.inputs.spec import Source, Spec, Trained, final_stage
from sdem_dist.inputs.validation import classes_of_batches, seed_of
from sdem_dist.learners.rules import STEP_OF_COUNTS, STEPS, ClosedForm, Merge, StepSizes, margin_steps, paper_steps
from sdem_dist.learners.sdem import SdEM
from sdem_dist.losses import Loss, kernel_form, loss_kind
from sdem_dist.models.heads import TEMPERATURE, THRESHOLD, Classes, Labels, unit_of
from sdem_dist.models.naive_bayes import NaiveBayes, pseudo_count
from sdem_dist.models.weighting import Weighting
from sdem_dist.models.word_counts import SdemState
from sdem_dist.text.vectorizer import VectorizerSettings

FROZEN_PARAMS = (
    *("loss", "alpha", "class_prior", "fit_prior", "unlabelled_weight", "step", "steps", "step_decay", "merge"),
    *("weighting", "norm", "min_df", "ngram_range", "vectorizer"),
)
"""Parameters that later batches cannot change."""


class WordNB(EngineClassifier):
    """What becomes of counts before naive Bayes learns them, and how far its steps go.

    alpha : Literal["laplace", "log"] | float in [0, 3e38] -- Pseudo-count of a word: 1 (the paper's P1), ln of the
        vocabulary's size (P2), or a number. With steps of the margin it grows with the documents that hold the word, to
        the power 1/8, or 3/8 with logarithms and ones. Its size hardly matters: steps are in its unit.
    """

    weighting: str = "auto"
    norm: str | float | None = "auto"
    min_df: int = 1
    ngram_range: tuple[int, int] | None = None
    alpha: str | float = "laplace"
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
        form, norm, orders = self.weighting, self.norm, self.ngram_range
        if form == "auto":
            form = "counts" if source.weighted or self.loss == "nll" else "tfidf"
        if source.weighted and form != "counts":
            raise ValueError(
                f"weighting={form!r} is for whole counts, and there are other numbers in {source.name}: leave it at 'auto', "
                "which takes them as they are"
            )
        if norm == "auto":
            norm = None if form == "counts" else defaults.NORM
        if orders is not None and source.vocabulary is None:
            raise ValueError("ngram_range chooses among n-grams of a corpus, and these columns have no names")
        if (self.loss == "nll" or self.steps == "paper") and (form, norm, self.min_df, orders) == (
            "counts",
            None,
            1,
            None,
        ):
            return source
        characters = orders is not None and (source.vectorizer or {}).get("analyzer", "word") != "word"
        orders = None if orders is None else (int(orders[0]), int(orders[1]))
        weighting = Weighting(form, float(norm or 0.0), 1.0, int(self.min_df), orders, characters)
        source = plans.with_frequencies(source, weighting)
        if weighting.norm or self.steps != "margin":
            return source
        # One factor gives documents a mean squared length of `NORM` squared.
        documents = plans.sample(source)
        mean = unit_of(documents, np.ones(documents.n_features)).mean_square
        return replace(source, weighting=replace(cast(Weighting, source.weighting), scale=defaults.NORM / mean**0.5))

    def _step(self, source: Source, loss: str | Loss) -> float:
        """Return how far a first step moves a mean document's score against a rival's, in the unit of scores."""
        return float(self.step or (STEP_OF_COUNTS if is_unnormalised(source) else STEPS[loss_kind(loss)]))

    def _margin_steps(self, source: Source, model: NaiveBayes, loss: str | Loss) -> tuple[StepSizes, plans.PriorStart]:
        on_disk = isinstance(source.corpus, Corpus)
        start = plans.PriorStart(model, source.corpus, source.weighting, None if on_disk else source.vocabulary)
        unit, step = unit_of(plans.sample(source), start.prior), self._step(source, loss)
        return margin_steps(step, unit, model.alpha, model.class_alpha, float(self.step_decay)), start


def is_unnormalised(source: Source) -> bool:
    """Whether documents are counts, longer ones with more."""
    return not source.weighted and (source.weighting is None or not source.weighting.norm > 0)


class LaneNB(WordNB):
    """What naive Bayes has whose lanes run through their documents, and that holds documents out.

    n_epochs -- Passes over the documents. "auto": held-out documents choose, 20 at most.
    history_ : list of dict -- One entry per epoch: ``epoch``, ``seconds``, ``held_out_accuracy`` and
        ``held_out_log_loss`` (at the best temperature) of the held-out documents, by the training without them. Where
        folds or documents without labels were tried first, the last entry alone has their figures; all have
        ``unlabelled_weight``. If evaluated: ``accuracy``, ``nll``, ``ncll``, ``hinge`` (means per document) and
        ``perplexity`` (per word); for `validation` documents with the prefix ``validation_``.
    """

    n_epochs: Literal["auto"] | int = "auto"
    merge: str = "mean"
    n_lanes: int | None = None
    rounds_per_epoch: int | None = None
    batch_size: int | None = None
    n_blocks: int | None = None
    validation_fraction: float = 0.1
    calibrate: bool = True

    def _check(self) -> None:
        p.check_steps(self, closed_form=self.loss == "nll")
        super()._check()

    @property
    def holds_out(self) -> bool:
        """Whether training holds out documents of its own, by which it may stop."""
        return self.loss != "nll" and self.validation_fraction > 0

    def _held_out(self, source: Source) -> tuple[float, bool]:
        """Return the share of the documents that is held out, 0 if they would be few; and whether it chooses epochs."""
        n, labels = source.n_documents, self.spec.label_sets
        fewest = defaults.FEW_HELD_OUT if labels else defaults.FOLDS_HELD_OUT
        share = holdout.share_held_out(self.validation_fraction, n, fewest)
        return share, self.n_epochs == "auto" and (share > 0.0 if labels else holdout.can_choose_epochs(source, share))

    def _plan(self, source: Source) -> Plan:
        n, n_epochs, seed, labels = source.n_documents, self.n_epochs, seed_of(self.random_state), self.spec.label_sets
        n_blocks = plans.blocks_of(source.n_features, len(source.classes) * (2 if labels else 1), self.n_blocks)
        if self.loss == "nll":  # sums once over the corpus: one round is enough, and lanes only share the work
            lanes = self.n_lanes or plans.lanes_of(n, defaults.SUM_TASK_DOCUMENTS)
            n_epochs = defaults.HIDDEN_EM_EPOCHS if n_epochs == "auto" else int(n_epochs)
            return Plan(n, 1 if self.unlabelled is None else n_epochs, 1, lanes, seed, n_blocks=n_blocks)
        if n_epochs == "auto":
            n_epochs = defaults.MAX_EPOCHS if self._held_out(source)[1] else defaults.FEW_EPOCHS
        plan = replace(plans.plan_of_steps(self, n, int(n_epochs), seed), n_blocks=n_blocks)
        if self.merge == "sum" and self.steps == "margin" and not labels:
            while (n // plan.n_rounds) >> (plan.growth + 1) >= defaults.FIRST_BATCH:
                plan = replace(plan, growth=plan.growth + 1)
        return plan

    def _class_weights(self, source: Source) -> tuple[float, ...] | None:
        weights = plans.weights_of_classes(self, source) if hasattr(self, "class_weight") else None
        if weights is None or self.loss == "nll" or self.steps != "margin":
            return weights
        largest = max(weights) or 1.0  # a step goes no further than that of weight 1
        return tuple(w / largest for w in weights)

    def _learner(self, source: Source, loss: str | Loss) -> tuple[SdEM[NaiveBayes], MadeByWorkers[SdemState] | None]:
        """Return sdEM of words, or with "nll" counting, and where it starts; None: at the prior."""
        n_classes, params, share = len(source.classes), self.get_params(deep=False), 1.0
        head: Any = Labels(n_classes, exclusive=source.members is None) if self.spec.label_sets else Classes(n_classes)
        log_prior = plans.fixed_log_prior(params.get("class_prior"), params.get("fit_prior", True), n_classes)
        model = NaiveBayes(source.n_features, head, pseudo_count(self.alpha, source.n_features), log_prior=log_prior)
        rule: Any = ClosedForm(complete=self.unlabelled is None)
        initial, tolerance, local = None, 0.0, self.merge == "mean"
        if loss == "nll":
            model = replace(model, class_alpha=0.0)  # counted classes have no prior
            if self.unlabelled is not None and params["unlabelled_weight"] != "auto":
                share = float(params["unlabelled_weight"])
        else:
            if local:  # says what is wrong with a loss that has no kernel
                kernel_form(loss, 2 if self.spec.label_sets else n_classes)
            sizes = paper_steps(float(self.step_decay))
            if self.steps == "margin":
                sizes, start = self._margin_steps(source, model, loss)
                initial, tolerance = MadeByWorkers(start.block), defaults.STEP_TOLERANCE
            rule = Merge(sizes, local, tolerance)
        weights, seed = self._class_weights(source), seed_of(self.random_state)
        return SdEM(model, source.weight, rule, loss, weights, share, seed=seed), initial

    def _candidate(self, source: Source, loss: str | Loss | None) -> Candidate:
        learner, initial = self._learner(source, loss or ("hinge" if self.loss == "auto" else self.loss))
        stage = "choose with ncll" if self.loss == "auto" and loss == "ncll" else "choose"
        return Candidate(learner, self._plan(source), initial, stage)

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stages in which held-out documents choose loss and training time, and the one with all documents."""
        n, n_classes, n_folds = source.n_documents, len(source.classes), defaults.N_FOLDS
        losses = [holdout.first_loss(source), "ncll"] if self.loss == "auto" else [self.loss]
        candidates = (self._candidate(source, loss) for loss in losses)
        share, chooses_epochs = self._held_out(source) if self.n_epochs == "auto" or self.calibrate else (0.0, False)
        by_folds = self.calibrate and self.holds_out and n >= 2 * n_folds and not self.spec.label_sets
        if self.loss == "nll" or not (share or by_folds):
            candidate = next(candidates)
            end = final_stage(trainer, candidate.learner, candidate.plan, candidate.initial)
            counted_once = self.loss == "nll" and self.unlabelled is None
            return end._replace(warnings=p.unused_steps(self)) if counted_once else end

        def classes_overlap(first: HoldoutResult) -> bool:
            enough = n_classes > 2 and n >= defaults.DOCUMENTS_A_CLASS * n_classes
            return enough and 1.0 - first.accuracy.item() > defaults.MANY_WRONG

        n_draws = 1 if share * n >= defaults.ENOUGH_FOR_LOSSES else defaults.LOSS_DRAWS
        patience = (self.patience or 1) if chooses_epochs else None
        policy = HoldoutPolicy(trainer, source, share, patience, n_draws=n_draws, doubt=classes_overlap)
        result = policy.choose(candidates)
        learner = result.candidate.learner
        if self.calibrate and result.known and isinstance(learner.head, Labels) and not learner.head.exclusive:
            names = [[f"{VALIDATION}{name}{i}" for i in range(n_classes)] for name in (TEMPERATURE, THRESHOLD)]
            temperatures, thresholds = (tuple(result.figures[name] for name in of_labels) for of_labels in names)
            learner = learner.decided(temperatures=temperatures, thresholds=thresholds)
        elif self.calibrate:
            learner = replace(learner, temperature=result.temperature)
        return policy.train(result, learner)


class MultinomialNB(LaneNB, JointClassifier):
    """Multinomial naive Bayes, trained discriminatively by stochastic discriminative EM (sdEM).

    The model is a joint distribution p(y, d) of classes and documents. `loss` decides how its expectation parameters
    are found.

    loss -- What training lowers. "hinge": the hinge loss (Masegosa 2014, equation 17). "ncll": ``-ln p(y | d)``. "nll":
        ``-ln p(y, d)``: scikit-learn's ``MultinomialNB``, exactly, in one pass over the counts. "auto": the hinge loss.
        If that gets over a fifth of the held-out documents of three or more classes wrong, NCLL is tried, too, and the
        lower log-loss decides. With fewer than 30 documents per class, on average, nothing is tried: it is NCLL where
        three or more classes are of about the same size, the largest at most 1.25 times the median. Where it learns
        from documents without labels: the hinge loss. Or `Hinge` with a margin, `CostSensitiveHinge`, or `Blend` of
        `sdem_dist.losses`; with ``merge="sum"`` any object with the methods of `sdem_dist.losses.Loss`.
    n_epochs -- Passes over documents; with hidden classes, iterations of EM. "auto": held-out documents choose up to
        20, or it is 6.
    step -- c, for "margin". None: 0.2 with the hinge loss, 1 with "ncll"; 3 where documents are counts that keep their
        length.
    unlabelled_weight -- Of documents without a label. With "nll" each counts this much through ``-ln p(x)``; "auto": 1.
        With another loss training starts at the log-odds of naive Bayes of all documents, found by EM, times this
        weight. "auto": the weight at which the classes of the median document are a fifth of the margin apart, or 0
        (labelled documents alone) where held-out documents are clearly better that way. Training takes 6 epochs unless
        `n_epochs` is given.
    References -- Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 1, Algorithms 1 to 4.

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

    loss: Literal["auto", "hinge", "ncll", "nll"] | Loss = "auto"
    n_epochs: Literal["auto"] | int = "auto"
    steps: str = "margin"
    step: float | None = None
    class_prior: object = None
    fit_prior: bool = True
    class_weight: object = None
    unlabelled: object = None
    unlabelled_weight: Literal["auto"] | float = "auto"

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
                stacklevel=3,
            )
        return super()._weighed(source)

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stages of a fit, with those of documents without a label where there are any."""
        if self.loss == "nll":
            return super().train(trainer, source)
        plan, message = self._plan(source), ""
        of_a_lane = plan.n_documents // (plan.n_lanes * plan.n_rounds)
        lanes_matter = self.merge == "mean" and plan.n_lanes > 1 and not is_unnormalised(source)
        if lanes_matter and of_a_lane < defaults.SHORT_LANE:
            length = counted(of_a_lane, "document") if of_a_lane else "at most one document"
            message = (
                f"n_lanes={plan.n_lanes:,} leaves {length} to a lane in a round. Lanes of fewer than {defaults.SHORT_LANE} may "
                "lose accuracy: leave n_lanes at None, or take fewer"
            )
        if source.n_labelled:
            end, weighed_source = holdout.train_with_unlabelled(self, trainer, source)
            self._describe(weighed_source)
        else:
            end = super().train(trainer, source)
        return end._replace(warnings=(message,) if message else ())

    def partial_fit(self, X: object, y: object, classes: object = None, sample_weight: object = None) -> Self:
        """Go on with one more batch of documents: one pass over it, from where the model stands.

        The first batch decides document frequencies, the size of steps, and for texts the vocabulary. What steps and
        the model are made of, such as `loss`, `alpha`, `step` and `weighting`, stays as it was at the first call. Other
        parameters, such as `class_weight`, may be set anew.

        X : {array-like, sparse matrix} of shape (n_samples, n_features) --
        y : array-like of shape (n_samples,) --
        classes : array-like of shape (n_classes,), default=None -- All classes; needed at the first call.
        Raises ValueError -- Documents or parameters do not go with the model.
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

    feature_log_prob_ = p.fitted("_log_words", "Logarithm of p(word | class), shape (n_classes, n_features).")
    loss_ = p.fitted("learner_.loss", "What training lowered.", "str or Loss")

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
