"""What the parts of a fit share: an estimator's declaration, its documents, and the result of a training."""

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
OF_THE_MACHINE = ("n_jobs", "verbose")  # parameters that change nothing about a model: files of models leave them out
Extra: TypeAlias = "Mapping[str, Any]"  # what a model file has beside arrays and settings: JSON values and records
ONLY_CHOOSING = ("min_df", "max_df", "max_features")  # settings that choose the vocabulary, which is compared itself


@dataclass(frozen=True)
class Spec:
    layout: Layout  # CSR matrices of counts or weights, or rows of a dense table
    target: Literal["labels", "numbers", "nothing"]  # to be learned; numbers of a dense corpus are its last column
    predicts: str | None  # what `predict` returns, for people: "class", "cluster", "number"; None without `predict`
    shown: tuple[str, ...] = ("accuracy", "ncll")  # metrics that people see where there is room for few
    words: str | None = None  # the attribute with ln p(word | class or cluster), shape (n_rows, n_features)
    topics: Literal["classes", "documents"] | None = None  # whose topics `topics` returns
    unlabelled: bool = False  # the parameter of this name says which label stands for none
    label_sets: bool = False  # documents may have several labels, or none
    positive: bool = False  # values are not negative; counts of sparse documents never are
    poor_score: bool = False  # scikit-learn's checks are not to expect good scores on their data
    shuffled: bool = True  # documents in memory are put into a random order, once: steps a few documents long need it
    either: bool = False  # documents may be of the other layout too: what `fit` is given decides


Frequency: TypeAlias = Corpus | MemoryCorpus | np.ndarray
"""How many documents each word has, shape (n_features,), or the corpus that knows; workers read those on disk."""


def counted_in(frequency: Frequency) -> np.ndarray:
    return frequency if isinstance(frequency, np.ndarray) else frequency.document_frequency


@dataclass(frozen=True, repr=False)
class Weigh:
    """A transform: counts as a model weighs them."""

    weighting: Weighting
    trained_on: Frequency
    words: list[str] | None = None  # where the weighting chooses among n-grams and no corpus on disk has them

    def __getstate__(self) -> dict[str, object]:
        return {"weighting": self.weighting, "trained_on": self.trained_on, "words": self.words}  # not the factors

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
    """A transform: only documents held out of training, with a label where others have one, and words trained on."""

    frequency: Frequency = field(repr=False)  # counts of documents that are trained on or held out
    seed: int = 0
    share: float = 1.0  # of the documents; 1: all that the corpus has

    def __call__(self, documents: AnyDocuments, start: int, stop: int) -> Documents:
        documents = cast(Documents, documents)
        held_out = ~trained_part(self.seed, start, stop, self.share) if self.share < 1 else np.ones(stop - start, bool)
        if documents.labels is not None:  # one without a label is trained on
            held_out &= documents.labels >= 0
        if documents.weights is not None:
            held_out &= documents.weights > 0
        documents, frequency = documents[np.flatnonzero(held_out)], counted_in(self.frequency)
        # words that held-out documents alone have would take a share of their length
        is_trained = (frequency > np.bincount(documents.indices, minlength=len(frequency)))[documents.indices]
        indptr = offsets_of(is_trained)[documents.indptr]
        return replace(documents, data=documents.data[is_trained], indices=documents.indices[is_trained], indptr=indptr)


