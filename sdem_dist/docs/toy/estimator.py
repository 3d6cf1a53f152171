"""The learner as a scikit-learn classifier."""

from __future__ import annotations

import numpy as np

from sdem_dist.engine.plan import Plan
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators.predictions import EngineClassifier
from sdem_dist.inputs.source import Source, documents_of
from sdem_dist.inputs.spec import Spec, Trained, final_stage
from sdem_dist.learners.class_means import ClassMeans, scores
from sdem_dist.text.vectorizer import VectorizerSettings


class NearestMean(EngineClassifier):
    """The class with the nearest mean.

    n_lanes -- Lanes that share out the documents.
    """

    n_lanes: int = 4
    vectorizer: VectorizerSettings | None = None

    spec = Spec("sparse", "labels", "class", shown=("accuracy",))

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the one stage of a fit: one epoch of one round."""
        learner = ClassMeans(source.n_features, len(source.classes))
        plan = Plan(source.n_documents, n_epochs=1, n_rounds=1, n_lanes=self.n_lanes, seed=0)
        return final_stage(trainer, learner, plan)

    def _class_scores(self, X: object) -> np.ndarray:
        return scores(self._parameters, documents_of(self, X))
