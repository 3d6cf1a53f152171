"""Stub."""
import numpy as np
from sklearn.utils.validation import _check_feature_names, _check_n_features, _check_sample_weight


def check_sample_weight(w, X):
    return _check_sample_weight(w, X, dtype=np.float64, ensure_non_negative=True)


check_feature_names, check_n_features = _check_feature_names, _check_n_features
