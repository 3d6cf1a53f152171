"""Models for use without this package: scikit-learn pipelines, skops files, and ONNX."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED

import numpy as np
from scipy.special import log_expit, log_softmax

from sdem_dist.errors import ModelError, SdemError
from sdem_dist.kernels.kinds import matching
from sdem_dist.models.weighting import Weighting
from sdem_dist.storage.publish import publish_file
from sdem_dist.text.patterns import SURROGATES, WORDS, WORDS_AND_SIGNS, expression_of, is_of_kernels, ranges
from sdem_dist.text.vectorizer import MARK, VectorizerSettings, stopped_words

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

EXPRESSIBLE = ("MultinomialNB", "GaussianNB", "BernoulliNB", "CategoricalNB", "GaussianRegressor")
OPSET = 17
LARGEST = 2**31 - 1  # most bytes of an ONNX file, a limit of Protocol Buffers
DOMAIN = "com.microsoft"  # of the operator that splits texts into tokens, which only onnxruntime supports
LOCALE = "C.UTF-8"  # of the operator for lower case: must exist where the file is used; Windows lacks it
PADDING = " "  # not a token: fills the rows of shorter texts


def to_sklearn(model: Any, *, from_counts: bool = False) -> Pipeline:
    """Return a fitted scikit-learn pipeline with equal predictions, but without support for missing values (NaN).

    from_counts : bool, default=False -- Omit the step from text to counts.
    Raises ModelError -- The model is not a MultinomialNB, GaussianNB, BernoulliNB, CategoricalNB or GaussianRegressor,
        has a class without documents, or uses another tokenization.
    """
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.preprocessing import Binarizer, FunctionTransformer

    name, n_features = type(model).__name__, model.n_features_in_
    if name not in EXPRESSIBLE:
        can = ", ".join(EXPRESSIBLE)
        raise ModelError(f"a {name} cannot be exported to scikit-learn; {can} can. Use save(path) instead")
    if name == "GaussianRegressor":
        coefficients = {"coef_": model.coef_, "intercept_": model.intercept_, "n_features_in_": n_features}
        return Pipeline([("target", _with(LinearRegression(), **coefficients))])
    if name != "MultinomialNB":
        return Pipeline([("classes", _naive_bayes_of_table(name, model))])
    weighting, idf = model.weighting_ or Weighting(), dict[str, np.ndarray]()
    if model.weighting_ is not None:
        factors = weighting.factors(model.document_frequency_, model.vocabulary_).astype(np.float64)
        if (factors != 1.0).any():  # not 1 even without idf: hashed columns that no training document has
            idf["idf_"] = factors
    # p(class | d) is the softmax of ``coef @ weights(d) + intercept``; subtract means over classes: numbers stay small.
    scale = (weighting.norm_of_a_kind or weighting.scale) / model.temperature_
    coef, intercept = model.feature_log_prob_ * scale, model.class_log_prior_ / model.temperature_
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ModelError("a class had no training documents, so its coefficients are not finite")
    coef, intercept = coef - coef.mean(axis=0), intercept - intercept.mean()
    settings, kinds = None, [slice(0, n_features)]
    if not from_counts and model.vectorizer_ is not None and model.vectorizer_["kind"] != "matrix":
        settings = VectorizerSettings.from_json(model.vectorizer_)
        if boundary := settings.boundary(model.vocabulary_):
            kinds = [slice(0, boundary), slice(boundary, n_features)]
    elif weighting.boundary and weighting.norm > 0:
        raise ModelError("words and character n-grams are weighted separately: export to scikit-learn, with text input")
    of_kinds = list[list[tuple[str, Any]]]()
    for kind, columns in enumerate(kinds):
        of_kind, n_columns = list[tuple[str, Any]](), columns.stop - columns.start
        if settings is not None:
            terms = model.vocabulary_
            words = None if terms is None else [word[len(MARK) * kind :] for word in terms[columns]]
            of_kind.append(("text", vectorizer_of(settings.parts[kind], words)))
        if weighting.form == "log":
            of_kind.append(("logarithms", FunctionTransformer(np.log1p, accept_sparse=True).fit(np.zeros((1, 1)))))
        elif weighting.form == "binary":
            of_kind.append(("ones", _with(Binarizer(), n_features_in_=n_columns)))
        if idf or weighting.norm > 0:
            norm, sublinear = "l2" if weighting.norm > 0 else None, weighting.form == "tfidf"
            weigh = TfidfTransformer(norm=norm, sublinear_tf=sublinear, use_idf=bool(idf))
            own = {name: values[columns] for name, values in idf.items()}
            of_kind.append(("weights", _with(weigh, n_features_in_=n_columns, **own)))
        of_kinds.append(of_kind)
    steps = of_kinds[0]
    if len(kinds) > 1:
        names = ("words", "characters")
        steps = [("features", FeatureUnion([(n, Pipeline(own)) for n, own in zip(names, of_kinds, strict=True)]))]
    if len(coef) == 2:  # scikit-learn has one row: the second class minus the first
        coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    fitted = {"classes_": model.classes_, "n_features_in_": n_features, "n_iter_": np.array([model.n_iter_], np.int32)}
    return Pipeline([*steps, ("classes", _with(LogisticRegression(), coef_=coef, intercept_=intercept, **fitted))])


def vectorizer_of(settings: VectorizerSettings, vocabulary: list[str] | None) -> Any:
    """Return the scikit-learn vectorizer with equal settings of text; ModelError if there is none."""
    from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

    problem = ""
    if settings.stem is not None:
        problem = f"the model stems words ({settings.stem}), but scikit-learn has no stemmer"
    elif not is_of_kernels(settings.token_pattern):
        problem = f"scikit-learn uses the module re, but {settings.token_pattern!r} needs the package regex"
    if problem:
        raise ModelError(f"{problem}: export it from counts (from_counts=True, or --from-counts)")
    names = ("lowercase", "token_pattern", "analyzer", "ngram_range", "strip_accents", "stop_words")
    options: dict[str, Any] = {name: getattr(settings, name) for name in names}
    options["token_pattern"] = expression_of(settings.token_pattern)
    if isinstance(options["stop_words"], tuple):
        options["stop_words"] = list(options["stop_words"])
    if settings.kind == "hashing":
        return HashingVectorizer(n_features=settings.n_features, alternate_sign=False, norm=None, **options)
    columns = {word: column for column, word in enumerate(vocabulary or ())}
    return _with(CountVectorizer(vocabulary=columns, **options), vocabulary_=columns, fixed_vocabulary_=True)


def _with(peer: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(peer, name, value)
    return peer


def _naive_bayes_of_table(name: str, model: Any) -> Any:
    from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB

    shared = {k: getattr(model, k) for k in ("classes_", "class_count_", "class_log_prior_", "n_features_in_")}
    if name == "GaussianNB":
        prior = np.exp(model.class_log_prior_)
        return _with(GaussianNB(), **shared, class_prior_=prior, theta_=model.theta_, var_=model.var_, epsilon_=0.0)
    variables = model.learner_.model.variables
    blocks = list(zip(variables.blocks, variables.split(model._parameters.theta), strict=True))
    if name == "BernoulliNB":
        ((_, theta), *_) = blocks  # theta: shape (n_classes, n_columns, n_statistics)
        return _with(BernoulliNB(binarize=model.binarize), **shared, feature_log_prob_=log_expit(theta[..., 0]))
    tables: dict[int, np.ndarray] = {}
    for block, theta in blocks:
        of_all = np.concatenate([np.zeros_like(theta[..., :1]), theta], axis=-1)  # theta of category 0 is 0
        tables |= dict(zip(block.columns, np.moveaxis(log_softmax(of_all, axis=-1), 1, 0), strict=True))
    log_p = [tables[column] for column in range(model.n_features_in_)]
    n_categories = np.array([p.shape[1] for p in log_p])
    return _with(CategoricalNB(), **shared, feature_log_prob_=log_p, n_categories_=n_categories)


def why_from_counts(model: Any) -> str:
    """Return why the ONNX file of a model needs counts as input: why operators cannot count texts; empty if they can.

    Operators count texts like the model, except for two letters: İ (U+0130), for which Python's lower case is two
    letters, and a capital sigma at the end of a word, for which Python has a special lower case.
    """
    if (model.vectorizer_ or {"kind": "matrix"})["kind"] == "matrix":
        return "the model was trained on counts"
    settings = VectorizerSettings.from_json(model.vectorizer_)
    stopped = settings.ngram_range[1] > 1 and bool(stopped_words(settings))
    obstacles = {
        "ONNX cannot hash words as the model does": settings.kind == "hashing",
        "ONNX cannot stem words": settings.stem is not None,
        "ONNX cannot extract character n-grams as the model does": settings.parts[-1].analyzer != "word",
        "ONNX cannot strip accents": settings.strip_accents is not None,
        "ONNX supports only the token patterns words and words+signs": cut_by_operators(settings) is None,
        "ONNX cannot remove stop words before making n-grams": stopped,
    }
    return next((reason for reason, applies in obstacles.items() if applies), "")


def text_nodes(helper: Any, settings: VectorizerSettings, vocabulary: Sequence[str]) -> list[Any]:
    """Return the nodes from ``texts`` to ``counts``; `helper` is ``onnx.helper``."""
    nodes, texts = [], "texts"
    if settings.lowercase:
        lowered = {"case_change_action": "LOWER", "is_case_sensitive": 1, "locale": LOCALE}
        nodes.append(helper.make_node("StringNormalizer", [texts], ["lowered"], **lowered))
        texts = "lowered"
    cut = {"tokenexp": cut_by_operators(settings), "mincharnum": 1, "mark": 0, "pad_value": PADDING}
    nodes.append(helper.make_node("Tokenizer", [texts], ["words"], domain=DOMAIN, **cut))
    grams = sorted(((term.split(" "), column) for column, term in enumerate(vocabulary)), key=lambda g: len(g[0]))
    longest = len(grams[-1][0]) if grams else 1
    sizes = [sum(len(gram) for gram, _ in grams if len(gram) < n) for n in range(1, longest + 1)]
    shortest = len(grams[0][0]) if grams else 1
    lengths = {"min_gram_length": shortest, "max_gram_length": longest, "max_skip_count": 0, "ngram_counts": sizes}
    pool = {"ngram_indexes": [k for _, k in grams], "pool_strings": [word for gram, _ in grams for word in gram]}
    nodes.append(helper.make_node("TfIdfVectorizer", ["words"], ["single_counts"], mode="TF", **lengths, **pool))
    nodes.append(helper.make_node("Cast", ["single_counts"], ["counts"], to=11))  # 11: double
    return nodes


def cut_by_operators(settings: VectorizerSettings) -> str | None:
    r"""Return the RE2 expression of a named token pattern, otherwise None; RE2's own ``\w`` is ASCII only."""
    of_settings = expression_of(settings.token_pattern)
    if of_settings == expression_of(WORDS):
        return "[" + ranges(matching(r"\w")) + "]{2,}"
    return of_settings.replace(SURROGATES, "") if of_settings == expression_of(WORDS_AND_SIGNS) else None


