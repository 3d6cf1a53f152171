"""Models as files for other programs: skops, and ONNX with operators that cut texts into words."""

import json
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZIP_DEFLATED

import numpy as np

from sdem_dist.errors import ModelError, SdemError
from sdem_dist.export.sklearn import LinearClassifier, linear_classifier, to_sklearn
from sdem_dist.storage.publish import publish_file
from sdem_dist.text.vectorizer import TOKEN_PATTERN, VectorizerSettings, stopped_words

OPSET = 17
LARGEST = 2**31 - 1  # bytes of an ONNX file at most: what Protocol Buffers can hold
DOMAIN = "com.microsoft"  # of the operator that cuts texts, which only onnxruntime has
LOCALE = "C.UTF-8"
"""Of the operator for lower case. It must be there where the file is used; most Linux systems have it, Windows not."""
PADDING = "#"
"""No word: fills the rows of texts that are shorter than others."""


def why_from_counts(model: Any) -> str:
    """Return why the ONNX file of a model takes counts: no operator counts texts as it does; empty where one can.

    Operators count as the model does, but for two letters: İ (U+0130), which Python lowers to two letters, and a
    capital sigma at the end of a word, which Python lowers to another letter than elsewhere.
    """
    if model.vectorizer_ is None or model.vectorizer_["kind"] == "matrix":
        return "the model was trained on counts"
    settings = VectorizerSettings.from_json(model.vectorizer_)
    several = settings.ngram_range[1] > 1
    obstacles = {
        "no operator hashes words as the model does": settings.kind == "hashing",
        "no operator stems words": settings.stem is not None,
        "no operator cuts texts into n-grams of characters as the model does": settings.analyzer != "word",
        "no operator strips accents": settings.strip_accents is not None,
        "the token pattern is not the default one, and operators know other regular expressions than Python's": (
            settings.token_pattern != TOKEN_PATTERN
        ),
        "no operator leaves stop words out before it makes n-grams": several and bool(stopped_words(settings)),
    }
    return next((reason for reason, applies in obstacles.items() if applies), "")


def text_nodes(helper: Any, settings: VectorizerSettings, vocabulary: Sequence[str]) -> list[Any]:
    """Return the nodes from ``texts`` to ``counts``; `helper` is that of the package onnx."""
    nodes, texts = [], "texts"
    if settings.lowercase:
        lowered = {"case_change_action": "LOWER", "is_case_sensitive": 1, "locale": LOCALE}
        nodes.append(helper.make_node("StringNormalizer", [texts], ["lowered"], **lowered))
        texts = "lowered"
    cut = {"tokenexp": f"[{word_characters()}]{{2,}}", "mincharnum": 1, "mark": 0, "pad_value": PADDING}
    nodes.append(helper.make_node("Tokenizer", [texts], ["words"], domain=DOMAIN, **cut))
    grams = sorted(((term.split(" "), column) for column, term in enumerate(vocabulary)), key=lambda g: len(g[0]))
    longest = max((len(gram) for gram, _ in grams), default=1)
    sizes = [sum(len(gram) for gram, _ in grams if len(gram) < n) for n in range(1, longest + 1)]
    counted = {
        "mode": "TF",
        "min_gram_length": min((len(gram) for gram, _ in grams), default=1),
        "max_gram_length": longest,
        "max_skip_count": 0,
        "ngram_counts": sizes,
        "ngram_indexes": [column for _, column in grams],
        "pool_strings": [word for gram, _ in grams for word in gram],
    }
    nodes.append(helper.make_node("TfIdfVectorizer", ["words"], ["single_counts"], **counted))
    nodes.append(helper.make_node("Cast", ["single_counts"], ["counts"], to=11))  # to double
    return nodes


@lru_cache(1)
def word_characters() -> str:
    r"""Return the letters that Python's ``\w`` matches, as ranges of a class of RE2, whose own ``\w`` is ASCII only."""
    is_word = re.compile(r"\w").match
    letters = (code for code in range(sys.maxunicode + 1) if is_word(chr(code)))
    runs = (list(run) for _, run in groupby(enumerate(letters), lambda pair: pair[1] - pair[0]))
    return "".join(rf"\x{{{run[0][1]:x}}}-\x{{{run[-1][1]:x}}}" for run in runs)


