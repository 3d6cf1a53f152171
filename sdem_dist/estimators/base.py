"""What classifiers trained by sdEM share: training by the engine, predictions from joint scores, evaluation, files."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sdem_dist.estimators import inputs
from sdem_dist.estimators.fitting import FitOptions
from sdem_dist.estimators.scoring import over_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

    from sdem_dist.engine.events import Callback


class SdemClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers; they say how parameters make a learner, and how documents are scored."""

    _sparse: bool
    """Whether documents are CSR matrices rather than dense tables."""
    _learner: Any
    _state: Any
    _parameters: Any

    @abstractmethod
    def _train(self, source: inputs.Source, options: FitOptions) -> tuple[Any, Any, list[dict[str, float]]]:
        """Return the learner, its state after training, and the history."""

    @abstractmethod
    def _joint_log_proba(self, X: Any) -> np.ndarray:
        """Return ln p(y, d) of documents in memory."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        client: Any = None,
        validation: Any = None,
        checkpoint: str | Path | None = None,
        checkpoint_rounds: int | None = None,
        checkpoint_seconds: float | None = None,
        resume: bool = False,
        skip_damaged: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Train on documents in memory or on a corpus.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features), or Corpus
            What the model is of: counts or weights for `MultinomialNB`, a table, perhaps with NaN, for the models of dense
            features. A corpus brings its labels.
        y : array-like of shape (n_samples,), default=None
            Class labels; None with a corpus.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the documents in memory.
        client : distributed.Client, default=None
            Train on this Dask cluster; `X` is then a corpus on storage that its workers see.
        validation : Corpus or tuple (X, y), default=None
            Documents evaluated after epochs, for the history and for `patience`.
        checkpoint : path, default=None
            Folder for checkpoints.
        checkpoint_rounds : int, default=None
        checkpoint_seconds : float, default=None
            When to write one: after so many rounds, or seconds; both None: after every epoch.
        resume : bool, default=False
            Go on from the newest checkpoint in the folder; the result has the bits of an uninterrupted run.
        skip_damaged : bool, default=False
            Train a corpus without those of its shards that do not match their checksums, instead of ending with an
            error. All of it is read once more for that, before training. A warning and `damaged_shards_` name them.
            A `validation` corpus must be sound.
        callbacks : sequence of callables
            Called with every event of the run, see `sdem_dist.engine.events`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Settings that do not go together, values that the model has no place for, labels missing or of one class only.
        CorpusError, ClusterError, ModelError
            A damaged corpus, an unreachable cluster, a checkpoint that does not fit.
        """
        self.damaged_shards_: list[str] = []
        if skip_damaged:
            from sdem_dist.estimators.damage import sound_part

            X, self.damaged_shards_ = sound_part(X, client, self.n_jobs, callbacks)
        source = inputs.training_source(self, X, y, sample_weight, client)
        options = FitOptions(client, validation, checkpoint, checkpoint_rounds, checkpoint_seconds, resume, callbacks)
        self._describe(source)
        self._learner, self._state, self.history_ = self._train(source, options)
        self.n_iter_ = len(self.history_)
        self._parameters = self._learner.parameters(self._state)
        return self

    def _describe(self, source: inputs.Source) -> None:
        self.classes_ = source.classes
        self.n_features_in_ = source.n_features
        self.vocabulary_, self.vectorizer_, self.idf_ = source.vocabulary, source.vectorizer, source.idf

    def predict_joint_log_proba(self, X: Any) -> Any:
        """Return ln p(y, d), shape (n_samples, n_classes); of counts without the multinomial coefficient.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
            For a dask array the result is one too, computed block by block.
        """
        check_is_fitted(self)
        return over_blocks(self, X, self._joint_log_proba, n_columns=len(self.classes_))

    def predict_log_proba(self, X: Any) -> Any:
        """Return ln p(y | d), shape (n_samples, n_classes)."""
        from scipy.special import log_softmax

        check_is_fitted(self)
        return over_blocks(self, X, lambda b: log_softmax(self._joint_log_proba(b), axis=1), len(self.classes_))

    def predict_proba(self, X: Any) -> Any:
        """Return p(y | d), shape (n_samples, n_classes)."""
        from scipy.special import softmax

        check_is_fitted(self)
        return over_blocks(self, X, lambda b: softmax(self._joint_log_proba(b), axis=1), len(self.classes_))

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each document, shape (n_samples,)."""
        check_is_fitted(self)
        return over_blocks(self, X, lambda b: self.classes_[self._joint_log_proba(b).argmax(axis=1)], None)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy on documents, or on a corpus with its own labels."""
        from sdem_dist.corpus import Corpus

        if isinstance(X, Corpus):
            if sample_weight is not None:
                raise ValueError("a corpus has no sample weights: leave sample_weight at None")
            return self.evaluate(X, y)["accuracy"]
        return float(super().score(X, y, sample_weight))

    def evaluate(self, X: Any, y: Any = None, *, client: Any = None) -> dict[str, float]:
        """Return accuracy, mean losses and perplexity, see `sdem_dist.evaluation.finish`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Corpus
        y : array-like of shape (n_samples,), default=None
            None with a corpus.
        client : distributed.Client, default=None
            Score a corpus on this cluster.
        """
        from sdem_dist.estimators.fitting import evaluate_source

        check_is_fitted(self)
        return evaluate_source(self, self._learner, self._state, inputs.evaluation_source(self, X, y, client), client)

    def save(self, path: str | Path) -> None:
        """Save the model as one file of arrays and JSON, atomically; see `sdem_dist.load_model`."""
        from sdem_dist.estimators.persistence import save_model

        check_is_fitted(self)
        save_model(self, path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")
