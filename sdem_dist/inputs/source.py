"""From the documents of users to those that the engine reads: one function for all estimators."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_consistent_length

from sdem_dist.compat import check_sample_weight
from sdem_dist.corpus import Corpus, DenseMemoryCorpus, MemoryCorpus
from sdem_dist.corpus.labels import are_label_sets, array_of, membership, plain_label
from sdem_dist.corpus.manifest import DENSE, ClassLabel
from sdem_dist.corpus.tables import numbering
from sdem_dist.counted import counted
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.errors import CorpusError
from sdem_dist.inputs import validation as checks
from sdem_dist.inputs.raw_text import are_texts, learned_counts, refuse_other_texts, text_column, warn_of_fixed_words
from sdem_dist.inputs.spec import Estimator, Source
from sdem_dist.inputs.validation import check_labels, seed_of, some
from sdem_dist.inputs.weighted import coded, members_of

if TYPE_CHECKING:
    from sdem_dist.models.weighting import Weighting

Use = Literal["train", "continue", "score"]  # train from the beginning; go on with a fitted estimator; or measure one


def source_of(
    estimator: Estimator,
    X: object,
    y: object = None,
    sample_weight: object = None,
    *,
    client: object = None,
    use: Use = "train",
    classes: object = None,
) -> Source:
    """Return documents in memory, or a corpus, as the estimator takes them, checked.

    `estimator`: its `spec` says what documents have to be and to bring. With ``use="train"`` it records the features.
    `X`: array-like, sparse matrix, dask array or Corpus; or a Source, which was checked when it was made.
    `y`: array-like.
    `sample_weight`: array-like of shape (n_samples,).
    `client`: distributed.Client: a cluster can read a corpus only.
    `use`: "train" or "continue" or "score".
    `classes`: array-like of shape (n_classes,): all classes, where `y` may have fewer: of the batches of `partial_fit`.
    Raises ValueError, CorpusError: what is wrong, where, and what to do.
    """
    words, vectorizer, transformer = None, None, None
    X = text_column(X) if estimator._layout == "sparse" else X
    if estimator._layout == "sparse" and are_texts(X):
        if use == "train":
            if classes is not None:
                warn_of_fixed_words(estimator)
            X, words, vectorizer, transformer = learned_counts(estimator, _with_weight(X, sample_weight))
        else:
            X = estimator.vectorize(cast("Sequence[str]", X))
    source = _source_of(estimator, X, y, sample_weight, client, use, classes)
    if vectorizer is not None:
        source = replace(source, vocabulary=words, vectorizer=vectorizer, transformer=transformer)
    if use == "train" or estimator.weighting_ is None:
        return source
    return replace(
        source,
        vocabulary=estimator.vocabulary_,
        weighting=estimator.weighting_,
        trained_on=estimator.document_frequency_,
    )


def _source_of(
    estimator: Estimator, X: object, y: object, sample_weight: object, client: object, use: Use, classes: object
) -> Source:
    if isinstance(X, Source):
        return X
    checks.refuse_no_documents(X)
    if estimator._layout == "sparse":
        refuse_other_texts(X)
    if isinstance(X, Corpus):
        return _of_corpus(estimator, X, y, sample_weight, use)
    if client is not None:
        raise ValueError(
            "a Dask cluster needs a corpus that its workers can read: write one with sdem_dist.write_corpus and pass that"
        )
    if estimator.spec.target == "labels":
        return _of_labelled(estimator, X, y, sample_weight, use, classes)
    return _of_numbers(estimator, X, y, sample_weight, use)


def _of_corpus(estimator: Estimator, corpus: Corpus, y: object, sample_weight: object, use: Use) -> Source:
    if use != "score" and estimator._weights_are_relative:
        corpus = corpus.relative()
    target, name, header = estimator.spec.target, type(estimator).__name__, corpus.header
    if not corpus.weight:
        raise CorpusError(f"the documents of {corpus.path} have no weight above zero: give some of them a weight")
    if sample_weight is not None or (y is not None and target != "nothing"):
        raise ValueError(
            "a corpus brings its labels or targets, and weights where it has them: leave y and sample_weight at None"
        )
    check_layout(estimator, corpus)
    if target == "labels" and not header.classes:
        raise CorpusError(
            f"{corpus.path} has no labels, which {name} needs "
            + (
                "to train; MultinomialMixture and LatentDirichletAllocation do without, SupervisedLDARegressor learns targets"
                if use == "train"
                else "to be evaluated; predict does without (sdem predict MODEL CORPUS)"
            )
        )
    if target == "labels" and header.label_sets is not None and not estimator.spec.label_sets:
        raise CorpusError(
            f"{corpus.path} has several labels per document, and {name} learns one: "
            "train MultiLabelNB or SupervisedLDAClassifier (--estimator)"
        )
    if target == "numbers" and header.layout != DENSE and not header.n_targets:
        raise CorpusError(
            f"{corpus.path} has no targets, which {name} needs: ingest it with --targets, or write it with "
            "write_corpus(targets=)"
        )
    if target == "numbers" and numbering(header.vectorizer):
        raise ValueError(f"{corpus!r} has columns of text, categories or booleans, and {name} takes numbers")
    labelled, several = target == "labels", header.label_sets is not None
    if use != "train":
        if labelled and several and not estimator.several_labels:
            raise CorpusError(
                f"{corpus.path} has several labels per document, and the model was trained on documents of one label each"
            )
        several = estimator.several_labels
    if labelled and several:
        members, names = members_of(corpus, None if use == "train" else estimator.classes_)
        source = _with_labels(described(corpus), members, names)
    else:
        source = described(corpus, labelled=labelled)
    hidden = _hidden(corpus)
    missing = getattr(estimator, "unlabelled", None)
    if labelled and use == "train" and missing is not None and str(missing) in map(str, header.classes):
        raise CorpusError(
            f"{corpus.path} has a class {missing!r}, which unlabelled names: a corpus has to know documents without a label "
            f"when it is written, by write_corpus(..., unlabelled={missing!r})"
        )
    if target == "labels" and use != "score" and hidden and header.layout != DENSE and not estimator._takes_hidden:
        raise CorpusError(
            f"{corpus.path} has {hidden:,} documents without a label, which {name} "
            + (
                "takes only if unlabelled is set (unlabelled=-1)"
                if estimator.spec.unlabelled
                else "takes only if documents have sets of labels (--label-separator ,; in Python a list of labels for each)"
                if estimator.spec.label_sets
                else "does not take: MultinomialNB and SupervisedLDAClassifier do, and EMMixtureClassifier and "
                "SdemMixtureClassifier with components='multinomial' (unlabelled=-1)"
            )
        )
    if use != "train":
        estimator._check_compatible(source)
    return _enough(source, use) if target == "labels" else source


def _hidden(corpus: Corpus) -> int:
    """Return how many documents have no label; those that a part leaves out do not count."""
    header = corpus.header
    if not header.classes or header.label_sets is not None:
        return 0
    n_inside = header.n_documents if corpus.mask is None else int(corpus.mask.sum())
    return n_inside - sum(header.class_counts)


def described(corpus: Corpus | MemoryCorpus | DenseMemoryCorpus, *, labelled: bool = False) -> Source:
    """Return a corpus as a source, with its labels or without."""
    header = corpus.header
    return Source(
        corpus=corpus,
        weight=corpus.weight,
        classes=array_of(header.classes) if labelled else np.empty(0),
        class_counts=corpus.class_weights if labelled else (),
        vocabulary=corpus.vocabulary(),
        vectorizer=None if numbering(header.vectorizer) is not None else header.vectorizer,  # a table is not text
        single=header.n_targets <= 1,
    )


def check_layout(estimator: Estimator, corpus: Corpus | MemoryCorpus | DenseMemoryCorpus) -> None:
    """Raise CorpusError if the estimator is not of documents of a corpus's layout."""
    if corpus.header.layout != estimator._layout:
        what = "write_corpus(path, X, y), without dense=True, writes a corpus for it in Python"
        if estimator._layout == DENSE:
            what = "write_corpus(path, X, y, dense=True) writes a corpus of a table for it in Python"
        if corpus.header.layout == "sparse" and hasattr(estimator, "components"):
            what = 'choose components="multinomial", for counts of words'
        raise CorpusError(
            f"{getattr(corpus, 'path', corpus)} holds {corpus.header.layout} documents, and {type(estimator).__name__} takes "
            f"{estimator._layout} ones: {what}"
        )


