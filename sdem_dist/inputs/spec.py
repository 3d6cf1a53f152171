"""Types shared by all parts of a fit: the declaration of an estimator, its documents, and the result of training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from sklearn.base import BaseEstimator

from sdem_dist.corpus import Corpus, MemoryCorpus
from sdem_dist.corpus.base import AnyDocuments
from sdem_dist.corpus.labels import Members
from sdem_dist.documents import CorpusLike, Documents, offsets_of
from sdem_dist.engine.plan import MadeByWorkers, Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.errors import CorpusError
from sdem_dist.learners.protocol import AnyModelLearner, ModelLearner, Prepared, State, Statistics
from sdem_dist.models.heads import trained_part
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sdem_dist.models.weighting import Weighting
    from sdem_dist.text.transform import TextTransformer

Layout = Literal["sparse", "dense"]
OF_THE_MACHINE = ("n_jobs", "verbose")  # parameters without effect on the model: not saved in its file
Extra: TypeAlias = "Mapping[str, Any]"  # content of a model file besides arrays and settings: JSON values and records
ONLY_CHOOSING = ("min_df", "max_df", "max_features")  # not compared: they choose the vocabulary, which is compared


@dataclass(frozen=True)
class Spec:
    layout: Layout  # CSR matrices of counts or weights, or rows of a dense table
    target: Literal["labels", "numbers", "nothing"]  # what to learn; the last column of a dense corpus holds numbers
    predicts: str | None  # result of `predict`, for display: "class", "cluster", "number"; None without `predict`
    shown: tuple[str, ...] = ("accuracy", "ncll")  # the few metrics to show during training
    words: str | None = None  # name of the attribute with ln p(word | class or cluster), shape (n_rows, n_features)
    topics: Literal["classes", "documents"] | None = None  # what the topics of `topics` describe
    unlabelled: bool = False  # has a parameter `unlabelled`: the label of documents without a label
    label_sets: bool = False  # documents may have several labels, or none
    positive: bool = False  # values must not be negative; counts of sparse documents never are
    poor_score: bool = False  # scikit-learn's checks should not expect good scores on their data
    shuffled: bool = True  # shuffle documents in memory once, for steps of a few documents
    either: bool = False  # `fit` also accepts documents of the other layout


Frequency: TypeAlias = Corpus | MemoryCorpus | np.ndarray
"""Document frequency of each word, shape (n_features,), or a corpus that contains it; workers read a corpus on disk."""


def counted_in(frequency: Frequency) -> np.ndarray:
    return frequency if isinstance(frequency, np.ndarray) else frequency.document_frequency


@dataclass(frozen=True, repr=False)
class Weigh:
    """A transform that weights counts like the model."""

    weighting: Weighting
    trained_on: Frequency
    words: list[str] | None = None  # if the weighting selects n-grams and no corpus on disk stores the words

    def __getstate__(self) -> dict[str, object]:
        return {"weighting": self.weighting, "trained_on": self.trained_on, "words": self.words}  # no cached factors

    @cached_property
    def _digest(self) -> str:
        return sha256(self.trained_on.tobytes()).hexdigest() if isinstance(self.trained_on, np.ndarray) else ""

    def __repr__(self) -> str:
        return f"{self.weighting} {self._digest}"

    @cached_property
    def factors(self) -> np.ndarray:
        words = self.words
        if words is None and self.weighting.orders is not None and not isinstance(self.trained_on, np.ndarray):
            words = self.trained_on.vocabulary()
        return self.weighting.factors(counted_in(self.trained_on), words)

    def __call__(self, documents: AnyDocuments, start: int, stop: int) -> Documents:
        return self.weighting.apply(cast(Documents, documents), self.factors)


@dataclass(frozen=True)
class HoldOut:
    """A transform that selects held-out documents (with labels, if there are any) and words of training documents."""

    frequency: Frequency = field(repr=False)  # over training and held-out documents
    seed: int = 0
    share: float = 1.0  # share of documents held out; 1: the corpus contains only these

    def __call__(self, documents: AnyDocuments, start: int, stop: int) -> Documents:
        documents = cast(Documents, documents)
        held_out = ~trained_part(self.seed, start, stop, self.share) if self.share < 1 else np.ones(stop - start, bool)
        if documents.labels is not None:  # documents without a label are trained on
            held_out &= documents.labels >= 0
        if documents.weights is not None:
            held_out &= documents.weights > 0
        documents, frequency = documents[np.flatnonzero(held_out)], counted_in(self.frequency)
        # words that only held-out documents contain would count for their length
        is_trained = (frequency > np.bincount(documents.indices, minlength=len(frequency)))[documents.indices]
        indptr = offsets_of(is_trained)[documents.indptr]
        return replace(documents, data=documents.data[is_trained], indices=documents.indices[is_trained], indptr=indptr)


@dataclass(frozen=True)
class Source:
    corpus: Corpus | MemoryCorpus
    weight: float  # total weight of documents
    classes: np.ndarray  # shape (n_classes,); empty if labels are not used
    class_counts: tuple[float, ...]  # weight of the documents of each class
    vocabulary: list[str] | None = None
    vectorizer: dict[str, object] | None = None  # settings by which texts were counted, if known
    transformer: TextTransformer | None = None  # counts other texts, if these documents were texts
    single: bool = True  # targets are 1-D, not columns of a table
    weighting: Weighting | None = None  # weighting of counts; None: entries are used unchanged
    trained_on: Frequency | None = None  # document frequencies for `weighting`
    members: sp.csr_matrix | None = None  # with several labels: which label is in which set, shape (n_sets, n_classes)
    retrain: bool = True  # train again on all documents after choices on held-out ones; False in searches

    @property
    def documents(self) -> CorpusLike:
        return self.seen(self.corpus)

    def seen(self, corpus: Any) -> CorpusLike:
        """Return documents (with the same columns) as weighted for the model, without any earlier weighting."""
        kept = tuple(t for t in corpus.transforms if not isinstance(t, Weigh))
        if len(kept) < len(corpus.transforms):
            corpus = corpus._with(transforms=kept)
        if self.members is not None:
            corpus = corpus.transformed(Members(self.members))
        if self.weighting is None or self.trained_on is None:
            return corpus
        elsewhere = self.weighting.orders is None or isinstance(self.trained_on, Corpus)
        return corpus.transformed(Weigh(self.weighting, self.trained_on, None if elsewhere else self.vocabulary))

    def weighed_by(self, frequency: Frequency, n_documents: int, **changes: Any) -> Source:
        """Return this source with a weighting by the frequencies of `n_documents` documents, and changed settings."""
        if self.weighting is None:
            return self
        # Frequencies include documents of damaged shards, which `n_documents` does not.
        n_counted = max(n_documents, int(counted_in(frequency).max(initial=0)))
        return replace(self, weighting=replace(self.weighting, n_documents=n_counted, **changes), trained_on=frequency)

    @property
    def frequency(self) -> np.ndarray | None:
        return None if self.trained_on is None else counted_in(self.trained_on)

    @property
    def n_features(self) -> int:
        return self.corpus.header.n_features

    @property
    def boundary(self) -> int:
        """First column of character n-grams, which follow words; 0 if all columns are of one kind."""
        settings = self.vectorizer or {}
        return VectorizerSettings.from_json(settings).boundary(self.vocabulary) if "features" in settings else 0

    @property
    def n_documents(self) -> int:
        return self.corpus.header.n_documents

    @property
    def n_labelled(self) -> float:
        """Weight of the documents with a label; 0 if all have one, or labels are not used."""
        labelled = float(sum(self.class_counts))
        return labelled if 0.0 < labelled < (1.0 - 1e-9) * self.weight else 0.0

    @property
    def weighted(self) -> bool:
        return self.corpus.header.weighted

    @property
    def name(self) -> str:
        return self.corpus.path if isinstance(self.corpus, Corpus) else "these documents"


class Trained(NamedTuple):
    learner: AnyModelLearner
    state: Any
    history: list[dict[str, float]]
    warnings: tuple[str, ...] = ()  # for the user, after the fit


class Estimator(BaseEstimator, ABC):
    """The interface of estimators to checks, files and runs, with defaults."""

    spec: ClassVar[Spec]
    _saved: ClassVar[Mapping[str, str]] = {}  # saved attribute (without `_`) -> attribute of equal length, or ""
    # Parameters of all estimators; those with a value here may be missing.
    patience: int | None = None
    random_state: object = 0
    unlabelled: object = None
    vectorizer: VectorizerSettings | None = None
    evaluate_every: int
    n_jobs: int | None
    verbose: bool | int
    # Attributes set by fitting.
    learner_: Any
    state_: Any
    _lazy_parameters: Any
    history_: list[dict[str, float]]
    damaged_shards_: list[str]
    set_scores_: list[np.ndarray]
    classes_: np.ndarray
    n_iter_: int
    n_features_in_: int
    vocabulary_: list[str] | None
    vectorizer_: dict[str, Any] | None
    label_separator_: str | None = None
    weighting_: Weighting | None = None
    document_frequency_: np.ndarray | None = None
    _trained_layout: Layout | None = None
    _several: bool = False
    _n_targets: int = 0  # number of targets per document of counts; 0: none
    _takes_hidden: bool = False  # documents without a label are allowed in training, whatever `unlabelled` is

    @abstractmethod
    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stages of a fit. They may depend only on settings and earlier results: a resumed fit repeats them."""

    @property
    @abstractmethod
    def _monitor(self) -> str:
        """The metric of validation documents that early stopping watches; lower is better."""

    def scorer(self, learner: Any) -> Any:
        """Return the learner that scores held-out documents."""
        return learner

    @property
    def holds_out(self) -> bool:
        """Whether training itself holds out documents, which may decide when it stops."""
        return False

    @property
    def _weights_are_relative(self) -> bool:
        """Whether training weights are scaled to the mean 1: discriminative losses have no scale of counts."""
        return self.spec.target == "labels" and getattr(self, "loss", None) != "nll"

    def _check(self) -> None:
        """Raise ValueError for contradictory parameters."""

    def _weighed(self, source: Source) -> Source:
        if source.boundary:
            problem = f"{type(self).__name__} does not support character n-grams: use features='words'"
            raise CorpusError(problem, path=source.name)
        return source

    @property
    def several_labels(self) -> bool:
        """Whether a document may have any number of labels; False: each document has one class."""
        return self._several

    @property
    def _layout(self) -> Layout:
        return self._trained_layout or self.spec.layout

    @property
    def _n_targets_in_columns(self) -> int:
        """Number of columns that hold a target: 1 (the last) for a table of a regressor, otherwise 0."""
        return int(self.spec.target == "numbers" and self._layout == "dense")

    @property
    def _n_columns(self) -> int:
        return self.n_features_in_ + self._n_targets_in_columns

    def _encoded(self, X: object, *, reset: bool) -> Any:
        return X

    def _checked(self, X: np.ndarray) -> np.ndarray:
        return X

    def _check_columns(self, source: Source) -> None:
        """Raise CorpusError if a corpus differs from the model in its vocabulary or text settings."""
        problem, theirs, settings, trained = "", source.vocabulary, source.vectorizer, self.vectorizer_
        if source.n_features != self._n_columns:
            problem = f"{source.name} has {source.n_features} words, but the model has {self._n_columns} words"
        elif theirs is not None and self.vocabulary_ is not None and theirs != self.vocabulary_:
            problem = f"the vocabulary of {source.name} does not match that of the model"
        elif settings is not None and trained is not None:
            compared = dict.fromkeys([*trained, "features"])
            odd = ", ".join(n for n in compared if n not in ONLY_CHOOSING and settings.get(n) != trained.get(n))
            # a corpus written from a matrix does not store how texts were counted
            if odd and (settings.get("kind") == "matrix") == (trained.get("kind") == "matrix"):
                problem = f"the text settings of {source.name} differ from those of the model ({odd})"
        if problem:
            raise CorpusError(f"{problem}; ingest it like the training corpus (sdem ingest --vocabulary-from)")

    @abstractmethod
    def vectorize(self, texts: Sequence[str]) -> sp.csr_matrix: ...

    def extra(self) -> dict[str, object]:
        extra: dict[str, object] = {"layout": self._layout} if self.spec.either else {}
        return extra | {name: getattr(self, f"{name}_") for name in self._saved}

    def take_extra(self, extra: Extra) -> None:
        for name, of_each in self._saved.items():
            values = np.array(extra[name], np.float64)
            if values.shape != ((len(getattr(self, of_each)),) if of_each else ()) or np.isnan(values).any():
                raise ValueError(f"{name} does not match the model")
            setattr(self, f"{name}_", values if of_each else float(values))
        if self.spec.either:
            if extra["layout"] not in ("sparse", "dense"):
                raise ValueError(f"unknown layout {extra['layout']!r}")
            self._trained_layout = extra["layout"]


def final_stage(
    trainer: Trainer,
    learner: ModelLearner[State, Statistics, Prepared],
    plan: Plan,
    initial: State | Callable[[], State] | MadeByWorkers[State] | None = None,
    suffix: str = "",
) -> Trained:
    """Run the last stage of a fit, the monitored one; `suffix` is added to its name."""
    trained = trainer.run(Stage(f"train{suffix}", learner, plan, initial, monitored=True))
    return Trained(learner, trained.state, trained.history)
