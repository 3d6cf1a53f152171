"""The base of all estimators: training in stages by the engine, evaluation, files."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast, dataclass_transform

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sdem_dist import export
from sdem_dist.corpus import Corpus
from sdem_dist.corpus.base import BaseCorpus
from sdem_dist.corpus.reader import undamaged_part
from sdem_dist.engine.callbacks import progress_callback
from sdem_dist.engine.checkpoint import Checkpoints, identity
from sdem_dist.engine.events import Callback
from sdem_dist.engine.plan import Monitoring
from sdem_dist.engine.trainer import Trainer
from sdem_dist.errors import ModelError
from sdem_dist.estimators import parameters as p
from sdem_dist.fitting import running
from sdem_dist.fitting.running import Client
from sdem_dist.inputs.source import documents_of, source_of, table_of
from sdem_dist.inputs.spec import Estimator, Source
from sdem_dist.inputs.validation import are_texts, is_dask, text_column
from sdem_dist.learners.protocol import AnyModelLearner
from sdem_dist.models.naive_bayes import joint_scores
from sdem_dist.reports.reporting import agreement, report_of
from sdem_dist.saving import save_model
from sdem_dist.storage.buckets import place
from sdem_dist.text.texts import texts_of_strings
from sdem_dist.text.vectorizer import VectorizerSettings


@dataclass_transform(eq_default=False)
class EngineEstimator(Estimator):
    """Base of the estimators: they declare their parameters and a `spec`, and run the stages of a fit.

    n_features_in_ : int --
    history_ : list of dict -- One entry per epoch, with ``epoch``, ``seconds`` and, in evaluated epochs, metrics.
        Losses are means per document or row. Metrics on validation documents have the prefix ``validation_``.
    n_iter_ : int -- Number of epochs.
    damaged_shards_ : list of str -- Descriptions of the damaged shards that `fit` skipped (`skip_damaged`).
    learner_, state_ : NamedTuple or dataclass -- The learner with its settings, and the trained state with mu.
    vocabulary_ : list of str or None -- Words or column names, if the training corpus contains them.
    vectorizer_ : dict or None -- Tokenization of the training texts, if the model accepts texts.
    label_separator_ : str or None -- Separator between the labels of a document in source files.
    weighting_ : Weighting or None -- Weighting of counts, if any.
    document_frequency_ : ndarray of shape (n_features,), int64, or None -- Number of training documents with each word.
    """

    patience: int | None = None
    random_state: object = 0
    evaluate_every: int = 1
    n_jobs: int | None = None
    verbose: bool | int = False

    # Parameters of steps, unused where "nll" is fitted in closed form.
    _unused_by_nll: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        p.declare(p.document(cls))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # Every attribute that fitting adds raises NotFittedError before, so that methods need not check.
            fitted_later = (name.endswith("_") and not name.startswith("_")) or name == "_lazy_parameters"
            if fitted_later and "state_" not in self.__dict__:
                raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' first.")
            return object.__getattribute__(self, name)  # raises again the error of a property

    def fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        *,
        client: Client | None = None,
        validation: object = None,
        checkpoint: str | Path | None = None,
        checkpoint_rounds: int | None = None,
        checkpoint_seconds: float | None = None,
        resume: bool = False,
        skip_damaged: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Train on documents in memory or on a corpus.

        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features), texts, or Corpus -- Counts or
            weights, texts (a list, an array, or a pandas, polars or Arrow column) or, for table models, a table with
            NaN for missing values. A corpus contains its labels or targets.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None -- Labels, or targets for
            regression; None for a corpus. Unsupervised mixtures and topic models ignore `y`.
        sample_weight : array-like of shape (n_samples,), default=None -- Weights of documents in memory. With
            ``loss="nll"``, a weight is a number of documents; with other losses, classifiers divide it by the mean.
        client : distributed.Client, default=None -- Train on this Dask cluster. `X` is then a corpus that its workers
            can read, or a dask array of counts. An array is written to a temporary corpus in the folder or URL
            ``sdem-dist.scratch`` of the Dask configuration, or in ``temporary-directory``. A Dask column of texts is
            computed on the cluster, and this process trains on the result.
        validation : Corpus or tuple (X, y), default=None -- Documents for evaluation after epochs, and for `patience`.
        checkpoint : path, default=None -- Folder for checkpoints.
        checkpoint_rounds, checkpoint_seconds : float, default=None -- Interval of checkpoints. None: every epoch.
        resume : bool, default=False -- Resume from the latest checkpoint, with the same result as an uninterrupted run.
        skip_damaged : bool, default=False -- Verify the corpus first, and skip shards that do not match their
            checksums; a warning and `damaged_shards_` list them. A `validation` corpus must be intact.
        callbacks : sequence of callables -- Called with every event of the run, see `sdem_dist.engine.events`. At the
            end, their method `fitted` or `failed` is called with this estimator (see ``examples/mlflow_runs.py``).
        Raises ValueError -- Settings contradict each other, or documents or labels do not fit the model.
        Raises CorpusError, ClusterError, ModelError -- A damaged corpus, a lost cluster, or a wrong checkpoint.
        """
        p.check(self)
        self._check()
        if self.patience is not None and validation is None and not self.holds_out:
            raise ValueError("patience needs validation documents: pass a corpus or (X, y) as validation")
        if checkpoint is None and (resume or checkpoint_rounds or checkpoint_seconds):
            raise ValueError("resume, checkpoint_rounds and checkpoint_seconds need a folder: set checkpoint")
        folder = None if checkpoint is None else place(checkpoint)
        if folder is not None and (folder.is_file() or (folder / "zarr.json").exists()):
            raise ValueError(f"{checkpoint} is a file or a corpus: checkpoints need a separate folder")
        if client is not None and is_dask(X) and (self.spec.either or self._layout == "sparse"):
            X = text_column(X)  # a lazy column of texts is computed and counted here
            client = client if is_dask(X) else None
        self._look_at(X)
        data: tuple[object, ...] = X, y, sample_weight
        with ExitStack() as stack:
            if client is not None and is_dask(X):
                data = (stack.enter_context(running.corpus_in_scratch(self, X, y, sample_weight, client)),)
            source = source_of(self, *data, client=client)
            self.damaged_shards_ = []
            stack.push(partial(running.notify, self, callbacks))
            with running.executor_for(client, self.n_jobs, source) as executor, ExitStack() as run:
                if skip_damaged and isinstance(source.corpus, Corpus):
                    corpus, self.damaged_shards_ = undamaged_part(source.corpus, executor, callbacks)
                    source = source_of(self, corpus)
                source = self._weighed(source)
                self._describe(source)
                documents, stopping, every = None, None, self.evaluate_every
                if validation is not None:
                    held_out = running.validation_source(self, validation, client)
                    documents = run.enter_context(running.forgetting(held_out)).documents
                    every = every or 1  # validation documents of the user are always evaluated
                    if self.patience is not None:  # without patience, evaluation changes nothing
                        stopping = self.patience, self.evaluate_every, held_out.corpus.header.uid
                how: Any = {"training": self.evaluate_every > 0, "main_metrics": self.spec.shown, "scorer": self.scorer}
                monitoring = Monitoring(every, documents, self._monitor, self.patience, **how)
                progress = [run.enter_context(progress_callback())] if self.verbose else []
                # No folder is left if the documents are refused.
                checkpoints = None if folder is None else Checkpoints(folder, checkpoint_rounds, checkpoint_seconds)
                settings = identity(corpus=source.corpus.header.uid, weighting=source.weighting, stopping=stopping)
                resuming: Any = {"checkpoints": checkpoints, "settings": settings, "resume": resume}
                watching: Any = {"monitoring": monitoring, "callbacks": [*callbacks, *progress]}
                trainer = Trainer(executor, source.documents, **resuming, **watching)
                end = self.train(run.enter_context(trainer), source)
            self.history_, self.n_iter_ = end.history, len(end.history)
            self._take(end.learner, end.state)
            if source.transformer is not None:
                self._lazy_parameters.cached("words", lambda: source.transformer, source.vectorizer, source.vocabulary)
            if self.spec.predicts == "cluster" and not isinstance(X, Corpus | Source):  # as in scikit-learn
                self.labels_ = np.asarray(self.predict(X))  # type: ignore[attr-defined]
            for message in end.warnings:
                warnings.warn(message, stacklevel=2)
        if getattr(self, "loss", "") == "nll" and self.unlabelled is None:
            values = [(f, getattr(self, f.name)) for f in fields(self) if f.name in self._unused_by_nll]  # type: ignore[arg-type]
            if changed := ", ".join(f"{f.name}={value!r}" for f, value in values if value != f.default):
                warnings.warn(f"loss='nll' ignores {changed}", stacklevel=2)
        return self

    def _look_at(self, X: object) -> None:
        """Inspect the training data before they are read."""
        if self.spec.either:
            rows = getattr(X, "_meta", X)  # the type of the blocks of a dask array
            corpus = X.corpus if isinstance(X, Source) else X
            layout = corpus.header.layout if isinstance(corpus, BaseCorpus) else None
            self._trained_layout = layout or ("sparse" if sp.issparse(rows) or are_texts(X) else "dense")

    def _describe(self, source: Source) -> None:
        self.n_features_in_ = source.n_features - self._n_targets_in_columns
        self.vocabulary_, self.vectorizer_ = source.vocabulary, source.vectorizer
        self.weighting_, self.document_frequency_ = source.weighting, source.frequency
        self._n_targets = source.corpus.header.n_targets if self.spec.target == "numbers" else 0
        if self.spec.target == "labels":
            self.classes_, self._several = source.classes, source.members is not None
            self.label_separator_ = source.corpus.header.label_separator

    def _take(self, learner: AnyModelLearner, state: Any) -> None:
        self.learner_: Any = learner
        self.state_, self._trained_params = state, self.get_params(deep=False)
        self._several = not getattr(getattr(learner, "head", None), "exclusive", True)
        self._n_targets = learner.n_labels if self.spec.target == "numbers" and self._layout == "sparse" else 0
        self._lazy_parameters = running.LazyParameters(learner, state)
        self.__dict__.pop("set_scores_", None)  # of an earlier fit

    @property
    def best_entry_(self) -> dict[str, float]:
        """The entry of `history_` for the epoch of this model: the last epoch, or the best epoch with `patience`."""
        return self._best_entry(self.history_)

    def _best_entry(self, history: list[dict[str, float]]) -> dict[str, float]:
        watched = f"validation_{self._monitor}"
        scored = [entry for entry in history if watched in entry]
        if self.patience is not None and scored:
            of_training = {k: v for k, v in history[-1].items() if k.startswith(("held_out_", "fold_"))}
            return of_training | min(scored, key=lambda entry: entry[watched])
        return history[-1] if history else {}

    _parameters = p.fitted("_lazy_parameters.value", "")

    def _joint_log_proba(self, X: object) -> np.ndarray:
        """Return ln p(class, cluster or component, document) of documents in memory, shape (n_samples, n_columns).

        Words or columns are independent given these; other models have a function of their own.
        """
        if self._layout == "sparse":
            return np.asarray(joint_scores(self._parameters, documents_of(self, X)))
        variables = self.learner_.model.variables
        return np.asarray(variables.scores(self._parameters, variables.features(table_of(self, X))))

    def evaluate(self, X: object, y: object = None, *, client: Client | None = None) -> dict[str, float]:
        """Return metrics by name; for classifiers, accuracy, mean losses in nats, and perplexity.

        Returns : dict of str to float -- For clustering, also purity, NMI and ARI if labels are known.
        """
        check_is_fitted(self)
        metrics = running.evaluate_source(self, source_of(self, X, y, client=client, use="score"), client)
        return metrics | agreement(self, X, y, client) if self.spec.predicts == "cluster" else metrics

    report = report_of
    save = save_model
    to_sklearn = export.to_sklearn

    def vectorize(self, texts: Sequence[str]) -> sp.csr_matrix:
        """Convert texts (a sequence or a column) to the input matrix of the model, shape (n_samples, n_features).

        Raises ModelError -- The model was not trained on text.
        """
        if self.vectorizer_ is None or self.vectorizer_["kind"] == "matrix":
            problem = "this model was trained on numbers, so it cannot read text or table files: pass a corpus"
            raise ModelError(f"{problem} (see write_corpus) or, in Python, an array or a table")
        from sdem_dist.text.transform import TextTransformer  # imports kernels of text

        # Held-out texts are counted before there are parameters.
        lazy = getattr(self, "_lazy_parameters", None) or running.LazyParameters(None, None)
        settings, words = VectorizerSettings.from_json(self.vectorizer_), self.vocabulary_
        make = partial(TextTransformer, settings, words, owner=lazy.owner)  # slow for large vocabularies
        transformer = lazy.cached("words", make, self.vectorizer_, words)
        return cast("sp.csr_matrix", transformer.counts(texts_of_strings(cast("Any", text_column(texts)))))

    def __sklearn_is_fitted__(self) -> bool:
        return "state_" in self.__dict__

    def __sklearn_tags__(self) -> Tags:
        tags, sparse, either = super().__sklearn_tags__(), self._layout == "sparse", self.spec.either
        kind, full = getattr(self, "_kind", ""), getattr(self, "covariance_type", "diag") == "full"
        positive = self.spec.positive or kind in ("exponential", "poisson", "categorical")
        tags.input_tags.sparse = sparse or either
        tags.input_tags.positive_only = positive or (sparse and not either)
        tags.input_tags.allow_nan = not (sparse or either or full)
        tags.input_tags.categorical = kind == "categorical"
        return tags


p.declare(p.document(EngineEstimator))  # subclasses declare their own