def _of_labelled(
    estimator: Estimator, X: object, y: object, sample_weight: object, use: Use, classes: object
) -> Source:
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    sparse, reset = estimator._layout == "sparse", use == "train"
    X, y = checks.gathered(X, sparse), checks.gathered(y, False)
    checks.refuse_no_labels(estimator, y)
    if estimator.spec.label_sets and are_label_sets(y):
        return _of_label_sets(estimator, X, y, sample_weight, use)
    if not sparse:
        X = estimator._encoded(X, reset=reset)
    X, labels = checks.validated(estimator, X, checks.checked_labels(estimator, y), reset=reset)
    assert labels is not None
    labelled = checks.has_label(estimator, labels)
    if reset and classes is None and not labelled.any():
        raise ValueError(f"no document has a label: y has none but {estimator.unlabelled!r}, which unlabelled names")
    distinct = check_labels(labels[labelled], training=reset and classes is None)
    trained_classes = distinct if reset else estimator.classes_
    if reset and estimator.spec.unlabelled and "" in distinct.tolist():
        warnings.warn(
            f"{counted(int((labels == '').sum()), 'document')} of the class '': if they have no label, set unlabelled=''",
            stacklevel=2,
        )
    if classes is not None:
        trained_classes = np.unique(np.asarray(classes))
    if len(unknown := np.setdiff1d(distinct, trained_classes)):
        raise ValueError(
            f"y has labels that are not among the classes: {some(unknown)}{checks.other_kind(distinct, trained_classes)}"
        )
    positions = np.full(len(labels), -1, np.int32)
    positions[labelled] = np.searchsorted(trained_classes, labels[labelled])
    rows = checks.checked_csr(estimator, X) if sparse else estimator._checked(np.asarray(X))
    names, (weights, some_rows) = (
        tuple(plain_label(label) for label in trained_classes),
        _weights(estimator, sample_weight, rows, use),
    )
    shuffle = use != "score"
    corpus = (MemoryCorpus if sparse else DenseMemoryCorpus)(
        rows,
        positions,
        names,
        weights=weights,
        rows=some_rows,
        random_state=seed_of(estimator.random_state) if shuffle else 0,
        shuffle=shuffle,
    )
    counts = np.bincount(positions[labelled], None if weights is None else weights[labelled], len(trained_classes))
    source = Source(corpus, _total(weights, len(labels)), trained_classes, tuple(counts.tolist()))
    return source if classes is not None else _enough(source, use)


