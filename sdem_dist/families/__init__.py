"""Exponential families: distributions of columns for naive Bayes with dense features, and for custom models."""

from sdem_dist.families.family import Family
from sdem_dist.families.gaussian import Gaussian, GaussianFull
from sdem_dist.families.nonnegative import Bernoulli, Categorical, Exponential, Multinomial, Poisson

__all__ = ["Bernoulli", "Categorical", "Exponential", "Family", "Gaussian", "GaussianFull", "Multinomial", "Poisson"]
