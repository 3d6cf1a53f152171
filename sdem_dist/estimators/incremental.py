"""Training that continues with every new batch of documents."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np

from sdem_dist.engine.plan import AnyStage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.fitting import defaults
from sdem_dist.fitting.running import executor_for
from sdem_dist.inputs.source import source_of
from sdem_dist.inputs.validation import classes_of_batches
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.models.feature_classes import DenseModel, started

_OF_ONE_PASS = {"n_epochs": 1, "n_em_epochs": 1, "calibrate": False, "validation_fraction": 0.0, "patience": None}
_MAY_CHANGE = {*_OF_ONE_PASS, "class_weight", "n_jobs", "verbose", "evaluate_every", "random_state", "unlabelled"}
_MAY_CHANGE |= {"batch_size", "n_lanes", "rounds_per_epoch", "n_blocks"}


class Incremental(EngineEstimator):
    """Base of the estimators that can continue training with each new batch."""

    def partial_fit(self, X: object, y: object, classes: object = None, sample_weight: object = None) -> Self:
        """Update the model with one pass over a batch of documents, or rows.

        The first batch determines document frequencies, step sizes, the scale of columns and, for texts, the
        vocabulary. After the first call, only `class_weight` and settings of a pass (`batch_size`) may change.

        classes : array-like of shape (n_classes,), default=None -- All classes; needed in the first call.
        Raises ValueError -- Documents or parameters do not fit the model.
        """
        p.check(self)
        self._check()
        first = not hasattr(self, "state_")  # a failed first call leaves classes_ behind
        for name in () if first else sorted(self._trained_params.keys() - _MAY_CHANGE):
            value, before = getattr(self, name), self._trained_params[name]
            if not np.array_equal(np.array(value, object), np.array(before, object)):
                problem = f"{name} is {value!r}, but was {before!r} when training began"
                raise ValueError(f"{problem}: partial_fit cannot change it. Restore the earlier value, or call fit")
        every = classes_of_batches(None if first else self.classes_, classes) if self.spec.target == "labels" else None
        source = source_of(self, X, y, sample_weight, use="train" if first else "continue", classes=every)
        if first:
            self.history_, self.n_iter_ = [], 0
            source = self._weighed(source)
            self._describe(source)
        elif (counts := vars(self).get("class_count_")) is not None:
            self.class_count_ = counts + np.asarray(source.class_counts)
        if source.n_labelled and getattr(self, "loss", "") != "nll":
            raise ValueError("partial_fit accepts unlabelled documents only with loss='nll': set it, or call fit")

        def going_on(learner: Any) -> Any:
            if getattr(learner.rule, "judged", False):  # it needs a second pass, and batches have one
                learner = replace(learner, rule=replace(learner.rule, judged=False))
            if first:
                return learner
            n_documents = self.learner_.n_documents + source.weight
            return replace(self.learner_, n_documents=n_documents, class_weight=learner.class_weight)

        def of_batch(stage: AnyStage) -> AnyStage:
            if not stage.monitored:
                return stage
            learner, initial = going_on(stage.learner), cast(Any, stage.initial if first else self.state_)
            tables = isinstance(learner.model, DenseModel)
            if tables and isinstance(learner.rule, ClosedForm):
                rows: Any = source.corpus.read(0, source.n_documents)
                if np.isnan(rows.values).any():
                    raise ValueError("loss='nll' does not support NaN in partial_fit: impute values, or call fit")
            elif tables and initial is not None:
                counts, mu = initial.best  # a class may come later; steps are in units of the documents so far
                counts = np.maximum(counts * (learner.n_documents / counts.sum()), learner.model.class_alpha)
                initial = started(counts, mu, initial.t)
            plan = replace(stage.plan, n_epochs=1, n_blocks=1, growth=stage.plan.growth if first else 0)
            return replace(stage, learner=learner, plan=plan, initial=initial)

        one: Any = copy(self)
        one.__dict__.update({name: value for name, value in _OF_ONE_PASS.items() if hasattr(self, name)})
        if self._layout == "dense":
            one.batch_size = getattr(self, "batch_size", None) or defaults.MEAN_BATCH
        with executor_for(None, self.n_jobs, source) as executor, Trainer(executor, source.documents) as trainer:
            end = one.train(trainer.changed(of_batch), source)
        self._take(going_on(end.learner), end.state)
        self.n_iter_ += 1
        return self