def needed(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or raise SdemError with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise SdemError(f'this export needs {module}: pip install "sdem_dist[{extra}]"') from error


def save_skops(model: Any, path: str | Path, *, from_counts: bool = False) -> None:
    """Write a model as a skops file of a scikit-learn pipeline, see `to_sklearn`; loading it runs no pickled code."""
    skops = needed("skops.io", "skops")
    pipeline = to_sklearn(model, from_counts=from_counts)
    publish_file(path, lambda partial: skops.dump(pipeline, partial, compression=ZIP_DEFLATED), error=ModelError)


def save_onnx(model: Any, path: str | Path, *, from_counts: bool = False) -> None:
    """Write a `MultinomialNB` as an ONNX file, in double precision; its outputs are ``label`` and ``probabilities``.

    If operators of onnxruntime can count words like the model, the input ``texts`` is a string tensor of shape
    (n_documents,). Otherwise (see `why_from_counts`), or with `from_counts`, the input ``counts`` is a double tensor of
    shape (n_documents, n_features). The metadata ``vectorizer`` are the settings of text as JSON, with scikit-learn's
    names, and ``vocabulary`` are the words. Labels are integers or strings: False and True become 0 and 1, and
    fractions become strings.

    Raises ModelError for other models, coefficients that are not finite, and files larger than `LARGEST`.
    """
    onnx = needed("onnx", "onnx")
    if type(model).__name__ != "MultinomialNB":
        raise ModelError(f"ONNX export supports MultinomialNB only; this is a {type(model).__name__}")
    *weighing, (_, linear) = to_sklearn(model, from_counts=True).steps
    coef, intercept = linear.coef_, linear.intercept_
    if len(coef) == 1:  # the second class minus the first
        coef, intercept = np.concatenate([-coef, coef]) / 2.0, np.concatenate([-intercept, intercept]) / 2.0
    metadata = {"vectorizer": model.vectorizer_, "vocabulary": model.vocabulary_}
    entries = {name: json.dumps(value) for name, value in metadata.items() if value is not None}
    size = coef.nbytes + 2 * sum(map(len, entries.values())) + 2**16
    if size > LARGEST:
        sizes = f"the model needs {size / 1e9:.1f} GB, but an ONNX file is limited to {LARGEST / 1e9:.1f} GB"
        raise ModelError(f"{sizes}: train a model with fewer words (min_df, max_features)")
    helper, types = onnx.helper, onnx.TensorProto
    constants, nodes = [], []

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    tensor = helper.make_tensor_value_info("counts", types.DOUBLE, [None, coef.shape[1]])
    domains = {"": OPSET}
    if not (from_counts or why_from_counts(model)):
        nodes += text_nodes(helper, VectorizerSettings.from_json(model.vectorizer_), model.vocabulary_)
        tensor = helper.make_tensor_value_info("texts", types.STRING, [None])
        domains[DOMAIN] = 1
    zero, one, x = constant("zero", np.zeros(1)), constant("one", np.ones(1)), "counts"
    for name, step in weighing:
        if name == "logarithms":
            x = node("Log", [node("Add", [x, one], "raised")], "logarithms")
        elif name == "ones":
            x = node("Where", [node("Greater", [x, zero], "occurs"), one, zero], "ones")
        else:
            if step.sublinear_tf:
                occurs = node("Greater", [x, zero], "occurs")
                logarithm = node("Log", [node("Where", [occurs, x, one], "at_least_one")], "logarithms")
                x = node("Where", [occurs, node("Add", [logarithm, one], "sublinear"), zero], "weights")
            if step.use_idf:
                x = node("Mul", [x, constant("factors", step.idf_)], "multiplied")
            if step.norm == "l2":
                squares = [node("Mul", [x, x], "squared"), constant("columns", np.array([1], np.int64))]
                length = node("Sqrt", [node("ReduceSum", squares, "squares", keepdims=1)], "length")
                divisor = node("Where", [node("Greater", [length, zero], "not_empty"), length, one], "divisor")
                x = node("Div", [x, divisor], "unit")
    products = node("MatMul", [x, constant("coefficients", coef.T)], "products")
    scores = node("Add", [products, constant("intercepts", intercept)], "scores")
    node("Softmax", [scores], "probabilities", axis=1)
    integral, classes = linear.classes_.dtype.kind in "iub", linear.classes_.tolist()
    kind = types.INT64 if integral else types.STRING
    names = [int(c) if integral else str(c).encode() for c in classes]
    constants.append(helper.make_tensor("classes", kind, [len(classes)], names))
    node("Gather", ["classes", node("ArgMax", [scores], "best", axis=1, keepdims=0)], "label", axis=0)
    outputs = [
        helper.make_tensor_value_info("label", kind, [None]),
        helper.make_tensor_value_info("probabilities", types.DOUBLE, [None, len(classes)]),
    ]
    graph = helper.make_graph(nodes, "sdem_dist_MultinomialNB", [tensor], outputs, constants)
    opsets = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    exported = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    helper.set_model_props(exported, entries)
    onnx.checker.check_model(exported)
    publish_file(path, lambda file: onnx.save(exported, file), error=ModelError)