def _of_label_sets(estimator: Estimator, X: object, y: object, sample_weight: object, use: Use) -> Source:
    """Return documents in memory that have several labels, or none."""
    if use != "train" and not estimator.several_labels:
        raise ValueError("y has several labels per document, and the model was trained on documents of one label each")
    rows = checks.checked_csr(estimator, checks.validated(estimator, X, reset=use == "train")[0])
    codes, sets, names = coded(y, None if use == "train" else estimator.classes_)
    check_consistent_length(rows, codes)
    (weights, some_rows), shuffle = _weights(estimator, sample_weight, rows, use), use != "score"
    seed = seed_of(estimator.random_state) if shuffle else 0
    corpus = MemoryCorpus(rows, codes, sets, weights=weights, rows=some_rows, random_state=seed, shuffle=shuffle)
    source = replace(described(corpus), weight=_total(weights, len(codes)))
    return _enough(_with_labels(source, membership(sets, names), names), use)


def _with_labels(source: Source, members: sp.csr_matrix, names: Sequence[ClassLabel]) -> Source:
    """Return a source with the labels in the sets that its documents have."""
    counts = members.T @ np.asarray(source.corpus.class_weights, np.float64)
    return replace(source, classes=np.array(names), class_counts=tuple(counts.tolist()), members=members)


def _of_numbers(estimator: Estimator, X: object, y: object, sample_weight: object, use: Use) -> Source:
    """Return documents in memory whose targets are numbers, or that have none."""
    spec, reset = estimator.spec, use == "train"
    sparse = estimator._layout == "sparse"
    X, targets, single = checks.gathered(X, sparse), None, True
    if spec.target == "numbers":
        if y is None:
            raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
        y = checks.gathered(y, False)
        checks.refuse_targets_of_text(y)
        X, targets = checks.validated(estimator, X, y, reset=reset, y_numeric=True, multi_output=sparse)
        assert targets is not None
        single = targets.ndim == 1  # as in scikit-learn, a column vector in gives a column vector out
    else:
        X, _ = checks.validated(estimator, X, reset=reset)
    if not sparse:
        table = estimator._checked(np.asarray(X))
        if targets is not None:
            table = np.concatenate([table, np.asarray(targets, np.float64)[:, None]], axis=1)
        weights, some_rows = _weights(estimator, sample_weight, table, use)
        dense = DenseMemoryCorpus(table, np.full(len(table), -1), (), weights=weights, rows=some_rows, shuffle=False)
        return Source(dense, _total(weights, len(table)), np.empty(0), ())
    rows = checks.checked_csr(estimator, X)
    weights, some_rows = _weights(estimator, sample_weight, rows, use)
    shuffle = reset and spec.shuffled
    corpus = MemoryCorpus(
        rows,
        None,
        (),
        weights=weights,
        targets=targets,
        rows=some_rows,
        random_state=seed_of(estimator.random_state) if shuffle else 0,
        shuffle=shuffle,
    )
    return Source(corpus, _total(weights, rows.shape[0]), np.empty(0), (), single=single)