def needed(module: str, extra: str) -> ModuleType:
    """Import a module of an extra, or raise SdemError with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise SdemError(f'this needs {module}: pip install "sdem_dist[{extra}]"') from error


def save_skops(model: Any, path: str | Path, *, from_counts: bool = False) -> None:
    """Write a model as the skops file of a scikit-learn pipeline, see `to_sklearn`; loading it runs no pickled code."""
    skops = needed("skops.io", "skops")
    pipeline = to_sklearn(model, from_counts=from_counts)
    publish_file(path, lambda partial: skops.dump(pipeline, partial, compression=ZIP_DEFLATED), error=ModelError)


def save_onnx(model: Any, path: str | Path, *, from_counts: bool = False) -> None:
    """Write a `MultinomialNB` as an ONNX file, in double precision; its outputs are ``label`` and ``probabilities``.

    The input ``texts`` is a tensor of strings, of shape (n_documents,), where operators of onnxruntime count words as
    the model does. Else, and with `from_counts`, the input ``counts`` is a double tensor of shape (n_documents,
    n_features): `why_from_counts` says why. The metadata entry ``vectorizer`` holds how texts are counted, as JSON,
    with scikit-learn's names, and ``vocabulary`` the words.

    ONNX's labels are whole numbers or texts: False and True become 0 and 1; classes that are fractions become texts.

    Raises ModelError: the model is another, has no finite coefficients, or is larger than an ONNX file can be,
    `LARGEST`.
    """
    onnx = needed("onnx", "onnx")
    if type(model).__name__ != "MultinomialNB":
        raise ModelError(f"an ONNX file is written of a MultinomialNB; this is a {type(model).__name__}")
    linear = linear_classifier(model)
    metadata = {"vectorizer": model.vectorizer_, "vocabulary": model.vocabulary_}
    entries = {name: json.dumps(value) for name, value in metadata.items() if value is not None}
    size = linear.coef.nbytes + 2 * sum(map(len, entries.values())) + 2**16
    if size > LARGEST:
        raise ModelError(
            f"the model takes {size / 1e9:.1f} GB, and an ONNX file holds {LARGEST / 1e9:.1f} GB at most: train it with fewer "
            "words (min_df, max_features)"
        )
    graph = _graph(onnx, linear, None if from_counts or why_from_counts(model) else model)
    onnx.helper.set_model_props(graph, entries)
    onnx.checker.check_model(graph)
    publish_file(path, lambda partial: onnx.save(graph, partial), error=ModelError)


def _graph(onnx: Any, linear: LinearClassifier, counting: Any) -> Any:
    """Return the ONNX model of a linear classifier of counts, or of texts as the model `counting` counts them."""
    helper, types = onnx.helper, onnx.TensorProto
    constants, nodes = [], []

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    tensor, domains = (
        helper.make_tensor_value_info("counts", types.DOUBLE, [None, linear.coef.shape[1]]),
        {"": OPSET},
    )
    if counting is not None:
        nodes += text_nodes(helper, VectorizerSettings.from_json(counting.vectorizer_), counting.vocabulary_)
        tensor = helper.make_tensor_value_info("texts", types.STRING, [None])
        domains[DOMAIN] = 1
    zero, one, x = constant("zero", np.zeros(1)), constant("one", np.ones(1)), "counts"
    if linear.form == "log":
        x = node("Log", [node("Add", [x, one], "raised")], "logarithms")
    elif linear.form in ("binary", "tfidf"):
        occurs, weight = node("Greater", [x, zero], "occurs"), one
        if linear.form == "tfidf":
            logarithm = node("Log", [node("Where", [occurs, x, one], "at_least_one")], "logarithms")
            weight = node("Add", [logarithm, one], "sublinear")
        x = node("Where", [occurs, weight, zero], "weights")
    if linear.factors is not None:
        x = node("Mul", [x, constant("factors", linear.factors)], "multiplied")
    if linear.unit:
        squares = [node("Mul", [x, x], "squared"), constant("columns", np.array([1], np.int64))]
        length = node("Sqrt", [node("ReduceSum", squares, "squares", keepdims=1)], "length")
        x = node(
            "Div", [x, node("Where", [node("Greater", [length, zero], "not_empty"), length, one], "divisor")], "unit"
        )
    products = node("MatMul", [x, constant("coefficients", linear.coef.T)], "products")
    scores = node("Add", [products, constant("intercepts", linear.intercept)], "scores")
    node("Softmax", [scores], "probabilities", axis=1)
    integral, classes = linear.classes.dtype.kind in "iub", linear.classes.tolist()
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
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)
