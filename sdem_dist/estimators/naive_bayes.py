"""Multinomial naive Bayes trained by sdEM, as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sdem_dist.engine.plan import MadeByWorkers, Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.classifier import JointClassifier, fixed_log_prior, step_weights, weights_of_classes
from sdem_dist.estimators.prediction_mixins import JointModel
from sdem_dist.estimators.text_training import TextTrainingParams, is_unnormalised
from sdem_dist.fitting import defaults, plans
from sdem_dist.fitting.holdout import Candidate, HoldoutPolicy, first_loss, loss_draws, may_overlap, share_held_out
from sdem_dist.fitting.sklearn_callbacks import CALLER
from sdem_dist.fitting.unlabelled import train_with_unlabelled
from sdem_dist.inputs.source import Source, source_of
from sdem_dist.inputs.spec import Spec, Trained, final_stage
from sdem_dist.inputs.validation import classes_of_batches, seed_of
from sdem_dist.learners.protocol import AnyModelLearner
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.losses import Loss
from sdem_dist.models.heads import Classes as ClassesHead
from sdem_dist.models.naive_bayes import NaiveBayes, pseudo_count
from sdem_dist.models.word_counts import SdemState

if TYPE_CHECKING:
    from sdem_dist.reports.explanation import DocumentParts

FROZEN_PARAMS = (
    *("loss", "alpha", "class_prior", "fit_prior", "unlabelled_weight", "step", "steps", "step_decay", "merge"),
    *("weighting", "norm", "min_df", "ngram_range", "vectorizer"),
)
"""Parameters that later batches cannot change."""


@p.estimator
class MultinomialNB(TextTrainingParams, p.Classes, JointModel, JointClassifier, EngineEstimator):
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

    loss: str | Loss = p.param(
        "auto",
        p.a_loss("auto", "hinge", "ncll", "nll"),
        'What training lowers. "hinge": the hinge loss (Masegosa 2014, equation 17). "ncll": ``-ln p(y | d)``.\n'
        '"nll": ``-ln p(y, d)``: scikit-learn\'s ``MultinomialNB``, exactly, in one pass over the counts.\n'
        '"auto": the hinge loss. If that gets over a fifth of the held-out documents of three or more classes wrong, NCLL is\n'
        "tried, too, and the lower log-loss decides. With fewer than 30 documents per class, on average, nothing is tried: it\n"
        "is NCLL where three or more classes are of about the same size, the largest at most 1.25 times the median.\n"
        "Where it learns from documents without labels: the hinge loss.\n"
        "Or `Hinge` with a margin, `CostSensitiveHinge`, or `Blend` of `sdem_dist.losses`; with\n"
        '``merge="sum"`` any object with the methods of `sdem_dist.losses.Loss`.',
    )
    n_epochs: int | str = p.param(
        "auto",
        p.AUTO_EPOCHS[0],
        'Passes over the documents; with hidden classes, iterations of EM. "auto": held-out documents choose, 20 at most.',
    )
    steps: str = p.param("margin", *p.STEPS)
    step: float | None = p.param(
        None,
        p.or_none(p.real(above=True)),
        'c, for "margin". None: 0.2 with the hinge loss, 1 with "ncll"; 3 where documents are counts that keep their length.',
    )
    unlabelled: object = p.param(None, *p.UNLABELLED)
    unlabelled_weight: float | str = p.param(
        "auto",
        p.either(p.one_of("auto"), p.real()),
        'Of documents without a label. With "nll" each counts this much through ``-ln p(x)``; "auto": 1. With another loss\n'
        'training starts at the log-odds of naive Bayes of all documents, found by EM, times this weight. "auto": the weight\n'
        "at which the classes of the median document are a fifth of the margin apart, or 0 (labelled documents alone) where\n"
        "held-out documents are clearly better that way. Training takes 6 epochs unless `n_epochs` is given.",
    )

    spec = Spec("sparse", "labels", "class", words="feature_log_prob_", unlabelled=True, poor_score=True)

    def _check(self) -> None:
        self._check_steps(closed_form=self.loss == "nll")
        if self.alpha == 0 and self.loss != "nll":
            raise ValueError(
                "alpha must be positive for a discriminative loss: the prior keeps mu off the boundary of S"
            )
        if self.unlabelled is not None and self.loss == "nll" and self.class_weight is not None:
            raise ValueError("with loss='nll' unlabelled documents need class_weight=None: their class is not known")
        if self.unlabelled is not None and self.loss != "nll" and self.steps == "paper":
            raise ValueError("steps='paper' takes no unlabelled documents with this loss: leave steps at 'margin'")

    @property
    def holds_out(self) -> bool:
        """Whether training holds out documents of its own, by which it may stop."""
        return self.loss != "nll" and self.validation_fraction > 0

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
        messages = p.short_lanes(self._plan(source)) if lanes_matter else ()
        if source.n_labelled:
            end, weighed_source = train_with_unlabelled(self, trainer, source)
            self._describe(weighed_source)
            return end._replace(warnings=messages)
        candidates = [partial(self._candidate, source, loss or first_loss(source))]
        if loss is None:
            candidates.append(partial(self._candidate, source, "ncll"))
        share, few = 0.0, False
        if self.n_epochs == "auto" or self.calibrate:
            share = share_held_out(self.validation_fraction, source.n_documents, defaults.FOLDS_HELD_OUT)
            few = not share and self.calibrate and self.holds_out and source.n_documents >= 2 * defaults.N_FOLDS
        if not share and not few:
            candidate = candidates[0]()
            end = final_stage(trainer, candidate.learner, candidate.plan, candidate.initial)
            return end._replace(warnings=messages)
        policy = HoldoutPolicy(
            trainer,
            source,
            share,
            self._patience_of_choice if share else None,
            n_draws=loss_draws(share, source.n_documents),
            doubt=lambda first: may_overlap(source, first.draws[0].accuracy.item()),
        )
        result = policy.choose(candidates) if share else policy.choose_by_folds(candidates)
        temperature = result.temperature if self.calibrate else 1.0
        end = policy.train(result, replace(result.candidate.learner, temperature=temperature))
        return end._replace(warnings=messages)

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
        choosing = share_held_out(self.validation_fraction, n, defaults.FOLDS_HELD_OUT) > 0
        most = defaults.MAX_EPOCHS if choosing else defaults.FEW_EPOCHS
        plan = self._plan_of_steps(n, most if self.n_epochs == "auto" else int(self.n_epochs), seed)
        growth = 0
        if self.merge == "sum" and self.steps == "margin":
            while (n // plan.n_rounds) >> (growth + 1) >= defaults.FIRST_BATCH:
                growth += 1
        return replace(plan, n_blocks=n_blocks, growth=growth or plan.growth)

    def _class_weights(self, source: Source) -> tuple[float, ...] | None:
        of_steps = self.loss != "nll" and self.steps == "margin"
        return (step_weights if of_steps else weights_of_classes)(self, source)

    def _learner(self, source: Source, loss: str | Loss) -> tuple[SdEM[NaiveBayes], MadeByWorkers[SdemState] | None]:
        """Return what is trained, and where it starts."""
        n_classes = len(source.classes)
        log_prior = fixed_log_prior(self.class_prior, self.fit_prior, n_classes)
        alpha = pseudo_count(self.alpha, source.n_features)
        model = NaiveBayes(source.n_features, ClassesHead(n_classes), alpha, log_prior=log_prior)
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
        from sdem_dist.fitting.running import executor_for

        p.check(self)
        self._check()
        first = not hasattr(self, "state_")  # a failed first call leaves classes_ behind
        for name, before in {} if first else self._first_params.items():
            value = getattr(self, name)
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
        stage = Stage("train", learner, plan if first else plan.steady, initial=initial)
        with executor_for(None, self.n_jobs, source) as executor, Trainer(executor, source.documents) as trainer:
            self._take(learner, trainer.run(stage).state)
        self.n_iter_ += 1
        return self

    def _take(self, learner: AnyModelLearner, state: SdemState) -> None:
        super()._take(learner, state)
        self._first_params = {name: getattr(self, name) for name in FROZEN_PARAMS}

    @property
    def feature_log_prob_(self) -> np.ndarray:
        """Logarithm of p(word | class), shape (n_classes, n_features)."""
        check_is_fitted(self)
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
        check_is_fitted(self)
        if not isinstance(self.learner_.rule, ClosedForm):
            raise AttributeError("counts are those of loss='nll': other losses train expected counts, see state_")
        return cast(SdemState, self.state_)

    def _document_parts(self, documents: object, pairs: np.ndarray) -> list[DocumentParts]:
        from sdem_dist.reports.parts import of_naive_bayes

        return of_naive_bayes(self._rows(documents), pairs, self._parameters.log_prior, self.temperature_)

    @property
    def loss_(self) -> str | Loss:
        """What training lowered."""
        check_is_fitted(self)
        loss: str | Loss = self.learner_.loss
        return loss