def _weights(
    estimator: Estimator, sample_weight: object, X: object, use: Use
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the documents' weights, and the rows that are trained on: those of weight 0 count nowhere; None is all."""
    if sample_weight is None:
        return None, None
    weights = check_sample_weight(sample_weight, X)
    if use == "score" or not (weights > 0).any():  # the corpus refuses weights that are negative
        return weights, None
    rows = np.flatnonzero(weights)
    if estimator._weights_are_relative:  # exactly 1 where all are alike
        weights = np.sign(weights) if np.ptp(weights[rows]) == 0 else weights / weights[rows].mean()
    return weights, None if len(rows) == len(weights) else rows


def _with_weight(texts: object, sample_weight: object) -> object:
    """Return training texts; those of documents of weight 0 are empty, so that no word of theirs is learned."""
    if sample_weight is None:
        return texts
    weights = np.asarray(sample_weight)
    values = np.asarray(texts, object)
    if weights.shape != values.shape or weights.all():  # what is wrong is said where weights are checked
        return texts
    return np.where(weights == 0, "", values)


def _total(weights: np.ndarray | None, n_documents: int) -> float:
    return float(n_documents if weights is None else weights.sum())


def _enough(source: Source, use: Use) -> Source:
    """Return the source, or raise ValueError where its labels are too few."""
    if use == "score" and not any(source.class_counts) and source.members is None:
        raise ValueError("none of the documents to be scored has a label: accuracy and losses need some that have")
    present = np.flatnonzero(source.class_counts)
    if use == "train" and len(present) < 2 and source.members is None:
        what = f"{source.name} has" if isinstance(source.corpus, Corpus) else "y has"
        raise ValueError(
            f"{what} one class only ({some(source.classes[present])}): a classifier needs at least two classes"
        )
    if use == "train" and source.members is None and len(present) < len(source.classes):
        empty = np.setdiff1d(np.arange(len(source.classes)), present)
        what = f"{counted(len(empty), 'class', 'classes')} without a document of a weight above zero"
        warnings.warn(
            f"{what} ({some(source.classes[empty])}): "
            "the model learns nothing about them, so its probabilities and words of these classes mean nothing",
            stacklevel=7,
        )
    return source


def documents_of(estimator: Estimator, X: object) -> Documents:
    """Return unlabelled documents in memory, checked against a fitted estimator of counts.

    `X`: {array-like, sparse matrix} of shape (n_samples, n_features), texts, or Documents: what a corpus returned is
    not checked again.
    Raises ValueError: they are a path or raw text, or unfit numbers.
    """
    if isinstance(X, Documents):
        documents = checks.as_documents(X)
    else:
        X = text_column(X)
        checks.refuse_no_documents(X)
        refuse_other_texts(X)
        if are_texts(X):
            documents = checks.as_counts(estimator.vectorize(cast("Sequence[str]", X)))
        else:
            rows = checks.checked_csr(estimator, checks.validated(estimator, X, reset=False)[0])
            documents = checks.as_documents(rows)
    weighting, frequency = estimator.weighting_, estimator.document_frequency_
    if weighting is None or frequency is None:
        return (
            replace(documents, data=documents.data.astype(np.float64))
            if documents.data.dtype.kind == "u"
            else documents
        )
    return weighting.apply(documents, _factors(estimator, weighting, frequency))


def _factors(estimator: Estimator, weighting: Weighting, frequency: np.ndarray) -> np.ndarray:
    """Return what multiplies each column: made once for a model, since a wide one has millions."""
    lazy = getattr(estimator, "_lazy_parameters", None)
    if lazy is None:
        return weighting.factors(frequency, estimator.vocabulary_)
    if lazy.factors is None or lazy.factors[0] is not weighting or lazy.factors[1] is not frequency:
        lazy.factors = weighting, frequency, weighting.factors(frequency, estimator.vocabulary_)
    factors: np.ndarray = lazy.factors[2]
    return factors


def table_of(estimator: Estimator, X: object) -> np.ndarray:
    """Return rows in memory, checked against a fitted estimator of dense features; raises as `documents_of`."""
    if isinstance(X, DenseDocuments):  # a regressor's target, which may be there, is the last column
        return estimator._checked(np.asarray(X.values[:, : estimator.n_features_in_], np.float64))
    checks.refuse_no_documents(X)
    return estimator._checked(checks.validated(estimator, estimator._encoded(X, reset=False), reset=False)[0])
