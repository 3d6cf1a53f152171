"""Naive Bayes of words trained by sdEM: for classes, for several labels per document, and for very many classes."""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from sdem_dist.corpus import Corpus
from sdem_dist.counted import counted
from sdem_dist.engine.plan import VALIDATION, MadeByWorkers, Plan
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.incremental import Incremental
from sdem_dist.estimators.predictions import EngineClassifier, JointClassifier, WithDensity
from sdem_dist.fitting import defaults, holdout, plans
from sdem_dist.inputs.source import documents_of
from sdem_dist.inputs.spec import Source, Spec, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners import rules
from sdem_dist.learners.sdem import SdEM
from sdem_dist.losses import Loss, kernel_form, loss_kind
from sdem_dist.models import many_classes
from sdem_dist.models.heads import TEMPERATURE, THRESHOLD, Classes, Labels, unit_of
from sdem_dist.models.naive_bayes import NaiveBayes, pseudo_count
from sdem_dist.models.weighting import Weighting
from sdem_dist.text.vectorizer import VectorizerSettings


class WordNB(EngineClassifier):
    """Base of naive Bayes of words: weights of counts, and step sizes.

    step : float | None with steps=margin -- The first step changes the margin of an average document by `step` (hinge
        loss: by twice `step`). None: 0.2 with the hinge loss, 1 with "ncll", 3 for counts that are not normalized.
    """

    loss: str | Loss = "hinge"
    step: float | None = None
    step_decay: float = 1e-5
    alpha: str | float = "laplace"
    weighting: str = "auto"
    norm: str | float | None = "auto"
    min_df: int = 1
    ngram_range: tuple[int, int] | None = None
    calibrate: bool = True
    vectorizer: VectorizerSettings | None = None
    evaluate_every: int = 0

    steps = "margin"
    partial_fit = Incremental.partial_fit
    _unused_by_nll = "n_epochs", "step", "step_decay", "merge", "rounds_per_epoch", "calibrate", "validation_fraction"

    def _weighed(self, source: Source) -> Source:
        if self.loss != "nll" and not np.ndim(self.alpha) and self.alpha == 0:
            raise ValueError("alpha must be positive with a discriminative loss: without a prior, counts can become 0")
        form, norm, orders = self.weighting, self.norm, self.ngram_range
        if form == "auto":
            form = "counts" if source.weighted or self.loss == "nll" else "tfidf"
        if source.weighted and form != "counts":
            raise ValueError(f"weighting={form!r} needs integers, but {source.name} has other numbers: use 'auto'")
        if norm == "auto":
            norm = None if form == "counts" else defaults.NORM
        if orders is not None and source.vocabulary is None:
            raise ValueError(f"ngram_range needs a vocabulary, but {source.name} has none: set ngram_range=None")
        unchanged = (form, norm, self.min_df, orders) == ("counts", None, 1, None)
        if unchanged and (self.loss == "nll" or self.steps == "paper"):
            return source
        characters = orders is not None and (source.vectorizer or {}).get("analyzer", "word") != "word"
        orders = None if orders is None else (int(orders[0]), int(orders[1]))
        # in a subset, the words that are rare in it are left out, as those of all documents were before
        how = max(int(self.min_df), source.corpus.least_documents), orders, characters
        weighting = Weighting(form, float(norm or 0.0), 1.0, *how, boundary=source.boundary)
        source = plans.with_frequencies(source, weighting)
        if weighting.norm or self.steps != "margin":
            return source
        documents = plans.sample(source)  # one factor gives them a mean squared length of `NORM` squared
        mean = unit_of(documents, np.ones(documents.n_features)).mean_square
        of_source: Any = source.weighting
        return replace(source, weighting=replace(of_source, scale=defaults.NORM / mean**0.5))

    def _margin_start(
        self, source: Source, model: NaiveBayes, loss: str | Loss
    ) -> tuple[float, rules.StepSizes, plans.PriorStart]:
        """Return the change of a score by a first step, in units of scores; the step sizes, and the start."""
        default = rules.STEP_OF_COUNTS if plans.is_unnormalised(source) else rules.STEPS[loss_kind(loss)]
        step = float(self.step or default)
        words = None if isinstance(source.corpus, Corpus) else source.vocabulary
        start = plans.PriorStart(model, source.corpus, source.weighting, words)
        unit = unit_of(plans.sample(source), start.prior)
        return step, rules.margin_steps(step, unit, model.alpha, model.class_alpha, float(self.step_decay)), start


