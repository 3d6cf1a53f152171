"""Conversion of users' documents to documents for the engine, by one function for all estimators."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from numbers import Number
from typing import Any, Literal, cast

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets

from sdem_dist.corpus import Corpus, MemoryCorpus
from sdem_dist.corpus import labels as of_labels
from sdem_dist.corpus.labels import are_label_sets, array_of, membership, numbering, plain_label
from sdem_dist.corpus.manifest import DENSE, as_numbers, checked_weights
from sdem_dist.counted import counted
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.errors import CorpusError
from sdem_dist.inputs import validation as checks
from sdem_dist.inputs.spec import Estimator, Source
from sdem_dist.inputs.validation import are_texts, seed_of, some, text_column
from sdem_dist.kernels.csr import unsigned
from sdem_dist.kernels.jit import compile_beside
from sdem_dist.text.texts import warn_of_lookalikes
from sdem_dist.text.transform import count_texts, learned_texts
from sdem_dist.text.vectorizer import VectorizerSettings

Use = Literal["train", "continue", "score"]  # fit an estimator; continue training; or score
SAME_CLASSES = "ingest the source with the classes of the training corpus (sdem ingest --vocabulary-from)"
SEVERAL = "several labels per document, but the model was trained with one label per document"


def source_of(
    estimator: Estimator,
    X: Any,
    y: object = None,
    sample_weight: Any = None,
    *,
    client: object = None,
    use: Use = "train",
    classes: object = None,
) -> Source:
    """Return documents, checked (unless X is a Source). `classes`: all classes, if the batch `y` may lack some."""
    sparse, of_texts = estimator._layout == "sparse", dict[str, Any]()
    X = text_column(X) if sparse else X
    if sparse and use != "train" and (are_texts(X) or _listed_for_texts(estimator, X)):
        X = estimator.vectorize(X)
    elif sparse and are_texts(X):
        settings = estimator.vectorizer or VectorizerSettings()
        of_texts["vectorizer"] = dict(settings.to_json())
        if classes is not None and settings.kind == "count":
            problem = "partial_fit uses the words of the first batch as the vocabulary, and ignores other words"
            advice = "vectorizer=sdem_dist.text.VectorizerSettings(kind='hashing', n_features=2**18) accepts any words"
            warnings.warn(f"{problem}. {advice}", stacklevel=3)
        # texts of weight 0 add no words to the vocabulary; invalid weights are reported later, in `_weights`
        fits = sample_weight is not None and np.shape(sample_weight) == (len(X),)
        if fits and np.any(sample_weight) and not np.all(sample_weight):
            X = np.where(np.asarray(sample_weight) == 0, "", np.asarray(X, object))
        if settings.kind == "count":
            n = np.count_nonzero(sample_weight) if fits else len(X)
            compile_beside(type(estimator).__name__)
            X, of_texts["vocabulary"], of_texts["transformer"] = learned_texts(X, settings, n_documents=int(n))
        else:
            X = count_texts(X, settings)[0]
        if X.shape[1] == 0:
            raise ValueError("no text contains a word (check token_pattern and stop_words of the vectorizer)")
    if isinstance(X, Source):
        source = X
    else:
        checks.refuse_no_documents(X, counts=sparse)
        if isinstance(X, Corpus):
            source = _of_corpus(estimator, X, y, sample_weight, use)
        elif client is not None:
            raise ValueError("client needs a corpus that the workers can read: write one with write_corpus")
        else:
            source = _in_memory(estimator, X, y, sample_weight, use, classes)
        if estimator.spec.target == "labels" and classes is None and source.members is None:
            present = np.flatnonzero(source.class_counts)
            if use == "score" and not len(present):
                raise ValueError("no document has a label: accuracy and losses need labels")
            if use == "train" and len(present) < 2:
                problem = f"there is only one class ({some(source.classes[present])}): a classifier needs at least two"
                on_disk = isinstance(source.corpus, Corpus)
                raise CorpusError(problem, path=source.name) if on_disk else ValueError(problem)
            if use == "train" and len(present) < len(source.classes):
                empty = np.delete(source.classes, present)
                problem = f"there is no document of positive weight in {counted(len(empty), 'class', 'classes')} ({some(empty)})"
                warnings.warn(f"{problem}: such classes cannot be learned", stacklevel=3)
        fresh = use == "train" and not source.corpus.header.made_by  # ingestion already warned about its labels
        if fresh and estimator.spec.target == "labels" and classes is None:
            warn_of_lookalikes(source.classes.tolist(), stacklevel=4)
    n_targets, own = source.corpus.header.n_targets, estimator._n_targets
    if use == "score" and own and n_targets != own:
        problem = f"{counted(n_targets, 'target')} per document, but the model was trained with {own}"
        on_disk = isinstance(source.corpus, Corpus)
        raise CorpusError(f"there are {problem}", path=source.name) if on_disk else ValueError(f"y has {problem}")
    source = replace(source, **of_texts)
    if use == "train" or estimator.weighting_ is None:
        return source
    weighting, frequency = estimator.weighting_, estimator.document_frequency_
    return replace(source, vocabulary=estimator.vocabulary_, weighting=weighting, trained_on=frequency)


def _of_corpus(estimator: Estimator, corpus: Corpus, y: object, sample_weight: object, use: Use) -> Source:
    spec, path, train, learns_labels = estimator.spec, corpus.path, use == "train", estimator.spec.target == "labels"
    if use != "score" and estimator._weights_are_relative:
        corpus = corpus.relative()
    if not corpus.weight:
        raise CorpusError("no document has a weight above 0", path=path)
    if sample_weight is not None or (y is not None and spec.target != "nothing"):
        raise ValueError("a corpus contains its own labels and weights: do not pass y or sample_weight")
    check_layout(estimator, corpus)
    if problem := _label_problem(estimator, corpus, use):
        raise CorpusError(f"the documents {problem}", path=path)
    if spec.target == "numbers" and numbering(corpus.header.vectorizer):
        what = f"{corpus!r} was written from a table with columns of text, categories or booleans"
        raise ValueError(f"{what}, but {type(estimator).__name__} needs numbers: drop or convert these columns")
    source = described(corpus, labelled=learns_labels)
    if learns_labels and (corpus.header.label_sets is not None if train else estimator.several_labels):
        sets = [label if isinstance(label, tuple) else (label,) for label in corpus.header.classes]
        labels = list(of_labels.all_labels(sets)) if train else estimator.classes_.tolist()
        try:
            members = membership(sets, labels)
        except KeyError as error:
            problem = f"the documents have the label {error}, which is not in the model; {SAME_CLASSES}"
            raise CorpusError(problem, path=path) from None
        counts = members.T @ np.asarray(corpus.class_weights, np.float64)
        source = replace(source, classes=np.array(labels), class_counts=tuple(counts.tolist()), members=members)
    if not train:
        if estimator._n_targets_in_columns and source.n_features != estimator._n_columns:
            problem = f"the table has {source.n_features} columns, not {estimator.n_features_in_} features and a target"
            raise CorpusError(problem, path=path)
        estimator._check_columns(source)
        if learns_labels and source.classes.tolist() != estimator.classes_.tolist():
            problem = f"the classes are {some(source.classes)}, but {some(estimator.classes_)} in the model"
            raise CorpusError(f"{problem}; {SAME_CLASSES}", path=path)
    return source


def _label_problem(estimator: Estimator, corpus: Corpus, use: Use) -> str:
    """Return why an estimator cannot use the labels or targets of a corpus; empty if it can."""
    spec, name, header, unlabelled = estimator.spec, type(estimator).__name__, corpus.header, estimator.unlabelled
    several, train = header.label_sets is not None, use == "train"
    if spec.target == "numbers" and header.layout != DENSE and not header.n_targets:
        return f"have no targets, but {name} needs them: ingest with --targets, or use write_corpus(targets=)"
    if spec.target != "labels":
        return ""
    if not header.classes:
        needs = "for evaluation; to predict without labels, use sdem predict MODEL CORPUS"
        if train:
            needs = "for training; clustering and topic models do not, and SupervisedLDARegressor needs targets"
        return f"have no labels, but {name} needs them {needs}"
    if several and not spec.label_sets:
        return f"have several labels each, but {name} supports only one: use MultiLabelNB or SupervisedLDAClassifier"
    if several and not train and not estimator.several_labels:
        return f"have {SEVERAL}"
    if train and unlabelled is not None and str(unlabelled) in map(str, header.classes):
        advice = f"to mark missing labels, write the corpus with write_corpus(..., unlabelled={unlabelled!r})"
        return f"have the class {unlabelled!r}, which is also the value of unlabelled: {advice}"
    n_inside = header.n_documents if corpus.mask is None else int(corpus.mask.sum())
    n_hidden = 0 if several or use == "score" or header.layout == DENSE else n_inside - sum(header.class_counts)
    if not n_hidden or unlabelled is not None or estimator._takes_hidden:
        return ""
    takes = "does not support: use MultinomialNB, SupervisedLDAClassifier, or mixtures with components='multinomial'"
    if spec.unlabelled:
        takes = "supports only if unlabelled is set (unlabelled=-1)"
    elif spec.label_sets:
        takes = "supports only with several labels per document (--label-separator ',' or lists of labels)"
    return f"include {counted(n_hidden, 'document')} without a label, which {name} {takes}"


def described(corpus: Corpus | MemoryCorpus, *, labelled: bool = False) -> Source:
    header = corpus.header
    classes = array_of(header.classes) if labelled and header.label_sets is None else np.empty(0)
    counts = corpus.class_weights if labelled else ()
    vectorizer = None if numbering(header.vectorizer) is not None else header.vectorizer  # a table has no text settings
    return Source(corpus, corpus.weight, classes, counts, corpus.vocabulary(), vectorizer, single=header.n_targets <= 1)


def check_layout(estimator: Estimator, corpus: Corpus | MemoryCorpus) -> None:
    layout, needed, path = corpus.header.layout, estimator._layout, getattr(corpus, "path", str(corpus))
    if layout != needed:
        call = ", dense=True)" if needed == DENSE else "), without dense=True"
        advice = f"in Python, write them with write_corpus(path, X, y{call}"
        if layout == "sparse" and hasattr(estimator, "components"):
            advice = 'for word counts, set components="multinomial"'
        name = type(estimator).__name__
        raise CorpusError(f"the documents are {layout}, but {name} needs {needed} documents: {advice}", path=path)


def _in_memory(estimator: Estimator, X: object, y: object, sample_weight: Any, use: Use, classes: object) -> Source:
    spec, target, reset, name = estimator.spec, estimator.spec.target, use == "train", type(estimator).__name__
    sparse, members, single = estimator._layout == "sparse", None, True
    if y is None and target != "nothing":
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    X, y = checks.gathered(X, sparse), checks.gathered(y, False) if target != "nothing" else None
    options, several = dict[str, Any](), False
    if target == "labels":
        if isinstance(y, Iterator):
            raise ValueError(f"y must be a list or an array, got a {type(y).__name__}: pass list(y)")
        several = are_label_sets(y)
        if several and not spec.label_sets:
            raise ValueError(f"y has several labels per document, but {name} supports only one: use MultiLabelNB")
        if several and not reset and not estimator.several_labels:
            raise ValueError(f"y has {SEVERAL}")
        options = {} if several else {"y": checks.checked_labels(estimator, y)}
    elif target == "numbers":
        if (values := np.asarray(y)).dtype.kind in "OUS":
            as_numbers(values, "y")  # raises an error that names a text that is not a number, and its position
        options = {"y": y, "y_numeric": True, "multi_output": sparse}
    rows, checked = checks.validated(estimator, X, reset=reset, **options)
    columns, names = dict[str, Any](), cast("Sequence[Any]", ())
    positions, trained_classes = None if sparse else np.full(rows.shape[0], -1), np.empty(0)
    if several:
        check_consistent_length(rows, y)
        labels = (None if reset else estimator.classes_.tolist()) if classes is None else np.asarray(classes).tolist()
        names, positions, labels = of_labels.encoded_sets(y, labels)
        members, trained_classes = membership(names, labels), np.array(labels)
    elif target == "labels":
        positions, trained_classes = _positions(estimator, cast(np.ndarray, checked), use, classes)
        names = tuple(plain_label(label) for label in trained_classes)
    elif checked is not None and sparse:
        columns["targets"], single = checked, checked.ndim == 1  # as in scikit-learn, predictions are 1-D if y is 1-D
    elif checked is not None:
        rows = np.concatenate([rows, np.asarray(checked, np.float64)[:, None]], axis=1)
    weights, trained_rows = _weights(estimator, sample_weight, rows.shape[0], use)
    shuffle = use != "score" if target == "labels" else sparse and reset and spec.shuffled
    seed = seed_of(estimator.random_state) if shuffle else 0
    columns |= {"weights": weights, "rows": trained_rows, "random_state": seed, "shuffle": shuffle}
    corpus = MemoryCorpus(rows, positions, names, dense=not sparse, **columns)
    counts: Any = ()
    if members is not None:
        counts = members.T @ np.asarray(corpus.class_weights, np.float64)
    elif target == "labels":
        labelled = cast(np.ndarray, positions) >= 0
        of_labelled = None if weights is None else weights[labelled]
        counts = np.bincount(cast(np.ndarray, positions)[labelled], of_labelled, len(trained_classes))
    n = float(rows.shape[0] if weights is None else weights.sum())
    return Source(corpus, n, trained_classes, tuple(map(float, counts)), members=members, single=single)


def _weights(estimator: Estimator, sample_weight: Any, n: int, use: Use) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return training weights, and the rows of positive weight; None: no weights, or no row of weight 0."""
    if sample_weight is None:
        return None, None
    if isinstance(sample_weight, Number):  # as in scikit-learn
        sample_weight = np.full(n, sample_weight)
    weights = checked_weights(sample_weight, n, "X")
    if not weights.any():
        raise ValueError("no document has a sample_weight above zero")
    if use == "score":
        return weights, None
    rows = np.flatnonzero(weights)  # documents of weight 0 are left out
    has_prior = estimator.spec.target == "labels" or hasattr(estimator, "topic_word_prior")
    if estimator._weights_are_relative:  # exactly 1 if all are equal
        weights = np.sign(weights) if np.ptp(weights[rows]) == 0 else weights / weights[rows].mean()
    elif has_prior and (total := weights.sum()) < len(rows) / 10:
        problem = f"the sample_weight of {counted(len(rows), 'document')} adds up to {total:.3g}."
        advice = "A weight of 1 counts as a document, so priors outweigh the data: divide weights by their mean"
        warnings.warn(f"{problem} {advice}", stacklevel=5)
    return weights, None if len(rows) == n else rows


