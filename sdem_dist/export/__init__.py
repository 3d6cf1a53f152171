"""Models for places where this package is not: scikit-learn pipelines, skops files, ONNX."""
