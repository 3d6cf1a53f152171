"""What all estimators share: training by the engine, evaluation, files."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sdem_dist.estimators import inputs
from sdem_dist.estimators.fitting import FitOptions
from sdem_dist.estimators.lazy_parameters import LazyParameters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Self

    from sdem_dist.engine.events import Callback


class EngineEstimator(BaseEstimator):
    """Base of the estimators; they say how parameters make a learner, and what its state means."""

    _sparse: bool
    """Whether documents are CSR matrices rather than dense tables."""
    _restore: Callable[..., Any]
    """From arrays, settings and the number of features to the learner and the state of a model file."""
    _learner: Any
    _state: Any
    _lazy_parameters: LazyParameters
    patience: int | None
    history_: list[dict[str, float]]

    @abstractmethod
    def _train(self, source: inputs.Source, options: FitOptions) -> tuple[Any, Any, list[dict[str, float]]]:
        """Return the learner, its state after training, and the history."""

    @abstractmethod
    def _training_source(self, X: Any, y: Any, sample_weight: Any, client: Any) -> inputs.Source:
        """Return what `fit` trains on, checked."""

    @abstractmethod
    def _evaluation_source(self, X: Any, y: Any, client: Any) -> inputs.Source:
        """Return documents to score with the fitted model, checked against it."""

    @property
    @abstractmethod
    def _monitor(self) -> str:
        """Return the metric of validation documents that has to fall."""

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
            What the model is of: counts or weights, or a table, perhaps with NaN, for the models of dense features. A corpus
            brings its labels or targets.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Class labels, or targets of a regressor; None with a corpus.
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
        source = self._training_source(X, y, sample_weight, client)
        options = FitOptions(client, validation, checkpoint, checkpoint_rounds, checkpoint_seconds, resume, callbacks)
        self._describe(source)
        learner, state, self.history_ = self._train(source, options)
        self.n_iter_ = len(self.history_)
        self._take(learner, state)
        return self

    def _take(self, learner: Any, state: Any) -> None:
        """Become the model of a learner's state."""
        self._learner, self._state, self._lazy_parameters = learner, state, LazyParameters(learner, state)

    @property
    def _kept(self) -> dict[str, float]:
        """What `history_` says of the epoch whose model this is: the last one, or with `patience` the best one."""
        watched = f"validation_{self._monitor}"
        scored = [entry for entry in self.history_ if watched in entry]
        if self.patience is not None and scored:
            return min(scored, key=lambda entry: entry[watched])
        return self.history_[-1] if self.history_ else {}

    @property
    def _parameters(self) -> Any:
        return self._lazy_parameters.value

    def _describe(self, source: inputs.Source) -> None:
        self.n_features_in_ = source.n_features
        self.vocabulary_, self.vectorizer_, self.idf_ = source.vocabulary, source.vectorizer, source.idf

    def evaluate(self, X: Any, y: Any = None, *, client: Any = None) -> dict[str, float]:
        """Return the metrics that a history holds: for classifiers accuracy, mean losses and perplexity.

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
        return evaluate_source(self, self._learner, self._state, self._evaluation_source(X, y, client), client)

    def save(self, path: str | Path) -> None:
        """Save the model as one file of arrays and JSON, atomically; see `sdem_dist.load_model`."""
        from sdem_dist.estimators.persistence import save_model

        check_is_fitted(self)
        save_model(self, path)

    def vectorize(self, texts: Sequence[str]) -> Any:
        """Return raw texts as the matrix that this model was trained on, a CSR matrix.

        Raises
        ------
        ModelError
            The model was not trained on text.
        """
        from sdem_dist.errors import ModelError
        from sdem_dist.text.vectorizer import VectorizerSettings
        from sdem_dist.text.weighting import transform_texts

        check_is_fitted(self)
        if self.vectorizer_ is None or self.vectorizer_["kind"] == "matrix":
            raise ModelError(
                "this model was trained on numbers, not on text: it cannot turn text into counts; in Python its "
                "predict takes numbers"
            )
        settings_ = VectorizerSettings.from_json(self.vectorizer_)
        return transform_texts(texts, settings_, self.vocabulary_, self.idf_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")