def _positions(estimator: Estimator, labels: np.ndarray, use: Use, classes: object) -> tuple[np.ndarray, np.ndarray]:
    """Return the position of each label in the classes (-1 without a label), and the classes."""
    first_fit = use == "train" and classes is None
    labelled = checks.has_label(estimator, labels)
    if first_fit and not labelled.any():
        raise ValueError(f"no document has a label: y contains only {estimator.unlabelled!r}, the value of unlabelled")
    given = labels[labelled]
    if given.dtype.kind not in "biuU":  # integers, booleans and strings are classes: skip the slow check
        if given.dtype == object and len(given):
            plain_label(given[0])  # raises an error with advice, for example for a datetime.date
        with warnings.catch_warnings():
            # Our warning below says more, and covers all cases of scikit-learn's.
            warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%", UserWarning)
            check_classification_targets(given)
    distinct = np.unique(given)
    if first_fit and (odd := of_labels.too_many_classes(len(distinct), len(given), distinct[0])):
        warnings.warn(f"{odd}: did you swap X and y?", stacklevel=5)
    if use == "train" and estimator.spec.unlabelled and "" in distinct.tolist():
        n = counted(int((labels == "").sum()), "document")
        warnings.warn(f"the class '' has {n}: if they have no label, set unlabelled=''", stacklevel=5)
    model_classes = distinct if use == "train" else estimator.classes_
    if classes is not None:
        model_classes = np.unique(np.asarray(classes))
    if len(unknown := np.setdiff1d(distinct, model_classes)):
        both = (np.asarray(values, object) for values in (distinct, model_classes))
        y_kind, kind = ("texts" if all(isinstance(v, str) for v in values) else "numbers" for values in both)
        advice = f"; these are {y_kind}, but the classes are {kind}: use one type" if y_kind != kind else ""
        raise ValueError(f"y contains labels that are not in classes: {some(unknown)}{advice}")
    positions = np.full(len(labels), -1, np.int32)
    positions[labelled] = np.searchsorted(model_classes, labels[labelled])
    return positions, model_classes