class LaneNB(WordNB):
    """Base of naive Bayes of words whose lanes step through their documents, and that can hold documents out.

    n_epochs -- Number of passes over the documents. "auto": chosen on held-out documents, at most 20.
    history_ : list of dict -- One entry per epoch, with ``epoch`` and ``seconds``. ``held_out_accuracy`` and
        ``held_out_log_loss`` (at the best temperature) are those of a model trained without these documents. Folds set
        ``fold_accuracy`` and ``fold_log_loss`` of the last entry instead. Evaluated epochs have ``accuracy``, ``nll``,
        ``ncll``, ``hinge`` and ``perplexity`` (per word), and for `validation`, these with the prefix ``validation_``.
    """

    n_epochs: Literal["auto"] | int = "auto"
    merge: str = "mean"
    n_lanes: int | None = None
    rounds_per_epoch: int | None = None
    batch_size: int | None = None
    n_blocks: int | None = None
    validation_fraction: float = 0.1

    holds_out = p.fitted(lambda nb: nb.loss != "nll" and nb.validation_fraction > 0, "", "bool")

    def _held_out(self, source: Source) -> tuple[float, bool]:
        """Return the share of held-out documents, 0 if they would be too few, and whether they choose the epochs."""
        labels, n, counts = self.spec.label_sets, source.n_documents, source.class_counts
        fewest = defaults.FEW_HELD_OUT if labels else defaults.FOLDS_HELD_OUT
        share = holdout.share_held_out(self.validation_fraction, n, fewest)
        # With a single class all predictions are correct, so they cannot choose the number of epochs.
        can_choose = share > 0.0 if labels else share * n * (1.0 - max(counts) / sum(counts)) >= defaults.TELLING
        return share, self.n_epochs == "auto" and can_choose

    def _plan(self, source: Source) -> Plan:
        n, n_epochs, seed, labels = source.n_documents, self.n_epochs, seed_of(self.random_state), self.spec.label_sets
        n_blocks = plans.blocks_of(source.n_features, len(source.classes) * (2 if labels else 1), self.n_blocks)
        if self.loss == "nll":  # one sum over the corpus: one round is enough, and lanes only share the work
            lanes = self.n_lanes or plans.lanes_of(n, defaults.SUM_TASK_DOCUMENTS)
            n_epochs = defaults.HIDDEN_EM_EPOCHS if n_epochs == "auto" else int(n_epochs)
            return Plan(n, 1 if self.unlabelled is None else n_epochs, 1, lanes, seed, n_blocks=n_blocks)
        if n_epochs == "auto":
            n_epochs = defaults.MAX_EPOCHS if self._held_out(source)[1] else defaults.FEW_EPOCHS
        plan = replace(plans.plan_of_steps(self, n, int(n_epochs), seed), n_blocks=n_blocks)
        if self.merge == "sum" and self.steps == "margin" and not labels:
            plan = replace(plan, growth=max(0, (n // plan.n_rounds // defaults.FIRST_BATCH).bit_length() - 1))
        return plan

    def _candidate(self, source: Source, loss: str | Loss | None) -> holdout.Candidate:
        """Return a training by a loss, by default the one of the parameters: of counting with "nll", or of sdEM."""
        stage = "choose with ncll" if self.loss == "auto" and loss == "ncll" else "choose"
        loss = loss or ("hinge" if self.loss == "auto" else self.loss)
        n_classes, labels, seed = len(source.classes), self.spec.label_sets, seed_of(self.random_state)
        head: Any = Labels(n_classes, exclusive=source.members is None) if labels else Classes(n_classes)
        n, local, share = source.n_features, self.merge == "mean", 1.0
        each = np.asarray(self.alpha, np.float64) if np.ndim(self.alpha) and loss == "nll" else None
        alpha = pseudo_count(self.alpha if each is None else 1.0, n)
        model = NaiveBayes(n, head, alpha, log_prior=plans.fixed_log_prior(self, n_classes))
        rule: Any = rules.ClosedForm(complete=self.unlabelled is None)
        if local:  # raises if the loss has no kernel
            kernel_form(loss, 2 if labels else n_classes)
        if loss == "nll":
            model = replace(model, class_alpha=0.0)  # a count of classes has no prior
            if each is not None and (each.shape != (n,) or self.unlabelled is not None):
                raise ValueError(f"alpha must be a number or, if all documents have labels, one for each of {n} words")
            initial: Any = None if each is None else model.start_at(each)
            if self.unlabelled is not None and (weight := getattr(self, "unlabelled_weight", "auto")) != "auto":
                share = float(weight)
        elif self.steps == "paper":
            initial, rule = None, rules.Merge(rules.paper_steps(float(self.step_decay)), local)
        else:
            _, sizes, start = self._margin_start(source, model, loss)
            initial, rule = MadeByWorkers(start.block), rules.Merge(sizes, local, defaults.STEP_TOLERANCE)
        weights = plans.weights_of_classes(self, source)
        if weights is not None and self.loss != "nll" and self.steps == "margin":
            largest = max(weights) or 1.0  # no step is larger than that of weight 1
            weights = tuple(w / largest for w in weights)
        learner = SdEM(model, source.weight, rule, loss, weights, share, seed=seed)
        return holdout.Candidate(learner, self._plan(source), initial, stage)

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stages that choose the loss and the epochs on held-out documents, then train on all documents."""
        n, n_classes, n_folds = source.n_documents, len(source.classes), defaults.N_FOLDS
        losses = [holdout.first_loss(source), "ncll"] if self.loss == "auto" else [self.loss]
        candidates = (self._candidate(source, loss) for loss in losses)
        share, chooses_epochs = self._held_out(source) if self.n_epochs == "auto" or self.calibrate else (0.0, False)
        by_folds = self.calibrate and self.holds_out and n >= 2 * n_folds and not self.spec.label_sets
        if self.loss == "nll" or not (share or by_folds):
            candidate = next(candidates)
            return final_stage(trainer, candidate.learner, candidate.plan, candidate.initial)

        def classes_overlap(first: holdout.HoldoutResult) -> bool:
            enough = n_classes > 2 and n >= defaults.DOCUMENTS_A_CLASS * n_classes
            return enough and 1.0 - first.accuracy.item() > defaults.MANY_WRONG

        n_draws = 1 if share * n >= defaults.ENOUGH_FOR_LOSSES else defaults.LOSS_DRAWS
        patience = (self.patience or 1) if chooses_epochs else None
        policy = holdout.HoldoutPolicy(trainer, source, share, patience, n_draws=n_draws, doubt=classes_overlap)
        result = policy.choose(candidates)
        learner = result.candidate.learner
        if self.calibrate and result.known and not getattr(learner.head, "exclusive", True):
            names = [[f"{VALIDATION}{name}{i}" for i in range(n_classes)] for name in (TEMPERATURE, THRESHOLD)]
            temperatures, thresholds = (tuple(result.figures[name] for name in of_labels) for of_labels in names)
            learner = learner.decided(temperatures=temperatures, thresholds=thresholds)
        elif self.calibrate:
            learner = replace(learner, temperature=result.temperature)
        return policy.train(result, learner)


class MultinomialNB(LaneNB):
    """Multinomial naive Bayes, trained discriminatively by stochastic discriminative EM (sdEM).

    The model is a joint distribution p(y, d) of classes and documents. `loss` determines how it is trained.

    loss -- Loss to minimize. "hinge": the hinge loss (Masegosa 2014, equation 17). "ncll": ``-ln p(y | d)``. "nll":
        ``-ln p(y, d)``, as in scikit-learn's ``MultinomialNB``, in one pass over the counts. "auto": the hinge loss;
        but with three or more classes, if it misclassifies more than a fifth of the held-out documents, NCLL if it
        is clearly better on them. With fewer than 30 documents per class, "auto" is NCLL for three or more classes of
        similar size (the largest at most 1.25 times the median size). The loss may also be a `Hinge`,
        `CostSensitiveHinge` or `Blend`, or, with ``merge="sum"``, any `sdem_dist.losses.Loss`.
    n_epochs -- Number of passes over the documents (with "nll" and unlabelled documents: EM iterations). "auto": chosen
        on held-out documents; 6 if there are too few.
    unlabelled_weight -- With "nll": factor of the loss of unlabelled documents, ``-ln p(x)``; "auto" is 1. With other
        losses: EM fits naive Bayes to all documents, and training (6 epochs by default) starts at the log-odds of this
        fit, multiplied by this weight. "auto": a weight at which the two highest scores of the median document differ
        by 0.2; 0 if unlabelled documents clearly increase the held-out log-loss.
    References -- Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 1, Algorithms 1 to 4.

    >>> from sdem_dist import MultinomialNB
    >>> texts = ["goal in the last minute", "the bank raises its rate", "late goal wins", "rates fall, shares rise"]
    >>> clf = MultinomialNB().fit(texts * 5, ["sport", "money"] * 10)
    >>> clf.predict(["the goal of the match", "new rate"]).tolist()
    ['sport', 'money']
    >>> clf.explain(["late goal"])[0].distinctive(2)
    ['late', 'goal']
    """

    loss: Literal["auto", "hinge", "ncll", "nll"] | Loss = "auto"
    n_epochs: Literal["auto"] | int = "auto"
    steps: str = "margin"
    class_prior: object = None
    fit_prior: bool = True
    class_weight: object = None
    unlabelled: object = None
    unlabelled_weight: Literal["auto"] | float = "auto"

    spec = Spec("sparse", "labels", "class", words="feature_log_prob_", unlabelled=True, poor_score=True)
    sample = WithDensity.sample
    predict_joint_log_proba = JointClassifier.predict_joint_log_proba
    class_log_prior_ = JointClassifier.class_log_prior_

    def _check(self) -> None:
        if self.steps == "paper" and (self.loss == "nll" or self.unlabelled is not None):
            raise ValueError("steps='paper' supports neither unlabelled documents nor loss='nll': use steps='margin'")
        if self.unlabelled is not None and self.loss == "nll" and self.class_weight is not None:
            raise ValueError("class_weight does not support unlabelled documents with loss='nll': set it to None")

    def train(self, trainer: Trainer, source: Source) -> Trained:
        if self.loss == "nll":
            return super().train(trainer, source)
        if (n_classes := len(source.classes)) >= defaults.MANY_CLASSES:
            problem = f"MultinomialNB needs memory for a table of {n_classes:,} classes x {source.n_features:,} words"
            warnings.warn(f"{problem}: ManyClassNB is as accurate, much faster, and needs less memory", stacklevel=3)
        plan, message = self._plan(source), ""
        of_a_lane = plan.n_documents // (plan.n_lanes * plan.n_rounds)
        lanes_matter = self.merge == "mean" and plan.n_lanes > 1 and not plans.is_unnormalised(source)
        if lanes_matter and of_a_lane < defaults.SHORT_LANE:
            message = f"n_lanes={plan.n_lanes:,} leaves {counted(of_a_lane or 1, 'document')} per lane in a round. Fewer than "
            message += f"{defaults.SHORT_LANE} may reduce accuracy: set n_lanes=None, or use fewer lanes"
        if source.n_labelled:
            end, source = holdout.train_with_unlabelled(self, trainer, source)
            self._describe(source)
        else:
            end = super().train(trainer, source)
        return end._replace(warnings=(message,) if message else ())

    feature_log_prob_ = p.fitted("_parameters.log_probabilities", "ln p(word | class), shape (n_classes, n_features).")
    loss_ = p.fitted("learner_.loss", "Loss function that was minimized.", "str or Loss")
    feature_count_ = p.fitted(lambda nb: nb._counted.words.T - nb._pseudo_counts, "Word counts per class, for 'nll'.")
    class_count_ = p.fitted("_counted.class_counts", "Documents per class, for 'nll'; unlabelled ones add p(y | d).")

    _pseudo_counts = p.fitted(lambda m: a if np.ndim(a := m._trained_params["alpha"]) else m.learner_.model.alpha, "")


class MultiLabelNB(LaneNB):
    """Multinomial naive Bayes for documents with several labels or none: each label against the rest.

    For each label there are two classes, documents with and without the label, trained by stochastic discriminative EM
    (sdEM) as in `MultinomialNB`. With one label per document, the most probable label is predicted ("one-vs-rest").

    loss -- Loss for each label. "hinge": the hinge loss (Masegosa 2014, equation 17). "ncll": ``-ln p(y | d)``, where y
        is the label or its absence. Or a `Loss`, such as `CostSensitiveHinge(((0, wrong), (missed, 0)))`.
    References -- Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 1, Algorithms 1 to 4.
        Yang, Y. (2001). A study of thresholding strategies for text categorization. SIGIR.

    >>> from sdem_dist import MultiLabelNB
    >>> texts = ["a late goal", "rates fall", "the club buys shares", "the weather is fine"] * 5
    >>> clf = MultiLabelNB(n_epochs=10).fit(texts, [["sport"], ["money"], ["money", "sport"], []] * 5)
    >>> clf.labels_of(["a goal", "shares of the club"])
    [('sport',), ('money', 'sport')]
    """

    loss: Literal["hinge", "ncll"] | Loss = "hinge"

    spec = replace(MultinomialNB.spec, shown=("micro_f1", "label_log_loss"), unlabelled=False, label_sets=True)
    _several = True

    temperatures_ = p.fitted("learner_.head.decisions.temperatures", "Temperature of each label, shape (n_labels,).")
    feature_log_prob_ = p.fitted(
        lambda model: (np.log(model.state_.words[:, 1::2]) - np.log(model.state_.totals[1::2])).T,
        "Logarithm of p(word | label), shape (n_labels, n_features).",
    )


class ManyClassNB(WordNB, JointClassifier):
    """Multinomial naive Bayes for thousands of classes, trained by stochastic discriminative EM (sdEM).

    The model is that of `MultinomialNB`, without a table of all words and classes: only counts that training changed
    are stored. Training with "hinge" is approximate if many classes contain the words of a document: the strongest
    other class is then chosen among those with the document's rarer words. Everything else is exact.

    loss -- The hinge loss (Masegosa 2014, equation 17), or "nll": ``-ln p(y, d)``, in one pass over the counts.
    n_epochs -- Number of passes over the documents; "nll" needs one.
    step -- The first step changes the margin of an average document by twice `step`. None: 0.2, or 3 for counts that
        are not normalized.
    calibrate -- With the hinge loss and 200 documents or more, hold out a tenth (at most 500) to choose the
        temperature. Only the final pass, on all documents, is evaluated. If fewer than 20 of the held-out documents
        belong to trained classes, a default temperature is used, with a warning.
    References -- Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 1, Algorithms 1 to 4.

    >>> from sdem_dist import ManyClassNB
    >>> texts = [f"item{i} of shelf{i % 7} with part{i % 11}" for i in range(77)] * 3
    >>> clf = ManyClassNB().fit(texts, [f"number {i}" for i in range(77)] * 3)
    >>> clf.predict(["shelf3 part5 item38", "part10 of item76"]).tolist()
    ['number 38', 'number 76']
    """

    loss: Literal["hinge", "nll"] = "hinge"
    n_epochs: int = 3
    step: float | None = None
    calibrate: bool = True

    spec = Spec("sparse", "labels", "class", poor_score=True)

    def _check(self) -> None:
        if self.patience is not None and self.loss != "nll" and self.calibrate:
            raise ValueError("patience needs calibrate=False: otherwise only the final pass is evaluated")

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stage that chooses the temperature, then train on all documents."""
        n, seed, n_classes = source.n_documents, seed_of(self.random_state), len(source.classes)
        alpha, head = pseudo_count(self.alpha, source.n_features), many_classes.VeryManyClasses(n_classes)
        model = many_classes.SparseCounts(source.n_features, head, alpha, float(self.loss != "nll"))
        if self.loss == "nll":
            learner = SdEM(model, source.weight, rules.ClosedForm(complete=True), seed=seed)
            plan = Plan(n, 1, 1, plans.lanes_of(n, defaults.SPARSE_LANE_DOCUMENTS), seed)
            return final_stage(trainer, learner, plan)
        step, sizes, start = self._margin_start(source, NaiveBayes(source.n_features, Classes(2), alpha), self.loss)
        learner = SdEM(model, source.weight, rules.AddSteps(sizes), "hinge", seed=seed)
        initial = model.start(start.prior)
        rounds = min(n, -(-source.corpus.header.n_nonzeros // defaults.SPARSE_ROUND_ENTRIES))
        plan = Plan(n, self.n_epochs, max(1, rounds), 1, seed)
        share = min(defaults.SPARSE_SHARE, defaults.SPARSE_MAX_HELD_OUT / n)
        if not self.calibrate or share * n < many_classes.FEWEST:
            return final_stage(trainer, learner, plan, initial)
        of_counts = plans.is_unnormalised(source)
        guess = step * (defaults.GUESSED_TEMPERATURE_OF_COUNTS if of_counts else defaults.GUESSED_TEMPERATURE)
        policy = holdout.HoldoutPolicy(trainer, source, share, every=self.n_epochs)
        result = policy.choose(iter([holdout.Candidate(replace(learner, temperature=guess), plan, initial)]))
        if not result.known:
            message = "using a default temperature of %.3g: too few held-out documents belong to trained classes"
            logging.getLogger(__name__).warning(message, guess)
        learner = replace(learner, temperature=result.temperature if result.known else guess)
        end = final_stage(trainer, learner, replace(plan, n_epochs=1, first=self.n_epochs), result.state)
        last = {**result.history[-1], **end.history[-1], "epoch": self.n_epochs + 1}
        return end._replace(history=[*result.history, last])

    def _predicted(self, X: object) -> np.ndarray:
        """Return the classes of documents in memory, scored a few at a time to save memory."""
        documents = documents_of(self, X)
        parts = many_classes.few_at_a_time(documents, len(self.classes_))
        best = [many_classes.joint_scores(self._parameters, part).argmax(axis=1) for part in parts]
        return np.asarray(self.classes_[np.concatenate(best)])

    def _joint_log_proba(self, X: object) -> np.ndarray:
        return many_classes.joint_scores(self._parameters, documents_of(self, X))
