"""Models as files for other programs: skops and ONNX."""

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZIP_DEFLATED

import numpy as np

from sdem_dist.errors import ModelError, SdemError
from sdem_dist.export.linear import LinearClassifier, linear_classifier
from sdem_dist.export.onnx_texts import DOMAIN, text_nodes, why_not_texts
from sdem_dist.export.sklearn import to_sklearn
from sdem_dist.storage.publish import publish_file
from sdem_dist.text.vectorizer import VectorizerSettings

OPSET = 17
LARGEST = 2**31 - 1  # bytes of an ONNX file at most: what Protocol Buffers can hold


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


def why_from_counts(model: Any) -> str:
    """Return why the ONNX file of a model takes counts and not texts; empty where it takes texts."""
    made = model.vectorizer_
    return why_not_texts(None if made is None else VectorizerSettings.from_json(made))


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
    found = linear_classifier(model)
    words = json.dumps(model.vocabulary_)
    of_texts = not from_counts and not why_from_counts(model)
    if (size := found.coef.nbytes + 2 * len(words) + 2**16) > LARGEST:
        raise ModelError(
            f"the model takes {size / 1e9:.1f} GB, and an ONNX file holds {LARGEST / 1e9:.1f} GB at most: train it with fewer "
            "words (min_df, max_features)"
        )
    made = _graph(onnx, found, model if of_texts else None)
    if model.vectorizer_ is not None:
        entry = made.metadata_props.add()
        entry.key, entry.value = "vectorizer", json.dumps(model.vectorizer_)
    if model.vocabulary_ is not None:
        entry = made.metadata_props.add()
        entry.key, entry.value = "vocabulary", words
    onnx.checker.check_model(made)
    publish_file(path, lambda partial: onnx.save(made, partial), error=ModelError)


def _graph(onnx: Any, found: LinearClassifier, counting: Any) -> Any:
    """Return the ONNX model of a linear classifier of counts, or of texts as the model `counting` counts them."""
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    constants, nodes = [], []

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    zero, one, x = constant("zero", np.zeros(1)), constant("one", np.ones(1)), "counts"
    if found.form != "counts":
        positive = node("Greater", [x, zero], "occurs")
        if found.form == "binary":
            x = node("Where", [positive, one, zero], "ones")
        elif found.form == "log":
            x = node("Log", [node("Add", [x, one], "raised")], "logarithms")
        else:
            logarithm = node("Log", [node("Where", [positive, x, one], "at_least_one")], "logarithms")
            x = node("Where", [positive, node("Add", [logarithm, one], "sublinear"), zero], "weights")
    if found.factors is not None:
        x = node("Mul", [x, constant("factors", found.factors)], "multiplied")
    if found.unit:
        axes = constant("columns", np.array([1], np.int64))
        squares = node("ReduceSum", [node("Mul", [x, x], "squared"), axes], "squares", keepdims=1)
        length = node("Sqrt", [squares], "length")
        there = node("Where", [node("Greater", [length, zero], "not_empty"), length, one], "positive_length")
        x = node("Div", [x, there], "unit")
    scores = node("MatMul", [x, constant("coefficients", found.coef.T)], "products")
    scores = node("Add", [scores, constant("intercepts", found.intercept)], "scores")
    node("Softmax", [scores], "probabilities", axis=1)
    classes = found.classes
    whole = classes.dtype.kind in "iub"
    kind = onnx.TensorProto.INT64 if whole else onnx.TensorProto.STRING
    constants.append(
        helper.make_tensor(
            "classes", kind, [len(classes)], [int(c) if whole else str(c).encode() for c in classes.tolist()]
        )
    )
    node("Gather", ["classes", node("ArgMax", ["scores"], "best", axis=1, keepdims=0)], "label", axis=0)
    taken, domains = helper.make_tensor_value_info("counts", double, [None, found.coef.shape[1]]), {"": OPSET}
    if counting is not None:
        nodes = [*text_nodes(helper, VectorizerSettings.from_json(counting.vectorizer_), counting.vocabulary_), *nodes]
        taken = helper.make_tensor_value_info("texts", onnx.TensorProto.STRING, [None])
        domains[DOMAIN] = 1
    graph = helper.make_graph(
        nodes,
        "sdem_dist_MultinomialNB",
        [taken],
        [
            helper.make_tensor_value_info("label", kind, [None]),
            helper.make_tensor_value_info("probabilities", double, [None, len(classes)]),
        ],
        constants,
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)