@dataclass(frozen=True)
class Source:
    corpus: Corpus | MemoryCorpus
    weight: float  # documents by weight
    classes: np.ndarray  # shape (n_classes,); empty where labels play no part
    class_counts: tuple[float, ...]  # documents of each class, by weight
    vocabulary: list[str] | None = None
    vectorizer: dict[str, object] | None = None  # how text became numbers, if the corpus knows
    transformer: TextTransformer | None = None  # a counter of other texts, where these were texts
    single: bool = True  # numbers to be learned are one per document, not a column of a table
    weighting: Weighting | None = None  # how the model weighs counts; None: it takes entries as they are
    trained_on: Frequency | None = None  # for the `weighting`
    members: sp.csr_matrix | None = None  # of several labels: which is in which set, shape (n_sets, n_classes)
    retrain: bool = True  # with all documents after those held out have chosen how; searches compare without it

    @property
    def documents(self) -> CorpusLike:
        return self.seen(self.corpus)

    def seen(self, corpus: Any) -> CorpusLike:
        """Return documents of the same columns as the model sees them, whatever weighed them before."""
        others = tuple(t for t in corpus.transforms if not isinstance(t, Weigh))
        if len(others) < len(corpus.transforms):
            corpus = corpus._with(transforms=others)
        if self.members is not None:
            corpus = corpus.transformed(Members(self.members))
        if self.weighting is None or self.trained_on is None:
            return corpus
        elsewhere = self.weighting.orders is None or isinstance(self.trained_on, Corpus)
        return corpus.transformed(Weigh(self.weighting, self.trained_on, None if elsewhere else self.vocabulary))

    def weighed_by(self, others: Frequency, n_documents: int, **changes: Any) -> Source:
        """Return the documents with the weighting, changed, that frequencies of others, so many, make."""
        if self.weighting is None:
            return self
        # Frequencies count the documents of damaged shards that training leaves out, too.
        n_counted = max(n_documents, int(counted_in(others).max(initial=0)))
        return replace(self, weighting=replace(self.weighting, n_documents=n_counted, **changes), trained_on=others)

    @property
    def frequency(self) -> np.ndarray | None:
        return None if self.trained_on is None else counted_in(self.trained_on)

    @property
    def n_features(self) -> int:
        return self.corpus.header.n_features

    @property
    def boundary(self) -> int:
        """First column of character n-grams after words; 0 if columns are of one kind."""
        settings = self.vectorizer or {}
        return VectorizerSettings.from_json(settings).boundary(self.vocabulary) if "features" in settings else 0

    @property
    def n_documents(self) -> int:
        return self.corpus.header.n_documents

    @property
    def n_labelled(self) -> float:
        """Documents that have a label, by weight; 0 where all have, or labels play no part."""
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
    """What checks, files and runs see of an estimator, and what most of it is by default."""

    spec: ClassVar[Spec]
    _saved: ClassVar[Mapping[str, str]] = {}  # numbers in files, without the `_` at the end; and what has as many
    # Parameters of all, but for the first four: estimators that lack them have these values.
    patience: int | None = None
    random_state: object = 0
    unlabelled: object = None
    vectorizer: VectorizerSettings | None = None
    evaluate_every: int
    n_jobs: int | None
    verbose: bool | int
    # What fitting adds.
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
    _n_targets: int = 0  # numbers of each document of counts that the model learned; 0: none
    _takes_hidden: bool = False  # documents without a label may be trained on whatever `unlabelled` says

    @abstractmethod
    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stages of a fit. They must depend only on settings and results, since a resumed fit repeats them."""

    @property
    @abstractmethod
    def _monitor(self) -> str:
        """The metric of validation documents that has to fall."""

    def scorer(self, learner: Any) -> Any:
        """Return the pass that scores held-out documents."""
        return learner

    @property
    def holds_out(self) -> bool:
        """Whether training holds out documents of its own, by which it may stop."""
        return False

    @property
    def _weights_are_relative(self) -> bool:
        """Whether weights of training documents get the mean 1: discriminative losses have no scale of counts."""
        return self.spec.target == "labels" and getattr(self, "loss", None) != "nll"

    def _check(self) -> None:
        """Raise ValueError where parameters do not go together."""

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
        """Columns that hold a target: the last one of a table whose numbers are learned."""
        return int(self.spec.target == "numbers" and self._layout == "dense")

    @property
    def _n_columns(self) -> int:
        return self.n_features_in_ + self._n_targets_in_columns

    def _encoded(self, X: object, *, reset: bool) -> Any:
        return X

    def _checked(self, X: np.ndarray) -> np.ndarray:
        return X

    def _check_columns(self, source: Source) -> None:
        """Raise CorpusError if a corpus numbers its words, or makes numbers of text, in another way than the model."""
        problem, theirs, settings, trained = "", source.vocabulary, source.vectorizer, self.vectorizer_
        if source.n_features != self._n_columns:
            problem = f"{source.name} has {source.n_features} words, but the model has {self._n_columns} words"
        elif theirs is not None and self.vocabulary_ is not None and theirs != self.vocabulary_:
            problem = f"the vocabulary of {source.name} does not match that of the model"
        elif settings is not None and trained is not None:
            compared = dict.fromkeys([*trained, "features"])
            odd = ", ".join(n for n in compared if n not in ONLY_CHOOSING and settings.get(n) != trained.get(n))
            # numbers that others made from text do not tell how
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
    how: str = "",
) -> Trained:
    """Run the stage that a fit ends with, the one that is watched; `how` is added to its name."""
    trained = trainer.run(Stage(f"train{how}", learner, plan, initial, monitored=True))
    return Trained(learner, trained.state, trained.history)