def _listed_for_texts(estimator: Estimator, X: object) -> bool:
    """Return whether a model of texts gets a list of scalars: `vectorize` then names the position of a non-text."""
    return isinstance(X, list | tuple) and bool(X) and np.ndim(X[0]) == 0 and estimator.vectorizer_ is not None


def documents_of(estimator: Estimator, X: object) -> Documents:
    """Return unlabelled documents for a fitted estimator of counts, checked unless a corpus returned them."""
    rows: Any = X
    if not isinstance(X, Documents):
        X = text_column(X)
        checks.refuse_no_documents(X, counts=True)
        of_texts = are_texts(X) or _listed_for_texts(estimator, X)
        rows = estimator.vectorize(cast(Any, X)) if of_texts else checks.validated(estimator, X, reset=False)[0]
    weighting, frequency, data, indices = estimator.weighting_, estimator.document_frequency_, rows.data, rows.indices
    if data.dtype not in (np.float32, np.float64):  # the dtypes of training, for which the kernel is compiled
        narrow = weighting is not None and data.dtype.kind in "biu"
        data = data.astype(np.min_scalar_type(int(data.max(initial=0))) if narrow else np.float64, copy=False)
    n_features = rows.n_features if isinstance(rows, Documents) else rows.shape[1]
    documents = Documents(data, unsigned(indices), rows.indptr.astype(np.int64), n_features)
    if weighting is None or frequency is None:
        return documents
    make = partial(weighting.factors, frequency, estimator.vocabulary_)
    factors = estimator._lazy_parameters.cached("factors", make, weighting, frequency)  # millions, if wide
    return weighting.apply(documents, factors)


def table_of(estimator: Estimator, X: object) -> np.ndarray:
    if isinstance(X, DenseDocuments):  # the last column may be the target of a regressor
        return estimator._checked(np.asarray(X.values[:, : estimator.n_features_in_], np.float64))
    checks.refuse_no_documents(X)
    return checks.validated(estimator, X, reset=False)[0]
